"""The fields of one entity along a log, for a plot over time: numbers as lines, others as bands."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Final

from placet.history.timeline.moments import NO_PORTRAYALS, short
from placet.history.timeline.timeline import Moment, Place, Timeline
from placet.schemas.codec import Json
from placet.schemas.portrayal import Portrayals

POINTS_MAX: Final = 100
CATEGORIES_MAX: Final = 8
"""Values of a field that have a color each, as many as the map has."""
_FIELDS_MAX: Final = 12
_PARTS_MAX: Final = 3
"""Numbers of a list, such as a position, that are plotted."""
_OTHER: Final = -1
"""The value of a band for all values beyond those with a color."""
_OF_ONE_BYTE: Final = ("b1", "i1", "u1")
"""Fields of tables that the map colors as categories while they have few values."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """The values of a field at the moments: no key where there is no entity or no such field."""

    name: str
    by_moment: Mapping[int, Json]
    names: Sequence[str] = ()
    is_category: bool = False

    @property
    def known(self) -> list[Json]:
        """The values that are no null."""
        return [value for value in self.by_moment.values() if value is not None]


def trace_of(
    timeline: Timeline, collection: str, entity: str, portrayals: Portrayals = NO_PORTRAYALS
) -> dict[str, Json]:
    """Return `series` of the fields of an entity, and `left_out`, the names of the other fields.

    A series has the `seqs` of at most `POINTS_MAX` moments, of ticks where the log has them. That
    of numbers, or of short lists of numbers, has `lines` of values, None where there is none. That
    of texts, booleans and categories has `categories`, each a value and its name, in the order of
    their colors, and `values`: numbers of categories, -1 of a value beyond `CATEGORIES_MAX`, None
    where there is no such entity or field. Null is a category. From one moment to the next are
    `every` of `unit`, ticks or records. O(log).

    Args:
        timeline: The time line of the log.
        collection: Collection or table of the entity.
        entity: Id of the entity.
        portrayals: They name the values of the fields that color.

    Raises:
        StoreError: The log cannot be read.
    """

    def look(moment: Moment) -> tuple[int, dict[str, Json]]:
        fields = moment.state.entities().get(collection, {}).get(entity) or {}
        return moment.seq, {name: _kept(value) for name, value in fields.items()}

    def one_byte(moment: Moment) -> frozenset[str]:
        table = moment.state.tables.get(collection)
        fields = {} if table is None else table.fields
        return frozenset(name for name, (dtype, *_) in fields.items() if dtype in _OF_ONE_BYTE)

    places, every = _places(timeline)
    # The cursor of steps, so that the moment that is shown stays at hand.
    seen = [timeline.look(place, look, is_ahead=True) for place in places]
    small = timeline.look(places[-1], one_byte, is_ahead=True) if places else frozenset()
    seqs = [seq for seq, _ in seen]
    portrayal = portrayals.get(collection)
    series: list[dict[str, Json]] = []
    left_out: list[str] = []
    for name in dict.fromkeys(name for _, fields in seen for name in fields):
        values = {at: fields[name] for at, (_, fields) in enumerate(seen) if name in fields}
        names = portrayal.names if portrayal is not None and portrayal.color == name else ()
        drawn = _drawn(_Seen(name, values, names, is_category=name in small), len(seen))
        if drawn is None or len(series) == _FIELDS_MAX:
            left_out.append(name)
        else:
            series.append({"name": name, "note": "", "seqs": seqs, **drawn})
    unit = "tick" if timeline.index.ticks else "record"
    return {"series": series, "left_out": left_out, "every": every, "unit": unit}


def _drawn(field: _Seen, moments: int) -> dict[str, Json] | None:
    """Return the lines or the categories of a field; None if its values are neither."""
    known = field.known
    is_scalar = all(isinstance(value, str | int | float) for value in known)
    distinct = len(set(known)) if is_scalar else 0
    is_few = field.is_category and distinct <= CATEGORIES_MAX
    if known and all(map(_is_numbers, known)) and not (is_scalar and (field.names or is_few)):
        return _lines(field, moments)
    return _bands(field, moments) if is_scalar else None


def _lines(field: _Seen, moments: int) -> dict[str, Json]:
    parts = {at: _parts(value) for at, value in field.by_moment.items()}
    count = max(map(len, parts.values()))
    return {
        "lines": [
            {
                "name": field.name if count == 1 else f"[{part}]",
                "values": [
                    found[part] if part < len(found := parts.get(at, ())) else None
                    for at in range(moments)
                ],
            }
            for part in range(count)
        ],
        "is_band": False,
    }


def _bands(field: _Seen, moments: int) -> dict[str, Json]:
    counts = Counter(map(_keyed, field.known))
    common = [key for key, _ in counts.most_common(CATEGORIES_MAX)]
    has_null = len(field.known) < len(field.by_moment)
    shown = [
        *sorted(common, key=lambda key: _order(key, field.names)),
        *([None] if has_null else []),
    ]
    number_of = {key: number for number, key in enumerate(shown)}
    values = {
        at: number_of.get(None if value is None else _keyed(value), _OTHER)
        for at, value in field.by_moment.items()
    }
    return {
        "categories": [
            {"name": "null", "value": None}
            if key is None
            else {"name": _name_of(key[1], field.names), "value": short(key[1])}
            for key in shown
        ],
        "values": [values.get(at) for at in range(moments)],
    }


def _keyed(value: Json) -> tuple[bool, Json]:
    """Return a value as a key that keeps true from 1 and false from 0."""
    return isinstance(value, bool), value


def _order(key: tuple[bool, Json], names: Sequence[str]) -> tuple[int, float, str]:
    """Return the place of a value: by its place among names, else numbers before texts."""
    _, value = key
    if isinstance(value, str):
        return (0, names.index(value), "") if value in names else (2, 0, value)
    return 0 if _is_named(value, names) else 1, float(value), ""


def _name_of(value: Json, names: Sequence[str]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if _is_named(value, names):
        return names[int(value)]
    return str(short(value))


def _is_named(value: Json, names: Sequence[str]) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value < len(names) and value == int(value)


def _places(timeline: Timeline) -> tuple[list[Place], int]:
    """Return places along the log, the last one included, and the ticks or records between two."""
    ticks, first, end = timeline.index.ticks, timeline.first.record, timeline.index.record
    records = list(ticks) or list(range(first, end))
    every = -(-len(records) // POINTS_MAX) or 1
    return [Place(record) for record in records[::-1][::every][::-1]], every


def _kept(value: Json) -> Json:
    """Return a value that no later record changes: a list copied, infinity and NaN as null."""
    if isinstance(value, list | tuple):
        return list(value)
    return None if isinstance(value, float) and not isfinite(value) else value


def _parts(value: Json) -> Sequence[Json]:
    if value is None:
        return ()
    return value if isinstance(value, list) else (value,)


def _is_numbers(value: Json) -> bool:
    """Return whether a value is a number, or a short list of numbers."""
    parts = _parts(value)
    return 0 < len(parts) <= _PARTS_MAX and all(map(_is_number, parts))


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
