"""Phases behind the gate: legal transitions, real runs, and staleness by read sets."""

import pytest
from tests.design.designer import VESSEL, Designer, put

from placet.errors import ValidationError
from placet.schemas.effect import Settlement
from placet_design import (
    PHASES,
    TRANSITIONS,
    Action,
    ActionType,
    Conductor,
    PhaseMachine,
    PhaseState,
    StateManager,
)
from placet_design import effects as running
from placet_design.payloads import RUN_EFFECT
from placet_design.phases.states import FINISHED
from placet_design.refinable_fields import REFINABLE_SCHEMA

ALL = ["mission", "hull", "propulsion", "weight", "stability", "compliance"]


@pytest.fixture
def manager():
    manager = StateManager()
    manager.patch(VESSEL)
    manager.commit()
    return manager


@pytest.fixture
def machine(manager):
    return PhaseMachine(manager)


def stale(machine):
    return [name for name, state in machine.get_states().items() if state is PhaseState.STALE]


def test_a_run_completes_every_phase_with_outputs_method_and_read_set(manager, machine):
    result = Conductor(manager).run_default_pipeline()
    assert result.success
    assert list(result.states) == list(PHASES) == ALL
    for name in ALL:
        kept = machine.get_result(name)
        assert kept["status"] == "completed"
        assert kept["outputs"]
        assert kept["method"]
        assert set(kept["reads"]) == set(PHASES[name].inputs)
        assert kept["is_by_hand"] is False
    assert machine.get_result("mission")["outputs"]["endurance_h"] == pytest.approx(3000 / 13)
    assert manager.design_version == 1  # a result is no change of the design


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("hull.beam", 12.5, ["hull", "propulsion", "weight", "stability", "compliance"]),
        ("mission.range_nm", 2000, ["mission", "weight", "stability", "compliance"]),
        ("hull.hull_type", "monohull", None),
        ("structural_design.hull_material", "steel", None),
    ],
)
def test_exactly_the_phases_that_read_a_changed_path_are_stale(
    manager, machine, path, value, expected
):
    Conductor(manager).run_default_pipeline()
    assert stale(machine) == []
    manager.set(path, value)
    manager.commit()
    read = [name for name in ALL if path in PHASES[name].inputs]
    assert stale(machine) == (expected if expected is not None else _downstream(read))


def _downstream(read):
    found: list[str] = []
    for name in ALL:
        upstream = {path.partition(":")[0] for path in PHASES[name].inputs if ":" in path}
        if name in read or upstream & set(found):
            found.append(name)
    return found


def test_an_undo_makes_phases_stale_and_a_no_op_does_not(manager, machine):
    Conductor(manager).run_default_pipeline()
    manager.set("hull.beam", VESSEL["hull.beam"])
    manager.commit()
    assert stale(machine) == []
    manager.set("hull.beam", 13)
    manager.commit()
    manager.undo()  # the value is that of before, but it was changed since it was read
    assert "hull" in stale(machine)


def test_rerunning_from_the_first_stale_phase_refreshes_all(manager, machine):
    Conductor(manager).run_default_pipeline()
    manager.set("hull.beam", 12.5)
    manager.commit()
    Conductor(manager).run_phases(["hull"])
    assert stale(machine) == ["propulsion", "weight", "stability", "compliance"]
    Conductor(manager).run_phases(["compliance", "propulsion", "stability", "weight"])
    assert stale(machine) == []


def test_a_phase_with_a_missing_input_fails_and_names_it(manager, machine):
    result = Conductor(manager).run_phases(["hull", "weight"])
    assert result.states["hull"] is PhaseState.COMPLETED
    assert result.states["weight"] is PhaseState.FAILED
    flags = result.flags["weight"]
    assert {flag["code"] for flag in flags} == {"input_missing"}
    assert "run the phase" in machine.get_result("weight")["reason"]


def test_run_phases_is_an_action(manager):
    designer = Designer(manager)
    result = designer.execute(put("hull.beam", 12.5), Action(ActionType.RUN_PHASES))
    assert result.success
    machine = PhaseMachine(manager)
    assert set(machine.get_states().values()) == {PhaseState.COMPLETED}
    assert machine.get_result("hull")["outputs"]["displacement_t"] == pytest.approx(
        1.025 * 57 * 12.5 * 3.6 * 0.52, rel=1e-3
    )


def test_a_change_after_the_run_in_the_same_plan_makes_its_result_stale(manager, machine):
    Designer(manager).execute(Action(ActionType.RUN_PHASES), put("hull.beam", 12.5))
    assert "hull" in stale(machine)
    assert "mission" not in stale(machine)


def test_unknown_phases_are_refused_by_name_with_the_list(manager):
    with pytest.raises(ValidationError, match="'hul' is unknown; there are mission, hull"):
        Conductor(manager).run_phases(["hull", "hul"])


def test_without_an_executor_a_run_is_refused_before_anything_happens(manager):
    manager.kernel.change_executor(RUN_EFFECT, None)
    with pytest.raises(ValidationError) as raised:
        Conductor(manager).run_default_pipeline()
    assert raised.value.code == "tool_unregistered"


def test_a_run_whose_executor_failed_is_a_failed_phase(manager, machine, monkeypatch):
    def broken(_payload):
        raise RuntimeError("no power")

    broken_executors = {**running.EXECUTORS, RUN_EFFECT: broken}
    monkeypatch.setattr(running, "EXECUTORS", broken_executors)
    result = Conductor(manager).run_phases(["hull"])
    assert result.states == {"hull": PhaseState.FAILED}
    assert machine.get_result("hull")["reason"] == "RuntimeError: no power"
    assert not result.success


def test_a_run_that_was_open_at_a_crash_is_run_when_the_log_is_resumed(manager):
    kernel = manager.kernel
    before = len(manager.records)
    Conductor(manager).run_phases(["hull"])
    settled = len(manager.records)
    cut = manager.records[: settled - 1]  # the run was asked for, and its outcome lost
    assert before < len(cut)
    again = StateManager.resume(cut)
    assert PhaseMachine(again).get_state("hull") is PhaseState.COMPLETED
    assert again.kernel.digest() == kernel.digest()


def test_a_run_that_ends_after_its_phase_was_locked_changes_nothing(manager, machine):
    machine.transition("hull", PhaseState.COMPLETED, "me")
    machine.transition("hull", PhaseState.APPROVED, "me")
    kernel = manager.kernel
    intents = {
        "kind": "design.run_phases",
        "payload": {"phases": ["hull"]},
        "agent_id": "planner",
        "req_id": "r",
        "context_seq": 0,
        "priority": 1,
        "schema_version": "1.0.0",
    }
    kernel.decide(intents)  # without the manager nobody runs it
    [effect] = kernel.open_effects()
    machine_of = PhaseMachine(manager)
    assert machine_of.get_state("hull") is PhaseState.ACTIVE
    kernel.tree.collection("design.phases").entities["hull"].fields["status"] = "locked"
    kernel.settle(Settlement(effect.key, succeeded=True, output=running.run_effect(effect).output))
    assert machine_of.get_result("hull")["outputs"] is None


def test_a_locked_phase_is_not_run(manager, machine):
    for state in (PhaseState.COMPLETED, PhaseState.APPROVED, PhaseState.LOCKED):
        machine.transition("hull", state, "me")
    with pytest.raises(ValidationError, match=r"locked .* move it to approved first"):
        Conductor(manager).run_phases(["hull"])


def test_the_refusal_of_a_locked_stale_phase_names_a_remedy_that_works(manager, machine):
    for state in (PhaseState.COMPLETED, PhaseState.APPROVED, PhaseState.LOCKED):
        machine.transition("hull", state, "me")
    manager.set("hull.beam", 13)
    manager.commit()
    with pytest.raises(ValidationError, match=r"locked .* move it to pending first"):
        Conductor(manager).run_phases(["hull"])
    machine.transition("hull", "pending", "me")
    assert Conductor(manager).run_phases(["hull"]).success


# by hand

PAIRS = [(here, to) for here in PhaseState for to in PhaseState]


@pytest.mark.parametrize(("here", "to"), PAIRS, ids=str)
def test_a_manual_transition_is_legal_according_to_the_table(manager, machine, here, to):
    bring_to(manager, machine, here)
    assert machine.get_state("hull") is here
    if to in TRANSITIONS[here]:
        assert machine.transition("hull", to, "me", "because") is to
        kept = machine.get_result("hull")
        assert (kept["source"], kept["reason"]) == ("me", "because")
        return
    with pytest.raises(ValidationError) as raised:
        machine.transition("hull", to, "me")
    refusal = raised.value.refusals[0]
    assert refusal.code == "design.illegal_transition"
    assert list(refusal.suggestions) == [state.value for state in TRANSITIONS[here]]
    assert machine.get_state("hull") is here


def bring_to(manager, machine, state):
    """Bring the hull phase to a state by legal moves."""
    way = {
        PhaseState.PENDING: [],
        PhaseState.ACTIVE: ["active"],
        PhaseState.COMPLETED: ["completed"],
        PhaseState.APPROVED: ["completed", "approved"],
        PhaseState.LOCKED: ["completed", "approved", "locked"],
        PhaseState.STALE: ["completed"],
        PhaseState.FAILED: ["active", "failed"],
        PhaseState.SKIPPED: ["skipped"],
    }[state]
    for step in way:
        machine.transition("hull", PhaseState(step), "me")
    if state is PhaseState.STALE:
        manager.set("hull.beam", 13)
        manager.commit()


def test_a_phase_cannot_be_set_to_stale():
    assert all(PhaseState.STALE not in targets for targets in TRANSITIONS.values())
    assert set(TRANSITIONS) == set(PhaseState)
    assert all(TRANSITIONS[state] for state in FINISHED)


def test_a_manually_completed_phase_has_no_outputs_and_is_marked(manager, machine):
    machine.transition("hull", PhaseState.COMPLETED, "me", "as built")
    kept = machine.get_result("hull")
    assert (kept["is_by_hand"], kept["outputs"]) == (True, None)
    result = Conductor(manager).run_phases(["propulsion"])
    assert result.states["propulsion"] is PhaseState.FAILED


def test_resetting_a_phase_to_pending_drops_its_result_and_makes_readers_stale(manager, machine):
    Conductor(manager).run_default_pipeline()
    machine.transition("weight", PhaseState.PENDING, "me")
    assert machine.get_result("weight")["outputs"] is None
    assert stale(machine) == ["stability", "compliance"]


def test_an_unknown_phase_is_refused_by_name(manager, machine):
    with pytest.raises(KeyError, match="'warp'"):
        machine.get_state("warp")
    with pytest.raises(ValidationError, match="'warp' is unknown"):
        machine.transition("warp", PhaseState.ACTIVE, "me")


# exports


@pytest.mark.parametrize(
    ("format_", "holds"),
    [
        ("json", '"design_version":1'),
        ("csv", "hull.loa,60.0,m,yes\r\n"),
        ("markdown", "| hull.loa | 60.0 | m | yes |"),
    ],
)
def test_an_export_is_kept_and_read(manager, format_, holds):
    Conductor(manager).run_default_pipeline()
    manager.lock_parameter("hull.loa")
    assert Designer(manager).execute(Action(ActionType.EXPORT, format=format_)).success
    kept = manager.tree.entity("design.exports", format_)
    assert kept is not None
    assert kept["version"] == 1
    assert holds in kept["content"]
    if format_ == "json":
        assert StateManager.from_json(kept["content"]).get("hull.loa") == 60.0
    if format_ == "markdown":
        assert "## hull: completed" in kept["content"]
        assert "not_assessable" in kept["content"]
    assert Designer(manager).execute(Action(ActionType.EXPORT, format=format_)).success


def test_a_readable_export_is_in_the_order_of_fields_and_phases(manager):
    """The payload of an effect has sorted keys, so that a restart writes the same bytes."""
    Conductor(manager).run_default_pipeline()
    for format_ in ("csv", "markdown"):
        assert Designer(manager).execute(Action(ActionType.EXPORT, format=format_)).success
    csv, markdown = (
        manager.tree.get("design.exports", format_, "content") for format_ in ("csv", "markdown")
    )
    paths = [line.partition(",")[0] for line in csv.splitlines()[1:]]
    assert paths == [path for path in REFINABLE_SCHEMA if path in paths]
    assert len(paths) == len(VESSEL)
    headings = [line for line in markdown.splitlines() if line.startswith("## ")]
    assert headings == [f"## {name}: completed" for name in ALL]
