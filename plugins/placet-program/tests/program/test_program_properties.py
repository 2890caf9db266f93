"""The domain `program` passes the property tests, with valid and invalid mutations."""

from functools import partial

import pytest
from hypothesis import strategies as st
from tests.program.programs import begin, connect, exported, gone, result

from placet.testing import domain_property_tests
from placet_program import Program

pytestmark = pytest.mark.slow

NAMES = st.sampled_from(["f", "g", "h"])
NODES = st.sampled_from(["a", "b", "c"])
INPUT = NODES | st.none()
NODE = st.one_of(
    st.fixed_dictionaries(
        {"op": st.just("const"), "value": st.sampled_from([0, 1, 1.0, True, "s"])}
    ),
    st.fixed_dictionaries({"op": st.just("param"), "target": st.sampled_from(["x", "y"])}),
    st.fixed_dictionaries(
        {"op": st.just("call"), "target": NAMES, "inputs": st.lists(INPUT, max_size=1)}
    ),
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "div", "lt"]), "inputs": st.lists(INPUT, max_size=2)}
    ),
)
MUTATION = st.one_of(
    st.builds(exported, NAMES, st.sampled_from(["int", "float"]), x=st.just("int")),
    st.builds(begin, NAMES),
    st.builds(lambda name: {"op": "remove_function", "name": name}, NAMES),
    st.builds(
        lambda function, name, node: {
            "op": "set_node", "function": function, "name": name, "node": node,
        },
        NAMES, NODES, NODE,
    ),
    st.builds(gone, NAMES, NODES),
    st.builds(connect, NAMES, NODES, NODES, st.integers(0, 2)),
    st.builds(result, NAMES, NODES),
)  # fmt: skip
SEQS = st.integers(0, 12)
INTENTS = {
    "program.mutate_batch": st.fixed_dictionaries(
        {"mutations": st.lists(MUTATION, min_size=1, max_size=6)}
    ),
    "program.verify": st.fixed_dictionaries({}, optional={"function": NAMES}),
    "program.compile": st.fixed_dictionaries({"entry": NAMES}),
    "program.simulate": st.fixed_dictionaries(
        {"function": NAMES},
        optional={
            "inputs": st.dictionaries(st.just("x"), st.integers(0, 3)),
            "trace": st.booleans(),
        },
    ),
    "program.inspect": st.fixed_dictionaries(
        {"what": st.sampled_from(["overview", "function", "node", "search"])},
        optional={"function": NAMES, "node": NODES, "text": NAMES},
    ),
    "program.history_query": st.fixed_dictionaries(
        {"op": st.sampled_from(["list", "diff"])}, optional={"from_seq": SEQS, "to_seq": SEQS}
    ),
    "program.restore": st.fixed_dictionaries({"to_seq": SEQS}),
}

TestProgramLaws = domain_property_tests(Program, intents=INTENTS, examples=30)
TestExportedLaws = domain_property_tests(
    partial(Program, verify_exported=True), intents=INTENTS, examples=15
)
TestRandomPayloadLaws = domain_property_tests(Program, examples=10)
