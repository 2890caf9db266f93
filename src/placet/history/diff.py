"""Compares two worlds: state, ledger and decisions.

States are compared by value, whatever history led to them. Decisions are compared by agent and
req_id, from the first record in which the two logs differ; logs without a common prefix are
compared whole.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, cast
from zlib import crc32

from placet.actors.ports import EventLog
from placet.history.bisect import shared_records
from placet.history.column_rows import refusal_counts
from placet.history.reader import fold
from placet.kernel.ledger.ledger import Ledger
from placet.kernel.state.tree import State
from placet.schemas.codec import Json, canonical, thaw
from placet.schemas.errors import ValidationError
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.column_summary import rows_of
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import Admitted, Columns, Refused, Scheduled, Tick, intents_of
from placet.schemas.verdict import Verdict
from placet.stores.reading import Store, as_log
from placet.stores.snapshots.recovery import decode, read_on


class BatchDecision(NamedTuple):
    """The decision on a batch.

    Attributes:
        outcome: `admitted`, `scheduled` or `refused`.
        codes: Codes of the refusals, in order.
        requests: `(agent_id, req_id)` of the batch's intents, in order.
    """

    outcome: str
    codes: tuple[str, ...]
    requests: tuple[tuple[str, str], ...]

    @property
    def agent_ids(self) -> tuple[str, ...]:
        """Names of the agents of the batch's intents, each once, in order of the intents."""
        return tuple(dict.fromkeys(agent_id for agent_id, _ in self.requests))

    @property
    def req_ids(self) -> tuple[str, ...]:
        """Request ids of the batch's intents, in order."""
        return tuple(req_id for _, req_id in self.requests)

    @property
    def passes(self) -> bool:
        """Whether the batch was admitted or scheduled."""
        return self.outcome != "refused"

    def __str__(self) -> str:
        return f"{self.outcome}: {', '.join(self.codes)}" if self.codes else self.outcome


def decision_of(record: Admitted | Refused | Scheduled) -> BatchDecision:
    """Return the decision on a batch that a log record contains."""
    requests = tuple((intent["agent_id"], intent["req_id"]) for intent in intents_of(record))
    if isinstance(record, Refused):
        return BatchDecision("refused", tuple(r[2] for r in record.refusals), requests)
    outcome = "scheduled" if isinstance(record, Scheduled) else "admitted"
    return BatchDecision(outcome, (), requests)


def decision_of_columns(record: Columns) -> BatchDecision:
    """Return the decision on a column batch: its refusals by code, under its population's name.

    `codes` end with a checksum of the codes of rows, so that equal counts of other rows differ.
    """
    refused, rows = refusal_counts(record), rows_of(record)
    codes = [f"{code} of {count} rows" for (_, code), count in refused.items()]
    if refused:
        codes.append(f"rows {crc32(record.codes):08x}")
    is_refused = bool(refused) and (rows or 0) == sum(refused.values())
    outcome = "refused" if is_refused else "admitted"
    return BatchDecision(outcome, tuple(codes), ((record.population, record.req_id),))


def decision_of_verdict(verdict: Verdict, of: BatchDecision) -> BatchDecision:
    """Return the decision of a verdict; `of` is a decision on the same batch, for its requests."""
    outcome = "scheduled" if verdict.scheduled else "admitted" if verdict.admitted else "refused"
    return of._replace(outcome=outcome, codes=tuple(r.code for r in verdict.refusals))


class Request(NamedTuple):
    """One intent of a log, with the decision on its batch.

    Attributes:
        tick: Number of ticks before it, those included that a compaction removed.
        sim_time: Simulated time of the decision, seconds.
        kind: Kind of the intent.
        payload: Payload of the intent, as plain JSON.
        decision: The decision on its batch.
    """

    tick: int
    sim_time: float
    kind: str
    payload: Mapping[str, Json]
    decision: BatchDecision

    def is_same_choice(self, other: "Request") -> bool:
        """Return whether another request proposes the same; to Python, 1 and 1.0 are equal."""
        return (self.kind, canonical(self.payload)) == (other.kind, canonical(other.payload))

    def is_same_outcome(self, other: "Request") -> bool:
        """Return whether another request has the same outcome, with the same codes."""
        return self.decision[:2] == other.decision[:2]

    def as_dict(self) -> dict[str, Json]:
        """Return the request as plain JSON."""
        outcome = str(self.decision)
        return {"kind": self.kind, "payload": dict(self.payload), "outcome": outcome}


Requests: TypeAlias = dict[tuple[str, str], Request]
"""`(agent_id, req_id)` -> the request, with the latest decision on it.

A column batch is one request of its population; its payload is the fingerprint of its content.
"""


def requests_from(
    log: EventLog, record: int, *, to_seq: int | None = None, ticks: int = 0
) -> Requests:
    """Read the requests of a log from a record on.

    Args:
        log: The log; it is only read.
        record: Ordinal number of the first record to read.
        to_seq: Last seq to read; None is the end of the log.
        ticks: Number of ticks before the first record.
    """
    requests: Requests = {}
    for ordinal, data in read_on(log, max(record, log.start().record)):
        for part in expanded(decode(data, ordinal)):
            if to_seq is not None and part.seq > to_seq:
                return requests
            ticks += isinstance(part, Tick)
            if isinstance(part, Admitted | Refused | Scheduled):
                decision, sim_time = decision_of(part), part.now_ns / SECOND_NS
                for intent in intents_of(part):
                    requests[intent["agent_id"], intent["req_id"]] = Request(
                        ticks, sim_time, intent["kind"], thaw(intent["payload"]), decision
                    )
            elif isinstance(part, Columns):
                requests[part.population, part.req_id] = Request(
                    ticks,
                    part.now_ns / SECOND_NS,
                    part.kind,
                    {"rows": rows_of(part), "fingerprint": f"{part.fingerprint:016x}"},
                    decision_of_columns(part),
                )
    return requests


if TYPE_CHECKING:
    from placet.kernel.state.table import TableData

_ABSENT: Final = object()


class WorldDifference(NamedTuple):
    """One place of the state or of the ledger at which two worlds differ.

    Attributes:
        collection: The collection.
        entity: The entity.
        field: The field; None if only one world has the entity.
        first: The value in the first world, plain JSON; None if `is_in_first` is false.
        second: The value in the second world, plain JSON; None if `is_in_second` is false.
        is_in_first: The place exists in the first world.
        is_in_second: The place exists in the second world.
    """

    collection: str
    entity: str
    field: str | None
    first: Json
    second: Json
    is_in_first: bool
    is_in_second: bool

    @property
    def path(self) -> str:
        """`collection/entity/field`; `collection/entity` if only one world has the entity."""
        return f"{self.collection}/{self.place}"

    @property
    def place(self) -> str:
        """The path inside the collection."""
        return self.entity if self.field is None else f"{self.entity}/{self.field}"

    def as_dict(self) -> dict[str, Json]:
        """Return the difference as plain JSON, without the side on which the path is absent."""
        first = {"first": self.first} if self.is_in_first else {}
        second = {"second": self.second} if self.is_in_second else {}
        return {"path": self.path, **first, **second}


class DecisionDifference(NamedTuple):
    """A request that two worlds decided differently.

    Attributes:
        agent_id: The agent that submitted it.
        req_ids: The request id; the ids of the whole batch if both worlds have the same batch.
        first: The decision in the first world; None if its log has none.
        second: The decision in the second world; None if its log has none.
    """

    agent_id: str
    req_ids: tuple[str, ...]
    first: BatchDecision | None
    second: BatchDecision | None

    def as_dict(self) -> dict[str, Json]:
        """Return the difference as plain JSON."""
        return {
            "agent_id": self.agent_id,
            "req_ids": list(self.req_ids),
            "first": None if self.first is None else str(self.first),
            "second": None if self.second is None else str(self.second),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldDiff:
    """The differences between two worlds.

    Attributes:
        seqs: Sequence number at which each world was read.
        digests: State digest of each world at that number, hexadecimal.
        shared_records: Number of equal records at the start of both logs.
        state: Differences of the state, in order of path.
        ledger: Differences of the ledger: agents, open effects, the schedule, executors.
        decisions: Differing decisions, in the order of the first log, then of the second.
    """

    seqs: tuple[int, int]
    digests: tuple[str, str]
    shared_records: int
    state: tuple[WorldDifference, ...]
    ledger: tuple[WorldDifference, ...]
    decisions: tuple[DecisionDifference, ...]

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs."""
        return not (self.state or self.ledger or self.decisions)

    def as_dict(self) -> dict[str, Json]:
        """Return the differences as plain JSON."""
        return {
            "seqs": list(self.seqs),
            "digests": list(self.digests),
            "shared_records": self.shared_records,
            "state": [difference.as_dict() for difference in self.state],
            "ledger": [difference.as_dict() for difference in self.ledger],
            "decisions": [difference.as_dict() for difference in self.decisions],
        }


def diff(first: Store, second: Store, *, at: int | None = None, path: str = "") -> WorldDiff:
    """Compare two worlds by their logs. O(both states, and the logs after their first difference).

    Args:
        first: A log, or its path or URL; it is only read.
        second: Another log, of the same world or not; it is only read.
        at: Sequence number at which both are compared; None is the end of each.
        path: `collection/entity/field`, or shorter: compare only this part of the state, and
            neither ledger nor decisions.

    Raises:
        StoreError: A log cannot be read, or ends before `at`.
        ValidationError: The path exists in neither world.
    """
    logs = as_log(first), as_log(second)
    pasts = fold(logs[0], at), fold(logs[1], at)
    states = [past.state for past in pasts]
    trees = entities_of(states[0]), entities_of(states[1])
    path = path.strip("/")
    if path and not any(_is_there(tree, path) for tree in trees):
        raise ValidationError(f"neither of the two worlds has a value at {path}")
    shared = shared_records(*logs)
    ledgers = _ledger_entries(pasts[0].ledger), _ledger_entries(pasts[1].ledger)
    return WorldDiff(
        seqs=(pasts[0].ledger.seq, pasts[1].ledger.seq),
        digests=(states[0].digest().hex(), states[1].digest().hex()),
        shared_records=shared,
        state=tuple(differences_of(*trees, path)),
        ledger=() if path else tuple(differences_of(*ledgers)),
        decisions=()
        if path
        else tuple(_decisions(*(requests_from(log, shared, to_seq=at) for log in logs))),
    )


_Tree: TypeAlias = Mapping[str, Mapping[str, Mapping[str, Json]]]


def entities_of(state: State) -> _Tree:
    """Return the entities of a state, by collection, for `differences_of`."""
    return {
        name: _TableRows(cast("TableData", rows))
        if rows.is_table
        else {key: row.fields for key, row in rows.entities.items()}
        for name, rows in state.collections.items()
    }


class _TableRows(Mapping[str, Mapping[str, Json]]):
    """The rows of a table by name, each read when it is asked for."""

    __slots__ = ("table",)

    def __init__(self, table: "TableData") -> None:
        self.table = table

    def __getitem__(self, key: str) -> Mapping[str, Json]:
        return dict(self.table.entities[key].fields)

    def __contains__(self, key: object) -> bool:
        return key in self.table.entities

    def __iter__(self) -> Iterator[str]:
        return iter(self.table.entities)

    def __len__(self) -> int:
        return self.table.count


def _in_tables(name: str, first: object, second: object, path: str) -> list[WorldDifference] | None:
    """Return the differences of two tables, compared as arrays; None of other collections.

    Tables that do not have the same rows and fields are compared as other collections are.
    """
    if not isinstance(first, _TableRows) or not isinstance(second, _TableRows):
        return None
    found = first.table.differences(second.table)
    if found is None:
        return None
    stem = first.table.stem
    differences = [
        WorldDifference(name, f"{stem}:{row}", field, was, now, True, True)
        for row, field, was, now in found
    ]
    return [each for each in differences if not path or f"{each.path}/".startswith(f"{path}/")]


def _is_there(tree: _Tree, path: str) -> bool:
    """Return whether a path leads to anything in a state; the id of an entity may hold a slash."""
    return path in tree or any(
        _is_in_table(name, rows.table, path)
        if isinstance(rows, _TableRows)
        else any(
            f"{name}/{key}/".startswith(f"{path}/")
            or any(f"{path}/".startswith(f"{name}/{key}/{field}/") for field in fields)
            for key, fields in rows.items()
        )
        for name, rows in tree.items()
    )


def _is_in_table(name: str, table: "TableData", path: str) -> bool:
    """Return whether a path leads to a row of a table, or to one of its fields."""
    if not path.startswith(f"{name}/"):
        return False
    entity, _, rest = path.removeprefix(f"{name}/").partition("/")
    return entity in table.entities and (not rest or rest.partition("/")[0] in table.fields)


def _ledger_entries(ledger: Ledger) -> _Tree:
    """Return the part of the ledger that is comparable between worlds.

    No dedup windows, no counters.
    """
    agents = {
        agent.agent_id: {
            "owner": agent.owner,
            "permissions": None if agent.permissions is None else sorted(agent.permissions),
            "priority_max": agent.priority_max,
            "suspended": agent.is_suspended,
        }
        for agent in ledger.agents.values()
    }
    outbox = {
        f"{seq}.{k}": {"kind": effect.kind, "payload": effect.payload, "agent_id": effect.agent_id}
        for (seq, k), effect in ledger.outbox.items()
    }
    schedule = {
        record.batch_id: {"due": record.due_ns / SECOND_NS} for record in ledger.scheduled.values()
    }
    populations = {
        members.name: {
            "table": members.table,
            "count": members.count,
            "owner": members.owner,
            "permissions": None if members.permissions is None else sorted(members.permissions),
            "priority_max": members.priority_max,
            "suspended": members.suspended_mask().nonzero()[0].tolist(),
        }
        for members in ledger.populations.values()
    }
    executors = {kind: {"depth_max": depth} for kind, depth in ledger.executors.items()}
    return {
        "agents": agents,
        "populations": populations,
        "outbox": outbox,
        "schedule": schedule,
        "executors": executors,
    }


def differences_of(first: _Tree, second: _Tree, path: str = "") -> Iterator[WorldDifference]:
    """Yield the differences of two states, or of a part of them, in order of collection and entity.

    Entities that both have are compared field by field. The rows of a table come by number.
    """
    for name in sorted({*first, *second}):
        rows, others = first.get(name, {}), second.get(name, {})
        found = _in_tables(name, rows, others, path)
        if found is not None:
            yield from found
            continue
        for key in sorted({*rows, *others}):
            entity = f"{name}/{key}"
            if not _is_part(entity, path):
                continue
            fields, there = rows.get(key), others.get(key)
            if path.startswith(f"{entity}/"):
                yield from _in_fields(name, key, (fields or {}, there or {}), path)
            elif fields is None or there is None:
                one, other = rows.get(key, _ABSENT), others.get(key, _ABSENT)
                yield _difference((name, key, None), one, other)
            elif not _is_same(fields, there):
                yield from _in_fields(name, key, (fields, there), path)


def _in_fields(
    name: str, key: str, entities: tuple[Mapping[str, Json], Mapping[str, Json]], path: str
) -> Iterator[WorldDifference]:
    for field in sorted({*entities[0], *entities[1]}):
        first, second = (fields.get(field, _ABSENT) for fields in entities)
        if not _is_same(first, second) and _is_part(f"{name}/{key}/{field}", path):
            yield _difference((name, key, field), first, second)


def _is_same(first: object, second: object) -> bool:
    """Compare as the digest does: to Python, 1 and 1.0 and True are equal."""
    if first is _ABSENT or second is _ABSENT:
        return first is second
    return canonical(first) == canonical(second)


def _is_part(name: str, path: str) -> bool:
    """Return whether a name is at a path, beneath it, or on the way to it."""
    return not path or f"{name}/".startswith(f"{path}/") or path.startswith(f"{name}/")


def _difference(place: tuple[str, str, str | None], first: Json, second: Json) -> WorldDifference:
    is_in_first, is_in_second = first is not _ABSENT, second is not _ABSENT
    return WorldDifference(
        *place,
        thaw(first) if is_in_first else None,
        thaw(second) if is_in_second else None,
        is_in_first,
        is_in_second,
    )


def _decisions(firsts: Requests, seconds: Requests) -> Iterator[DecisionDifference]:
    compared: set[tuple[str, str]] = set()
    for key in [*firsts, *(key for key in seconds if key not in firsts)]:
        one, other = firsts.get(key), seconds.get(key)
        if key in compared or (one and other and one.is_same_outcome(other)):
            continue
        first, second = one and one.decision, other and other.decision
        batch = first or second
        assert batch is not None, "a request is of one of them"
        # A batch that is the same in both logs is reported once, not once for each of its requests.
        is_same_batch = first is None or second is None or first.requests == second.requests
        together = batch.requests if is_same_batch else (key,)
        compared.update(together)
        yield DecisionDifference(key[0], tuple(req_id for _, req_id in together), first, second)
