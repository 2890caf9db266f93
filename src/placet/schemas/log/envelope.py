"""The envelope of a snapshot and of a pack: a magic, a checksum over the body, the body.

The body is a msgpack array whose first item is the version of its format. The magic tells the two
kinds of file apart, and the checksum detects a changed byte or a truncated file.
"""

from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

CHECKSUM_BYTES: Final = 16
_ITEMS: Final = msgspec.msgpack.Decoder(list[msgspec.Raw])


class Envelope(NamedTuple):
    """One format of file.

    Attributes:
        name: Name of the format in messages.
        magic: First bytes of the file.
        version: Version of the body that this release writes and reads.
    """

    name: str
    magic: bytes
    version: int

    def wrap(self, body: bytes) -> bytes:
        """Return the bytes of the file that holds a body."""
        return self.magic + _checksum(body) + body

    def unwrap(self, data: bytes) -> bytes:
        """Return the body of a file.

        Raises:
            ValueError: The magic, the checksum or the version is another.
        """
        start = len(self.magic) + CHECKSUM_BYTES
        body = data[start:]
        if data[: len(self.magic)] != self.magic:
            raise ValueError(f"it does not begin as a {self.name} does")
        if data[len(self.magic) : start] != _checksum(body):
            raise ValueError("it fails its checksum: a byte of it was changed, or it was cut")
        self._require_version(body)
        return body

    def _require_version(self, body: bytes) -> None:
        # Read before the body is decoded: another version may have other fields.
        version = msgspec.msgpack.decode(_ITEMS.decode(body)[0])
        if version != self.version:
            raise ValueError(
                f"{self.name} version {version!r} is unknown, expected {self.version}; "
                "another release may have written it"
            )


def _checksum(body: bytes) -> bytes:
    return blake2b(body, digest_size=CHECKSUM_BYTES).digest()
