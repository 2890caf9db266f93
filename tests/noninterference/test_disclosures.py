"""What kinds disclose of hidden state is declared, and printed by `placet kinds`."""

import pytest

from placet.domains.world import World

TWO_DISCLOSED = (
    "Whether a target, whose position is hidden, is in range and whether the receiver of a "
    "give, whose inventory is hidden, has room."
)


@pytest.mark.parametrize(
    ("settings", "disclosed"),
    [
        ({"interaction_range": 2.0}, ""),
        ({"observation": {"distance": 2}, "interaction_range": 2.0, "inventory_max": 1}, ""),
        (
            {"observation": {"hidden_fields": ["position"]}, "interaction_range": 2.0},
            "Whether a target, whose position is hidden, is in range.",
        ),
        (
            {
                "observation": {"any_of": [{"hidden_fields": ["position", "inventory"]}]},
                "interaction_range": 2.0,
                "inventory_max": 1,
            },
            TWO_DISCLOSED,
        ),
    ],
)
def test_a_world_declares_what_its_interactions_disclose(settings, disclosed):
    declared = {kind.name: kind.discloses for kind in World(**settings).kinds}
    assert declared == {"Move": "", "Speak": "", "Interact": disclosed, "Custom": ""}
