"""The records of the log, and the hash chain that connects them.

A record is an array-like struct in canonical msgpack whose first item is its tag. It carries the
hash of the record before it, so a log can be checked by anyone who can read msgpack and compute
blake2b-128. Fields are only ever added at the end, with a default: logs of older releases replay.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple, get_args

import msgspec

from placet.schemas.codec import Json
from placet.schemas.config import LeaseSettings
from placet.schemas.effect import EffectMark
from placet.schemas.errors import LogFormatError, StoreError

# Re-exported, so that code that reads records imports their parts from one module.
from placet.schemas.log.changes import AgentChange as AgentChange  # noqa: PLC0414
from placet.schemas.log.changes import Changes as Changes  # noqa: PLC0414
from placet.schemas.log.changes import CollectionChange as CollectionChange  # noqa: PLC0414
from placet.schemas.log.changes import EntityChange as EntityChange  # noqa: PLC0414
from placet.schemas.log.changes import RecordHead
from placet.schemas.log.column_records import Columns as Columns  # noqa: PLC0414
from placet.schemas.log.column_records import ColumnWrite
from placet.schemas.log.column_records import TableMade as TableMade  # noqa: PLC0414
from placet.schemas.log.column_summary import (
    columns_as_dict,
    columns_written,
    table_as_dict,
)
from placet.schemas.log.intents import checked_intents
from placet.schemas.log.operator_records import ForkAdopted as ForkAdopted  # noqa: PLC0414
from placet.schemas.log.operator_records import ForkWithOrigin as ForkWithOrigin  # noqa: PLC0414
from placet.schemas.log.operator_records import Patched as Patched  # noqa: PLC0414

FORMAT_VERSION: Final = 2
"""Records of this version grow only at their end, with defaults; the first item of a record is
its tag, and new types have new tags. So a later release reads and writes the same bytes.
"""

HASH_BYTES: Final = 16
GENESIS: Final = bytes(HASH_BYTES)
"""`prev` of the first record."""


class _Record(RecordHead, msgspec.Struct, array_like=True, frozen=True):
    """Base of the records of this file; it lets a linter recognize a struct."""


class Header(_Record, array_like=True, frozen=True, tag=0):
    """Log record, the first: the world's identity, its rules, and the domains' initial state.

    Attributes:
        settings: Name of a domain -> keywords that recreate it; absent for a domain without
            `settings`.
        origin: Origin of the log in a form that its program can find again; `{}` if none.
        kinds: Version of every kind.
        validator: Name of the effect validator, whose code the log cannot hold; empty if none.
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
    """The header in force in a fork; it occurs in snapshots, never in a log.

    Attributes:
        forked_from: Name of the parent world and seq of the fork.
    """

    forked_from: tuple[str, int] = ("", 0)


class Configured(_Record, array_like=True, frozen=True, tag=1):
    """Log record: gate settings for the decisions after it. Quotas are `[interval_ns, burst]`.

    Written after the header, and when the world is opened with other settings than those in force.
    """

    staleness_threshold: int | None
    quotas: dict[str, tuple[int, int]]
    world_quota: tuple[int, int] | None
    default_permissions: list[str] | None
    limits: dict[str, int]

    @property
    def lease_settings(self) -> LeaseSettings | None:
        """The settings of leases; None if the world has none from here on."""
        return None


class ConfiguredWithLeases(Configured, array_like=True, frozen=True, tag=35):
    """A `Configured` record of a world with leases; worlds without leases write `Configured`.

    Attributes:
        leases: The fields of `LeaseSettings`.
    """

    leases: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)

    @property
    def lease_settings(self) -> LeaseSettings:
        """The settings of leases."""
        return LeaseSettings(*self.leases)


class Registered(_Record, array_like=True, frozen=True, tag=2):
    """Log record: an agent was registered, with the state changes of the domains' `on_register`.

    `quotas` apply to this agent only. `permissions` None is all kinds.
    """

    agent_id: str
    owner: str
    permissions: list[str] | None
    priority_max: int
    quotas: dict[str, tuple[int, int]]
    attributes: dict[str, Json]
    changes: Changes


class AgentChanged(_Record, array_like=True, frozen=True, tag=3):
    """Log record: an agent was changed.

    `what` is `permissions`, `suspended`, `resumed` or `removed`. `permissions` are the new ones of
    the first, None is all kinds. `changes` are those of the domains' `on_remove`.
    """

    agent_id: str
    what: str
    permissions: list[str] | None
    changes: Changes


class ExecutorChanged(_Record, array_like=True, frozen=True, tag=4):
    """Log record: an executor of an effect kind was registered, or removed (`depth_max` None).

    `depth_max` is the maximum number of effects of the kind in the outbox.
    """

    kind: str
    depth_max: int | None


class _BatchBody(_Record, array_like=True, frozen=True):
    """The common fields of the three batch records.

    Attributes:
        batch_id: Name of the batch.
        submitter: The submitting agent, or `operator`.
        fingerprint: 64-bit hash of its content.
        encoded: One msgpack array of `[agent_id, req_id, kind, payload, priority]`.
        contexts: `context_seq` of each intent.
        valid_until_ns: Latest time of each intent, or None.
        due_of: Number of its schedule entry; None on arrival.
        group_seq: Sequence number of the world when its group was opened.
        tick: Number of ticks before.
        group: Number of its group within the tick, of those with a record. Batches with the same
            tick and group were decided together, which matters for claims and for the fair order.
    """

    batch_id: str
    submitter: str
    fingerprint: int
    encoded: bytes
    contexts: list[int]
    valid_until_ns: list[int | None] | None
    due_of: int | None
    group_seq: int
    tick: int
    group: int


class Admitted(_BatchBody, array_like=True, frozen=True, tag=5):
    """Log record of an admitted batch: its changes are in the state, its effects in the outbox.

    Written when the batch is decided: on arrival, or if `due_of` is set, when it was due.

    Attributes:
        order: Positions in order of execution; None for the submitted order.
        changes: State changes of the batch.
        effects: `[seq, kind, payload, agent_id]` of each effect, in order of `effect_index`.
        normalized: `[position, payload]` of each payload that the rules changed.
        notices: `[position, [[code, message, at], ...]]` of each intent with warnings.
    """

    order: list[int] | None
    changes: Changes
    effects: list[tuple[int, str, dict[str, Json], str]]
    normalized: list[tuple[int, dict[str, Json]]] | None
    notices: list[tuple[int, list[tuple[str, str, str]]]] | None


class AdmittedWithOutput(Admitted, array_like=True, frozen=True, tag=20):
    """Log record of an admitted batch whose rules returned output.

    It has a separate tag, so that batches without output keep their bytes.

    Attributes:
        answers: `[position, value]` of each intent whose rule returned output.
    """

    answers: list[tuple[int, Json]] = []


class AdmittedWithWork(AdmittedWithOutput, array_like=True, frozen=True, tag=25):
    """Log record of an admitted batch in a world with a quota of work; `answers` may be empty.

    Attributes:
        work: Units of work charged to the quotas of work.
    """

    work: int = 0


class AdmittedWithAgents(AdmittedWithWork, array_like=True, frozen=True, tag=28):
    """Log record of an admitted batch whose rules registered or removed agents.

    `answers` may be empty, and `work` 0. A registered agent is its own owner.

    Attributes:
        agents: The agents that were registered and removed, in order.
    """

    agents: list[AgentChange] = []


class SingleBlock(_Record, array_like=True, frozen=True, tag=27):
    """Log record of consecutive single batches (plain ones of one intent), in execution order.

    One record and one hash for many batches. Each is still all or nothing, with its seq;
    `expanded` returns the records that the batches would have had by themselves. A batch of
    several intents, a dry run, a scheduled, due or dated batch is never in a `SingleBlock`.

    Attributes:
        group_seq: Sequence number of the world when the group was opened.
        tick: Number of ticks before.
        group: Number of the group within the tick.
        numbers: Number of each batch: `b{number}` is its name.
        submitters: The submitter of all batches; a list, one of each batch; None, the agent of
            its intent.
        encoded: One msgpack array of `[agent_id, req_id, kind, payload, priority]`, one a batch.
        contexts: `context_seq` of all batches, or a list, one of each batch.
        keys: `[collection, field]`, numbered from 0 by `puts`.
        puts: The change of each admitted batch, in order: `[key, entity, value, foreign_seq]` if
            it set one field of one entity, where entity None is the agent of its intent; None if
            it changed nothing, or if its changes are in `changes`.
        refused: `[place, index, stage, code, message]` of each final refusal. Places count the
            batches of the record from 0.
        other_changes: `[place, changes]` of each admitted batch with other changes than one put.
        effects: `[place, seq, kind, payload, agent_id]` of each effect.
        normalized: `[place, payload]` of each payload that a rule changed.
        notices: `[place, [[code, message, at], ...]]` of each intent with warnings.
        answers: `[place, value]` of each intent whose rule returned output.
        work: `[place, units]` of each batch charged to a quota of work.
    """

    group_seq: int
    tick: int
    group: int
    numbers: list[int]
    submitters: str | list[str] | None
    encoded: bytes
    contexts: int | list[int]
    keys: list[tuple[str, str]]
    puts: list[tuple[int, str | None, Json, int] | None]
    refused: list[tuple[int, int | None, str, str, str]] = []
    other_changes: list[tuple[int, Changes]] = []
    effects: list[tuple[int, int, str, dict[str, Json], str]] = []
    normalized: list[tuple[int, dict[str, Json]]] = []
    notices: list[tuple[int, list[tuple[str, str, str]]]] = []
    answers: list[tuple[int, Json]] = []
    work: list[tuple[int, int]] = []


class SingleBlockWithAgents(SingleBlock, array_like=True, frozen=True, tag=29):
    """A `SingleBlock` of which a batch registered or removed agents.

    It has a separate tag, so that other blocks keep their bytes.

    Attributes:
        agents: `[place, agents]` of each such batch, as `AdmittedWithAgents.agents`.
    """

    agents: list[tuple[int, list[AgentChange]]] = []


class Refused(_BatchBody, array_like=True, frozen=True, tag=6):
    """Log record of a batch whose refusal is final: sent again, it is refused the same.

    Written for refusals at the stages `staleness` and `domain`, and for each refused batch of the
    schedule. Other refusals leave no record, because a retry may succeed. `refusals` are
    `[index, stage, code, message]`.
    """

    refusals: list[tuple[int | None, str, str, str]]


class Scheduled(_BatchBody, array_like=True, frozen=True, tag=7):
    """Log record of a batch put in the schedule: it is charged now, and decided when it is due.

    Its quotas are charged at this record. Its rules run when it is due; then it may still be
    refused, and a batch record with its number as `due_of` is written.

    Attributes:
        number: Number of its entry in the schedule.
        due_ns: Simulated time at which it is due, nanoseconds.
        versions: Versions of its kinds when it was accepted; they may be newer when it is due.
    """

    number: int
    due_ns: int
    versions: dict[str, str] = {}


class Tick(_Record, array_like=True, frozen=True, tag=8):
    """Log record of the end of a step of simulated time, with the changes of `on_tick`.

    It follows the batches of the step, and is written also if nothing changed.
    """

    changes: Changes


class TickWithAgents(Tick, array_like=True, frozen=True, tag=30):
    """A `Tick` whose `on_tick` registered or removed agents.

    Attributes:
        agents: As `AdmittedWithAgents.agents`.
    """

    agents: list[AgentChange] = []


class TickWithColumns(TickWithAgents, array_like=True, frozen=True, tag=33):
    """A `Tick` whose `on_tick` wrote columns of tables.

    Attributes:
        written: The written columns, which precede `changes`.
    """

    written: list[ColumnWrite] = []


class Settled(_Record, array_like=True, frozen=True, tag=9):
    """Log record: an effect was settled with its outcome, and left the outbox.

    Written once for each effect, after its executor or an operator settled it. `changes` are those
    of the domains' `on_settle`.
    """

    effect_seq: int
    effect_index: int
    succeeded: bool
    output: Json
    changes: Changes


class SettledWithColumns(Settled, array_like=True, frozen=True, tag=34):
    """A `Settled` whose `on_settle` wrote columns of tables.

    Attributes:
        written: The written columns, which precede `changes`.
    """

    written: list[ColumnWrite] = []


class SettlementFailed(Settled, array_like=True, frozen=True, tag=26):
    """Log record of a dead letter: an effect's outcome is known, and `on_settle` raised.

    The effect stays in the outbox with its outcome until `on_settle` accepts it. It has a separate
    tag, so that other settlements keep their bytes.

    Attributes:
        error: The exception, as text.
    """

    error: str = ""


class Checkpoint(_Record, array_like=True, frozen=True, tag=10):
    """Log record of the state digest, which a replay compares with its digest.

    Written after every `checkpoint_groups` groups that have records; it takes no seq.
    """

    state_digest: bytes


class EffectChanged(_Record, array_like=True, frozen=True, tag=24):
    """Log record: an `at_most_once` effect was `started`, or is `in_doubt`.

    `started` is durable before the attempt begins. Effects of other deliveries have no such record.

    Attributes:
        why: Reason of the doubt; empty for `started`.
    """

    effect_seq: int
    effect_index: int
    what: EffectMark
    why: str = ""


class RulesChanged(_Record, array_like=True, frozen=True, tag=11):
    """Log record: other rules decide after it. The fields replace those of the header.

    Written when the world is opened with rules that are not those in force.
    """

    domains: list[tuple[str, str]]
    fingerprint: str
    settings: dict[str, dict[str, Json]]
    kinds: dict[str, str]
    validator: str


Record = (
    Header
    | Forked
    | Configured
    | ConfiguredWithLeases
    | Registered
    | AgentChanged
    | ExecutorChanged
    | Admitted
    | AdmittedWithOutput
    | AdmittedWithWork
    | AdmittedWithAgents
    | SingleBlock
    | SingleBlockWithAgents
    | Refused
    | Scheduled
    | Tick
    | TickWithAgents
    | TickWithColumns
    | Settled
    | SettledWithColumns
    | SettlementFailed
    | Checkpoint
    | EffectChanged
    | RulesChanged
    | ForkAdopted
    | ForkWithOrigin
    | Patched
    | TableMade
    | Columns
)

_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")
_DECODER: Final[msgspec.msgpack.Decoder[Record]] = msgspec.msgpack.Decoder(Record)

encode_record = _ENCODER.encode


def decode_record(data: bytes) -> Record:
    """Read one record.

    Raises:
        LogFormatError: The record is the header of a log of another format.
        msgspec.DecodeError, ValueError: The bytes are no record.
    """
    try:
        record = _DECODER.decode(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply to be read") from error
    except msgspec.ValidationError:
        _require_format(_format_of(data))
        raise
    if type(record) is Header:
        _require_format(record.format_version)
    return record


def _format_of(data: bytes) -> Json:
    """Return the format in the header of a log, whose other items may be of any form."""
    items = msgspec.msgpack.decode(data)
    is_header = isinstance(items, list) and len(items) > _FORMAT_INDEX and items[0] == _HEADER_TAG
    return items[_FORMAT_INDEX] if is_header else FORMAT_VERSION


_HEADER_TAG: Final = 0
_FORMAT_INDEX: Final = 1 + Header.__struct_fields__.index("format_version")


def _require_format(version: Json) -> None:
    """Check that a log is of the format that this release reads.

    Raises:
        LogFormatError: It is of another.
    """
    if version != FORMAT_VERSION:
        is_newer = type(version) is int and version > FORMAT_VERSION
        remedy = "update placet" if is_newer else "read or export it with the release that wrote it"
        raise LogFormatError(
            f"the log is of format {version!r}, and this release reads format {FORMAT_VERSION}; "
            f"{remedy}"
        )


def group_of(record: Record) -> tuple[int, int] | None:
    """Return tick and number of the group in which a batch was decided; None for other records."""
    if isinstance(record, _BatchBody | SingleBlock | Columns):
        return record.tick, record.group
    return None


_HASH: Final = blake2b(digest_size=HASH_BYTES)
"""Copied for each record: a new hash with its options would cost 50 % more."""


def record_hash(data: bytes) -> bytes:
    """Return the hash of a record, which is `prev` of the next record."""
    hashed = _HASH.copy()
    hashed.update(data)
    return hashed.digest()


_HASH_ITEM_BYTES: Final = 2 + HASH_BYTES
_FIXARRAY: Final = 0x90


def record_body(data: bytes) -> bytes:
    """Return the bytes of a record without `prev`, to compare records of two logs.

    A record is an array header of one or three bytes, a tag of one byte, `prev`, and the rest.
    """
    tag = 1 if data[0] & 0xF0 == _FIXARRAY else 3
    return data[tag : tag + 1] + data[tag + 1 + _HASH_ITEM_BYTES :]


_NAMES: Final[dict[type, str]] = {
    Header: "header",
    Configured: "configured",
    Registered: "registered",
    AgentChanged: "agent_changed",
    ExecutorChanged: "executor_changed",
    Admitted: "batch",
    SingleBlock: "group",
    Refused: "refused",
    Scheduled: "scheduled",
    Tick: "tick",
    Settled: "settled",
    Checkpoint: "checkpoint",
    EffectChanged: "effect_changed",
    RulesChanged: "rules_changed",
    ForkAdopted: "fork_adopted",
    Patched: "patched",
    TableMade: "table_made",
    Columns: "columns",
}
_TYPES: Final[dict[type, str]] = {
    kind: next(_NAMES[base] for base in kind.__mro__ if base in _NAMES) for kind in get_args(Record)
}
"""The name of each type of record; a type that adds fields to another has its name."""

TYPES_WITH_CHANGES: Final = frozenset(
    name for kind, name in _TYPES.items() if hasattr(kind, "changes")
)
"""The types of the records that can change state; the batches of a group have the type `batch`."""


def record_type(record: Record) -> str:
    """Return the name of a record's type, as in `Event.type`."""
    return _TYPES[type(record)]


def agents_of(record: Record) -> Sequence[AgentChange]:
    """Return the agents that a record, no `SingleBlock`, registered or removed, in order."""
    match record:
        case AdmittedWithAgents() | TickWithAgents():
            return record.agents
        case Registered():
            return (AgentChange(record.agent_id, False, None, record.permissions),)
        case AgentChanged() if record.what == "removed":
            return (AgentChange(record.agent_id, is_removed=True),)
        case _:
            return ()


class LogAppend(NamedTuple):
    """Records that become durable together: of one group of batches, or of several in a row.

    Attributes:
        first_record: Ordinal number of the first record, counted from 0.
        seq_before: Sequence number of the world before the records.
        seq: Sequence number of the world after the records.
        records: Encoded records.
    """

    first_record: int
    seq_before: int
    seq: int
    records: Sequence[bytes]

    def follows(self, count: int, seq: int) -> bool:
        """Return whether the append continues a log of `count` records that ends at `seq`."""
        is_next = self.first_record == count and self.seq_before == seq <= self.seq
        return is_next and bool(self.records)


class LogStart(NamedTuple):
    """The start of a log: (0, 0), or later if the log was compacted.

    Attributes:
        record: Ordinal number of the first retained record.
        seq: Sequence number of the world before that record.
    """

    record: int = 0
    seq: int = 0


def intents_of(record: Admitted | Refused | Scheduled) -> list[dict[str, Json]]:
    """Rebuild the intents of a batch from its record, in the submitted order.

    Raises:
        StoreError: The record holds no valid intents, so no gate has written it.
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
    """Return the fields of a record as plain JSON, without `prev`, `seq` and `now_ns`.

    Of a table and a column batch it is a summary: their arrays stay in the log.
    """
    if isinstance(record, Columns):
        return columns_as_dict(record)
    if isinstance(record, TableMade):
        return {**table_as_dict(record), "changes": _changes_as_list(record.changes)}
    fields = {name: msgspec.to_builtins(getattr(record, name)) for name in record.__struct_fields__}
    for name in ("prev", "seq", "now_ns"):
        del fields[name]
    if isinstance(record, Admitted | Refused | Scheduled):
        for name in ("encoded", "contexts", "valid_until_ns"):
            del fields[name]
        fields["intents"] = intents_of(record)
        fields["fingerprint"] = f"{record.fingerprint:016x}"
    if "written" in fields:
        fields["written"] = columns_written(record.written)  # type: ignore[union-attr]  # has it
    if isinstance(record, Checkpoint):
        fields["state_digest"] = record.state_digest.hex()
    if "changes" in fields:
        changes: Changes = record.changes  # type: ignore[union-attr]  # it has these
        fields["changes"] = _changes_as_list(changes)
    if isinstance(record, AdmittedWithAgents | TickWithAgents):
        names = AgentChange.__struct_fields__
        fields["agents"] = [dict(zip(names, one, strict=True)) for one in fields["agents"]]
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
