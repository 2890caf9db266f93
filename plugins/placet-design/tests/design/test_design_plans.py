"""Plans: version, idempotence, dry run, the wire form, and the design that they are for."""

import re
from dataclasses import replace

import pytest
from tests.design.designer import Designer, lock, more, put

from placet.errors import DuplicateRequestError, PlacetError
from placet_design import (
    Action,
    ActionPlan,
    ActionType,
    Intent,
    IntentType,
    PlanInvalidError,
    StalePlanError,
    StateManager,
    Step,
    parse_action,
    parse_plan,
)
from placet_design.actions.plans import PLAN_BODY, action_as_dict, plan_body

BODY = {
    "plan_id": "p1",
    "intent_id": "i1",
    "design_version_before": 0,
    "actions": [{"action_type": "set", "path": "hull.loa", "value": 60}],
}


@pytest.mark.parametrize("version", [0, 1, 3, 99])
def test_any_other_version_is_stale_older_or_newer(version):
    designer = Designer()
    designer.execute(put("hull.loa", 50))
    designer.execute(put("hull.loa", 51))
    with pytest.raises(StalePlanError) as raised:
        designer.execute(put("hull.loa", 60), version=version)
    assert raised.value.current_design_version == 2
    with pytest.raises(StalePlanError):
        designer.validator.validate(
            designer.plan(put("hull.loa", 60), version=version), designer.manager
        )
    assert designer.manager.get("hull.loa") == 51.0


def test_a_stale_plan_is_executed_under_its_id_on_the_version_named():
    designer = Designer()
    plan = designer.plan(put("hull.loa", 60))
    designer.execute(put("hull.loa", 50))
    with pytest.raises(StalePlanError) as raised:
        designer.executor.execute(plan)
    again = replace(plan, design_version_before=raised.value.current_design_version)
    assert designer.executor.execute(again).design_version_after == 2
    assert designer.executor.execute(again).design_version_after == 2, "sent again: the same"
    assert designer.manager.design_version == 2
    with pytest.raises(PlacetError, match=r"a plan '.+' was applied before; send this one under"):
        designer.executor.execute(replace(plan, design_version_before=2))


def test_staleness_of_a_plan_precedes_its_other_errors():
    designer = Designer()
    with pytest.raises(StalePlanError):
        designer.execute(put("invalid.path", 1), put("hull.loa", "x"), version=7)


def test_a_repeated_plan_gets_the_same_answer_and_is_applied_once():
    designer = Designer()
    plan = designer.plan(put("hull.loa", 2, "ft"), put("hull.draft", 1.5))
    first, again = designer.executor.execute(plan), designer.executor.execute(plan)
    assert again.verdict.replayed
    assert again.as_dict() == first.as_dict()
    assert again.warnings
    assert designer.manager.design_version == 1
    assert [result.executed for result in again.action_results] == [True, True]
    assert again.notices == []


def test_the_same_plan_after_a_crash_gets_the_same_answer():
    designer = Designer()
    plan = designer.plan(put("hull.loa", 2000))
    first = designer.executor.execute(plan)
    designer.execute(put("hull.loa", 100))
    recovered = Designer(StateManager.resume(designer.manager.records))
    assert recovered.executor.execute(plan).as_dict() == first.as_dict()
    assert recovered.manager.get("hull.loa") == 100.0


def test_the_same_rejected_plan_is_rejected_for_the_same_codes():
    designer = Designer()
    plan = designer.plan(put("invalid.path", 1), put("hull.loa", 60))
    first, again = designer.executor.execute(plan), designer.executor.execute(plan)
    assert again.verdict.replayed
    assert [r.code for r in again.rejections] == [r.code for r in first.rejections]
    assert [r.path for r in again.rejections] == ["invalid.path"]


def test_another_plan_with_a_used_id_is_refused():
    designer = Designer()
    designer.execute(put("hull.loa", 60), plan_id="p1")
    with pytest.raises(DuplicateRequestError) as raised:
        designer.execute(put("hull.loa", 61), plan_id="p1")
    assert raised.value.code == "req_id_reused"


def test_a_repeated_plan_succeeds_after_its_stored_answer_is_gone():
    designer = Designer()
    plan = designer.plan(put("hull.loa", 60))
    designer.executor.execute(plan)
    slots = designer.manager.tree.collection("design.plans").entities
    slots.clear()  # as after many plans of other agents
    assert designer.executor.execute(plan).success


def test_a_dry_run_has_the_answer_of_the_real_run_and_changes_nothing():
    designer = Designer()
    designer.execute(put("hull.loa", 100))
    plan = designer.plan(more("hull.loa", 1000, "ft"), put("hull.beam", 12), lock("hull.beam"))
    before = designer.manager.kernel.world_digest()
    dry = designer.executor.execute(plan, dry_run=True)
    assert designer.manager.kernel.world_digest() == before
    real = designer.executor.execute(plan)
    assert dry.as_dict() == real.as_dict()
    assert dry.action_results == real.action_results
    assert dry.diff() == real.diff() == [
        {"path": "hull.loa", "before": 100.0, "requested": 1000, "unit": "ft", "after": 404.8},
        {"path": "hull.beam", "before": None, "requested": 12, "unit": None, "after": 12.0},
    ]  # fmt: skip


def test_a_rejected_plan_has_no_diff():
    assert Designer().dry_run(put("invalid.path", 1)).diff() == []


def test_a_single_action_is_a_plan_on_the_current_version():
    designer = Designer()
    results = [designer.executor.execute(put("hull.loa", value)) for value in (50, 60, 60)]
    assert [result.design_version_after for result in results] == [1, 2, 2]
    assert len({result.plan_id for result in results}) == 3


def test_the_intent_is_logged_with_its_plan():
    designer = Designer()
    intent = Intent("intent", "design", "make it 60 m", IntentType.REFINE, 0.9, "2026-11-22")
    result = designer.executor.execute(designer.plan(put("hull.loa", 60)), intent=intent)
    assert result.success
    assert [done.after for done in result.action_results] == [60.0]
    rejected = designer.executor.execute(designer.plan(put("hull.lao", 60)), intent=intent)
    assert [(r.path, r.index) for r in rejected.rejections] == [("hull.lao", 0)]


def test_a_plan_for_another_design_is_refused_by_name():
    designer = Designer(design_id="patrol_boat")
    result = designer.execute(put("hull.loa", 60))
    assert [rejection.code for rejection in result.rejections] == ["design_unknown"]
    assert result.verdict.refusals[0].suggestions == ("patrol_boat",)


def test_an_unnamed_design_gets_one_name():
    designer = Designer()
    designer.manager.propose([("design.create", {"design_id": "design", "name": "The first"})])
    assert designer.manager.state.design_id == "design"
    assert designer.execute(put("hull.loa", 60)).success
    with pytest.raises(PlacetError, match="another world"):
        designer.manager.propose([("design.create", {"design_id": "other"})])


def test_an_agent_without_permission_is_refused():
    designer = Designer()
    designer.manager.kernel.set_agent_permissions("planner", {"design.noop"})
    with pytest.raises(PlacetError) as raised:
        designer.execute(put("hull.loa", 60))
    assert raised.value.code == "permission_denied"


def test_a_plan_without_actions_is_executed_and_changes_nothing():
    result = Designer().execute()
    assert (result.success, result.actions_executed, result.design_version_after) == (True, 0, 0)


# the wire


def test_a_json_body_is_parsed():
    plan = parse_plan("ship", {**BODY, "proposed_at": "2026-11-22T02:00:00Z"})
    assert plan == ActionPlan(
        "p1", "i1", "ship", [Action(ActionType.SET, path="hull.loa", value=60)], 0,
        "2026-11-22T02:00:00Z",
    )  # fmt: skip


def test_a_plan_round_trips_through_its_json_body():
    step = more("hull.beam", Step.A_BIT)
    for moment in (None, "2026-11-22T02:00:00Z"):
        plan = ActionPlan("p1", "i1", "ship", [put("hull.loa", 60, "m"), step], 3, moment)
        assert parse_plan("ship", plan_body(plan)) == plan


@pytest.mark.parametrize(
    ("given", "action"),
    [
        ({"action_type": "set", "path": "a.b", "value": True, "unit": "m"},
         Action(ActionType.SET, path="a.b", value=True, unit="m")),
        ({"action_type": "increase", "path": "a.b"}, Action(ActionType.INCREASE, path="a.b")),
        ({"action_type": "decrease", "path": "a.b", "amount": "a_bit"},
         Action(ActionType.DECREASE, path="a.b", amount="a_bit")),
        ({"action_type": "lock", "path": "a.b", "message": "as built"},
         Action(ActionType.LOCK, path="a.b", message="as built")),
        ({"action_type": "unlock", "path": "a.b"}, Action(ActionType.UNLOCK, path="a.b")),
        ({"action_type": "run_phases", "phases": ["hull"]},
         Action(ActionType.RUN_PHASES, phases=["hull"])),
        ({"action_type": "export", "format": "csv"}, Action(ActionType.EXPORT, format="csv")),
        ({"action_type": "request_clarification", "message": "?"},
         Action(ActionType.REQUEST_CLARIFICATION, message="?")),
        ({"action_type": "noop"}, Action(ActionType.NOOP)),
    ],
    ids=lambda value: value["action_type"] if isinstance(value, dict) else "",
)  # fmt: skip
def test_an_action_round_trips_through_json(given, action):
    assert parse_action(given) == action
    assert action_as_dict(action) == given


@pytest.mark.parametrize(
    ("change", "at"),
    [
        ({"plan_id": ""}, "/plan_id"),
        ({"plan_id": "x" * 121}, "/plan_id"),
        ({"intent_id": 3}, "/intent_id"),
        ({"design_version_before": -1}, "/design_version_before"),
        ({"design_version_before": "0"}, "/design_version_before"),
        ({"design_version_before": True}, "/design_version_before"),
        ({"actions": []}, "/actions"),
        ({"actions": [{}]}, "/actions/0"),
        ({"actions": [{"action_type": "teleport"}]}, "/actions/0"),
        ({"actions": [{"action_type": "set", "path": "a.b"}]}, "/actions/0/value"),
        ({"actions": [{"action_type": "noop", "path": "a.b"}]}, "/actions/0/path"),
        ({"actions": [{"action_type": "set", "path": "a.b", "value": [1]}]}, "/actions/0/value"),
        ({"actions": [{"action_type": "lock", "path": "a.b", "for_s": 1}]}, "/actions/0/for_s"),
        ({"design_id": "ship"}, "/design_id"),
        ({"role": "operator"}, "/role"),
    ],
    ids=str,
)
def test_an_invalid_plan_is_refused_with_the_path_of_the_fault(change, at):
    with pytest.raises(PlanInvalidError) as raised:
        parse_plan("ship", {**BODY, **change})
    assert raised.value.at == at
    assert not raised.value.is_version_missing
    is_missing = change.get("actions") in ([{}], [{"action_type": "set", "path": "a.b"}])
    assert re.search("required" if is_missing else "got ", str(raised.value))


def test_a_missing_version_has_its_own_error():
    body = {name: value for name, value in BODY.items() if name != "design_version_before"}
    with pytest.raises(PlanInvalidError) as raised:
        parse_plan("ship", body)
    assert raised.value.is_version_missing
    hostiles: list[object] = [None, [], "x", {1: 2}, {}, {**body, "role": 1}]
    for hostile in hostiles:
        with pytest.raises(PlanInvalidError) as raised:
            parse_plan("ship", hostile)
        assert not raised.value.is_version_missing
        with pytest.raises(PlanInvalidError):
            parse_action(hostile)


def test_the_wire_form_has_a_json_schema_with_a_variant_for_each_type():
    schema = PLAN_BODY.json_schema()
    mapping = schema["properties"]["actions"]["items"]["discriminator"]["mapping"]
    assert set(mapping) == {kind.value for kind in ActionType}
