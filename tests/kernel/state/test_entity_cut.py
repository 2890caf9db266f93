"""The entities of a cut: equal to a copy of the dict, for ever, at the cost of what changed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.kernel.state import entity_cut
from placet.kernel.state.collection import Entity
from placet.kernel.state.entity_cut import EntityCut
from placet.kernel.state.transaction import Transaction
from placet.kernel.state.tree import State

IDS = [f"e{number}" for number in range(300)]
CHANGES = st.lists(
    st.dictionaries(st.sampled_from(IDS), st.one_of(st.none(), st.integers(0, 9)), max_size=40),
    max_size=12,
)


def follow(rounds: list[dict[str, int | None]]) -> None:
    """Change a mapping round by round; each cut must stay equal to its copy of the mapping."""
    entities: dict[str, Entity] = {entity: Entity({"n": 0}) for entity in IDS[100:]}
    cuts: list[tuple[EntityCut[Entity], dict[str, Entity]]] = [
        (EntityCut.of(entities), dict(entities))
    ]
    for changes in rounds:
        for entity, value in changes.items():
            entities.pop(entity, None)
            if value is not None:
                entities[entity] = Entity({"n": value})
        cuts.append((cuts[-1][0].successor(entities, changes), dict(entities)))
        cuts[-1][0].ids()
    for cut, copy in cuts:
        assert list(cut) == sorted(copy)
        assert dict(cut) == copy
        assert len(cut) == len(copy)
        assert [entity in cut for entity in IDS] == [entity in copy for entity in IDS]


@given(CHANGES)
def test_a_cut_equals_a_copy_of_the_entities(rounds):
    follow(rounds)


@pytest.mark.parametrize("fault", ["a shared chunk is written", "ids are kept"])
def test_the_law_finds_a_planted_fault(monkeypatch, fault):
    rounds: list[dict[str, int | None]] = [{"e100": 1}, {"e0": 1, "e120": None}]
    follow(rounds)
    if fault == "ids are kept":
        successor = EntityCut.successor

        def planted(self: EntityCut[Entity], *arguments: Any) -> EntityCut[Entity]:
            later = successor(self, *arguments)
            later._ids = self._ids
            return later

        monkeypatch.setattr(EntityCut, "successor", planted)
    else:

        class Shared(list[Any]):
            def copy(self) -> "Shared":
                return self

        made = EntityCut.of

        def of(entities: dict[str, Entity]) -> EntityCut[Entity]:
            cut = made(entities)
            cut._chunks = [Shared(chunk) for chunk in cut._chunks]
            return cut

        monkeypatch.setattr(EntityCut, "of", of)
    with pytest.raises(AssertionError):
        follow(rounds)


def test_a_successor_copies_the_chunks_that_changed():
    entities = {f"e{number}": Entity({}) for number in range(10_000)}
    first = EntityCut.of(entities)
    entities["e5000"] = Entity({"n": 1})
    second = first.successor(entities, ["e5000"])
    differing = [a is not b for a, b in zip(first._chunks, second._chunks, strict=True)]
    assert sum(differing) == 1
    ids = second.ids()
    assert second.successor(entities, ["e5000"]).ids() is ids


def test_a_name_that_came_and_went_between_two_cuts_has_no_place():
    cut: EntityCut[Entity] = EntityCut.of({}).successor({}, ["ghost"])
    assert dict(cut) == {}
    assert "ghost" not in cut._places
    with pytest.raises(KeyError):
        cut["ghost"]


def test_places_do_not_grow_for_ever(monkeypatch):
    monkeypatch.setattr(entity_cut, "_UNUSED_MIN", 4)
    cut: EntityCut[Entity] = EntityCut.of({})
    for number in range(100):
        entities = {f"e{number}": Entity({})}
        cut = cut.successor(entities, [f"e{number}", f"e{number - 1}"])
        assert list(cut) == list(entities)
        assert len(cut._places) <= 8


def test_changes_without_a_cut_are_bounded():
    state = State()
    draft = Transaction(state)
    draft.create("t.things", "stays", {})
    first = state.cut()
    for number in range(3_000):
        draft.create("t.things", f"t{number}", {})
        draft.delete("t.things", f"t{number}")
        changed = state.collections["t.things"].changed
        assert changed is None or len(changed) <= 1_100
    assert state.collections["t.things"].changed is None
    second = state.cut()
    assert second.collections["t.things"].changed is None
    assert list(second.collections["t.things"].entities) == ["stays"]
    draft.create("t.things", "new", {})
    assert state.cut().collections["t.things"].changed == {"new": None}
    assert list(first.collections["t.things"].entities) == ["stays"]


def test_a_cut_names_what_changed_since_the_one_before():
    state = State()
    draft = Transaction(state)
    for collection in ("t.things", "t.places"):
        draft.create(collection, "a", {"value": 0})
    cuts = [state.cut()]
    draft.put("t.things", "a", "value", 1)
    draft.create("t.things", "b", {})
    draft.create("t.late", "c", {})
    cuts.append(state.cut())
    listed = [{name: rows.changed for name, rows in cut.collections.items()} for cut in cuts]
    assert listed == [
        {"t.things": {"a": None}, "t.places": {"a": None}},
        {"t.things": {"a": None, "b": None}, "t.places": {}, "t.late": {"c": None}},
    ]
    assert [cut.epoch for cut in cuts] == [1, 2]
