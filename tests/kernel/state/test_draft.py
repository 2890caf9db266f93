"""Reads and writes of a draft, and the errors of invalid writes."""

from enum import StrEnum

import pytest

from placet.kernel.state.draft import Draft
from placet.kernel.state.draft_errors import ToolUnregistered
from placet.kernel.state.transaction import NO_CHANGES, Transaction
from placet.kernel.state.tree import State, WorldState
from placet.schemas.codec import canonical
from placet.schemas.refusal import Notice


@pytest.fixture
def draft():
    made = Transaction(State(), seed=7, executors={"mail": 1})
    made.open_group(1_500_000_000)
    made.open_batch()
    made.begin(2, 9, "alice")
    made.create("c", "e", {"f": [1]})
    return made


def test_a_draft_reads_its_own_writes(draft):
    assert draft.sim_time == 1.5
    assert draft.get("c", "e", "f") == (1,)
    assert draft.get("c", "e", "g", 7) == 7
    assert draft.get("c", "none", "f") is draft.get("none", "e", "f") is None
    assert draft.entity("c", "e") == {"f": (1,)}
    assert (draft.exists("c", "e"), draft.exists("none", "e")) == (True, False)
    draft.create("c", "a")
    assert list(draft.ids("c")) == ["a", "e"]


@pytest.mark.parametrize(
    ("act", "error", "why"),
    [
        (lambda d: d.put("c", "none", "f", 1), KeyError, "no entity c/none; create it before"),
        (lambda d: d.put("cc", "e", "f", 1), KeyError, "no entity cc/e; did you mean the coll"),
        (
            lambda d: d.state["c"],
            TypeError,
            "a state has no .'c'.: a rule reads by get.*and writes by put",
        ),
        (lambda d: d.put("none", "e", "f", 1), KeyError, "no entity none/e; create it before"),
        (lambda d: d.put("c", "e", "", 1), ValueError, "a field needs a name"),
        (lambda d: d.put("c", "e", 1, 1), TypeError, "requires a 'str' object"),
        (lambda d: d.put("c", "e", "f", {1}), TypeError, "plain JSON, got set"),
        (lambda d: d.put("c", "e", "f", float("nan")), ValueError, "must be finite"),
        (lambda d: d.create("c", "e"), KeyError, "entity c/e exists already"),
        (lambda d: d.create("c", "x", {"": 1}), ValueError, "a field needs a name"),
        (lambda d: d.create("c", "x", {1: 1}), TypeError, "keys must be str"),
        (lambda d: d.create("c", 1), TypeError, "names must be strings"),
        (lambda d: d.create(1, "x"), TypeError, "names must be strings"),
        (lambda d: d.delete("c", "none"), KeyError, "no entity c/none; it cannot be deleted"),
        (lambda d: d.delete("none", "e"), KeyError, "no entity none/e; it cannot be deleted"),
        (lambda d: d.emit("fax", {}), ToolUnregistered, "fax"),
        (lambda d: d.emit("mail", {"a": {1}}), TypeError, "plain JSON, got set"),
        (lambda d: d.normalize({"a": {1}}), TypeError, "plain JSON, got set"),
        (lambda d: d.warn("code", None), TypeError, "a warning is made of strings"),
        (lambda d: d.randint_below(0, "x"), ValueError, "a draw needs a bound of at least 1"),
    ],
)
def test_an_invalid_write_is_an_error_and_changes_nothing(draft, act, error, why):
    before = canonical(draft.state.dump())
    with pytest.raises(error, match=why):
        act(draft)
    assert canonical(draft.state.dump()) == before
    assert draft.effects == []
    draft.undo()
    assert not draft.exists("c", "e")


def test_an_enum_field_name_is_stored_as_a_plain_string(draft):
    class Name(StrEnum):
        HEALTH = "health"

    draft.put("c", "e", Name.HEALTH, 1)
    draft.put("c", "e", Name.HEALTH, 2)
    assert [*map(repr, draft.entity("c", "e"))] == ["'f'", "'health'"]
    draft.undo()
    assert not draft.exists("c", "e")


def test_an_enum_effect_kind_is_stored_as_a_plain_string():
    class Tool(StrEnum):
        MAIL = "mail"

    draft = Transaction(State(), executors={"mail": 1})
    draft.begin(0, 1, "alice")
    draft.emit(Tool.MAIL, {})
    [(_, kind, _, _)] = draft.effects
    assert repr(kind) == "'mail'"


def test_notices_answers_and_payloads_of_a_draft_reach_the_verdict(draft):
    draft.normalize({"to": [1, 2]})
    draft.warn("a", "first")
    draft.warn("b", "second", at="/to")
    assert draft.normalized == {2: {"to": (1, 2)}}
    assert draft.notices == {2: (Notice("a", "first"), Notice("b", "second", "/to"))}
    draft.emit("mail", {"to": ["bob"]})
    assert draft.effects == [(9, "mail", {"to": ("bob",)}, "alice")]
    draft.open_batch()
    assert (draft.normalized, draft.notices, draft.effects) == (None, None, [])
    assert draft.changes() == NO_CHANGES


def test_a_claim_holds_until_the_next_group(draft):
    assert draft.claim("lamp") is None
    assert draft.claim("lamp") is None
    draft.begin(0, 10, "bob")
    assert draft.claim("lamp") == "alice"
    draft.open_group(0)
    assert draft.claim("lamp") is None


def test_a_draw_is_repeatable_and_belongs_to_its_intent(draft):
    drawn = draft.draw("x"), draft.randint_below(1000, "x")
    assert drawn == (draft.draw("x"), draft.randint_below(1000, "x"))
    assert drawn != (draft.draw("y"), draft.randint_below(1000, "y"))
    draft.begin(0, 10, "bob")
    assert drawn != (draft.draw("x"), draft.randint_below(1000, "x"))
    draft.begin(0, 11, "alice")
    assert drawn == (draft.draw("x"), draft.randint_below(1000, "x"))
    for now_ns, tick in ((1, 0), (1, 1)):
        draft.open_group(now_ns, tick=tick)
        assert drawn != (draft.draw("x"), draft.randint_below(1000, "x"))


def test_the_kept_states_of_draws_are_bounded(draft, monkeypatch):
    monkeypatch.setattr("placet.kernel.state.draft._DRAW_STATES_MAX", 2)
    drawn = [draft.draw(purpose) for purpose in "abcab"]
    assert drawn[:2] == drawn[3:]
    assert len(draft._draw_states) <= 2


def test_a_plain_draft_has_no_executors():
    with pytest.raises(ToolUnregistered):
        Draft(State()).emit("mail", {})


def test_changes_list_each_entity_once_with_all_new_values(draft):
    draft.put("c", "e", "f", 2)
    draft.put("c", "e", "g", 3)
    draft.put("c", "e", "g", 4)
    draft.create("c", "gone")
    draft.delete("c", "gone")
    changes = draft.changes()
    assert [(c.entity, c.fields, c.is_whole) for c in changes.entities] == [
        ("e", {"f": 2, "g": 4}, True),
        ("gone", None, True),
    ]
    assert [(c.collection, c.seq, c.by) for c in changes.collections] == [("c", 9, "alice")]
    draft.open_batch()
    draft.begin(0, 10, "bob")
    for field, value in [("f", 5), ("g", 6), ("f", 7)]:
        draft.put("c", "e", field, value)
    (change,) = draft.changes().entities
    assert (change.fields, change.is_whole) == ({"f": 7, "g": 6}, False)
    assert (change.seq, change.by, change.foreign_seq) == (10, "bob", 9)


def test_changes_are_computed_again_after_another_write(draft):
    assert draft.changed()
    draft.open_batch()
    assert draft.changes() == NO_CHANGES
    mark = draft.begin(0, 10, "bob")
    draft.put("c", "e", "f", 5)
    assert [change.fields for change in draft.changes().entities] == [{"f": 5}]
    assert draft.changed() == [("c", "e")]
    assert draft.changes() is draft.changes()
    draft.put("c", "e", "f", 6)
    assert draft.changed() == [("c", "e")]
    assert [change.fields for change in draft.changes().entities] == [{"f": 6}]
    draft.undo(mark)
    draft.put("c", "e", "g", 7)
    draft.put("c", "e", "g", 8)
    assert [change.fields for change in draft.changes().entities] == [{"g": 8}]


def test_the_repr_of_a_draft_shows_its_agent_and_writes(draft):
    draft.emit("mail", {})
    assert repr(draft) == "<Draft of 'alice' at seq 9, 1.5 s: 1 writes, 1 effects>"
    assert repr(draft.state) == "<State: c 1>"
    assert repr(State()) == "<State: empty>"


def test_the_state_as_a_mapping_suggests_the_key_that_it_has(draft):
    state = WorldState(draft.state)
    with pytest.raises(KeyError, match="there is no collection 'cc'; did you mean 'c'"):
        state["cc"]
    with pytest.raises(KeyError, match="there is no entity 'x'; there are e"):
        state["c"]["x"]
    draft.delete("c", "e")
    assert (dict(state["c"]), list(state)) == ({}, [])
    with pytest.raises(KeyError, match="there is no collection 'cc'; did you mean 'c'"):
        state["cc"]


def test_an_undone_effect_is_not_started(draft):
    draft.emit("mail", {"to": "bob"}, started=True)
    mark = draft.mark_here()
    draft.emit("mail", {"to": "cyd"}, started=True)
    draft.undo(mark)
    assert draft.started == [0]
    draft.undo()
    draft.emit("mail", {"to": "dan"})
    assert draft.started == []
