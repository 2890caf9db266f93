"""The domain `design` passes the property tests: plans of actions, runs of phases, exports."""

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from placet.testing import domain_property_tests
from placet_design import Design
from placet_design.phases import PHASES
from placet_design.refinable_fields import REFINABLE_SCHEMA

pytestmark = pytest.mark.slow

PATHS = st.sampled_from([*sorted(REFINABLE_SCHEMA)[:4], "no.such.path"])
NUMBERS = st.floats(0, 200) | st.integers(-5, 400)
SET = {"path": PATHS, "value": NUMBERS | st.booleans() | st.text(max_size=3)}
CHANGE = {"path": PATHS}
INTENTS: dict[str, SearchStrategy[Any]] = {
    "design.set": st.fixed_dictionaries(SET, optional={"unit": st.sampled_from(["m", "kn", "ft"])}),
    "design.increase": st.fixed_dictionaries(CHANGE, optional={"amount": NUMBERS}),
    "design.decrease": st.fixed_dictionaries(CHANGE, optional={"amount": NUMBERS}),
    "design.lock": st.fixed_dictionaries(CHANGE, optional={"for_s": st.floats(0.5, 20)}),
    "design.unlock": st.fixed_dictionaries(CHANGE),
    "design.run_phases": st.fixed_dictionaries(
        {}, optional={"phases": st.lists(st.sampled_from(list(PHASES)), max_size=3)}
    ),
}

TestDesign = domain_property_tests(
    Design,
    intents=INTENTS,
    attributes=st.fixed_dictionaries(
        {}, optional={"role": st.sampled_from(["designer", "operator", "captain"])}
    ),
    examples=20,
)
