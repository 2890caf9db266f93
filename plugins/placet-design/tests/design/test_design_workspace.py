"""The state manager: transactions of the host's own, reading, and JSON in and out."""

import json

import pytest
from tests.design.designer import VESSEL, Designer, lock, put

from placet.errors import StoreError, ValidationError
from placet.kernel import Kernel, KernelConfig
from placet.schemas.limits import Limits
from placet_design import DesignState, PhaseMachine, StalePlanError, StateManager
from placet_design.phase_results import ASSUMPTIONS


@pytest.fixture
def manager():
    return StateManager()


def test_an_open_transaction_reads_its_own_writes(manager):
    manager.set("hull.loa", 200, "ft")
    manager.set("hull.beam", 900)
    assert manager.get("hull.loa") == 200 * 0.3048
    assert manager.get("hull.beam") == 100.0  # clamped
    assert manager.diff() == {"hull.loa": (None, 200 * 0.3048), "hull.beam": (None, 100.0)}
    assert manager.state.parameters == {}
    assert manager.commit() == 1
    assert manager.diff() == {}
    assert manager.get_strict("hull.loa") == 200 * 0.3048


def test_rollback_discards_the_changes(manager):
    manager.begin()
    manager.set("hull.loa", 60)
    manager.rollback()
    assert not manager.exists("hull.loa")
    assert manager.commit() == 0


def test_only_one_transaction_is_open_at_a_time(manager):
    manager.begin()
    with pytest.raises(ValueError, match="is open"):
        manager.begin()


def test_a_transaction_is_stale_if_another_committed_since(manager):
    designer = Designer(manager)
    manager.begin()
    manager.set("hull.loa", 60)
    designer.execute(put("hull.beam", 9))
    with pytest.raises(StalePlanError) as raised:
        manager.commit()
    assert raised.value.current_design_version == 1


def test_the_whole_design_is_checked_at_commit(manager):
    manager.set("hull.lwl", 60)
    manager.commit()
    manager.set("hull.loa", 50)
    with pytest.raises(ValidationError, match=r"lwl must be at most hull\.loa"):
        manager.commit()
    manager.set("hull.lwl", 49)  # the transaction is still there
    assert manager.commit() == 2


def test_an_invalid_write_is_refused_before_commit(manager):
    for path, value in (("hull.length", 1), ("hull.loa", "x"), ("hull.loa", float("nan"))):
        with pytest.raises((ValidationError, ValueError)):
            manager.set(path, value)
    assert manager.diff() == {}


def test_locks_set_in_a_transaction_apply_at_its_commit(manager):
    manager.begin()
    manager.set("hull.loa", 60)
    manager.lock_parameter("hull.loa", "as built")
    assert not manager.is_locked("hull.loa")
    manager.commit()
    assert manager.is_locked("hull.loa")
    manager.begin()
    manager.unlock_parameter("hull.loa")
    manager.set("hull.loa", 61)
    manager.commit()
    assert manager.get("hull.loa") == 61.0


def test_patch_takes_paths_and_sections(manager):
    manager.patch({"hull.loa": 60, "hull": {"beam": 9, "draft": 2}, "mission.range_nm": 500})
    assert manager.commit() == 1
    assert manager.state.parameters == {
        "hull.loa": 60.0, "hull.beam": 9.0, "hull.draft": 2.0, "mission.range_nm": 500.0,
    }  # fmt: skip


def test_missing_parameters_have_a_default_or_raise(manager):
    assert manager.get("hull.loa") is None
    assert manager.get("hull.loa", 7) == 7
    assert manager.get("warp.drive", 7) == 7
    with pytest.raises(KeyError, match="not set"):
        manager.get_strict("hull.loa")
    with pytest.raises(KeyError, match="no path"):
        manager.get_strict("warp.drive")


def test_a_design_is_compared_with_another(manager):
    manager.set("hull.loa", 60)
    manager.commit()
    other = DesignState(parameters={"hull.loa": 50.0, "hull.beam": 9.0})
    expected = {"hull.loa": (60.0, 50.0), "hull.beam": (None, 9.0)}
    assert manager.diff(other) == manager.diff(StateManager(other)) == expected


def test_only_the_operator_sets_assumptions(manager):
    manager.patch(VESSEL)
    path = _some_assumption()
    manager.set(path, 1.5)
    manager.commit()
    assert manager.state.assumptions[path] == 1.5
    verdict = manager.decide(
        {
            "kind": "design.assume",
            "payload": {"path": path, "value": 1.0},
            "agent_id": "planner",
            "req_id": "a",
            "context_seq": 0,
            "priority": 1,
            "schema_version": "1.0.0",
        }
    )
    assert verdict.codes == ("design.operator_only",)
    for wrong in (True, "x"):
        with pytest.raises(ValidationError, match="must be a number"):
            manager.set(path, wrong)
    with pytest.raises(ValidationError, match="no assumption"):
        manager.propose([("design.assume", {"path": "assumptions.none", "value": 1.0})])
    version = manager.design_version
    manager.propose([("design.assume", {"path": path, "value": 1.5})])
    assert manager.design_version == version
    manager.undo()
    assert manager.state.assumptions == {}


def _some_assumption():
    return next(path for path, default in ASSUMPTIONS.items() if not isinstance(default, str))


# JSON


def test_a_design_round_trips_through_json():
    manager = StateManager(design_id="ship")
    manager.patch({**VESSEL, "hull.hull_type": "monohull"})
    manager.commit()
    manager.lock_parameter("hull.loa")
    manager.lock_parameter("hull.beam")
    text = manager.to_json()
    assert json.loads(text)["hull"]["loa"] == 60.0
    assert json.loads(text)["locked_parameters"] == ["hull.beam", "hull.loa"]
    again = StateManager.from_json(text)
    assert again.to_json() == text
    assert again.design_version == 1
    assert again.get_locked_parameters() == {"hull.beam", "hull.loa"}


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{", '{"design_version": -1}', '{"design_version": 1.5}', '{"hull": {"lao": 1}}',
        '{"hull": {"loa": NaN}}', '{"hull": {"loa": 1e9}}', '{"hull": {"loa": "60"}}',
        '{"hull": {"hull_type": "ufo"}}', '{"warp": {}}', '{"locked_parameters": ["hull.lao"]}',
        '{"propulsion": {"num_engines": 2.5}}', '{"propulsion": {"num_engines": true}}',
    ],
)  # fmt: skip
def test_invalid_json_of_a_design_is_refused(text):
    with pytest.raises(ValueError, match=r".+"):
        StateManager.from_json(text)


def test_exported_json_has_finite_numbers_only():
    with pytest.raises(ValueError, match="finite"):
        DesignState(parameters={"hull.loa": float("inf")}).to_json()


def test_phases_are_exported_and_not_imported():
    manager = StateManager()
    PhaseMachine(manager).transition("hull", "completed", "me")
    text = manager.to_json()
    assert json.loads(text)["phases"]["hull"]["status"] == "completed"
    assert "phases" not in json.loads(StateManager.from_json(text).to_json())


# the log


def test_a_full_log_is_an_error_before_anything_happens(manager, monkeypatch):
    tiny = Limits(log_bytes_max=1)
    monkeypatch.setattr("placet_design.api.workspace._LIMITS", tiny)
    digest = manager.kernel.world_digest()
    with pytest.raises(StoreError, match="full"):
        manager.propose([("design.noop", {})])
    assert manager.kernel.world_digest() == digest


def test_a_lock_of_the_initial_state_belongs_to_the_operator():
    state = DesignState(4, {"hull.loa"}, None, {"hull.loa": 60.0})
    designer = Designer(StateManager(state))
    assert designer.codes(put("hull.loa", 61)) == ["locked"]
    assert designer.codes(lock("hull.loa")) == ["not_owner"]
    designer.manager.unlock_parameter("hull.loa")
    assert designer.execute(put("hull.loa", 61)).design_version_after == 5


def test_the_domain_needs_no_state_manager():
    design = StateManager().design
    kernel = Kernel(design, KernelConfig())
    kernel.register_agent("ann")
    verdict = kernel.decide(
        {
            "kind": "design.set",
            "payload": {"path": "hull.loa", "value": 60},
            "agent_id": "ann",
            "req_id": "a",
            "context_seq": 0,
            "priority": 1,
            "schema_version": "1.0.0",
        }
    )
    assert verdict.admitted
    assert kernel.state["design.about"]["design"]["version"] == 1
