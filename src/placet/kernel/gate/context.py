"""What every stage may look at: the books, the state, and the time. Nothing of the outside."""

from collections.abc import Sequence

from placet.kernel.draft import Draft
from placet.kernel.ledger import Ledger
from placet.kernel.registry import Registry
from placet.kernel.state import State
from placet.schemas.batch import CheckedBatch
from placet.schemas.codec import Json
from placet.schemas.refusal import STAGE_OF, Refusal, RefusalCode


class GateContext:
    """The world as the stages see it while a group is decided.

    Attributes:
        registry: Kinds and domains.
        ledger: Agents, windows, quotas, outbox.
        state: The domain state.
        draft: Through which the rules of the last stage write.
        now_ns: Simulated time of the group.
    """

    __slots__ = ("draft", "ledger", "now_ns", "registry", "state")

    def __init__(self, registry: Registry, ledger: Ledger, state: State, draft: Draft) -> None:
        self.registry = registry
        self.ledger = ledger
        self.state = state
        self.draft = draft
        self.now_ns = 0

    @property
    def listed_max(self) -> int:
        """How many refusals one verdict lists."""
        return self.ledger.policy.limits.refusals_listed_max


def refuse_intent(
    batch: CheckedBatch,
    index: int,
    code: RefusalCode,
    message: str,
    *,
    at: str = "",
    retry_after: float | None = None,
    suggestions: Sequence[str] = (),
    changed: Sequence[dict[str, Json]] = (),
    **details: Json,
) -> Refusal:
    """Refuse one intent of a batch, with what every such refusal tells."""
    intent = batch.intents[index]
    return Refusal(
        code.value,
        message,
        STAGE_OF[code],
        index,
        intent["req_id"],
        f"/intents/{index}{at}",
        retry_after,
        tuple(suggestions),
        tuple(changed),
        {"agent_id": intent["agent_id"], "kind": intent["kind"], **details},
    )


def positions_of(batch: CheckedBatch, agent_id: str, kind: str | None = None) -> list[int]:
    """Find the intents of an agent, or of an agent and kind."""
    return [
        index
        for index, intent in enumerate(batch.intents)
        if intent["agent_id"] == agent_id and (kind is None or intent["kind"] == kind)
    ]
