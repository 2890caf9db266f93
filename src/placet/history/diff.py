"""Compares two worlds: state, ledger and decisions.

States are compared by value, whatever history led to them. Decisions are compared by agent and
req_id, from the first record in which the two logs differ; logs without a common prefix are
compared whole.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from placet.actors.ports import EventLog
from placet.history.bisect import shared_records
from placet.history.reader import fold
from placet.kernel.ledger.ledger import Ledger
from placet.kernel.state.tree import State
from placet.schemas.codec import Json, canonical, thaw
from placet.schemas.errors import ValidationError
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import Admitted, Refused, Scheduled, intents_of
from placet.schemas.verdict import Verdict
from placet.stores.snapshots.recovery import decode


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


def decision_of_verdict(verdict: Verdict, of: BatchDecision) -> BatchDecision:
    """Return the decision of a verdict; `of` is a decision on the same batch, for its requests."""
    outcome = "scheduled" if verdict.scheduled else "admitted" if verdict.admitted else "refused"
    return of._replace(outcome=outcome, codes=tuple(r.code for r in verdict.refusals))


_ABSENT: Final = object()


class WorldDifference(NamedTuple):
    """One path of the state or of the ledger at which two worlds differ.

    Attributes:
        path: `collection/entity/field`; `collection/entity` if only one world has the entity.
        first: The value in the first world, plain JSON; None if `is_in_first` is false.
        second: The value in the second world, plain JSON; None if `is_in_second` is false.
        is_in_first: The path exists in the first world.
        is_in_second: The path exists in the second world.
    """

    path: str
    first: Json
    second: Json
    is_in_first: bool
    is_in_second: bool

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


def diff(first: EventLog, second: EventLog, *, at: int | None = None, path: str = "") -> WorldDiff:
    """Compare two worlds by their logs. O(both states, and the logs after their first difference).

    Args:
        first: A log; it is only read.
        second: Another log, of the same world or not; it is only read.
        at: Sequence number at which both are compared; None is the end of each.
        path: `collection/entity/field`, or shorter: compare only this part of the state, and
            neither ledger nor decisions.

    Raises:
        StoreError: A log cannot be read, or ends before `at`.
        ValidationError: The path exists in neither world.
    """
    logs = first, second
    pasts = fold(first, at), fold(second, at)
    states = [past.state for past in pasts]
    trees = _tree(states[0]), _tree(states[1])
    path = path.strip("/")
    if path and not any(_is_there(tree, path) for tree in trees):
        raise ValidationError(f"neither of the two worlds has a value at {path}")
    shared = shared_records(first, second)
    return WorldDiff(
        seqs=(pasts[0].ledger.seq, pasts[1].ledger.seq),
        digests=(states[0].digest().hex(), states[1].digest().hex()),
        shared_records=shared,
        state=tuple(_in_trees(*trees, path)),
        ledger=()
        if path
        else tuple(_in_trees(_ledger_entries(pasts[0].ledger), _ledger_entries(pasts[1].ledger))),
        decisions=() if path else tuple(_in_answers(*(_answers(log, shared, at) for log in logs))),
    )


_Tree = Mapping[str, Mapping[str, Mapping[str, Json]]]


def _tree(state: State) -> _Tree:
    return {
        name: {key: row.fields for key, row in rows.entities.items()}
        for name, rows in state.collections.items()
    }


def _is_there(tree: _Tree, path: str) -> bool:
    """Return whether a path leads to anything in a state; the id of an entity may hold a slash."""
    return path in tree or any(
        f"{name}/{key}/".startswith(f"{path}/")
        or any(f"{path}/".startswith(f"{name}/{key}/{field}/") for field in fields)
        for name, rows in tree.items()
        for key, fields in rows.items()
    )


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
    executors = {kind: {"depth_max": depth} for kind, depth in ledger.executors.items()}
    return {"agents": agents, "outbox": outbox, "schedule": schedule, "executors": executors}


def _in_trees(first: _Tree, second: _Tree, path: str = "") -> Iterator[WorldDifference]:
    """Compare entity by entity, the ones that differ field by field."""
    for name in sorted({*first, *second}):
        rows, others = first.get(name, {}), second.get(name, {})
        for key in sorted({*rows, *others}):
            entity = f"{name}/{key}"
            if not _is_part(entity, path):
                continue
            fields, there = rows.get(key), others.get(key)
            if path.startswith(f"{entity}/"):
                yield from _in_fields(entity, fields or {}, there or {}, path)
            elif fields is None or there is None:
                yield _difference(
                    entity,
                    _ABSENT if fields is None else fields,
                    _ABSENT if there is None else there,
                )
            elif not _is_same(fields, there):
                yield from _in_fields(entity, fields, there, path)


def _in_fields(
    entity: str, fields: Mapping[str, Json], there: Mapping[str, Json], path: str
) -> Iterator[WorldDifference]:
    for field in sorted({*fields, *there}):
        first, second = fields.get(field, _ABSENT), there.get(field, _ABSENT)
        if not _is_same(first, second) and _is_part(f"{entity}/{field}", path):
            yield _difference(f"{entity}/{field}", first, second)


def _is_same(first: object, second: object) -> bool:
    """Compare as the digest does: to Python, 1 and 1.0 and True are equal."""
    if first is _ABSENT or second is _ABSENT:
        return first is second
    return canonical(first) == canonical(second)


def _is_part(name: str, path: str) -> bool:
    """Return whether a name is at a path, beneath it, or on the way to it."""
    return not path or f"{name}/".startswith(f"{path}/") or path.startswith(f"{name}/")


def _difference(path: str, first: Json, second: Json) -> WorldDifference:
    is_in_first, is_in_second = first is not _ABSENT, second is not _ABSENT
    return WorldDifference(
        path,
        thaw(first) if is_in_first else None,
        thaw(second) if is_in_second else None,
        is_in_first,
        is_in_second,
    )


_Answers = dict[tuple[str, str], BatchDecision]


def _answers(log: EventLog, from_record: int, to_seq: int | None) -> _Answers:
    """Read the latest answer to every request in the rest of a log."""
    answers: _Answers = {}
    for ordinal, data in log.read(from_record):
        for record in expanded(decode(data, ordinal)):
            if to_seq is not None and record.seq > to_seq:
                return answers
            if isinstance(record, Admitted | Refused | Scheduled):
                decision = decision_of(record)
                for agent_id, req_id in decision.requests:
                    answers[agent_id, req_id] = decision
    return answers


def _in_answers(firsts: _Answers, seconds: _Answers) -> Iterator[DecisionDifference]:
    compared: set[tuple[str, str]] = set()
    for key in [*firsts, *(key for key in seconds if key not in firsts)]:
        first, second = firsts.get(key), seconds.get(key)
        if key in compared or (
            first is not None and second is not None and first[:2] == second[:2]
        ):
            continue
        batch = first or second
        assert batch is not None, "a request is of one of them"
        # A batch that is the same in both logs is reported once, not once for each of its requests.
        is_same_batch = first is None or second is None or first.requests == second.requests
        together = batch.requests if is_same_batch else (key,)
        compared.update(together)
        yield DecisionDifference(key[0], tuple(req_id for _, req_id in together), first, second)
