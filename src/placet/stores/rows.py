"""One append as one row, the same in every database: its head, a checksum over all of it, a blob.

Nothing read from a row is trusted. The chain of hashes (`schemas/log/record.py`) binds every record
but the last; the checksum binds that one too, and tells a damaged row from a missing one.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias
from zlib import crc32

import msgspec

from placet.schemas.errors import StoreError
from placet.schemas.log.record import LogAppend, LogStart
from placet.stores.append_rules import overtaken

_HEAD: Final = struct.Struct(">5q")
_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(list[bytes]).decode

Row: TypeAlias = tuple[int, int, int, int, int, int, bytes]
"""first_record, count, seq_before, seq, log_bytes, crc32, blob: an array of the records."""


class Tail(NamedTuple):
    """The end of a log: number of its records, last seq, and bytes of all records."""

    record_count: int = 0
    seq: int = 0
    size_bytes: int = 0

    def after(self, append: LogAppend) -> "Tail":
        """Return the end of the log after an append that follows."""
        size_bytes = self.size_bytes + sum(map(len, append.records))
        return Tail(append.first_record + len(append.records), append.seq, size_bytes)


def row_of(append: LogAppend, tail: Tail) -> tuple[Row, Tail]:
    """Return the table row of an append at `tail`, and the tail after it."""
    blob, end = _ENCODE(append.records), tail.after(append)
    head = (append.first_record, len(append.records), append.seq_before, append.seq, end.size_bytes)
    return (*head, _checksum(head, blob), blob), end


def records_of(row: Row, place: int, store: str) -> Sequence[bytes]:
    """Decode the records in a row of a log, and check the row.

    Args:
        row: The row.
        place: Expected ordinal of the row's first record.
        store: URL of the log, for messages.

    Raises:
        StoreError: The row is damaged, or the append at `place` is missing.
    """
    *head, checksum, blob = row
    try:
        is_sound = _checksum(head, blob) == checksum
        records = _DECODE(blob) if is_sound else []
    except (TypeError, struct.error, msgspec.MsgspecError):
        is_sound, records = False, []
    if not is_sound:
        raise damaged(store, place, "fails its checksum")
    if head[0] != place or head[1] != len(records):
        raise damaged(store, place, f"is missing; the next one begins at record {head[0]}")
    return records


def read_rows(
    page: Callable[[int], Sequence[Row]],
    place: int,
    start: Callable[[], LogStart],
    from_record: int,
    store: str,
) -> Iterator[tuple[int, bytes]]:
    """Yield the `(ordinal, record)` pairs of a log, row by row, including later appends.

    Args:
        page: Returns the next rows from an ordinal on, a bounded number; none at the end.
        place: First record of the row that contains `from_record`.
        start: Returns the present start of the log, which another process may compact.
        from_record: Ordinal of the first record to yield.
        store: URL of the log, for messages.

    Raises:
        StoreError: A row is damaged, or the next row was compacted away under the reader.
    """
    is_begun = False
    while rows := page(place):
        if rows[0][0] > place and (begins := start()).record > place:
            if is_begun:
                raise overtaken(store, place, begins)
            place = begins.record
            continue
        is_begun = True
        for row in rows:
            records = records_of(row, place, store)
            for ordinal, record in enumerate(records, place):
                if ordinal >= from_record:
                    yield ordinal, record
            place += len(records)


def damaged(store: str, place: int, how: str) -> StoreError:
    """Build the error for a log whose append at a record is damaged or missing.

    Args:
        store: URL of the log.
        place: First record of the append.
        how: Description of the damage, which continues "the append at record N".
    """
    return StoreError(
        f"{store} is damaged: the append at record {place} {how}. The records before it are sound; "
        "restore the file from a copy",
        store=store,
    )


def _checksum(head: Sequence[int], blob: bytes) -> int:
    return crc32(blob, crc32(_HEAD.pack(*head)))
