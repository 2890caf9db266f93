"""The inbox of a world: requests for a person's approval of intents, and decisions about them.

It also has the effects in doubt, which a person settles.

A request is recorded with the changes that a dry run foresees. The batch of an approval has the
decision and the intents of the request. It is refused if its changes or effects differ from the
shown ones. The request is in the state of the world, with everything that this batch needs, so any
program that has opened the world can decide it, also after a restart. The world needs the domain
`approvals`, which has the rules.

The inbox submits the batch as the operator, for the agent of each intent. A request is dropped when
such an agent is removed, so an agent that registers later under this name runs none of its intents.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args
from uuid import uuid4

from placet.actors.ports import AgentIdentity
from placet.kernel.control.outbox import plain_output
from placet.kernel.kernel import Kernel
from placet.kernel.plugin.approved import (
    AMEND,
    ASK,
    DECIDE,
    NOT_FORESEEN,
    PREVIEW,
    RECORDER,
    REQUESTS,
    SETTLE,
)
from placet.runtime.api.approval_requests import (
    UNFORESEEN,
    amendment_of,
    approval_of,
    ends_request,
    held_of,
    intent_of,
    outside_of,
    shown_of,
)
from placet.runtime.api.gateway import RISKS
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.approval import (
    ASKS,
    Approval,
    ApprovalState,
    ApprovalUnknown,
    HeldIntent,
    InboxAnswer,
)
from placet.schemas.codec import Json
from placet.schemas.effect import EffectKey, EffectStatus, call_key_of
from placet.schemas.intent import Intent
from placet.schemas.name_suggestions import require_known
from placet.schemas.refusal import Refusal, RefusalCode
from placet.schemas.verdict import Verdict

if TYPE_CHECKING:
    from placet.runtime.agent_handle import AgentHandle

Decision: TypeAlias = Literal["approve", "deny", "amend"]

_Approvals: TypeAlias = list[Approval]  # in the class `list` is a method

_AHEAD_OF_PREVIEW: Final = 2
_AHEAD: Final = 1
"""Intents of the inbox at the head of its batches."""

_REASON_CHARS_MAX: Final = 2_000
_CODES_MAX: Final = 16
_CALL_CHARS_MAX: Final = 128
_PAGE_MAX: Final = 256
_TRIES: Final = 5
"""Maximum number of submissions of a decision that other batches keep making stale."""

_MARGIN_S: Final = 0.001
"""Added to a wait until a request expires, so that it has expired when the wait ends."""

_NOT_AS_SHOWN: Final = Refusal(
    NOT_FORESEEN,
    "the result of the amendment has changed since it was shown; look at it again",
    index=0,
    at="/id",
)

_EXPIRED: Final = "approvals.request_expired"


class Inbox:
    """The requests for approval of an open world.

        inbox = Inbox(world)
        answer = await inbox.ask([alice.intent("Move", to=[9, 0, 0])], agent=alice)
        for request in await inbox.open():
            await inbox.decide(request.id, "approve", by="ann", digest=request.digest)

    Any number of inboxes may be made of one world.

    Args:
        world: The world, with the domain `approvals`. The inbox registers the agent
            `approvals.recorder` in it when it first records something.
    """

    def __init__(self, world: Orchestrator) -> None:
        self._world = world
        self._recorder: AgentHandle | None = None

    def __repr__(self) -> str:
        return f"<Inbox of {self._world!r}>"

    # reading

    async def open(self) -> _Approvals:
        """Return the open requests, the earliest to expire first. O(kept requests).

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        waiting = [one for one in await self._all() if one.state == "open"]
        return sorted(waiting, key=lambda one: (one.expires, one.number))

    async def list(
        self, *, state: ApprovalState | None = None, cursor: int = 0, limit: int = 64
    ) -> _Approvals:
        """Return a page of the requests that the state keeps, in the order of their creation.

        Args:
            state: State of the requests; None for any. An open request past its time is `expired`.
            cursor: `number` of the last request of the previous page; 0 for the first page.
            limit: Maximum number of requests, 1 to 256.

        Raises:
            ValueError: There is no such state, or the limit is out of its range.
            ClosedError, StoreError: The world is closed, or has failed.
        """
        if state is not None:
            require_known(state, get_args(ApprovalState), "state")
        if not 1 <= limit <= _PAGE_MAX:
            raise ValueError(f"limit must be 1 to {_PAGE_MAX}, got {limit!r}")
        found = [
            one for one in await self._all() if one.number > cursor and state in {None, one.state}
        ]
        return sorted(found, key=lambda one: one.number)[:limit]

    async def get(self, request: str) -> Approval:
        """Return a request.

        Raises:
            ApprovalUnknown: The state has no such request.
            ClosedError, StoreError: The world is closed, or has failed.
        """
        rows = await self._world.gateway.entities(REQUESTS, [request])
        if request not in rows:
            raise ApprovalUnknown(f"there is no request {request!r}; list the open ones")
        return self._approval(request, rows[request])

    async def decision(self, request: str) -> Approval:
        """Wait until a request is no longer open, and return it; record it if it expires.

        Raises:
            ApprovalUnknown: The state has no such request.
            ClosedError, StoreError: The world is closed, or has failed.
        """
        while True:
            position = self._world.records
            approval = await self.get(request)
            if approval.state == "expired" and not approval.by:
                await self._end(request, "expire", "it was not decided in time")
                continue
            if approval.state != "open":
                return approval
            left = approval.expires - self._world.sim_time
            try:
                async with asyncio.timeout(max(0.0, left) + _MARGIN_S):
                    await next_record(self._world, position)
            except TimeoutError:
                continue

    # asking

    async def ask(
        self,
        intents: Sequence[Intent],
        *,
        agent: AgentIdentity,
        role: str = "",
        seconds: float = 3_600.0,
        unshown: Sequence[str] = (),
        about: Mapping[str, Json] | None = None,
        request_id: str = "",
    ) -> InboxAnswer:
        """Request a person's approval of intents; if an equal request is open, return that one.

        A dry run of the approving batch finds the changes that the person is shown. If the dry run
        is refused, no request is recorded. Two requests are equal if they have the same intents of
        the same agent, without their keys.

        Args:
            intents: 1 to 510 intents, in the order of the approving batch, at least one of `agent`.
                Intents of other agents are records of the requesting program, such as a plan of
                calls. The key of an intent is the part of its req_id before the last slash.
                Priorities are not kept.
            agent: Handle of the agent that requests the approval.
            role: Role that the person must have; empty for any person.
            seconds: Simulated seconds for which the request is open.
            unshown: Collections whose changes the person is not shown: the records of the
                requesting domain.
            about: Facts for the person, such as the goal of a plan; of `asks`, a list of texts, why
                a person is asked.
            request_id: Id of the request, new in this world; empty for a random one. Random draws
                of the intents depend on it.

        Returns:
            The request, with the verdict that recorded it. If an equal request was open, the
            verdict is the refusal `approvals.request_open`. If there is no request, the verdict has
            the refusals.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        held = await self._held(intents)
        request = request_id or uuid4().hex
        payload: dict[str, Json] = {
            **UNFORESEEN,
            "id": request,
            "agent": agent.agent_id,
            "intents": list(held),
            "role": role,
            "seconds": seconds,
            "unshown": list(unshown),
            "about": dict(about or {}),
            "requested": self._world.sim_time,
        }
        verdict = await self._foresee(payload, agent)
        ahead = _AHEAD_OF_PREVIEW
        if verdict.admitted:
            ahead = _AHEAD
            verdict = await self._world.submit([await self._intent(ASK, payload)], identity=agent)
        if verdict.admitted:
            return InboxAnswer(await self.get(request), verdict, ahead)
        for refusal in verdict.refusals:
            if refusal.code == "approvals.request_open":
                joined = await self.get(str(refusal.details["id"]))
                return InboxAnswer(joined, verdict, ahead)
        return InboxAnswer(None, verdict, ahead)

    # deciding

    async def decide(
        self,
        request: str,
        decision: Decision,
        *,
        by: str,
        role: str = "",
        digest: str = "",
        reason: str = "",
        intents: Sequence[Intent] = (),
        foreseen: str = "",
    ) -> InboxAnswer:
        """Record the decision of a person; with `approve` and `amend` the intents are applied.

        The program vouches for the name and the role of the person.

        Args:
            request: Id of the request.
            decision: `approve`, `deny`, or `amend` to approve other intents in its place.
            by: Name of the person, who is no agent of an intent of the request.
            role: Role of the person.
            digest: Digest of the request as it was shown; empty for the request as it is now.
            reason: Reason, at most 2 000 characters.
            intents: The intents of an amendment, as for `ask`, with new keys. Their rules may need
                no other role than that of the request.
            foreseen: Digest of the amendment as `foresee_amendment` showed it: one that would now
                do something else is refused (`approvals.not_foreseen`). Empty for any.

        Returns:
            The request after the decision, with the verdict. It is `open` if the decision was not
            recorded: the person may not decide, a quota is exhausted, or the amendment is refused.
            It is `stale` if the result of the intents has changed since it was shown. The
            request that an amendment made is `approval.amended_by`.

        Raises:
            ApprovalUnknown: The state has no such request.
            ValueError: There is no such decision, or an amendment has no intents, or another
                decision has some.
            ClosedError, StoreError: The world is closed, or has failed.
        """
        require_known(decision, get_args(Decision), "decision")
        if (decision == "amend") != bool(intents):
            raise ValueError(f"an amendment, and it alone, has intents; got {len(intents)} of them")
        shown = await self.get(request)
        person: dict[str, Json] = {"id": request, "by": by, "role": role, "reason": reason}
        person["digest"] = digest or shown.digest
        if decision == "amend":
            return await self._amend(shown, person, intents, foreseen)
        applied = shown.intents if decision == "approve" else ()
        verdict = await self._submit(DECIDE, {**person, "decision": decision}, applied)
        if decision == "approve" and ends_request(verdict):
            reason = "; ".join(one.message for one in verdict.refusals)
            await self._end(request, "stale", reason, verdict.codes)
        return await self._answer(request, verdict, _AHEAD)

    async def doubts(self) -> Sequence[EffectStatus]:
        """Return the effects in doubt of the world, of any domain, oldest first.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        return await self._world.effects("in_doubt")

    async def settle(
        self, effect: EffectKey, *, done: bool, by: str, reason: str = "", output: Json = None
    ) -> None:
        """Settle an effect in doubt, as a person found out what happened, and record the person.

        The record of the person (`approvals.settle`) precedes the settlement, which has the outcome
        that holds. A record that no settlement of its effect follows is void. If two persons settle
        an effect at once, both records may precede its one settlement.

        Args:
            effect: Key of the effect.
            done: The work was done.
            by: Name of the person, who is not the agent of the effect.
            reason: How the person found out, at most 2 000 characters.
            output: Output of the effect; of one that was not done, None for the reason.

        Raises:
            LookupError: No effect of this key is in doubt.
            ValueError: The output is not plain JSON, or too large; the reason is too long; or the
                person is the agent of the effect. Nothing is recorded.
            ClosedError, StoreError: The world is closed, or has failed.
        """
        found = next((one for one in await self.doubts() if one.key == effect), None)
        if found is None:
            raise LookupError(f"no effect {effect} is in doubt; it may be settled")
        if output is None and not done:
            output = reason or None
        limits = await self._world.query(lambda kernel: kernel.config.limits)
        output = plain_output(output, limits)  # raises here, before the person is recorded
        payload: dict[str, Json] = {
            "effect": str(effect),
            "kind": found.kind,
            "call": call_key_of(found.payload)[:_CALL_CHARS_MAX],
            "agent": found.agent_id,
            "outcome": "done" if done else "failed",
            "by": by,
            "reason": reason,
        }
        verdict = await self._world.submit([await self._intent(SETTLE, payload)])
        if not verdict.admitted:
            raise ValueError("; ".join(one.message for one in verdict.refusals))
        if not await self._world.resolve_effect(effect, succeeded=done, output=output):
            raise LookupError(f"effect {effect} was settled meanwhile; look at its outcome")

    async def foresee_amendment(self, request: str, intents: Sequence[Intent]) -> InboxAnswer:
        """Show the intents and changes that an amendment would approve; nothing is recorded.

        Args:
            request: Id of the request.
            intents: The intents of the amendment, as for `decide`.

        Returns:
            A request with the validated intents and their changes, which is in no state: its id is
            empty, and `decide` takes its digest as `foreseen`. If the dry run is refused, there is
            no request.

        Raises:
            ApprovalUnknown: The state has no such request.
            ClosedError, StoreError: The world is closed, or has failed.
        """
        shown = await self.get(request)
        payload = await self._amendment(shown, intents)
        verdict = await self._foresee(payload)
        made = amendment_of(shown, payload, self._world.gateway.registry)
        return InboxAnswer(made if verdict.admitted else None, verdict, _AHEAD_OF_PREVIEW)

    async def _amend(
        self,
        shown: Approval,
        person: Mapping[str, Json],
        intents: Sequence[Intent],
        foreseen: str,
    ) -> InboxAnswer:
        """End a request, and approve other intents of its agent, in one batch."""
        payload = await self._amendment(shown, intents)
        verdict, ahead = await self._foresee(payload), _AHEAD_OF_PREVIEW
        if verdict.admitted:
            ahead = _AHEAD
            made = amendment_of(shown, payload, self._world.gateway.registry)
            if foreseen not in {"", made.digest}:
                verdict = self._refused(_NOT_AS_SHOWN)
            else:
                request: dict[str, Json] = {**person, "request": payload}
                verdict = await self._submit(AMEND, request, payload["intents"])
        return await self._answer(shown.id, verdict, ahead)

    async def _amendment(self, shown: Approval, intents: Sequence[Intent]) -> dict[str, Json]:
        """Return the payload of the request that an amendment makes, before its dry run."""
        held = await self._held(intents)
        rows = await self._world.gateway.entities(REQUESTS, [shown.id])
        return {
            **UNFORESEEN,
            "id": uuid4().hex,
            "agent": shown.agent,
            "intents": list(held),
            "role": shown.role,
            "seconds": 1.0,  # it is decided in the batch that records it
            "unshown": rows[shown.id]["unshown"] if rows else [],
            # Why the first request was made is no reason of the second.
            "about": {name: value for name, value in shown.about.items() if name != ASKS},
            "requested": self._world.sim_time,
        }

    def _refused(self, refusal: Refusal) -> Verdict:
        world = self._world
        return Verdict("", False, None, world.seq, world.sim_time, (refusal,))

    async def _answer(self, request: str, verdict: Verdict, ahead: int) -> InboxAnswer:
        """Return the answer to a decision; record the end of the request if it has expired."""
        if _EXPIRED in verdict.codes:
            await self._end(request, "expire", "it was not decided in time")
        return InboxAnswer(await self.get(request), verdict, ahead)

    async def _end(
        self, request: str, decision: str, reason: str, codes: Sequence[str] = ()
    ) -> None:
        """Record that a request ended without a person.

        Args:
            request: Id of the request.
            decision: `expire` or `stale`.
            reason: Reason, which is cut to its limit.
            codes: Codes of the refusals that ended it.
        """
        payload: dict[str, Json] = {
            "id": request,
            "decision": decision,
            "by": RECORDER,
            "role": "",
            "digest": "",
            "reason": reason[:_REASON_CHARS_MAX],
        }
        if codes:
            payload["codes"] = list(dict.fromkeys(codes))[:_CODES_MAX]
        await self._world.submit([await self._intent(DECIDE, payload)])

    # batches

    async def _submit(
        self, kind: str, payload: Mapping[str, Json], held: Sequence[HeldIntent]
    ) -> Verdict:
        """Submit a decision with the intents that it approves.

        The rules compare the changes of the batch with the shown ones. So a batch that other
        batches make stale before it is decided can be submitted again, at the new seq.
        """
        tries = 0
        while True:
            batch = [await self._intent(kind, payload), *self._intents(held)]
            verdict = await self._world.submit(batch, shows_changes=True)
            tries += 1
            if tries == _TRIES or RefusalCode.STALE_CONTEXT not in verdict.codes:
                return verdict

    async def _foresee(
        self, payload: dict[str, Json], identity: AgentIdentity | None = None
    ) -> Verdict:
        """Fill in the risk, and the changes that a dry run of the approving batch foresees."""
        batch = [
            await self._intent(ASK, payload),
            await self._intent(PREVIEW, {"id": payload["id"]}),
            *self._intents(payload["intents"]),
        ]
        verdict = await self._world.submit(batch, dry_run=True, identity=identity)
        if verdict.admitted:
            foreseen = outside_of(payload["unshown"], verdict.foreseen)
            payload["foreseen"], payload["undecided"] = foreseen.digest, foreseen.undecided
            payload["shown"] = shown_of(foreseen.changes)
            actions = [(one["kind"], one["payload"]) for one in payload["intents"]]
            payload["risk"] = max(await self._world.gateway.risks(actions), key=RISKS.index)
        return verdict

    async def _held(self, intents: Sequence[Intent]) -> Sequence[HeldIntent]:
        """Return intents in the form of a request, with validated payloads.

        The rules compare validated payloads. Invalid intents stay as they are: the dry run refuses
        them, and its refusal describes the fault.
        """

        def validated(kernel: Kernel) -> Sequence[Intent]:
            checked = kernel.check(list(intents))
            return intents if isinstance(checked, Verdict) else checked.intents

        return [held_of(intent) for intent in await self._world.query(validated)]

    def _intents(self, held: Sequence[HeldIntent]) -> Sequence[Intent]:
        """Return the intents of one submission: each has a new req_id with the same key.

        With an earlier req_id the dedup window would return its verdict, without details.
        """
        suffix, seq = uuid4().hex[:12], self._world.seq
        return [intent_of(one, f"{one['key']}/{suffix}", seq) for one in held]

    async def _intent(self, kind: str, payload: Mapping[str, Json]) -> Intent:
        """Return an intent of the recorder."""
        if self._recorder is None:
            self._recorder = await self._world.register_agent(RECORDER)
        intent = self._recorder.intent(kind, payload)
        intent["context_seq"] = self._world.seq
        return intent

    # the state

    async def _all(self) -> _Approvals:
        rows = await self._world.gateway.entities(REQUESTS)
        return [self._approval(request, fields) for request, fields in rows.items()]

    def _approval(self, request: str, fields: Mapping[str, Json]) -> Approval:
        return approval_of(request, fields, self._world.sim_time, self._world.gateway.registry)


async def next_record(world: Orchestrator, position: int) -> None:
    """Wait until the log of a world has a record at a position.

    Raises:
        ClosedError, StoreError: The world is closed, or has failed.
    """
    async for _ in world.event_pages(from_record=position):
        return
    await world.digest()  # a stopped world raises the reason
