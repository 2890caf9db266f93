"""Results that are in no log, in the shape of a turn, so that a client parses one form."""

from placet.agents.loop.recorder import SessionError
from placet.agents.proposal.plan import Issue
from placet.agents.proposal.turn_result import Attempt, Turn
from placet.agents.session.session import Session


def failed_turn(session: Session, error: SessionError) -> Turn:
    """Return the result of a turn that could not be recorded: `failed` if it had started."""
    turn = unrecorded_turn(session, str(error.code), str(error))
    outcome = "failed" if error.has_begun else turn.outcome
    return turn.model_copy(update={"outcome": outcome, "route": error.route})


def unrecorded_turn(session: Session, code: str, message: str) -> Turn:
    """Return a turn that is in no log, with what refused it; it has no number."""
    issue = Issue(code=code, message=message)
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
