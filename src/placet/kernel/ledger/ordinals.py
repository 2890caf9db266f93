"""How many intents of each agent were admitted at the present moment: a word of random draws.

A moment is a tick and a simulated time. Two intents of one agent at one moment draw different
numbers because their ordinals differ. Refused and repeated intents do not count: a refusal may
leave no record, and the ordinal could not be computed from the log again.
"""

from collections.abc import Collection, Sequence
from typing import Final, TypeAlias

from placet.schemas.identity import RESERVED_IDS

Counts: TypeAlias = Sequence[tuple[str, str, int]]
"""`(agent_id, kind, number of intents)`, as in `CheckedBatch.counts`."""

PENDING_MAX: Final = 1_024
"""Number of batches that may wait to be summed."""


class Ordinals:
    """The number of admitted intents of each agent at the latest moment with a record.

    Every admitted batch is counted and few rules draw. So a commit only appends to `pending`, and
    calls `sum_up` beyond `PENDING_MAX`; else the sums are computed at the next draw, snapshot or
    digest.

    Attributes:
        pending: `(simulated nanoseconds, counts)` of the batches that are not summed yet.
    """

    __slots__ = ("_now_ns", "_sums", "pending")

    def __init__(self) -> None:
        self.pending: list[tuple[int, Counts]] = []
        self._now_ns = 0
        self._sums: dict[str, int] = {}

    def add_hook(self, agent_id: str, now_ns: int) -> None:
        """Count a record whose hooks draw in the name of an agent, `system` or the operator."""
        self.pending.append((now_ns, ((agent_id, "", 1),)))
        self.sum_up()

    def of(self, agent_id: str, now_ns: int) -> int:
        """Return the number of intents of an agent that were admitted earlier at this time."""
        if self.pending:
            self.sum_up()
        return self._sums.get(agent_id, 0) if now_ns == self._now_ns else 0

    def sum_up(self) -> None:
        """Add up the pending counts; those of an earlier time are dropped."""
        sums = self._sums
        for now_ns, counts in self.pending:
            if now_ns != self._now_ns:
                sums.clear()
                self._now_ns = now_ns
            for agent_id, _, count in counts:
                sums[agent_id] = sums.get(agent_id, 0) + count
        self.pending.clear()

    def clear(self) -> None:
        """Start from zero, at another tick."""
        self.pending.clear()
        self._sums.clear()

    def retain(self, agent_ids: Collection[str]) -> None:
        """Forget all but these agents, `system` and the operator."""
        self.sum_up()
        self._sums = {
            name: count
            for name, count in self._sums.items()
            if name in agent_ids or name in RESERVED_IDS
        }

    def dump(self, now_ns: int) -> dict[str, int]:
        """Return the numbers for a snapshot of a world whose latest record is of this time."""
        self.sum_up()
        return dict(self._sums) if now_ns == self._now_ns else {}

    def load(self, dumped: dict[str, int], now_ns: int) -> None:
        """Take over the numbers of `dump`."""
        self._now_ns = now_ns
        self._sums.update(dumped)
