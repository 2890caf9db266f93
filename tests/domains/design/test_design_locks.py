"""Locks: who may take one off, how long it holds, and that there is no way round it."""

import pytest

from placet.domains.design import StateManager
from placet.domains.design.actions.plans import intent_of
from placet.errors import ValidationError
from tests.domains.design.desk import Desk, less, lock, more, put, unlock

LOA = "hull.loa"


@pytest.fixture
def desk():
    desk = Desk()
    desk.execute(put(LOA, 60), lock(LOA, "as built"))
    return desk


@pytest.mark.parametrize("action", [put(LOA, 61), more(LOA, 1), less(LOA, 1)], ids=str)
def test_a_locked_parameter_is_not_changed_by_its_owner_either(desk, action):
    result = desk.execute(action)
    [refusal] = result.verdict.refusals
    assert refusal.code == "design.locked"
    assert refusal.details["owner"] == "planner"
    assert "as built" in refusal.message
    assert desk.manager.get(LOA) == 60.0


def test_the_lock_is_judged_before_unit_and_type(desk):
    assert desk.codes(put(LOA, "x", "parsec")) == ["locked"]


def test_a_lock_holds_within_its_plan(desk):
    assert desk.codes(lock("hull.beam"), put("hull.beam", 9)) == ["locked"]
    assert desk.execute(unlock(LOA), put(LOA, 61)).success
    assert desk.codes(put(LOA, 62), lock(LOA), put(LOA, 63)) == ["locked"]


def test_only_its_owner_or_an_operator_takes_a_lock_off(desk):
    assert desk.other("eve").codes(unlock(LOA)) == ["not_owner"]
    assert desk.other("eve").codes(lock(LOA, "mine now")) == ["not_owner"]
    assert desk.manager.is_locked(LOA)
    desk.manager.unlock_parameter(LOA)
    assert not desk.manager.is_locked(LOA)


def test_the_owner_takes_its_lock_off_and_may_relock_with_another_reason(desk):
    assert desk.execute(lock(LOA, "class approval")).success
    assert desk.execute(unlock(LOA)).success
    assert desk.execute(unlock(LOA)).warnings == [f"{LOA} is not locked"]


def test_a_lock_that_is_there_already_is_no_commit(desk):
    result = desk.execute(lock(LOA, "as built"))
    assert [warning for warning in result.warnings if "already" in warning]
    assert result.design_version_after == result.design_version_before


def test_a_lock_of_an_agents_is_a_commit_and_a_hold_of_the_hosts_is_none(desk):
    assert desk.manager.design_version == 1
    desk.execute(lock("hull.beam"))
    assert desk.manager.design_version == 2
    desk.manager.lock_parameter("hull.draft")
    assert desk.manager.design_version == 2


@pytest.mark.parametrize("last", ["planner", "host"])
@pytest.mark.parametrize(("locks", "raised"), [("planner", 1), ("host", 0)])
def test_a_lock_is_its_own_agents_whoever_comes_last_in_the_batch(desk, locks, raised, last):
    kernel, before = desk.manager.kernel, desk.manager.design_version
    batch = [intent_of("design.noop", {}, last, "last", kernel.seq)]
    batch.insert(0, intent_of("design.lock", {"path": "hull.beam"}, locks, "lock", kernel.seq))
    assert kernel.decide(batch).admitted
    assert desk.manager.design_version == before + raised
    assert desk.manager.is_locked("hull.beam")


def test_the_host_does_not_write_through_a_lock_either(desk):
    with pytest.raises(ValidationError, match="locked"):
        desk.manager.set(LOA, 61)


def test_undo_does_not_write_through_a_lock(desk):
    desk.manager.unlock_parameter(LOA)
    desk.execute(put(LOA, 70))
    desk.manager.lock_parameter(LOA)
    before = desk.manager.digest()
    with pytest.raises(ValidationError, match="locked"):
        desk.manager.undo()
    assert desk.manager.digest() == before


def test_a_lock_expires_at_its_time():
    clock = [0.0]
    manager = StateManager(now=lambda: clock[0])
    desk = Desk(manager)
    manager.lock_parameter(LOA, "lunch", for_s=60)
    refusal = desk.execute(put(LOA, 60)).verdict.refusals[0]
    assert refusal.retry_after == 60.0
    clock[0] = 59.9
    assert manager.get_locked_parameters() == {LOA}
    assert desk.codes(put(LOA, 60)) == ["locked"]
    clock[0] = 60.0
    assert manager.get_locked_parameters() == set()
    assert desk.execute(put(LOA, 60)).success


def test_locks_persist_with_the_state(desk):
    again = StateManager.resume(desk.manager.records)
    assert again.is_locked(LOA)
    assert Desk(again, agent_id="eve").codes(unlock(LOA)) == ["not_owner"]
    assert Desk(again).execute(unlock(LOA)).success


def test_locks_of_an_agent_that_left_stay_for_an_operator(desk):
    desk.manager.kernel.change_agent("planner", "removed")
    assert desk.manager.is_locked(LOA)
    desk.manager.unlock_parameter(LOA)


def test_a_lock_needs_a_path(desk):
    with pytest.raises(ValidationError, match="not refinable"):
        desk.manager.lock_parameter("hull.length")


def test_a_role_is_one_of_two():
    manager = StateManager()
    with pytest.raises(ValidationError, match="designer, operator"):
        manager.register("eve", role="captain")
    manager.register("lead", role="operator")
    desk = Desk(manager, agent_id="lead")
    Desk(manager).execute(lock(LOA))
    assert desk.execute(unlock(LOA)).success
