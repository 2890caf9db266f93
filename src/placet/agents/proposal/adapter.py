"""The adapter protocol, for models, scripts, people, policies and recordings."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple, Protocol, runtime_checkable

from placet.agents.proposal.catalogue import Catalogue
from placet.agents.proposal.codes import Code
from placet.agents.proposal.plan import Issue
from placet.agents.proposal.plan_parser import Call
from placet.schemas.codec import Json
from placet.schemas.keywords import explain_keywords
from placet.schemas.portable_error import PortableError


@explain_keywords
@dataclass(frozen=True, slots=True)
class Usage:
    """The cost of proposals: requests, tokens and money.

    Attributes:
        requests: Number of requests to a model.
        input_tokens: Number of tokens that the model read.
        output_tokens: Number of tokens that the model wrote.
        cost_usd: US dollars; None if unknown.
        price: Source of the price, such as `assumed 0 (127.0.0.1)`; empty without a model.
        is_estimated: Whether tokens are estimated, because the server reports none.
    """

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal | None = Decimal(0)
    price: str = ""
    is_estimated: bool = False

    def plus(self, other: "Usage") -> "Usage":
        """Return the sum with another usage; an unknown cost makes the sum unknown."""
        cost = None
        if self.cost_usd is not None and other.cost_usd is not None:
            cost = self.cost_usd + other.cost_usd
        return Usage(
            self.requests + other.requests,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            cost,
            other.price or self.price,
            self.is_estimated or other.is_estimated,
        )


class PlannerOutput(NamedTuple):
    """An adapter's answer, not yet checked. Exactly one of `calls`, `plan` and `text` is set.

    Attributes:
        calls: Tool calls, in order.
        plan: A plan, as JSON text or as the parsed value.
        text: Words for the user; never executed.
        usage: Requests, tokens and cost of the answer.
        model: Name of the model that answered, for the log.
        response: The answer in the adapter's own form, plain JSON; passed back to the adapter when
            it is asked to repair the answer.
        refused: The model refused to answer (a content filter); `text` is its reason.
        unread: `(code, message)` if the answer was cut off or is too large for the log; the answer
            is then not read as a plan.
    """

    calls: Sequence[Call] = ()
    plan: Json = None
    text: str = ""
    usage: Usage = Usage()
    model: str = ""
    response: Json = None
    refused: bool = False
    unread: tuple[str, str] | None = None


class Repair(NamedTuple):
    """An unusable answer of this turn and its faults, for the adapter to correct.

    Attributes:
        raw: The faulty answer.
        issues: The faults.
    """

    raw: PlannerOutput
    issues: tuple[Issue, ...]


class Media(NamedTuple):
    """A reference to a picture or document; the log keeps its digest, not its bytes.

    Attributes:
        sha256: Digest of the content, hexadecimal.
        mime: Media type of the content.
        data: The content, for adapters that pass it on.
    """

    sha256: str
    mime: str
    data: bytes = b""


class PlannerInput(NamedTuple):
    """The input of an adapter for one request; it sees the world only through this.

    Attributes:
        message: The user's message.
        text: The context in words, as `context.build` makes it, without the message.
        base_seq: Sequence number of the world that the input shows.
        catalogue: The kinds that may be proposed.
        state: The agent's whole view, plain JSON.
        history: Earlier turns, oldest first: `{"role": "user"|"agent", "text": ...}`.
        results: Earlier results, oldest first.
        facts: Facts that the agent was told to remember.
        diffs: Changes of the view since the agent's last turn.
        media: Media that were sent with the message.
        repairs: Faulty earlier answers of this turn, oldest first.
        tokens_left: Remaining tokens of the turn.
        seconds_left: Remaining seconds of the turn.
        tools_max: Maximum number of kinds that are offered as tools; for more, a model gets a
            search tool.
        usd_left: Remaining US dollars of the turn; None for no limit.
    """

    message: str
    text: str
    base_seq: int
    catalogue: Catalogue
    state: Json = None
    history: Sequence[dict[str, Json]] = ()
    results: Sequence[dict[str, Json]] = ()
    facts: Sequence[dict[str, Json]] = ()
    diffs: Sequence[Json] = ()
    media: Sequence[Media] = ()
    repairs: Sequence[Repair] = ()
    tokens_left: int = 50_000
    seconds_left: float = 120.0
    tools_max: int = 48
    usd_left: Decimal | None = None


@runtime_checkable
class Adapter(Protocol):
    """The interface of a proposer, such as a model, a script or a person."""

    async def propose(self, context: PlannerInput) -> PlannerOutput:
        """Return an answer to a message: tool calls, a plan, or text.

        Raises:
            PlannerUnavailable: The proposer cannot be reached.
        """


class PlannerUnavailable(PortableError):  # noqa: N818  # the name states the fault
    """The error of a proposer that cannot be reached. Its text has no keys and no bodies.

    Attributes:
        usage: Cost of the answered requests before the failure.
    """

    usage = Usage()


class PlannerTimedOut(PlannerUnavailable):
    """The error of a proposer that did not answer within the turn's time."""


class PlannerOverBudget(PlannerUnavailable):
    """The error of a proposer that was not asked, because the turn's budget is too small for it.

    Attributes:
        code: `tokens_exhausted` or `cost_exhausted`.
    """

    def __init__(self, message: str, code: Code) -> None:
        super().__init__(message)
        self.code = code
