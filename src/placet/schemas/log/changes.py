"""The state changes of a record, and the common head of records.

The parts of a record that are no record by themselves: `schemas/log/record.py` and
`schemas/log/operator_records.py` are made of them.
"""

import msgspec

from placet.schemas.codec import Json


class EntityChange(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The changes of one entity in a record.

    Attributes:
        collection: The collection's name.
        entity: The entity's id.
        fields: New values; None when the entity was deleted.
        is_whole: The fields are all there are: the entity was created, or made anew.
        seq: Stamp: sequence number of the latest change.
        by: Stamp: who made it.
        foreign_seq: Stamp: sequence number of the latest change by anyone but `by`.
    """

    collection: str
    entity: str
    fields: dict[str, Json] | None
    is_whole: bool
    seq: int
    by: str
    foreign_seq: int


class CollectionChange(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The stamp that a record left on a collection in which it created or deleted."""

    collection: str
    seq: int
    by: str
    foreign_seq: int


class Changes(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """All that a record did to the state."""

    entities: list[EntityChange] = []
    collections: list[CollectionChange] = []


class Entry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The common head of every record.

    Attributes:
        prev: Hash of the record before it.
        seq: Sequence number of the world after it.
        now_ns: Simulated time in nanoseconds.
    """

    prev: bytes
    seq: int
    now_ns: int
