"""Key frames of a log, and the folder that keeps them: `town.db.frames/<records>.frame`.

A frame is derived from the log and can be made again at any time: a frame that is damaged, of
another log or of another release is not used. A frame names the hash of the record before it, so it
is never shown for another log of the same name. Its state is compared with a state digest in the
log, or with a fold of the log from such a state (`index.py`), so a forged frame is not shown.
"""

import os
import stat
import zlib
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from re import compile as pattern
from typing import Final, TypeAlias

import msgspec

from placet.actors.ports import EventLog
from placet.history.timeline.fold import PlayedState
from placet.schemas.log.envelope import Envelope
from placet.stores.files import behind_link, make_folder, write_whole
from placet.stores.url import is_lasting, whereabouts_of

FRAME_VERSION: Final = 6
_HEAD: Final = Envelope("key frame", b"placet key frame", FRAME_VERSION)
_BODY: Final = Envelope("key frame's state", b"placet its state", FRAME_VERSION)
_NAME: Final = pattern(r"(\d{12,19})\.frame")
_LENGTH_BYTES: Final = 4
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_ZLIB_LEVEL: Final = 1
"""Level 6 takes four times as long for a tenth less."""


Bar: TypeAlias = tuple[int, int, int]
"""First seq, admitted and refused intents."""

STRETCH_BARS_MAX: Final = 512


def count_in(bars: list[Bar], width: int, added: Bar) -> None:
    """Add intents to the last bar, or to a new one after it; a bar is `width` seqs."""
    seq, admitted, refused = added
    first = seq - seq % width
    if bars and bars[-1][0] == first:
        _, before, refused_before = bars[-1]
        bars[-1] = first, before + admitted, refused_before + refused
    else:
        bars.append((first, admitted, refused))


class Stretch(msgspec.Struct, array_like=True):
    """A summary of the records between two key frames.

    Attributes:
        agents: Agents with an intent in them; `<population>:` stands for the members of one with a
            column batch.
        ticks: Ordinal numbers of the `Tick` records.
        bars: `[seq, admitted, refused]` intents of each run of `bar_seqs` seqs, from `seq` on.
        codes: Number of refused intents by `stage/code`, without those of held batches.
        bar_seqs: Seqs of a bar: it doubles when there are more than `STRETCH_BARS_MAX` bars.
        held: Number of intents that were held for a person.
    """

    agents: list[str] = []
    ticks: list[int] = []
    bars: list[Bar] = []
    codes: dict[str, int] = {}
    bar_seqs: int = 1
    held: int = 0

    def count(self, seq: int, admitted: int, refused: int) -> None:
        """Count intents at a seq, which is not before that of the last call."""
        count_in(self.bars, self.bar_seqs, (seq, admitted, refused))
        while len(self.bars) > STRETCH_BARS_MAX:
            self.bar_seqs *= 2
            wider: list[Bar] = []
            for bar in self.bars:
                count_in(wider, self.bar_seqs, bar)
            self.bars = wider


class FrameHead(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """A key frame without its state.

    Attributes:
        version: `FRAME_VERSION`.
        previous: Number of records before the frame before this one, from which `stretch` begins.
        record: Number of records before the frame, which is the ordinal of the next one.
        seq: Sequence number of the world.
        now_ns: Simulated time, nanoseconds.
        chain: Hash of the last record before the frame.
        first_batch: Ordinal of the first record of a batch; None before it.
        stretch: Summary of the records since the frame before this one.
    """

    version: int = FRAME_VERSION
    previous: int
    record: int
    seq: int
    now_ns: int
    chain: bytes
    first_batch: int | None
    stretch: Stretch


_HEADS: Final = msgspec.msgpack.Decoder(FrameHead)
_STATES: Final = msgspec.msgpack.Decoder(tuple[int, bytes])
_PLAYED: Final = msgspec.msgpack.Decoder(PlayedState)


def encode_state(state: PlayedState) -> bytes:
    """Return the bytes of a state: the same for every fold of the same records. O(state)."""
    return msgspec.msgpack.encode(state)


def compressed(data: bytes) -> bytes:
    """Return compressed bytes, for `decompressed`."""
    return zlib.compress(data, _ZLIB_LEVEL)


def decompressed(data: bytes, bytes_max: int) -> bytes:
    """Return decompressed bytes; at most so many are ever held.

    Raises:
        ValueError: The bytes are not compressed, were cut, or are more than `bytes_max`.
    """
    inflater = zlib.decompressobj()
    try:
        whole = inflater.decompress(data, bytes_max)
        is_more = not inflater.eof and bool(inflater.decompress(inflater.unconsumed_tail, 1))
    except zlib.error as error:
        raise ValueError(f"it cannot be decompressed: {error}") from error
    if is_more or not inflater.eof:
        raise ValueError(
            f"it is more than {bytes_max} bytes when decompressed, or was cut; expected at most "
            "what its log could have written"
        )
    return whole


def decode_state(data: bytes) -> PlayedState:
    """Return the state of bytes. O(state).

    Raises:
        ValueError: The bytes are no state.
    """
    try:
        return _PLAYED.decode(data)
    except RecursionError as error:
        raise ValueError("the state of a key frame is nested too deeply") from error


class FrameFiles:
    """A folder with the key frames of one log, one file each.

    Args:
        folder: The folder; it need not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def heads(self) -> list[FrameHead]:
        """Return the undamaged frames of the folder without their states, oldest first."""
        try:
            names = os.listdir(self.folder)  # noqa: PTH208  # names alone
        except OSError:
            return []
        heads = []
        for name in sorted(name for name in names if _NAME.fullmatch(name)):
            with suppress(OSError, ValueError, EOFError):
                heads.append(self._head(name))
        return heads

    def packed(self, record: int) -> bytes:
        """Return the compressed state of the frame before a record.

        Raises:
            OSError, ValueError: The file is gone or damaged.
        """
        data = (self.folder / _name(record)).read_bytes()
        length = int.from_bytes(data[:_LENGTH_BYTES], "big")
        _, packed = _STATES.decode(_BODY.unwrap(data[_LENGTH_BYTES + length :]))
        return packed

    def write(self, head: FrameHead, packed: bytes) -> None:
        """Write a frame, whole or not at all; it need not survive a loss of power.

        Raises:
            OSError: The folder cannot be written.
        """
        make_folder(self.folder)
        first = _HEAD.wrap(msgspec.msgpack.encode(head))
        second = _BODY.wrap(msgspec.msgpack.encode((FRAME_VERSION, packed)))
        data = len(first).to_bytes(_LENGTH_BYTES, "big") + first + second
        write_whole(self.folder / _name(head.record), data, is_lasting=False)

    def remove(self, record: int) -> None:
        """Remove the frame before a record; do nothing if it cannot be removed."""
        with suppress(OSError):
            (self.folder / _name(record)).unlink()

    def _head(self, name: str) -> FrameHead:
        with (self.folder / name).open("rb") as file:
            length = int.from_bytes(file.read(_LENGTH_BYTES), "big")
            if length > os.fstat(file.fileno()).st_size:
                raise ValueError("it was cut")
            head = _HEADS.decode(_HEAD.unwrap(file.read(length)))
        if _name(head.record) != name:
            raise ValueError("it is another frame than its name says")
        return head


def frames_of(log: EventLog) -> FrameFiles | None:
    """Return the folder of a log's key frames; None for a log in memory.

    Beside the log's file, `town.db.frames/`; in the user's cache folder where there is no file, its
    folder cannot be written, or the folder of frames is not this user's alone.
    """
    if not is_lasting(log):
        return None
    path = whereabouts_of(log)
    if path is not None:
        beside = behind_link(path)
        beside = beside.with_name(f"{beside.name}.frames")
        is_free = not os.path.lexists(beside) and os.access(beside.parent, os.W_OK)
        if is_free or _is_private(beside):
            return FrameFiles(beside)
    key = blake2b(str(path or log.url).encode("utf-8", "surrogateescape"), digest_size=16)
    return FrameFiles(_cache_folder() / "frames" / key.hexdigest())


def _is_private(folder: Path) -> bool:
    """Return whether a folder is this user's, and no other user can write frames into it."""
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    is_own = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
    return is_own and stat.S_ISDIR(status.st_mode) and not status.st_mode & _OTHERS_WRITE


def _cache_folder() -> Path:
    given = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(given) if given.startswith("/") else Path.home() / ".cache") / "placet"


def _name(record: int) -> str:
    return f"{record:012d}.frame"
