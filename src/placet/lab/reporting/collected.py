"""The figures of collected rows: series of the world, and the spread of the agents' fields."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import quantiles
from typing import Final, TypeVar

from placet.lab.reporting.bins import BINS_MAX
from placet.lab.reporting.figures import Figure, ReportSection
from placet.schemas.codec import Json
from placet.schemas.limits import SECOND_NS
from placet.tables.arrow import MissingExtraError
from placet.tables.parts import CollectError, read_collected
from placet.tables.table import Table

_PLACE: Final = frozenset({"tick", "seq", "sim_time_ns", "agent"})
_TIME: Final = "simulated time, s"

_Row = TypeVar("_Row")


def collected_beside(log: Path) -> Path:
    """Return the folder in which a run collects rows beside its log."""
    return log.with_name(f"{log.name}.collected")


def collected_section(folder: Path | None) -> ReportSection:
    """Return the figures of the rows in a folder; without it, a section that says so."""
    title = "Collected series"
    if folder is None or not folder.is_dir():
        return ReportSection(
            title=title, figures=[], empty="The run collected no rows beside its log."
        )
    try:
        tables = read_collected(folder)
    except (CollectError, MissingExtraError) as error:
        return ReportSection(title=title, figures=[], empty=str(error))
    figures = [
        *(_world_figures(tables["world"]) if "world" in tables else ()),
        *(_agent_figures(tables["agents"]) if "agents" in tables else ()),
    ]
    return ReportSection(title=title, figures=figures, empty="No collected column is a number.")


def _world_figures(table: Table) -> Iterator[Figure]:
    rows = _thinned(list(table.rows()))
    for name in _numbers(rows):
        times = [_seconds(row) for row in rows]
        yield Figure(
            title=name,
            note="of the world",
            data={_TIME: times, name: [row[name] for row in rows]},
            lines=True,
        )


def _agent_figures(table: Table) -> Iterator[Figure]:
    by_tick: dict[int, list[Mapping[str, Json]]] = {}
    for row in table.rows():
        by_tick.setdefault(row["tick"], []).append(row)
    ticks = _thinned(list(by_tick.values()))
    for name in _numbers([row for rows in ticks for row in rows]):
        spread: dict[str, list[Json]] = {_TIME: [], "10 %": [], "median": [], "90 %": []}
        for rows in ticks:
            values = [row[name] for row in rows if _is_number(row[name])]
            deciles = quantiles(values, n=10) if len(values) > 1 else values * 9
            spread[_TIME].append(_seconds(rows[0]))
            for label, place in (("10 %", 0), ("median", 4), ("90 %", 8)):
                spread[label].append(deciles[place] if values else None)
        yield Figure(title=name, note="of the agents", data=spread, lines=True)


def _numbers(rows: Sequence[Mapping[str, Json]]) -> list[str]:
    names = dict.fromkeys(name for row in rows for name in row if name not in _PLACE)
    return [name for name in names if any(_is_number(row.get(name)) for row in rows)]


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float)


def _seconds(row: Mapping[str, Json]) -> float:
    return float(row["sim_time_ns"]) / SECOND_NS


def _thinned(rows: Sequence[_Row]) -> Sequence[_Row]:
    """Return every k-th of the rows, so that a chart has at most twice `BINS_MAX` points."""
    return rows[:: max(1, len(rows) // BINS_MAX)]
