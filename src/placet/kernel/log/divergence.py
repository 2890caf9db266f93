"""Compare a record with its re-execution, and name the differing field and its rule.

Messages are not compared: a verdict guarantees its stage and its code (G5), and a release may
improve the text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final, NamedTuple, TypeAlias

import msgspec

from placet.kernel.log.replay import Divergence
from placet.kernel.plugin.registry import Registry
from placet.schemas.batch import CheckedBatch
from placet.schemas.codec import Json, canonical
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.record import (
    Admitted,
    AdmittedWithOutput,
    AgentChanged,
    Changes,
    Columns,
    EntityChange,
    ForkAdopted,
    Header,
    Patched,
    Record,
    Refused,
    Registered,
    Scheduled,
    Settled,
    TableMade,
    Tick,
    agents_of,
    intents_of,
    record_as_dict,
    record_type,
)
from placet.schemas.refusal import Stage
from placet.schemas.verdict import Verdict

BatchRecord: TypeAlias = Admitted | Refused | Scheduled
HookRecord: TypeAlias = (
    Header | Registered | AgentChanged | Tick | Settled | ForkAdopted | Patched | TableMade
)

STRUCTURE_NOTICES: Final = frozenset({"version_unknown", "field_dropped"})
"""Codes of warnings about the submitted form of a batch, which no record holds."""

_HOOK_OF: Final = {
    "header": "on_open",
    "registered": "on_register",
    "agent_changed": "on_remove",
    "tick": "on_tick",
    "settled": "on_settle",
    "fork_adopted": "on_remove, for a fork,",
    "patched": "invariants, for a patch,",
    "table_made": "on_populate",
}
"""Type of a record -> the hook that made its changes."""

_HOOK_INPUTS: Final = (
    *("agent_id", "what", "owner", "permissions", "priority_max", "quotas", "attributes"),
    *("effect_seq", "effect_index", "succeeded", "output"),
    *("world", "parent", "given", "dropped", "cause"),
    *("table", "stem", "count", "fields", "columns", "members"),
)
"""Inputs of a hook, for the records that have these fields."""

_BATCH_INPUTS: Final = (
    *("batch_id", "submitter", "fingerprint", "encoded", "contexts", "valid_until_ns"),
    *("due_of", "group_seq", "tick", "group"),
)
"""Inputs of a batch."""

_VALUE_CHARS_MAX: Final = 300


class Draw(NamedTuple):
    """A random number that a rule drew; it depends on the seed and on these fields.

    Attributes:
        purpose: Name of the draw.
        tick: Number of ticks before.
        now_ns: Simulated time, nanoseconds.
        n: Number of the agent's intents that were admitted earlier at this tick and time.
        agent_id: Agent of the intent, or the name that the hook ran in.
        value: The number.
    """

    purpose: str
    tick: int
    now_ns: int
    n: int
    agent_id: str
    value: float

    def __str__(self) -> str:
        at = f"tick {self.tick}, {self.now_ns / SECOND_NS:g} s, intent {self.n}"
        return f"{self.purpose!r} for {self.agent_id} at {at} gave {self.value:g}"


@dataclass(frozen=True, slots=True)
class DivergentField:
    """One field in which two records differ.

    Attributes:
        name: Name of the field for people: `the verdict`, `world.agents/ann position`.
        recorded: The value in the log.
        decided: The value from re-execution.
        index: Position of the intent at fault in its batch; None if it belongs to no intent.
        stage: The stage at which it differs.
    """

    name: str
    recorded: Json
    decided: Json
    index: int | None = None
    stage: str = Stage.DOMAIN.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first record whose re-execution differs.

    Attributes:
        record: Ordinal number of the record, from 0.
        seq: Sequence number of the world before it.
        type: Type of the record, as in events.
        part: Name of the differing field, for people.
        recorded: The value in the log.
        decided: The value from re-execution.
        rule: The rule or stage that decided: `Move of world 1`. For an entity that several intents
            of the batch changed, the rule of the last of them.
        batch_id: Id of the batch; None if the record holds no batch.
        agent_id: Agent of the intent.
        req_id: Id of the intent.
        draws: The random draws of the rules of the record, in order.
    """

    record: int
    seq: int
    type: str
    part: str
    recorded: Json
    decided: Json
    rule: str
    batch_id: str | None = None
    agent_id: str | None = None
    req_id: str | None = None
    draws: tuple[Draw, ...] = ()

    @property
    def why(self) -> str:
        """The difference in one sentence."""
        who = f"{self.type} {self.batch_id or ''}".strip()
        if self.agent_id is not None:
            who += f" of {self.agent_id!r}" + (f" ({self.req_id})" if self.req_id else "")
        drawn = "; ".join(map(str, self.draws))
        return (
            f"{who}: re-executed, {self.part} is {_shortened(self.decided)}, recorded is "
            f"{_shortened(self.recorded)}; the rule is {self.rule}"
            + (f"; it drew {drawn}" if drawn else "")
        )

    def as_dict(self) -> dict[str, Json]:
        """Return the difference as plain JSON."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return {**fields, "draws": [draw._asdict() for draw in self.draws], "why": self.why}


class DecisionMismatch(Divergence):
    """The re-execution of a record differs from the record.

    Attributes:
        difference: The differing field and its rule.
    """

    def __init__(self, difference: Difference) -> None:
        super().__init__(difference.record, difference.seq, difference.why)
        self.difference = difference


def difference_of_batch(
    record: BatchRecord, again: Record | None, verdict: Verdict
) -> DivergentField | None:
    """Return the first difference between the record of a batch and its re-execution.

    Args:
        record: The record in the log.
        again: The record that the re-execution made; None if it made none.
        verdict: The verdict of the re-execution.

    Returns:
        None if they agree.
    """
    recorded_refusals = record.refusals if isinstance(record, Refused) else []
    decided_refusals = [(r.index, r.stage.value, r.code) for r in verdict.refusals]
    if _outcome(record, recorded_refusals) != _verdict_outcome(verdict):
        differing = (recorded_refusals or decided_refusals or [(0, Stage.DOMAIN.value)])[0]
        recorded = _outcome_text(_outcome(record, recorded_refusals), recorded_refusals)
        decided = _outcome_text(_verdict_outcome(verdict), decided_refusals)
        return DivergentField("the verdict", recorded, decided, differing[0] or 0, differing[1])
    for then, now in zip_longest((r[:3] for r in recorded_refusals), decided_refusals):
        if then != now:
            differing = now or then
            return DivergentField("a refusal", then, now, differing[0] or 0, differing[1])
    if isinstance(record, Admitted) and isinstance(again, Admitted):
        part = _difference_of_admitted(record, again)
        if part is not None:
            return part
    if isinstance(record, Scheduled) and isinstance(again, Scheduled):
        then_due, now_due = (record.number, record.due_ns), (again.number, again.due_ns)
        if then_due != now_due:
            return DivergentField("its entry in the schedule", then_due, now_due, None, "schedule")
    return None if again is None else _difference_of_proposal(record, again)


def _difference_of_proposal(record: BatchRecord, again: Record) -> DivergentField | None:
    """Compare the inputs of the gate; for a due batch, with the entry of the schedule."""
    for name in _BATCH_INPUTS:
        then, now = getattr(record, name), getattr(again, name)
        if then != now:
            return DivergentField(f"its {name}", then, now, None, "schedule")
    return None


def difference_of_records(first: Record, second: Record) -> DivergentField:
    """Return the first difference of two unequal records at one position of two logs."""
    if isinstance(first, BatchRecord) and isinstance(second, BatchRecord):
        part = _difference_of_proposals(first, second)
    elif isinstance(first, Columns) and isinstance(second, Columns):
        part = difference_of_columns(first, second, {})
    elif record_type(first) != record_type(second):
        return DivergentField("type of the record", record_type(first), record_type(second))
    elif isinstance(first, HookRecord) and isinstance(second, HookRecord):
        part = difference_of_hook(first, second)
    else:
        part = None
    if part is not None:
        return part
    fields, others = record_as_dict(first), record_as_dict(second)
    for name in fields:
        if fields[name] != others.get(name):
            return DivergentField(f"its {name}", fields[name], others.get(name))
    return DivergentField(
        "time of the decision", (first.seq, first.now_ns), (second.seq, second.now_ns)
    )


def _difference_of_proposals(first: BatchRecord, second: BatchRecord) -> DivergentField | None:
    if _inputs(first) != _inputs(second):
        return DivergentField("proposed intents", _proposed(first), _proposed(second))
    if isinstance(first, Admitted) and isinstance(second, Admitted):
        return _difference_of_admitted(first, second)
    then, now = (r.refusals if isinstance(r, Refused) else [] for r in (first, second))
    index, stage, *_ = (then or now or [(0, Stage.DOMAIN.value, "", "")])[0]
    words = _outcome_text(_outcome(first, then), then), _outcome_text(_outcome(second, now), now)
    return (
        None if words[0] == words[1] else DivergentField("the verdict", *words, index or 0, stage)
    )


def _inputs(record: BatchRecord) -> tuple[Json, ...]:
    return (record.encoded, record.contexts, record.valid_until_ns, record.submitter)


def _proposed(record: BatchRecord) -> Json:
    intents = intents_of(record)
    return [f"{i['agent_id']} {i['req_id']} {i['kind']} {i['payload']}" for i in intents]


def difference_of_hook(record: HookRecord, again: HookRecord) -> DivergentField | None:
    """Return the first difference of two records of one hook of domains; None if they agree.

    Compared are the inputs of the hook and its changes.
    """
    # The text of an exception may differ, its presence not.
    then, now = (getattr(r, "error", None) or "no exception" for r in (record, again))
    if "no exception" in {then, now} and then != now:
        return DivergentField("the exception of on_settle", then, now)
    for name in _HOOK_INPUTS:
        then, now = getattr(record, name, None), getattr(again, name, None)
        if canonical(then) != canonical(now):
            return DivergentField(f"its {name}", then, now)
    difference = _difference_of_changes(record.changes, again.changes)
    if difference is not None:
        return DivergentField(*difference[:3])
    return _difference_of_writes(record, again) or (
        _difference_of_agents(record, again) if isinstance(record, Tick) else None
    )


def _difference_of_writes(record: HookRecord, again: HookRecord) -> DivergentField | None:
    """Compare the columns that hooks wrote."""
    then, now = (getattr(r, "written", None) or [] for r in (record, again))
    for one, other in zip_longest(then, now):
        if one != other:
            shown = ["none" if w is None else f"{w.table}/{w.field}" for w in (one, other)]
            changed = one or other
            return DivergentField(f"the column {changed.table}/{changed.field}", shown[0], shown[1])
    return None


def difference_of_columns(
    record: Columns, again: Columns, stems: Mapping[str, str], members: int | None = None
) -> DivergentField | None:
    """Return the first difference of two records of column batches; None if they agree.

    Args:
        record: A record.
        again: The other.
        stems: Stem of the names of rows of each table; a row of another table is named by number.
        members: Number of members of the population; None is that of the records.
    """
    from placet.kernel.log.column_difference import first_difference  # noqa: PLC0415  # numpy is an extra

    found = first_difference(record, again, stems, members)
    return None if found is None else DivergentField(*found)


def name_of_rule(
    part: DivergentField, record: Record, registry: Registry, batch: CheckedBatch | None
) -> str:
    """Return the name of the rule that made a difference, with the versions of domain and kind."""
    if isinstance(record, Columns):
        return _name_of_kind(record.kind, registry)
    if batch is None:
        domains = " and ".join(f"{domain.name} {domain.version}" for domain in registry.domains)
        return f"{_HOOK_OF[record_type(record)]} of {domains}"
    if part.index is None:
        return f"the kernel's {part.stage}"
    name = batch.intents[part.index]["kind"]
    of = _name_of_kind(name, registry)
    is_of_domain = part.stage == Stage.DOMAIN.value or name not in registry.kinds
    return of if is_of_domain else f"the stage {part.stage}, for {of}"


def _name_of_kind(name: str, registry: Registry) -> str:
    kind = registry.kinds.get(name)
    if kind is None:
        return f"{name}, which is not a kind of these domains"
    domain = registry.domain_of[name]
    return f"{name} of {domain.name} {domain.version}" + (
        f", kind version {kind.version}" if kind.version != "1" else ""
    )


def _outcome(record: BatchRecord, refusals: Sequence[Sequence[Json]]) -> str:
    if isinstance(record, Refused):
        return "refused at " + str(refusals[0][1] if refusals else "no stage")
    return "scheduled" if isinstance(record, Scheduled) else "admitted"


def _verdict_outcome(verdict: Verdict) -> str:
    if verdict.replayed:
        return "answered before"
    if verdict.refusals:
        return f"refused at {verdict.refusals[0].stage.value}"
    return "scheduled" if verdict.scheduled else "admitted"


def _outcome_text(outcome: str, refusals: Sequence[Sequence[Json]]) -> str:
    return outcome + "".join(f", {refusal[2]}" for refusal in refusals[:1])


def _difference_of_admitted(record: Admitted, again: Admitted) -> DivergentField | None:
    positions = range(len(record.contexts)) if record.order is None else record.order
    first_seq = record.seq - len(record.contexts) + 1

    def index_at(seq: int) -> int:
        return positions[seq - first_seq] if first_seq <= seq <= record.seq else 0

    if record.order != again.order:
        return DivergentField("the order of its intents", record.order, again.order, None, "order")
    difference = _difference_of_changes(record.changes, again.changes)
    if difference is not None:
        name, then, now, seq = difference
        return DivergentField(name, then, now, index_at(seq))
    for recorded, decided in zip_longest(record.effects, again.effects):
        if canonical(recorded) != canonical(decided):
            return DivergentField(
                "an effect", recorded, decided, index_at((decided or recorded)[0])
            )
    return _difference_of_agents(record, again) or _difference_of_texts(record, again)


def _difference_of_agents(record: Record, again: Record) -> DivergentField | None:
    """Compare the agents that rules registered and removed."""
    then, now = (
        [
            f"removed {one.agent_id}"
            if one.is_removed
            else f"registered {one.agent_id}, cohort {one.cohort}"
            for one in agents_of(r)
        ]
        for r in (record, again)
    )
    return None if agents_of(record) == agents_of(again) else DivergentField("agents", then, now, 0)


def _difference_of_texts(record: Admitted, again: Admitted) -> DivergentField | None:
    """Compare normalized payloads, and the codes of warnings."""
    then, now = dict(record.normalized or ()), dict(again.normalized or ())
    for index in sorted(then.keys() | now.keys()):
        if canonical(then.get(index)) != canonical(now.get(index)):
            return DivergentField("the normalized payload", then.get(index), now.get(index), index)
    warned, warns = dict(record.notices or ()), dict(again.notices or ())
    for index in sorted(warned.keys() | warns.keys()):
        codes = [(code, at) for code, _, at in warned.get(index, ())]
        new = [(code, at) for code, _, at in warns.get(index, ())]
        before = len(codes) - len(new)
        if codes[before:] != new or any(c not in STRUCTURE_NOTICES for c, _ in codes[:before]):
            return DivergentField("a warning", codes, new, index)
    then, now = _answers_of(record), _answers_of(again)
    for index in sorted(then.keys() | now.keys()):
        if canonical(then.get(index)) != canonical(now.get(index)):
            return DivergentField("an answer", then.get(index), now.get(index), index)
    return None


def _answers_of(record: Admitted) -> dict[int, Json]:
    return dict(record.answers) if isinstance(record, AdmittedWithOutput) else {}


def _difference_of_changes(then: Changes, now: Changes) -> tuple[str, Json, Json, int] | None:
    """Return the first differing entity, field or collection, both values, and the seq."""
    before = {(c.collection, c.entity): c for c in then.entities}
    after = {(c.collection, c.entity): c for c in now.entities}
    for key in [*after, *(key for key in before if key not in after)]:
        recorded_change, decided_change = before.get(key), after.get(key)
        if _encoded(recorded_change) != _encoded(decided_change):
            changed = decided_change or recorded_change
            assert changed is not None, "a key is of one of them"
            name, recorded, decided = _first_field(recorded_change, decided_change)
            return f"{'/'.join(key)}{name}", recorded, decided, changed.seq
    stamps = [(c.collection, c.seq, c.by, c.foreign_seq) for c in then.collections]
    stamped = [(c.collection, c.seq, c.by, c.foreign_seq) for c in now.collections]
    if stamps != stamped:
        return "the stamps of collections", stamps, stamped, max([0, *(s[1] for s in stamped)])
    order, ordered = ([f"{c.collection}/{c.entity}" for c in x.entities] for x in (then, now))
    if order != ordered:
        return "the order of changes", order, ordered, 0
    return None


def _first_field(
    recorded: EntityChange | None, decided: EntityChange | None
) -> tuple[str, Json, Json]:
    """Return the first differing field or stamp of an entity: name, recorded, decided."""
    if recorded is None or decided is None or recorded.fields is None or decided.fields is None:
        return "", _entity(recorded), _entity(decided)
    for field in [
        *decided.fields,
        *(name for name in recorded.fields if name not in decided.fields),
    ]:
        then, now = recorded.fields.get(field), decided.fields.get(field)
        if canonical(then) != canonical(now) or (field in recorded.fields) != (
            field in decided.fields
        ):
            return f" {field}", then, now
    stamps = ("seq", "by", "foreign_seq", "is_whole")
    stamp = next(name for name in stamps if getattr(recorded, name) != getattr(decided, name))
    return f" ({stamp})", getattr(recorded, stamp), getattr(decided, stamp)


def _entity(change: EntityChange | None) -> Json:
    if change is None:
        return "not changed"
    return "deleted" if change.fields is None else dict(change.fields)


def _encoded(change: EntityChange | None) -> bytes:
    return msgspec.msgpack.encode(change, order="deterministic")


def _shortened(value: Json) -> str:
    text = value if isinstance(value, str) else repr(msgspec.to_builtins(value))
    return text if len(text) <= _VALUE_CHARS_MAX else f"{text[:_VALUE_CHARS_MAX]}…"
