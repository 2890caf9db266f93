"""A pack: a whole log in one immutable file, to hand on, to archive, to check its origin.

The bytes are a function of the log alone, not of how it lay in its store: the same log gives the
same pack on every machine. A checksum is over all of them.
"""

from typing import Final

import msgspec

from placet.schemas.codec import Json
from placet.schemas.log.envelope import Envelope

PACK_VERSION: Final = 1
PACK_MAGIC: Final = b"placet pack\n"
ENVELOPE: Final = Envelope("pack", PACK_MAGIC, PACK_VERSION)


class Pack(msgspec.Struct, array_like=True, frozen=True, kw_only=True, gc=False):
    """A log, or the end of one.

    Attributes:
        version: Of this form.
        about: Description that needs no fold: world, seed, domains with their settings and
            fingerprint, first and last position, state digest and last hash.
        first_record: Ordinal number of the first record.
        after_seq: Sequence number of the world before that.
        snapshots: What led there, encoded; none where it begins at the front.
        records: The records, encoded.
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
