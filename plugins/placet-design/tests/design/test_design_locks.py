"""Locks: removal, expiry, and attempts to bypass them."""

import pytest
from tests.design.designer import Designer, less, lock, more, put, unlock

from placet.errors import ValidationError
from placet_design import StateManager
from placet_design.actions.plans import intent_of

LOA = "hull.loa"


@pytest.fixture
def designer():
    designer = Designer()
    designer.execute(put(LOA, 60), lock(LOA, "as built"))
    return designer


@pytest.mark.parametrize("action", [put(LOA, 61), more(LOA, 1), less(LOA, 1)], ids=str)
def test_a_lock_binds_its_owner_too(designer, action):
    result = designer.execute(action)
    [refusal] = result.verdict.refusals
    assert refusal.code == "design.locked"
    assert refusal.details["owner"] == "planner"
    assert "as built" in refusal.message
    assert designer.manager.get(LOA) == 60.0


def test_the_lock_is_checked_before_unit_and_type(designer):
    assert designer.codes(put(LOA, "x", "parsec")) == ["locked"]


def test_a_lock_applies_to_later_actions_of_its_plan(designer):
    assert designer.codes(lock("hull.beam"), put("hull.beam", 9)) == ["locked"]
    assert designer.execute(unlock(LOA), put(LOA, 61)).success
    assert designer.codes(put(LOA, 62), lock(LOA), put(LOA, 63)) == ["locked"]


def test_only_its_owner_or_an_operator_removes_a_lock(designer):
    assert designer.other("eve").codes(unlock(LOA)) == ["not_owner"]
    assert designer.other("eve").codes(lock(LOA, "mine now")) == ["not_owner"]
    assert designer.manager.is_locked(LOA)
    designer.manager.unlock_parameter(LOA)
    assert not designer.manager.is_locked(LOA)


def test_an_owner_may_unlock_and_relock_with_another_reason(designer):
    assert designer.execute(lock(LOA, "class approval")).success
    assert designer.execute(unlock(LOA)).success
    assert designer.execute(unlock(LOA)).warnings == [f"{LOA} is not locked"]


def test_repeating_a_lock_is_no_commit(designer):
    result = designer.execute(lock(LOA, "as built"))
    assert [warning for warning in result.warnings if "already" in warning]
    assert result.design_version_after == result.design_version_before


def test_an_agents_lock_is_a_commit_and_a_hosts_hold_is_not(designer):
    assert designer.manager.design_version == 1
    designer.execute(lock("hull.beam"))
    assert designer.manager.design_version == 2
    designer.manager.lock_parameter("hull.draft")
    assert designer.manager.design_version == 2


@pytest.mark.parametrize("last", ["planner", "host"])
@pytest.mark.parametrize(("locks", "raised"), [("planner", 1), ("host", 0)])
def test_a_lock_belongs_to_its_agent_not_to_the_last_of_the_batch(designer, locks, raised, last):
    kernel, before = designer.manager.kernel, designer.manager.design_version
    batch = [intent_of("design.noop", {}, last, "last", kernel.seq)]
    batch.insert(0, intent_of("design.lock", {"path": "hull.beam"}, locks, "lock", kernel.seq))
    assert kernel.decide(batch).admitted
    assert designer.manager.design_version == before + raised
    assert designer.manager.is_locked("hull.beam")


def test_a_lock_binds_the_host_too(designer):
    with pytest.raises(ValidationError, match="locked"):
        designer.manager.set(LOA, 61)


def test_undo_does_not_change_a_locked_parameter(designer):
    designer.manager.unlock_parameter(LOA)
    designer.execute(put(LOA, 70))
    designer.manager.lock_parameter(LOA)
    before = designer.manager.digest()
    with pytest.raises(ValidationError, match="locked"):
        designer.manager.undo()
    assert designer.manager.digest() == before


def test_a_lock_expires_at_its_time():
    clock = [0.0]
    manager = StateManager(now=lambda: clock[0])
    designer = Designer(manager)
    manager.lock_parameter(LOA, "lunch", for_s=60)
    refusal = designer.execute(put(LOA, 60)).verdict.refusals[0]
    assert refusal.retry_after == 60.0
    clock[0] = 59.9
    assert manager.get_locked_parameters() == {LOA}
    assert designer.codes(put(LOA, 60)) == ["locked"]
    clock[0] = 60.0
    assert manager.get_locked_parameters() == set()
    assert designer.execute(put(LOA, 60)).success


def test_locks_persist_with_the_state(designer):
    again = StateManager.resume(designer.manager.records)
    assert again.is_locked(LOA)
    assert Designer(again, agent_id="eve").codes(unlock(LOA)) == ["not_owner"]
    assert Designer(again).execute(unlock(LOA)).success


def test_locks_of_a_removed_agent_remain_until_an_operator_removes_them(designer):
    designer.manager.kernel.change_agent("planner", "removed")
    assert designer.manager.is_locked(LOA)
    designer.manager.unlock_parameter(LOA)


def test_a_lock_needs_a_path(designer):
    with pytest.raises(ValidationError, match="not refinable"):
        designer.manager.lock_parameter("hull.length")


def test_an_unknown_role_is_refused():
    manager = StateManager()
    with pytest.raises(ValidationError, match="designer, operator"):
        manager.register("eve", role="captain")
    manager.register("lead", role="operator")
    designer = Designer(manager, agent_id="lead")
    Designer(manager).execute(lock(LOA))
    assert designer.execute(unlock(LOA)).success
