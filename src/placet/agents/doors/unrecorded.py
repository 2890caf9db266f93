"""What could not begin, in the shape of a turn: a client reads one form of answer."""

from placet.agents.plan import Issue
from placet.agents.record import Attempt, Turn
from placet.agents.session import Session


def unrecorded(session: Session, code: str, message: str) -> Turn:
    """Give a turn that is in no log, with what refused it; it has no number."""
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
