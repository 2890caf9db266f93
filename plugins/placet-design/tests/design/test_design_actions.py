"""Every action type and every rejection: the proposed action and its code and message."""

from typing import Any

import pytest
from tests.design.designer import Designer, less, lock, more, put, unlock

from placet_design import Action, ActionType, RefinableField, Step
from placet_design.actions.plans import action_of, payload_of
from placet_design.actions.protocol import Adjustment
from placet_design.refinable_fields import REFINABLE_SCHEMA
from tests.kernel.builders import restore

NAN, INF = float("nan"), float("inf")


def act(action_type, **fields):
    return Action(ActionType(action_type), **fields)


# proposed, one word of the path, value afterwards, warnings
PASSES = [
    (put("hull.loa", 60.0), 60.0, []),
    (put("hull.loa", 60), 60.0, []),
    (put("hull.loa", 60, "m"), 60.0, []),
    (put("hull.loa", 100, "ft"), 100 * 0.3048, ["unit_converted"]),
    (put("hull.loa", 600), 500.0, ["clamped"]),
    (put("hull.loa", 1), 5.0, ["clamped"]),
    (put("hull.loa", 6000, "ft"), 500.0, ["unit_converted", "clamped"]),
    (put("hull.deadrise_deg", -0.0), 0.0, []),
    (put("hull.cb", 0.5, ""), 0.5, []),
    (put("propulsion.total_installed_power_kw", 2, "MW"), 2000.0, ["unit_converted"]),
    (put("propulsion.propeller_diameter_m", 2400, "mm"), 2.4, ["unit_converted"]),
    (put("mission.max_speed_kts", 36, "km/h"), 36 / 1.852, ["unit_converted"]),
    (put("propulsion.num_engines", 2), 2, []),
    (put("propulsion.num_engines", 2.0), 2, []),
    (put("propulsion.num_engines", 99), 8, ["clamped"]),
    (put("hull.hull_type", "catamaran"), "catamaran", []),
    (more("mission.crew_berthed", 5), 25, []),
    (more("mission.crew_berthed", 5.0), 25, []),
    (more("mission.range_nm", 100), 3100.0, []),
    (more("mission.range_nm", 185.2, "km"), pytest.approx(3100.0), ["unit_converted"]),
    (more("mission.range_nm", 1e6), 30_000.0, ["clamped"]),
    (less("mission.range_nm", 1e6), 10.0, ["clamped"]),
    (less("mission.range_nm", 100.5), 2899.5, []),
    (more("mission.range_nm"), 3200.0, []),
    (more("mission.range_nm", "a_bit"), 3050.0, []),
    (more("mission.range_nm", Step.WAY), 4000.0, []),
    (less("mission.range_nm", "normal"), 2800.0, []),
    (put("mission.range_nm", 3000.0), 3000.0, ["no_op"]),
    (put("mission.range_nm", 3000), 3000.0, ["no_op"]),
]
BEGINNING = {"mission.range_nm": 3000.0, "mission.crew_berthed": 20}


def restorable():
    designer = Designer()
    designer.execute(*[put(path, value) for path, value in BEGINNING.items()])
    return designer, designer.manager.kernel.snapshot()


@pytest.fixture(scope="module")
def worlds():
    """Two designs and where they began: to open one takes 80 ms, to go back takes one."""
    return restorable(), restorable()


@pytest.fixture
def designers(worlds):
    for designer, snapshot in worlds:
        restore(designer.manager.kernel, snapshot)
    return [designer for designer, _ in worlds]


@pytest.fixture
def designer(designers):
    return designers[0]


@pytest.mark.parametrize(("action", "after", "adjustments"), PASSES, ids=str)
def test_action_passes(designer, action, after, adjustments):
    result = designer.execute(action)
    assert result.success
    value = designer.manager.get(action.path)
    assert value == after
    field = REFINABLE_SCHEMA[action.path]
    assert type(value) is {"float": float, "int": int, "enum": str}[field.type]
    assert [warning.code for warning in result.notices] == adjustments
    assert [warning.message for warning in result.notices] == result.warnings
    [done] = result.action_results
    assert (done.before, done.after) == (BEGINNING.get(action.path), value)
    is_no_op = adjustments == ["no_op"]
    assert result.design_version_after - result.design_version_before == (not is_no_op)


@pytest.mark.parametrize(("action", "after", "adjustments"), PASSES, ids=str)
def test_the_actions_a_verdict_returns_can_be_proposed_again(designers, action, after, adjustments):
    designer, again = designers
    verdict = designer.execute(action).verdict
    normalized = verdict.results[1].normalized
    proposed = action_of(f"design.{action.action_type}", normalized)
    result = again.execute(proposed)
    assert again.manager.digest() == designer.manager.digest()
    assert "unit_converted" not in [warning.code for warning in result.notices]
    assert result.verdict.results[1].normalized == normalized


def test_a_clamp_warns_with_the_requested_and_the_used_value(designer):
    [warning] = designer.execute(put("hull.loa", 600)).notices
    assert warning == Adjustment(
        "clamped", "hull.loa clamped from 600 to 500 m; it ranges from 5 to 500 m",
        "hull.loa", 600.0, 500.0,
    )  # fmt: skip


def test_rounding_at_a_bound_is_no_clamp(designer):
    result = designer.execute(put("hull.loa", 500 / 0.3048, "ft"))
    assert designer.manager.get("hull.loa") == 500.0
    assert [warning.code for warning in result.notices] == ["unit_converted"]


REJECTIONS = [
    # whitelist
    (put("hull.length", 60), "not_refinable"),
    (put("", 60), "not_refinable"),
    (put("assumptions.sfc", 1), "not_refinable"),
    (more("invalid.path", 1), "not_refinable"),
    (less("invalid.path", 1), "not_refinable"),
    (lock("invalid.path"), "not_refinable"),
    (unlock("invalid.path"), "not_refinable"),
    # unit
    (put("hull.loa", 60, "km"), "unit_not_allowed"),
    (put("hull.loa", 60, "parsec"), "unit_not_allowed"),
    (put("hull.cb", 0.5, "m"), "unit_not_allowed"),
    (put("hull.hull_type", "catamaran", "m"), "unit_not_allowed"),
    (more("mission.range_nm", 1, "m"), "unit_not_allowed"),
    (more("mission.range_nm", "a_bit", "nm"), "unit_not_allowed"),
    # type
    (put("hull.loa", "60"), "not_a_number"),
    (put("hull.loa", True), "not_a_number"),
    (put("hull.loa", None), "not_a_number"),
    (put("hull.loa", [60]), "not_a_number"),
    (put("hull.loa", {"m": 60}), "not_a_number"),
    (put("hull.loa", 10**30), "not_a_number"),
    (put("hull.loa", NAN), "non_finite"),
    (put("hull.loa", INF), "non_finite"),
    (put("hull.loa", -INF), "non_finite"),
    (put("propulsion.num_engines", 2.5), "not_integral"),
    (put("propulsion.num_engines", False), "not_a_number"),
    (put("hull.hull_type", "submarine"), "enum_value"),
    (put("hull.hull_type", 3), "enum_value"),
    (put("hull.hull_type", "Catamaran"), "enum_value"),
    # amounts
    (more("hull.loa", 1), "delta_on_unset"),
    (more("hull.loa"), "delta_on_unset"),
    (more("mission.range_nm", 0), "amount_not_positive"),
    (less("mission.range_nm", -1), "amount_not_positive"),
    (more("mission.range_nm", "a lot"), "not_a_number"),
    (more("mission.range_nm", "100"), "not_a_number"),
    (more("mission.range_nm", NAN), "non_finite"),
    (more("mission.crew_berthed"), "amount_missing"),
    (more("mission.crew_berthed", 1.5), "not_integral"),
    (more("mission.crew_berthed", "a_bit"), "not_a_number"),
    (more("hull.hull_type", 1), "not_a_number"),
    # the others
    (act("run_phases", phases=["hul"]), "phase_unknown"),
    (act("run_phases", phases=[]), "phases_empty"),
    (act("export", format="pdf"), "format_unknown"),
    # fields that are not the type's
    (act("set", path="hull.loa", value=60.0, amount=1), "payload_invalid"),
    (act("set", value=60.0), "payload_invalid"),
    (act("noop", path="hull.loa"), "payload_invalid"),
    (act("request_clarification"), "payload_invalid"),
    (act("export"), "payload_invalid"),
]


@pytest.mark.parametrize(("action", "code"), REJECTIONS, ids=str)
def test_action_is_rejected(designer, action, code):
    digest, version = designer.manager.kernel.digest(), designer.manager.design_version
    result = designer.execute(put("hull.beam", 9), action)
    assert not result.success
    [rejection] = result.rejections
    assert (rejection.code, rejection.index) == (code, 1)
    assert rejection.path in {action.path, "", "hul"}
    assert rejection.reason
    assert (result.actions_executed, result.design_version_after) == (0, version)
    assert result.as_dict()["approved_count"] == 1
    is_malformed = any(refusal.stage == "structure" for refusal in result.verdict.refusals)
    assert is_malformed == (
        code in {"payload_invalid", "non_finite"} or result.verdict.codes[0] == "payload_invalid"
    )
    assert designer.manager.kernel.digest() == digest
    assert designer.validate(put("hull.beam", 9), action).approved == [put("hull.beam", 9.0)]


def test_an_unknown_type_is_rejected(designer):
    result = designer.execute(Action("teleport", path="hull.loa"))  # type: ignore[arg-type]
    assert [rejection.code for rejection in result.rejections] == ["kind_unknown"]


def test_nearest_paths_are_suggested(designer):
    verdict = designer.execute(put("hull.bem", 9)).verdict
    assert verdict.refusals[0].suggestions[0] == "hull.beam"
    assert "did you mean hull.beam" in verdict.refusals[0].message


def test_allowed_units_are_listed(designer):
    verdict = designer.execute(put("hull.loa", 1, "km")).verdict
    assert verdict.refusals[0].suggestions == ("m", "ft")
    assert verdict.refusals[0].message.endswith("allowed are m, ft")


def test_actions_see_the_results_of_earlier_actions(designer):
    result = designer.execute(
        put("hull.loa", 50), more("hull.loa", 5), more("hull.loa", 5), less("hull.loa", 1)
    )
    assert designer.manager.get("hull.loa") == 59.0
    assert [(r.before, r.after) for r in result.action_results] == [
        (None, 50.0), (50.0, 55.0), (55.0, 60.0), (60.0, 59.0),
    ]  # fmt: skip
    assert result.design_version_after == result.design_version_before + 1


def test_a_plan_is_all_or_nothing(designer):
    before = designer.manager.to_json()
    codes = designer.codes(put("hull.loa", 50), put("hull.lao", 50), put("hull.loa", "x"))
    assert codes == ["not_refinable", "not_a_number"]
    assert designer.manager.to_json() == before


@pytest.mark.parametrize("action", [act("noop"), act("request_clarification", message="Which?")])
def test_an_action_that_changes_nothing_passes_and_advances_nothing(designer, action):
    result = designer.execute(action)
    assert result.success
    assert result.actions_executed == 1
    assert result.design_version_after == result.design_version_before == 1


def test_a_change_that_is_reverted_in_its_plan_is_no_commit(designer):
    result = designer.execute(put("mission.range_nm", 1), put("mission.range_nm", 3000))
    assert result.design_version_after == result.design_version_before


@pytest.mark.parametrize(
    ("actions", "paths"),
    [
        ([put("hull.loa", 50), put("hull.lwl", 51)], ["hull.lwl", "hull.loa"]),
        ([put("hull.draft", 3), put("hull.depth", 3)], ["hull.draft", "hull.depth"]),
        (
            [put("mission.cruise_speed_kts", 20), put("mission.max_speed_kts", 19)],
            ["mission.cruise_speed_kts", "mission.max_speed_kts"],
        ),
        (
            [put("hull.cb", 0.5), put("hull.cp", 0.7), put("hull.cm", 0.8)],
            ["hull.cb", "hull.cp", "hull.cm"],
        ),
    ],
    ids=lambda value: value[0] if isinstance(value[0], str) else "",
)
def test_an_invalid_design_is_refused(designer, actions, paths):
    result = designer.execute(act("noop"), *actions)
    [refusal] = result.verdict.refusals
    assert (refusal.code, refusal.details["paths"]) == ("invariant_violated", paths)
    assert [rejection.code for rejection in result.rejections] == ["invariant_violated"]
    assert result.rejections[0].path == paths[0]
    assert result.as_dict()["rejected_count"] == len(actions)
    assert designer.manager.get(paths[0]) is None
    assert designer.validate(act("noop"), *actions).approved == [act("noop")]


@pytest.mark.parametrize(
    "actions",
    [
        [put("hull.loa", 50), put("hull.lwl", 50)],
        [put("hull.draft", 3), put("hull.depth", 3.01)],
        [put("mission.cruise_speed_kts", 20), put("mission.max_speed_kts", 20)],
        [put("hull.cb", 0.5), put("hull.cp", 0.6), put("hull.cm", 0.84)],
        [put("hull.cb", 0.5), put("hull.cp", 0.9)],
    ],
    ids=str,
)
def test_a_design_just_within_its_bounds_passes(designer, actions):
    assert designer.execute(*actions).success


def test_bounds_reject_under_the_reject_policy():
    designer = Designer(policy="reject")
    assert designer.codes(put("hull.loa", 600)) == ["out_of_bounds"]
    assert designer.codes(put("hull.loa", 4.9)) == ["out_of_bounds"]
    assert designer.execute(put("hull.loa", 500)).success
    assert designer.codes(more("hull.loa", 1)) == ["out_of_bounds"]


OWN = {
    "deck.has_crane": RefinableField(path="deck.has_crane", type="bool"),
    "deck.load": RefinableField(path="deck.load", type="float", max_value=10, policy="reject"),
    "deck.count": RefinableField(path="deck.count", type="int", min_value=0),
    "deck.area": RefinableField(path="deck.area", type="float"),
}


@pytest.mark.parametrize(
    ("action", "codes"),
    [
        (put("deck.has_crane", True), []),
        (put("deck.has_crane", 1), ["not_a_bool"]),
        (put("deck.has_crane", "true"), ["not_a_bool"]),
        (more("deck.has_crane", 1), ["not_a_number"]),
        (put("deck.load", 11.0), ["out_of_bounds"]),
        (put("deck.load", -1e9), []),
        (put("deck.count", -3), []),
        (put("deck.area", 1e308), []),
        (put("hull.loa", 60), ["not_refinable"]),
    ],
    ids=str,
)
def test_custom_fields_are_checked(action, codes):
    designer = Designer(fields=OWN)
    assert designer.codes(action) == codes
    assert designer.manager.get("deck.count", 0) == 0  # clamped where it was set


def test_a_delta_beyond_the_float_range_is_rejected():
    designer = Designer(fields=OWN)
    designer.execute(put("deck.area", 1e308))
    assert designer.codes(more("deck.area", 1e308)) == ["non_finite"]
    assert designer.codes(more("deck.area")) == ["amount_missing"]


@pytest.mark.parametrize("action_type", list(ActionType), ids=str)
def test_every_action_round_trips_through_its_intent(action_type):
    fields: dict[str, dict[str, Any]] = {
        "set": {"path": "hull.loa", "value": 60.0, "unit": "m"},
        "increase": {"path": "hull.loa", "amount": 1.0},
        "decrease": {"path": "hull.loa", "amount": "a_bit"},
        "lock": {"path": "hull.loa", "message": "as built"},
        "unlock": {"path": "hull.loa"},
        "run_phases": {"phases": ["hull"]},
        "export": {"format": "json"},
        "request_clarification": {"message": "Which length?"},
        "noop": {},
    }
    action = Action(action_type, **fields[action_type])
    assert action_of(*payload_of(action)) == action
