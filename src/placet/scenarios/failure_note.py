"""The exception that ended a run: the file `town.db.failure` beside its log.

    {"records": 120, "head": "5f…", "message": "…", "place": "rules.py:3 in move", "traceback": "…"}

A log holds decisions, and its digests depend on no path, so the exception is not in it. The note is
of the end of the log that it names: once the log has grown, such as by a resumed run, the note is
ignored. Its owner alone may read it: the text of an exception may hold a secret.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from placet.actors.ports import EventLog
from placet.history.tracebacks import place_in_traceback, traceback_of
from placet.schemas.errors import ClosedError, PlacetError, StoreError, describe_error
from placet.schemas.log.record import record_hash
from placet.stores.files import behind_link, opened_regular, write_whole
from placet.stores.reading import log_to_read
from placet.stores.url import file_of, open_event_log, whereabouts_of

NOTE_BYTES_MAX: Final = 256 * 1024
ENDING: Final = ".failure"
"""What the name of the note has after that of the log."""


class RunFailure(msgspec.Struct, frozen=True, kw_only=True):
    """The exception that ended a run.

    Attributes:
        records: Number of records of the log when the run ended.
        head: Hash of the last one, hexadecimal.
        message: The error, as the command printed it.
        place: Where the exception was raised, `FILE:LINE in FUNCTION`; empty if it is unknown.
        traceback: Its traceback, without variables.
    """

    records: int
    head: str
    message: str
    place: str = ""
    traceback: str = ""


@contextmanager
def noting_failure(store: str) -> Iterator[Callable[[], None]]:
    """Run a `with` block that runs a scenario; if the run fails, write the note beside its log.

    The block calls the function that it is given when the run is open. An exception before that,
    such as a busy port or a store in use, is no failure of the run: an older note stays. A log in
    no file has no note. Without an exception an older note is removed.
    """
    is_open = False

    def begin() -> None:
        nonlocal is_open
        is_open = True

    try:
        yield begin
    except Exception as error:
        if is_open:
            note_failure(store, error)
        raise
    with suppress(OSError, PlacetError):
        path = note_of(store)
        if path is not None:
            path.unlink(missing_ok=True)


def failure_of(log: EventLog) -> RunFailure | None:
    """Return the exception with which the run of a log ended; None if it has no such end. O(1)."""
    path = whereabouts_of(log)
    if path is None:
        return None
    try:
        with opened_regular(beside(path)) as file:
            found = msgspec.json.decode(file.read(NOTE_BYTES_MAX), type=RunFailure)
        is_of_end = (found.records, found.head) == end_of(log)
    except (OSError, StoreError, msgspec.DecodeError):
        return None
    return found if is_of_end else None


def note_failure(store: str, error: Exception) -> None:
    """Write the note of an exception beside the log of a run, unless it cannot be written.

    A `ClosedError` is a mistake of the caller, which has closed the run, and is not noted.
    """
    if isinstance(error, ClosedError):
        return
    with suppress(OSError, PlacetError):  # the error of the run is the one to report
        path = note_of(store)
        if path is not None:
            _write(path, store, error)


def _write(path: Path, store: str, error: Exception) -> None:
    records, head = end_of(log_to_read(store))
    cause = error.__cause__ or error if isinstance(error, PlacetError) else error
    message = str(error) if isinstance(error, PlacetError) else describe_error(error)
    note = RunFailure(
        records=records,
        head=head,
        message=message.encode("utf-8", "replace").decode(),
        place=place_in_traceback(cause),
        traceback=traceback_of(cause),
    )
    write_whole(path, msgspec.json.encode(note))


def note_of(store: str, ending: str = ENDING) -> Path | None:
    """Return the path of a note beside the log of a store; None of a log in no file."""
    path = file_of(open_event_log(store))
    return None if path is None else beside(behind_link(path), ending)


def beside(log: Path, ending: str = ENDING) -> Path:
    """Return the path of the note with an ending, beside a log."""
    return log.with_name(log.name + ending)


def end_of(log: EventLog) -> tuple[int, str]:
    """Return the number of records of a log, and the hash of the last one."""
    count = log.count()
    for _, data in log.read(max(0, count - 1)):
        return count, record_hash(data).hex()
    raise StoreError(f"{log.url} has no record", store=log.url)
