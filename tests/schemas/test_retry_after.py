"""The law of `retry_after`: now + wait is not too early, also as floats, and not much too late."""

from math import inf, nextafter, ulp

from hypothesis import example, given
from hypothesis import strategies as st

from placet.schemas.limits import SECOND_NS
from placet.schemas.refusal import seconds_until

NOWS = st.integers(0, 2**62 - 1) | st.integers(0, 62).map(lambda bits: (1 << bits) - 1)
WAITS_NS = st.integers(0, 60 * SECOND_NS) | st.integers(0, 2**62)


@given(now_ns=NOWS, wait_ns=WAITS_NS)
@example(now_ns=20_000_000 * SECOND_NS + 3, wait_ns=SECOND_NS)
def test_now_plus_retry_after_reaches_the_moment_and_little_more(now_ns, wait_ns):
    seconds = seconds_until(now_ns + wait_ns, now_ns)
    exact, now = wait_ns / SECOND_NS, now_ns / SECOND_NS
    nows = (nextafter(now, -inf), now, nextafter(now, inf))
    for start in (one for one in nows if round(one * SECOND_NS) == now_ns):
        assert round((start + seconds) * SECOND_NS) >= now_ns + wait_ns
    assert round(seconds * SECOND_NS) >= round(exact * SECOND_NS)
    assert seconds - exact <= 3 * ulp(now + exact)


@given(now_ns=st.integers(0, 1_000_000 * SECOND_NS), wait_ns=st.integers(0, 60 * SECOND_NS))
def test_retry_after_is_exact_where_a_float_holds_nanoseconds(now_ns, wait_ns):
    assert seconds_until(now_ns + wait_ns, now_ns) == wait_ns / SECOND_NS
