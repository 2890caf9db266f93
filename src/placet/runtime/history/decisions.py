"""The decision on a batch, in a form in which two logs can be compared."""

from typing import NamedTuple

from placet.schemas.log.record import Admitted, Refused, Scheduled, intents_of
from placet.schemas.verdict import Verdict


class Decision(NamedTuple):
    """The decision on a batch.

    Attributes:
        outcome: `admitted`, `scheduled` or `refused`.
        codes: Of the refusals, in order.
        requests: `(agent_id, req_id)` of its intents, in order.
    """

    outcome: str
    codes: tuple[str, ...]
    requests: tuple[tuple[str, str], ...]

    @property
    def agent_ids(self) -> tuple[str, ...]:
        """Whose it is, each once."""
        return tuple(dict.fromkeys(agent_id for agent_id, _ in self.requests))

    @property
    def req_ids(self) -> tuple[str, ...]:
        """Of its intents, in order."""
        return tuple(req_id for _, req_id in self.requests)

    @property
    def passes(self) -> bool:
        """Return whether it was not refused."""
        return self.outcome != "refused"

    def __str__(self) -> str:
        return f"{self.outcome}: {', '.join(self.codes)}" if self.codes else self.outcome


def decision_of(record: Admitted | Refused | Scheduled) -> Decision:
    """Read a decision out of a log."""
    requests = tuple((intent["agent_id"], intent["req_id"]) for intent in intents_of(record))
    if isinstance(record, Refused):
        return Decision("refused", tuple(r[2] for r in record.refusals), requests)
    outcome = "scheduled" if isinstance(record, Scheduled) else "admitted"
    return Decision(outcome, (), requests)


def decision_of_verdict(verdict: Verdict, of: Decision) -> Decision:
    """Read a decision about the same batch out of a verdict."""
    outcome = "scheduled" if verdict.scheduled else "admitted" if verdict.admitted else "refused"
    return of._replace(outcome=outcome, codes=tuple(r.code for r in verdict.refusals))
