"""Moments, steps and records as JSON: bounded in size, whatever the log holds.

Values are shortened for tables and lists; `entity_of` returns one entity whole.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from math import isfinite
from types import MappingProxyType
from typing import Final

from placet.history.batch_outcomes import is_held, noted_in, stage_of
from placet.history.column_rows import refusal_counts, refused_count
from placet.history.timeline.fold import Collections, PlayedState, changed_in
from placet.history.timeline.links import links_of_entities
from placet.history.timeline.portrayal import layer_of, portrayals_of
from placet.history.timeline.tables import TableEntities
from placet.history.timeline.timeline import Moment, Place, PlayedStep, Timeline
from placet.kernel.gate.conditions import text_of
from placet.kernel.plugin.approved import ASK
from placet.kernel.plugin.noted_refusals import NotedRefusal
from placet.schemas.approval import ASKS
from placet.schemas.codec import Json, to_json
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.column_summary import rows_of
from placet.schemas.log.record import (
    Admitted,
    Columns,
    Record,
    Refused,
    Scheduled,
    intents_of,
    record_as_dict,
    record_type,
)
from placet.schemas.name_suggestions import did_you_mean
from placet.schemas.portrayal import Mark, Portrayal, Portrayals

POINTS_MAX: Final = 200_000
"""Entities on a map, and as many rows of tables."""
ROWS_MAX: Final = 200
"""Rows of one page of a table."""
_FIELDS_MAX: Final = 24
_TEXT_CHARS_MAX: Final = 160
_INTENTS_MAX: Final = 8
_LISTED_MAX: Final = 12
_EXACT_MAX: Final = 2**53
"""A browser's numbers are exact below."""
_OF_INTENTS: Final = ("agent_id", "req_id", "kind", "priority", "context_seq")
_SAMPLED: Final = 50
"""Entities of a collection whose fields are offered as colors."""
_COLORS_MAX: Final = 48
_CATEGORY_CHARS_MAX: Final = 40
NO_PORTRAYALS: Final[Portrayals] = MappingProxyType({})
_HEADS: Final = frozenset(
    {
        *("agent_id", "count", "depth_max", "effect_seq", "error", "kind", "output", "owner"),
        *("parent", "succeeded", "table", "what", "why", "world"),
    }
)
"""What is shown of records that are no batch."""


def place_json(place: Place) -> dict[str, Json]:
    """Return a place as JSON."""
    return {"record": place.record, "batch": place.batch}


def history_of(timeline: Timeline) -> dict[str, Json]:
    """Return the extent of a log, and how many intents were admitted, refused and held."""
    index, start = timeline.index, timeline.index.start
    width, bars = timeline.bars()
    return {
        "records": timeline.log.count(),
        "indexed": index.record,
        "seq": index.seq,
        "ticks": len(index.ticks),
        "sim_time": index.now_ns / SECOND_NS,
        "start": {"record": start.record, "seq": start.seq},
        "first": place_json(timeline.first),
        "compactions": index.compactions,
        "bar_seqs": width,
        "bars": [list(bar) for bar in bars],
        "codes": timeline.codes(),
        "held": timeline.held(),
    }


def moment_head(moment: Moment) -> dict[str, Json]:
    """Return a moment without its state: position, time, latest record, sizes of collections."""
    last, state = moment.last, moment.state
    of_agents = {name for name, table in state.tables.items() if table.stem in state.populations}
    return {
        **place_json(moment.place),
        "batches": moment.batches,
        "seq": moment.seq,
        "tick": moment.ticks,
        "sim_time": moment.now_ns / SECOND_NS,
        "event": None if last is None else event_of(moment.place, last),
        "collections": [
            {"name": name, "count": len(rows), "of_agents": name in of_agents}
            for name, rows in sorted(state.entities().items())
        ],
        "agent_count": state.agent_count,
    }


def map_of(
    state: PlayedState,
    color: str | None = None,
    tables: Collection[str] | None = None,
    portrayals: Portrayals = NO_PORTRAYALS,
    cells: str | None = None,
    given: Portrayals | None = None,
) -> dict[str, Json]:
    """Return the entities and rows with a place, as layers, and the color fields. O(entities).

    The cells of a grid are a layer too: an area for each, colored by a field.

    Args:
        state: The state of a world at one moment.
        color: `collection/field` by which a collection or a table is colored, and no other; None
            for the portrayals, and a name that none has for none.
        tables: The tables of which layers are returned; None for all, and for other collections.
        portrayals: How collections and tables are drawn by default.
        cells: `table/field` by which the cells of a grid are colored, and no others; None for the
            portrayals or the first layer, and a name that none has for none.
        given: Those of the portrayals of which a field that no entity has is told; None is all.
    """
    layers = [] if tables is not None else _layers_of_entities(state.collections, portrayals)
    has_places = bool(layers) if tables is None else _has_places(state.collections, portrayals)
    drawn = portrayals_of(state, has_places=has_places, portrayals=portrayals)
    of_rows = {name: tuple(drawn[name].colors) for name in drawn if not drawn[name].is_cells}
    of_cells = {name: tuple(drawn[name].colors) for name in drawn if drawn[name].is_cells}
    colors = _entity_fields(layers, state.collections)
    colors += [f"{name}/{field}" for name, fields in of_rows.items() for field in fields]
    others = {name: one for name, one in portrayals.items() if name not in of_cells}
    used = _colors_used(color, of_rows, others) | _cells_used(cells, of_cells, portrayals)
    for layer in layers:
        _color_entities(layer, used, state.collections, portrayals)
        _mark_entities(layer, state.collections, portrayals)
    left = POINTS_MAX
    for name, rows in drawn.items():
        table = state.tables[name]
        if tables is None or name in tables:
            field = used.get(name)
            color = field if field in rows.colors else None
            layer = layer_of(name, table, rows, color, left, portrayals.get(name))
            if "color" in layer:
                _name_values(layer["color"], _names(portrayals, name, field))
            layers.append(layer)
        left -= min(table.count, left)
    shown = [f"{name}/{field}" for name, field in used.items()]
    cell_fields = [f"{name}/{field}" for name, fields in of_cells.items() for field in fields]
    known = colors + cell_fields
    return {
        "map": layers,
        "colors": colors,
        "color": next((one for one in shown if one in colors), ""),
        "cells": cell_fields,
        "cell": next((one for one in shown if one in cell_fields), ""),
        "unknown": []
        if tables is not None
        else _unknown(portrayals if given is None else given, known, layers, state.collections),
    }


def portrayed(
    moment: Moment, collections: Collection[str], color: str | None, portrayals: Portrayals
) -> list[dict[str, Json]]:
    """Return the colors and marks of the entities of collections, as layers without places."""
    used = _colors_used(color, {}, portrayals)
    layers: list[dict[str, Json]] = []
    for name in sorted((used.keys() | portrayals.keys()) & set(collections)):
        rows = moment.state.collections.get(name, {})
        layer: dict[str, Json] = {"collection": name, "ids": list(islice(rows, POINTS_MAX))}
        _color_entities(layer, used, moment.state.collections, portrayals)
        _mark_entities(layer, moment.state.collections, portrayals)
        layers += [layer] if layer.keys() - {"collection", "ids"} else []
    return layers


def _colors_used(
    color: str | None, of_rows: Mapping[str, Sequence[str]], portrayals: Portrayals
) -> dict[str, str]:
    """Return the color field of each collection and table that has one."""
    if color is not None:
        name, _, field = color.rpartition("/")
        return {name: field} if name else {}
    used = {name: one.color for name, one in portrayals.items() if one.color is not None}
    if not used:
        colored = ((name, fields[0]) for name, fields in of_rows.items() if fields)
        used = dict(islice(colored, 1))
    return used


def _cells_used(
    cells: str | None, of_cells: Mapping[str, Sequence[str]], portrayals: Portrayals
) -> dict[str, str]:
    """Return the color field of each table of cells that has one: by default a layer, no count."""
    if cells is not None:
        name, _, field = cells.rpartition("/")
        return {name: field} if name in of_cells else {}
    used: dict[str, str] = {}
    for name, fields in of_cells.items():
        chosen = portrayals[name].color if name in portrayals else None
        layer = chosen or next((field for field in fields if field != "count"), None)
        used |= {name: layer} if layer else {}
    return used


def _names(portrayals: Portrayals, name: str, field: str | None) -> Sequence[str]:
    """Return the names of the values of a field; they belong to the color of a portrayal."""
    portrayal = portrayals.get(name)
    return portrayal.names if portrayal is not None and portrayal.color == field else ()


def _name_values(color: dict[str, Json], names: Sequence[str]) -> None:
    """Make categories of numbers that have names."""
    color["names"] = list(names)
    if names and color["form"] == "number":
        color["form"] = "category"


def _entity_fields(layers: Sequence[Mapping[str, Json]], collections: Collections) -> list[str]:
    """Return `collection/field` of the fields that color the entities of layers."""
    found: dict[str, None] = {}
    for layer in layers:
        name = layer["collection"]
        for entity in layer["ids"][:_SAMPLED]:
            fields = collections[name][entity]
            found |= {f"{name}/{one}": None for one in fields if _colors(fields[one])}
    return list(found)[:_COLORS_MAX]


def _colors(value: Json) -> bool:
    """Return whether a value colors: a short text, a number, true or false."""
    if isinstance(value, str):
        return len(value) <= _CATEGORY_CHARS_MAX
    return isinstance(value, bool | int | float)


def _color_entities(
    layer: dict[str, Json],
    used: Mapping[str, str],
    collections: Collections,
    portrayals: Portrayals,
) -> None:
    """Add the values of the color field to a layer of entities, null for one without a value."""
    name = layer["collection"]
    field = used.get(name)
    if field is None:
        return
    rows = collections.get(name, {})
    values = [rows[entity].get(field) for entity in layer["ids"]]
    values = [value if _colors(value) else None for value in values]
    known = [value for value in values if value is not None]
    if known:
        is_number = all(not isinstance(value, bool | str) for value in known)
        names = list(_names(portrayals, name, field))
        form = "number" if is_number and not names else "category"
        layer["color"] = {"field": field, "form": form, "values": values, "names": names}


def _mark_entities(
    layer: dict[str, Json], collections: Collections, portrayals: Portrayals
) -> None:
    """Add sizes, markers, labels and links to a layer of entities, null for one without a value."""
    name = layer["collection"]
    rows = collections.get(name, {})
    for mark, field in portrayals[name].marks.items() if name in portrayals else ():
        values = [_mark(mark, rows[entity].get(field)) for entity in layer["ids"]]
        if any(value is not None for value in values):
            layer[mark] = {"field": field, "values": values}
    links = portrayals[name].links if name in portrayals else None
    if links is not None:
        layer["links"] = links_of_entities(layer["ids"], rows, links)


def _mark(mark: Mark, value: Json) -> Json:
    """Return a value as a size, a marker or a label; None if it is none."""
    if mark == "size":
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return short(value) if is_number and isfinite(value) else None
    if mark == "label":
        return short(value)
    return value if _colors(value) else None


def _unknown(
    portrayals: Portrayals,
    colors: Sequence[str],
    layers: Sequence[Mapping[str, Json]],
    collections: Collections,
) -> list[str]:
    """Return a sentence for each field of a portrayal of which no drawn entity or row has a value.

    A field may come with a later record, so a portrayal of a collection without entities is left
    out.
    """
    drawn = {layer["collection"]: layer for layer in layers}
    sentences = []
    for name, portrayal in portrayals.items():
        if name not in drawn:
            if collections.get(name):
                sentences.append(f"portrayal of {name}: {_nowhere(collections[name], portrayal)}")
            continue
        known = [each.rpartition("/")[2] for each in colors if each.startswith(f"{name}/")]
        missing = [field for mark, field in portrayal.marks.items() if mark not in drawn[name]]
        if portrayal.color is not None and portrayal.color not in known:
            missing.insert(0, portrayal.color)
        sentences += [
            f"portrayal of {name}: no field {field!r}; {did_you_mean(field, known)}"
            if field not in known
            else f"portrayal of {name}: the field {field!r} has no numbers for a size"
            for field in dict.fromkeys(missing)
        ]
    return sentences


def _nowhere(rows: Mapping[str, Mapping[str, Json]], portrayal: Portrayal) -> str:
    """Return why no entity of a collection is on the map."""
    if portrayal.width is not None:
        return "no entity has a field `cell` with the number of a cell"
    has_cell = any("cell" in fields for fields in rows.values())
    hint = "; give `width` where the field `cell` has the number of a cell" if has_cell else ""
    return f"no entity has a field `position` of two or three numbers{hint}"


def _layers_of_entities(collections: Collections, portrayals: Portrayals) -> list[dict[str, Json]]:
    layers: list[dict[str, Json]] = []
    left = POINTS_MAX
    for name, rows in sorted(collections.items()):
        width = _width_of(name, portrayals)
        placed = [(entity, _point_in(fields, width)) for entity, fields in rows.items()]
        points = [(entity, point) for entity, point in placed if point is not None][:left]
        if points:
            ids = [entity for entity, _ in points]
            xs, ys = ([at[axis] for _, at in points] for axis in (0, 1))
            layers.append({"collection": name, "ids": ids, "x": xs, "y": ys})
            left -= len(points)
    return layers


def _has_places(collections: Collections, portrayals: Portrayals) -> bool:
    """Return whether an entity has a place; O(entities) if none has."""
    return any(
        _point_in(fields, _width_of(name, portrayals)) is not None
        for name, entities in collections.items()
        for fields in entities.values()
    )


def _width_of(name: str, portrayals: Portrayals) -> int | None:
    return portrayals[name].width if name in portrayals else None


def _point_in(fields: Mapping[str, Json], width: int | None) -> tuple[float, float] | None:
    """Return the place of an entity: by its cell, where the grid has a width, or its position."""
    return point_of(fields.get("position")) if width is None else _middle(fields.get("cell"), width)


def _middle(cell: Json, width: int) -> tuple[float, float] | None:
    """Return x and y of a cell by its number, row by row; None if it is no number of a cell."""
    if type(cell) is not int or not 0 <= cell < _EXACT_MAX:
        return None
    row, column = divmod(cell, width)
    return float(column), float(row)


def point_of(position: Json) -> tuple[float, float] | None:
    """Return x and y of a position of two or three numbers; None if it is none."""
    if not isinstance(position, list | tuple) or not 2 <= len(position) <= 3:  # noqa: PLR2004  # dimensions
        return None
    for value in position:
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            return None
    return float(position[0]), float(position[1])


def table_of(
    collections: Mapping[str, Mapping[str, Mapping[str, Json]]],
    name: str,
    offset: int,
    limit: int,
    find: str,
) -> dict[str, Json]:
    """Return one page of a collection as a table, rows by id; `find` is a part of the id.

    Numbers and texts of ids are not sorted apart: `a10` comes before `a2`, as everywhere. The rows
    of a table are sorted by their number.
    """
    rows = collections.get(name, {})
    names = rows if isinstance(rows, TableEntities) else sorted(rows)
    page, extent = _page(names, len(rows), offset, limit, find)
    shown = {entity: rows[entity] for entity in page}
    fields = list(dict.fromkeys(field for entity in page for field in shown[entity]))[:_FIELDS_MAX]
    return {
        "collection": name,
        **extent,
        "fields": fields,
        "rows": [
            [entity, [short(shown[entity][f]) if f in shown[entity] else None for f in fields]]
            for entity in page
        ],
    }


def agents_of(moment: Moment, offset: int, limit: int, find: str) -> dict[str, Json]:
    """Return one page of the agents registered at a moment, by name, members by their number."""
    state = moment.state
    page, extent = _page(state.agent_names(), state.agent_count, offset, limit, find)
    agents = {name: agent for name in page if (agent := state.agent(name)) is not None}
    return {
        **extent,
        "rows": [
            {
                "agent_id": name,
                "owner": agent.owner,
                "suspended": agent.is_suspended,
                "permissions": agent.permissions,
            }
            for name, agent in agents.items()
        ],
    }


def _page(
    names: Iterable[str], count: int, offset: int, limit: int, find: str
) -> tuple[list[str], dict[str, Json]]:
    """Return one page of those of `count` names that contain a text, and its place among them."""
    if find:
        found = [name for name in names if find in name]
        names, count = found, len(found)
    page = list(islice(names, offset, offset + min(limit, ROWS_MAX)))
    return page, {"total": count, "offset": offset}


def step_json(step: PlayedStep, portrayals: Portrayals = NO_PORTRAYALS) -> dict[str, Json]:
    """Return a step: its end, the moved entities, and its latest records."""
    moved: dict[str, list[Json]] = {}
    for (collection, entity), position in step.moved.items():
        if _width_of(collection, portrayals) is None:
            moved.setdefault(collection, []).append([entity, point_of(position)])
    for (collection, entity), cell in step.cells.items():
        width = _width_of(collection, portrayals)
        if width is not None:
            moved.setdefault(collection, []).append([entity, _middle(cell, width)])
    return {
        **place_json(step.place),
        "seq": step.seq,
        "tick": step.ticks,
        "sim_time": step.now_ns / SECOND_NS,
        "admitted": step.admitted,
        "refused": step.refused,
        "moved": moved,
        "events": [event_of(place, record) for place, record in step.records],
    }


def event_of(
    place: Place, record: Record, is_shown: Callable[[Mapping[str, Json]], bool] = lambda _: True
) -> dict[str, Json]:
    """Return a record as an event of the API has it, shortened; a batch of a group is one event.

    Args:
        place: The place of the record.
        record: The record.
        is_shown: Chooses the intents of a batch that are listed; without one, all are.
    """
    event: dict[str, Json] = {
        **place_json(place),
        "seq": record.seq,
        "sim_time": record.now_ns / SECOND_NS,
        "type": record_type(record),
    }
    if isinstance(record, Admitted | Refused | Scheduled):
        intents = intents_of(record)
        listed = [intent for intent in intents if is_shown(intent)] or intents
        event["intents"] = [_intent(intent) for intent in listed[:_INTENTS_MAX]]
        event["intent_count"] = len(intents)
        kinds = Counter(intent["kind"] for intent in listed)
        event["kinds"] = [[kind, kinds[kind]] for kind in islice(kinds, _INTENTS_MAX)]
        event["kind_count"] = len(kinds)
        asks = [short(text) for one in intents if one["kind"] == ASK for text in _asks_of(one)]
        if asks:
            event["asks"] = asks[:_LISTED_MAX]
    elif isinstance(record, Columns):
        event |= _of_columns(record)
    else:
        known = record_as_dict(record)
        event |= {name: short(known[name]) for name in known if name in _HEADS}
    if isinstance(record, Refused):
        event["refusals"] = [list(refusal) for refusal in record.refusals[:_LISTED_MAX]]
        event["is_held"] = is_held(record)
    noted = list(islice(noted_in(record), _LISTED_MAX))
    if noted:
        event["noted"] = [noted_json(one) for one in noted]
    entities = changed_in(record)
    changed = [f"{change.collection}/{change.entity}" for change in entities[:_LISTED_MAX]]
    if isinstance(record, Columns):
        changed = [f"{change.table}/{change.field}" for change in record.changes[:_LISTED_MAX]]
    event["changes"] = [{"entity": entity} for entity in changed]
    event["change_count"] = max(len(entities), len(changed))
    return event


def _asks_of(intent: Mapping[str, Json]) -> Sequence[Json]:
    """Return the reasons for which a person is asked, as a request for approval has them."""
    asks = intent["payload"]["about"].get(ASKS)
    return asks if isinstance(asks, Sequence) and not isinstance(asks, str) else ()


def noted_json(noted: NotedRefusal) -> dict[str, Json]:
    """Return a refused call that a batch notes: who called what, and the refusal."""
    call = noted.call
    return {
        "agent": noted.agent,
        "tool": short(call["tool"]),
        "refusal": [None, stage_of(noted), ", ".join(call["codes"]), call["message"]],
    }


def _of_columns(record: Columns) -> dict[str, Json]:
    """Return the parts of an event that a column batch has: no intents, but their number."""
    rows = rows_of(record)
    refused = refusal_counts(record)
    return {
        "kind": record.kind,
        "rows": rows,
        "refused": refused_count(record),
        "intents": [],
        "intent_count": rows,
        "kinds": [[record.kind, rows]],
        "kind_count": 1,
        "population": record.population,
        "refusals": [
            [None, stage, code, f"{count} {'row' if count == 1 else 'rows'}"]
            for (stage, code), count in islice(refused.items(), _LISTED_MAX)
        ],
    }


def short(value: Json) -> Json:
    """Return a value as one cell of a table: a number, or a text of bounded length."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _EXACT_MAX else str(value)
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    text = value if isinstance(value, str) else to_json(_few(value)).decode()
    return text if len(text) <= _TEXT_CHARS_MAX else f"{text[:_TEXT_CHARS_MAX]}…"


def _few(value: Json) -> Json:
    """Return the part of a value that may be shown: encoding megabytes for a cell takes long."""
    if isinstance(value, str):
        return value[:_TEXT_CHARS_MAX]
    if isinstance(value, Mapping):
        return {name: _few(value[name]) for name in islice(value, _FIELDS_MAX)}
    if isinstance(value, Sequence):
        return [_few(item) for item in value[:_TEXT_CHARS_MAX]]
    return value


def _intent(intent: Mapping[str, Json]) -> dict[str, Json]:
    payload = intent["payload"]
    described = {
        **{name: intent[name] for name in _OF_INTENTS},
        "payload": {name: _cell(payload[name]) for name in islice(payload, _LISTED_MAX)},
    }
    if "expect" in intent:
        described["expect"] = [short(text_of(condition)) for condition in intent["expect"]]
    return described


def _cell(value: Json) -> Json:
    """Return a short list of numbers, such as a position, unchanged; else the value as a cell."""
    is_point = isinstance(value, list) and len(value) <= _LISTED_MAX
    if is_point and all(isinstance(item, int | float) for item in value):
        return [short(item) for item in value]
    return short(value)
