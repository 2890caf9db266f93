"""Versions, undo and redo, and that they survive: everything is in the log."""

import pytest

from placet.domains.design import Design, StateManager
from placet.errors import StoreError, ValidationError
from placet.kernel.log.replay import Replayer
from tests.domains.design.desk import VESSEL, Desk, lock, more, put, unlock

LOA = "hull.loa"


def set_to(desk, *values):
    for value in values:
        assert desk.execute(put(LOA, value)).success


def test_every_commit_that_changes_something_raises_the_version_by_one():
    desk = Desk()
    set_to(desk, 10, 20, 20, 30)
    assert desk.manager.design_version == 3


def test_undo_restores_the_content_and_raises_the_version():
    desk = Desk()
    set_to(desk, 10)
    before = desk.manager.digest()
    desk.execute(put(LOA, 20), put("hull.beam", 5), lock("hull.draft"))
    after = desk.manager.digest()
    assert desk.manager.undo() == 3
    assert (desk.manager.digest(), desk.manager.get("hull.beam")) == (before, None)
    assert not desk.manager.is_locked("hull.draft")
    assert desk.manager.redo() == 4
    assert desk.manager.digest() == after


def test_undo_and_redo_walk_the_whole_way_and_stop_at_its_ends():
    desk = Desk()
    digests = [desk.manager.digest()]
    for value in (10, 20, 30, 40):
        set_to(desk, value)
        digests.append(desk.manager.digest())
    for digest in reversed(digests[:-1]):
        desk.manager.undo()
        assert desk.manager.digest() == digest
    with pytest.raises(ValidationError, match="no commit is left"):
        desk.manager.undo()
    for digest in digests[1:]:
        desk.manager.redo()
        assert desk.manager.digest() == digest
    with pytest.raises(ValidationError, match="no undone commit"):
        desk.manager.redo()
    assert desk.manager.design_version == 12


def test_a_new_commit_ends_what_could_be_redone():
    desk = Desk()
    set_to(desk, 10, 20, 30)
    desk.manager.undo()
    desk.manager.undo()
    set_to(desk, 40)
    with pytest.raises(ValidationError):
        desk.manager.redo()
    desk.manager.undo()
    assert desk.manager.get(LOA) == 10.0


def test_no_more_commits_are_undone_than_are_kept_even_after_going_back():
    desk = Desk(undo_max=3)
    set_to(desk, 10, 20, 30, 40, 50)
    desk.manager.undo()
    desk.manager.undo()
    assert desk.manager.get(LOA) == 30.0
    set_to(desk, 60)
    for value in (30.0, 20.0):
        desk.manager.undo()
        assert desk.manager.get(LOA) == value
    with pytest.raises(ValidationError, match="3 are kept"):
        desk.manager.undo()


def test_undo_of_an_unlock_with_a_change_locks_again():
    desk = Desk()
    desk.execute(put(LOA, 10), lock(LOA))
    desk.execute(unlock(LOA), put(LOA, 20))
    desk.manager.undo()
    assert (desk.manager.get(LOA), desk.manager.is_locked(LOA)) == (10.0, True)
    desk.manager.redo()
    assert (desk.manager.get(LOA), desk.manager.is_locked(LOA)) == (20.0, False)


def test_undo_is_judged_like_any_batch():
    desk = Desk()
    desk.execute(put("hull.draft", 2), put("hull.depth", 3))
    desk.execute(put("hull.depth", 6))
    desk.execute(put("hull.draft", 5))
    desk.manager.undo()
    desk.manager.undo()
    assert desk.manager.get("hull.depth") == 3.0


def test_resume_goes_on_from_the_log_alone():
    desk = Desk()
    desk.execute(*[put(path, value) for path, value in VESSEL.items()])
    set_to(desk, 61, 62)
    desk.manager.undo()
    again = StateManager.resume(desk.manager.records)
    assert again.kernel.digest() == desk.manager.kernel.digest()
    assert again.kernel.seq == desk.manager.kernel.seq
    assert again.redo() == desk.manager.redo()
    assert again.undo() == desk.manager.undo()
    assert again.undo() == desk.manager.undo()
    assert again.digest() == desk.manager.digest()
    assert again.to_json() == desk.manager.to_json()


def test_resume_sets_the_design_up_as_the_log_says():
    desk = Desk(design_id="design", policy="reject", undo_max=5)
    again = StateManager.resume(desk.manager.records)
    assert again.design.version == desk.manager.design.version
    assert again.state.design_id == "design"
    with pytest.raises(StoreError, match="no log of a design"):
        StateManager.resume([])


def test_a_fold_of_the_log_gives_the_same_books():
    desk = Desk()
    set_to(desk, 10, 20)
    desk.manager.undo()
    desk.codes(put("invalid.path", 1))
    replayed = Replayer()
    for record in desk.manager.records:
        replayed.apply(record)
    assert replayed.state.digest().hex() == desk.manager.kernel.digest()


def test_a_snapshot_keeps_undo():
    desk = Desk()
    set_to(desk, 10, 20)
    snapshot = desk.manager.kernel.snapshot()
    other = StateManager(design=Design())
    other.kernel.restore(snapshot)
    assert other.undo() == 3
    assert other.get(LOA) == 10.0


def test_deltas_are_undone_to_the_bit():
    desk = Desk()
    set_to(desk, 10.1)
    before = desk.manager.digest()
    desk.execute(more(LOA, 0.2), more(LOA, 0.3))
    desk.manager.undo()
    assert desk.manager.digest() == before
