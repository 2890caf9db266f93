"""The policy in force in a domain of tools: its decisions, and the marks that it writes."""

from collections.abc import Mapping
from typing import Final

from placet.kernel.plugin.approved import key_of
from placet.kernel.plugin.domain import RuleRefusal
from placet.kernel.state.draft import Draft
from placet.schemas.codec import Json
from placet.schemas.effect import Effect
from placet.schemas.intent import Intent
from placet_tools.policy.counting import count_calls, start_counts
from placet_tools.policy.judge import PolicyAnswer, judge
from placet_tools.policy.marks import (
    DraftMarks,
    MarkedCall,
    MarkStore,
    note_done,
    note_failed,
    note_started,
    note_undone,
)
from placet_tools.policy.rules import ToolPolicy
from placet_tools.records import Records
from placet_tools.tool import DeclaredTool

NO_ANSWER: Final = PolicyAnswer(None)
"""The answer without a policy, and about a call that undoes another."""


class Enforcement:
    """A policy, or none, over the state of a domain of tools.

    Args:
        policy: The policy; None for none.
        records: The collections of the domain.

    Attributes:
        policy: The policy; None for none.
    """

    def __init__(self, policy: ToolPolicy | None, records: Records) -> None:
        self.policy = policy
        self._records = records

    @property
    def data(self) -> Mapping[str, Json] | None:
        """The policy as plain JSON; None for none."""
        return None if self.policy is None else self.policy.data

    def quotas(self, tools: Mapping[str, DeclaredTool]) -> dict[str, Mapping[str, float]]:
        """Return the quota of each tool with one: of the policy, or else as declared."""
        rules = {} if self.policy is None else self.policy.tools
        own = {name: one.quota for name, one in rules.items() if one.quota is not None}
        quotas = {name: own.get(name, tool.quota) for name, tool in tools.items()}
        return {name: quota for name, quota in quotas.items() if quota is not None}

    def marks(self, draft: Draft) -> MarkStore:
        """Return the marks of earlier calls."""
        return DraftMarks(draft, self._records)

    def discloses(self, tool: str) -> str:
        """Return which facts of other agents' calls the rule of a tool discloses."""
        is_across = self.policy is not None and self.policy.orders_across_agents(tool)
        return "Calls of other agents count for the policy." if is_across else ""

    def open(self, draft: Draft) -> None:
        """Begin the marks in a new world."""
        start_counts(draft, self._records, self.policy)

    def judge(self, draft: Draft, tool: str, intent: Intent) -> PolicyAnswer:
        """Decide a call."""
        if self.policy is None:
            return NO_ANSWER
        return judge(self.policy, tool, _call_of(intent), self.marks(draft), draft)

    def with_role(self, tool: str, needed: RuleRefusal) -> RuleRefusal:
        """Return the demand for an approval, with the role that the policy names for the tool."""
        role = "" if self.policy is None else self.policy.role_of(tool)
        return needed._replace(details={**needed.details, "role": role}) if role else needed

    def note_started(self, draft: Draft, tool: str, intent: Intent) -> None:
        """Write the marks of a call that begins."""
        markings = () if self.policy is None else self.policy.markings.get(tool, ())
        if any(marking.event == "started" for marking in markings):
            is_timed = any(marking.window or marking.within_ns for marking in markings)
            now_ns = draft.now_ns if is_timed else 0
            note_started(markings, self.marks(draft), _call_of(intent), now_ns)

    def note_done(self, draft: Draft, tool: str, effect: Effect, output: Json) -> None:
        """Write the marks of a call that is done, and take away those of the call it undoes."""
        if self.policy is None:
            return
        markings, marks, key = self.policy.markings, self.marks(draft), effect.payload["key"]
        call = MarkedCall(key, effect.payload["args"], effect.agent_id)
        note_done(markings.get(tool, ()), marks, call, output)
        calls = self._records.calls
        undone_key = draft.get(calls, key, "undoes")
        undone = draft.entity(calls, undone_key) if undone_key else None
        if undone is not None:
            call = MarkedCall(undone_key, undone["args"], undone["agent"])
            note_undone(markings.get(undone["tool"], ()), marks, call)

    def note_failed(self, draft: Draft, tool: str, effect: Effect) -> None:
        """Take the values of a call that was not done from the totals of the policy."""
        markings = () if self.policy is None else self.policy.markings.get(tool, ())
        if any(marking.summed for marking in markings):
            call = MarkedCall(effect.payload["key"], effect.payload["args"], effect.agent_id)
            note_failed(markings, self.marks(draft), call)

    def count(self, draft: Draft, intent: Intent) -> RuleRefusal | None:
        """Take one step of counting the calls before a new rule."""
        return count_calls(draft, self._records, self.policy, intent["payload"])


def _call_of(intent: Intent) -> MarkedCall:
    return MarkedCall(key_of(intent["req_id"]), intent["payload"], intent["agent_id"])
