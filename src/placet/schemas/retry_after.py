"""The retry delay in seconds, for callers that represent time as floats."""

from math import inf, nextafter, ulp

from placet.schemas.limits import SECOND_NS


def seconds_until(due_ns: int, now_ns: int) -> float:
    """Return the wait after which a moment is reached, also where it is added to a float of now.

    Above about 10⁶ s a float of seconds cannot represent nanoseconds: the sum would be too small,
    and a retry at it too early. The delay is then longer by at most three steps of such a float: a
    step is 2 ns at 10⁷ s, and 1 µs at the end of time.
    """
    seconds, now = (due_ns - now_ns) / SECOND_NS, now_ns / SECOND_NS
    before = nextafter(now, -inf)
    if round(before * SECOND_NS) == now_ns:  # that is now too, and the earlier of its floats
        now = before
    while round((now + seconds) * SECOND_NS) < due_ns:
        seconds += ulp(now + seconds)
    return seconds
