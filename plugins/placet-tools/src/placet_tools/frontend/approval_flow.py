"""Requests for approval: asking with the changes that are foreseen, and recording decisions.

The batch of an approval has the decision and the calls. It is refused if it would do anything else
than was shown; then the request is stale, and the agent may ask again.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from uuid import uuid4

from placet.domains.approvals import ASK, DECIDE, PREVIEW
from placet.kernel.plugin.approved import REQUESTS
from placet.runtime.agent_handle import AgentHandle
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.codec import Json
from placet.schemas.verdict import Verdict
from placet_tools.domain import ROLE, ToolsDomain
from placet_tools.frontend.call_records import EXPIRED, HELD, CallRecords
from placet_tools.frontend.calls import ToolCall, is_of_plan, of_decision, refused
from placet_tools.frontend.plan_runner import PlanRunner
from placet_tools.frontend.recorder import Recorder
from placet_tools.frontend.requests import (
    OPEN,
    Approval,
    RequestDecision,
    approval_of,
    outside_of,
    shown,
)
from placet_tools.outcome import Outcome

_GATE = "gate"
_REASON_CHARS_MAX = 2_000
_MARGIN_S = 0.001
"""Added to a wait for the time of a request, so that the time is over after it."""


class ApprovalFlow:
    """Asks for approvals, and records what people decide.

    Args:
        world: The world.
        domain: The domain of the tools.
        recorder: Makes intents.
        records: Reads calls and requests.
        runner: Follows approved plans.
        hold_s: Simulated seconds for which a request is open.
    """

    def __init__(
        self,
        world: Orchestrator,
        domain: ToolsDomain,
        recorder: Recorder,
        records: CallRecords,
        runner: PlanRunner,
        hold_s: float,
    ) -> None:
        self._world = world
        self._domain = domain
        self._recorder = recorder
        self._records = records
        self._runner = runner
        self._hold_s = hold_s

    async def open(self) -> list[Approval]:
        """Return the open requests, the earliest to expire first."""
        rows = await self._world.gateway.entities(REQUESTS)
        now = self._world.sim_time
        requests = [approval_of(name, fields) for name, fields in rows.items()]
        waiting = [one for one in requests if one.state == OPEN and one.expires >= now]
        return sorted(waiting, key=lambda one: (one.expires, one.id))

    async def hold(
        self, handle: AgentHandle, calls: Sequence[ToolCall], verdict: Verdict
    ) -> list[Outcome]:
        """Ask a person; an equal plan of the agent that is open already is joined.

        Args:
            handle: Handle of the agent.
            calls: The calls.
            verdict: Verdict of their batch, which was refused for want of an approval.
        """
        roles = sorted({str(one.details.get("role", ROLE)) for one in verdict.refusals})
        if len(roles) > 1:
            message = f"the calls need the roles {', '.join(roles)}; call them one by one"
            codes = verdict.codes
            return [Outcome("refused", message=message, codes=codes, key=one.key) for one in calls]
        ask: dict[str, Json] = {
            "id": f"{self._domain.name}-{uuid4().hex[:12]}",
            "agent": handle.agent_id,
            "intents": [call.as_requested() for call in calls],
            "foreseen": "",
            "undecided": [[], []],
            "unshown": list(self._domain.records),
            "shown": [],
            "role": roles[0],
            "seconds": self._hold_s,
        }
        batch, ahead = await self._recorder.batch(handle, calls)
        first = [
            await self._recorder.approval(ASK, **ask),
            await self._recorder.approval(PREVIEW, id=ask["id"]),
        ]
        answer = await self._world.submit([*first, *batch], dry_run=True, identity=handle)
        if answer.admitted:
            foreseen = outside_of(ask["unshown"], answer.foreseen)
            ask["foreseen"], ask["undecided"] = foreseen.digest, foreseen.undecided
            ask["shown"] = shown(foreseen.changes)
            asked = await self._recorder.approval(ASK, **ask)
            answer = await self._world.submit([asked], identity=handle)
        if answer.admitted:
            request = str(ask["id"])
            return [Outcome("held", message=HELD, approval=request, key=one.key) for one in calls]
        for refusal in answer.refusals:
            if refusal.code == "approvals.request_open":
                return await self._joined(str(refusal.details["id"]))
        return refused(calls, answer, ahead + len(first))

    async def _joined(self, request: str) -> list[Outcome]:
        """Return the outcomes of an equal plan that is open, with the keys of that plan."""
        fields = await self._records.request(request)
        return [
            Outcome("held", message=HELD, approval=request, key=asked["key"])
            for asked in fields["intents"]
        ]

    async def decide(
        self, request: str, verb: str, *, by: str, role: str, reason: str, digest: str
    ) -> RequestDecision:
        """Record the decision of a person; with `approve` its calls run.

        Args:
            request: Id of the request.
            verb: `approve` or `deny`.
            by: Name of the person.
            role: Role of the person.
            reason: Reason of the decision.
            digest: Digest of the request as it was shown; empty for the request as it is now.
        """
        fields = await self._records.request(request)
        decision = await self._recorder.approval(
            DECIDE,
            id=request,
            decision=verb,
            by=by,
            role=role,
            digest=digest or fields["digest"],
            reason=reason,
        )
        if verb == "deny":
            return await self._recorded(request, await self._world.submit([decision]))
        handle = await self._recorder.handle(fields["agent"])
        calls = [ToolCall(one["key"], one["kind"], one["payload"]) for one in fields["intents"]]
        batch, ahead = await self._recorder.batch(handle, calls)
        verdict = await self._world.submit([decision, *batch], identity=handle)
        if verdict.admitted:
            outcomes = await self._runner.run(calls, verdict, ahead + 1)
            return RequestDecision("approved", by, reason, tuple(outcomes))
        if "approvals.request_expired" in verdict.codes:
            await self._end(request, "expire", EXPIRED)
        elif is_of_plan(verdict):
            await self._end(request, "stale", "; ".join(one.message for one in verdict.refusals))
        return await self._recorded(request, verdict)

    async def decision(self, request: str) -> RequestDecision:
        """Wait until a request is decided or expired; return the decision with its outcomes."""
        while True:
            position = self._world.records
            fields = await self._records.request(request)
            if fields["state"] != OPEN:
                return await self._decision_of(request)
            left = fields["expires"] - self._world.sim_time
            if left < 0:
                await self._end(request, "expire", EXPIRED)
                continue
            try:
                async with asyncio.timeout(left + _MARGIN_S):
                    await self._records.next_record(position)
            except TimeoutError:
                continue

    async def _recorded(self, request: str, verdict: Verdict) -> RequestDecision:
        """Return the state of a request after a decision, and why that was not recorded."""
        decision = await self._decision_of(request)
        if verdict.admitted:
            return decision
        refusals = of_decision(verdict) or verdict.refusals
        message = "; ".join(one.message for one in refusals)
        return replace(decision, codes=tuple(one.code for one in refusals), message=message)

    async def _end(self, request: str, decision: str, reason: str) -> None:
        """Record that a request ended without a person."""
        end = await self._recorder.approval(
            DECIDE,
            id=request,
            decision=decision,
            by=_GATE,
            role=ROLE,
            digest="",
            reason=reason[:_REASON_CHARS_MAX],
        )
        await self._world.submit([end])

    async def _decision_of(self, request: str) -> RequestDecision:
        fields = await self._records.request(request)
        outcomes = [
            await self._records.outcome(one["key"])
            for one in fields["intents"]
            if self._domain.tool_of(one["kind"]) is not None
        ]
        return RequestDecision(fields["state"], fields["by"], fields["reason"], tuple(outcomes))
