"""Settings of the garbage collector: they end with their block and leave the host's alone."""

import gc
from collections.abc import Iterator

import pytest

from placet.stores.gc_tuning import THRESHOLDS, tuned_gc


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.freeze()  # as after the collection of the tests


def test_thresholds_are_set_inside_the_block_and_restored_after_it() -> None:
    before = gc.get_threshold()
    with tuned_gc():
        assert gc.get_threshold() == THRESHOLDS
    assert gc.get_threshold() == before


def test_objects_frozen_by_the_block_are_thawed_after_it() -> None:
    with tuned_gc():
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() == 0


def test_objects_frozen_by_the_host_stay_frozen() -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    with tuned_gc():
        pass
    # Reference counting may free a few frozen objects; thawing would leave none.
    assert 0 < gc.get_freeze_count() <= frozen


def test_the_block_starts_no_collection() -> None:
    generations: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        generations.append(info["generation"])

    gc.disable()  # so that only an explicit collection is noted
    gc.callbacks.append(note)
    try:
        with tuned_gc():
            pass
    finally:
        gc.callbacks.remove(note)
        gc.enable()
    assert generations == []
