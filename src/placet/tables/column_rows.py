"""The rows of the tables that column batches and populations have, as blocks of arrays."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from placet.history.selection import Selection
from placet.kernel.arrays.authors import Authors
from placet.kernel.arrays.row_codes import OK, refusal_of
from placet.kernel.arrays.words import Array
from placet.kernel.columns.recorded import RecordedColumns, distinct_rows
from placet.kernel.commit.table_made import table_of
from placet.kernel.plugin.rows import RowCall, Rows64
from placet.kernel.state.table import TableData
from placet.schemas.batch import sequence_form
from placet.schemas.identity import OPERATOR, SYSTEM
from placet.schemas.intent import DEFAULT_PRIORITY
from placet.schemas.log.column_records import TableMade
from placet.tables.folded import FoldedTables
from placet.tables.row import JsonCell
from placet.tables.row_block import (
    Cells,
    Chosen,
    JsonObjects,
    JsonValues,
    Names,
    RowBlock,
    Same,
    Values,
)

if TYPE_CHECKING:
    from placet.schemas.log.column_records import ColumnWrite

Place = tuple[int, int, int]
"""Seq, tick and simulated time."""


def selected_numbers(selection: Selection, population: str) -> Rows64 | None:
    """Return the numbers of the selected members of a population; None are all."""
    if not selection.agents:
        return None
    forms = map(sequence_form, selection.agents)
    return np.array([form[1] for form in forms if form and form[0] == population], np.int64)


def intents_block(columns: RecordedColumns, place: Place, selection: Selection) -> RowBlock:
    """Return the rows of the table `intents` of a column batch: its admitted rows."""
    record = columns.record
    chosen = _selected(columns.admitted, columns, selection)
    head = _head(columns, place, chosen)
    return RowBlock(len(columns.numbers[chosen]), head, record.kind, _payload(columns, chosen))


def refusals_block(columns: RecordedColumns, place: Place, selection: Selection) -> RowBlock:
    """Return the rows of the table `refusals` of a column batch."""
    record = columns.record
    chosen = _selected(columns.refused, columns, selection)
    codes = np.zeros(0, np.uint8) if columns.codes is None else columns.codes[chosen]
    known = [int(code) for code in np.unique(codes) if code != OK]
    reasons = [refusal_of(record.reasons, code) for code in known]
    places = np.searchsorted(np.array(known, np.int64), codes.astype(np.int64))
    cells: list[Cells] = [
        *_head(columns, place, chosen),
        Chosen([str(reason.stage) for reason in reasons], places),
        Chosen([str(reason.code) for reason in reasons], places),
        Chosen([reason.message for reason in reasons], places),
        *(Same(True), Same(True)),
    ]
    return RowBlock(len(codes), cells, record.kind, _payload(columns, chosen))


def _selected(rows: Any, columns: RecordedColumns, selection: Selection) -> Any:  # noqa: ANN401  # indexes of numpy
    wanted = selected_numbers(selection, columns.record.population)
    if wanted is None:
        return rows
    places = np.arange(len(columns))[rows]
    return places[np.isin(columns.numbers[places], wanted)]


def _head(columns: RecordedColumns, place: Place, rows: Any) -> list[Cells]:  # noqa: ANN401  # an index of numpy
    record, contexts = columns.record, columns.contexts
    return [
        *map(Same, place),
        Names(record.population, columns.numbers[rows]),
        *map(Same, (record.kind, record.req_id, DEFAULT_PRIORITY, f"b{record.number}")),
        Same(contexts) if isinstance(contexts, int) else Values(contexts[rows]),
    ]


def _payload(columns: RecordedColumns, rows: Any) -> dict[str, Cells]:  # noqa: ANN401  # an index of numpy
    return {name: Values(values[rows]) for name, values in columns.payload.items()}


def changes_blocks(
    columns: RecordedColumns, place: Place, folded: FoldedTables, selection: Selection
) -> Iterator[RowBlock]:
    """Yield the rows of the table `changes` of a column batch, a block for each changed field."""
    population = columns.record.population
    wanted = selected_numbers(selection, population)
    authors = columns.targets(None)
    calls: dict[tuple[str, str], list[RowCall]] = {}
    for call in columns.calls(folded.sizes):
        calls.setdefault((call.table, call.field), []).append(call)
    for (name, field), own in calls.items():
        table = folded.tables[name]
        rows, by, old, new = _applied(table.columns[field], own, authors)
        if wanted is not None:
            chosen = np.isin(by, wanted)
            rows, by, old, new = rows[chosen], by[chosen], old[chosen], new[chosen]
        head: list[Cells] = [*map(Same, place), Names(population, by)]
        yield _changes(head, table, field, rows, JsonValues(old), new)


def _applied(
    column: Array, calls: list[RowCall], authors: Rows64
) -> tuple[Rows64, Rows64, Array, Array]:
    """Return the changed rows, the author of each, and the values before and after.

    The author of a row that several members changed is -1.
    """
    targets = [authors if call.at is None else call.at for call in calls]
    rows, places = distinct_rows(targets)
    old = column[rows]
    new = old.copy()
    by = np.full(len(rows), -1)
    is_shared = np.zeros(len(rows), np.bool_)
    for call, keys, at in zip(calls, targets, places, strict=True):
        is_row = keys >= 0
        target, author, values = at[is_row], authors[is_row], call.values[is_row]
        if call.op == "put":
            new[target] = values
        else:
            np.add.at(new, target, values.astype(new.dtype))
        before = by[target]
        by[target] = author
        is_shared[target[(by[target] != author) | ((before >= 0) & (before != author))]] = True
    by[is_shared] = -1
    return rows, by, old, new


def _changes(
    head: Sequence[Cells],
    table: TableData,
    field: str,
    rows: Rows64,
    old: Cells,
    new: Array,
) -> RowBlock:
    cells: list[Cells] = [
        *head,
        *(Same(table.name), Names(table.stem, rows), Same(field), old, JsonValues(new)),
    ]
    return RowBlock(len(rows), cells)


def written_blocks(
    written: Sequence["ColumnWrite"], place: Place, tables: Mapping[str, TableData]
) -> Iterator[RowBlock]:
    """Yield the rows of the table `changes` of the columns that hooks wrote."""
    for write in written:
        table = tables[write.table]
        field = table.fields[write.field]
        rows = (
            np.frombuffer(write.at, "<u4").astype(np.int64) if write.at else np.arange(table.count)
        )
        new = np.frombuffer(write.data, field.dtype).reshape(len(rows), *field.sizes)
        old = JsonValues(table.columns[write.field][rows])
        yield _changes([*map(Same, (*place, SYSTEM))], table, write.field, rows, old, new)


def made_blocks(
    record: TableMade, place: Place, tables: Mapping[str, TableData]
) -> Iterator[RowBlock]:
    """Yield the rows of the table `changes` of a new table: its values, and those of hooks."""
    table = table_of(record, Authors())  # before the changes of hooks
    for field, column in table.columns.items():
        rows = np.arange(table.count)
        yield _changes([*map(Same, (*place, OPERATOR))], table, field, rows, Same(None), column)
    yield from written_blocks(record.written, place, {**tables, table.name: table})


def state_blocks(tables: Mapping[str, TableData], place: Place, name: str) -> Iterator[RowBlock]:
    """Yield the rows of the table `entities` of one table of the state."""
    table = tables[name]
    cells: list[Cells] = [
        *map(Same, place),
        *(Same(name), Names(table.stem, np.arange(table.count)), JsonObjects(table.columns)),
    ]
    yield from RowBlock(table.count, cells).parts()


def members_block(record: TableMade, place: Place, suspended: set[int]) -> RowBlock:
    """Return the rows of the table `agents` of a population.

    Args:
        record: The record of the population.
        place: Its place in the log.
        suspended: Numbers of the members that are suspended at the end.
    """
    assert record.members is not None, "a table without agents has no members"
    owner, permissions, _, priority_max = record.members
    is_suspended = np.zeros(record.count, np.bool_)
    is_suspended[sorted(suspended)] = True
    cells: list[Cells] = [
        *map(Same, place),
        Names(record.stem, np.arange(record.count)),
        *map(Same, (owner, permissions, priority_max, JsonCell({}))),
        *(Values(is_suspended), Same(None)),
    ]
    return RowBlock(record.count, cells)


def collected_block(
    population: str, table: TableData, place: Place, fields: Sequence[str | None]
) -> RowBlock:
    """Return the rows that a collector takes of the members of a population.

    The columns are copied, because the next batch writes into them.

    Args:
        population: Name of the population.
        table: Its table.
        place: Tick, seq and simulated time.
        fields: Field of each collected column; None where the members have none.
    """
    cells: list[Cells] = [
        *map(Same, place),
        Names(population, np.arange(table.count)),
        *(Same(None) if name is None else Values(table.columns[name].copy()) for name in fields),
    ]
    return RowBlock(table.count, cells)
