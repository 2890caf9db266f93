"""Anchors: heads of a log's chain, kept outside the log.

The chain proves that no record before its head was changed. It cannot prove that no record after
the head existed: a log whose last appends were cut off holds together. An anchor is a head with its
position and time, written to a file that the log's owner keeps elsewhere; the log must contain it.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import anyio
import msgspec
from anyio import to_thread

from placet.actors.ports import EventLog
from placet.schemas.codec import Json, to_json
from placet.schemas.errors import StoreError
from placet.schemas.log.record import HASH_BYTES, record_hash
from placet.stores.files import opened_private

ANCHOR_SECONDS: Final = 10.0
"""Shortest time between two anchors of a world that is open."""


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """A copy, outside the log, of the hash with which a log's chain ended at some time.

    One line of a file of anchors.

    Attributes:
        world: Name of the world.
        seq: Seq of the world at that time.
        record: Ordinal number of the last record at that time.
        head: Hash of this record, hexadecimal.
        time: When the anchor was written, in UTC.
    """

    world: str
    seq: int
    record: int
    head: str
    time: str


@dataclass(frozen=True, slots=True)
class AnchorReport:
    """The result of looking for anchors in a log.

    Attributes:
        records: Number of records of the log, compacted ones included.
        checked: Number of anchors that were looked for.
        skipped: Number of anchors before the first record of a compacted log.
        last: The last anchor that the log contains; None if it contains none.
        missing: The first anchor that the log does not contain; None if it contains all.
    """

    records: int
    checked: int
    skipped: int
    last: Anchor | None
    missing: Anchor | None

    def as_dict(self) -> dict[str, Json]:
        """Return the report as plain JSON."""
        plain: dict[str, Json] = msgspec.to_builtins(self)
        return plain


def find_head(log: EventLog, head: str, records: int) -> int | None:
    """Return the ordinal number of the record that has a hash; None if no record has. O(log).

    Args:
        log: The log; it is only read.
        head: The hash, hexadecimal.
        records: Look only at records with a lower ordinal number.

    Raises:
        StoreError: The log cannot be read.
    """
    for ordinal, data in log.read():
        if ordinal >= records:
            break
        if record_hash(data).hex() == head:
            return ordinal
    return None


def check_anchors(log: EventLog, anchors: Sequence[Anchor], records: int) -> AnchorReport:
    """Look for anchors in a log, each at its record, and report the first missing one. O(log).

    Args:
        log: The log; it is only read.
        anchors: Anchors of the log's world, in any order.
        records: Look only at records with a lower ordinal number.

    Raises:
        StoreError: The log cannot be read.
    """
    start = log.start().record
    pending = sorted((a for a in anchors if a.record >= start), key=lambda anchor: anchor.record)
    waiting = iter(pending)
    anchor, last = next(waiting, None), None
    for ordinal, data in log.read():
        if anchor is None or ordinal >= records:
            break
        while anchor is not None and anchor.record == ordinal:
            if record_hash(data).hex() != anchor.head:
                break
            anchor, last = next(waiting, None), anchor
    skipped = len(anchors) - len(pending)
    return AnchorReport(records, len(pending), skipped, last, anchor)


def is_continued(anchors: Sequence[Anchor], missing: Anchor) -> bool:
    """Return whether an anchor at a lower record was written after one that the log lacks.

    Then the log was opened and written after its end had been cut off.

    Args:
        anchors: Anchors of the log's world, in the order in which they were written.
        missing: One of them.
    """
    later = anchors[anchors.index(missing) + 1 :]
    return any(anchor.record < missing.record for anchor in later)


def require_anchored(log: EventLog, path: Path, world: str) -> None:
    """Check that a log contains the highest anchor that a file has of a world; it blocks.

    A log that does not was cut off; an anchor of it would hide this. Nothing is checked if the file
    does not exist, has no anchor of the world, or only some before the start of a compacted log.

    Raises:
        StoreError: The log lacks the record, or has another there; or the log or the file cannot be
            read.
    """
    own = [a for a in _all_anchors(path) if a.world == world] if path.exists() else []
    anchor = max(reversed(own), key=lambda anchor: anchor.record, default=None)
    if anchor is None or anchor.record < log.start().record:
        return
    data = next((data for ordinal, data in log.read(anchor.record)), None)
    if data is not None and record_hash(data).hex() == anchor.head:
        return
    why = (
        f"it ends at record {log.count() - 1}, so its last ones are missing"
        if data is None
        else "it has another record there, so it was cut off and continued, or is another log"
    )
    raise StoreError(
        f"cannot open {log.url}: the anchor of {anchor.time} in {path} expects record "
        f"{anchor.record}, seq {anchor.seq}, head {anchor.head}; {why}. Restore the log from a "
        "copy, or keep the anchors of this shorter log in another file",
        store=log.url,
    )


def is_head(text: str) -> bool:
    """Return whether a text has the form of a record's hash: 32 hexadecimal digits."""
    return len(text) == 2 * HASH_BYTES and not set(text) - set("0123456789abcdef")


def read_anchors(path: Path, world: str) -> list[Anchor]:
    """Read the anchors of a world from a file, in the order in which they were written.

    A line that was cut off by a crash is ignored: the last line if it has no end, and an earlier
    line if it is no JSON.

    Raises:
        StoreError: The file cannot be read, a line is no anchor, or none is of this world.
    """
    anchors = _all_anchors(path)
    own = [anchor for anchor in anchors if anchor.world == world]
    if not own:
        others = ", ".join(sorted({repr(anchor.world) for anchor in anchors})) or "none"
        raise StoreError(f"{path} has no anchor of the world {world!r}; it has those of: {others}")
    return own


def _all_anchors(path: Path) -> list[Anchor]:
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise StoreError(f"cannot read the anchors in {path}: {error.strerror or error}") from error
    return [
        _anchor(path, number, line)
        for number, line in enumerate(lines, 1)
        if line.strip() and not (number < len(lines) and _is_cut_off(line))
    ]


def _is_cut_off(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):  # a part of an object is no JSON
        return True
    return False


def _anchor(path: Path, number: int, line: bytes) -> Anchor:
    try:
        anchor = msgspec.json.decode(line, type=Anchor)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(f"{path}, line {number}, is no anchor: {error}") from error
    if not is_head(anchor.head):
        raise StoreError(f"{path}, line {number}, is no anchor: {anchor.head!r} is no hash")
    return anchor


class AnchorWriter:
    """A writer that appends anchors of an open world to a file, at intervals.

    Several worlds and processes may share a file.

    Args:
        path: The file; it is created if it does not exist.
        world: Name of the world.
        position: Returns the durable seq, the number of durable records, and the head.
        on_fault: Receives the error of a failed write; the next interval tries again.
    """

    def __init__(
        self,
        path: Path,
        world: str,
        position: Callable[[], tuple[int, int, bytes]],
        on_fault: Callable[[str, BaseException], None],
    ) -> None:
        self._path = path
        self._world = world
        self._position = position
        self._on_fault = on_fault
        self._written = b""

    async def append(self) -> None:
        """Append an anchor of the last durable record; it is durable on return.

        Nothing is appended if the log is empty or has not grown since this writer's last anchor.

        Raises:
            StoreError: The file cannot be written.
        """
        seq, records, head = self._position()  # in the event loop, so that they belong together
        if not records or head == self._written:
            return
        now = datetime.now(UTC).isoformat(timespec="seconds")
        anchor: dict[str, Json] = {"world": self._world, "seq": seq, "record": records - 1}
        line = to_json({**anchor, "head": head.hex(), "time": now}) + b"\n"
        await to_thread.run_sync(_append, self._path, line)
        self._written = head

    async def try_append(self) -> None:
        """Append an anchor as `append` does, but pass a `StoreError` to `on_fault`."""
        try:
            await self.append()
        except StoreError as error:
            self._on_fault("anchors", error)

    async def run(self) -> None:
        """Append an anchor every `ANCHOR_SECONDS` seconds if the log has grown, until canceled."""
        while True:
            await anyio.sleep(ANCHOR_SECONDS)
            await self.try_append()


def _append(path: Path, line: bytes) -> None:
    try:
        descriptor = opened_private(path, os.O_RDWR | os.O_APPEND)
        try:
            if os.fstat(descriptor).st_size:
                os.lseek(descriptor, -1, os.SEEK_END)
                if os.read(descriptor, 1) != b"\n":  # a crash cut off the last line
                    line = b"\n" + line
            os.write(descriptor, line)  # one call: lines of several writers do not mix
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StoreError(f"cannot append an anchor to {path}: {error.strerror or error}") from error
