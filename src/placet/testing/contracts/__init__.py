"""Contract suites of the ports that other distributions implement, for their authors.

A test file subclasses a suite and defines its factory; pytest collects the laws:

    from placet.testing.contracts import PolicyContract

    class TestWalker(PolicyContract):
        def policy(self):
            return Walker
"""

from placet.testing.contracts.executor import ExecutorContract
from placet.testing.contracts.policy import PolicyContract

__all__ = ["ExecutorContract", "PolicyContract"]
