"""The condition that ended a run before its last tick: the file `town.db.ended` beside its log.

    {"records": 120, "head": "5f…", "ticks": 12, "until": "model:all_well"}

A log has no record of its end, so a run that `until` ended looks like one that a person stopped.
The note is of the ticks that it names: once a log has more, such as by a resumed run, the note is
ignored. The log and its digests are the same with it and without.
"""

from contextlib import suppress
from typing import Final

import msgspec

from placet.actors.ports import EventLog
from placet.scenarios.failure_note import beside, end_of, note_of
from placet.schemas.errors import PlacetError, StoreError
from placet.schemas.log.record import record_hash
from placet.stores.files import opened_regular, write_whole
from placet.stores.reading import log_to_read
from placet.stores.url import whereabouts_of

_NOTE_BYTES_MAX: Final = 4 * 1024
ENDING: Final = ".ended"
"""What the name of the note has after that of the log."""


class RunEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a run by the condition of its scenario.

    Attributes:
        records: Number of records of the log when the run ended.
        head: Hash of the last one, hexadecimal.
        ticks: Completed ticks.
        until: Name of the condition, `module:function`.
    """

    records: int
    head: str
    ticks: int
    until: str


def note_end(store: str, ticks: int, until: str) -> None:
    """Write the note beside the log of a run; a log in no file has none, nor one on a full disk."""
    with suppress(OSError, PlacetError):
        path = note_of(store, ENDING)
        if path is not None:
            records, head = end_of(log_to_read(store))
            note = RunEnd(records=records, head=head, ticks=ticks, until=until)
            write_whole(path, msgspec.json.encode(note))


def end_by_condition(log: EventLog, ticks: int | None) -> RunEnd | None:
    """Return the condition that ended the run of a log after its ticks; None if none did. O(1)."""
    path = whereabouts_of(log)
    if path is None or ticks is None:
        return None
    try:
        with opened_regular(beside(path, ENDING)) as file:
            found = msgspec.json.decode(file.read(_NOTE_BYTES_MAX), type=RunEnd)
        if found.ticks != ticks or not 0 < found.records <= log.count():
            return None
        _, data = next(log.read(found.records - 1))
    except (OSError, StoreError, StopIteration, msgspec.DecodeError):
        return None
    return found if record_hash(data).hex() == found.head else None
