"""The rows of each table, made of the records of a `Walk`.

A maker gets every record of the walk once, before the walk folds its changes, and yields rows. A
row is its fixed cells and, where the table has columns of kinds, a kind and the open cells:
`("Move", {"to": [1, 0]})` fills the column `Move.to`. The rows of a column batch are one
`RowBlock`, whose cells are arrays.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from placet.history.timeline.fold import changed_in
from placet.schemas.batch import sequence_form
from placet.schemas.codec import Json
from placet.schemas.log.intents import decode_intents
from placet.schemas.log.record import (
    Admitted,
    AgentChanged,
    Columns,
    EffectChanged,
    EntityChange,
    Record,
    Refused,
    Registered,
    Settled,
    SettlementFailed,
    TableMade,
    Tick,
    agents_of,
)
from placet.tables.row import JsonCell, Row
from placet.tables.walk import Walk

if TYPE_CHECKING:
    from placet.kernel.columns.recorded import RecordedColumns
    from placet.schemas.log.column_records import ColumnWrite
    from placet.tables.row_block import RowBlock

PROPOSE: Final = "session.propose"
"""Kind of the effect that calls a proposer (the domain `session`)."""


Made: TypeAlias = "Row | RowBlock"
"""A row, or rows as arrays."""


class RowMaker(Protocol):
    """Makes the rows of one table."""

    def rows(self, record: Record) -> Iterator[Made]:
        """Yield the rows of one record."""

    def last_rows(self) -> Iterator[Made]:
        """Yield the rows that are known only at the end of the walk."""


class _RowsOfRecords:
    def __init__(self, walk: Walk, every: int | None) -> None:
        self.walk = walk
        self.every = every

    def last_rows(self) -> Iterator[Made]:
        """Yield no row: each row belongs to a record."""
        yield from ()

    def _place(self, record: Record) -> tuple[int, int, int]:
        return record.seq, self.walk.tick, record.now_ns

    def _selected_columns(self, record: Record) -> "RecordedColumns | None":
        """Return the arrays of a column batch in the selection; None of any other record."""
        if not isinstance(record, Columns) or not self.walk.is_selected:
            return None
        assert self.walk.folded is not None, "a population was made before"
        return self.walk.folded.read(record) if self.walk.includes(record.seq) else None


class IntentRows(_RowsOfRecords):
    """The rows of the table `intents`."""

    def rows(self, record: Record) -> Iterator[Made]:
        """Yield a row for each intent of an admitted batch, in order of execution."""
        columns = self._selected_columns(record)
        if columns is not None and not self.walk.selection.refused:
            from placet.tables.column_rows import intents_block  # noqa: PLC0415  # numpy

            yield intents_block(columns, self._place(record), self.walk.selection)
        if not isinstance(record, Admitted) or not self.walk.is_selected:
            return
        selection, tick = self.walk.selection, self.walk.tick
        intents = decode_intents(record.encoded)
        seq = record.seq - len(intents)
        for position in record.order or range(len(intents)):
            agent_id, req_id, kind, payload, priority = intents[position]
            seq += 1
            if self.walk.includes(seq) and selection.includes(agent_id, kind):
                context_seq = record.contexts[position]
                cells = (
                    *(seq, tick, record.now_ns, agent_id, kind, req_id),
                    *(priority, record.batch_id, context_seq),
                )
                yield Row(cells, kind, payload)


class RefusalRows(_RowsOfRecords):
    """The rows of the table `refusals`."""

    def rows(self, record: Record) -> Iterator[Made]:
        """Yield a row for each refusal of each intent of a refused batch, or of a refused row."""
        columns = self._selected_columns(record)
        if columns is not None:
            from placet.tables.column_rows import refusals_block  # noqa: PLC0415  # numpy

            yield refusals_block(columns, self._place(record), self.walk.selection)
        if not isinstance(record, Refused) or not self.walk.is_selected:
            return
        place = self._place(record)
        intents = decode_intents(record.encoded)
        for position, reason in refused_intents(len(intents), record.refusals):
            agent_id, req_id, kind, payload, priority = intents[position]
            if self.walk.selection.includes(agent_id, kind):
                context_seq = record.contexts[position]
                head = (*place, agent_id, kind, req_id, priority, record.batch_id, context_seq)
                yield Row((*head, *reason, True), kind, payload)


def refused_intents(
    count: int, refusals: Sequence[tuple[int | None, str, str, str]]
) -> Iterator[tuple[int, tuple[str, str, str, bool]]]:
    """Yield `(position, (stage, code, message, is_cause))` of each refusal of a batch's intents.

    An intent that has no refusal takes the first one of its batch; `is_cause` is false then.

    Args:
        count: Number of intents of the batch.
        refusals: `(position, stage, code, message)`; position None refuses the whole batch.
    """
    for position in range(count):
        own = [refusal for refusal in refusals if refusal[0] is None or refusal[0] == position]
        for _, stage, code, message in own or refusals[:1]:
            yield position, (str(stage), str(code), message, bool(own))


class ChangeRows(_RowsOfRecords):
    """The rows of the table `changes`, one for each changed field."""

    def rows(self, record: Record) -> Iterator[Made]:
        """Yield a row for each field that a record changed."""
        yield from self._blocks(record)
        for change in _selected_changes(self.walk, record):
            head = (change.seq, self.walk.tick, record.now_ns, change.by)
            before = self.walk.fields_before(change)
            for field, old, new in _changed_fields(before, change):
                yield Row((*head, change.collection, change.entity, field, old, new))

    def _blocks(self, record: Record) -> "Iterator[RowBlock]":
        """Yield the changes of whole columns: of a column batch, of a new table, and by hooks."""
        walk, place = self.walk, self._place(record)
        columns = self._selected_columns(record)
        written = _written(record)
        is_new = isinstance(record, TableMade)
        if columns is None and not written and not is_new:
            return
        from placet.tables import column_rows  # noqa: PLC0415  # numpy is an extra

        if columns is not None and walk.folded is not None and not walk.selection.refused:
            yield from column_rows.changes_blocks(columns, place, walk.folded, walk.selection)
        is_chosen = walk.is_selected and walk.includes(record.seq) and not walk.selection.agents
        tables = {} if walk.folded is None else walk.folded.tables
        if is_chosen and isinstance(record, TableMade):
            yield from column_rows.made_blocks(record, place, tables)
        elif is_chosen:
            yield from column_rows.written_blocks(written, place, tables)


class EntityRows(_RowsOfRecords):
    """The rows of the table `entities`: the state after every k-th tick, or at the end."""

    def __init__(self, walk: Walk, every: int | None) -> None:
        super().__init__(walk, every)
        self._latest: Record | None = None

    def rows(self, record: Record) -> Iterator[Made]:
        """Yield the state before a record that follows the end of a k-th tick."""
        # The walk folds a tick after its makers saw it, so its rows come with the next record.
        if self.is_due():
            yield from self._state()
        self._latest = record

    def is_due(self) -> bool:
        """Return whether the latest record ended a k-th tick."""
        is_tick = isinstance(self._latest, Tick)
        return is_tick and self.every is not None and self.walk.tick % self.every == 0

    def last_rows(self) -> Iterator[Made]:
        """Yield the state at the end: of the last tick, or without `every` of the range."""
        if self.every is None or self.is_due():
            yield from self._state()

    def _state(self) -> Iterator[Made]:
        if self._latest is None:  # no record lies in the range
            return
        place, fold = self._place(self._latest), self.walk.fold
        tables = {} if self.walk.folded is None else self.walk.folded.tables
        for collection in sorted({*fold, *tables}):
            if collection in tables:
                from placet.tables.column_rows import state_blocks  # noqa: PLC0415  # numpy

                yield from state_blocks(tables, place, collection)
                continue
            rows = fold[collection]
            for entity, fields in sorted(rows.items()):
                # A copy, because the walk changes its fields after this.
                yield Row((*place, collection, entity, JsonCell(dict(fields))))


class _OpenEffect(NamedTuple):
    place: tuple[int, int, int]
    rank: int
    agent: str
    kind: str
    payload: Mapping[str, Json]
    prompt: Mapping[str, Json]


class _Outcome(NamedTuple):
    name: str
    output: Json = None
    error: str | None = None
    settled: Settled | None = None


class EffectRows(_RowsOfRecords):
    """The rows of the table `effects`, each when its effect is settled.

    It holds the effects that are open: at most the depth of the outbox.
    """

    def __init__(self, walk: Walk, every: int | None) -> None:
        super().__init__(walk, every)
        self._open: dict[tuple[int, int], _OpenEffect] = {}
        self._outcomes: dict[tuple[int, int], _Outcome] = {}

    def rows(self, record: Record) -> Iterator[Row]:
        """Yield the row of an effect that a record settles."""
        if isinstance(record, Admitted):
            if record.effects and self.walk.is_selected:
                self._emitted(record)
        elif isinstance(record, EffectChanged):
            self._outcomes[record.effect_seq, record.effect_index] = _Outcome(record.what)
        elif isinstance(record, SettlementFailed):
            key = (record.effect_seq, record.effect_index)
            self._outcomes[key] = _Outcome("dead_letter", record.output, record.error)
        elif isinstance(record, Settled):
            key = (record.effect_seq, record.effect_index)
            self._outcomes.pop(key, None)
            effect = self._open.pop(key, None)
            if effect is not None:
                name = "succeeded" if record.succeeded else "failed"
                yield from self._row(effect, _Outcome(name, record.output, settled=record))

    def last_rows(self) -> Iterator[Row]:
        """Yield the effects that are still open."""
        for key, effect in sorted(self._open.items()):
            yield from self._row(effect, self._outcomes.get(key, _Outcome("open")))

    def _emitted(self, record: Admitted) -> None:
        prompts: dict[int, Mapping[str, Json]] = {}
        intents = decode_intents(record.encoded)
        first = record.seq - len(intents) + 1
        for rank, position in enumerate(record.order or range(len(intents))):
            prompts[first + rank] = intents[position][3]
        for index, (seq, kind, payload, agent_id) in enumerate(record.effects):
            if self.walk.includes(seq) and self.walk.selection.includes(agent_id, kind):
                place = (seq, self.walk.tick, record.now_ns)
                self._open[record.seq, index] = _OpenEffect(
                    place, index, agent_id, kind, payload, prompts.get(seq, {})
                )

    def _row(self, effect: _OpenEffect, end: _Outcome) -> Iterator[Row]:
        settled_at = (None, None) if end.settled is None else (end.settled.seq, end.settled.now_ns)
        payload = JsonCell(effect.payload)
        out = None if end.output is None else JsonCell(end.output)
        cells = (*effect.place, effect.rank, effect.agent, effect.kind, payload, end.name)
        yield Row((*cells, *settled_at, out, end.error))


class ModelCallRows(EffectRows):
    """The rows of the table `model_calls`: the effects that called a proposer."""

    def _row(self, effect: _OpenEffect, end: _Outcome) -> Iterator[Row]:
        if effect.kind != PROPOSE:
            return
        answer = end.output if isinstance(end.output, Mapping) else {}
        requests, tokens_in, tokens_out, cost = answer.get("usage") or (None,) * 4
        asked = effect.prompt
        yield Row(
            (
                *effect.place,
                *(effect.payload.get(name) for name in ("session", "turn", "attempt")),
                *(asked.get("adapter"), asked.get("digest"), end.name, answer.get("model")),
                *(requests, tokens_in, tokens_out, None if cost is None else float(Decimal(cost))),
                answer.get("price"),
                None if requests is None else answer.get("is_estimated", False),
            )
        )


class AgentRows(_RowsOfRecords):
    """The rows of the table `agents`. It holds every registration: O(agents)."""

    def __init__(self, walk: Walk, every: int | None) -> None:
        super().__init__(walk, every)
        self._rows: list[list[Json] | TableMade] = []
        self._places: dict[str, tuple[int, int, int]] = {}
        self._suspended: dict[str, set[int]] = {}
        self._present: dict[str, list[Json]] = {}

    def rows(self, record: Record) -> Iterator[Row]:
        """Note a registration, or a change of an agent; yield no row."""
        if isinstance(record, TableMade):
            self._places[record.stem] = self._place(record)
            self._suspended[record.stem] = set()
            if self.walk.is_selected and record.members is not None:
                self._rows.append(record)
        elif isinstance(record, AgentChanged) and self._is_member(record.agent_id):
            self._change_member(record)
        elif isinstance(record, Registered):
            allowed = (record.permissions, record.priority_max, JsonCell(record.attributes))
            self._add(record, record.agent_id, record.owner, *allowed)
        elif isinstance(record, AgentChanged) and record.agent_id in self._present:
            self._change(self._present[record.agent_id], record)
        else:
            for change in agents_of(record):
                name, attributes = change.agent_id, JsonCell(change.attributes)
                if not change.is_removed:
                    self._add(record, name, name, change.permissions, 100, attributes)
                elif name in self._present:
                    self._present.pop(name)[9] = record.seq
        yield from ()

    def _is_member(self, agent_id: str) -> bool:
        form = sequence_form(agent_id)
        return form is not None and form[0] in self._suspended

    def _change_member(self, record: AgentChanged) -> None:
        stem, _, number = record.agent_id.rpartition(":")
        change = self._suspended[stem].add if record.what == "suspended" else None
        (change or self._suspended[stem].discard)(int(number))

    def _add(self, record: Record, agent_id: str, *described: Json) -> None:
        row = [*self._place(record), agent_id, *described, False, None]
        self._present[agent_id] = row
        if self.walk.is_selected:
            self._rows.append(row)

    def _change(self, row: list[Json], record: AgentChanged) -> None:
        match record.what:
            case "permissions":
                row[5] = record.permissions
            case "removed":
                row[9] = record.seq
                del self._present[record.agent_id]
            case what:
                row[8] = what == "suspended"

    def last_rows(self) -> Iterator[Made]:
        """Yield the registrations, in order."""
        for row in self._rows:
            if isinstance(row, TableMade):
                from placet.tables.column_rows import members_block  # noqa: PLC0415  # numpy

                yield members_block(row, self._places[row.stem], self._suspended[row.stem])
            else:
                yield Row(tuple(row))


class TickRows(_RowsOfRecords):
    """The rows of the table `ticks`."""

    def __init__(self, walk: Walk, every: int | None) -> None:
        super().__init__(walk, every)
        self._counts = [0] * 5

    def rows(self, record: Record) -> Iterator[Row]:
        """Count a record, and yield the row of the tick that it ends."""
        counts = self._counts
        if isinstance(record, Admitted):
            counts[0] += 1
            counts[1] += len(record.contexts)
            counts[3] += len(record.effects)
        elif isinstance(record, Refused):
            counts[0] += 1
            counts[2] += len(record.contexts)
        elif isinstance(record, Columns):
            self._count_columns(record)
        counts[4] += len(changed_in(record))
        if isinstance(record, Tick):
            yield Row((record.seq, self.walk.tick + 1, record.now_ns, *counts))
            self._counts = [0] * 5

    def _count_columns(self, record: Columns) -> None:
        assert self.walk.folded is not None, "a population was made before"
        columns, counts = self.walk.folded.read(record), self._counts
        refused = len(columns.refused)
        counts[0] += 1
        counts[1] += len(columns) - refused
        counts[2] += refused
        counts[4] += sum(map(len, columns.changed_rows().values()))


ROW_MAKERS: Final[Mapping[str, Callable[[Walk, int | None], RowMaker]]] = {
    "intents": IntentRows,
    "refusals": RefusalRows,
    "changes": ChangeRows,
    "entities": EntityRows,
    "effects": EffectRows,
    "agents": AgentRows,
    "ticks": TickRows,
    "model_calls": ModelCallRows,
}
"""Table -> what makes its rows."""


def _written(record: Record) -> "Sequence[ColumnWrite]":
    """Return the columns that hooks wrote in a record."""
    written: Sequence[ColumnWrite] = getattr(record, "written", ())
    return written


def _selected_changes(walk: Walk, record: Record) -> Iterator[EntityChange]:
    if walk.is_selected:
        agents = walk.selection.agents
        for change in changed_in(record):
            if walk.includes(change.seq) and (not agents or change.by in agents):
                yield change


def _changed_fields(
    before: Mapping[str, Json], change: EntityChange
) -> Iterator[tuple[str, JsonCell | None, JsonCell | None]]:
    """Yield `(field, old, new)` of the changed fields; None where there is no value."""
    after = change.fields or {}
    for field, value in after.items():
        yield field, JsonCell(before[field]) if field in before else None, JsonCell(value)
    if change.fields is None or change.is_whole:
        for field in sorted(before.keys() - after.keys()):
            yield field, JsonCell(before[field]), None
