"""The domain `memory` passes the property tests."""

from functools import partial

import pytest
from hypothesis import strategies as st

from placet.domains.memory import Memory
from placet.testing import domain_property_tests
from tests.levels import examples

KEYS = st.sampled_from(["a", "b", "c", "town.mill"])
SCOPES = {"scope": st.sampled_from(["project", "principal"])}
VALUES = st.none() | st.integers(-3, 3) | st.text(max_size=12) | st.lists(st.booleans(), max_size=2)

TestMemory = pytest.mark.slow(
    domain_property_tests(
        partial(Memory, facts_max=2, value_bytes_max=10),
        intents={
            "memory.remember": st.fixed_dictionaries(
                {"key": KEYS, "value": VALUES}, optional=SCOPES
            ),
            "memory.forget": st.fixed_dictionaries({"key": KEYS}, optional=SCOPES),
        },
        examples=examples(30),
    )
)
