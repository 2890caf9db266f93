"""Compares two worlds: state, ledger and decisions.

States are compared by value, whatever history led to them. Decisions are compared by agent and
req_id, from the first record in which the two logs differ; logs without a common prefix are
compared whole.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from placet.actors.ports import EventLog
from placet.kernel.ledger.ledger import Ledger
from placet.kernel.state.tree import State
from placet.runtime.history.bisect import shared_records
from placet.runtime.history.reader import fold
from placet.runtime.snapshots.recovery import decode
from placet.schemas.codec import Json, canonical, thaw
from placet.schemas.errors import ValidationError
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.record import Admitted, Refused, Scheduled, intents_of
from placet.schemas.verdict import Verdict


class BatchDecision(NamedTuple):
    """The decision on a batch.

    Attributes:
        outcome: `admitted`, `scheduled` or `refused`.
        codes: Codes of the refusals, in order.
        requests: `(agent_id, req_id)` of its intents, in order.
    """

    outcome: str
    codes: tuple[str, ...]
    requests: tuple[tuple[str, str], ...]

    @property
    def agent_ids(self) -> tuple[str, ...]:
        """The agents of its intents, each once, in order of the intents."""
        return tuple(dict.fromkeys(agent_id for agent_id, _ in self.requests))

    @property
    def req_ids(self) -> tuple[str, ...]:
        """Request ids of its intents, in order."""
        return tuple(req_id for _, req_id in self.requests)

    @property
    def passes(self) -> bool:
        """Return whether the batch was admitted or scheduled."""
        return self.outcome != "refused"

    def __str__(self) -> str:
        return f"{self.outcome}: {', '.join(self.codes)}" if self.codes else self.outcome


def decision_of(record: Admitted | Refused | Scheduled) -> BatchDecision:
    """Return the decision that a log record states."""
    requests = tuple((intent["agent_id"], intent["req_id"]) for intent in intents_of(record))
    if isinstance(record, Refused):
        return BatchDecision("refused", tuple(r[2] for r in record.refusals), requests)
    outcome = "scheduled" if isinstance(record, Scheduled) else "admitted"
    return BatchDecision(outcome, (), requests)


def decision_of_verdict(verdict: Verdict, of: BatchDecision) -> BatchDecision:
    """Return the decision of a verdict, with the requests of `of` (the same batch)."""
    outcome = "scheduled" if verdict.scheduled else "admitted" if verdict.admitted else "refused"
    return of._replace(outcome=outcome, codes=tuple(r.code for r in verdict.refusals))


_ABSENT: Final = object()


class WorldDifference(NamedTuple):
    """One place at which two worlds differ.

    Attributes:
        path: `collection/entity/field`, or shorter where all of it is on one side.
        one: The value in the first, plain JSON; None if `is_in_one` is false.
        other: The value in the second.
        is_in_one: The path exists in the first world.
        is_in_other: The path exists in the second world.
    """

    path: str
    one: Json
    other: Json
    is_in_one: bool
    is_in_other: bool

    def as_dict(self) -> dict[str, Json]:
        """Return the difference as plain JSON, without the side on which the path is absent."""
        sides = {"one": self.one} if self.is_in_one else {}
        return {"path": self.path, **sides, **({"other": self.other} if self.is_in_other else {})}


class OtherAnswer(NamedTuple):
    """A request that two worlds decided differently; None: the log has no decision on it."""

    agent_id: str
    req_ids: tuple[str, ...]
    one: BatchDecision | None
    other: BatchDecision | None

    def as_dict(self) -> dict[str, Json]:
        """Return plain JSON."""
        return {
            "agent_id": self.agent_id,
            "req_ids": list(self.req_ids),
            "one": None if self.one is None else str(self.one),
            "other": None if self.other is None else str(self.other),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldDiff:
    """How two worlds differ.

    Attributes:
        seqs: Sequence number at which each world was read.
        digests: State digest of each world at that number, hexadecimal.
        shared_records: Number of equal records at the start of both logs.
        state: What differs in the state, in order of path.
        ledger: What differs in the ledger: agents, effects that are open, the schedule, executors.
        decisions: Differing decisions, in the order of the first log, then of the second.
    """

    seqs: tuple[int, int]
    digests: tuple[str, str]
    shared_records: int
    state: tuple[WorldDifference, ...]
    ledger: tuple[WorldDifference, ...]
    decisions: tuple[OtherAnswer, ...]

    @property
    def is_empty(self) -> bool:
        """Return whether nothing differs."""
        return not (self.state or self.ledger or self.decisions)

    def as_dict(self) -> dict[str, Json]:
        """Return plain JSON."""
        return {
            "seqs": list(self.seqs),
            "digests": list(self.digests),
            "shared_records": self.shared_records,
            "state": [one.as_dict() for one in self.state],
            "ledger": [one.as_dict() for one in self.ledger],
            "decisions": [one.as_dict() for one in self.decisions],
        }


def diff(one: EventLog, other: EventLog, *, at: int | None = None, path: str = "") -> WorldDiff:
    """Compare two worlds. O(both states, and both logs after the place where they part).

    Args:
        one: A log; it is only read.
        other: Another; of the same world or not.
        at: At which seq of both; None is the end of each.
        path: Only this part of the state, and then nothing but the state.

    Raises:
        StoreError: A log cannot be read, or ends before `at`.
        ValidationError: The path exists in neither world.
    """
    logs = one, other
    pasts = fold(one, at), fold(other, at)
    states = [past.state for past in pasts]
    trees = _tree(states[0]), _tree(states[1])
    path = path.strip("/")
    if path and not any(_is_there(tree, path) for tree in trees):
        raise ValidationError(f"there is nothing at {path}, in neither of the two worlds")
    shared = shared_records(one, other)
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


def _in_trees(one: _Tree, other: _Tree, path: str = "") -> Iterator[WorldDifference]:
    """Compare entity by entity, the ones that differ field by field."""
    for name in sorted({*one, *other}):
        rows, others = one.get(name, {}), other.get(name, {})
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
        one, other = fields.get(field, _ABSENT), there.get(field, _ABSENT)
        if not _is_same(one, other) and _is_part(f"{entity}/{field}", path):
            yield _difference(f"{entity}/{field}", one, other)


def _is_same(one: object, other: object) -> bool:
    """Compare as the digest does: to Python, 1 and 1.0 and True are equal."""
    if one is _ABSENT or other is _ABSENT:
        return one is other
    return canonical(one) == canonical(other)


def _is_part(name: str, path: str) -> bool:
    """Return whether a name is at a path, beneath it, or on the way to it."""
    return not path or f"{name}/".startswith(f"{path}/") or path.startswith(f"{name}/")


def _difference(path: str, one: Json, other: Json) -> WorldDifference:
    is_in_one, is_in_other = one is not _ABSENT, other is not _ABSENT
    return WorldDifference(
        path,
        thaw(one) if is_in_one else None,
        thaw(other) if is_in_other else None,
        is_in_one,
        is_in_other,
    )


_Answers = dict[tuple[str, str], BatchDecision]


def _answers(log: EventLog, from_record: int, to_seq: int | None) -> _Answers:
    """Read the latest answer to every request in the rest of a log."""
    answers: _Answers = {}
    for ordinal, data in log.read(from_record):
        record = decode(data, ordinal)
        if to_seq is not None and record.seq > to_seq:
            break
        if isinstance(record, Admitted | Refused | Scheduled):
            decision = decision_of(record)
            for agent_id, req_id in decision.requests:
                answers[agent_id, req_id] = decision
    return answers


def _in_answers(one: _Answers, other: _Answers) -> Iterator[OtherAnswer]:
    compared: set[tuple[str, str]] = set()
    for key in [*one, *(key for key in other if key not in one)]:
        first, second = one.get(key), other.get(key)
        if key in compared or (
            first is not None and second is not None and first[:2] == second[:2]
        ):
            continue
        batch = first or second
        assert batch is not None, "a request is of one of them"
        # A batch that is the same in both logs is reported once, not once for each of its requests.
        is_one = first is None or second is None or first.requests == second.requests
        together = batch.requests if is_one else (key,)
        compared.update(together)
        yield OtherAnswer(key[0], tuple(req_id for _, req_id in together), first, second)
