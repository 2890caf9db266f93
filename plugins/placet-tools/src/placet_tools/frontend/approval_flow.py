"""Approvals of calls: requests in the inbox of the world, and the outcomes of their calls."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from placet.runtime.agent_handle import AgentHandle
from placet.runtime.inbox import Decision, Inbox
from placet.schemas.approval import ASKS, Approval, InboxAnswer
from placet.schemas.intent import Intent
from placet.schemas.refusal import RefusalCode
from placet.schemas.verdict import Verdict
from placet_tools.domain import PLAN, ROLE, ToolsDomain
from placet_tools.frontend.call_records import HELD, CallRecords
from placet_tools.frontend.calls import ToolCall, refused
from placet_tools.frontend.plan_runner import PlanRunner
from placet_tools.frontend.recorder import PLAN_MIN, Recorder
from placet_tools.outcome import Outcome, RequestDecision

VALUE_MISSING: Final = "value_missing"
"""Code of an approval that is not recorded, because a secret or personal value is not here."""


class ApprovalFlow:
    """Requests approvals of calls, and returns decisions with the outcomes of the calls.

    Args:
        inbox: The inbox of the world.
        domain: The domain of the tools.
        recorder: Makes intents.
        records: Reads calls.
        runner: Follows approved plans.
        hold_s: Simulated seconds for which a request is open before it expires.
    """

    def __init__(
        self,
        inbox: Inbox,
        domain: ToolsDomain,
        recorder: Recorder,
        records: CallRecords,
        runner: PlanRunner,
        hold_s: float,
    ) -> None:
        self._inbox = inbox
        self._domain = domain
        self._recorder = recorder
        self._records = records
        self._runner = runner
        self._hold_s = hold_s

    async def resume(self) -> None:
        """Start to watch for approved plans if an earlier process left an open request for one."""
        plan = self._domain.prefixed(PLAN)
        for request in await self._inbox.open():
            if any(one["kind"] == plan for one in request.intents):
                self._runner.watch()
                return

    async def hold(
        self, handle: AgentHandle, calls: Sequence[ToolCall], verdict: Verdict
    ) -> list[Outcome]:
        """Request an approval of calls; if the agent has an equal open request, return that one.

        Args:
            handle: Handle of the agent.
            calls: The calls.
            verdict: Verdict of their batch, with `approval_required` as its only code.
        """
        roles = sorted({str(one.details.get("role", ROLE)) for one in verdict.refusals})
        if len(roles) > 1:
            message = f"the calls need the roles {', '.join(roles)}; call them one by one"
            codes = verdict.codes
            return [Outcome("refused", message=message, codes=codes, key=one.key) for one in calls]
        batch, ahead = await self._recorder.batch(handle.agent_id, calls)
        answer = await self._inbox.ask(
            batch,
            agent=handle,
            role=roles[0],
            seconds=self._hold_s,
            unshown=self._domain.records,
            about={ASKS: self._reasons(calls, verdict)},
        )
        if answer.request is None:
            return refused(self._domain, calls, answer.verdict, answer.ahead + ahead)
        if ahead:  # another program may approve the plan
            self._runner.watch()
        held, keys = answer.approval, [one["key"] for one in answer.approval.own_intents]
        return [Outcome("held", message=HELD, approval=held.id, key=key) for key in keys]

    def _reasons(self, calls: Sequence[ToolCall], verdict: Verdict) -> list[str]:
        """Return why a person is asked, a line for each call that needs an approval."""
        ahead = int(len(self._recorder.keys_of_tools(calls)) >= PLAN_MIN)
        return [
            self._domain.reason_of(calls[one.index - ahead].kind, one)
            for one in verdict.refusals
            if one.index is not None
        ]

    async def decide(
        self,
        request: str,
        decision: Decision,
        *,
        by: str,
        role: str,
        reason: str,
        digest: str,
        calls: Sequence[ToolCall],
    ) -> RequestDecision:
        """Record the decision of a person, and run the calls that it approves.

        Args:
            request: Id of the request.
            decision: `approve`, `deny` or `amend`.
            by: Name of the person.
            role: Role of the person.
            reason: Reason of the decision.
            digest: Digest of the request as it was shown; empty for the request as it is now.
            calls: The calls of an amendment.
        """
        batch: Sequence[Intent] = ()
        if decision == "approve":
            shown = await self._inbox.get(request)
            why = await self._records.values.why_missing(shown.own_intents)
            if shown.state == "open" and why:
                return RequestDecision("open", codes=(VALUE_MISSING,), message=why)
        if any(call.fault for call in calls):
            shown = await self._inbox.get(request)
            faults = "; ".join(call.fault for call in calls if call.fault)
            codes = (RefusalCode.PAYLOAD_INVALID.value,)
            return RequestDecision(shown.state, codes=codes, message=faults)
        if calls:
            shown = await self._inbox.get(request)
            batch, _ = await self._recorder.batch(shown.agent, calls)
        answer = await self._inbox.decide(
            request, decision, by=by, role=role, reason=reason, digest=digest, intents=batch
        )
        if answer.verdict.admitted and decision != "deny":
            return await self._applied(answer)
        result = await self._decision_of(answer.approval)
        return replace(result, codes=answer.codes, message=answer.message)

    async def decision(self, request: str) -> RequestDecision:
        """Wait until a request is decided or expired; return the decision with its outcomes."""
        return await self._decision_of(await self._inbox.decision(request))

    async def _applied(self, answer: InboxAnswer) -> RequestDecision:
        """Follow the calls that a decision approved; return the decision with their outcomes."""
        decided = answer.approval
        applied = await self._inbox.get(decided.amended_by) if decided.amended_by else decided
        calls = [ToolCall(one["key"], one["kind"], one["payload"]) for one in applied.own_intents]
        ahead = answer.ahead + len(applied.intents) - len(calls)
        outcomes = await self._runner.run(calls, answer.verdict, ahead)
        return RequestDecision(decided.state, decided.by, decided.reason, tuple(outcomes))

    async def _decision_of(self, decided: Approval) -> RequestDecision:
        """Return the decision about a request, with the outcomes of the calls that ran."""
        applied = await self._inbox.get(decided.amended_by) if decided.amended_by else decided
        outcomes = [
            await self._records.outcome(one["key"])
            for one in applied.own_intents
            if self._domain.tool_of(one["kind"]) is not None
        ]
        return RequestDecision(decided.state, decided.by, decided.reason, tuple(outcomes))
