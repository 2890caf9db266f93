"""One durable entry of the log, and the chain that binds entries together.

A record is an array-like struct in canonical msgpack whose first item is its tag. It carries the
hash of the record before it, so a log can be checked by anyone who can read msgpack and compute
blake2b-128. Fields are only ever added at the end, with a default: logs of older releases replay.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from placet.schemas.codec import Json
from placet.schemas.effect import EffectMark
from placet.schemas.errors import StoreError

# Re-exported by name: whoever reads a record reads its parts here.
from placet.schemas.log.changes import Changes as Changes  # noqa: PLC0414
from placet.schemas.log.changes import CollectionChange as CollectionChange  # noqa: PLC0414
from placet.schemas.log.changes import EntityChange as EntityChange  # noqa: PLC0414
from placet.schemas.log.changes import Entry
from placet.schemas.log.intents import checked_intents
from placet.schemas.log.operator_records import ForkAdopted as ForkAdopted  # noqa: PLC0414
from placet.schemas.log.operator_records import Patched as Patched  # noqa: PLC0414

FORMAT_VERSION: Final = 1
HASH_BYTES: Final = 16
GENESIS: Final = bytes(HASH_BYTES)
"""What the first record names as the hash before it."""


class _Record(Entry, msgspec.Struct, array_like=True, frozen=True):
    """Base of the records of this file; it lets a linter recognize a struct."""


class Header(_Record, array_like=True, frozen=True, tag=0):
    """The first record: the world's identity, its rules, and the domains' initial state.

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


class Forked(Header, array_like=True, frozen=True, tag=23):
    """The header in force where a world was forked from another: in snapshots, and in no log.

    Attributes:
        forked_from: World and seq that this one was forked from; what came before is its own.
    """

    forked_from: tuple[str, int] = ("", 0)


class Configured(_Record, array_like=True, frozen=True, tag=1):
    """The settings for the decisions that follow. Quotas are `[interval_ns, burst]`."""

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
    attributes: dict[str, Json]
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
    """The common fields of the three batch records.

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
        changes: State changes of the batch.
        effects: `[seq, kind, payload, agent_id]` of each effect, in order of `effect_index`.
        normalized: `[position, payload]` of each payload that the rules rewrote.
        notices: `[position, [[code, message, at], ...]]` of each intent that has any.
    """

    order: list[int] | None
    changes: Changes
    effects: list[tuple[int, str, dict[str, Json], str]]
    normalized: list[tuple[int, dict[str, Json]]] | None
    notices: list[tuple[int, list[tuple[str, str, str]]]] | None


class AdmittedWithOutput(Admitted, array_like=True, frozen=True, tag=20):
    """A batch that passed and whose rules had something to tell.

    It has a separate tag, so that batches without output keep their bytes.

    Attributes:
        answers: `[position, value]` of each intent whose rule answered.
    """

    answers: list[tuple[int, Json]] = []


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
    effect_index: int
    succeeded: bool
    output: Json
    changes: Changes


class Checkpoint(_Record, array_like=True, frozen=True, tag=10):
    """The state digest at this point, to check a fold against."""

    state_digest: bytes


class EffectChanged(_Record, array_like=True, frozen=True, tag=24):
    """An effect that is done at most once was `started`, or came to be `in_doubt`.

    Written before the attempt begins; no other class of effects needs it.

    Attributes:
        why: In words; empty for a start.
    """

    effect_seq: int
    effect_index: int
    what: EffectMark
    why: str = ""


class RulesChanged(_Record, array_like=True, frozen=True, tag=11):
    """Other rules decide from here on. The fields are the header's, as they are now."""

    domains: list[tuple[str, str]]
    fingerprint: str
    settings: dict[str, dict[str, Json]]
    kinds: dict[str, str]
    validator: str


Record = (
    Header
    | Forked
    | Configured
    | Registered
    | AgentChanged
    | ExecutorChanged
    | Admitted
    | AdmittedWithOutput
    | Refused
    | Scheduled
    | Tick
    | Settled
    | Checkpoint
    | EffectChanged
    | RulesChanged
    | ForkAdopted
    | Patched
)

_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")
_DECODER: Final[msgspec.msgpack.Decoder[Record]] = msgspec.msgpack.Decoder(Record)

encode_record = _ENCODER.encode


def decode_record(data: bytes) -> Record:
    """Read one record.

    Raises:
        ValueError: The bytes are not a record of a known format.
    """
    try:
        return _DECODER.decode(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply to be read") from error


_HASH: Final = blake2b(digest_size=HASH_BYTES)
"""Copied for each record: to make a hash with its options takes half as long again."""


def record_hash(data: bytes) -> bytes:
    """Return the hash by which the next record will name this one."""
    hashed = _HASH.copy()
    hashed.update(data)
    return hashed.digest()


_HASH_ITEM_BYTES: Final = 2 + HASH_BYTES
_FIXARRAY: Final = 0x90


def record_body(data: bytes) -> bytes:
    """Return the bytes of a record without the hash of the one before it, to compare two logs by.

    A record is an array header of one byte or three, a tag of one byte, and then that hash.
    """
    tag = 1 if data[0] & 0xF0 == _FIXARRAY else 3
    return data[tag : tag + 1] + data[tag + 1 + _HASH_ITEM_BYTES :]


_TYPES: Final[dict[type, str]] = {
    Header: "header",
    Forked: "header",
    Configured: "configured",
    Registered: "registered",
    AgentChanged: "agent_changed",
    ExecutorChanged: "executor_changed",
    Admitted: "batch",
    AdmittedWithOutput: "batch",
    Refused: "refused",
    Scheduled: "scheduled",
    Tick: "tick",
    Settled: "settled",
    Checkpoint: "checkpoint",
    EffectChanged: "effect_changed",
    RulesChanged: "rules_changed",
    ForkAdopted: "fork_adopted",
    Patched: "patched",
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
    """Rebuild the intents of a batch from its record, in the submitted order.

    Raises:
        StoreError: There are none in it: the record is of a known form, and no gate has written it.
    """
    try:
        intents = checked_intents(record.encoded, record.contexts, record.valid_until_ns)
    except ValueError as error:
        raise StoreError(
            f"the log is damaged: the batch {record.batch_id!r} of seq {record.seq} holds no "
            f"intents ({error}); `placet verify` says how far the log can be trusted",
            seq=record.seq,
        ) from error
    return [
        {name: value for name, value in intent.items() if name != "schema_version"}
        for intent in intents
    ]


def record_as_dict(record: Record) -> dict[str, Json]:
    """Return a record's own fields as plain JSON, without the chain and the common head."""
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
