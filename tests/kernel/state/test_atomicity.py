"""Laws of atomicity: a refused batch and a dry run leave no trace."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from placet.kernel import Domain, Kind, refuse
from placet.kernel.gate import FINAL_STAGES
from placet.kernel.log.replay import fold_changes, folded
from placet.kernel.log.snapshot import world_digest
from placet.kernel.state.transaction import Transaction
from placet.kernel.state.tree import State
from placet.schemas.refusal import Stage
from tests.kernel.builders import add, intent, kernel_of, reused, trace
from tests.kernel.domains import COUNTS, FAULTS, MAIL, Lab
from tests.kernel.traces import SETTINGS, TRACES, random_trace, run_trace, time_of
from tests.levels import examples

EACH_SETTING = pytest.mark.parametrize("setting", SETTINGS)

DOINGS: list[tuple[str, Any]] = [
    ("Add", {"amount": 3}),
    ("Clamp", {"amount": 99}),
    ("Put", {"thing": "a", "field": "x", "value": [1, {"y": 2}]}),
    ("Put", {"thing": "new", "field": "x"}),
    ("Remake", {"thing": "a"}),
    ("Remake", {"thing": "b"}),
    ("Drop", {"thing": "b"}),
    ("Grab", {"thing": "b"}),
    ("Mail", {"count": 2}),
    ("Say", {"text": "hi"}),
    ("Place", {"at": [1, 2]}),
    ("annex.Count", {"amount": 1}),
]


def batch_of(kinds, agents=("alice",)):
    return [
        intent(
            DOINGS[kind][0],
            DOINGS[kind][1],
            f"r{n}",
            agent_id=agents[n % len(agents)],
            context_seq=4,
        )
        for n, kind in enumerate(kinds)
    ]


KINDS = st.lists(st.integers(0, len(DOINGS) - 1), max_size=6)


@given(before=KINDS, kinds=KINDS, at=st.integers(0, 6), how=st.sampled_from(sorted(FAULTS)))
def test_a_failure_at_any_intent_undoes_the_whole_batch(before, kinds, at, how):
    """admitted(batch) or digest unchanged, wherever in the batch a rule fails, and however."""
    kernel, log = reused(domain=SETTINGS["wide"]["domain"])
    kernel.decide([dict(one, req_id=f"before{one['req_id']}") for one in batch_of(before)])
    batch = batch_of(kinds, ("alice", "bob"))
    at = min(at, len(batch))
    batch.insert(at, intent("Fail", {"how": how}, "fault", agent_id="bob"))
    whole, books, length = kernel.tree.dump(), kernel.ledger.seq, len(log)
    effects = kernel.open_effects()
    verdict = kernel.decide(batch)
    assert not verdict.admitted
    assert kernel.tree.dump() == whole
    assert kernel.digest() == State.load(whole).digest().hex()
    assert kernel.seq == books
    assert kernel.open_effects() == effects
    assert len(log) == length + 1  # the refusal itself, which is final
    assert kernel.decide(add("next")).admitted


@EACH_SETTING
@settings(max_examples=examples(30))
@given(random_steps=TRACES)
@example(random_steps=random_trace(11))
def test_a_refused_batch_leaves_the_digest_and_a_refusal_of_load_leaves_nothing(
    setting, random_steps
):
    """G6, G10: by the stage that refused."""
    kernel, _ = reused(**SETTINGS[setting])
    now = 0.0
    for what, *rest in random_steps:
        if what != "group":
            run_trace(kernel, [[what, *rest]], now)
            now += time_of([[what, *rest]])
            continue
        now += rest[0]
        kernel.decide_group([], now)  # what is due has nothing to do with what follows
        for batch in rest[1]:
            before, digest, seq = trace(kernel), kernel.digest(), kernel.seq
            (verdict,) = run_trace(kernel, [["group", 0, [batch]]], now)[0]
            if verdict["admitted"] and not verdict["dry_run"] and not verdict["replayed"]:
                assert kernel.seq == verdict["seq"] > seq
                continue
            assert (kernel.digest(), kernel.seq) == (digest, seq)
            stages = {Stage(refusal["stage"]) for refusal in verdict["refusals"]}
            is_final = stages & FINAL_STAGES and not verdict["replayed"]
            if not is_final or verdict["dry_run"]:
                assert trace(kernel) == before


@EACH_SETTING
@settings(max_examples=examples(30))
@given(random_steps=TRACES)
@example(random_steps=random_trace(12))
def test_a_dry_run_gives_the_verdict_of_a_real_run_and_changes_nothing(setting, random_steps):
    """dry_run(batch) = batch, except for the flag; the world is unchanged."""
    kernel, _ = reused(**SETTINGS[setting])
    now = 0.0
    for step in random_steps:
        now += time_of([step])
        if step[0] != "group" or not step[2]:
            run_trace(kernel, [step], now - time_of([step]))
            continue
        kernel.decide_group([], now)
        for batch in step[2]:
            before, snapshot = trace(kernel), kernel.snapshot()
            (asked,) = run_trace(kernel, [["group", 0, [{**batch, "dry_run": True}]]], now)[0]
            assert trace(kernel) == before
            kernel.restore(snapshot)
            (real,) = run_trace(kernel, [["group", 0, [{**batch, "dry_run": False}]]], now)[0]
            assert asked.pop("dry_run") is True
            assert real.pop("dry_run") is False
            assert asked == real


@pytest.mark.parametrize("how", FAULTS)
def test_a_dry_run_is_refused_for_the_same_fault(how):
    kernel, _ = reused()
    batch = [add("a"), intent("Fail", {"how": how}, "b")]
    before = trace(kernel)
    asked = kernel.decide({"intents": batch, "dry_run": True})
    assert trace(kernel) == before
    assert asked.codes == kernel.decide(batch).codes


def test_a_dry_run_takes_no_claim():
    kernel, _ = reused()
    grab = intent("Grab", {"thing": "a"}, priority=50)
    verdicts = kernel.decide_group(
        [{"intents": [grab], "dry_run": True}, intent("Grab", {"thing": "a"}, agent_id="bob")]
    )
    assert [verdict.admitted for verdict in verdicts] == [True, True]


@pytest.mark.parametrize("how", FAULTS)
def test_a_refused_batch_takes_no_claim(how):
    kernel, _ = reused()
    grab = intent("Grab", {"thing": "a"}, priority=50)
    fail = intent("Fail", {"how": how}, "b", priority=50)
    verdicts = kernel.decide_group(
        [[grab, fail], intent("Grab", {"thing": "a"}, agent_id="bob")],
    )
    assert [verdict.admitted for verdict in verdicts] == [False, True]


def test_many_dry_runs_take_no_memory(monkeypatch):
    monkeypatch.setattr("placet.kernel.state.transaction.DIRTY_MAX", 100)
    kernel, _ = reused()
    for number in range(30):
        remake = [intent("Remake", {"thing": f"t{n}"}, f"r{n}") for n in range(25)]
        assert kernel.decide({"intents": remake, "dry_run": True}, float(number)).admitted
    assert len(kernel.tree.dirty) < 200
    assert kernel.digest() == State.load(kernel.tree.dump()).digest().hex()


def test_a_claim_of_a_refused_batch_is_free_and_of_an_admitted_one_is_not():
    kernel, _ = reused()
    grab = {"thing": "lamp"}
    groups = [
        [intent("Grab", grab, "a1", priority=90), intent("Fail", {"how": "raise"}, "a2")],
        [intent("Grab", grab, "a3", priority=80)],
        [intent("Grab", grab, "a4", priority=70), intent("Fail", {"how": "raise"}, "a5")],
        [intent("Grab", grab, "b1", agent_id="bob")],
    ]
    verdicts = kernel.decide_group(groups)
    assert [verdict.codes for verdict in verdicts] == [
        ("rule_error",),
        (),
        ("rule_error",),
        ("conflict",),
    ]
    again = intent("Grab", grab, "b2", agent_id="bob")
    assert kernel.decide(again).admitted  # the next group is another moment


# The draft itself


@st.composite
def touches(draw: st.DrawFn) -> tuple[Any, ...]:
    return (
        draw(st.sampled_from(["put", "put", "create", "delete", "claim", "digest", "agent"])),
        draw(st.sampled_from("cd")),
        draw(st.sampled_from("xyz")),
        draw(st.sampled_from("fg")),
        draw(st.integers(0, 3) | st.just([1])),
    )


def touch(draft: Transaction, touches: list[tuple[Any, ...]]) -> None:
    """Perform a write that a rule may make; skip it if it is invalid."""
    for what, collection, entity, field, value in touches:
        exists = draft.exists(collection, entity)
        if what == "put" and exists:
            draft.put(collection, entity, field, value)
        elif what == "create" and not exists:
            draft.create(collection, entity, {field: value})
        elif what == "delete" and exists:
            draft.delete(collection, entity)
        elif what == "claim":
            draft.claim(entity)
        elif what == "digest":
            draft.state.digest()
        elif what == "agent":
            draft.begin(0, draft.seq + 1, entity)


TOUCHES = st.lists(touches(), max_size=12)


@given(before=TOUCHES, kept=TOUCHES, undone=TOUCHES)
def test_undo_restores_the_exact_state(before, kept, undone):
    """undo(mark) restores the state at the mark; replays agree."""
    state, folded = State(tombstones_max=2), State(tombstones_max=2)
    draft = Transaction(state)
    for batch in (before, kept):
        draft.open_batch()
        draft.begin(0, draft.seq + 1, "alice")
        touch(draft, batch)
        whole, claims = state.dump(), dict(draft._claims)
        mark = draft.begin(0, draft.seq, draft.agent_id)
        touch(draft, undone)
        draft.undo(mark)
        assert (state.dump(), draft._claims) == (whole, claims)
        assert state.digest() == State.load(whole).digest()
        changes = draft.changes()
        assert {(ref.collection, ref.entity) for ref in draft.changed()} == {
            (change.collection, change.entity) for change in changes.entities
        }
        draft.trim(changes)
        fold_changes(folded, changes)
        assert folded.dump() == state.dump()
        assert folded.digest() == state.digest()
        assert folded.tracked_from == state.tracked_from


MEDDLING = {
    "clears it": lambda intent: intent.clear(),
    "is another agent": lambda intent: intent.update(agent_id="alice"),
    "is of another name": lambda intent: intent.update(req_id="other"),
    "is of another kind": lambda intent: intent.update(kind="nothing"),
}


@pytest.mark.parametrize("meddle", MEDDLING.values(), ids=list(MEDDLING))
@pytest.mark.parametrize("where", ["rule", "reads", "validator"])
@pytest.mark.parametrize("how", ["passes", "raises", "refuses", "emits", "emits undeclared"])
def test_a_rule_cannot_change_the_agent_of_an_intent(meddle, where, how):
    def end(draft):
        if how == "raises":
            raise ValueError
        if how.startswith("emits"):
            draft.emit(MAIL if how == "emits" else "other", {})
        return refuse("no", "it does not please") if how == "refuses" else None

    def rule(draft, intent):
        if where == "rule":
            meddle(intent)
        return end(draft)

    def reads(intent):
        if where == "reads":
            meddle(intent)
        return [(COUNTS, "alice")]

    class Meddling(Domain):
        name, version = "meddling", "1"
        kinds = (
            Kind("Do", dict[str, int], rule, reads, effects=(MAIL,)),
            Kind("Rest", dict[str, int], lambda draft, intent: None),
        )

    class MeddlingValidator:
        def validate_intent(self, intent, world_state):
            if where == "validator" and intent["kind"] == "Do":
                meddle(intent)
            return True

    log: list[bytes] = []
    kernel = kernel_of(Meddling(), sink=log, validator=MeddlingValidator())
    kernel.change_executor("other", 1)
    batch = [
        intent("Rest", {}, "rest", priority=0),
        intent("Do", {}, "do", agent_id="bob"),
        intent("Rest", {}, "do", agent_id="alice"),
    ]
    verdict = kernel.decide(batch)
    assert verdict.admitted == (how in {"passes", "emits"}) or where == "validator"
    for found in verdict.refusals:
        assert (found.index, found.req_id, found.details["agent_id"]) == (1, "do", "bob")
    past = folded(log)
    assert world_digest(past.state, past.ledger).hex() == kernel.world_digest()
    again = kernel.decide(batch)
    assert (again.replayed, again.codes, again.seq) == (True, verdict.codes, verdict.seq)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_within_a_rule_undoes_its_batch(stop):
    """The batches before it stay: the world matches its log, and continues."""

    class Stopping:
        is_armed = True

        def validate_intent(self, intent, world_state):
            if self.is_armed and intent["req_id"] == "half":
                raise stop
            return True

    class Late(Lab):
        def on_tick(self, draft, sim_time):
            super().on_tick(draft, sim_time)
            if validator.is_armed:
                raise stop

    validator, log = Stopping(), list[bytes]()
    kernel = kernel_of(Late(), sink=log, validator=validator, limits={"checkpoint_groups": 2})
    whole = [add("first"), add("second")]
    half = [intent("Put", {"thing": "a", "field": "x", "value": 1}, "put"), add("half")]
    half = [dict(one, agent_id="bob", priority=0) for one in half]  # after alice's
    for interrupted in (
        lambda: kernel.decide_group([half, whole], 5.0),
        lambda: kernel.tick(6.0),
    ):
        with pytest.raises(stop):
            interrupted()
        past = folded(log)
        assert past.state.dump() == kernel.tree.dump()
        assert world_digest(past.state, past.ledger).hex() == kernel.world_digest()
        assert past.groups == kernel._groups
    assert kernel.tree.get(COUNTS, "alice", "count") == 2
    validator.is_armed = False
    assert kernel.decide(half).admitted
    kernel.tick(6.0)
    past = folded(log)
    assert world_digest(past.state, past.ledger).hex() == kernel.world_digest()


def test_the_type_of_a_rules_draft_has_no_undo():
    from placet.kernel.state.draft import Draft

    kernel_side = {"open_group", "open_batch", "begin", "undo", "changes", "changed", "trim"}
    assert not kernel_side & set(dir(Draft))
    assert kernel_side <= set(dir(Transaction))


def test_values_read_from_the_state_are_read_only():
    kernel, _ = reused()
    value = {"deep": [1, {"er": 2}]}
    kernel.decide(intent("Put", {"thing": "a", "field": "f", "value": value}))
    stored = kernel.state["lab.things"]["a"]["f"]
    assert stored == {"deep": (1, {"er": 2})}
    things: Any = kernel.state["lab.things"]
    for change in (
        lambda: stored.update(x=1),
        lambda: stored.__setitem__("x", 1),
        lambda: stored["deep"][1].pop("er"),
        lambda: things["a"].__setitem__("f", 1),
        lambda: hash(stored),
    ):
        with pytest.raises((TypeError, AttributeError)):
            change()
    assert kernel.tree.get(COUNTS, "alice", "count") == 0
