"""Laws of the design domain, over arbitrary plans and arbitrary JSON."""

import json
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.design.designer import Designer, less, lock, more, put, unlock

from placet.errors import PlacetError
from placet_design import (
    REFINABLE_SCHEMA,
    Action,
    ActionPlanValidator,
    ActionType,
    PlanInvalidError,
    StateManager,
    parse_plan,
)
from placet_design.actions.normalize import PayloadFault, normalize_set
from placet_design.actions.plans import action_of
from placet_design.actions.protocol import ActionPlan
from tests.kernel.builders import restore
from tests.levels import examples

PATHS = list(REFINABLE_SCHEMA)
UNITS = [None, "", "m", "ft", "mm", "kW", "MW", "hp", "kts", "km/h", "nm", "km", "deg", "rad"]
SOME = ["hull.loa", "hull.beam", "hull.deadrise_deg", "mission.passengers", "hull.hull_type"]

numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(0, 1000),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 100),
)
values = st.one_of(numbers, st.booleans(), st.text(max_size=5), st.sampled_from(["catamaran"]))
actions = st.one_of(
    st.builds(put, st.sampled_from(SOME), values, st.sampled_from(UNITS)),
    st.builds(more, st.sampled_from(SOME), st.one_of(numbers, st.just("a_bit"), st.none())),
    st.builds(less, st.sampled_from(SOME), numbers),
    st.builds(lock, st.sampled_from(SOME)),
    st.builds(unlock, st.sampled_from(SOME)),
    st.just(Action(ActionType.NOOP)),
)
plans = st.lists(actions, min_size=1, max_size=5)
sound_sets = st.builds(put, st.sampled_from(SOME[:4]), st.floats(0, 1000).map(round))
sound = st.one_of(
    sound_sets, st.builds(lock, st.just("hull.cb")), st.builds(unlock, st.just("hull.cb"))
)

relaxed = settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def world():
    designer = Designer()
    designer.execute(put("hull.loa", 60), put("mission.passengers", 12))
    return designer, designer.manager.kernel.snapshot()


@pytest.fixture
def designer(world):
    return world[0]


def begin_again(world):
    designer, snapshot = world
    restore(designer.manager.kernel, snapshot)
    return designer


@relaxed
@given(field=st.sampled_from(PATHS), value=values, unit=st.sampled_from(UNITS))
def test_normalization_is_idempotent(field, value, unit):
    """Law: normalizing a normalized value changes nothing and gives no warning."""
    refinable = REFINABLE_SCHEMA[field]
    once = normalize_set(refinable, {"path": field, "value": value, "unit": unit}, "clamp")
    if isinstance(once, PayloadFault):
        return
    again = normalize_set(refinable, once.payload, "clamp")
    assert not isinstance(again, PayloadFault)
    assert (again.value, again.payload, again.adjustments) == (once.value, once.payload, ())
    if refinable.is_number:
        assert refinable.min_value <= again.value <= refinable.max_value


@relaxed
@given(proposed=plans)
def test_a_dry_run_has_the_answer_of_the_real_run(world, proposed):
    """Law: a dry run answers as the real run does, and changes nothing."""
    designer = begin_again(world)
    plan = designer.plan(*proposed)
    digest = designer.manager.kernel.world_digest()
    dry = designer.executor.execute(plan, dry_run=True)
    assert designer.manager.kernel.world_digest() == digest
    real = designer.executor.execute(plan)
    assert dry.as_dict() == real.as_dict()
    assert dry.action_results == real.action_results


@relaxed
@given(proposed=plans)
def test_approved_actions_pass_and_have_the_same_result(world, proposed):
    """Law: the approved actions form a plan that passes with the reported result."""
    designer = begin_again(world)
    result = designer.validate(*proposed)
    assert len(result.approved) + len(result.rejected) == len(proposed)
    real = designer.execute(*result.approved)
    assert real.success
    told = [done.action for done in real.action_results]
    assert told == result.approved


@relaxed
@given(histories=st.lists(st.lists(sound, min_size=1, max_size=3), min_size=1, max_size=4))
def test_undo_restores_the_content_and_raises_the_version(world, histories):
    """Law: undo after undo gives the contents of before, in reverse, and versions only rise."""
    designer = begin_again(world)
    manager = designer.manager
    digests = []
    for proposed in histories:
        before, version = manager.digest(), manager.design_version
        if designer.execute(*proposed).design_version_after > version:
            digests.append(before)
    for digest in reversed(digests):
        version = manager.design_version
        assert manager.undo() == version + 1
        assert manager.digest() == digest


@relaxed
@given(proposed=plans)
def test_a_rejected_plan_changes_nothing_and_an_executed_one_keeps_every_bound(world, proposed):
    """Law: refused is unchanged; admitted is within all bounds, and one version further at most."""
    designer = begin_again(world)
    manager = designer.manager
    digest, version = manager.kernel.digest(), manager.design_version
    result = designer.execute(*proposed)
    if not result.success:
        assert manager.kernel.digest() == digest
        assert result.rejections
        return
    assert manager.design_version - version in {0, 1}
    for path, value in manager.state.parameters.items():
        field = REFINABLE_SCHEMA[path]
        if field.is_number:
            assert field.min_value <= value <= field.max_value


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@relaxed
@given(body=json_values)
def test_parsing_raises_only_its_documented_error(body):
    """Law: any JSON is a plan or a `PlanInvalidError`."""
    with pytest.raises(PlanInvalidError):
        parse_plan("design", body)


RUBBISH = [
    None, True, False, 0, -1, 1.5, 2**70, -(2**70), 10**5000, float("nan"), float("inf"), "", "60",
    "a_bit", "hull.loa", "m", "\ud800", "\x00", "x" * 10_000, [], [1], {}, {"a": 1}, (), b"60",
    object(), set(), lambda: 1, ActionType.SET, "hull.hull_type", "catamaran", "km", 60, 61.5,
]  # fmt: skip
PICKS = [*RUBBISH, *PATHS, "m", "kW", "MW", "hull", "json", 5, 100.0]


def rubbish(chance):
    kinds = [*ActionType, "set", "teleport", None, 7]
    pick = chance.choice
    return Action(
        pick(kinds), path=pick([*PATHS, *RUBBISH]), value=pick(PICKS), amount=pick(PICKS),
        unit=pick([*UNITS, *RUBBISH]) if chance.random() < 0.3 else pick(UNITS),
        phases=pick(RUBBISH) if chance.random() < 0.1 else None,
        format=pick(PICKS) if chance.random() < 0.1 else None,
        message=pick(RUBBISH) if chance.random() < 0.1 else None,
    )  # fmt: skip


def neat(chance):
    """An action with the fields of its type alone, and anything in them."""
    pick, path = chance.choice, chance.choice(PATHS)
    return pick(
        [
            put(path, pick(PICKS), pick(UNITS)),
            put(path, chance.uniform(-10, 1000), pick(UNITS)),
            more(path, pick(PICKS), pick(UNITS)),
            less(path, pick(PICKS)),
            lock(path),
            unlock(path),
        ]
    )


def fuzz(count, seed):
    chance = random.Random(seed)
    manager = StateManager()
    validator = ActionPlanValidator()
    judged = approved = 0
    while judged < count:
        make = neat if chance.random() < 0.7 else rubbish
        proposed = [make(chance) for _ in range(chance.randint(1, 10))]
        plan = ActionPlan("fuzz", "intent", "design", proposed, 0, None)
        result = validator.validate(plan, manager)
        assert len(result.approved) + len(result.rejected) == len(proposed)
        judged += len(proposed)
        approved += len(result.approved)
    return judged, approved


def test_no_payload_makes_the_validator_raise():
    judged, approved = fuzz(1_000, seed=1)
    assert 0 < approved < judged


@pytest.mark.soak
def test_none_of_100_000_payloads_makes_the_validator_raise():
    judged, approved = fuzz(100_000, seed=2)
    assert 0 < approved < judged


@relaxed
@given(proposed=plans)
def test_the_executor_raises_placet_errors_only(world, proposed):
    designer = begin_again(world)
    try:
        body = json.loads(json.dumps(designer.execute(*proposed).as_dict()))
    except PlacetError:
        return
    assert body["success"] in {True, False}
    assert action_of("design.noop", {}) == Action(ActionType.NOOP)
