"""A snapshot: the state and the ledger of a world at one position of its log.

It equals a fold of the log up to its position, so that opening a world costs only the records after
it. A checksum covers all bytes; the value contains the hash of the record at its position, so that
a snapshot is never used for another log.
"""

from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from placet.schemas.log.envelope import CHECKSUM_BYTES, Envelope


class SnapshotPosition(NamedTuple):
    """The position of a snapshot in its log; it names the snapshot. A newer one is greater."""

    records: int
    seq: int

    @property
    def name(self) -> str:
        """The name of the snapshot's file; names sort in the order of positions."""
        return f"{self.records:012d}-{self.seq:012d}.snapshot"


SNAPSHOT_VERSION: Final = 2
MAGIC: Final = b"placet snapshot\n"
ENVELOPE: Final = Envelope("snapshot", MAGIC, SNAPSHOT_VERSION)


class Snapshot(msgspec.Struct, array_like=True, frozen=True, kw_only=True, gc=False):
    """A world after a number of records.

    Attributes:
        version: Version of this format and of the format of `world`.
        header: Header record with the rules in force; a compacted log may no longer contain it.
        configured: Record of the settings in force, which a compacted log may no longer contain;
            None if none was written.
        records: Number of records before the snapshot, which is the ordinal of the next one.
        seq: Sequence number of the world.
        now_ns: Simulated time, nanoseconds.
        chain: Hash of the last record before the snapshot.
        batches_seen: Highest number of a batch.
        groups: Groups of batches since the last checkpoint; it keeps later checkpoints at the same
            records as without the snapshot.
        state_digest: Digest of the domain state.
        world: State and ledger in canonical encoding (`kernel/log/snapshot.py`).
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
    state_digest: bytes
    world: bytes

    @property
    def world_digest(self) -> bytes:
        """Hash of state and ledger, 16 bytes. O(world)."""
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


def snapshot_at(place: SnapshotPosition, data: bytes, key: str = "name") -> Snapshot:
    """Decode a snapshot; check that it is of the position under which it is kept.

    Args:
        place: The position.
        data: The encoded snapshot.
        key: The noun for what holds the position, for the message.

    Raises:
        ValueError: The snapshot is damaged, of another version, or of another position.
    """
    snapshot = decode_snapshot(data)
    if (snapshot.records, snapshot.seq) != place:
        raise ValueError(
            f"it is of record {snapshot.records} and seq {snapshot.seq}, and its {key} is of "
            f"record {place.records} and seq {place.seq}"
        )
    return snapshot
