"""A request for a person's approval, as it is read from a world and shown."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict

from placet.schemas.codec import Json
from placet.schemas.condition import Condition
from placet.schemas.keywords import explain_keywords
from placet.schemas.refusal import Refusal
from placet.schemas.verdict import Verdict

ApprovalState: TypeAlias = Literal["open", "approved", "denied", "amended", "expired", "stale"]


class ApprovalUnknown(LookupError):  # noqa: N818  # the name states the fault
    """The error of an id of which the state has no request, or of an answer without one."""


class HeldIntent(TypedDict):
    """One intent of a request, as the approving batch submits it.

    Attributes:
        agent: The agent that submits it.
        key: The part of its req_id before the last slash; the same in every submission.
        kind: Name of its kind.
        payload: Its payload, as its kind has validated it.
        expect: Its conditions, if it has any.
        valid_until: Simulated time after which it must not run, if it has one.
    """

    agent: str
    key: str
    kind: str
    payload: dict[str, Json]
    expect: NotRequired[list[Condition]]
    valid_until: NotRequired[float]


@explain_keywords
@dataclass(frozen=True, slots=True)
class Approval:
    """A request for approval: the intents of an agent, and the changes that they would make.

    Attributes:
        id: Id of the request.
        number: Number of the request in its world, from 1, in the order of asking.
        agent: The agent that asked.
        intents: All intents of the approving batch, in order. Those of other agents are records of
            the program that asked.
        changes: Changes that a dry run foresees, at most 512: `[collection, entity, field, op, old,
            new]`; the op is `undecided` for a value that is decided when it is applied.
        risk: Greatest risk of the kinds of the intents, `read` to `high`.
        role: Role that the person must have; empty for any person.
        expires: Simulated time after which it cannot be decided, seconds.
        digest: Digest of all that is shown; a decision names it.
        state: State of the request.
        about: Facts for the person, by the program that asked.
        by: The person who decided, or `approvals.recorder` for `expired` and `stale`.
        reason: Reason of the decision.
        decided: Simulated time of the decision, seconds; 0 of an open request.
        amends: Id of the request that this one replaced; empty for none.
        amended_by: Id of the request that replaced this one; empty for none.
    """

    id: str
    number: int
    agent: str
    intents: tuple[HeldIntent, ...]
    changes: tuple[tuple[Json, ...], ...]
    risk: str
    role: str
    expires: float
    digest: str
    state: ApprovalState
    about: Mapping[str, Json]
    by: str
    reason: str
    decided: float
    amends: str
    amended_by: str

    @property
    def calls(self) -> tuple[tuple[str, Mapping[str, Json]], ...]:
        """Kind and payload of each intent of the agent that asked, in order."""
        return tuple((one["kind"], one["payload"]) for one in self.own_intents)

    @property
    def own_intents(self) -> tuple[HeldIntent, ...]:
        """The intents of the agent that asked, in order."""
        return tuple(one for one in self.intents if one["agent"] == self.agent)

    def __str__(self) -> str:
        calls = "; ".join(
            f"{kind}({', '.join(f'{name}={value!r}' for name, value in payload.items())})"
            for kind, payload in self.calls
        )
        return f"{self.agent} asks {self.role or 'anybody'}: {calls}"


@explain_keywords
@dataclass(frozen=True, slots=True)
class InboxAnswer:
    """The answer of an inbox to a request or to a decision.

    Attributes:
        request: The request as it is after it; None if none was recorded.
        verdict: Verdict of the batch that recorded it, or that refused it. Of an approval it has
            the results and the changes (`Verdict.diff`) of the intents.
        ahead: Number of the inbox's own intents in that batch, before those of the request.
    """

    request: Approval | None
    verdict: Verdict
    ahead: int

    @property
    def approval(self) -> Approval:
        """The request as it is after it.

        Raises:
            ApprovalUnknown: No request was recorded.
        """
        if self.request is None:
            raise ApprovalUnknown(f"no request was recorded: {self.message}")
        return self.request

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """The refusals of the batch: of the request or decision alone, if it was at fault itself.

        Then the others only follow from it.
        """
        own = [
            one for one in self.verdict.refusals if one.index is not None and one.index < self.ahead
        ]
        return tuple(own[:1]) or self.verdict.refusals

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of `refusals`, in order."""
        return tuple(one.code for one in self.refusals)

    @property
    def message(self) -> str:
        """The messages of `refusals`; empty if the batch was admitted."""
        return "; ".join(one.message for one in self.refusals)
