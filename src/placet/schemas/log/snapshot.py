"""A world at one place of its log, as one value that proves itself.

It equals a fold of the log up to its position, so that opening a world costs only the records after
it. A checksum covers all bytes; the value contains the hash of the record at its position, so that
a snapshot is never used for another log.
"""

from hashlib import blake2b
from typing import Final

import msgspec

SNAPSHOT_VERSION: Final = 1
MAGIC: Final = b"placet snapshot\n"
CHECKSUM_BYTES: Final = 16


class Snapshot(msgspec.Struct, array_like=True, frozen=True, kw_only=True, gc=False):
    """A world as it was after so many records.

    Attributes:
        version: Of this form and of `world`'s.
        header: The log's first record, which may be gone from a compacted log; where other rules
            took over since, with those.
        configured: The record of the policy in force, likewise; None where none was written.
        records: How many records it stands for: the ordinal of the next one.
        seq: Sequence number there.
        now_ns: Simulated time there.
        chain: Hash of the last of these records.
        batches_seen: Highest number of a batch so far.
        groups: Groups of batches since the last checkpoint, and
        group_seq: where the latest of them was opened: checkpoints come where they would have.
        state_digest: Of the domain state.
        world: State and books, canonical (`kernel/log/snapshot.py`).
    """

    version: int
    header: bytes
    configured: bytes | None
    records: int
    seq: int
    now_ns: int
    chain: bytes
    batches_seen: int
    groups: int
    group_seq: int
    state_digest: bytes
    world: bytes

    @property
    def world_digest(self) -> bytes:
        """Hash of state and books, 16 bytes. O(world)."""
        return blake2b(self.world, digest_size=CHECKSUM_BYTES).digest()


_ENCODE: Final = msgspec.msgpack.Encoder().encode
_VERSION: Final = msgspec.msgpack.Decoder(list[msgspec.Raw])
_DECODE: Final = msgspec.msgpack.Decoder(Snapshot)


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Write a snapshot: a mark, a checksum over the rest, the rest."""
    body = _ENCODE(snapshot)
    return MAGIC + _checksum(body) + body


def decode_snapshot(data: bytes) -> Snapshot:
    """Read a snapshot.

    Raises:
        ValueError: The bytes are none, are damaged, or are of another version.
    """
    start = len(MAGIC) + CHECKSUM_BYTES
    body = data[start:]
    if data[: len(MAGIC)] != MAGIC:
        raise ValueError("it does not begin as a snapshot does")
    if data[len(MAGIC) : start] != _checksum(body):
        raise ValueError("it fails its checksum")
    version = msgspec.msgpack.decode(_VERSION.decode(body)[0])
    if version != SNAPSHOT_VERSION:
        raise ValueError(
            f"snapshot version {version!r} is unknown, expected {SNAPSHOT_VERSION}; "
            "another release may have written it"
        )
    return _DECODE.decode(body)


def _checksum(body: bytes) -> bytes:
    return blake2b(body, digest_size=CHECKSUM_BYTES).digest()
