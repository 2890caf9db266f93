"""The rows that a run collected beside its log, as series along its seqs."""

from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Final

from placet.actors.ports import EventLog
from placet.history.timeline.moments import NO_PORTRAYALS
from placet.lab.reporting.collected import TICK, collected_figures
from placet.lab.reporting.figures import Figure
from placet.scenarios.portrayals import names_by_field
from placet.schemas.codec import Json
from placet.schemas.documents import DocumentError
from placet.schemas.errors import MissingExtraError
from placet.schemas.portrayal import Portrayals
from placet.stores.url import whereabouts_of
from placet.tables.parts import CollectError, collected_beside, read_written
from placet.tables.table import Tables

_SERIES_MAX: Final = 24
_FOLDERS_KEPT: Final = 4
"""Folders whose series are kept until a file is written in them."""


def series_of(log: EventLog, portrayals: Portrayals = NO_PORTRAYALS) -> dict[str, Json]:
    """Return the series of the rows beside a log, as `list_series` answers them.

    They are those of the run's report: each number of the world, the keys of its mappings, deciles
    of the agents' numbers, and agents of each text. O(rows) when new ones were written.
    """
    path = whereabouts_of(log)
    folder = None if path is None else collected_beside(path)
    if folder is None or not folder.is_dir():
        return {"series": [], "problem": ""}
    written = (one.stat().st_mtime_ns for one in (folder, folder / "parts") if one.exists())
    names = tuple(sorted(names_by_field(portrayals).items()))
    return _read(folder, max(written, default=0), names)


@lru_cache(maxsize=_FOLDERS_KEPT)
def _read(
    folder: Path, _written_ns: int, names: tuple[tuple[str, tuple[str, ...]], ...]
) -> dict[str, Json]:
    try:
        tables = read_written(folder)
        figures = list(islice(collected_figures(tables, dict(names)), _SERIES_MAX))
    except (CollectError, MissingExtraError, DocumentError) as error:
        return {"series": [], "problem": str(error)}
    seqs = _seqs_of_ticks(tables)
    drawn = [
        _series(figure, [seqs[tick] for tick in figure.x.values])
        for figure in figures
        if figure.x is not None and figure.x.name == TICK
    ]
    return {"series": drawn, "problem": ""}


def _seqs_of_ticks(tables: Tables) -> dict[int, int]:
    return {
        tick: seq
        for name in ("world", "agents")
        if name in tables
        for tick, seq in zip(
            *(tables[name].arrow[column].to_pylist() for column in ("tick", "seq")), strict=True
        )
    }


def _series(figure: Figure, seqs: list[int]) -> dict[str, Json]:
    return {
        "name": figure.title,
        "note": figure.note,
        "seqs": seqs,
        "lines": [{"name": name, "values": values} for name, values in figure.data.items()],
        "is_band": figure.band,
    }
