"""The note below a map without a portrayal: drawn collections, or the reason of an empty map."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Final, NamedTuple

from placet.history.timeline.fold import PlayedState
from placet.schemas.codec import Json
from placet.schemas.portrayal import Portrayals

_NAMED_MAX: Final = 3
_SAMPLED: Final = 50
"""Entities of a collection that are looked at."""
_WHERE: Final = "in the scenario, or in a file for `placet play --portrayal FILE`"


class ModelSpaces(NamedTuple):
    """The grids of the domains of a log.

    Attributes:
        portrayals: Collection or table -> the portrayal with the width of its grid.
        problem: The reason for which the domains were not found; empty if they were.
    """

    portrayals: Portrayals = MappingProxyType({})
    problem: str = ""


def map_note(
    state: PlayedState,
    layers: Sequence[Mapping[str, Json]],
    given: Portrayals,
    spaces: ModelSpaces,
) -> str:
    """Return the note below a map: collections drawn without a portrayal, and agents not drawn.

    It is empty if positions or given portrayals place all agents.

    Args:
        state: The state at the moment of the map.
        layers: The layers of the map.
        given: The portrayals of the scenario or of its user.
        spaces: The grids of the model.
    """
    sentences = [*_drawn(layers, given, spaces), *_missing(state, layers, given, spaces)]
    return " ".join(sentences)


def _drawn(
    layers: Sequence[Mapping[str, Json]], given: Portrayals, spaces: ModelSpaces
) -> Iterable[str]:
    plain = {one["collection"]: one for one in layers if one["collection"] not in given}
    by_grid = [name for name in plain if name in spaces.portrayals and "width" not in plain[name]]
    if by_grid:
        widths = {spaces.portrayals[name].width for name in by_grid}
        wide = f", {next(iter(widths))} cells wide" if len(widths) == 1 else ""
        yield f"{_names(by_grid)}: drawn by the grid of the model{wide}."
    rows = [
        name
        for name, one in plain.items()
        if one.get("place") == [] and not one["laid_out"] and name not in by_grid
    ]
    if rows:
        yield (
            f"{_names(rows)}: drawn in rows, by number, without a place. A field `position`, `x` "
            f"and `y`, or `cell` places them; the last with [portrayal.{_quoted(rows[0])}] width, "
            f"the cells in a row, {_WHERE}."
        )


def _missing(
    state: PlayedState,
    layers: Sequence[Mapping[str, Json]],
    given: Portrayals,
    spaces: ModelSpaces,
) -> Iterable[str]:
    """Yield sentences about the agents without a place; without a layer, about all entities."""
    drawn = {layer["collection"] for layer in layers} | given.keys()  # these have other sentences
    left = {
        name: list(islice(rows.items(), _SAMPLED))
        for name, rows in sorted(state.collections.items())
        if rows and name not in drawn
    }
    placed = {entity for layer in layers if left for entity in layer.get("ids", ())}
    of_agents = {
        name: rows
        for name, rows in left.items()
        if any(entity not in placed and state.agent(entity) is not None for entity, _ in rows)
    }
    with_cell = [
        name for name, rows in left.items() if any(type(one.get("cell")) is int for _, one in rows)
    ]
    with_cell += [
        name
        for name, table in sorted(state.tables.items())
        if name not in drawn and "cell" in table.fields
    ]
    if with_cell:
        why = f" ({spaces.problem}.)" if spaces.problem else ""
        yield (
            f"Not drawn: {_names(with_cell)}. The field `cell` is a place once the width of the "
            f"grid is known: write [portrayal.{_quoted(with_cell[0])}] with `width = ...`, the "
            f"cells in a row (or the table of nodes with `network`), {_WHERE}.{why}"
        )
    plain = [name for name in (of_agents if layers else of_agents or left) if name not in with_cell]
    if plain:
        yield (
            f"{'Not drawn' if layers else 'No map'}: {_names(plain)} "
            f"{'has' if len(plain) == 1 else 'have'} no field `position` of two or three numbers. "
            f"Write one in the model, or a field `cell` and [portrayal.{_quoted(plain[0])}] with "
            "the `width` of its grid."
        )


def _names(names: Sequence[str]) -> str:
    more = len(names) - _NAMED_MAX
    return ", ".join(names[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def _quoted(name: str) -> str:
    return f'"{name}"'
