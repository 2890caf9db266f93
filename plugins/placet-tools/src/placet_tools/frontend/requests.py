"""Requests for approval as the gate asks for them, shows them, and records decisions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from placet.domains.approvals import COLLECTIONS
from placet.schemas.codec import Json
from placet.schemas.foreseen import UNDECIDED, FieldChange, Foreseen
from placet.schemas.keywords import explain_keywords
from placet_tools.outcome import Outcome

OPEN: Final = "open"
SHOWN_MAX: Final = 512

Verb: TypeAlias = Literal["approve", "deny"]
RequestState: TypeAlias = Literal["open", "approved", "denied", "expired", "stale"]


class ApprovalUnknown(LookupError):  # noqa: N818  # the name states the fault
    """The error of an id of which the state has no request."""


@explain_keywords
@dataclass(frozen=True, slots=True)
class Approval:
    """A request for approval: the calls of an agent, and the changes that they would make.

    Attributes:
        id: Id of the request.
        agent: The agent that asked.
        calls: Kind and arguments of each call, in order.
        changes: Changes outside of the records of calls and approvals: `[collection, entity,
            field, op, old, new]`; the op is `undecided` for a value that is decided when it is
            applied.
        role: Role that the person must have.
        expires: Simulated time after which it cannot be approved, seconds.
        digest: Digest of all that is shown; a decision names it.
        state: `open`, or the decision.
        by: The person who decided.
        reason: Reason of the decision.
    """

    id: str
    agent: str
    calls: tuple[tuple[str, Mapping[str, Json]], ...]
    changes: tuple[tuple[Json, ...], ...]
    role: str
    expires: float
    digest: str
    state: RequestState
    by: str = ""
    reason: str = ""

    def __str__(self) -> str:
        calls = "; ".join(
            f"{kind}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"
            for kind, arguments in self.calls
        )
        return f"{self.agent} asks {self.role}: {calls}"


@explain_keywords
@dataclass(frozen=True, slots=True)
class RequestDecision:
    """The decision about a request for approval, and the outcomes of its calls.

    Attributes:
        state: State of the request; `open` if the decision was not recorded.
        by: The person who decided.
        reason: Reason of the decision.
        outcomes: Outcome of each call of the request.
        codes: Codes of the refusals of the decision.
        message: Why the decision was not recorded.
    """

    state: RequestState
    by: str = ""
    reason: str = ""
    outcomes: tuple[Outcome, ...] = field(default=())
    codes: tuple[str, ...] = ()
    message: str = ""


def approval_of(request: str, fields: Mapping[str, Json]) -> Approval:
    """Return a request as a person is shown it, by its fields in the state."""
    return Approval(
        id=request,
        agent=fields["agent"],
        calls=tuple((asked["kind"], asked["payload"]) for asked in fields["intents"]),
        changes=tuple(map(tuple, fields["shown"])),
        role=fields["role"],
        expires=fields["expires"],
        digest=fields["digest"],
        state=fields["state"],
        by=fields["by"],
        reason=fields["reason"],
    )


def outside_of(unshown: Sequence[str], foreseen: Foreseen) -> Foreseen:
    """Return the foreseen changes without those of the records of calls and approvals."""
    own = {*COLLECTIONS, *unshown}
    changes = [change for change in foreseen.changes if change.collection not in own]
    return foreseen._replace(changes=tuple(changes))


def shown(changes: Sequence[FieldChange]) -> list[list[Json]]:
    """Return changes as a request keeps them to be shown."""
    return [
        [one.collection, UNDECIDED if one.entity is None else one.entity, *one[2:]]
        for one in changes[:SHOWN_MAX]
    ]
