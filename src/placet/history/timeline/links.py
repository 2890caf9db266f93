"""The links of a map: between entities or rows by one of their fields, and of a network.

The nodes of a network have no position in the state. They are laid out by their links with
networkx, an extra; where it is missing, and for large networks, they form a circle.
"""

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import cos, pi, sin, sqrt
from typing import Any, Final, Protocol, runtime_checkable

from placet.history.timeline.tables import PlayedTable
from placet.schemas.codec import Json

LINKS_MAX: Final = 50_000
"""Links of a collection or a table that are drawn."""
_LAID_OUT_MAX: Final = 499
"""Nodes that are laid out by their links: a second of work; from 500 on, networkx needs scipy."""
_SEED: Final = 1


@runtime_checkable
class NetworkLike(Protocol):
    """A network of `placet.domains.space`."""

    count: int

    def edges(self) -> tuple[tuple[int, int], ...]:
        """Return the pairs of linked nodes."""


@dataclass(frozen=True, slots=True)
class LaidOut:
    """A network with a place for each node, about one unit between neighbors.

    Attributes:
        x: Coordinate of each node.
        y: Likewise.
        edges: The pairs of linked nodes.
    """

    x: Sequence[float]
    y: Sequence[float]
    edges: tuple[tuple[int, int], ...]


def lay_out(network: NetworkLike) -> LaidOut:
    """Place the nodes of a network: always at the same places."""
    edges, count = network.edges(), network.count
    places: Mapping[int, Sequence[float]]
    places = {node: _on_circle(node, count) for node in range(count)}
    if 1 < count <= _LAID_OUT_MAX:
        try:
            import networkx  # noqa: PLC0415  # an extra
        except ImportError:
            pass
        else:
            graph = networkx.Graph(edges)
            graph.add_nodes_from(range(count))
            places = networkx.spring_layout(graph, pos=places, seed=_SEED)
    scale = sqrt(count)
    x, y = ([float(places[node][axis]) * scale for node in range(count)] for axis in (0, 1))
    return LaidOut(x, y, edges)


def _on_circle(node: int, count: int) -> tuple[float, float]:
    angle = 2 * pi * node / count
    return cos(angle), sin(angle)


def links_of_entities(
    entities: Sequence[str], rows: Mapping[str, Mapping[str, Json]], field: str
) -> list[int]:
    """Return the links of entities by a field, as pairs of their places in the list, joined.

    The field has the id of another entity, or a list of ids; others than those of the list, and
    values of another form, are left out.
    """
    numbers = {entity: number for number, entity in enumerate(entities)}
    pairs: list[int] = []
    for number, entity in enumerate(entities):
        value = rows[entity].get(field)
        for other in value if isinstance(value, list | tuple) else (value,):
            if isinstance(other, str) and other in numbers and len(pairs) < 2 * LINKS_MAX:
                pairs += (number, numbers[other])
    return pairs


def links_of_rows(table: PlayedTable, field: str, count: int) -> str:
    """Return the links of the first rows of a table by a field, as pairs of numbers of rows.

    The field has the number of another row, or several of them; a negative one is none.
    """
    import numpy as np  # noqa: PLC0415  # an extra

    if not count:
        return encoded_links([])
    others = table.column(field)[:count].reshape(count, -1).astype(np.int64)
    numbers = np.broadcast_to(np.arange(count)[:, None], others.shape)
    is_link = (others >= 0) & (others < count)
    pairs = np.stack([numbers[is_link], others[is_link]], axis=1)
    return encoded_links(pairs[:LINKS_MAX])


def encoded_links(pairs: Iterable[Any]) -> str:
    """Return pairs of numbers as i4, little-endian, in base64."""
    import numpy as np  # noqa: PLC0415  # an extra

    return b64encode(np.asarray(pairs, "<i4").tobytes()).decode()
