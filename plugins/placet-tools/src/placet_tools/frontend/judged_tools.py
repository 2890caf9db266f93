"""Tools under a policy whose marks of earlier calls are kept in memory, to judge calls by it."""

from placet.kernel.state.draft import Draft
from placet_tools.call_history import CallHistory
from placet_tools.domain import ToolsDomain
from placet_tools.frontend.policy_file import PolicySource, domain_of
from placet_tools.policy.enforcement import Enforcement
from placet_tools.policy.marks import MarkStore, MemoryMarks, OverlaidMarks
from placet_tools.tools import Tools


class MemoryEnforcement(Enforcement):
    """A policy in force over marks in memory.

    Attributes:
        noted: The marks; the writes of a decision are kept apart, until `forget`.
    """

    def __init__(self, enforced: Enforcement) -> None:
        self.__dict__.update(vars(enforced))
        self.noted = MemoryMarks()
        self._seen = OverlaidMarks(self.noted)

    def marks(self, draft: Draft) -> MarkStore:
        """Return the marks of earlier calls, and of those of the present decision."""
        return self._seen

    def forget(self) -> None:
        """Forget the writes of the latest decision."""
        self._seen = OverlaidMarks(self.noted)


class JudgedTools:
    """Tools under a policy, which judges calls and records none.

    Args:
        tools: The tools.
        policy: The policy.

    Attributes:
        domain: The domain of the tools.
        enforced: The policy in force.
        history: Notes the calls that were made.

    Raises:
        ToolPolicyError: The policy cannot be read, or does not fit the tools.
    """

    def __init__(self, tools: Tools, policy: PolicySource) -> None:
        self.domain: ToolsDomain = domain_of(tools, "high", policy)
        self.enforced = MemoryEnforcement(self.domain.enforced)
        self.domain.enforced = self.enforced
        rules = self.enforced.policy
        markings = {} if rules is None else rules.markings
        self.history = CallHistory(self.domain, markings, self.enforced.noted)
