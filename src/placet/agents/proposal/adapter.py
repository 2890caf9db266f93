"""The adapter protocol, for models, scripts, people, policies and recordings."""

from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple, Protocol, runtime_checkable

from placet.agents.proposal.catalogue import Catalogue
from placet.agents.proposal.plan import Issue
from placet.agents.proposal.plan_parser import Call
from placet.schemas.codec import Json


class Usage(NamedTuple):
    """Tokens, requests and money that a proposal cost.

    Attributes:
        requests: Requests to a model.
        input_tokens: Tokens read.
        output_tokens: Tokens written.
        cost_usd: Money; None is not known.
    """

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal | None = Decimal(0)

    def plus(self, other: "Usage") -> "Usage":
        """Add; an unknown amount makes the sum unknown."""
        cost = None
        if self.cost_usd is not None and other.cost_usd is not None:
            cost = self.cost_usd + other.cost_usd
        return Usage(
            self.requests + other.requests,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            cost,
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
    """An answer of this turn that could not be used, and why.

    Attributes:
        raw: The faulty output.
        issues: Its faults.
    """

    raw: PlannerOutput
    issues: tuple[Issue, ...]


class Media(NamedTuple):
    """A reference to a picture or document; the log keeps its digest, not its bytes.

    Attributes:
        sha256: Digest of the content, hexadecimal.
        mime: Its type.
        data: The content, for adapters that pass it on.
    """

    sha256: str
    mime: str
    data: bytes = b""


class PlannerInput(NamedTuple):
    """All that a proposer is given. It sees the world through nothing else.

    Attributes:
        message: The user's message.
        text: The context in words, as `context.build` makes it, without the message.
        base_seq: Sequence number of the world that it shows.
        catalogue: The kinds that may be proposed.
        state: The agent's whole view, plain JSON.
        history: Earlier turns, oldest first: `{"role": "user"|"agent", "text": ...}`.
        results: Earlier results, oldest first.
        facts: Facts that the agent was told to remember.
        diffs: What changed since the agent's last turn.
        media: References that came with the message.
        repairs: What this turn's earlier answers lacked, oldest first.
        tokens_left: Of the turn's budget.
        seconds_left: Of the turn's time.
        tools_max: Kinds that are offered to a model one by one; beyond it, it searches.
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


@runtime_checkable
class Adapter(Protocol):
    """Anything that proposes. It can do nothing else."""

    async def propose(self, context: PlannerInput) -> PlannerOutput:
        """Answer a message with calls, a plan, or words.

        Raises:
            PlannerUnavailable: It cannot be reached.
        """


class PlannerUnavailable(Exception):  # noqa: N818  # says what the planner is
    """A proposer cannot be reached. The text names the kind of failure, never keys or bodies.

    Attributes:
        usage: Cost of the answered requests before the failure.
    """

    usage = Usage()


class PlannerTimedOut(PlannerUnavailable):
    """A proposer did not answer within the turn's time."""
