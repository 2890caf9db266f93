"""The numbers of one entity along a log, for a plot of its fields over time."""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Final

from placet.history.timeline.timeline import Moment, Place, Timeline
from placet.schemas.codec import Json

POINTS_MAX: Final = 100
_FIELDS_MAX: Final = 12
_PARTS_MAX: Final = 3
"""Numbers of a list, such as a position, that are plotted."""


def trace_of(timeline: Timeline, collection: str, entity: str) -> list[dict[str, Json]]:
    """Return a series of each number of an entity, and of each short list of numbers.

    A series has the `seqs` of at most `POINTS_MAX` moments, of ticks where the log has them, and
    `lines` of values, None where the entity has none. O(log).

    Raises:
        StoreError: The log cannot be read.
    """

    def look(moment: Moment) -> tuple[int, dict[str, list[float]]]:
        fields = moment.state.entities().get(collection, {}).get(entity) or {}
        return moment.seq, dict(_numbers(fields))

    # The cursor of steps, so that the moment that is shown stays at hand.
    seen = [timeline.look(place, look, is_ahead=True) for place in _places(timeline)]
    names = dict.fromkeys(name for _, numbers in seen for name in numbers)
    return [_series(name, seen) for name in list(names)[:_FIELDS_MAX]]


def _series(name: str, seen: Sequence[tuple[int, Mapping[str, list[float]]]]) -> dict[str, Json]:
    parts = max(len(numbers.get(name, ())) for _, numbers in seen)
    return {
        "name": name,
        "note": "",
        "seqs": [seq for seq, _ in seen],
        "lines": [
            {
                "name": name if parts == 1 else f"[{part}]",
                "values": [
                    found[part] if part < len(found := numbers.get(name, [])) else None
                    for _, numbers in seen
                ],
            }
            for part in range(parts)
        ],
        "is_band": False,
    }


def _places(timeline: Timeline) -> list[Place]:
    """Return places along the log, the last one included."""
    ticks, first, end = timeline.index.ticks, timeline.first.record, timeline.index.record
    records = list(ticks) or list(range(first, end))
    every = -(-len(records) // POINTS_MAX) or 1
    return [Place(record) for record in records[::-1][::every][::-1]]


def _numbers(fields: Mapping[str, Json]) -> Iterator[tuple[str, list[float]]]:
    """Yield the fields of numbers, and of short lists of them."""
    for name, value in fields.items():
        parts = value if isinstance(value, list | tuple) else [value]
        if 0 < len(parts) <= _PARTS_MAX and all(map(_is_number, parts)):
            yield name, list(parts)


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
