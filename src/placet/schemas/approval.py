"""A request for a person's approval, in the form in which programs and people read it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict

from placet.schemas.codec import Json
from placet.schemas.condition import Condition
from placet.schemas.keywords import explain_keywords
from placet.schemas.refusal import Refusal
from placet.schemas.verdict import Verdict

ApprovalState: TypeAlias = Literal["open", "approved", "denied", "amended", "expired", "stale"]

ASKS: Final = "asks"
"""Name in `about` of the reasons for asking: a list of texts, one for each call that needs it."""

OUTSIDE: Final = "The function runs outside this world; placet does not know what it changes."
"""Text for people beside the changes of a request whose intents have effects."""


class ApprovalUnknown(LookupError):  # noqa: N818  # the name states the fault
    """The error of an id that no request in the state has, or of an answer without a request."""


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
        number: Number of the request in its world, from 1, in the order of creation.
        agent: The agent that requested the approval.
        intents: All intents of the approving batch, in order. Intents of other agents are records
            of the requesting program.
        changes: All changes that a dry run foresees: `[collection, entity, field, op, old,
            new]`; the op is `undecided` for a value that is decided when it is applied.
        risk: Greatest risk of the kinds of the intents, `read` to `high`.
        role: Role that the person must have; empty for any person.
        expires: Simulated time after which it cannot be decided, seconds.
        digest: Digest of everything that is shown; a decision names it.
        state: State of the request.
        about: Facts for the person, from the requesting program.
        by: The person who decided, or `approvals.recorder` for `expired` and `stale`.
        reason: Reason of the decision.
        decided: Simulated time of the decision, seconds; 0 of an open request.
        amends: Id of the request that this one replaced; empty for none.
        amended_by: Id of the request that replaced this one; empty for none.
        requested: Simulated time of the request, seconds; None if the log does not have it.
        codes: Codes of the refusals that ended a `stale` request.
        defaults: Names of the arguments of each own intent that have their default value.
        is_outside: Some of its intents have effects, which run outside of the world.
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
    requested: float | None = None
    codes: tuple[str, ...] = ()
    defaults: tuple[tuple[str, ...], ...] = ()
    is_outside: bool = False

    @property
    def asks(self) -> tuple[str, ...]:
        """Reasons for the request, a line for each call that needs a person; empty if unknown."""
        asks = self.about.get(ASKS)
        lines = asks if isinstance(asks, Sequence) and not isinstance(asks, str) else ()
        return tuple(one for one in lines if isinstance(one, str))

    @property
    def calls(self) -> tuple[tuple[str, Mapping[str, Json]], ...]:
        """Kind and payload of each intent of `agent`, in order."""
        return tuple((one["kind"], one["payload"]) for one in self.own_intents)

    @property
    def own_intents(self) -> tuple[HeldIntent, ...]:
        """The intents of `agent`, in order."""
        return tuple(one for one in self.intents if one["agent"] == self.agent)

    def __str__(self) -> str:
        defaults = self.defaults or ((),) * len(self.own_intents)
        calls = "; ".join(
            f"{kind}({', '.join(_argument(*one, defaults=names) for one in payload.items())})"
            for (kind, payload), names in zip(self.calls, defaults, strict=True)
        )
        why = f", because {'; '.join(self.asks)}" if self.asks else ""
        return f"{self.agent} asks {self.role or 'anybody'}: {calls}{why}"


def _argument(name: str, value: Json, *, defaults: Sequence[str]) -> str:
    return f"{name}={value!r} (default)" if name in defaults else f"{name}={value!r}"


@explain_keywords
@dataclass(frozen=True, slots=True)
class InboxAnswer:
    """The answer of an inbox to a request or to a decision.

    Attributes:
        request: The request after this step; None if no request was recorded.
        verdict: Verdict of the batch that recorded the request or the decision, or was refused. The
            verdict of an approval has the results and the changes (`Verdict.diff`) of the intents.
        ahead: Number of intents of the inbox in that batch, before the intents of the request.
    """

    request: Approval | None
    verdict: Verdict
    ahead: int

    @property
    def approval(self) -> Approval:
        """The request after this step.

        Raises:
            ApprovalUnknown: No request was recorded.
        """
        if self.request is None:
            raise ApprovalUnknown(f"no request was recorded: {self.message}")
        return self.request

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """The refusals of the batch; only the first, if the request or decision itself is refused.

        In that case the refusals of the other intents are its consequences.
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
