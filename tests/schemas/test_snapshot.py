"""A snapshot is checked when it is decoded."""

import msgspec
import pytest

from placet.schemas.log.snapshot import (
    MAGIC,
    SNAPSHOT_VERSION,
    Snapshot,
    SnapshotPosition,
    decode_snapshot,
    encode_snapshot,
    snapshot_at,
)

SOME = Snapshot(
    version=SNAPSHOT_VERSION,
    header=b"header",
    configured=None,
    records=7,
    seq=5,
    now_ns=3,
    chain=b"c" * 16,
    batches_seen=4,
    groups=2,
    state_digest=b"d" * 16,
    world=b"world" * 20,
)


def test_a_snapshot_round_trips():
    assert decode_snapshot(encode_snapshot(SOME)) == SOME
    assert len(SOME.world_digest) == 16


def test_a_snapshot_of_another_position_than_its_key_is_refused():
    data = encode_snapshot(SOME)
    assert snapshot_at(SnapshotPosition(7, 5), data) == SOME
    with pytest.raises(ValueError, match="of record 7 and seq 5, and its row is of record 8 and"):
        snapshot_at(SnapshotPosition(8, 5), data, "row")


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_every_flipped_byte_is_detected(mask):
    sound = encode_snapshot(SOME)
    for place in range(len(sound)):
        damaged = bytearray(sound)
        damaged[place] ^= mask
        with pytest.raises(ValueError, match=r"does not begin as|fails its checksum"):
            decode_snapshot(bytes(damaged))


def test_every_truncation_is_detected():
    sound = encode_snapshot(SOME)
    for length in range(len(sound)):
        with pytest.raises(ValueError, match=r"does not begin as|fails its checksum"):
            decode_snapshot(sound[:length])
    with pytest.raises(ValueError, match="checksum"):
        decode_snapshot(sound + b"\0")


def test_another_snapshot_version_is_refused_before_decoding():
    newer = encode_snapshot(msgspec.structs.replace(SOME, version=SNAPSHOT_VERSION + 1))
    with pytest.raises(ValueError, match="version 3 is unknown, expected 2"):
        decode_snapshot(newer)
    assert newer.startswith(MAGIC)
