"""How long to wait, told in seconds to those who count time in floats."""

from math import inf, nextafter, ulp

from placet.schemas.limits import SECOND_NS


def seconds_until(due_ns: int, now_ns: int) -> float:
    """Return the wait after which a moment is reached, also where it is added to a float of now.

    From some 10⁶ s on a float of seconds has no place for nanoseconds: the sum would fall short,
    and whoever comes back at it would be too early. The wait is then longer by at most three
    steps of such a float: a step is 2 ns at 10⁷ s, and 1 µs where time ends.
    """
    seconds, now = (due_ns - now_ns) / SECOND_NS, now_ns / SECOND_NS
    before = nextafter(now, -inf)
    if round(before * SECOND_NS) == now_ns:  # that is now too, and the earlier of its floats
        now = before
    while round((now + seconds) * SECOND_NS) < due_ns:
        seconds += ulp(now + seconds)
    return seconds
