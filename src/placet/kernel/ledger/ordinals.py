"""How many intents of each agent were admitted at the present moment: a word of random draws.

A moment is a tick and a simulated time. Two intents of one agent at one moment draw different
numbers because their ordinals differ. Refused and repeated intents do not count: a refusal may
leave no record, and the ordinal could not be computed from the log again.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from placet.schemas.batch import sequence_form
from placet.schemas.identity import RESERVED_IDS

if TYPE_CHECKING:
    from placet.kernel.ledger.members import Members

Counts: TypeAlias = Sequence[tuple[str, str, int]]
"""`(agent_id, kind, number of intents)`, as in `CheckedBatch.counts`."""

PENDING_MAX: Final = 1_024
"""Number of batches that may wait to be summed."""


class Ordinals:
    """The number of admitted intents of each agent at the latest moment with a record.

    Every admitted batch is counted and few rules draw. So a commit only appends to `pending`, and
    calls `sum_up` beyond `PENDING_MAX`; else the sums are computed at the next draw, snapshot or
    digest. Counts of an earlier time are dropped before others are appended.

    Attributes:
        now_ns: Simulated time of the numbers, nanoseconds.
        names: Agent of each batch of one intent, decided in a group, that is not summed yet.
        pending: Counts of the other batches that are not summed yet.
        sums: Agent -> number of its intents in the batches before these.
        populations: Populations by name, which count the rows of column batches themselves.
    """

    __slots__ = ("names", "now_ns", "pending", "populations", "sums")

    def __init__(self) -> None:
        self.populations: Mapping[str, Members] = {}
        self.now_ns = 0
        self.names: list[str] = []
        self.pending: list[Counts] = []
        self.sums: dict[str, int] = {}

    def begin(self, now_ns: int) -> None:
        """Start from zero at another time."""
        self.now_ns = now_ns
        self.clear()

    def add_hook(self, agent_id: str, now_ns: int) -> None:
        """Count a record whose hooks draw in the name of an agent, `system` or the operator."""
        if now_ns != self.now_ns:
            self.begin(now_ns)
        self.sum_up()
        self.sums[agent_id] = self.sums.get(agent_id, 0) + 1

    def of(self, agent_id: str, now_ns: int) -> int:
        """Return the number of intents of an agent that were admitted earlier at this time."""
        rows = self._rows_of(agent_id, now_ns) if self.populations else 0
        if now_ns != self.now_ns:
            return rows
        if self.pending or self.names:
            self.sum_up()
        return self.sums.get(agent_id, 0) + rows

    def _rows_of(self, agent_id: str, now_ns: int) -> int:
        """Return the number of rows of a member that column batches admitted at this time."""
        form = sequence_form(agent_id)
        members = None if form is None else self.populations.get(form[0])
        if form is None or members is None or form[1] >= members.count:
            return 0
        return members.ordinal_of(form[1], now_ns)

    def of_members(self, population: str, now_ns: int) -> list[tuple[int, int]]:
        """Return `(number, count)` of the members with ordinary intents at this time."""
        if now_ns != self.now_ns:
            return []
        self.sum_up()
        forms = ((sequence_form(name), count) for name, count in self.sums.items())
        return [(form[1], n) for form, n in forms if form is not None and form[0] == population]

    def sum_up(self) -> None:
        """Add up the pending counts."""
        sums = self.sums
        for counts in self.pending:
            for agent_id, _, count in counts:
                sums[agent_id] = sums.get(agent_id, 0) + count
        for agent_id in self.names:
            sums[agent_id] = sums.get(agent_id, 0) + 1
        self.pending.clear()
        self.names.clear()

    def clear(self) -> None:
        """Start from zero, at another tick."""
        self.pending.clear()
        self.names.clear()
        self.sums.clear()

    def retain(self, agent_ids: Collection[str]) -> None:
        """Forget all but these agents, `system` and the operator."""
        self.sum_up()
        self.sums = {
            name: count
            for name, count in self.sums.items()
            if name in agent_ids or name in RESERVED_IDS
        }

    def mark(self) -> tuple[int, dict[str, int]]:
        """Return the time and the numbers, for `rewind`. O(agents of this time)."""
        self.sum_up()
        return self.now_ns, dict(self.sums)

    def rewind(self, mark: tuple[int, dict[str, int]]) -> None:
        """Set the time and the numbers to those of `mark`."""
        self.clear()
        self.now_ns, self.sums = mark[0], dict(mark[1])

    def dump(self, now_ns: int) -> dict[str, int]:
        """Return the numbers for a snapshot of a world whose latest record is of this time."""
        self.sum_up()
        return dict(self.sums) if now_ns == self.now_ns else {}

    def load(self, dumped: dict[str, int], now_ns: int) -> None:
        """Take over the numbers of `dump`."""
        self.now_ns, self.sums = now_ns, dict(dumped)
