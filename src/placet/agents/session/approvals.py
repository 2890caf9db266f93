"""A person's actions in a session: decide about approval requests, edit them, grant in advance.

None of them takes new content for an approval: the held plan is applied unchanged.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Literal

import anyio

from placet.agents.loop.plan_executor import PlanExecutor
from placet.agents.loop.planning_loop import End, end_of, end_of_stop
from placet.agents.loop.recorder import SessionRecorder
from placet.agents.ports import WorldPort
from placet.agents.proposal.catalogue import Catalogue
from placet.agents.proposal.codes import Code
from placet.agents.proposal.contract import parse
from placet.agents.proposal.limits import AgentLimits
from placet.agents.proposal.modes import Mode
from placet.agents.proposal.plan import VERSION, Issue, Plan
from placet.agents.proposal.turn_result import ApprovalRequest, Attempt, Route, Turn
from placet.agents.session.active_turn import ActiveTurn
from placet.schemas.codec import Json

DecisionName = Literal["approve", "deny", "edit"]

_DECISIONS: Final = frozenset({"approve", "deny", "edit"})
_BY_HAND: Final = Mode("autonomous", 32, frozenset({"read", "low", "medium", "high"}), 1)
"""What a person does by their own hand needs nobody's word."""


class Approvals:
    """Returns a session what people do in it."""

    world: WorldPort
    _recorder: SessionRecorder
    _plan_executor: PlanExecutor
    _mode: Mode
    _one_at_a_time: anyio.Lock

    @property
    def limits(self) -> AgentLimits:
        """The agent's limits."""
        raise NotImplementedError

    def _require_open(self) -> None:
        raise NotImplementedError

    def _turn(self, message: str, way: Route) -> AbstractAsyncContextManager[ActiveTurn]:
        raise NotImplementedError

    async def _catalogue(self) -> Catalogue:
        raise NotImplementedError

    async def resolve(
        self, approval_id: str, decision: DecisionName, by: str, *, role: str = ""
    ) -> Turn:
        """Decide about an approval request. New content cannot be passed here.

        Args:
            approval_id: Id of the approval request.
            decision: Apply it; refuse it; or refuse it because something else will be proposed.
            by: Who decides; never the proposer.
            role: Their role, as the host knows it.

        Returns:
            The resulting turn. If the plan would now do something else because the world changed,
            it is `held` again under a new id.

        Raises:
            ValueError: The decision is none of these.
            ClosedError, StoreError: The world is closed, or has failed.
        """
        if decision not in _DECISIONS:
            raise ValueError(f"a decision is approve, deny or edit, got {decision!r}")
        async with (
            self._one_at_a_time,
            self._turn(f"{decision} {approval_id}, by {by}", "person") as turn,
        ):
            approval, issues = await self._may_resolve(approval_id, decision, by, role)
            if approval is None or issues:
                return await turn.end(_denied(issues[0]))
            if decision != "approve":
                issues = await self._plan_executor.close_approval(
                    approval, approval_id, decision, by, role
                )
                text = issues[0].message if issues else f"{decision} by {by}"
                return await turn.end(End("refused", Code.DENIED, text))
            decided = await self._plan_executor.resolve(
                approval, approval_id, by, role, seconds_left=self.limits.seconds_max
            )
            return await turn.end(end_of(decided))

    async def edit(
        self,
        approval_id: str,
        actions: Sequence[tuple[str, Mapping[str, Json]]],
        by: str,
        *,
        role: str = "",
    ) -> Turn:
        """Deny an approval request, and submit a person's own actions instead.

        Args:
            approval_id: Id of the approval request; it stays open if the actions are no valid plan.
            actions: Kinds and payloads, for which the person answers.
            by: Who it is.
            role: Their role, as the host knows it.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        async with (
            self._one_at_a_time,
            self._turn(f"instead of {approval_id}, by {by}", "person") as turn,
        ):
            approval, issues = await self._may_resolve(approval_id, "edit", by, role)
            if approval is None or issues:
                return await turn.end(_denied(issues[0]))
            proposal = {
                "version": VERSION,
                "goal": turn.message,
                "base_seq": self.world.seq,
                "actions": [{"kind": kind, "payload": dict(it)} for kind, it in actions],
            }
            catalogue = await self._catalogue()
            plan, issues = parse(proposal, domain=catalogue, limits=self.limits)
            if plan is not None:
                closed = await self._plan_executor.close_approval(
                    approval, approval_id, "edit", by, role
                )
                if closed:
                    return await turn.end(_denied(closed[0]))
            return await self._carry_out(turn, plan, issues, mode=_BY_HAND)

    async def grant(
        self,
        kinds: str,
        *,
        by: str,
        uses: int = 1,
        seconds: float = 3_600.0,
        equals: Mapping[str, Json] | None = None,
    ) -> str:
        """Permit the agent some kinds ahead, so that they are not held.

        Args:
            kinds: A kind, or a pattern such as `files.*`.
            by: Who permits it; never the proposer.
            uses: How many actions.
            seconds: For how long, simulated.
            equals: Payload fields that must have these values.

        Returns:
            Name of the grant.

        Raises:
            PermissionError: The gate refused it, or the agent was removed.
            ClosedError: The session was closed.
        """
        self._require_open()
        return await self._recorder.grant(kinds, equals or {}, uses, seconds, by)

    async def approvals(self) -> list[ApprovalRequest]:
        """List the approval requests of this session, newest last.

        An expired one has the state `expired`.
        """
        return await self._recorder.approvals()

    async def _may_resolve(
        self, approval_id: str, decision: str, by: str, role: str
    ) -> tuple[dict[str, Json] | None, list[Issue]]:
        """Return an approval request of this session that a person may decide about."""
        approval = await self._recorder.approval(approval_id)
        if approval is None:
            message = f"there is no approval request {approval_id!r} in this session"
            return None, [Issue(code="session.approval_unknown", message=message)]
        return approval, await self._plan_executor.may_resolve(
            approval, approval_id, decision, by, role
        )

    async def _carry_out(
        self, turn: ActiveTurn, plan: Plan | None, issues: list[Issue], mode: Mode | None = None
    ) -> Turn:
        """Submit a plan that will not be repaired."""
        if plan is None:
            attempt = Attempt(n=1, status="invalid", issues=tuple(issues))
            return await turn.end(End("refused", issues[0].code, issues[0].message), [attempt])
        if plan.stop is not None:
            return await turn.end(end_of_stop(plan.stop), [Attempt(n=1, status="stop")])
        decided = await self._plan_executor.submit(
            plan, mode or self._mode, seconds_left=self.limits.seconds_max
        )
        attempt = Attempt(
            n=1,
            status=decided.status,
            actions=tuple(one.kind for one in plan.actions),
            issues=decided.issues,
        )
        return await turn.end(end_of(decided), [attempt])


def _denied(issue: Issue) -> End:
    return End("refused", Code.DENIED, issue.message)
