"""Networks in plain Python, and the networks that are drawn from a seed."""

from collections import Counter
from statistics import mean
from typing import Any

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.domains.space import Network, random_network, ring_lattice, scale_free, small_world

SEEDS = st.integers(0, 2**64)
network_of: Any = Network  # with arguments that its types forbid
drawn_network: Any = random_network


def test_neighbors_are_ascending_and_edges_have_no_order():
    network = Network(4, [(2, 1), (0, 2), (3, 2)])
    assert network.neighbors(2) == (0, 1, 3)
    assert network.edges() == ((0, 2), (1, 2), (2, 3))
    assert network == Network(4, [(2, 3), (2, 0), (1, 2)])
    assert network != Network(4, [(2, 3), (2, 0), (1, 3)])
    assert repr(network) == "<Network: 4 nodes, 3 undirected edges>"


def test_directed_edge_leads_one_way():
    network = Network(3, [(0, 1), (1, 0), (2, 1)], directed=True)
    assert [network.neighbors(node) for node in range(3)] == [(1,), (0,), (1,)]
    assert network.edges() == ((0, 1), (1, 0), (2, 1))
    assert (network.edge_count, network.degree(2)) == (3, 1)
    assert network != Network(3, [(0, 1), (2, 1)])


def test_graph_of_networkx_keeps_its_order_of_nodes():
    graph = networkx.Graph([("ann", "bob"), ("bob", "eve")])
    assert Network.from_graph(graph) == Network(3, [(0, 1), (1, 2)])
    graph = networkx.DiGraph([("ann", "bob"), ("bob", "ann")])
    assert Network.from_graph(graph) == Network(2, [(0, 1), (1, 0)], directed=True)
    twice = networkx.MultiGraph([(0, 1), (1, 0)])
    with pytest.raises(ValueError, match="given twice"):
        Network.from_graph(twice)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: network_of(0), ValueError, "an int of 1 to 2147483647 nodes, got 0"),
        (lambda: network_of(2.0), ValueError, r"got 2\.0"),
        (lambda: network_of(2, [(0, 2)]), ValueError, r"edge \(0, 2\) names a node .* 0\.\.1"),
        (lambda: network_of(2, [(-1, 0)]), ValueError, r"edge \(-1, 0\) names a node"),
        (lambda: network_of(2, [(1, 1)]), ValueError, "links a node to itself; leave it out"),
        (lambda: network_of(2, [(0, 1), (1, 0)]), ValueError, r"edge \(1, 0\) is given twice"),
        (lambda: network_of(2, [(0,)]), TypeError, r"a pair of numbers of nodes, got \(0,\)"),
        (lambda: network_of(2, [(0, 0.5)]), TypeError, "a pair of numbers of nodes"),
        (lambda: network_of(2, [5]), TypeError, "a pair of numbers of nodes, got 5"),
        (lambda: network_of(2).neighbors(2), IndexError, r"has the nodes 0\.\.1, got 2"),
        (lambda: network_of(2).degree(-1), IndexError, r"has the nodes 0\.\.1, got -1"),
        (lambda: {network_of(2)}, TypeError, "has no hash"),
        (lambda: ring_lattice(6, 3), ValueError, "even and 0 to 5, got 3"),
        (lambda: ring_lattice(6, 6), ValueError, "even and 0 to 5, got 6"),
        (lambda: ring_lattice(0, 0), ValueError, "the number of nodes is an int >= 1, got 0"),
        (lambda: drawn_network(6, 5.5, 1), ValueError, r"of 6 nodes is 0 to 5, got 5\.5"),
        (lambda: drawn_network(6, "2", 1), ValueError, "is a number, got '2'"),
        (lambda: drawn_network(6, 2, 0.5), ValueError, r"seed of a network is an int, got 0\.5"),
        (lambda: small_world(6, 2, 1.1, 1), ValueError, r"is 0\.\.1, got 1\.1"),
        (lambda: scale_free(3, 3, 1), ValueError, "are 1 to 2, got 3"),
        (lambda: scale_free(3, 0, 1), ValueError, "are 1 to 2, got 0"),
    ],
)
def test_network_that_cannot_be_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


# from a seed


@given(st.integers(1, 40), SEEDS, st.data())
def test_drawn_networks_have_the_edges_that_they_promise(count, seed, data):
    degree = 2 * data.draw(st.integers(0, (count - 1) // 2))
    mean_degree = data.draw(st.floats(0, count - 1))
    links = data.draw(st.integers(1, max(count - 1, 1)))
    made = {
        "ring": (ring_lattice(count, degree), count * degree // 2),
        "random": (random_network(count, mean_degree, seed), round(count * mean_degree / 2)),
        "small": (small_world(count, degree, 0.5, seed), count * degree // 2),
    }
    if count > 1:
        grown = links * (links + 1) // 2 + links * (count - links - 1)
        made["free"] = (scale_free(count, links, seed), grown)
    for network, edge_count in made.values():
        assert network.edge_count == edge_count
        assert sum(map(network.degree, range(count))) == 2 * edge_count
        assert len(set(network.edges())) == edge_count
        for node in range(count):
            assert all(node in network.neighbors(other) for other in network.neighbors(node))
            assert node not in network.neighbors(node)


@pytest.mark.parametrize(
    "draw",
    [
        lambda seed: random_network(30, 4, seed),
        lambda seed: small_world(30, 4, 0.3, seed),
        lambda seed: scale_free(30, 2, seed),
    ],
    ids=["random", "small_world", "scale_free"],
)
def test_seed_draws_one_network(draw):
    assert draw(7) == draw(7)
    assert len({draw(seed).edges() for seed in range(20)}) == 20


EDGES = {
    "random": ((0, 3), (0, 25), (1, 12)),
    "small": ((0, 1), (0, 6), (0, 27)),
    "free": ((29, 46), (33, 35), (40, 43)),
}


def test_drawn_edges_are_those_of_every_machine():
    """The first edges of a seed, so that a change of the draws is seen."""
    assert random_network(50, 3, 1).edges()[:3] == EDGES["random"]
    assert small_world(50, 4, 0.5, 1).edges()[:3] == EDGES["small"]
    assert scale_free(50, 2, 1).edges()[-3:] == EDGES["free"]


def test_ring_has_its_neighbors_on_both_sides():
    assert ring_lattice(7, 4).neighbors(0) == (1, 2, 5, 6)
    assert ring_lattice(5, 4) == random_network(5, 4, seed=1)  # all pairs


def test_pairs_are_drawn_uniformly():
    counts = Counter(
        edge for seed in range(2_000) for edge in random_network(6, 2, seed).edges()
    )  # 6 of 15 pairs each
    assert len(counts) == 15
    # The deviation of a count is (2000 * 0.4 * 0.6) ** 0.5 = 22.
    assert all(abs(count - 800) < 4 * 22 for count in counts.values())


def test_rewired_edges_shorten_the_paths_of_a_ring():
    def path(network: Network) -> float:
        graph = networkx.Graph(network.edges())
        return float(networkx.average_shortest_path_length(graph))

    ring, small = ring_lattice(200, 6), small_world(200, 6, 0.1, seed=1)
    moved = len(set(ring.edges()) - set(small.edges()))
    assert 30 < moved < 95  # of 600, a tenth
    assert small_world(200, 6, 0.0, seed=1) == ring
    assert path(small) < path(ring) / 3
    full = small_world(5, 4, 1.0, seed=1)
    assert full == ring_lattice(5, 4)  # no other node is free


def test_scale_free_network_has_few_nodes_with_many_links():
    networks = [scale_free(400, 2, seed) for seed in range(5)]
    for network in networks:
        degrees = sorted(map(network.degree, range(400)))
        assert degrees[0] >= 2
        assert degrees[-1] > 8 * mean(degrees)  # of a random network: 3 to 4 times
    # The share of nodes of degree 2 tends to 2 * 2 * 3 / (2 * 3 * 4) = 1/2.
    share = mean(network.degree(node) == 2 for network in networks for node in range(400))
    assert 0.45 < share < 0.55
