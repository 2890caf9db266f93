"""Births and deaths by rules: recorded with the batch, undone with it, and replayed."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.kernel import Domain, Kernel, KernelConfig, Kind, refuse
from placet.kernel.log.divergence import DecisionMismatch
from placet.kernel.log.replay import folded
from placet.kernel.log.snapshot import resume, take, world_digest
from placet.kernel.log.verify import Verifier
from placet.schemas.limits import AGENT_CHANGE_WORK, Limits
from placet.schemas.log.cut import batches_in
from placet.schemas.log.expand import batches_of
from placet.schemas.log.record import (
    AgentChange,
    AgentChanged,
    Registered,
    SingleBlock,
    SingleBlockWithAgents,
    TickWithAgents,
    agents_of,
    decode_record,
    record_as_dict,
)
from tests.kernel.builders import intent, kernel_of
from tests.kernel.domains import COUNTS, Annex, Nursery, Open

NAMES = ["alice", "bob", "kid", "imp"]


def act(what: str, name: object, req_id: str = "r", agent: str = "alice", **more: Any) -> Any:
    return intent(what, {"thing": name}, req_id, agent_id=agent, context_seq=None, **more)


def decide(kernel: Kernel, *batches: Any) -> list[Any]:
    """Decide batches of intents that look at the present seq."""
    given = [
        [{**one, "context_seq": kernel.seq} for one in (b if isinstance(b, list) else [b])]
        for b in batches
    ]
    return kernel.decide_group(given)


def proven(kernel: Kernel, log: list[bytes], domains: Any) -> None:
    """Check that replay, snapshot and verification of the log give the world of the kernel."""
    past = folded(log)
    verifier = Verifier(domains)
    for data in log:
        verifier.apply(data)
    assert not verifier.unverified
    for one in (past, resume(take(past)), verifier):
        assert world_digest(one.state, one.ledger).hex() == kernel.world_digest()
        assert [*one.ledger.agents] == [*kernel.ledger.agents]
        cohorts = {name: agent.cohort for name, agent in one.ledger.agents.items()}
        assert cohorts == {name: agent.cohort for name, agent in kernel.ledger.agents.items()}


def world(**options: Any) -> tuple[Kernel, list[bytes]]:
    log: list[bytes] = []
    return kernel_of([Nursery(), Annex()], sink=log, **options), log


STEPS = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from(["Bear", "Bury", "Renew", "Add"]),
            st.sampled_from(NAMES),
            st.sampled_from(NAMES),
        ),
        max_size=4,
    ),
    max_size=5,
)


@given(STEPS)
def test_births_in_joined_batches_are_those_of_single_ones(steps):
    """Also replayed, verified, from a snapshot and continued; ticks register and remove too."""
    kernel, log = world()
    other, other_log = world()
    other.joins_batches = False
    for number, step in enumerate(steps):
        answers = []
        for one in (kernel, other):
            batches = [
                [{**act(kind, name, f"r:{number * 8 + place}", agent), "context_seq": one.seq}]
                for place, (kind, name, agent) in enumerate(step)
            ]
            for (kind, *_), batch in zip(step, batches, strict=True):
                batch[0]["payload"] = {"amount": 1} if kind == "Add" else batch[0]["payload"]
            answers.append([verdict.as_dict() for verdict in one.step(1, batches)])
        assert answers[0] == answers[1]
    assert kernel.world_digest() == other.world_digest()
    for one, records in ((kernel, log), (other, other_log)):
        proven(one, records, [Nursery(), Annex()])
    apart = [batch for data in log for batch in batches_of_record(data)]
    assert apart == [batch for data in other_log for batch in batches_of_record(data)]
    continued = kernel_of([Nursery(), Annex()], history=log)
    assert continued.world_digest() == kernel.world_digest()


def batches_of_record(data: bytes) -> list[Any]:
    record = decode_record(data)
    if isinstance(record, SingleBlock) or hasattr(record, "encoded"):
        return [(type(one), one.seq, agents_of(one)) for one in batches_of(record)]  # type: ignore[arg-type]
    return [(type(record), record.seq, agents_of(record))]


def test_an_agent_is_registered_with_its_batch():
    kernel, log = world(default_permissions={"Add", "Bear"})
    (verdict,) = decide(kernel, act("Bear", "kid"))
    assert verdict.admitted
    kid = kernel.ledger.agents["kid"]
    assert (kid.owner, kid.permissions, kid.generation) == ("kid", frozenset({"Add", "Bear"}), 1)
    assert kernel.state[COUNTS]["kid"]["luck"] in range(6)
    (change,) = agents_of(decode_record(log[-1]))
    assert (change.agent_id, change.is_removed, change.permissions) == (
        "kid",
        False,
        ["Add", "Bear"],
    )
    assert change.attributes.keys() == {"luck"}
    assert decide(kernel, intent("Add", None, "k", agent_id="kid"))[0].admitted
    proven(kernel, log, [Nursery(), Annex()])


def test_a_removed_agent_is_refused_and_may_be_born_again():
    kernel, log = world()
    verdicts = decide(
        kernel,
        [act("Bury", "bob"), act("Bury", "bob", "s")],
        [act("Bury", "bob", "t")],
    )
    assert [[*v.codes] for v in verdicts] == [["lab.agent_unknown"], []]
    assert decide(kernel, intent("Add", None, "b", agent_id="bob"))[0].codes == ("agent_unknown",)
    assert decide(kernel, act("Bear", "bob", "u"))[0].admitted
    assert kernel.ledger.agents["bob"].generation == 2
    assert decide(kernel, act("Renew", "bob", "v"))[0].admitted
    assert kernel.ledger.agents["bob"].generation == 3
    proven(kernel, log, [Nursery(), Annex()])


def test_an_agent_may_remove_itself():
    kernel, log = world()
    batch = [act("Bury", "alice"), intent("Give", {"thing": "bob"}, "s")]
    assert decide(kernel, batch)[0].admitted
    assert [*kernel.ledger.agents] == ["bob"]
    proven(kernel, log, [Nursery(), Annex()])


REFUSED = [
    ("bob", "lab.agent_exists", "agent 'bob' is registered; choose another name"),
    ("operator", "lab.agent_name_invalid", "must not be one of"),
    ("", "lab.agent_name_invalid", "must be 1 to 128 characters"),
    ("x" * 129, "lab.agent_name_invalid", "must be 1 to 128 characters"),
    ("a\u202eb", "lab.agent_name_invalid", "bidirectional"),
    ("line\n", "lab.agent_name_invalid", "control"),
]


@pytest.mark.parametrize(("name", "code", "text"), REFUSED)
def test_a_name_that_cannot_be_born_is_refused(name, code, text):
    kernel, _ = world()
    before = kernel.world_digest()
    (verdict,) = decide(kernel, [act("Add", None, payload={"amount": 1}), act("Bear", name, "s")])
    assert ([*verdict.codes], kernel.digest()) == ([code], kernel_of([Nursery(), Annex()]).digest())
    assert text in verdict.refusals[0].message
    assert before != kernel.world_digest()  # the refusal is remembered
    assert [*kernel.ledger.agents] == ["alice", "bob"]


def test_no_more_agents_are_born_than_fit():
    kernel, _ = world(limits={"agents_max": 3})
    births = [act("Bear", "kid"), act("Bear", "imp", "s")]
    assert decide(kernel, births)[0].codes == ("lab.too_many_agents",)
    freed = [act("Bury", "bob", "t"), act("Bear", "kid", "u"), act("Bear", "imp", "v")]
    assert decide(kernel, freed)[0].admitted
    assert [*kernel.ledger.agents] == ["alice", "kid", "imp"]


def test_births_are_work_that_a_batch_may_use_up():
    births = [act("Bear", f"kid {n}", f"r{n}") for n in range(9)]
    kernel, _ = world(limits={"batch_work_max": 5 * AGENT_CHANGE_WORK})
    assert decide(kernel, births)[0].codes == ("work_exceeded",)
    assert [*kernel.ledger.agents] == ["alice", "bob"]


def test_a_dry_run_and_a_refused_batch_change_no_agent():
    kernel, log = world()
    before, records = kernel.digest(), len(log)
    batch = [{**act("Bear", "kid"), "context_seq": kernel.seq}]
    assert kernel.decide({"intents": batch, "dry_run": True}).admitted
    assert (kernel.digest(), len(log)) == (before, records)
    renewed = [act("Renew", "bob"), act("Bear", "bob", "s")]
    assert decide(kernel, renewed)[0].codes == ("lab.agent_exists",)
    assert (kernel.digest(), kernel.ledger.agents["bob"].generation) == (before, 1)
    proven(kernel, log, [Nursery(), Annex()])


def test_scheduled_batches_of_a_removed_agent_are_refused_with_it():
    """At once, also those that are due in this very group, before the name is given again."""
    kernel, log = world()

    def later(req_id, due):
        one = {**intent("Add", None, req_id, agent_id="bob"), "context_seq": kernel.seq}
        assert kernel.decide({"intents": [one], "sim_time": due}, 0).scheduled

    later("due", 1)
    later("late", 50)
    checked = kernel.check([{**act("Bury", "bob", priority=100), "context_seq": kernel.seq}])
    renewed = kernel.check([{**act("Bear", "bob", "s", priority=0), "context_seq": kernel.seq}])
    decision = kernel.decide_checked([checked, renewed], 10**9)  # type: ignore[list-item]
    found = {verdict.batch_id: [*verdict.codes] for _, verdict in decision.answers}
    assert len(found) == 4
    assert sorted(map(str, found.values())) == ["['agent_unknown']"] * 2 + ["[]"] * 2
    assert not kernel.ledger.scheduled
    later("again", 60)
    assert decide(kernel, act("Renew", "bob", "t"))[0].codes == ("lab.agent_exists",)
    proven(kernel, log, [Nursery(), Annex()])


def test_a_tick_registers_and_removes():
    kernel, log = world(agents=["alice", "dora"])
    one = {**intent("Add", None, "later", agent_id="dora"), "context_seq": kernel.seq}
    assert kernel.decide({"intents": [one], "sim_time": 50.0}).scheduled
    seen = []
    for _ in range(5):
        kernel.step(1)
        seen.append("dora" in kernel.ledger.agents)
    assert seen == [False, False, False, True, False]
    assert not kernel.ledger.scheduled
    ticks = [one for one in map(decode_record, log) if isinstance(one, TickWithAgents)]
    assert [[c.is_removed for c in tick.agents] for tick in ticks] == [[True], [False], [True]]
    shown = [record_as_dict(tick)["agents"] for tick in ticks]
    assert [[change["is_removed"] for change in one] for one in shown] == [[True], [False], [True]]
    proven(kernel, log, [Nursery(), Annex()])


def test_a_group_with_births_is_cut_at_a_batch():
    kernel, log = world()
    decide(kernel, *[act("Bear", f"kid{n}", f"r{n}") for n in range(4)])
    record = decode_record(log[-1])
    assert isinstance(record, SingleBlockWithAgents)
    assert batches_in(log[-1]) == 4
    for count in (1, 3):
        past = folded(log[:-1])
        past.apply_part(record, count)
        assert len(past.ledger.agents) == 2 + count


class Sink:
    """An effect validator that notes the permissions that it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def validate_intent(self, intent: Any, world_state: Any) -> bool:
        return True

    def set_agent_permissions(self, agent_id: str, permissions: set[str]) -> None:
        self.told.append(agent_id)


def test_the_validator_gets_the_permissions_of_newborn_agents():
    sink, log = Sink(), list[bytes]()
    kernel = kernel_of([Nursery()], validator=sink, sink=log)
    decide(kernel, act("Bear", "kid"), act("Bury", "bob", "s"), act("Renew", "alice", "t"))
    kernel.set_agent_permissions("kid", ["Add"])
    assert sink.told[2:] in (["kid", "alice", "kid"], ["alice", "kid", "kid"])
    again = Sink()
    verifier = Verifier([Nursery()], validator=again)
    for data in log:
        verifier.apply(data)
    assert sorted(again.told) == sorted(sink.told)


CLINIC_CODE = "clinic.unwell"


def free(draft: Any, intent: Any) -> Any:
    """Do as the payload says."""
    return ACTIONS[intent["payload"]["action"]](draft)


def caught(draft: Any) -> None:
    """Register beyond an exception of a hook, whose writes must be gone."""
    with pytest.raises(ZeroDivisionError):
        draft.register("kid", how="raise")
    assert not draft.exists("clinic.beds", "kid")
    draft.register("kid")


ACTIONS: dict[str, Any] = {
    "refuse": lambda draft: draft.register("kid", how="refuse"),
    "raise": lambda draft: draft.register("kid", how="raise"),
    "answer": lambda draft: draft.register("kid", how="answer"),
    "nested": lambda draft: draft.register("kid", how="nested"),
    "foreign": lambda draft: draft.register("kid", how="foreign"),
    "cohort": lambda draft: draft.register("kid", "a\u200bb"),
    "attributes": lambda draft: draft.register("kid", how={1, 2}),
    "no name": lambda draft: draft.register(7),
    "no agent": lambda draft: draft.remove(7),
    "caught": caught,
    "both": lambda draft: (draft.register("kid", "kids"), draft.remove("bob"))[0],
    "on_batch": lambda draft: draft.put("clinic.beds", draft.agent_id, "twin", True),
}


class Clinic(Domain):
    name, version = "clinic", "1"
    kinds = (Kind("Do", Open, free), Kind("Peek", Open, free, read_only=True))

    def on_register(self, draft: Any, agent_id: str, attributes: Any) -> Any:
        draft.create("clinic.beds", agent_id)
        match attributes.get("how"):
            case "refuse":
                return refuse("unwell", "the doctor refuses")
            case "raise":
                raise ZeroDivisionError("a bug")
            case "answer":
                return "no"
            case "nested":
                draft.register("other")
            case "foreign":
                draft.create("lab.things", agent_id)
            case _:
                pass
        return None

    def on_remove(self, draft: Any, agent_id: str) -> None:
        draft.delete("clinic.beds", agent_id)

    def on_batch(self, draft: Any) -> None:
        if draft.get("clinic.beds", "alice", "twin"):
            draft.put("clinic.beds", "alice", "twin", False)
            draft.register("bob")

    def on_settle(self, draft: Any, effect: Any, settlement: Any) -> None:
        draft.remove("bob")


DONE = [
    ("Do", "refuse", "clinic.unwell"),
    ("Do", "raise", "rule_error"),
    ("Do", "answer", "rule_error"),
    ("Do", "nested", "rule_error"),
    ("Do", "foreign", "rule_error"),
    ("Do", "cohort", "rule_error"),
    ("Do", "attributes", "rule_error"),
    ("Do", "no name", "clinic.agent_name_invalid"),
    ("Do", "no agent", "clinic.agent_unknown"),
    ("Do", "caught", ""),
    ("Do", "both", ""),
    ("Do", "on_batch", "clinic.agent_exists"),
    ("Peek", "both", "rule_error"),
]


@pytest.mark.parametrize("joins", [True, False])
@pytest.mark.parametrize(("kind", "action", "code"), DONE)
def test_hooks_admit_refuse_or_break_a_birth(kind, action, code, joins):
    """The hooks write in their own domain: both domains initialize the agent."""
    log: list[bytes] = []
    kernel = kernel_of([Clinic(), Nursery()], sink=log)
    kernel.joins_batches = joins
    one = {**intent(kind, {"action": action}), "context_seq": kernel.seq}
    other = {**intent("Add", None, "b", agent_id="bob"), "context_seq": kernel.seq}
    verdict, _ = kernel.decide_group([[one], [other]])
    assert [*verdict.codes] == ([code] if code else [])
    assert ("kid" in kernel.ledger.agents) == (not code)
    beds = ["alice", "bob"] if code else sorted({"alice", "bob", "kid"} & {*kernel.ledger.agents})
    assert sorted(kernel.state["clinic.beds"]) == beds
    assert sorted(set(kernel.state[COUNTS])) == beds
    proven(kernel, log, [Clinic(), Nursery()])


@pytest.mark.parametrize("joins", [True, False])
def test_births_before_a_batch_that_raises_stay(joins):
    """The validator gets their permissions."""
    sink, log = Sink(), list[bytes]()
    kernel = kernel_of([Clinic()], validator=sink, sink=log, on_rule_error="raise")
    kernel.joins_batches = joins
    first, second = (
        intent("Do", {"action": action}, agent_id=agent_id, priority=priority)
        for action, agent_id, priority in (("both", "alice", 20), ("cohort", "alice", 10))
    )
    with pytest.raises(ValueError, match="cohort"):
        kernel.decide_group([[first], [{**second, "req_id": "second"}]])
    assert [*kernel.ledger.agents] == ["alice", "kid"]
    assert sink.told == ["alice", "bob", "kid"]
    proven(kernel, log, [Clinic()])


def test_a_tick_that_raises_after_a_birth_changes_nothing():
    class Breaking(Nursery):
        def on_tick(self, draft: Any, sim_time: float) -> None:
            super().on_tick(draft, sim_time)
            raise ZeroDivisionError

    collected: list[int] = []
    kernel = kernel_of([Breaking()], on_rule_error="raise")
    kernel.on_tick = lambda kernel: collected.append(kernel.ledger.tick)
    before = kernel.snapshot()
    with pytest.raises(ZeroDivisionError):
        kernel.tick(0.0)
    assert (kernel.snapshot(), collected, [*kernel.ledger.agents]) == (before, [], ["alice", "bob"])


def test_other_hooks_may_not_register():
    with pytest.raises(Exception, match=r"draft\.register is for the rule of a kind, on_batch and"):
        kernel_of([Clinic()]).register_agent("kid", how="nested")


def test_agents_of_reads_registrations_and_removals():
    assert agents_of(Registered(b"", 1, 0, "x", "x", ["A"], 100, {}, {}, None)) == (  # type: ignore[arg-type]
        AgentChange("x", False, None, ["A"]),
    )
    for what, told in (("removed", (AgentChange("x", True),)), ("suspended", ())):
        assert agents_of(AgentChanged(b"", 1, 0, "x", what, None, None)) == told  # type: ignore[arg-type]


def test_a_birth_in_another_cohort_diverges():
    kernel, log = world()
    decide(kernel, act("Bear", "kid"))

    def bear_in_another_cohort(draft: Any, _: Any) -> None:
        draft.register("kid", "else", luck=draft.randint_below(6, "luck"))

    class Other(Nursery):
        kinds = tuple(
            replace(kind, rule=bear_in_another_cohort) if kind.name == "Bear" else kind
            for kind in Nursery.kinds
        )

    verifier = Verifier([Other(), Annex()])
    for data in log[:-1]:
        verifier.apply(data)
    with pytest.raises(DecisionMismatch, match=r"agents is .*registered kid, cohort else"):
        verifier.apply(log[-1])


def test_the_config_and_limits_of_a_kernel_bound_births():
    assert Limits().batch_work_max > AGENT_CHANGE_WORK
    assert Kernel(Nursery(), KernelConfig(seed=1)).own_collections("x", {}) == {COUNTS}
