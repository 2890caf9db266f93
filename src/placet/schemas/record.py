"""One durable entry of the log, and the chain that binds entries together.

A record is an array-like struct in canonical msgpack whose first item is its tag. It carries the
hash of the record before it, so a log can be checked by anyone who can read msgpack and compute
blake2b-128. Fields are only ever added at the end, with a default: logs of older releases replay.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from placet.schemas.codec import Json, from_canonical

FORMAT_VERSION: Final = 1
HASH_BYTES: Final = 16
GENESIS: Final = bytes(HASH_BYTES)
"""What the first record names as the hash before it."""


class EntityChange(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What a record did to one entity.

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


class _Record(msgspec.Struct, array_like=True, frozen=True):
    """What every record begins with.

    Attributes:
        prev: Hash of the record before it.
        seq: Sequence number of the world after it.
        now_ns: Simulated time in nanoseconds.
    """

    prev: bytes
    seq: int
    now_ns: int


class Header(_Record, array_like=True, frozen=True, tag=0):
    """The first record: what the log is a log of, and what its domains began with.

    Attributes:
        settings: For each domain by name, the keywords that make it again; absent where it has
            none to give.
        origin: What began the log, as its program wants to find it again; `{}` is nothing said.
        kinds: Version of every kind.
        validator: Name of the host's own rule, which the log cannot hold; empty if there is none.
    """

    format_version: int
    world: str
    seed: int
    domains: list[tuple[str, str]]
    fingerprint: str
    changes: Changes
    settings: dict[str, dict[str, Json]] = {}
    origin: dict[str, Json] = {}
    kinds: dict[str, str] = {}
    validator: str = ""


class Configured(_Record, array_like=True, frozen=True, tag=1):
    """The policy by which what follows is decided. Quotas are `[interval_ns, burst]`."""

    staleness_threshold: int | None
    quotas: dict[str, tuple[int, int]]
    world_quota: tuple[int, int] | None
    default_permissions: list[str] | None
    limits: dict[str, int]


class Registered(_Record, array_like=True, frozen=True, tag=2):
    """An agent came. `quotas` are its own."""

    agent_id: str
    owner: str
    permissions: list[str] | None
    priority_max: int
    quotas: dict[str, tuple[int, int]]
    placing: dict[str, Json]
    changes: Changes


class AgentChanged(_Record, array_like=True, frozen=True, tag=3):
    """An agent's standing changed: `permissions`, `suspended`, `resumed` or `removed`."""

    agent_id: str
    what: str
    permissions: list[str] | None
    changes: Changes


class ExecutorChanged(_Record, array_like=True, frozen=True, tag=4):
    """An executor of an effect kind came, or went (`depth_max` None)."""

    kind: str
    depth_max: int | None


class _BatchBody(_Record, array_like=True, frozen=True):
    """What the three records of a batch share.

    Attributes:
        batch_id: Name of the batch.
        submitter: Who handed it in.
        fingerprint: 64 bits over its content.
        encoded: One msgpack array of `[agent_id, req_id, kind, payload, priority]`.
        contexts: `context_seq` of each intent.
        valid_until_ns: Latest time of each intent, or None.
        due_of: Schedule entry that it comes from; None on arrival.
        group_seq: Sequence number of the world when its group was opened: batches that agree in it
            were decided together, for claims and for the fair order.
    """

    batch_id: str
    submitter: str
    fingerprint: int
    encoded: bytes
    contexts: list[int]
    valid_until_ns: list[int | None] | None
    due_of: int | None
    group_seq: int


class Admitted(_BatchBody, array_like=True, frozen=True, tag=5):
    """A batch that passed.

    Attributes:
        order: Positions in order of execution; None where that is the submitted order.
        changes: What it did.
        effects: `[seq, kind, payload, agent_id]` of each effect, k being its place here.
        normalized: `[position, payload]` of each payload that the rules rewrote.
        notices: `[position, [[code, message, at], ...]]` of each intent that has any.
    """

    order: list[int] | None
    changes: Changes
    effects: list[tuple[int, str, dict[str, Json], str]]
    normalized: list[tuple[int, dict[str, Json]]] | None
    notices: list[tuple[int, list[tuple[str, str, str]]]] | None


class Refused(_BatchBody, array_like=True, frozen=True, tag=6):
    """A batch whose refusal is final. `refusals` are `[index, stage, code, message]`."""

    refusals: list[tuple[int | None, str, str, str]]


class Scheduled(_BatchBody, array_like=True, frozen=True, tag=7):
    """A batch accepted for later; its quota is charged.

    Attributes:
        number: Of its entry in the schedule.
        due_ns: When it is due, simulated nanoseconds.
        versions: Of its kinds as they were: when it is due, they may be newer.
    """

    number: int
    due_ns: int
    versions: dict[str, str] = {}


class Tick(_Record, array_like=True, frozen=True, tag=8):
    """One step of simulated time."""

    changes: Changes


class Settled(_Record, array_like=True, frozen=True, tag=9):
    """An effect's outcome came back."""

    effect_seq: int
    k: int
    succeeded: bool
    output: Json
    changes: Changes


class Checkpoint(_Record, array_like=True, frozen=True, tag=10):
    """The state digest at this point, to check a fold against."""

    state_digest: bytes


class RulesChanged(_Record, array_like=True, frozen=True, tag=11):
    """Other rules decide from here on. The fields are the header's, as they are now."""

    domains: list[tuple[str, str]]
    fingerprint: str
    settings: dict[str, dict[str, Json]]
    kinds: dict[str, str]
    validator: str


Record = (
    Header
    | Configured
    | Registered
    | AgentChanged
    | ExecutorChanged
    | Admitted
    | Refused
    | Scheduled
    | Tick
    | Settled
    | Checkpoint
    | RulesChanged
)

_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")
_DECODER: Final[msgspec.msgpack.Decoder[Record]] = msgspec.msgpack.Decoder(Record)

encode_record = _ENCODER.encode


def decode_record(data: bytes) -> Record:
    """Read one record.

    Raises:
        ValueError: The bytes are not a record of a known format.
    """
    return _DECODER.decode(data)


def record_hash(data: bytes) -> bytes:
    """Give the hash by which the next record will name this one."""
    return blake2b(data, digest_size=HASH_BYTES).digest()


_HASH_ITEM_BYTES: Final = 2 + HASH_BYTES
_FIXARRAY: Final = 0x90


def record_body(data: bytes) -> bytes:
    """Give the bytes of a record without the hash of the one before it, to compare two logs by.

    A record is an array header of one byte or three, a tag of one byte, and then that hash.
    """
    tag = 1 if data[0] & 0xF0 == _FIXARRAY else 3
    return data[tag : tag + 1] + data[tag + 1 + _HASH_ITEM_BYTES :]


_TYPES: Final[dict[type, str]] = {
    Header: "header",
    Configured: "configured",
    Registered: "registered",
    AgentChanged: "agent_changed",
    ExecutorChanged: "executor_changed",
    Admitted: "batch",
    Refused: "refused",
    Scheduled: "scheduled",
    Tick: "tick",
    Settled: "settled",
    Checkpoint: "checkpoint",
    RulesChanged: "rules_changed",
}


def record_type(record: Record) -> str:
    """Name the type of a record as people read it."""
    return _TYPES[type(record)]


class LogGroup(NamedTuple):
    """Records that become durable together: one group of batches.

    Attributes:
        first_record: Ordinal number of the first of them in the log, from 0.
        seq_before: Sequence number of the world before them.
        seq: Sequence number of the world after them.
        records: The records, encoded.
    """

    first_record: int
    seq_before: int
    seq: int
    records: Sequence[bytes]


class LogStart(NamedTuple):
    """Where a log begins: at (0, 0), or where compaction has cut it off.

    Attributes:
        record: Ordinal of the first record that is kept.
        seq: Sequence number of the world before it: what led there is gone.
    """

    record: int = 0
    seq: int = 0


def intents_of(record: Admitted | Refused | Scheduled) -> list[dict[str, Json]]:
    """Rebuild the intents of a batch from its record, in the submitted order."""
    until = record.valid_until_ns or [None] * len(record.contexts)
    intents = []
    for (agent_id, req_id, kind, payload, priority), context_seq, until_ns in zip(
        from_canonical(record.encoded), record.contexts, until, strict=True
    ):
        intent = {
            "kind": kind,
            "payload": payload,
            "agent_id": agent_id,
            "req_id": req_id,
            "context_seq": context_seq,
            "priority": priority,
        }
        if until_ns is not None:
            intent["valid_until"] = until_ns / 1e9
        intents.append(intent)
    return intents


def record_as_dict(record: Record) -> dict[str, Json]:
    """Give a record's own fields as plain JSON, without the chain and the common head."""
    fields = {name: msgspec.to_builtins(getattr(record, name)) for name in record.__struct_fields__}
    for name in ("prev", "seq", "now_ns"):
        del fields[name]
    if isinstance(record, Admitted | Refused | Scheduled):
        for name in ("encoded", "contexts", "valid_until_ns"):
            del fields[name]
        fields["intents"] = intents_of(record)
        fields["fingerprint"] = f"{record.fingerprint:016x}"
    if isinstance(record, Checkpoint):
        fields["state_digest"] = record.state_digest.hex()
    if "changes" in fields:
        fields["changes"] = _changes_as_list(record.changes)  # type: ignore[union-attr]  # has it
    return fields


def _changes_as_list(changes: Changes) -> list[dict[str, Json]]:
    return [
        {
            "entity": f"{change.collection}/{change.entity}",
            "fields": change.fields,
            "whole": change.is_whole,
            "seq": change.seq,
            "by": change.by,
        }
        for change in changes.entities
    ]
