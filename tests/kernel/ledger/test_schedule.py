"""Laws of the schedule: a batch for later is answered now, decided when due, and never lost."""

from functools import cache
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pydantic import AfterValidator

from placet.kernel import KernelConfig, Kind
from placet.kernel.ledger.ledger import GateSettings, Ledger, scheduled_bytes
from placet.kernel.ledger.schedule import due_batches
from placet.kernel.log.replay import folded
from placet.kernel.log.verify import Verifier
from placet.kernel.recorded_batch import recorded_batch
from placet.schemas.batch import CheckedBatch
from placet.schemas.limits import INTENT_WORK, SECOND_NS, Limits
from placet.schemas.log.record import Scheduled, decode_record
from tests.kernel.builders import add, checked, intent, kernel_of, restore, reused, trace
from tests.kernel.domains import COUNTS, FAULTS, Lab, put


def later(sim_time, *intents):
    return {"intents": list(intents), "sim_time": sim_time}


@cache
def scheduled_once() -> Scheduled:
    kernel, log = reused()
    kernel.decide(later(5, add("a")))
    record = decode_record(log[-1])
    assert isinstance(record, Scheduled)
    return record


def remembered(kernel, req_id, agent_id="alice"):
    verdict = kernel.verdict_of(agent_id, req_id)
    assert verdict is not None
    return verdict


def test_a_scheduled_batch_is_answered_at_once_and_decided_when_due():
    kernel, log = reused()
    before, seq = kernel.digest(), kernel.seq
    verdict = kernel.decide(later(5, add("a")), 1.0)
    assert (verdict.admitted, verdict.scheduled, verdict.seq) == (True, True, seq + 1)
    assert [result.seq for result in verdict.results] == [None]
    assert verdict.as_dict()["results"][0]["normalized"] == {"amount": 1}
    assert kernel.digest() == before
    assert kernel.ledger.schedule == [(5 * 10**9, 1)]
    waiting = remembered(kernel, "a")
    assert (waiting.admitted, waiting.scheduled, waiting.seq) == (True, True, seq + 1)
    assert [result.req_id for result in waiting.results] == ["a"]
    assert kernel.decide([], 4.9).codes == ("batch_empty",)
    assert remembered(kernel, "a").scheduled
    decision = kernel.decide_checked([], 5 * 10**9)
    ((batch, final),) = decision.answers
    assert (batch.due_of, batch.submitter, final.admitted, final.seq) == (
        1,
        "operator",
        True,
        seq + 2,
    )
    final = remembered(kernel, "a")
    assert (final.admitted, final.scheduled, final.seq) == (True, False, seq + 2)
    assert kernel.state[COUNTS]["alice"]["count"] == 1
    assert kernel.ledger.next_due_ns is None
    assert folded(log).state.digest().hex() == kernel.digest()


@pytest.mark.parametrize("sim_time", [None, 0, 3, 5])
def test_a_time_of_now_or_earlier_is_not_scheduled(sim_time):
    kernel, _ = reused()
    kernel.tick(5.0)
    verdict = kernel.decide(later(sim_time, add("a")))
    assert verdict.admitted
    assert not verdict.scheduled


def test_a_duplicate_of_a_scheduled_batch_gets_the_same_verdict_and_runs_once():
    kernel, _ = reused()
    first = kernel.decide(later(5, add("a"), add("b")))
    before = trace(kernel)
    again = kernel.decide(later(5, add("b"), add("a")))
    assert again.replayed
    assert (again.scheduled, again.seq) == (first.scheduled, first.seq)
    assert trace(kernel) == before
    assert kernel.decide(add("a", 9)).codes == ("req_id_reused",)
    kernel.tick(5.0)
    kernel.decide_group([], 5.0)
    final = kernel.decide(later(5, add("a"), add("b")))
    assert (final.replayed, final.scheduled, final.seq) == (True, False, kernel.seq)
    assert kernel.state[COUNTS]["alice"]["count"] == 2


def test_due_batches_run_by_time_then_by_group_order():
    kernel, _ = reused()
    for number, sim_time in enumerate([7, 5, 9, 5]):
        kernel.decide(later(sim_time, intent("Remake", {"thing": f"t{number}"}, f"r{number}")))
    decision = kernel.decide_checked(
        [checked(kernel, add("now", agent_id="bob", priority=100))], 8 * 10**9
    )
    assert [batch.intents[0]["req_id"] for batch, _ in decision.answers] == [
        "r1",
        "r3",
        "r0",
        "now",
    ]
    assert kernel.ledger.next_due_ns == 9 * 10**9


def test_batches_of_a_removed_agent_never_run_for_its_successor():
    kernel, log = reused()
    alone = later(5, add("alone", agent_id="bob"))
    shared = later(6, add("hers"), add("his", agent_id="bob"))
    others = later(7, add("later"))
    assert all(verdict.scheduled for verdict in kernel.decide_group([alone, shared, others]))
    kernel.change_agent("bob", "removed")
    assert remembered(kernel, "hers").codes == ("agent_unknown",)
    assert remembered(kernel, "hers").refusals[0].stage == "agent"
    kernel.register_agent("bob")
    before = kernel.seq
    [(batch, _)] = kernel.decide_checked([], 9 * 10**9).answers
    assert [one["req_id"] for one in batch.intents] == ["later"]
    assert kernel.seq == before + 1
    assert kernel.decide(add("alone", agent_id="bob")).admitted  # bob never asked for it
    replayer = folded(log)
    assert not replayer.ledger.scheduled
    assert replayer.state.digest().hex() == kernel.digest()


def test_a_removed_scheduled_batch_is_never_due():
    kernel, log = reused()
    kernel.decide_group([later(3, add("near")), later(5, add("gone", agent_id="bob"))])
    kernel.decide(later(7, add("far")))
    kernel.change_agent("bob", "removed")
    assert [remembered(kernel, name).scheduled for name in ("near", "far")] == [True, True]
    decided = kernel.decide_checked([], 9 * 10**9).answers
    assert [batch.req_ids for batch, _ in decided] == [["near"], ["far"]]
    assert kernel.ledger.next_due_ns is None
    assert folded(log).state.digest().hex() == kernel.digest()


def test_removed_batches_do_not_grow_the_schedule():
    kernel, _ = reused()
    assert kernel.decide(later(1, add("first"))).scheduled
    for number in range(500):
        kernel.register_agent("guest")
        assert kernel.decide(later(9, add(f"g:{number}", agent_id="guest"))).scheduled
        kernel.change_agent("guest", "removed")
    assert len(kernel.ledger.scheduled) == 1
    assert len(kernel.ledger.schedule) < 100


class Looked(list[tuple[int, int]]):
    """A heap that counts the looks at its entries."""

    looks = 0

    def __getitem__(self, place: Any) -> Any:
        self.looks += 1
        return super().__getitem__(place)

    def __iter__(self) -> Any:
        self.looks += len(self)
        return super().__iter__()


def test_due_batches_are_found_without_reading_the_whole_schedule():
    kernel, _ = reused()
    for number in range(200):
        assert kernel.decide(later(number + 10, add(f"r:{number}"))).scheduled
    kernel.ledger.schedule = heap = Looked(kernel.ledger.schedule)
    due = due_batches(kernel.ledger, 12 * 10**9)
    assert [batch.due_of for batch in due] == [1, 2, 3]
    assert heap.looks <= 1 + 2 * (3 + 4)  # each that is due, and what stands right beneath them


def test_only_the_due_batches_that_a_group_may_take_are_rebuilt(monkeypatch):
    kernel, _ = reused()
    for number in range(200):
        assert kernel.decide(later(10, add(f"r:{number}"))).scheduled
    rebuilt: list[Scheduled] = []

    def counted(record: Scheduled) -> CheckedBatch:
        rebuilt.append(record)
        return recorded_batch(record)

    monkeypatch.setattr("placet.kernel.ledger.schedule.recorded_batch", counted)
    kernel.ledger.schedule = heap = Looked(kernel.ledger.schedule)
    due = due_batches(kernel.ledger, 12 * 10**9, 3)
    assert [batch.due_of for batch in due] == [1, 2, 3]
    assert len(rebuilt) == 3
    assert heap.looks <= 1 + 2 * 3
    assert len(due_batches(kernel.ledger, 12 * 10**9, 99, 3 * due[0].base_work - 1)) == 3
    assert len(rebuilt) == 6


@pytest.mark.parametrize("bound", ["due_max", "work_max"])
def test_due_batches_are_decided_in_groups_of_bounded_size_before_the_queued_ones(bound):
    kernel, _ = reused()
    for number in range(10):
        assert kernel.decide(later(5, add(f"r:{number}"))).scheduled
    queued = [checked(kernel, add("now", agent_id="bob", priority=100))]
    options: dict[str, Any] = {bound: 4 if bound == "due_max" else 4 * INTENT_WORK - 1}
    groups, todo = [], queued
    while todo:
        decision = kernel.decide_checked(todo, 5 * SECOND_NS, **options)
        groups.append([batch.due_of for batch, _ in decision.answers])
        todo = list(decision.undecided)
    assert groups == [[1, 2, 3, 4], [5, 6, 7, 8], [None, 9, 10]]
    assert kernel.ledger.next_due_ns is None


@given(
    dues=st.lists(st.integers(1, 30), max_size=60),
    gone=st.sets(st.integers(1, 60)),
    now=st.integers(0, 35),
    count_max=st.integers(1, 60),
)
def test_due_batches_are_found_in_order_of_time(dues, gone, now, count_max):
    ledger = Ledger(GateSettings.of(KernelConfig()))
    for number, due in enumerate(dues, 1):
        ledger.add_scheduled(replace(scheduled_once(), number=number, due_ns=due))
    for number in gone & ledger.scheduled.keys():
        ledger.pop_scheduled(number)
    waiting = ((one.due_ns, number) for number, one in ledger.scheduled.items())
    expected = sorted(entry for entry in waiting if entry[0] <= now)
    for due, wanted in (
        (due_batches(ledger, now), expected),
        (due_batches(ledger, now, count_max), expected[:count_max]),
    ):
        assert [(batch.sim_time_ns, batch.due_of) for batch in due] == wanted


def test_a_due_batch_is_refused_if_its_reads_changed_while_it_waited():
    kernel, log = reused(domain=Lab(ceiling=50))
    look = intent("Look", {"thing": "lamp"}, "look", context_seq=kernel.seq)
    waiting = [
        later(5, look),
        later(5, add("permission")),
        later(5, add("late", valid_until=4)),
        later(5, intent("Take", {"amount": 1}, "take")),
        later(5, add("ceiling", 51)),
        later(5, intent("Fail", {"how": "huge"}, "huge")),
    ]
    assert all(verdict.scheduled for verdict in kernel.decide_group(waiting))
    put = intent("Put", {"thing": "lamp", "field": "lit"}, "put", agent_id="bob")
    assert kernel.decide(put).admitted
    kernel.change_agent("bob", "removed")
    before = kernel.digest()
    decision = kernel.decide_checked([], 5 * 10**9)
    codes = {batch.intents[0]["req_id"]: verdict.codes for batch, verdict in decision.answers}
    assert codes == {
        "look": ("stale_context",),
        "permission": (),
        "late": ("expired",),
        "take": (),
        "ceiling": ("invariant_violated",),
        "huge": ("rule_error",),
    }
    assert kernel.digest() == before  # one added what the other took
    for name, expected in codes.items():
        assert remembered(kernel, name).codes == expected
    replayer = folded(log)
    assert not replayer.ledger.scheduled
    assert replayer.state.digest().hex() == kernel.digest()


def test_a_due_batch_of_an_agent_without_permission_is_finally_refused():
    kernel, _ = reused()
    kernel.decide(later(5, add("a")))
    kernel.set_agent_permissions("alice", {"Look"})
    kernel.tick(5.0)
    kernel.decide_group([], 5.0)
    assert remembered(kernel, "a").codes == ("permission_denied",)
    kernel.set_agent_permissions("alice", None)
    assert kernel.decide(add("a")).replayed


def test_the_future_context_and_the_threshold_are_judged_on_arrival_only():
    kernel, _ = reused(staleness_threshold=1)
    seq = kernel.seq
    assert kernel.decide(later(5, add("a", context_seq=seq + 1))).codes == ("context_from_future",)
    assert kernel.decide(later(5, add("b", context_seq=seq))).scheduled
    for number in range(5):
        assert kernel.decide(add(f"r{number}", context_seq=kernel.seq)).admitted
    kernel.decide_group([], 5.0)
    assert remembered(kernel, "b").admitted
    assert not remembered(kernel, "b").scheduled


def test_quota_is_charged_once_on_arrival():
    kernel, _ = reused(quotas={"Add": {"rate": 0.1, "burst": 2}})
    assert kernel.decide(later(5, add("a"))).scheduled
    assert kernel.decide(later(5, add("b"))).scheduled
    assert kernel.decide(later(5, add("c"))).codes == ("quota_exceeded",)
    kernel.decide_group([], 5.0)
    assert kernel.state[COUNTS]["alice"]["count"] == 2
    assert kernel.decide(add("c"), 9.9).codes == ("quota_exceeded",)
    assert kernel.decide(add("c"), 10.0).admitted
    assert not kernel.decide(add("d"), 10.0).admitted


def test_a_full_executor_refuses_on_arrival_and_not_when_due():
    kernel, _ = reused()
    kernel.change_executor("mail", 1)
    assert kernel.decide(later(5, intent("Mail", {"count": 1}, "a"))).scheduled
    assert kernel.decide(intent("Mail", {"count": 1}, "b")).admitted
    assert kernel.decide(later(5, intent("Mail", {"count": 1}, "c"))).codes == ("executor_busy",)
    kernel.decide_group([], 5.0)
    assert remembered(kernel, "a").admitted
    assert len(kernel.open_effects()) == 2


def test_the_schedule_is_bounded_in_number_and_in_time():
    kernel, _ = reused(limits={"schedule_batches_max": 2, "schedule_ahead_ns_max": 10**10})
    assert kernel.decide(later(10.5, add("far"))).refusals[0].retry_after == 0.5
    assert kernel.decide(later(10.5, add("far")), 0.4).codes == ("sim_time_too_far",)
    assert kernel.decide(later(10.5, add("far")), 0.5).scheduled
    assert kernel.decide(later(7, add("a"))).scheduled
    assert kernel.decide(later(7, add("b"))).codes == ("schedule_full",)
    kernel.decide_group([], 7.0)
    assert kernel.decide(later(8, add("b"))).scheduled


NEAR_BOUNDS = {
    "schedule_batches_max": 5,
    "schedule_bytes_max": 7_000,
    "schedule_batches_per_agent_max": 3,
    "schedule_bytes_per_agent_max": 4_000,
}


def shares_of(ledger: Ledger) -> dict[str, tuple[int, int]]:
    """Return count and bytes of each submitter's scheduled batches, counted one by one."""
    shares: dict[str, tuple[int, int]] = {}
    for record in ledger.scheduled.values():
        count, size = shares.get(record.submitter, (0, 0))
        shares[record.submitter] = (count + 1, size + scheduled_bytes(record.encoded))
    return shares


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["alice", "bob", "operator"]),
            st.sampled_from([0, 1]),  # seconds before it is submitted
            st.integers(1, 9),  # seconds until it is due
            st.sampled_from([1, 1, 20, 60]),  # intents
        ),
        max_size=14,
    )
)
def test_the_schedule_is_bounded_for_each_submitter_and_a_refusal_names_the_time_of_room(given):
    kernel, log = reused(limits=NEAR_BOUNDS)
    limits, trial, now = kernel.ledger.policy.limits, reused(1, limits=NEAR_BOUNDS)[0], 0
    for number, (submitter, passed, ahead, intents) in enumerate(given):
        now += passed
        agent = "alice" if submitter == "operator" else submitter
        batch = later(now + ahead, *(add(f"{number}/{n}", agent_id=agent) for n in range(intents)))
        verdict = kernel.decide(batch, now, submitter=submitter)
        ledger = kernel.ledger
        for whose, (count, size) in (shares := shares_of(ledger)).items():
            if whose != "operator":
                assert count <= limits.schedule_batches_per_agent_max
                assert size <= limits.schedule_bytes_per_agent_max or count == 1
        assert len(ledger.scheduled) <= limits.schedule_batches_max
        assert ledger.schedule_size == sum(size for _, size in shares.values())
        assert ledger.schedule_size <= limits.schedule_bytes_max or len(ledger.scheduled) == 1
        kept = {one: (share.count, share.size) for one, share in ledger.schedule_shares.items()}
        assert kept == shares
        if not verdict.admitted:
            assert verdict.codes == ("schedule_full",)
            retry_after = (
                verdict.refusals[0].retry_after or 0.0
            )  # 0: what is due now leaves in this group
            for at, is_taken in ((now + retry_after * 0.99, False), (now + retry_after, True)):
                if at == now and not is_taken:
                    continue
                restore(trial, kernel.snapshot())
                trial.decide_group([], at)  # what is due leaves
                assert trial.decide(batch, at, submitter=submitter).admitted is is_taken
    refolded = folded(log).ledger
    assert shares_of(refolded) == shares_of(kernel.ledger)
    assert refolded.schedule_size == kernel.ledger.schedule_size


def test_one_batch_may_be_larger_than_the_bytes_of_the_schedule():
    kernel, _ = reused(limits={"schedule_bytes_max": 1, "schedule_bytes_per_agent_max": 1})
    assert kernel.decide(later(5, add("a")), submitter="alice").scheduled
    assert kernel.decide(later(5, add("b")), submitter="alice").codes == ("schedule_full",)


def test_a_log_decided_without_shares_is_verified_and_its_next_batch_has_a_share():
    kernel, log = reused()
    kernel._context.checks_shares = False  # as a release without shares decided
    for number in range(limit := Limits().schedule_batches_per_agent_max + 1):
        batch = later(5, add(f"r:{number}"))
        assert kernel.decide(batch, submitter="alice").scheduled
    kernel._context.checks_shares = True
    past = Verifier([Lab()])
    for data in log:
        past.apply(data)
    assert past.batches == limit
    again = kernel_of(history=log)
    refusal = again.decide(later(5, add("next")), submitter="alice").refusals[0]
    assert refusal.details["signal"] == "schedule_batches_of_agent"
    assert again.decide(later(5, add("b", agent_id="bob")), submitter="bob").scheduled


def test_a_dry_run_with_a_later_time_schedules_nothing():
    kernel, _ = reused()
    before = trace(kernel)
    verdict = kernel.decide({**later(5, add("a")), "dry_run": True})
    assert (verdict.scheduled, verdict.dry_run, verdict.seq) == (True, True, kernel.seq + 1)
    assert trace(kernel) == before
    kernel.decide_group([], 6.0)
    assert kernel.verdict_of("alice", "a") is None


def test_a_rule_gets_a_due_batch_as_it_would_on_arrival():
    kernel, _ = reused()
    place = intent("Place", {"at": [1, 2]}, "place")
    say = intent("Say", {"text": "hi"}, "say")
    assert kernel.decide(later(5, place, say)).scheduled
    kernel.decide_group([], 5.0)
    assert remembered(kernel, "place").admitted
    assert kernel.state[COUNTS]["alice"]["at"] == (1, 2)
    assert kernel.state[COUNTS]["alice"]["said"] == {"text": "hi", "count": 0, "tags": ()}


@pytest.mark.parametrize("spoiled", ["payload", "intent"])
def test_a_rule_that_changes_its_intent_harms_nothing(monkeypatch, spoiled):
    def spoil(draft, intent):
        if spoiled == "payload":
            intent["payload"]["how"] = object()
        else:
            del intent["priority"]
        draft.put(COUNTS, "alice", "odd", 1)

    monkeypatch.setitem(FAULTS, how := "spoil", spoil)
    kernel, log = reused()
    fail = intent("Fail", {"how": how}, "a")
    assert kernel.decide(later(5, fail)).scheduled
    (verdict,) = [v for _, v in kernel.decide_checked((), 6 * SECOND_NS).answers]
    assert [dict(result.normalized) for result in verdict.results] == [{"how": how}]
    (now,) = kernel.decide(intent("Fail", {"how": how}, "b")).results
    assert now.normalized == {"how": how}
    assert remembered(kernel, "a").admitted
    assert folded(log).state.digest().hex() == kernel.digest()


def test_a_due_batch_of_a_removed_kind_is_refused():
    kernel, log = reused()
    assert kernel.decide(later(5, add("a"), intent("Say", {"text": "hi"}, "b"))).scheduled
    assert kernel.decide(later(5, intent("Place", {"at": [1, 2]}, "c"))).scheduled

    class Smaller(Lab):
        kinds = tuple(kind for kind in Lab.kinds if kind.name != "Say")

    def explode(value):
        raise KeyError(value)

    class Exploding(Lab):
        kinds = (*Lab.kinds[1:], Kind("Add", Annotated[Any, AfterValidator(explode)], put))

    again = kernel_of(Exploding(), history=log)
    again.decide_group([], 5.0)
    assert remembered(again, "a").codes == ("payload_invalid",)
    again = kernel_of(Smaller(), history=log)
    again.decide_group([], 5.0)
    assert remembered(again, "a").codes == ("kind_unknown",)
    assert remembered(again, "b").refusals[0].stage == "structure"
    assert remembered(again, "c").admitted
    assert again.decide(add("d")).admitted


def test_a_step_decides_due_and_submitted_batches_as_one_group():
    kernel, _ = reused()
    kernel.decide(later(0.5, add("a")))
    verdicts = kernel.step(1.0, [add("b"), later(9, add("c"))])
    assert [(v.admitted, v.scheduled) for v in verdicts] == [(True, False), (True, True)]
    assert remembered(kernel, "a").seq < verdicts[0].seq
    assert kernel.sim_time == 1.0
    assert kernel.state[COUNTS]["clock"]["time"] == 1.0
