"""Links of a map: of entities, of rows, and of a network whose nodes are laid out by them."""

import sys
from base64 import b64decode
from typing import Any

import numpy as np
import pytest

from placet.domains.space import Network, ring_lattice
from placet.history.timeline import links
from placet.history.timeline.links import lay_out, links_of_entities, links_of_rows
from placet.history.timeline.portrayal import layer_of, portrayals_of
from placet.schemas.portrayal import Portrayal
from tests.history.timeline.test_portrayal import decoded, state_of, table

PEOPLE: dict[str, dict[str, Any]] = {
    "ann": {"friends": ["bob", "cem", "ann of old"], "boss": None},
    "bob": {"friends": [], "boss": "cem"},
    "cem": {"friends": "ann", "boss": 3},
}


def pairs(text: str) -> list[tuple[int, int]]:
    return [tuple(pair) for pair in np.frombuffer(b64decode(text), "<i4").reshape(-1, 2).tolist()]


def test_a_field_of_an_entity_links_it_to_others_of_the_list():
    ids = [*PEOPLE]
    assert links_of_entities(ids, PEOPLE, "friends") == [0, 1, 0, 2, 2, 0]
    assert links_of_entities(ids, PEOPLE, "boss") == [1, 2]
    assert links_of_entities(ids, PEOPLE, "enemies") == []


def test_a_field_of_a_row_has_the_numbers_of_others():
    rows = table(
        {"mate": ("i4", [], -1), "kin": ("i2", [2], -1)},
        3,
        mate=[2, -1, 7],
        kin=[[1, 2], [-1, 0], [-1, -1]],
    )
    assert pairs(links_of_rows(rows, "mate", 3)) == [(0, 2)]
    assert pairs(links_of_rows(rows, "kin", 3)) == [(0, 1), (0, 2), (1, 0)]
    assert pairs(links_of_rows(rows, "kin", 2)) == [(0, 1), (1, 0)]


def test_linked_nodes_are_nearer_than_others_and_always_at_the_same_places():
    network = Network(8, [(0, 1), (1, 2), (2, 0), (4, 5), (5, 6), (6, 4)])
    laid_out = lay_out(network)
    assert laid_out == lay_out(network)
    places = np.array([laid_out.x, laid_out.y]).T
    apart = np.linalg.norm(places[:, None] - places, axis=2)
    assert max(apart[0, 1], apart[4, 5]) < min(apart[0, 4], apart[1, 5])


@pytest.mark.parametrize("reason", ["no library", "many nodes"])
def test_nodes_are_in_a_circle_without_a_layout(reason, monkeypatch):
    if reason == "no library":
        monkeypatch.setitem(sys.modules, "networkx", None)
    else:
        monkeypatch.setattr(links, "_LAID_OUT_MAX", 3)
    laid_out = lay_out(ring_lattice(4, 2))
    assert np.allclose(laid_out.x, [2, 0, -2, 0])
    assert np.allclose(laid_out.y, [0, 2, 0, -2])


def test_nodes_and_the_agents_at_them_are_placed_by_the_network():
    network = ring_lattice(6, 2)
    nodes, agents = table({"load": ("f4", [], 0)}, 6), table({"cell": ("i4", [], -1)}, 2)
    nodes.stem = "nodes"
    agents.column("cell")[:] = [4, -1]
    state = state_of(nodes=nodes, agents=agents, other=table({"x": ("i4", [], 0)}))
    portrayals = {"lab.nodes": Portrayal(network=network)}
    found = portrayals_of(state, has_places=False, portrayals=portrayals)
    assert set(found) == {"lab.nodes", "lab.agents"}
    drawn: Any = layer_of("lab.nodes", nodes, found["lab.nodes"], None, 6)
    assert pairs(drawn["links"]) == [*network.edges()]
    assert drawn["laid_out"]
    above: Any = layer_of("lab.agents", agents, found["lab.agents"], None, 2)
    (x, nowhere), (y, _) = decoded(above["x"]), decoded(above["y"])
    assert np.hypot(x - decoded(drawn["x"])[4], y - decoded(drawn["y"])[4]) < 0.3
    assert np.isnan(nowhere)


def test_a_table_of_no_rows_has_no_links():
    rows = table({"mate": ("i4", [], -1)}, 3, mate=[2, -1, 1])
    assert pairs(links_of_rows(rows, "mate", 0)) == []
