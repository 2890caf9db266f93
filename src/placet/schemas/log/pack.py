"""A pack: a whole log in one immutable file, to hand on, to archive, to check its origin.

The bytes are a function of the log alone, not of how it lay in its store: the same log gives the
same pack on every machine. A checksum is over all of them.
"""

from hashlib import blake2b
from typing import Final

import msgspec

from placet.schemas.codec import Json

PACK_VERSION: Final = 1
PACK_MAGIC: Final = b"placet pack\n"
_CHECKSUM_BYTES: Final = 16


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
    """Write a pack: a mark, a checksum over the rest, the rest."""
    body = _ENCODE(pack)
    return PACK_MAGIC + _checksum(body) + body


def decode_pack(data: bytes) -> Pack:
    """Read a pack.

    Raises:
        ValueError: The bytes are none, are damaged, or are of another version.
    """
    start = len(PACK_MAGIC) + _CHECKSUM_BYTES
    body = data[start:]
    if data[: len(PACK_MAGIC)] != PACK_MAGIC:
        raise ValueError("it does not begin as a pack does")
    if data[len(PACK_MAGIC) : start] != _checksum(body):
        raise ValueError("it fails its checksum: a byte of it was changed, or it was cut")
    try:
        pack = _DECODE(body)
    except RecursionError as error:
        raise ValueError("it is nested too deeply to be read") from error
    if pack.version != PACK_VERSION:
        raise ValueError(
            f"pack version {pack.version!r} is unknown, expected {PACK_VERSION}; "
            "another release may have written it"
        )
    return pack


def _checksum(body: bytes) -> bytes:
    return blake2b(body, digest_size=_CHECKSUM_BYTES).digest()
