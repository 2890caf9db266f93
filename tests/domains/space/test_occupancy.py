"""Agents as objects in cells: ordinary rules move them, and no cell passes its capacity."""

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypedDict

from placet.domains.space import Grid, Network, Occupancy
from placet.kernel import Domain, Kernel, Kind, RecordList
from placet.kernel.log.replay import folded

FOXES, CELLS = "forest.foxes", "forest.cells"
GRID = Grid(3, 2)


class Go(TypedDict):
    to: int


class Nothing(TypedDict):
    pass


class Forest(Domain):
    """Foxes that walk from cell to cell."""

    name, version = "forest", "1"

    def __init__(self, capacity: int | None = 1) -> None:
        self.places = Occupancy(GRID, FOXES, CELLS, capacity=capacity)
        self.kinds = (Kind("Go", Go, self.go), Kind("Leave", Nothing, self.leave))

    def on_register(self, draft: Any, agent_id: str, attributes: Any) -> Any:
        draft.create(FOXES, agent_id)
        return self.places.move(draft, agent_id, attributes["cell"]) if attributes else None

    def on_remove(self, draft: Any, agent_id: str) -> None:
        self.places.leave(draft, agent_id)
        draft.delete(FOXES, agent_id)

    def go(self, draft: Any, intent: Any) -> Any:
        return self.places.move(draft, intent["agent_id"], intent["payload"]["to"])

    def leave(self, draft: Any, intent: Any) -> None:
        self.places.leave(draft, intent["agent_id"])


def require_consistent(kernel: Kernel, places: Occupancy) -> None:
    """Check that each cell has the agents that are in it, and no more than its capacity."""
    held: dict[int, list[str]] = defaultdict(list)
    for fox, fields in kernel.state.get(FOXES, {}).items():
        if fields.get("cell", -1) >= 0:
            held[fields["cell"]].append(fox)
    for cell in range(GRID.count):
        assert places.occupants(kernel.state, cell) == tuple(sorted(held[cell]))
        assert places.capacity is None or len(held[cell]) <= places.capacity


@given(st.sampled_from([1, 2, None]), st.data())
def test_no_cell_passes_its_capacity_by_the_intents_of_a_tick(capacity, data):
    domain, log = Forest(capacity), RecordList()
    kernel = Kernel(domain, sink=log)
    names = [f"fox_{number}" for number in range(7)]
    for name in names:
        kernel.register_agent(name)
    calls = st.lists(st.tuples(st.sampled_from(names), st.integers(-1, GRID.count)), max_size=12)
    for tick in range(3):
        intents = [kernel.intent("Go", {"to": to}, agent=name) for name, to in data.draw(calls)] + [
            kernel.intent("Leave", {}, agent=names[tick])
        ]
        cut = data.draw(st.integers(0, len(intents)))  # a batch of several, and single ones
        mine = [dict(intent, agent_id=names[0]) for intent in intents[:cut]]
        batches = [mine] if mine else []
        kernel.step(float(tick + 1), [*batches, *([intent] for intent in intents[cut:])])
        require_consistent(kernel, domain.places)
    kernel.remove_agent(names[3])
    require_consistent(kernel, domain.places)
    assert folded(log).state.digest().hex() == kernel.digest()


def test_cell_that_is_full_and_cell_that_there_is_not_are_refused():
    kernel = Kernel(Forest())
    for name, cell in (("ann", 0), ("bob", 1)):
        kernel.register_agent(name, cell=cell)
    refusal = kernel.decide(kernel.intent("Go", {"to": 1}, agent="ann")).refusals[0]
    assert refusal.code == "forest.occupied"
    assert "cell 1 is full, its capacity is 1" in refusal.message
    (change,) = refusal.changed
    assert (change["entity"], change["by"]) == ("forest.cells/cells:1", "bob")
    for to in (-1, 6):
        refusal = kernel.decide(kernel.intent("Go", {"to": to}, agent="ann")).refusals[0]
        assert refusal.code == "forest.no_cell"
        assert f"the cells 0..5, got {to}" in refusal.message
    seq = kernel.seq
    assert kernel.decide(kernel.intent("Go", {"to": 0}, agent="ann")).admitted  # it stays
    assert kernel.state[FOXES]["ann"] == {"cell": 0}
    assert kernel.seq == seq + 1


def test_occupants_of_several_cells_are_listed_cell_by_cell():
    domain = Forest(None)
    kernel = Kernel(domain)
    for name, cell in (("ann", 3), ("bob", 0), ("eve", 3), ("kim", 5)):
        kernel.register_agent(name, cell=cell)
    assert domain.places.occupants(kernel.state, *GRID.neighbors(1)) == ("bob", "ann", "eve", "kim")
    assert domain.places.occupants({}, 0, 1) == ()
    assert domain.places.key(3) == "cells:3"


def test_nodes_of_a_network_are_places_too():
    assert Occupancy(Network(4), FOXES, CELLS, capacity=None).space.count == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capacity": 0}, "an int >= 1, or None for no bound, got 0"),
        ({"capacity": 1.5}, r"got 1\.5"),
        ({"cells": FOXES}, "agents and cells are two collections, got 'forest.foxes' twice"),
    ],
)
def test_occupancy_that_cannot_be_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Occupancy(**{"space": GRID, "agents": FOXES, "cells": CELLS, **options})
