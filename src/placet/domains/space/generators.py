"""Networks from a seed: the same on every machine, drawn by the counter of `kernel/prng.py`.

The draws are integers and comparisons of a float in [0, 1), so the edges do not depend on the
functions of a math library.
"""

from math import isqrt
from typing import Final

from placet.domains.space.network import Network
from placet.kernel.prng import below, mix64, mix_word, name_hash, unit_of
from placet.schemas.keywords import explain_keywords


class _Draws:
    """Numbered draws of one generator."""

    def __init__(self, seed: int, purpose: str) -> None:
        if type(seed) is not int:
            raise ValueError(f"the seed of a network is an int, got {seed!r}")
        self._state, self._number = mix64(seed, name_hash(purpose)), 0

    def _bits(self) -> int:
        self._number += 1
        return mix_word(self._state, self._number)

    def below(self, bound: int) -> int:
        """Draw an int in 0..bound-1."""
        return below(bound, self._bits())

    def unit(self) -> float:
        """Draw a float in [0, 1)."""
        return unit_of(self._bits())


_MEAN: Final = "the mean degree"


@explain_keywords
def ring_lattice(count: int, degree: int) -> Network:
    """Return a ring in which each node is linked to the `degree / 2` nodes on each side.

    Args:
        count: Number of nodes.
        degree: Neighbors of each node: even, and below `count`.

    Raises:
        ValueError: An argument does not fit.
    """
    return Network(count, _ring(count, degree))


@explain_keywords
def random_network(count: int, mean_degree: float, seed: int) -> Network:
    """Return a network whose edges are drawn uniformly from all pairs, no pair twice.

    It has `count * mean_degree / 2` edges, rounded: the model G(n, m).

    Args:
        count: Number of nodes.
        mean_degree: Neighbors of a node, on average: 0 to `count - 1`.
        seed: Seed of the draws.

    Raises:
        ValueError: An argument does not fit.

    Source: Erdos and Renyi, "On random graphs I", 1959; the pairs by Floyd's sampling, Bentley and
    Floyd, "A sample of brilliance", CACM 30, 1987.
    """
    _require_count(count)
    if isinstance(mean_degree, bool) or not isinstance(mean_degree, int | float):
        raise ValueError(f"{_MEAN} of a network is a number, got {mean_degree!r}")
    if not 0 <= mean_degree <= count - 1:
        raise ValueError(f"{_MEAN} of {count} nodes is 0 to {count - 1}, got {mean_degree!r}")
    pairs = count * (count - 1) // 2
    draws, taken = _Draws(seed, "random_network"), set[int]()
    for last in range(pairs - round(count * mean_degree / 2), pairs):
        drawn = draws.below(last + 1)
        taken.add(last if drawn in taken else drawn)
    return Network(count, map(_pair, sorted(taken)))


def _pair(number: int) -> tuple[int, int]:
    """Return a pair (a, b) with a < b by its number: (0, 1), (0, 2), (1, 2), (0, 3), ..."""
    other = (1 + isqrt(1 + 8 * number)) // 2
    return number - other * (other - 1) // 2, other


@explain_keywords
def small_world(count: int, degree: int, rewired: float, seed: int) -> Network:
    """Return a ring lattice of which a share of the edges leads to a random node instead.

    The number of edges stays. An edge whose first node is linked to all others is kept.

    Args:
        count: Number of nodes.
        degree: Neighbors of each node of the ring: even, and below `count`.
        rewired: Probability that the far end of an edge is drawn anew, 0..1.
        seed: Seed of the draws.

    Raises:
        ValueError: An argument does not fit.

    Source: Watts and Strogatz, "Collective dynamics of small-world networks", Nature 393, 1998.
    """
    if not 0 <= rewired <= 1:
        raise ValueError(f"the share of rewired edges is 0..1, got {rewired!r}")
    draws = _Draws(seed, "small_world")
    linked: list[set[int]] = [set() for _ in range(_require_count(count))]
    edges = _ring(count, degree)
    for one, other in edges:
        linked[one].add(other)
        linked[other].add(one)
    for place, (one, other) in enumerate(edges):
        if draws.unit() >= rewired or len(linked[one]) == count - 1:
            continue
        drawn = draws.below(count)
        while drawn == one or drawn in linked[one]:
            drawn = draws.below(count)
        linked[one].remove(other)
        linked[other].remove(one)
        linked[one].add(drawn)
        linked[drawn].add(one)
        edges[place] = (one, drawn)
    return Network(count, edges)


@explain_keywords
def scale_free(count: int, links: int, seed: int) -> Network:
    """Return a scale-free network, grown by preferential attachment.

    The first `links + 1` nodes are all linked with each other. Each further node gets `links`
    different neighbors, each drawn in proportion to its degree.

    Args:
        count: Number of nodes, above `links`.
        links: Edges of a new node, at least 1.
        seed: Seed of the draws.

    Raises:
        ValueError: An argument does not fit.

    Source: Barabasi and Albert, "Emergence of scaling in random networks", Science 286, 1999.
    """
    if type(links) is not int or not 1 <= links < _require_count(count):
        raise ValueError(f"the links of a new node are 1 to {count - 1}, got {links!r}")
    draws = _Draws(seed, "scale_free")
    edges = [(one, other) for other in range(links + 1) for one in range(other)]
    ends = [node for edge in edges for node in edge]  # each node as often as it has links
    for node in range(links + 1, count):
        chosen: list[int] = []
        while len(chosen) < links:
            drawn = ends[draws.below(len(ends))]
            if drawn not in chosen:
                chosen.append(drawn)
        edges += [(other, node) for other in chosen]
        for other in chosen:
            ends += (other, node)
    return Network(count, edges)


def _ring(count: int, degree: int) -> list[tuple[int, int]]:
    """Return the edges of a ring lattice, those to the next nodes first."""
    if type(degree) is not int or degree % 2 or not 0 <= degree < _require_count(count):
        raise ValueError(
            f"the degree of a ring of {count} nodes is even and 0 to {count - 1}, got {degree!r}"
        )
    return [
        (node, (node + step) % count) for step in range(1, degree // 2 + 1) for node in range(count)
    ]


def _require_count(count: int) -> int:
    if type(count) is not int or count < 1:
        raise ValueError(f"the number of nodes is an int >= 1, got {count!r}")
    return count
