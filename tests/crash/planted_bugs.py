"""Bugs that are planted into a child on purpose: the checkers of this folder must find each.

A bug is planted in a process that ends with it, so nothing is ever undone.
"""

import time
from collections.abc import Callable
from typing import Any, Final

from placet.actors.committer import Committer, CycleOutput
from placet.actors.effects import executor
from placet.actors.effects.executor import AttemptResult
from placet.kernel import kernel
from placet.kernel.kernel import Kernel
from placet.kernel.log import replay
from placet.kernel.state.transaction import Transaction
from placet.schemas.log.record import Changes, LogAppend, Settled, decode_record
from placet.schemas.log.snapshot import Snapshot
from placet.stores.snapshots import writer as snapshot_taking
from placet.stores.snapshots.files import SnapshotFiles
from placet.stores.sqlite import log as event_log_sqlite
from placet.stores.sqlite.log import SqliteEventLog

_DISK_SECONDS: Final = 0.02

Plant = Callable[[], None]


def _replace(owner: object, name: str, make: Callable[[Any], Any]) -> None:
    """Replace an attribute by the result of `make` for its old value."""
    setattr(owner, name, make(getattr(owner, name)))


def _slow_append() -> None:
    """Make the disk slow, so that an answer that is sent too early is received."""

    def slowly(append: Any) -> Any:
        def append_slowly(log: SqliteEventLog, new: LogAppend, epoch: int) -> None:
            time.sleep(_DISK_SECONDS)
            append(log, new, epoch)

        return append_slowly

    _replace(SqliteEventLog, "append", slowly)


def tell_before_append() -> None:
    """The committer answers before it has written."""

    def early(write: Any) -> Any:
        async def write_late(committer: Committer, outputs: list[CycleOutput]) -> None:
            for output in outputs:
                for future, result in output.answers:
                    if not (future.done() or isinstance(result, BaseException)):
                        future.set_result(result)
            await write(committer, outputs)

        return write_late

    _replace(Committer, "_write", early)
    _slow_append()


def dispatch_before_append() -> None:
    """Effects are begun before their batch is durable."""

    def early(offer: Any) -> Any:
        def offer_late(committer: Committer, output: CycleOutput) -> None:
            committer._on_durable(CycleOutput(None, [], output.effects))
            offer(committer, output)

        return offer_late

    _replace(Committer, "offer", early)
    _slow_append()


def write_behind() -> None:
    """The store acknowledges an append, and writes it with the next one."""
    kept: list[LogAppend] = []

    def behind(append: Any) -> Any:
        def append_previous(log: SqliteEventLog, new: LogAppend, epoch: int) -> None:
            if kept:
                append(log, kept.pop(), epoch)
            kept.append(new)

        return append_previous

    _replace(SqliteEventLog, "append", behind)


def write_unfenced() -> None:
    """The store does not check the epoch of the writer."""
    _replace(event_log_sqlite, "require_epoch", lambda _: lambda epoch, *, latest, store: None)


def write_record_by_record() -> None:
    """The store commits each record of an append by itself."""

    def split(append: Any) -> Any:
        def append_each(log: SqliteEventLog, new: LogAppend, epoch: int) -> None:
            before = new.seq_before
            for ordinal, record in enumerate(new.records, new.first_record):
                seq = decode_record(record).seq
                append(log, LogAppend(ordinal, before, seq, [record]), epoch)
                before = seq

        return append_each

    _replace(SqliteEventLog, "append", split)


def damage_a_record() -> None:
    """The store changes a byte of a record."""

    def damaging(append: Any) -> Any:
        def append_damaged(log: SqliteEventLog, new: LogAppend, epoch: int) -> None:
            first, *rest = new.records
            damaged = [first.replace(b"alice", b"Alice", 1), *rest]
            append(log, new._replace(records=damaged), epoch)

        return append_damaged

    _replace(SqliteEventLog, "append", damaging)


def remove_snapshots_first() -> None:
    """Old snapshots are removed before the new one is durable."""

    def early(write: Any) -> Any:
        def remove_and_write(files: SnapshotFiles, snapshot: Snapshot) -> int:
            for place in files.places():
                (files.folder / place.name).unlink()
            size_bytes: int = write(files, snapshot)
            return size_bytes

        return remove_and_write

    _replace(SnapshotFiles, "write", early)
    _replace(snapshot_taking, "KEPT_MIN", lambda _: 1)


def _after_recovery(forget: Callable[[Kernel], None]) -> None:
    def forgetful(begin: Any) -> Any:
        def begin_and_forget(world: Kernel, *arguments: Any, **options: Any) -> None:
            begin(world, *arguments, **options)
            forget(world)

        return begin_and_forget

    _replace(Kernel, "__init__", forgetful)


def forget_windows() -> None:
    """A recovered world has an empty dedup window."""

    def forget(world: Kernel) -> None:
        for agent in world.ledger.agents.values():
            agent.window = None

    _after_recovery(forget)


def forget_outbox() -> None:
    """A recovered world does not know which effects are open."""
    _after_recovery(lambda world: world.ledger.outbox.clear())


def forget_schedule() -> None:
    """A recovered world has an empty schedule."""
    _after_recovery(lambda world: world.ledger.schedule.clear())


def forget_settlements() -> None:
    """A recovered world runs settled effects again."""

    def forgetful(apply: Any) -> Any:
        def apply_record(ledger: Any, record: Any, batch: Any = None) -> None:
            if not isinstance(record, Settled):
                apply(ledger, record, batch)

        return apply_record

    _replace(replay, "apply_record", forgetful)


def settle_unrun() -> None:
    """An executor reports success of an effect that it did not run."""

    async def attempt(*_: object) -> AttemptResult:
        return AttemptResult(True, "posted")

    _replace(executor, "attempt", lambda _: attempt)


def answer_otherwise() -> None:
    """A verdict has another seq than its record."""

    def otherwise(decide: Any) -> Any:
        def decide_group(*arguments: Any, **options: Any) -> Any:
            order, verdicts = decide(*arguments, **options)
            for verdict in verdicts:
                if verdict.seq is not None:
                    verdict.seq += 1
            return order, verdicts

        return decide_group

    _replace(kernel.Kernel, "_decide_group", otherwise)


def decide_backwards() -> None:
    """An agent's later batch is decided before its earlier one."""
    _replace(kernel, "execution_order", lambda order: lambda *given: list(reversed(order(*given))))


def order_by_hash() -> None:
    """A group is ordered by the iteration of a set."""

    def by_hash(order: Any) -> Any:
        return lambda *given: sorted(order(*given), key=lambda place: hash(f"place {place}"))

    _replace(kernel, "execution_order", by_hash)


def record_half() -> None:
    """A record lacks a part of the changes of its batch."""

    def halved(changes: Any) -> Any:
        def half(draft: Transaction) -> Changes:
            whole = changes(draft)
            return Changes(whole.entities[:-1], whole.collections)

        return half

    _replace(Transaction, "changes", halved)


PLANTED_BUGS: Final[dict[str, Plant]] = {
    plant.__name__: plant
    for plant in (
        tell_before_append,
        dispatch_before_append,
        write_behind,
        write_record_by_record,
        damage_a_record,
        forget_windows,
        forget_outbox,
        forget_schedule,
        forget_settlements,
        settle_unrun,
        answer_otherwise,
        decide_backwards,
        record_half,
        order_by_hash,
        write_unfenced,
        remove_snapshots_first,
    )
}
