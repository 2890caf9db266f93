"""The changes of state and agents in a record, and the common head of records.

These are parts of records: `schemas/log/record.py` and `schemas/log/operator_records.py` use them.
"""

import msgspec

from placet.schemas.codec import Json


class EntityChange(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The changes of one entity in a record.

    Attributes:
        collection: The collection's name.
        entity: The entity's id.
        fields: New values; None when the entity was deleted.
        is_whole: `fields` has all fields, because the entity was created or replaced.
        seq: Stamp: sequence number of the latest change.
        by: Stamp: agent of the latest change.
        foreign_seq: Stamp: sequence number of the latest change by another agent than `by`.
    """

    collection: str
    entity: str
    fields: dict[str, Json] | None
    is_whole: bool
    seq: int
    by: str
    foreign_seq: int


class CollectionChange(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The new stamp of a collection in which a record created or deleted an entity."""

    collection: str
    seq: int
    by: str
    foreign_seq: int


class Changes(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """All state changes of a record."""

    entities: list[EntityChange] = []
    collections: list[CollectionChange] = []


class AgentChange(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An agent that a rule registered or removed, in the record of its batch or tick.

    Attributes:
        agent_id: Its name.
        is_removed: It was removed; else it was registered.
        cohort: Cohort of a registered agent, by which a run finds its policy; None for none.
        permissions: Kinds that a registered agent may propose; None is all kinds.
        attributes: Attributes of a registered agent.
    """

    agent_id: str
    is_removed: bool = False
    cohort: str | None = None
    permissions: list[str] | None = None
    attributes: dict[str, Json] = {}


class RecordHead(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The common head of every record.

    Attributes:
        prev: Hash of the record before it.
        seq: Sequence number of the world after it.
        now_ns: Simulated time in nanoseconds.
    """

    prev: bytes
    seq: int
    now_ns: int
