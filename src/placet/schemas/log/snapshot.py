"""A world at one place of its log, as one value that proves itself.

It equals a fold of the log up to its position, so that opening a world costs only the records after
it. A checksum covers all bytes; the value contains the hash of the record at its position, so that
a snapshot is never used for another log.
"""

from hashlib import blake2b
from typing import Final

import msgspec

from placet.schemas.log.envelope import CHECKSUM_BYTES, Envelope

SNAPSHOT_VERSION: Final = 1
MAGIC: Final = b"placet snapshot\n"
ENVELOPE: Final = Envelope("snapshot", MAGIC, SNAPSHOT_VERSION)


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
_DECODE: Final = msgspec.msgpack.Decoder(Snapshot).decode


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Return the bytes of a snapshot."""
    return ENVELOPE.wrap(_ENCODE(snapshot))


def decode_snapshot(data: bytes) -> Snapshot:
    """Read a snapshot.

    Raises:
        ValueError: The bytes are not a snapshot, are damaged, or have another version.
    """
    return _DECODE(ENVELOPE.unwrap(data))
