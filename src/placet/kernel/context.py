"""The state that the gate and the commit share while a group of batches is decided.

One per kernel. It holds the ledger, the state and the simulated time; nothing outside the world.
"""

from typing import TYPE_CHECKING

from placet.kernel.ledger.ledger import Ledger
from placet.kernel.registry import Registry
from placet.kernel.state.transaction import Transaction
from placet.kernel.state.tree import State

if TYPE_CHECKING:
    from placet.kernel.gate.structure import Structure


class GateContext:
    """The world as the stages of the gate see it while a group is decided.

    Attributes:
        registry: Kinds and domains.
        structure: The first stage; a scheduled batch passes it again when it is due.
        ledger: Agents, dedup windows, quotas, outbox, schedule.
        state: The domain state.
        draft: The transaction through which the rules of the last stage write.
        now_ns: Latest simulated time seen; `ledger.now_ns` is that of the latest record.
        group_seq: Sequence number of the world when the current group was opened.
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
