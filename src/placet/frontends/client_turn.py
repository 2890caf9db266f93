"""Turns as a front end returns them to a client.

A client parses one form: a turn of which nothing could be recorded has the same shape. A client
that acts for the agent gets a turn without the changes that the agent may not see.
"""

from typing import TypeVar

from placet.agents.loop.recorder import SessionError
from placet.agents.proposal.plan import Issue
from placet.agents.proposal.turn_result import ApprovalRequest, Attempt, StateChange, Turn
from placet.agents.session.session import Session
from placet.kernel.kernel import Kernel
from placet.runtime.orchestrator import Orchestrator
from placet.server.viewpoint import shows_change

_Shown = TypeVar("_Shown", Turn, ApprovalRequest)


async def visible_part(shown: _Shown, session: Session) -> _Shown:
    """Return a turn or an approval request without the changes that its agent may not see.

    A diff shows the whole state, because it is made for people.

    Raises:
        ClosedError, StoreError: The world is closed, or has failed.
    """
    diff, agent_id, world = shown.diff, session.agent_id, session.world
    if not diff:
        return shown
    assert isinstance(world, Orchestrator), "a front end serves an orchestrator of this process"

    def seen(kernel: Kernel) -> tuple[StateChange, ...]:
        return tuple(one for one in diff if shows_change(kernel, agent_id, one.field_change))

    return shown.model_copy(update={"diff": await world.query(seen)})


def failed_turn(session: Session, error: SessionError) -> Turn:
    """Return the result of a turn that could not be recorded: `failed` if it had started."""
    turn = unrecorded_turn(session, str(error.code), str(error))
    outcome = "failed" if error.has_started else turn.outcome
    return turn.model_copy(update={"outcome": outcome, "route": error.route})


def unrecorded_turn(session: Session, code: str, message: str, at: str = "") -> Turn:
    """Return a refused turn that is in no log and has no number.

    Args:
        session: The session.
        code: Code of the refusal.
        message: Message of the refusal.
        at: JSON pointer to the fault in the request.
    """
    issue = Issue(code=code, message=message, at=at)
    return Turn(
        id=f"{session.name}/-",
        session=session.name,
        agent=session.agent_id,
        route="agent",
        mode=session.mode,
        outcome="refused",
        stop=code,
        message=message,
        attempts=(Attempt(n=1, status="invalid", issues=(issue,)),),
    )
