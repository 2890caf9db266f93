"""The figures of collected rows: series of the world, and the spread of the agents' fields."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, quantiles
from types import MappingProxyType
from typing import Final, TypeVar

from placet.lab.intervals import is_finite, left_out_note, not_finite
from placet.lab.reporting.bins import BINS_MAX
from placet.lab.reporting.figures import Axis, Figure, ReportSection, text_of, y_range_of
from placet.scenarios.portrayals import shown_value
from placet.schemas.codec import Json
from placet.schemas.documents import DocumentError, parse_json
from placet.schemas.errors import MissingExtraError
from placet.schemas.limits import SECOND_NS
from placet.sweeps.errors import LabError
from placet.sweeps.results import Results
from placet.tables.mappings import gathered
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

_CATEGORIES_MAX: Final = 8
"""Largest number of whole numbers of a field that are drawn as categories."""
_NO_NAMES: Final[Mapping[str, Sequence[str]]] = MappingProxyType({})

_Row = TypeVar("_Row")


def collected_section(
    folder: Path | None, names: Mapping[str, Sequence[str]] = _NO_NAMES
) -> ReportSection:
    """Return the figures of the rows in a folder; without it, a section that says so.

    Args:
        folder: The folder.
        names: By field of the agents, the names of its values 0, 1, 2, ...
    """
    title = "Collected series"
    if folder is None or not folder.is_dir():
        return ReportSection(
            title=title, figures=[], empty="The run collected no rows beside its log."
        )
    try:
        figures = list(collected_figures(read_collected(folder), names))
    except (CollectError, MissingExtraError, DocumentError) as error:
        return ReportSection(title=title, figures=[], empty=str(error))
    return ReportSection(
        title=title,
        figures=figures,
        empty="No collected column has numbers, mappings of numbers or few texts.",
    )


def collected_figures(
    tables: Mapping[str, ArrowTable], names: Mapping[str, Sequence[str]] = _NO_NAMES
) -> Iterator[Figure]:
    """Yield the figures of collected tables: of the world, then of the agents.

    Args:
        tables: The tables.
        names: By field of the agents, the names of its values 0, 1, 2, ...

    Raises:
        DocumentError: A cell is no JSON text.
    """
    if "world" in tables:
        yield from _world_figures(tables["world"], names)
    if "agents" in tables:
        yield from _agent_figures(tables["agents"], names)


def multiples_section(results: Results) -> ReportSection:
    """Return small multiples of the collected series of a study: one for each scenario.

    A figure shows the spread over the seeds; the figures of a column have one scale.
    """
    title = "Collected series over options"
    if "world" not in results.tables:
        empty = "The runs collected no series of the world: the scenario has no [collect.world]."
        return ReportSection(title=title, figures=[], empty=empty)
    try:
        rows = _rows(results.collected("world"))
    except (LabError, MissingExtraError, DocumentError) as error:
        return ReportSection(title=title, figures=[], empty=str(error))
    scenarios: dict[str, list[Mapping[str, Json]]] = {}
    for row in rows:
        name = ", ".join(f"{key} = {text_of(row[key])}" for key in results.parameters)
        scenarios.setdefault(name, []).append(row)
    left_out = _PLACE.union(results.parameters, ("seed",))
    shown = dict(list(scenarios.items())[:_MULTIPLES_MAX])
    figures = [f for name in _numbers(rows, left_out) for f in _multiples(name, shown)]
    figures += [f for name in _names(rows, dict, left_out) for f in _multiples_of_keys(name, shown)]
    empty = "No collected column of the world has numbers or mappings of numbers."
    return ReportSection(title=title, figures=figures, empty=empty)


def _multiples(
    name: str, scenarios: Mapping[str, Sequence[Mapping[str, Json]]]
) -> Iterator[Figure]:
    y_range = y_range_of([row[name] for rows in scenarios.values() for row in rows])
    for scenario, rows in scenarios.items():
        x, deciles = _spread(rows, name)
        yield Figure(
            title=name,
            note=f"{scenario or 'all runs'}: spread over the seeds{_left_out(rows, name)}",
            x=x,
            data=deciles,
            band=True,
            y_range=y_range,
        )


def _multiples_of_keys(
    name: str, scenarios: Mapping[str, Sequence[Mapping[str, Json]]]
) -> Iterator[Figure]:
    """Yield a figure for each scenario with the mean over the seeds of each key of a mapping."""
    every = [row[name] for rows in scenarios.values() for row in rows]
    known = list(dict.fromkeys(key for cell in every if isinstance(cell, dict) for key in cell))
    is_cut = len(known) > _SERIES_MAX
    cut = f"; the first {_SERIES_MAX} of {len(known)} keys" if is_cut else ""
    means = {scenario: _key_means(rows, name, known) for scenario, rows in scenarios.items()}
    y_range = y_range_of([v for _, data in means.values() for line in data.values() for v in line])
    for scenario, (x, data) in means.items():
        if data:
            note = f"{scenario or 'all runs'}: mean over the seeds{cut}"
            yield Figure(title=name, note=note, x=x, data=data, y_range=y_range)


def _key_means(
    rows: Sequence[Mapping[str, Json]], name: str, keys: Sequence[str]
) -> tuple[Axis, dict[str, list[Json]]]:
    """Return the ticks, and the mean of each key that has numbers at each of them."""
    shown = _by_tick(rows)
    lines: dict[str, list[Json]] = {}
    for key in keys[:_SERIES_MAX]:
        line: list[Json] = []
        for at_tick in shown:
            cells = [row[name] for row in at_tick if isinstance(row[name], dict)]
            values = [cell[key] for cell in cells if is_finite(cell.get(key))]
            line.append(mean(values) if values else None)
        if any(value is not None for value in line):
            lines[key] = line
    return _x_axis([at_tick[0] for at_tick in shown]), lines


def _world_figures(
    table: ArrowTable, names: Mapping[str, Sequence[str]] = _NO_NAMES
) -> Iterator[Figure]:
    rows = _thinned(_rows(table))
    for name in _numbers(rows):
        values = [value if is_finite(value := row[name]) else None for row in rows]
        yield Figure(
            title=name,
            note=f"of the world{_left_out(rows, name)}",
            x=_x_axis(rows),
            data={name: values},
        )
    for name in _names(rows, dict):
        yield _figure_of_keys(name, "of the world, a series for each key", rows, name, names)


def _rows(table: ArrowTable) -> list[dict[str, Json]]:
    """Return the rows of a table, with JSON text as its values, and mappings whole."""
    arrow = gathered(table.arrow)
    parsed = [field.name for field in arrow.schema if is_json(field.type)]
    rows: list[dict[str, Json]] = arrow.to_pylist()
    for row in rows:
        for name in parsed:
            if row[name] is not None:
                row[name] = parse_json(row[name])
    return rows


def _agent_figures(
    table: ArrowTable, names: Mapping[str, Sequence[str]] = _NO_NAMES
) -> Iterator[Figure]:
    rows = _rows(table)
    categories = [name for name in _names(rows, int) if _is_of_categories(rows, name)]
    for name in categories:
        yield _figure_of_values(rows, name, names.get(name.rpartition("/")[2], ()))
    for name in _numbers(rows, _PLACE.union(categories)):
        note = f"of the agents{_left_out(rows, name)}"
        x, deciles = _spread(rows, name)
        yield Figure(title=name, note=note, x=x, data=deciles, band=True)
    for name in _names(rows, str):
        if len({row[name] for row in rows if isinstance(row[name], str)}) <= _SERIES_MAX:
            yield _figure_of_values(rows, name, ())


def _is_of_categories(rows: Sequence[Mapping[str, Json]], name: str) -> bool:
    """Return whether a column has few values, which are whole numbers, or true and false."""
    values = [row[name] for row in rows if row[name] is not None]
    return {*map(type, values)} <= {int, bool} and len({*values}) <= _CATEGORIES_MAX


def _figure_of_values(
    rows: Sequence[Mapping[str, Json]], name: str, names: Sequence[str]
) -> Figure:
    """Return a figure of the number of agents of each value at each tick.

    Args:
        rows: The rows of the agents.
        name: Name of the column.
        names: Names of the values 0, 1, 2, ...; a value without one is shown itself.
    """
    values = sorted({row[name] for row in rows if isinstance(row[name], str | int)}, key=_order)
    shown = {value: shown_value(str(value), names) for value in values}
    if {*map(type, values)} == {bool}:
        shown = {value: str(value).lower() for value in values}
    counts: list[Mapping[str, Json]] = []
    for at_tick in _by_tick(rows):
        number: dict[str, Json] = dict.fromkeys(shown.values(), 0)
        for row in at_tick:
            if isinstance(row[name], str | int | float) and row[name] in shown:
                number[shown[row[name]]] += 1
        counts.append({**at_tick[0], name: number})
    return _figure_of_keys(name, "agents of each value", counts, name)


def _order(value: Json) -> tuple[bool, Json]:
    return isinstance(value, str), value


def _figure_of_keys(
    title: str,
    note: str,
    rows: Sequence[Mapping[str, Json]],
    name: str,
    names: Mapping[str, Sequence[str]] = _NO_NAMES,
) -> Figure:
    """Return a figure of a column of mappings: a series for each key that has numbers.

    Keys that are names of the values of one field have the order, and so the colors, of that field.
    """
    cells = [cell if isinstance(cell := row[name], dict) else {} for row in rows]
    known = dict.fromkeys(key for cell in cells for key in cell)
    keys = [key for key in known if any(is_finite(cell.get(key)) for cell in cells)]
    order: Sequence[str] = next((one for one in names.values() if {*keys} <= {*one}), keys)
    keys = sorted(keys, key=order.index)
    data = {
        key: [v if is_finite(v := cell.get(key)) else None for cell in cells]
        for key in keys[:_SERIES_MAX]
    }
    if len(keys) > _SERIES_MAX:
        note += f"; the first {_SERIES_MAX} of {len(keys)} keys"
    return Figure(title=title, note=note, x=_x_axis(rows), data=data)


def _names(
    rows: Sequence[Mapping[str, Json]], kind: type, left_out: frozenset[str] = _PLACE
) -> list[str]:
    """Return the collected columns that have a value of a type."""
    names = dict.fromkeys(name for row in rows for name in row if name not in left_out)
    return [name for name in names if any(isinstance(row.get(name), kind) for row in rows)]


def _spread(rows: Sequence[Mapping[str, Json]], name: str) -> tuple[Axis, dict[str, list[Json]]]:
    """Return the ticks, and the deciles of a column at each."""
    shown = _by_tick(rows)
    spread: dict[str, list[Json]] = {label: [] for label in ("10 %", "median", "90 %")}
    for at_tick in shown:
        values = [row[name] for row in at_tick if is_finite(row[name])]
        deciles = quantiles(values, n=10) if len(values) > 1 else values * 9
        for label, place in (("10 %", 0), ("median", 4), ("90 %", 8)):
            spread[label].append(deciles[place] if values else None)
    return _x_axis([at_tick[0] for at_tick in shown]), spread


def _by_tick(rows: Sequence[Mapping[str, Json]]) -> Sequence[list[Mapping[str, Json]]]:
    """Return the rows of each of the ticks that are drawn, in order."""
    by_tick: dict[int, list[Mapping[str, Json]]] = {}
    for row in rows:
        by_tick.setdefault(row["tick"], []).append(row)
    return _thinned([by_tick[tick] for tick in sorted(by_tick)])


def _numbers(rows: Sequence[Mapping[str, Json]], left_out: frozenset[str] = _PLACE) -> list[str]:
    names = dict.fromkeys(name for row in rows for name in row if name not in left_out)
    return [name for name in names if any(is_finite(row.get(name)) for row in rows)]


def _left_out(rows: Sequence[Mapping[str, Json]], name: str) -> str:
    return left_out_note(not_finite(row[name] for row in rows))


def _x_axis(rows: Sequence[Mapping[str, Json]]) -> Axis:
    """Return the x axis: the ticks of a run that has them, or its time."""
    if len({row["tick"] for row in rows}) > 1:
        return Axis(TICK, [row["tick"] for row in rows])
    return Axis(TIME, [row["sim_time_ns"] / SECOND_NS for row in rows])


def _thinned(rows: Sequence[_Row]) -> Sequence[_Row]:
    """Return every k-th of the rows, so that a chart has at most twice `BINS_MAX` points."""
    return rows[:: max(1, len(rows) // BINS_MAX)]
