"""A client that acts for an agent gets only the changes that the agent may see."""

import pytest

from placet.agents.proposal.turn_result import StateChange
from placet.frontends.client_turn import _may_see
from placet.kernel import Domain, Kernel, Kind
from placet.schemas.verdict import FieldChange

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


@pytest.mark.parametrize(
    ("change", "is_seen"),
    [
        (FieldChange(NOTES, "ann/tea", "text", "add", None, "x"), True),
        (FieldChange(NOTES, "bob/tea", "text", "add", None, "x"), False),
        (FieldChange(NOTES, "ann/tea", "price", "add", None, 2), False),
        (FieldChange(NOTES, "ann/tea", None, "add", None, None), True),
        (FieldChange(NOTES, "bob/tea", None, "remove", None, None), False),
        (FieldChange(NOTES, "bob", None, "add", None, None), True),
    ],
)
def test_a_diff_is_reduced_to_visible_changes(change, is_seen):
    assert _may_see(Kernel(Notes()), "ann", StateChange.of(change)) == is_seen
