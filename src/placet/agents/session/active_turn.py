"""A turn that is begun and not ended."""

from collections.abc import Sequence
from typing import Protocol

from placet.agents.loop.recorder import SessionError, SessionRecorder
from placet.agents.proposal.turn_result import Attempt, PlanResult, Route, Spent, Turn, TurnEnd


class TurnRequest(Protocol):
    """The interface to a session that its running turn uses."""

    @property
    def name(self) -> str:
        """Name of the session."""

    @property
    def agent_id(self) -> str:
        """Id of the agent in whose name the session proposes."""


class ActiveTurn:
    """A turn that was started and whose end is not recorded yet."""

    __slots__ = ("_mode", "_recorder", "_route", "_session", "message", "number")

    def __init__(
        self,
        session: TurnRequest,
        recorder: SessionRecorder,
        number: int,
        message: str,
        route: Route,
        mode: str,
    ) -> None:
        self._session = session
        self._recorder = recorder
        self.number = number
        self.message = message
        self._route = route
        self._mode = mode

    async def end(
        self, end: TurnEnd, attempts: Sequence[Attempt] = (), spent: Spent | None = None
    ) -> Turn:
        """Record the end of the turn, and return the turn as its caller receives it."""
        session = self._session
        plan_result = end.plan_result or PlanResult("rejected")
        try:
            await self._recorder.end(self.number, end, plan_result.results, plan_result.approval_id)
        except SessionError as error:
            error.route = self._route
            raise
        return Turn(
            id=f"{session.name}/{self.number}",
            session=session.name,
            agent=session.agent_id,
            route=self._route,
            mode=self._mode,
            outcome=end.outcome,
            stop=str(end.stop),
            message=end.message,
            choices=end.choices,
            attempts=tuple(attempts),
            results=plan_result.results,
            diff=plan_result.diff,
            approval_id=plan_result.approval_id,
            usage=spent or Spent(),
        )
