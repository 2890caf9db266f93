"""Marks of a kernel, to which it goes back: for loops that predict, try out, or undo a step.

The changes between two marks are kept with how each is undone. So a rollback costs the changes
since its mark, and a kernel without a mark keeps nothing. The changes after a mark refer to those
after the next: they are freed with the last mark from which they could be undone, and a loop that
drops its marks after eight frames keeps the changes of eight frames.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from placet.kernel.commit.commit import Journal
from placet.kernel.context import GateContext
from placet.kernel.ledger.undo import Undo, restore_item
from placet.kernel.state.tree import Replaced
from placet.schemas.errors import RollbackError
from placet.schemas.limits import SECOND_NS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from placet.kernel.ledger.dedup_window import WindowOwner
    from placet.kernel.ledger.members import MembersVersion
    from placet.kernel.state.table import TableVersion

_NO_RETRACT: Final = (
    "the sink has {count} records since the mark and no method `retract`, so the log would keep "
    "undone records; use a RecordList of placet.kernel as the sink, or pass it records that are "
    "final alone"
)


class MarkNumbers(NamedTuple):
    """The numbers of a kernel at a mark.

    Attributes:
        now_ns: Latest simulated time seen, nanoseconds.
        scalars: Result of `Ledger.scalars`.
        ordinals: Result of `Ordinals.mark`.
        prev: Hash of the latest record.
        records: Number of records.
        batches: Number of batches that were numbered.
        groups: Groups since the last checkpoint.
        tables: Version of each table.
        members: Version of the members of each population.
    """

    now_ns: int
    scalars: tuple[object, ...]
    ordinals: tuple[int, dict[str, int]]
    prev: bytes
    records: int
    batches: int
    groups: int
    tables: "Mapping[str, TableVersion]"
    members: "Mapping[str, MembersVersion]"


class KeptChanges:
    """The changes between a mark and the next one, or since the latest.

    Attributes:
        replaced: Parts of the state that were replaced.
        undo: How the changes of the ledger are undone.
        numbers: Agent -> number of its next `Kernel.intent`, of those built; None if that was the
            first.
        successor: The changes after the next mark; None after the latest.
        is_held: The mark before them is referred to.
        is_over: The mark before them was rolled past.
    """

    __slots__ = ("is_held", "is_over", "numbers", "replaced", "successor", "undo")

    def __init__(self) -> None:
        self.is_held, self.is_over = True, False
        self.clear()

    def clear(self) -> None:
        """Forget the changes, which are undone."""
        self.replaced = Replaced()
        self.undo: list[Undo | WindowOwner] = []
        self.numbers: dict[str, int | None] = {}
        self.successor: KeptChanges | None = None


class RollbackMark:
    """A moment of a kernel to which `Kernel.rollback` goes back, once or several times.

    The changes after it are kept as long as the mark, or an earlier one, is referred to.

    Attributes:
        seq: Sequence number of the world at the mark.
        tick: Number of its ticks before.
        moment: The numbers of the kernel.
        changes: The changes after it, up to the next mark.
    """

    __slots__ = ("changes", "marks", "moment", "seq", "tick")

    def __init__(self, marks: "Marks", seq: int, tick: int, moment: MarkNumbers) -> None:
        self.marks = marks
        self.seq = seq
        self.tick = tick
        self.moment = moment
        self.changes = KeptChanges()

    def __del__(self) -> None:
        """Stop the keeping of changes, if this was the last mark of its kernel."""
        self.marks.drop(self.changes)

    def __repr__(self) -> str:
        over = ", rolled past" if self.changes.is_over else ""
        return f"<RollbackMark at seq {self.seq}, {self.moment.now_ns / SECOND_NS:g} s{over}>"


class Marks:
    """The marks of one kernel, and the way back to one of them."""

    __slots__ = ("_context", "_count", "_journal", "_latest", "_numbers")

    def __init__(self, context: GateContext, journal: Journal, numbers: dict[str, int]) -> None:
        self._context = context
        self._journal = journal
        self._numbers = numbers
        self._latest: KeptChanges | None = None
        self._count = 0

    def make(self, batches: int, groups: int) -> RollbackMark:
        """Return a mark of the present moment. O(agents that acted at this time)."""
        context, journal = self._context, self._journal
        ledger = context.ledger
        moment = MarkNumbers(
            context.now_ns,
            ledger.scalars(),
            ledger.ordinals.mark(),
            journal.prev,
            journal.count,
            batches,
            groups,
            context.state.mark(),
            ledger.share_members(),
        )
        mark = RollbackMark(self, ledger.seq, ledger.tick, moment)
        if self._latest is not None:
            self._latest.successor = mark.changes
        self._count += 1
        self._keep(mark.changes)
        return mark

    def rewind(self, mark: RollbackMark) -> MarkNumbers:
        """Undo everything since a mark in state, ledger and journal; return the mark's numbers.

        Raises:
            RollbackError: The mark is of another kernel or was rolled past, or the sink cannot give
                back the records since the mark; nothing was changed.
        """
        self._require_own(mark)
        self._retract(self._journal.count - mark.moment.records)
        context, ledger, journal = self._context, self._context.ledger, self._journal
        parts = [mark.changes]
        while (successor := parts[-1].successor) is not None:
            parts.append(successor)
        self._stop()
        moment, newest_first = mark.moment, parts[::-1]
        context.state.put_back([later.replaced for later in newest_first], moment.tables)
        ledger.rewind([later.undo for later in newest_first], moment.scalars, moment.members)
        self._restore_numbers(newest_first)
        ledger.ordinals.rewind(moment.ordinals)
        journal.prev, journal.count = moment.prev, moment.records
        context.now_ns = moment.now_ns
        for later in newest_first:
            later.clear()
            if later is not mark.changes:
                later.is_over = True
                self._count -= later.is_held
        self._keep(mark.changes)
        return moment

    def take_number(self, agent_id: str) -> int:
        """Return the number of the next `Kernel.intent` of an agent, and count it."""
        before = self._numbers.get(agent_id)
        if self._latest is not None:
            self._latest.numbers.setdefault(agent_id, before)
        number = before or 0
        self._numbers[agent_id] = number + 1
        return number

    def _restore_numbers(self, newest_first: list[KeptChanges]) -> None:
        oldest: dict[str, int | None] = {}
        for changes in newest_first:
            oldest.update(changes.numbers)
        for agent_id, number in oldest.items():
            restore_item(self._numbers, agent_id, number)

    def drop(self, changes: KeptChanges) -> None:
        """Note that a mark is not referred to any more; keep no changes if it was the last."""
        changes.is_held = False
        if self._latest is None or changes.is_over:
            return
        self._count -= 1
        if not self._count:
            self.end()

    def end(self) -> None:
        """Keep no changes from now on."""
        self._latest = None
        self._stop()

    def _require_own(self, mark: RollbackMark) -> None:
        if not isinstance(mark, RollbackMark):
            raise TypeError(f"expected a mark that Kernel.mark returned, got {mark!r:.80}")
        if mark.marks is not self:
            raise RollbackError(
                f"{mark!r} is of another kernel, or of this one before a `restore`; go back to a "
                "mark that this kernel has made since"
            )
        if mark.changes.is_over:
            raise RollbackError(
                f"{mark!r} was made after the mark of an earlier rollback, so its moment was "
                "undone; go back to that mark, or to one made since"
            )

    def _retract(self, count: int) -> None:
        sink = self._journal.sink
        if sink is None or not count:
            return
        retract = getattr(sink, "retract", None)
        if retract is None:
            raise RollbackError(_NO_RETRACT.format(count=count))
        retract(count)

    def _keep(self, changes: KeptChanges) -> None:
        """Keep the changes from now on."""
        self._latest = changes
        self._context.state.replaced = changes.replaced
        self._context.ledger.keep_undo(changes.undo)

    def _stop(self) -> None:
        self._context.state.replaced = None
        self._context.ledger.keep_undo(None)
