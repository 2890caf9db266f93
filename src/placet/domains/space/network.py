"""A network: numbered nodes and their links, as index arrays in compressed sparse rows."""

from array import array
from collections.abc import Iterable, Mapping
from itertools import accumulate
from operator import index
from typing import TYPE_CHECKING, Any, Final, Protocol

from placet.schemas.keywords import explain_keywords

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from placet.kernel.arrays.words import Array
    from placet.kernel.columns.space import Links
    from placet.kernel.plugin.rows import Rows64

NODES_MAX: Final = 2**31 - 1
"""Nodes of a network, at most: the number of a node fits into a field `i4`."""


class GraphLike(Protocol):
    """A graph of networkx, or of a library with the same names."""

    @property
    def nodes(self) -> Iterable[Any]:
        """Nodes, of any hashable type."""

    @property
    def edges(self) -> Iterable[Any]:
        """Pairs of nodes."""

    def is_directed(self) -> bool:
        """Return whether an edge leads one way."""


@explain_keywords
class Network:
    """Nodes 0 to `count - 1`, and edges between them. It does not change after it is made.

        ring = Network(4, [(0, 1), (1, 2), (2, 3), (3, 0)])
        assert ring.neighbors(0) == (1, 3)

    The order of the edges has no meaning: two networks with the same edges are equal.
    O(nodes + edges log edges), in plain Python.

    Args:
        count: Number of nodes.
        edges: Pairs of different nodes, each pair once. In an undirected network (a, b) and (b, a)
            are one pair.
        directed: Whether an edge (a, b) makes b a neighbor of a, and not a of b.

    Attributes:
        count: Number of nodes.
        is_directed: Whether an edge leads one way.

    Raises:
        TypeError: An edge is no pair of ints.
        ValueError: The count is invalid, an edge names a node that there is not, links a node to
            itself, or is given twice.
    """

    __slots__ = ("_links", "_offsets", "_targets", "count", "is_directed")

    def __init__(
        self, count: int, edges: Iterable[tuple[int, int]] = (), *, directed: bool = False
    ) -> None:
        if type(count) is not int or not 1 <= count <= NODES_MAX:
            raise ValueError(f"a network has an int of 1 to {NODES_MAX} nodes, got {count!r}")
        self.count, self.is_directed = count, directed
        links = list(_checked(count, edges, directed=directed))
        if not directed:
            links += [(other, one) for one, other in links]
        links.sort()
        degrees = [0] * count
        for node, _ in links:
            degrees[node] += 1
        # Bytes are immutable and compare at once; numpy shares their memory.
        self._offsets = array("q", accumulate(degrees, initial=0)).tobytes()
        self._targets = array("q", [target for _, target in links]).tobytes()
        self._links: Links | None = None

    @classmethod
    def from_graph(cls, graph: GraphLike) -> "Network":
        """Return the network of a graph of networkx: node i is the i-th of `graph.nodes`.

        Attributes of nodes and edges are not kept.

        Raises:
            ValueError: It has no nodes, an edge from a node to itself, or one edge twice.
        """
        numbers: Mapping[Any, int] = {node: place for place, node in enumerate(graph.nodes)}
        edges = [(numbers[one], numbers[other]) for one, other, *_ in graph.edges]
        return cls(len(numbers), edges, directed=graph.is_directed())

    def __repr__(self) -> str:
        kind = "directed" if self.is_directed else "undirected"
        return f"<Network: {self.count} nodes, {self.edge_count} {kind} edges>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Network) and self._content == other._content

    def __hash__(self) -> int:
        raise TypeError("a network is compared by its edges and has no hash; use a name as the key")

    @property
    def _content(self) -> tuple[bool, bytes, bytes]:
        return self.is_directed, self._offsets, self._targets

    @property
    def edge_count(self) -> int:
        """Number of edges."""
        links = len(self._targets) // 8
        return links if self.is_directed else links // 2

    # one node

    def neighbors(self, node: int) -> tuple[int, ...]:
        """Return the nodes that edges lead to from a node, ascending.

        Raises:
            IndexError: There is no such node.
            TypeError: The number is no int.
        """
        start, end = self._range(node)
        return tuple(memoryview(self._targets).cast("q")[start:end])

    def degree(self, node: int) -> int:
        """Return the number of neighbors of a node.

        Raises:
            IndexError: There is no such node.
            TypeError: The number is no int.
        """
        start, end = self._range(node)
        return end - start

    def edges(self) -> tuple[tuple[int, int], ...]:
        """Return the edges in ascending order; of an undirected network (a, b) with a < b."""
        pairs = ((node, other) for node in range(self.count) for other in self.neighbors(node))
        return tuple([pair for pair in pairs if self.is_directed or pair[0] < pair[1]])

    def _range(self, node: int) -> tuple[int, int]:
        node = index(node)
        if not 0 <= node < self.count:
            raise IndexError(
                f"a network of {self.count} nodes has the nodes 0..{self.count - 1}, got {node}"
            )
        start, end = memoryview(self._offsets).cast("q")[node : node + 2]
        return start, end

    # arrays

    @property
    def links(self) -> "Links":
        """The arrays `offsets`, `targets` and `sources`; an undirected edge is two links.

        The link i leads from node `sources[i]` to node `targets[i]`. The links of node j are those
        from `offsets[j]` to `offsets[j + 1]`.
        """
        from placet.kernel.columns.space import links_of  # noqa: PLC0415  # numpy is an extra

        if self._links is None:
            self._links = links_of(self._offsets, self._targets)
        return self._links

    def neighbor_array(self, nodes: "ArrayLike") -> "Rows64":
        """Return the neighbors of each node, `(n, k)`; -1 after the last.

        k is the greatest degree of the network, so of a network with few large nodes `links` take
        less memory. The number -1 has no neighbors.

        Raises:
            IndexError: A number is no node, and is not -1.
        """
        from placet.kernel.columns.space import (  # noqa: PLC0415  # numpy is an extra
            network_neighbors,
        )

        return network_neighbors(self.links, nodes)

    def choose_neighbor(self, nodes: "ArrayLike", unit: "ArrayLike") -> "Rows64":
        """Return one neighbor of each node by a draw in [0, 1), `(n,)`; -1 if there is none.

        Args:
            nodes: Numbers of nodes.
            unit: Draws, such as `rows.random_unit("step")`.

        Raises:
            IndexError: A number is no node, and is not -1.
        """
        from placet.kernel.columns.space import network_chosen  # noqa: PLC0415  # numpy is an extra

        return network_chosen(self.links, nodes, unit)

    def sum_neighbors(self, values: "ArrayLike") -> "Array":
        """Return the sum of values over the neighbors of each node, `(nodes,)`.

        Of a mask it is the number of neighbors. Booleans and integers are summed as `int64`, floats
        as `float64`, added in ascending order of the neighbors. O(nodes + edges).

        Raises:
            ValueError: There is not one number a node.
        """
        from placet.kernel.columns.space import network_sums  # noqa: PLC0415  # numpy is an extra

        return network_sums(self.links, values)


def _checked(
    count: int, edges: Iterable[tuple[int, int]], *, directed: bool
) -> set[tuple[int, int]]:
    """Return the edges as a set, (a, b) with a < b in an undirected network."""
    found: set[tuple[int, int]] = set()
    for edge in edges:
        try:
            one, other = map(index, edge)
        except (TypeError, ValueError):
            raise TypeError(f"an edge is a pair of numbers of nodes, got {edge!r}") from None
        if not (0 <= one < count and 0 <= other < count):
            raise ValueError(
                f"edge ({one}, {other}) names a node that there is not: "
                f"{count} nodes are 0..{count - 1}"
            )
        if one == other:
            raise ValueError(f"edge ({one}, {other}) links a node to itself; leave it out")
        pair = (one, other) if directed or one < other else (other, one)
        if pair in found:
            raise ValueError(f"edge ({one}, {other}) is given twice; a pair of nodes has one edge")
        found.add(pair)
    return found
