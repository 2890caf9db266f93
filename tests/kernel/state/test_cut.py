"""A cut of the state: it stays as it was, whatever is written, undone or replayed afterwards."""

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.kernel.log.replay import fold_changes
from placet.kernel.state.collection import Collection, Entity
from placet.kernel.state.transaction import Transaction
from placet.kernel.state.tree import State

ENTITIES = ("a", "b", "c")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(ENTITIES), st.integers(0, 9)),
        st.tuples(st.just("create"), st.sampled_from(ENTITIES), st.integers(0, 9)),
        st.tuples(st.just("delete"), st.sampled_from(ENTITIES), st.just(0)),
        st.tuples(st.sampled_from(["commit", "undo", "cut"]), st.just(""), st.just(0)),
    ),
    max_size=40,
)


class Run:
    """Writes to a state, and folds what was committed into a second one, both with cuts."""

    def __init__(self) -> None:
        self.states = [State(), State()]
        self.draft = Transaction(self.states[0])
        self.draft.open_batch()
        self.cuts: list[tuple[State, Any]] = []

    def take(self, step: str, entity: str, value: int) -> None:
        draft = self.draft
        draft.begin(0, draft.seq + 1, "x")
        is_there = draft.exists("t.things", entity)
        match step:
            case "put" if is_there:
                draft.put("t.things", entity, "value", value)
            case "create" if not is_there:
                draft.create("t.things", entity, {"value": value})
            case "delete" if is_there:
                draft.delete("t.things", entity)
            case "commit":
                fold_changes(self.states[1], draft.changes())
                draft.open_batch()
            case "undo":
                draft.undo()
            case "cut" if not draft.changes().entities:  # a cut is taken between two batches
                self.cuts += [(state.cut(), state.as_dict()) for state in self.states]
            case _:
                pass

    def check(self) -> None:
        self.check_cuts()
        self.draft.undo()
        self.check_cuts()
        state, folded = self.states
        assert folded.as_dict() == state.as_dict()
        assert folded.digest() == state.digest() == State.load(state.dump()).digest()

    def check_cuts(self) -> None:
        for cut, expected in self.cuts:
            assert cut.as_dict() == expected


def run(steps: list[tuple[str, str, int]]) -> None:
    trace = Run()
    for step in steps:
        trace.take(*step)
    trace.check()


@given(STEPS)
def test_a_cut_stays_as_it_was(steps):
    run(steps)


def test_a_cut_copies_only_the_collections_that_changed():
    state = State()
    draft = Transaction(state)
    for collection in ("t.things", "t.places"):
        draft.create(collection, "a", {"value": 0})
    first = state.cut()
    draft.put("t.things", "a", "value", 1)
    second = state.cut()
    assert second.collections["t.places"].entities is first.collections["t.places"].entities
    assert second.as_dict()["t.things"] == {"a": {"value": 1}}
    assert first.as_dict()["t.things"] == {"a": {"value": 0}}


@pytest.mark.parametrize(
    "steps",
    [
        [("create", "a", 1), ("commit", "", 0), ("cut", "", 0), ("put", "a", 2)],
        [("create", "a", 1), ("commit", "", 0), ("cut", "", 0), ("put", "a", 2), ("commit", "", 0)],
    ],
)
def test_the_law_finds_a_shared_entity_that_is_written(steps):
    def own(state: State, rows: Collection, entity: str, row: Entity) -> Entity:
        return row

    run(steps)
    with patch.object(State, "own", own), pytest.raises(AssertionError):
        run(steps)
