"""The figures of categories: entities and rows by the value of a field, over the ticks of a run.

A field has categories if its values are texts, true and false, or small whole numbers, and few of
them differ. Nothing need be collected for it: the fields are folded from the log.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from placet.actors.ports import EventLog
from placet.history.selection import Selection
from placet.lab.reporting.collected import TICK
from placet.lab.reporting.figures import Axis, Figure
from placet.scenarios.portrayals import shown_value
from placet.schemas.codec import Json
from placet.schemas.portrayal import Portrayals
from placet.tables.walk import Walk

if TYPE_CHECKING:
    from placet.kernel.state.table import TableData

_VALUES_MAX: Final = 8
"""Largest number of values of a field of categories."""

_TEXT_MAX: Final = 40
_NUMBERS: Final = range(256)
"""Whole numbers that may be categories."""
_FIGURES_MAX: Final = 8
_MOMENTS_MAX: Final = 200
_LOOKS_MAX: Final = 4_000_000
"""Entities that are looked at in all moments together: a large world has fewer moments."""

_Counts = dict[tuple[str, str], Counter[str]]
"""Collection and field -> the number of entities of each value."""


def category_figures(log: EventLog, portrayals: Portrayals, ticks: int) -> Iterator[Figure]:
    """Yield a figure for each field of categories of a stepped run. O(log + moments * state).

    Args:
        log: The log; it is only read.
        portrayals: Portrayals by collection, which name values, and whose fields come first.
        ticks: Number of completed ticks.

    Raises:
        StoreError: The log cannot be read.
    """
    moments = dict(_moments(log, ticks))
    for collection, field in _chosen(list(moments.values()), portrayals):
        portrayal = portrayals.get(collection)
        is_named = portrayal is not None and portrayal.color == field
        names = portrayal.names if portrayal is not None and is_named else ()
        counts = [moment.get((collection, field), Counter[str]()) for moment in moments.values()]
        values = sorted({value for count in counts for value in count}, key=_order)
        data: dict[str, Sequence[Json]] = {}
        for value in values:
            shown = shown_value(value, names)
            before = data.get(shown, [0] * len(counts))  # two values may have one name
            data[shown] = [n + count[value] for n, count in zip(before, counts, strict=True)]
        noun = collection.rpartition(".")[2]
        yield Figure(
            title=f"{noun} by {field}",
            note=f"entities of {collection} with each value",
            x=Axis(TICK, list(moments)),
            data=data,
        )


def _moments(log: EventLog, ticks: int) -> Iterator[tuple[int, _Counts]]:
    """Yield ticks with the counts after them: the first, the last, and some between."""
    walk = Walk(log, Selection(), needs_fold=True)
    left_out: set[tuple[str, str]] = set()
    every = max(1, ticks // _MOMENTS_MAX)
    due = looks = 0
    for _ in walk:
        if walk.tick >= due and walk.tick:
            yield walk.tick, _counts(walk, left_out)
            looks += _size(walk)
            if looks > _LOOKS_MAX // 2:
                every *= 2
            due = walk.tick + every
    if walk.tick:
        yield walk.tick, _counts(walk, left_out)


def _size(walk: Walk) -> int:
    tables = {} if walk.folded is None else walk.folded.tables
    return sum(map(len, walk.fold.values())) + sum(table.count for table in tables.values())


def _counts(walk: Walk, left_out: set[tuple[str, str]]) -> _Counts:
    """Count the present values; fields of too many go to `left_out`, and are looked at no more."""
    counts: _Counts = {}
    for collection, entities in walk.fold.items():
        for fields in entities.values():
            for field, value in fields.items():
                key = (collection, field)
                if key not in left_out:
                    _count(counts, left_out, key, value)
    for name, table in ({} if walk.folded is None else walk.folded.tables).items():
        for field in table.fields:
            if (name, field) not in left_out:
                _count_column(counts, left_out, table, (name, field))
    return counts


def _count(
    counts: _Counts, left_out: set[tuple[str, str]], key: tuple[str, str], value: Json
) -> None:
    if type(value) is str and len(value) <= _TEXT_MAX:
        text = value
    elif type(value) is bool:
        text = "true" if value else "false"
    elif type(value) is int and value in _NUMBERS:
        text = str(value)
    elif value is None:
        return
    else:
        counts.pop(key, None)
        left_out.add(key)
        return
    count = counts.setdefault(key, Counter())
    count[text] += 1
    if len(count) > _VALUES_MAX:
        del counts[key]
        left_out.add(key)


def _count_column(
    counts: _Counts, left_out: set[tuple[str, str]], table: "TableData", key: tuple[str, str]
) -> None:
    import numpy as np  # noqa: PLC0415  # a run with tables has it

    column = table.columns[key[1]]
    is_small = column.ndim == 1 and column.dtype.kind in "bui" and len(column) > 0
    if is_small and (column.dtype.kind == "b" or np.ptp(column) < len(_NUMBERS)):
        values, numbers = np.unique(column, return_counts=True)
        if len(values) <= _VALUES_MAX:
            shown = [str(value).lower() for value in values.tolist()]
            counts[key] = Counter(dict(zip(shown, numbers.tolist(), strict=True)))
            return
    left_out.add(key)


def _chosen(moments: Sequence[_Counts], portrayals: Portrayals) -> list[tuple[str, str]]:
    """Return the fields that get a figure; fields that color marks come first.

    A field gets one if it has few values and their counts change in the run.
    """
    keys = dict.fromkeys(key for moment in moments for key in moment)
    last = moments[-1] if moments else {}
    found = []
    for key in keys:
        counts = [moment[key] for moment in moments if key in moment]
        values = {value for count in counts for value in count}
        is_steady = all(count == counts[0] for count in counts)
        if key in last and len(values) <= _VALUES_MAX and not is_steady:
            found.append(key)
    colored = {(name, portrayal.color) for name, portrayal in portrayals.items()}
    return sorted(found, key=lambda key: key not in colored)[:_FIGURES_MAX]


def _order(value: str) -> tuple[bool, int, str]:
    return (False, int(value), "") if value.isdecimal() else (True, 0, value)
