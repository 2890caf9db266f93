"""A record without its place in a chain: what two logs are compared by."""

from typing import Final

from placet.schemas.log.record import HASH_BYTES

_HASH_ITEM_BYTES: Final = 2 + HASH_BYTES
_FIXARRAY: Final = 0x90


def record_body(data: bytes) -> bytes:
    """Return the bytes of a record without the hash of the one before it, to compare two logs by.

    A record is an array header of one byte or three, a tag of one byte, and then that hash.
    """
    tag = 1 if data[0] & 0xF0 == _FIXARRAY else 3
    return data[tag : tag + 1] + data[tag + 1 + _HASH_ITEM_BYTES :]
