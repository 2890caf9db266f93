"""Contract suites for authors of stores, policies and executors. Needs the extra `testing`.

A test file derives a class from a suite and defines its factory method; pytest collects the laws.
placet's own stores, policies and executors pass the same suites:

    from placet.testing.contracts import PolicyContract

    class TestWalker(PolicyContract):
        def policy(self):
            return Walker
"""

import pytest

# Before the modules are imported: a failed assertion then shows its values.
pytest.register_assert_rewrite(
    "placet.testing.contracts.event_log",
    "placet.testing.contracts.executor",
    "placet.testing.contracts.policy",
)

from placet.testing.contracts.event_log import (  # noqa: E402  # see above
    CompactionContract,
    EventLogContract,
)
from placet.testing.contracts.executor import ExecutorContract  # noqa: E402
from placet.testing.contracts.policy import PolicyContract  # noqa: E402

__all__ = ["CompactionContract", "EventLogContract", "ExecutorContract", "PolicyContract"]
