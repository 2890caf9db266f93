"""A turn that is begun and not ended."""

from collections.abc import Sequence
from dataclasses import dataclass

from placet.agents.loop.recorder import SessionError, SessionRecorder
from placet.agents.proposal.adapter import Usage
from placet.agents.proposal.turn_result import Attempt, PlanResult, Route, Turn, TurnEnd


@dataclass(frozen=True, slots=True)
class ActiveTurn:
    """A turn that was started and whose end is not recorded yet.

    Attributes:
        session: Name of the session.
        agent_id: Id of the agent in whose name the session proposes.
        recorder: Writes the end of the turn.
        number: Number of the turn in its session.
        message: The message that began it.
        route: What makes its plan.
        mode: Mode of the session as the turn began.
    """

    session: str
    agent_id: str
    recorder: SessionRecorder
    number: int
    message: str
    route: Route
    mode: str

    async def end(
        self,
        end: TurnEnd,
        attempts: Sequence[Attempt] = (),
        usage: Usage | None = None,
        *,
        ended: Sequence[str] = (),
    ) -> Turn:
        """Record the end of the turn, and return the turn as its caller receives it.

        Args:
            end: The end.
            attempts: Answers of the adapter.
            usage: Use of the adapter.
            ended: Ids of the approval requests whose end the turn records.
        """
        plan_result = end.plan_result or PlanResult("rejected")
        try:
            await self.recorder.end(
                self.number, end, plan_result.results, plan_result.approval_id, ended
            )
        except SessionError as error:
            error.route = self.route
            raise
        return Turn(
            id=f"{self.session}/{self.number}",
            session=self.session,
            agent=self.agent_id,
            route=self.route,
            mode=self.mode,
            outcome=end.outcome,
            stop=str(end.stop),
            message=end.message,
            choices=end.choices,
            attempts=tuple(attempts),
            results=plan_result.results,
            diff=plan_result.diff,
            approval_id=plan_result.approval_id,
            usage=usage or Usage(),
        )
