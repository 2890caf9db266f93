"""The figures of collected rows: series of the world, and the spread of the agents' fields."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import quantiles
from typing import Final, TypeVar

from placet.lab.intervals import is_finite, left_out_note, not_finite
from placet.lab.reporting.bins import BINS_MAX
from placet.lab.reporting.figures import Figure, ReportSection, text_of, y_range_of
from placet.schemas.codec import Json
from placet.schemas.documents import DocumentError, parse_json
from placet.schemas.errors import MissingExtraError
from placet.schemas.limits import SECOND_NS
from placet.sweeps.errors import LabError
from placet.sweeps.results import Results
from placet.tables.parts import CollectError, read_collected
from placet.tables.table import ArrowTable, is_json

TICK: Final = "tick"
TIME: Final = "simulated time, s"
"""Names of the x axis of a run with ticks, and of one without."""

_PLACE: Final = frozenset({"tick", "seq", "sim_time_ns", "agent"})
_MULTIPLES_MAX: Final = 24
"""Largest number of scenarios in small multiples."""
_SERIES_MAX: Final = 12
"""Largest number of series of a mapping, or values of a text field, in one figure."""

_Row = TypeVar("_Row")


def collected_section(folder: Path | None) -> ReportSection:
    """Return the figures of the rows in a folder; without it, a section that says so."""
    title = "Collected series"
    if folder is None or not folder.is_dir():
        return ReportSection(
            title=title, figures=[], empty="The run collected no rows beside its log."
        )
    try:
        figures = list(collected_figures(read_collected(folder)))
    except (CollectError, MissingExtraError, DocumentError) as error:
        return ReportSection(title=title, figures=[], empty=str(error))
    return ReportSection(
        title=title,
        figures=figures,
        empty="No collected column has numbers, mappings of numbers or few texts.",
    )


def collected_figures(tables: Mapping[str, ArrowTable]) -> Iterator[Figure]:
    """Yield the figures of collected tables: of the world, then of the agents.

    Raises:
        DocumentError: A cell is no JSON text.
    """
    if "world" in tables:
        yield from _world_figures(tables["world"])
    if "agents" in tables:
        yield from _agent_figures(tables["agents"])


def multiples_section(results: Results) -> ReportSection:
    """Return small multiples of the collected series of a study: one for each scenario.

    A figure shows the spread over the seeds; the figures of a column have one scale.
    """
    title = "Collected series over options"
    empty = "The runs collected no series of the world: the scenario has no [collect.world]."
    if "world" not in results.tables:
        return ReportSection(title=title, figures=[], empty=empty)
    try:
        table = results.collected("world")
    except (LabError, MissingExtraError) as error:
        return ReportSection(title=title, figures=[], empty=str(error))
    scenarios: dict[str, list[Mapping[str, Json]]] = {}
    for row in table.rows():
        name = ", ".join(f"{key} = {text_of(row[key])}" for key in results.parameters)
        scenarios.setdefault(name, []).append(row)
    left_out = _PLACE.union(results.parameters, ("seed",))
    columns = _numbers([row for rows in scenarios.values() for row in rows], left_out)
    figures = [
        figure
        for name in columns
        for figure in _multiples(name, dict(list(scenarios.items())[:_MULTIPLES_MAX]))
    ]
    return ReportSection(title=title, figures=figures, empty=empty)


def _multiples(
    name: str, scenarios: Mapping[str, Sequence[Mapping[str, Json]]]
) -> Iterator[Figure]:
    y_range = y_range_of([row[name] for rows in scenarios.values() for row in rows])
    for scenario, rows in scenarios.items():
        yield Figure(
            title=name,
            note=f"{scenario or 'all runs'}: spread over the seeds{_left_out(rows, name)}",
            data=_spread(rows, name),
            lines=True,
            band=True,
            y_range=y_range,
        )


def _world_figures(table: ArrowTable) -> Iterator[Figure]:
    rows = _thinned(_rows(table))
    for name in _numbers(rows):
        values = [value if is_finite(value := row[name]) else None for row in rows]
        yield Figure(
            title=name,
            note=f"of the world{_left_out(rows, name)}",
            data={**_x_axis(rows), name: values},
            lines=True,
        )
    for name in _names(rows, dict):
        yield _figure_of_keys(name, "of the world, a series for each key", rows, name)


def _rows(table: ArrowTable) -> list[dict[str, Json]]:
    """Return the rows of a table, with JSON text as its values."""
    parsed = [field.name for field in table.arrow.schema if is_json(field.type)]
    rows = list(table.rows())
    for row in rows:
        for name in parsed:
            if row[name] is not None:
                row[name] = parse_json(row[name])
    return rows


def _agent_figures(table: ArrowTable) -> Iterator[Figure]:
    rows = _rows(table)
    for name in _numbers(rows):
        note = f"of the agents{_left_out(rows, name)}"
        yield Figure(title=name, note=note, data=_spread(rows, name), lines=True, band=True)
    for name in _names(rows, str):
        if len({row[name] for row in rows}) <= _SERIES_MAX:
            note = "agents of each value"
            yield _figure_of_keys(name, note, _thinned(_counts(rows, name)), name)


def _figure_of_keys(title: str, note: str, rows: Sequence[Mapping[str, Json]], name: str) -> Figure:
    """Return a figure of a column of mappings: a series for each key that has numbers."""
    cells = [cell if isinstance(cell := row[name], dict) else {} for row in rows]
    known = dict.fromkeys(key for cell in cells for key in cell)
    keys = [key for key in known if any(is_finite(cell.get(key)) for cell in cells)]
    data = _x_axis(rows)
    for key in keys[:_SERIES_MAX]:
        data[key] = [v if is_finite(v := cell.get(key)) else None for cell in cells]
    if len(keys) > _SERIES_MAX:
        note += f"; the first {_SERIES_MAX} of {len(keys)} keys"
    return Figure(title=title, note=note, data=data, lines=True)


def _counts(rows: Sequence[Mapping[str, Json]], name: str) -> list[Mapping[str, Json]]:
    """Return a row for each tick, whose column has the number of agents of each text."""
    values = sorted({row[name] for row in rows if isinstance(row[name], str)})
    by_tick: dict[int, dict[str, Json]] = {}
    for row in rows:
        none: dict[str, Json] = {**row, name: dict.fromkeys(values, 0)}
        at_tick = by_tick.setdefault(row["tick"], none)
        if isinstance(row[name], str):
            at_tick[name][row[name]] += 1
    return [by_tick[tick] for tick in sorted(by_tick)]


def _names(rows: Sequence[Mapping[str, Json]], kind: type) -> list[str]:
    """Return the collected columns that have a value of a type."""
    names = dict.fromkeys(name for row in rows for name in row if name not in _PLACE)
    return [name for name in names if any(isinstance(row.get(name), kind) for row in rows)]


def _spread(rows: Sequence[Mapping[str, Json]], name: str) -> dict[str, list[Json]]:
    """Return the deciles of a column at each tick."""
    by_tick: dict[int, list[Mapping[str, Json]]] = {}
    for row in rows:
        by_tick.setdefault(row["tick"], []).append(row)
    shown = _thinned([by_tick[tick] for tick in sorted(by_tick)])
    spread = _x_axis([at_tick[0] for at_tick in shown])
    spread |= {label: [] for label in ("10 %", "median", "90 %")}
    for at_tick in shown:
        values = [row[name] for row in at_tick if is_finite(row[name])]
        deciles = quantiles(values, n=10) if len(values) > 1 else values * 9
        for label, place in (("10 %", 0), ("median", 4), ("90 %", 8)):
            spread[label].append(deciles[place] if values else None)
    return spread


def _numbers(rows: Sequence[Mapping[str, Json]], left_out: frozenset[str] = _PLACE) -> list[str]:
    names = dict.fromkeys(name for row in rows for name in row if name not in left_out)
    return [name for name in names if any(is_finite(row.get(name)) for row in rows)]


def _left_out(rows: Sequence[Mapping[str, Json]], name: str) -> str:
    return left_out_note(not_finite(row[name] for row in rows))


def _x_axis(rows: Sequence[Mapping[str, Json]]) -> dict[str, list[Json]]:
    """Return the column of the x axis: the ticks of a run that has them, or its time."""
    if len({row["tick"] for row in rows}) > 1:
        return {TICK: [row["tick"] for row in rows]}
    return {TIME: [row["sim_time_ns"] / SECOND_NS for row in rows]}


def _thinned(rows: Sequence[_Row]) -> Sequence[_Row]:
    """Return every k-th of the rows, so that a chart has at most twice `BINS_MAX` points."""
    return rows[:: max(1, len(rows) // BINS_MAX)]
