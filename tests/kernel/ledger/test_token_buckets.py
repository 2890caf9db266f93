"""Laws of quotas (G11): exact against a naive model; `retry_after` is sufficient and tight."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from placet.kernel.ledger.token_buckets import charge, charges_on
from placet.schemas.config import FULL_BURST_NS_MAX, Quota
from placet.schemas.limits import SECOND_NS
from tests.kernel.builders import add, checked, intent, kernel_of, reused

RATES = [0.3, 1, 3, 7.5, 1000, 333_333.0]


def batch_of(count, prefix, kind="Add", agent_id="alice"):
    return [intent(kind, {"amount": 0}, f"{prefix}.{n}", agent_id=agent_id) for n in range(count)]


class Bucket:
    """The law in fractions: no window that ends now exceeds burst + rate * length."""

    def __init__(self, rate: float, burst: int) -> None:
        self.interval = Fraction(Quota.of({"rate": rate, "burst": burst}).interval_ns)
        self.burst = burst
        self.admitted: list[tuple[int, int]] = []

    def passes(self, now: int, count: int) -> bool:
        """Any window [t, now] may hold burst + (now - t) / interval intents."""
        total = count
        if total > self.burst:
            return False
        for then, earlier in reversed(self.admitted):
            total += earlier
            if total > self.burst + (now - then) / self.interval:
                return False
        return True

    def admit(self, now: int, count: int) -> None:
        self.admitted.append((now, count))


ASKS = st.lists(
    st.tuples(st.integers(0, 4 * SECOND_NS) | st.integers(0, 50), st.integers(1, 5)),
    min_size=1,
    max_size=25,
)


@pytest.mark.parametrize("whose", ["a kind's", "an agent's", "its own", "the world's"])
@given(rate=st.sampled_from(RATES), burst=st.integers(1, 6), asks=ASKS)
def test_admission_by_quota_is_exactly_that_of_the_model(whose, rate, burst, asks):
    """admitted(batch) <=> no interval has more than burst + rate * length."""
    limit = {"rate": rate, "burst": burst}
    quotas: dict[str, Any] = {"a kind's": {"Add": limit}, "an agent's": {"*": limit}}
    kernel, _ = reused(
        agents=("bob",),
        quotas=quotas.get(whose, {}),
        world_quota=limit if whose == "the world's" else None,
    )
    kernel.register_agent("alice", quotas={"Add": limit} if whose == "its own" else {})
    model = Bucket(rate, burst)
    now = 0
    for number, (wait, count) in enumerate(asks):
        now += wait
        batch = checked(kernel, batch_of(count, number))
        ((_, verdict),) = kernel.decide_checked([batch], now).answers
        assert verdict.admitted is model.passes(now, count)
        if verdict.admitted:
            model.admit(now, count)
        else:
            assert {refusal.stage for refusal in verdict.refusals} == {"quota"}
            assert len(verdict.refusals) == count


@given(asks=ASKS, rate=st.sampled_from(RATES), own=st.sampled_from(RATES), burst=st.integers(2, 5))
@example(asks=[(0, 2), (0, 2)], rate=1, own=0.3, burst=2)
def test_waiting_for_retry_after_is_enough_and_a_hundredth_less_is_not(asks, rate, own, burst):
    """retry_after is the least wait after which the batch passes every quota there is."""
    quotas = {"Add": {"rate": rate, "burst": burst}, "*": {"rate": 5, "burst": 6}}
    world_quota = {"rate": 4, "burst": 7}
    kernel, _ = reused(quotas=quotas, world_quota=world_quota, agents=("bob",))
    kernel.register_agent("alice", quotas={"Add": {"rate": own, "burst": 4}})
    now = 0.0
    for number, (wait, count) in enumerate(asks):
        now += wait / SECOND_NS
        batch = batch_of(count, number)
        verdict = kernel.decide(batch, now)
        if verdict.admitted:
            continue
        waits = {refusal.retry_after for refusal in verdict.refusals}
        assert len(waits) == 1
        (retry_after,) = waits
        if retry_after is None:
            assert "batch_exceeds_burst" in verdict.codes
            assert not kernel.decide(batch, now + 1e6).admitted
            return
        before = kernel.mark()
        assert not kernel.decide(batch, now + retry_after * 0.99 - 1e-9).admitted
        kernel.rollback(before)
        assert kernel.decide(batch, now + retry_after).admitted
        kernel.rollback(before)


@given(start=st.floats(0, 4.6e9), rate=st.sampled_from(RATES), asks=st.integers(1, 5))
@example(start=20_000_000.1, rate=7.5, asks=1)
def test_a_float_of_now_and_retry_after_is_never_too_early(start, rate, asks):
    """Also where a float of seconds cannot hold nanoseconds; time ends at 4.6e9 s."""
    kernel, _ = reused(quotas={"Add": {"rate": rate, "burst": 5}})
    assert kernel.decide(batch_of(5, "a"), start).admitted
    refused = kernel.decide(batch_of(asks, "b"), start)
    retry_after = refused.refusals[0].retry_after
    assert retry_after is not None
    for now in (start, refused.sim_time):
        before = kernel.mark()
        assert kernel.decide(batch_of(asks, "b"), now + retry_after).admitted
        kernel.rollback(before)


def test_a_refused_batch_is_charged_to_no_quota():
    kernel, _ = reused(
        quotas={"Add": {"rate": 1, "burst": 1}, "Put": {"rate": 1, "burst": 9}},
        world_quota={"rate": 1, "burst": 3},
    )
    put = {"thing": "a", "field": "f"}
    assert kernel.decide([add("a"), intent("Put", put, "b")]).admitted
    for number in range(20):
        refused = [add(f"c{number}"), intent("Put", put, f"d{number}")]
        assert kernel.decide(refused).codes == (
            "quota_exceeded",
            "quota_exceeded",
            "quota_exceeded",
        )
        assert not kernel.decide(intent("Fail", {"how": "raise"}, f"e{number}")).admitted
        assert not kernel.decide({"intents": [intent("Put", put, "f")], "dry_run": True}).refusals
    assert kernel.decide(intent("Put", put, "g")).admitted
    assert kernel.decide(intent("Put", put, "h")).codes == ("quota_exceeded",)


def test_kinds_and_agents_do_not_block_each_other():
    kernel, _ = reused(quotas={"Add": {"rate": 1, "burst": 1}})
    assert kernel.decide(add("a")).admitted
    assert kernel.decide(add("b")).codes == ("quota_exceeded",)
    assert kernel.decide(intent("Clamp", {"amount": 1}, "c")).admitted
    assert kernel.decide(add("d", agent_id="bob")).admitted


def test_several_intents_of_one_agent_and_kind_are_charged_as_a_sum():
    kernel, _ = reused(quotas={"Add": {"rate": 1, "burst": 3}})
    assert kernel.decide([add("a"), add("b", agent_id="bob"), add("c")]).admitted
    refused = kernel.decide([add("d"), add("e")])
    assert refused.codes == ("quota_exceeded", "quota_exceeded")
    assert refused.refusals[0].retry_after == 1.0
    assert kernel.decide([add("d", agent_id="bob"), add("e", agent_id="bob")]).admitted


def test_an_agents_quota_applies_besides_the_worlds():
    kernel, _ = reused(quotas={"Add": {"rate": 10, "burst": 9}})
    slow = {"Add": {"rate": 1, "burst": 1}, "*": {"rate": 1, "burst": 2}}
    kernel.register_agent("slow", quotas=slow)
    assert kernel.decide(add("a", agent_id="slow")).admitted
    assert kernel.decide(add("b", agent_id="slow")).refusals[0].message == (
        "agent 'slow' may propose Add once in 1 s, 1 at once; retry in 1.00 s"
    )
    assert kernel.decide(intent("Clamp", {"amount": 1}, "c", agent_id="slow")).admitted
    assert kernel.decide(intent("Clamp", {"amount": 1}, "d", agent_id="slow")).refusals[
        0
    ].message == ("agent 'slow' may propose once in 1 s, 2 at once; retry in 1.00 s")


def test_a_batch_beyond_the_burst_has_no_retry_after():
    kernel, _ = reused(quotas={"Add": {"rate": 1, "burst": 1}, "Clamp": {"rate": 1, "burst": 1}})
    kernel.decide(intent("Clamp", {"amount": 1}, "z"))
    verdict = kernel.decide([intent("Clamp", {"amount": 1}, "y"), add("a"), add("b")])
    assert verdict.codes == ("quota_exceeded", "batch_exceeds_burst", "batch_exceeds_burst")
    assert {refusal.retry_after for refusal in verdict.refusals} == {None}
    assert verdict.refusals[0].message == (
        "agent 'alice' may propose Clamp once in 1 s, 1 at once; the batch can never pass for "
        "another quota; split it"
    )


def test_time_that_goes_back_refills_no_quota():
    kernel, _ = reused(quotas={"Add": {"rate": 1, "burst": 1}})
    assert kernel.decide(add("a"), 10.0).admitted
    assert not kernel.decide(add("b"), 5.0).admitted
    assert kernel.sim_time == 10.0
    assert kernel.decide(add("b"), 11.0).admitted


@given(interval_ns=st.floats(1, FULL_BURST_NS_MAX))
@example(1e9)
@example(36 * 86_400 * 1e9)
@example(129 * 86_400 * 1e9)
def test_a_quota_spec_is_read_back_unchanged(interval_ns):
    """A verification registers the agent again with the quota in its record."""
    known = Quota.of({"rate": SECOND_NS / interval_ns, "burst": 1})
    assert Quota.of(known.spec()) == known


@given(interval_ns=st.integers(1, FULL_BURST_NS_MAX))
@example(2**53 + 1)
@example(FULL_BURST_NS_MAX - 1)
def test_an_interval_without_a_rate_shows_the_next_shorter(interval_ns):
    told = Quota.of(Quota(interval_ns, 1).spec()).interval_ns
    assert told <= interval_ns <= told + interval_ns // 2**50


@given(rate=st.floats(1e-9, 1e9), burst=st.integers(1, 1000))
def test_the_interval_is_never_shorter_than_the_rate_allows(rate, burst):
    if burst / rate > FULL_BURST_NS_MAX / SECOND_NS * 0.99:
        return
    quota = Quota.of({"rate": rate, "burst": burst})
    assert Fraction(SECOND_NS) / quota.interval_ns <= Fraction(rate) * (1 + Fraction(1, 10**15))
    assert quota.interval_ns - 1 < SECOND_NS / rate
    assert quota.burst == burst


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({}, "a quota is {'rate': per second, 'burst': count}"),
        ({"rate": 1, "burst": 1, "per": 2}, "a quota is"),
        ({"rate": True, "burst": 1}, "a quota is"),
        ({"rate": "1", "burst": 1}, "a quota is"),
        ({"rate": 0, "burst": 1}, "rate must be > 0"),
        ({"rate": float("nan"), "burst": 1}, "rate must be > 0"),
        ({"rate": 10**400, "burst": 1}, "rate must be > 0"),
        ({"rate": 2e9, "burst": 1}, "rate must be > 0"),
        ({"rate": 1, "burst": 0}, "burst must be an int >= 1"),
        ({"rate": 1, "burst": 1.0}, "burst must be an int >= 1"),
        ({"rate": 1, "burst": True}, "burst must be an int >= 1"),
        ({"rate": 1, "burst": 10**400}, "must be earned within"),
        ({"rate": 5e-324, "burst": 1}, "must be earned within"),
        ({"rate": 1e-3, "burst": 10**9}, "must be earned within"),
    ],
)
def test_an_invalid_quota_is_refused_at_the_start(spec: dict[str, Any], why):
    with pytest.raises(ValueError, match=why):
        kernel_of(quotas={"Add": spec})
    with pytest.raises(ValueError, match=why):
        kernel_of(world_quota=spec)
    kernel, _ = reused()
    before = kernel.snapshot()
    with pytest.raises(ValueError, match=why):
        kernel.register_agent("carol", quotas={"Add": spec})
    assert kernel.snapshot() == before


def test_a_dry_run_is_not_charged_and_a_replay_computes_its_own_charges():
    kernel = kernel_of(quotas={"Add": {"rate": 1, "burst": 9}})
    preview = kernel.decide({"intents": batch_of(3, "preview"), "dry_run": True})
    ledger = kernel.ledger
    charge(ledger, charges_on(checked(kernel, batch_of(2, "replayed")), ledger, 0))
    assert preview.admitted
    assert ledger.agents["alice"].tats == {"Add": 2 * SECOND_NS}
