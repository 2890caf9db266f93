"""Versions, undo and redo, also after a restart from the log."""

import pytest
from tests.design.designer import VESSEL, Designer, lock, more, put, unlock

from placet.errors import StoreError, ValidationError
from placet.kernel.log.replay import Replayer
from placet_design import Design, StateManager
from tests.kernel.builders import restore

LOA = "hull.loa"


def set_to(designer, *values):
    for value in values:
        assert designer.execute(put(LOA, value)).success


def test_every_commit_that_changes_something_raises_the_version_by_one():
    designer = Designer()
    set_to(designer, 10, 20, 20, 30)
    assert designer.manager.design_version == 3


def test_undo_restores_the_content_and_raises_the_version():
    designer = Designer()
    set_to(designer, 10)
    before = designer.manager.digest()
    designer.execute(put(LOA, 20), put("hull.beam", 5), lock("hull.draft"))
    after = designer.manager.digest()
    assert designer.manager.undo() == 3
    assert (designer.manager.digest(), designer.manager.get("hull.beam")) == (before, None)
    assert not designer.manager.is_locked("hull.draft")
    assert designer.manager.redo() == 4
    assert designer.manager.digest() == after


def test_undo_and_redo_cover_the_whole_history_and_stop_at_its_ends():
    designer = Designer()
    digests = [designer.manager.digest()]
    for value in (10, 20, 30, 40):
        set_to(designer, value)
        digests.append(designer.manager.digest())
    for digest in reversed(digests[:-1]):
        designer.manager.undo()
        assert designer.manager.digest() == digest
    with pytest.raises(ValidationError, match="no commit is left"):
        designer.manager.undo()
    for digest in digests[1:]:
        designer.manager.redo()
        assert designer.manager.digest() == digest
    with pytest.raises(ValidationError, match="no undone commit"):
        designer.manager.redo()
    assert designer.manager.design_version == 12


def test_a_new_commit_clears_redo():
    designer = Designer()
    set_to(designer, 10, 20, 30)
    designer.manager.undo()
    designer.manager.undo()
    set_to(designer, 40)
    with pytest.raises(ValidationError):
        designer.manager.redo()
    designer.manager.undo()
    assert designer.manager.get(LOA) == 10.0


def test_undo_depth_is_bounded_also_after_redo():
    designer = Designer(undo_max=3)
    set_to(designer, 10, 20, 30, 40, 50)
    designer.manager.undo()
    designer.manager.undo()
    assert designer.manager.get(LOA) == 30.0
    set_to(designer, 60)
    for value in (30.0, 20.0):
        designer.manager.undo()
        assert designer.manager.get(LOA) == value
    with pytest.raises(ValidationError, match="3 are kept"):
        designer.manager.undo()


def test_undo_of_an_unlock_with_a_change_locks_again():
    designer = Designer()
    designer.execute(put(LOA, 10), lock(LOA))
    designer.execute(unlock(LOA), put(LOA, 20))
    designer.manager.undo()
    assert (designer.manager.get(LOA), designer.manager.is_locked(LOA)) == (10.0, True)
    designer.manager.redo()
    assert (designer.manager.get(LOA), designer.manager.is_locked(LOA)) == (20.0, False)


def test_undo_passes_the_gate_like_any_batch():
    designer = Designer()
    designer.execute(put("hull.draft", 2), put("hull.depth", 3))
    designer.execute(put("hull.depth", 6))
    designer.execute(put("hull.draft", 5))
    designer.manager.undo()
    designer.manager.undo()
    assert designer.manager.get("hull.depth") == 3.0


def test_resume_continues_from_the_log_alone():
    designer = Designer()
    designer.execute(*[put(path, value) for path, value in VESSEL.items()])
    set_to(designer, 61, 62)
    designer.manager.undo()
    again = StateManager.resume(designer.manager.records)
    assert again.kernel.digest() == designer.manager.kernel.digest()
    assert again.kernel.seq == designer.manager.kernel.seq
    assert again.redo() == designer.manager.redo()
    assert again.undo() == designer.manager.undo()
    assert again.undo() == designer.manager.undo()
    assert again.digest() == designer.manager.digest()
    assert again.to_json() == designer.manager.to_json()


def test_resume_configures_the_design_from_the_log():
    designer = Designer(design_id="design", policy="reject", undo_max=5)
    again = StateManager.resume(designer.manager.records)
    assert again.design.version == designer.manager.design.version
    assert again.state.design_id == "design"
    with pytest.raises(StoreError, match="no log of a design"):
        StateManager.resume([])


def test_replaying_the_log_gives_the_same_history():
    designer = Designer()
    set_to(designer, 10, 20)
    designer.manager.undo()
    designer.codes(put("invalid.path", 1))
    replayed = Replayer()
    for record in designer.manager.records:
        replayed.apply(record)
    assert replayed.state.digest().hex() == designer.manager.kernel.digest()


def test_a_snapshot_keeps_undo():
    designer = Designer()
    set_to(designer, 10, 20)
    snapshot = designer.manager.kernel.snapshot()
    other = StateManager(design=Design())
    restore(other.kernel, snapshot)
    assert other.undo() == 3
    assert other.get(LOA) == 10.0


def test_undoing_a_delta_restores_the_exact_float():
    designer = Designer()
    set_to(designer, 10.1)
    before = designer.manager.digest()
    designer.execute(more(LOA, 0.2), more(LOA, 0.3))
    designer.manager.undo()
    assert designer.manager.digest() == before
