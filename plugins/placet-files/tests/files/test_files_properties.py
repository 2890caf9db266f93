"""The domain `files` passes the property tests, and its usage counts equal a recount."""

from functools import partial

import pytest
from hypothesis import strategies as st

from placet.kernel.plugin.domain import RuleRefusal
from placet.testing import domain_property_tests
from placet_files import ANALYZE, CREATE, INSPECT, RECEIPTS, USAGE, WRITES, Files
from tests.levels import examples

PATHS = st.sampled_from(["a", "a/b", "c.txt", "../x", "con"])
CONTENT = st.text(max_size=6)
READS = {
    ANALYZE: st.fixed_dictionaries({"path": PATHS}),
    INSPECT: st.fixed_dictionaries({"zip_path": PATHS}),
}
CREATES = {
    CREATE: st.fixed_dictionaries(
        {"filename": PATHS, "content": CONTENT}, optional={"overwrite": st.booleans()}
    )
}
OVERWRITES = {
    CREATE: st.fixed_dictionaries(
        {"filename": PATHS, "content": CONTENT, "overwrite": st.just(True)}
    )
}


class CountedFiles(Files):
    """Compares the running counts with the files in the state."""

    def invariants(self, state, changed):
        rows = [state.entity(kept, path) for kept in (RECEIPTS, WRITES) for path in state.ids(kept)]
        paths = {*state.ids(RECEIPTS), *state.ids(WRITES)}
        counted = {"files": len(paths), "bytes": sum(row["bytes"] for row in rows)}
        if dict(state.entity(USAGE, "all")) != counted:
            yield RuleRefusal("miscounted", f"there are {counted}")


# Who only creates depends on others by what is there already, and by what all share; it is refused
# by that name, and is not stale.
TestFiles = pytest.mark.slow(
    domain_property_tests(
        partial(CountedFiles, files_max=2, bytes_max=12),
        intents={**CREATES, **READS},
        examples=examples(30),
        without=["read_sets_are_complete"],
    )
)
TestOverwrites = pytest.mark.slow(
    domain_property_tests(Files, intents={**OVERWRITES, **READS}, examples=examples(30))
)
