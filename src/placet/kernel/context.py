"""The state that the gate and the commit share while a group of batches is decided.

One per kernel. It holds the ledger, the state and the simulated time; nothing outside the world.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from placet.kernel.ledger.ledger import Ledger
from placet.kernel.plugin.registry import Registry
from placet.kernel.state.transaction import Transaction
from placet.kernel.state.tree import State
from placet.schemas.batch import CheckedBatch
from placet.schemas.refusal import Refusal

if TYPE_CHECKING:
    from placet.kernel.ledger.token_buckets import Charges

RecordedCheck: TypeAlias = Callable[[CheckedBatch, Mapping[str, str]], list[Refusal] | None]
"""`Structure.check_recorded`: a recorded batch, and the versions of its kinds at that time."""


class GateContext:
    """The world as the stages of the gate see it while a group is decided.

    Attributes:
        registry: Kinds and domains.
        check_recorded: The structure stage for a batch read back from a record: a scheduled batch
            passes it again when it is due.
        ledger: Agents, dedup windows, quotas, outbox, schedule.
        state: The domain state.
        transaction: The draft through which the rules of the last stage write.
        charges: Charges of the batch that is decided, which the quota stage computes and the commit
            applies; empty until then, and for a scheduled batch that is due.
        now_ns: Latest simulated time seen; `ledger.now_ns` is that of the latest record.
        group_seq: Sequence number of the world when the current group was opened.
        group: Number of the current group within the tick, of those with a record.
        checks_shares: Batches are refused that exceed their submitter's share of the schedule or
            of an outbox, or the bytes of the schedule. False where recorded decisions are
            re-executed: a log may have been decided without these bounds, or with others.
    """

    __slots__ = (
        "charges",
        "check_recorded",
        "checks_shares",
        "group",
        "group_seq",
        "ledger",
        "now_ns",
        "registry",
        "state",
        "transaction",
    )

    def __init__(
        self,
        registry: Registry,
        check_recorded: RecordedCheck,
        ledger: Ledger,
        state: State,
        transaction: Transaction,
    ) -> None:
        self.charges: Charges = ()
        self.registry = registry
        self.checks_shares = True
        self.check_recorded = check_recorded
        self.ledger = ledger
        self.state = state
        self.transaction = transaction
        self.now_ns = ledger.now_ns
        self.group_seq = ledger.seq
        self.group = ledger.group
