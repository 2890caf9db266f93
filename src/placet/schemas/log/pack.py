"""A pack: a whole log in one immutable file, to hand on, to archive, to check its origin.

The bytes depend only on the log, not on its store: the same log makes the same pack on every
machine. A checksum covers all bytes.
"""

from typing import Final

import msgspec

from placet.schemas.codec import Json
from placet.schemas.log.envelope import Envelope

PACK_VERSION: Final = 1
PACK_MAGIC: Final = b"placet pack\n"
ENVELOPE: Final = Envelope("pack", PACK_MAGIC, PACK_VERSION)


class Pack(msgspec.Struct, array_like=True, frozen=True, kw_only=True, gc=False):
    """A log, or the retained end of a compacted log.

    Attributes:
        version: Version of this format.
        about: Description that needs no fold: world, seed, domains with their settings and
            fingerprint, first and last position, state digest and last hash.
        first_record: Ordinal number of the first record.
        after_seq: Sequence number of the world before the first record.
        snapshots: Encoded snapshots of the world before the first record; empty for a whole log.
        records: Encoded records.
    """

    version: int
    about: dict[str, Json]
    first_record: int
    after_seq: int
    snapshots: list[bytes]
    records: list[bytes]


_ENCODE: Final = msgspec.msgpack.Encoder(order="deterministic").encode
_DECODE: Final = msgspec.msgpack.Decoder(Pack).decode


def encode_pack(pack: Pack) -> bytes:
    """Return the bytes of a pack."""
    return ENVELOPE.wrap(_ENCODE(pack))


def decode_pack(data: bytes) -> Pack:
    """Read a pack.

    Raises:
        ValueError: The bytes are not a pack, are damaged, or have another version.
    """
    try:
        return _DECODE(ENVELOPE.unwrap(data))
    except RecursionError as error:
        raise ValueError("it is nested too deeply to be read") from error
