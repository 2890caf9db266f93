"""The inputs of every stage: ledger, state and time. Nothing from outside the kernel."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from placet.kernel.ledger.ledger import Ledger
from placet.kernel.registry import Registry
from placet.kernel.state.transaction import Transaction
from placet.kernel.state.tree import State
from placet.schemas.refusal import STAGE_OF, Refusal, RefusalCode

if TYPE_CHECKING:
    from placet.kernel.gate.structure import Structure
    from placet.schemas.batch import CheckedBatch
    from placet.schemas.codec import Json


class PluginError(Exception):  # a domain's error on its way to the one who answers it
    """A domain's own code raised, or answered nonsense, where the gate asked it.

    Attributes:
        where: The plug-in function, such as `footprint of Move`.
        error: The exception that it raised.
        index: Position of the intent; None where it cannot be told.
    """

    def __init__(self, where: str, error: BaseException, index: int | None = None) -> None:
        super().__init__(where)
        self.where = where
        self.error = error
        self.index = index


class GateContext:
    """The world as the stages see it while a group is decided.

    Attributes:
        registry: Kinds and domains.
        structure: The first stage, which a scheduled batch passes again when it is due.
        ledger: Agents, windows, quotas, outbox.
        state: The domain state.
        draft: Through which the rules of the last stage write.
        now_ns: Latest simulated time seen; the ledger's is that of the latest record.
        group_seq: Sequence number of the world when the present group was opened.
    """

    __slots__ = ("draft", "group_seq", "ledger", "now_ns", "registry", "state", "structure")

    def __init__(
        self,
        registry: Registry,
        structure: "Structure",
        ledger: Ledger,
        state: State,
        draft: Transaction,
    ) -> None:
        self.registry = registry
        self.structure = structure
        self.ledger = ledger
        self.state = state
        self.draft = draft
        self.now_ns = ledger.now_ns
        self.group_seq = ledger.seq


def refuse_intent(
    batch: "CheckedBatch",
    index: int,
    code: RefusalCode,
    message: str,
    *,
    at: str = "",
    retry_after: float | None = None,
    suggestions: Sequence[str] = (),
    changed: "Sequence[dict[str, Json]]" = (),
    **details: "Json",
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


def positions_of(batch: "CheckedBatch", agent_id: str, kind: str | None = None) -> list[int]:
    """Find the intents of an agent, or of an agent and kind."""
    return [
        index
        for index, intent in enumerate(batch.intents)
        if intent["agent_id"] == agent_id and (kind is None or intent["kind"] == kind)
    ]
