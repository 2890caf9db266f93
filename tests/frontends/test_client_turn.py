"""A client that acts for an agent gets only the changes that the agent may see."""

import pytest

from placet.agents.proposal.turn_result import StateChange
from placet.kernel import Domain, Kernel, Kind
from placet.schemas.foreseen import FieldChange
from placet.server.viewpoint import shows_change

NOTES = "notes.all"


class Notes(Domain):
    """A note `OWNER/NAME` is visible to its owner only; owners are visible to all."""

    name, version = "notes", "1"
    kinds = (Kind("notes.Write", dict[str, int], lambda draft, intent: None),)

    def may_see(self, state, agent_id, ref):
        owner, slash, _ = (ref.entity or "/").partition("/")
        return not slash or owner == agent_id

    def hidden_fields(self, state, agent_id, ref):
        return ("price",)


class Free(Domain):
    """A domain that hides nothing."""

    name, version = "free", "1"
    kinds = ()


@pytest.mark.parametrize(
    ("change", "is_seen"),
    [
        (FieldChange(NOTES, "ann/tea", "text", "add", None, "x"), True),
        (FieldChange(NOTES, "bob/tea", "text", "add", None, "x"), False),
        (FieldChange(NOTES, "ann/tea", "price", "add", None, 2), False),
        (FieldChange(NOTES, "ann/tea", None, "add", None, None), True),
        (FieldChange(NOTES, "bob/tea", None, "remove", None, None), False),
        (FieldChange(NOTES, "bob", None, "add", None, None), True),
        (FieldChange(NOTES, "ann/tea", "text", "undecided", None, None), True),
        (FieldChange(NOTES, "bob/tea", "text", "undecided", None, None), False),
        (FieldChange(NOTES, None, "text", "add", None, "x"), False),
        (FieldChange("free.all", None, "text", "add", None, "x"), True),
    ],
)
def test_a_diff_is_reduced_to_visible_changes(change, is_seen):
    shown = StateChange.of(change).field_change
    assert shows_change(Kernel([Notes(), Free()]), "ann", shown) == is_seen
