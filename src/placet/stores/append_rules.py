"""The checks of every store before it appends: one wording, and one order of precedence.

A fenced, a failed and a misplaced append each have their message, the same in every store, so that
one runbook serves for all.
"""

from placet.schemas.errors import StoreError
from placet.schemas.log.record import LogAppend, LogStart


class NoWorldError(StoreError):
    """The error of a store that can be reached but has no world of the requested name."""


class OvertakenError(StoreError):
    """The error of a reader whose next record was removed by a compaction. The log is valid."""


class InUseError(StoreError):
    """The error of opening a log that a live process writes, without `take_over`."""


class FencedError(StoreError):
    """The error of an append after another writer has taken over the log; it is permanent."""


def in_use(store: str, writer: str, since: str, *, is_own: bool = False) -> InUseError:
    """Build the error for opening a log that a live process writes.

    Args:
        store: URL of the log.
        writer: Description of the process.
        since: Time at which the process opened the log, as text.
        is_own: The writer is this process.
    """
    if is_own:
        return InUseError(
            f"cannot open {store}: {writer} writes it, since {since}. Close the other "
            "Orchestrator, Gate or environment of this program first, or use another store",
            store=store,
        )
    return InUseError(
        f"cannot open {store}: {writer} writes it, since {since}. Stop that process; or only read "
        "beside it: `placet log`, `replay`, `explain`, `verify`, and `serve --read-only`; or take "
        "the log over, which fences that process: `placet serve` and `gate` by --take-over, a "
        "program by take_over=True in its OrchestratorConfig",
        store=store,
    )


def require_writer(epoch: int, *, held: int | None, failure: str | None, store: str) -> None:
    """Raise if a log handle may not append; else do nothing.

    Args:
        epoch: The epoch that the caller has.
        held: The epoch that the handle's `open` returned last; None if the handle is not open.
        failure: Message of an earlier failed append in that epoch; None if there was none.
        store: URL of the log, for messages.

    Raises:
        StoreError: The handle is not open, is fenced, or has failed.
    """
    if held is None:
        message = f"cannot append to {store}: it is not open for writing; call open() first"
        raise StoreError(message, store=store)
    require_epoch(epoch, latest=held, store=store)
    if failure is not None:
        raise StoreError(
            f"cannot append to {store}: an earlier append failed and nothing follows a failure; "
            f"open the log again and recover from it. The failure: {failure}",
            store=store,
        )


def require_epoch(epoch: int, *, latest: int, store: str) -> None:
    """Raise if another writer has opened the log since an epoch; else do nothing.

    Raises:
        FencedError: The latest epoch is not `epoch`.
    """
    if epoch != latest:
        raise FencedError(
            f"cannot append to {store}: this writer is fenced, it holds epoch {epoch} and the "
            f"latest is {latest}; another writer has opened the log",
            store=store,
        )


def require_follows(append: LogAppend, *, count: int, seq: int, store: str) -> None:
    """Raise if an append does not begin where the log ends, at `count` records and at `seq`.

    Raises:
        StoreError: It does not, or the append is empty, or its seqs decrease.
    """
    if not append.records:
        raise StoreError(f"cannot append to {store}: an append needs a record", store=store)
    if not append.follows(count, seq):
        raise StoreError(
            f"cannot append to {store}: expected an append from record {count} and seq {seq} on, "
            f"got record {append.first_record} and seq {append.seq_before} to {append.seq}; "
            "the writer and the log have parted, so open the log again and recover from it",
            store=store,
            seq=seq,
        )


def overtaken(store: str, record: int, start: LogStart) -> OvertakenError:
    """Build the error of a reader whose next record was removed by a compaction."""
    return OvertakenError(
        f"cannot continue at record {record} of {store}: the log was compacted meanwhile and now "
        f"begins at record {start.record}, after seq {start.seq}; read again from there",
        store=store,
    )
