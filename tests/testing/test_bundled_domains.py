"""The bundled domains pass the property tests."""

from functools import partial

import pytest
from hypothesis import strategies as st

from examples.counter import Counter
from placet.domains.world import World
from placet.testing import domain_property_tests
from tests.levels import examples

PLACES = st.lists(st.integers(-4, 4), min_size=2, max_size=3)
ATTRIBUTES = st.fixed_dictionaries(
    {}, optional={"position": PLACES, "team": st.sampled_from(["red", "blue"])}
)
TARGETS = st.sampled_from(["lamp", "well", "ann", "bob", "cyd", "nothing"])
INTERACTIONS = st.fixed_dictionaries(
    {"target_id": TARGETS},
    optional={
        "interaction_type": st.sampled_from(["examine", "pickup", "drop", "use", "give", "dance"]),
        "data": st.fixed_dictionaries({}, optional={"object_id": TARGETS, "to": TARGETS}),
    },
)
SETTLED_WORLD = partial(
    World,
    objects={"lamp": {"position": [1, 0]}, "well": {"position": [0, 1], "portable": False}},
    bounds=[[-5, -5], [5, 5]],
    max_step=4.0,
    interaction_range=3.0,
    inventory_max=1,
    cooldowns={"Interact": 2.0},
    teams=["red", "blue"],
)

TestWorld = pytest.mark.slow(domain_property_tests(World, examples=examples(30)))
TestSettledWorld = pytest.mark.slow(
    domain_property_tests(
        SETTLED_WORLD,
        intents={"Move": st.fixed_dictionaries({"to": PLACES}), "Interact": INTERACTIONS},
        attributes=ATTRIBUTES,
        examples=examples(30),
    )
)
OBSERVATION = {
    "any_of": [{"distance": 3}, {"team": True}],
    "hidden_fields": ["inventory"],
}
TestSightedWorld = pytest.mark.slow(
    domain_property_tests(
        partial(SETTLED_WORLD, observation=OBSERVATION),
        intents={"Move": st.fixed_dictionaries({"to": PLACES}), "Interact": INTERACTIONS},
        attributes=ATTRIBUTES,
        examples=examples(30),
    )
)
TestCounter = domain_property_tests(Counter, examples=15)
