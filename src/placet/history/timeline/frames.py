"""Key frames of a log, and the folder that keeps them: `town.db.frames/<records>.frame`.

A frame is derived from the log and can be made again at any time: a frame that is damaged, of
another log or of another release is not used. A frame names the hash of the record before it, so it
is never shown for another log of the same name.
"""

import os
import zlib
from contextlib import suppress
from hashlib import blake2b
from itertools import count
from pathlib import Path
from re import compile as pattern
from typing import Final

import msgspec

from placet.actors.ports import EventLog
from placet.history.timeline.fold import PlayedState
from placet.schemas.log.envelope import Envelope
from placet.stores.files import behind_link
from placet.stores.url import is_lasting, whereabouts_of

FRAME_VERSION: Final = 1
_HEAD: Final = Envelope("key frame", b"placet key frame", FRAME_VERSION)
_BODY: Final = Envelope("key frame's state", b"placet its state", FRAME_VERSION)
_NAME: Final = pattern(r"(\d{12,19})\.frame")
_UNFINISHED: Final = ".tmp"
_NUMBERS: Final = count()
_LENGTH_BYTES: Final = 4
_ZLIB_LEVEL: Final = 1
"""Level 6 takes four times as long for a tenth less."""


class Stretch(msgspec.Struct, array_like=True):
    """A summary of the records between two key frames.

    Attributes:
        agents: Agents with an intent in them.
        ticks: Ordinal numbers of the `Tick` records.
        bars: `[n, admitted, refused]` intents of each run of `BAR_SEQS` seqs, `n * BAR_SEQS` on.
        codes: Number of recorded refusals by `stage/code`.
    """

    agents: list[str] = []
    ticks: list[int] = []
    bars: list[tuple[int, int, int]] = []
    codes: dict[str, int] = {}


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
    """Return the compressed bytes of a state. O(state)."""
    return zlib.compress(msgspec.msgpack.encode(state), _ZLIB_LEVEL)


def decode_state(data: bytes) -> PlayedState:
    """Return the state of compressed bytes. O(state).

    Raises:
        ValueError: The bytes are no state.
    """
    try:
        return _PLAYED.decode(zlib.decompress(data))
    except (zlib.error, RecursionError) as error:
        raise ValueError(f"the state of a key frame cannot be read: {error}") from error


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

    def state(self, record: int) -> PlayedState:
        """Return the state of the frame before a record.

        Raises:
            OSError, ValueError: The file is gone or damaged.
        """
        data = (self.folder / _name(record)).read_bytes()
        length = int.from_bytes(data[:_LENGTH_BYTES], "big")
        _, packed = _STATES.decode(_BODY.unwrap(data[_LENGTH_BYTES + length :]))
        return decode_state(packed)

    def write(self, head: FrameHead, packed: bytes) -> None:
        """Write a frame, whole or not at all; it need not survive a loss of power.

        Raises:
            OSError: The folder cannot be written.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        target = self.folder / _name(head.record)
        draft = self.folder / f"{target.name}.{os.getpid()}-{next(_NUMBERS)}{_UNFINISHED}"
        first = _HEAD.wrap(msgspec.msgpack.encode(head))
        second = _BODY.wrap(msgspec.msgpack.encode((FRAME_VERSION, packed)))
        try:
            draft.write_bytes(len(first).to_bytes(_LENGTH_BYTES, "big") + first + second)
            draft.replace(target)
        except OSError:
            draft.unlink(missing_ok=True)
            raise

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

    Beside the log's file, `town.db.frames/`; in the user's cache folder where there is no file or
    its folder cannot be written.
    """
    if not is_lasting(log):
        return None
    path = whereabouts_of(log)
    if path is not None:
        beside = behind_link(path)
        beside = beside.with_name(f"{beside.name}.frames")
        if os.access(beside if beside.is_dir() else beside.parent, os.W_OK):
            return FrameFiles(beside)
    key = blake2b(str(path or log.url).encode("utf-8", "surrogateescape"), digest_size=16)
    return FrameFiles(_cache_folder() / "frames" / key.hexdigest())


def _cache_folder() -> Path:
    given = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(given) if given.startswith("/") else Path.home() / ".cache") / "placet"


def _name(record: int) -> str:
    return f"{record:012d}.frame"
