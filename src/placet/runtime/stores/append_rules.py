"""The checks of every store before it appends: one wording, and one order of precedence.

A fenced, a failed and a misplaced append each have their message, the same in every store, so that
one runbook serves for all.
"""

from placet.schemas.errors import StoreError
from placet.schemas.log.record import LogGroup, LogStart


class NoWorldError(StoreError):
    """The store can be reached, but holds no world of this name."""


class OvertakenError(StoreError):
    """A log was compacted beyond the record that its reader wants next. The log is sound."""


class InUseError(StoreError):
    """A live process writes the log, and the caller did not ask to take it over."""


class FencedError(StoreError):
    """Another writer has taken the log over, so that this handle never appends again."""


def in_use(store: str, writer: str, since: str) -> InUseError:
    """Make the error for a log that a live process writes.

    Args:
        store: URL of the log.
        writer: The process, in words.
        since: When it opened the log.
    """
    return InUseError(
        f"cannot open {store}: {writer} writes it, since {since}. Stop that process; or only read "
        "beside it: `placet log`, `replay`, `explain`, `verify`, and `serve --read-only`; or take "
        "the log over, which fences that process: `placet serve` and `gate` by --take-over, a "
        "program by take_over=True in its OrchestratorConfig",
        store=store,
    )


def require_writer(epoch: int, *, held: int | None, failure: str | None, store: str) -> None:
    """Check that a handle may still append.

    Args:
        epoch: The epoch that the caller holds.
        held: The epoch that the handle took last; None if it is not open.
        failure: Why an append of that epoch failed, if one did.
        store: For the message.

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
    """Check that no other writer has taken the fence since.

    Raises:
        FencedError: Another writer has.
    """
    if epoch != latest:
        raise FencedError(
            f"cannot append to {store}: this writer is fenced, it holds epoch {epoch} and the "
            f"latest is {latest}; another writer has opened the log, so stop this one",
            store=store,
        )


def require_follows(group: LogGroup, *, count: int, seq: int, store: str) -> None:
    """Check that a group begins where the log ends.

    Raises:
        StoreError: It does not, or it is empty, or its seqs run backwards.
    """
    if not group.records:
        raise StoreError(f"cannot append to {store}: the group holds no record", store=store)
    if not group.follows(count, seq):
        raise StoreError(
            f"cannot append to {store}: expected a group from record {count} and seq {seq} on, "
            f"got one from record {group.first_record} and seq {group.seq_before} to {group.seq}; "
            "the writer and the log have parted, so open the log again and recover from it",
            store=store,
            seq=seq,
        )


def overtaken(store: str, record: int, start: LogStart) -> OvertakenError:
    """Make the error for a reader whose next record was compacted away under it."""
    return OvertakenError(
        f"cannot continue at record {record} of {store}: the log was compacted meanwhile and now "
        f"begins at record {start.record}, after seq {start.seq}; read again from there",
        store=store,
    )
