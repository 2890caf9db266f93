"""Laws of work (G12): counted in units, bounded per batch and group, charged at an exact rate."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypedDict

from placet.kernel import Domain, Kernel, KernelConfig, Kind, refuse
from placet.kernel.log.replay import Replayer
from placet.kernel.log.verify import Verifier
from placet.kernel.plugin.domain import RuleRefusal
from placet.kernel.state.draft import Draft
from placet.kernel.state.draft_errors import WorkExceeded
from placet.schemas.config import Quota
from placet.schemas.intent import Intent
from placet.schemas.limits import INTENT_WORK, SECOND_NS, UNLIMITED, Limits
from placet.schemas.log.record import AdmittedWithWork, Configured, decode_record, encode_record
from tests.kernel.builders import checked, intent, trace

MAX = 1_000
"""`batch_work_max` of these worlds."""

DEFAULTS = {"batch_work_max": 10 * MAX, "batch_intents_max": 512}
"""Limits that intents and bytes alone cannot exceed, so that only charges are checked."""

JOBS = "toil.jobs"


class Units(TypedDict):
    units: int


class Toil(Domain):
    """Kinds whose work is declared, charged by the rule, or both; `calls` counts rules run."""

    name = "toil"
    version = "1"

    def __init__(self) -> None:
        self.calls = 0
        self.kinds = (
            Kind("Charge", Units, self.charge),
            Kind("Declare", Units, self.note, work=lambda payload: int(payload["units"])),
            Kind("Fixed", Units, self.note, work=100),
            Kind("Swallow", Units, self.swallow),
            Kind("Wrong", Units, lambda draft, _: draft.charge(0.5)),  # type: ignore[arg-type]
            Kind("Negative", Units, lambda draft, _: draft.charge(-1)),
            Kind("Refuse", Units, self.refuse),
        )

    def on_open(self, draft: Draft) -> None:
        draft.create(JOBS, "all", {"done": 0})
        draft.charge(10 * MAX)  # outside of a batch there is no limit

    def note(self, draft: Draft, _intent: Intent) -> None:
        self.calls += 1
        draft.put(JOBS, "all", "done", draft.get(JOBS, "all", "done") + 1)

    def charge(self, draft: Draft, intent: Intent) -> None:
        self.note(draft, intent)
        draft.charge(intent["payload"]["units"])

    def swallow(self, draft: Draft, intent: Intent) -> None:
        try:
            self.charge(draft, intent)
        except WorkExceeded:
            draft.put(JOBS, "all", "done", -1)

    def refuse(self, draft: Draft, intent: Intent) -> RuleRefusal:
        self.charge(draft, intent)
        return refuse("no", "not today")


class Finishing(Toil):
    """Work that only the hook of the whole batch charges."""

    def on_batch(self, draft: Draft) -> None:
        draft.charge(10 * MAX)


def toil(domain: Toil | None = None, *, sink: list[bytes] | None = None, **config: Any) -> Kernel:
    limits = Limits(**{"batch_work_max": MAX, "batch_intents_max": 50, **config.pop("limits", {})})
    kernel = Kernel(
        domain or Toil(),
        KernelConfig(limits=limits, **config),
        sink=None if sink is None else sink.append,
    )
    kernel.register_agent("alice")
    kernel.register_agent("bob")
    return kernel


def job(kind: str, units: int, req_id: str = "r", **fields: Any) -> dict[str, Any]:
    return intent(kind, {"units": units}, req_id, **fields)


JOBS_OF_A_BATCH = st.lists(
    st.tuples(st.sampled_from(["Charge", "Declare"]), st.integers(0, 400)), min_size=1, max_size=6
)


@given(jobs=JOBS_OF_A_BATCH)
def test_a_batch_passes_exactly_if_all_of_its_work_is_within_the_limit(jobs):
    """Admitted <=> units of intents + declared + charged <= batch_work_max; else no trace."""
    kernel = toil()
    before = trace(kernel)
    verdict = kernel.decide([job(kind, units, f"r:{n}") for n, (kind, units) in enumerate(jobs)])
    needed = len(jobs) * INTENT_WORK + sum(units for _, units in jobs)
    assert verdict.admitted is (needed <= MAX)
    if not verdict.admitted:
        (found,) = verdict.refusals
        assert (found.code, found.stage.value) == ("work_exceeded", "quota")
        assert (found.retry_after, found.details["limit"]) == (None, MAX)
        assert trace(kernel) == before


def test_a_batch_refused_for_work_is_not_remembered():
    kernel = toil()
    assert kernel.decide(job("Charge", MAX)).codes == ("work_exceeded",)
    assert kernel.verdict_of("alice", "r") is None
    assert kernel.decide(job("Charge", MAX // 2)).admitted


def test_the_refusal_names_the_intent_that_reached_the_limit():
    batch = [job("Fixed", 0, f"r:{n}") for n in range(12)]
    (found,) = toil().decide(batch).refusals
    assert found.index == 9  # the tenth hundred, and 12 times the units of an intent
    assert found.details["kind"] == "Fixed"


def test_a_rule_that_swallows_the_exception_is_refused_all_the_same():
    for limits in ({}, DEFAULTS):
        kernel = toil(limits=limits)
        before = trace(kernel)
        assert kernel.decide(job("Swallow", 20 * MAX)).codes == ("work_exceeded",)
        assert trace(kernel) == before


def test_the_hook_of_a_batch_counts_as_the_batch():
    for limits in ({}, DEFAULTS):
        kernel = toil(Finishing(), limits=limits)
        assert kernel.decide(job("Charge", 0)).codes == ("work_exceeded",)


def test_work_that_is_no_count_is_a_fault_of_the_rule():
    assert toil().decide(job("Wrong", 0)).codes == ("rule_error",)
    assert toil().decide(job("Negative", 0)).codes == ("rule_error",)


def test_intents_and_bytes_alone_are_within_the_limit_or_refused():
    limits = {"batch_work_max": 3 * INTENT_WORK}
    assert toil(limits=limits).decide([job("Charge", 0, f"r:{n}") for n in range(3)]).admitted
    refused = toil(limits=limits).decide([job("Charge", 0, f"r:{n}") for n in range(4)])
    assert refused.codes == ("work_exceeded",)


def test_rules_stop_at_the_last_refusal_that_is_listed():
    domain = Toil()
    kernel = toil(domain, limits={"refusals_listed_max": 4})
    verdict = kernel.decide([job("Refuse", 1, f"r:{n}") for n in range(20)])
    assert (len(verdict.refusals), domain.calls) == (4, 4)


def test_refusals_found_before_the_limit_stay_the_answer():
    """The first refusal has a reason of its own, which the limit must not hide."""
    verdict = toil().decide([job("Refuse", 600, "a"), job("Refuse", 600, "b")])
    assert verdict.codes == ("toil.no",)


# groups


@given(
    units=st.lists(st.integers(0, 900), min_size=1, max_size=8),
    work_max=st.integers(0, 2_000),
)
def test_a_group_ends_after_the_batch_that_uses_up_its_work(units, work_max):
    """No batch is decided once the rules of the group have charged more than `work_max`."""
    kernel = toil()
    batches = [checked(kernel, job("Charge", n, f"r:{k}")) for k, n in enumerate(units)]
    spent_of = dict(zip(batches, units, strict=True))
    todo, seen = batches, []
    while todo:
        decision = kernel.decide_checked(todo, 0, work_max=work_max)
        spent = [spent_of[batch] for batch, _ in decision.answers]
        assert spent
        assert sum(spent[:-1]) <= work_max
        assert not decision.undecided or sum(spent) > work_max
        seen += [batch for batch, _ in decision.answers]
        todo = list(decision.undecided)
    assert sorted(map(id, seen)) == sorted(map(id, batches))


# the rate


class Bucket:
    """The law in fractions: no window that ends now has more than burst + rate * length."""

    def __init__(self, quota: dict[str, Any]) -> None:
        self.interval = Fraction(Quota.of(quota).interval_ns)
        self.burst = quota["burst"]
        self.admitted: list[tuple[int, int]] = []

    def passes(self, now: int, units: int) -> bool:
        total = units
        if total > self.burst:
            return False
        for then, earlier in reversed(self.admitted):
            total += earlier
            if total > self.burst + (now - then) / self.interval:
                return False
        return True


ASKS = st.lists(
    st.tuples(st.integers(0, SECOND_NS), st.integers(0, 900), st.sampled_from(["alice", "bob"])),
    min_size=1,
    max_size=12,
)
QUOTA = st.fixed_dictionaries(
    {"rate": st.sampled_from([0.5, 100, 333.3, 5_000]), "burst": st.integers(50, 1_500)}
)


@given(asks=ASKS, agent=QUOTA, world=QUOTA)
def test_work_is_admitted_exactly_at_its_rates_and_retry_after_is_tight(asks, agent, world):
    """Admitted <=> all windows hold the units; `retry_after` is the least wait until they do."""
    kernel = toil(quotas={"work:agent": agent, "work:world": world})
    own = {name: Bucket(agent) for name in ("alice", "bob")}
    of_all = Bucket(world)
    now = 0
    for number, (wait, units, name) in enumerate(asks):
        now += wait
        total = units + INTENT_WORK
        if total > MAX:
            continue
        batch = checked(kernel, job("Charge", units, f"r:{number}", agent_id=name))
        ((_, verdict),) = kernel.decide_checked([batch], now).answers
        buckets = (own[name], of_all)
        passes = all(bucket.passes(now, total) for bucket in buckets)
        assert verdict.admitted is passes
        if passes:
            for bucket in buckets:
                bucket.admitted.append((now, total))
            continue
        (found,) = verdict.refusals
        if found.retry_after is None:
            assert any(total > bucket.burst for bucket in buckets)
            continue
        # Only intents and bytes are known before the rules; then the wait is for those.
        known = found.details["value"]
        wait_ns = round(found.retry_after * SECOND_NS)
        assert all(bucket.passes(now + wait_ns, known) for bucket in buckets)
        less = now + wait_ns * 99 // 100 - 1
        assert less < now or not all(bucket.passes(less, known) for bucket in buckets)


def test_a_quota_of_work_of_one_agent_is_refused():
    with pytest.raises(ValueError, match="work:agent"):
        toil().register_agent("carol", quotas={"work:agent": {"rate": 1, "burst": 1}})


# dry runs, records, replay


@given(jobs=JOBS_OF_A_BATCH)
def test_a_dry_run_uses_the_units_that_the_batch_is_charged(jobs):
    log: list[bytes] = []
    kernel = toil(sink=log, quotas={"work:agent": {"rate": 1e9, "burst": 10**9}})
    batch = [job(kind, units, f"r:{n}") for n, (kind, units) in enumerate(jobs)]
    rehearsal = checked(kernel, {"intents": batch, "dry_run": True})
    before = trace(kernel)
    decision = kernel.decide_checked([rehearsal], 0)
    assert trace(kernel) == before
    ((submitter, log_bytes, units),) = decision.unpaid
    assert (submitter, log_bytes) == ("alice", 0)
    ((_, verdict),) = kernel.decide_checked([checked(kernel, batch)], 0).answers
    assert verdict.admitted is decision.answers[0][1].admitted
    if verdict.admitted:
        record = decode_record(log[-1])
        assert isinstance(record, AdmittedWithWork)
        assert units == record.work == len(jobs) * INTENT_WORK + sum(n for _, n in jobs)


def test_a_refused_batch_is_unpaid_with_its_record_and_its_work():
    log: list[bytes] = []
    kernel = toil(sink=log)
    decision = kernel.decide_checked([checked(kernel, job("Refuse", 300))], 0)
    assert decision.unpaid == [("alice", len(log[-1]), 300 + INTENT_WORK)]
    decision = kernel.decide_checked([checked(kernel, job("Charge", 2 * MAX, "s"))], 0)
    ((_, log_bytes, units),) = decision.unpaid
    assert log_bytes == 0
    assert units >= MAX
    assert not kernel.decide_checked([checked(kernel, job("Charge", 1, "t"))], 0).unpaid


def test_a_repeated_batch_is_unpaid_without_the_work_of_its_rules():
    kernel = toil()
    for expected in ([], [("alice", 0, INTENT_WORK)]):
        batch = checked(kernel, job("Charge", 300))
        assert kernel.decide_checked([batch], 0).unpaid == expected


@given(asks=ASKS)
def test_a_log_with_quotas_of_work_replays_and_verifies(asks):
    """Folding the log, and deciding it again, lead to the same ledger and the same records."""
    log: list[bytes] = []
    quotas = {
        "work:agent": {"rate": 500, "burst": 1_000},
        "work:world": {"rate": 700, "burst": 1_500},
    }
    kernel = toil(sink=log, quotas=quotas)
    now = 0
    for number, (wait, units, name) in enumerate(asks):
        now += wait
        body = [job("Charge", units, f"r:{number}", agent_id=name)]
        when = {"sim_time": (now + 5) / SECOND_NS} if units % 7 == 0 else {}
        kernel.decide_checked([checked(kernel, {"intents": body, **when})], now)
    past = Replayer()
    for data in log:
        past.apply(data)
    again = Kernel(Toil(), kernel.config, history=past)
    assert again.world_digest() == kernel.world_digest()
    verifier = Verifier([Toil()])
    for data in log:
        verifier.apply(data)  # raises at the first record that is decided otherwise
    assert (verifier.batches > 0, verifier.unverified) == (True, [])


def test_a_log_from_before_work_was_counted_has_no_limits_of_work():
    log: list[bytes] = []
    kernel = toil(sink=log)
    (place,) = [n for n, data in enumerate(log) if isinstance(decode_record(data), Configured)]
    old = decode_record(log[place])
    assert isinstance(old, Configured)
    for name in ("batch_work_max", "group_work_max", "batch_values_max"):
        del old.limits[name]
    past = Replayer()
    past.apply(log[0])
    past.apply(encode_record(old))
    limits = past.ledger.policy.limits
    assert limits.batch_work_max == limits.group_work_max == limits.batch_values_max == UNLIMITED
    assert kernel.ledger.policy.limits.batch_work_max == MAX
