"""Laws of agents in cells: each agent is counted where it is, and no cell passes its capacity."""

from itertools import count as numbers_from
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.domains.space import CellTable, Grid, ring_lattice
from placet.kernel import ColumnBatch, Domain, Field, Kernel, KernelConfig, Kind, RecordList, Table
from placet.kernel.log.replay import folded
from placet.schemas.errors import ValidationError
from placet.testing import check_columns

PEOPLE, CELLS = "city.people", "city.cells"
GRID = Grid(4, 3, torus=True)
CAPACITIES = [1, 2, 3, None]


class City(Domain):
    """People who go to any cell, walk to an adjacent one, and leave the city."""

    name, version = "city", "1"

    def __init__(self, capacity: int | None = 1) -> None:
        self.cells = cells = CellTable(
            GRID, CELLS, capacity=capacity, layers={"sugar": Field("f8", low=0)}
        )
        self.tables = (Table(PEOPLE, {"cell": cells.field}), cells.table)
        step = Field("i1", low=0, high=8)  # 8 is no neighbor
        self.kinds = (
            Kind("Go", {"cell": cells.field}, rows=self.go, table=PEOPLE),
            Kind("Walk", {"step": step}, rows=self.walk, table=PEOPLE),
            Kind("Leave", {"why": Field("u1")}, rows=self.leave, table=PEOPLE),
        )

    def on_populate(self, draft: Any, population: Any) -> None:
        self.cells.populate(draft, population)

    def go(self, rows: Any) -> None:
        self.cells.move(rows, rows.payload["cell"])

    def walk(self, rows: Any) -> None:
        around = GRID.neighbor_array(rows.own["cell"])
        around = np.append(around, np.full((rows.n, 1), -1), axis=1)
        to = np.take_along_axis(around, rows.payload["step"][:, None].astype(int), axis=1)[:, 0]
        self.cells.move(rows, to)

    def leave(self, rows: Any) -> None:
        self.cells.leave(rows)


def require_consistent(kernel: Kernel, capacity: int | None) -> None:
    """Check that the cells have the agents that are in them, and no more than their capacity."""
    at = kernel.population("people")["cell"]
    held = np.bincount(at[at >= 0], minlength=GRID.count)
    if capacity is not None:
        assert held.max() <= capacity
    cells = kernel.tree.tables[CELLS].columns
    if capacity == 1:
        who = cells["who"]
        assert ((who >= 0) == (held == 1)).all()
        assert (at[who[who >= 0]] == np.flatnonzero(who >= 0)).all()
    else:
        assert (cells["count"] == held).all()


def populated(capacity: int | None, seed: int, count: int, **options: Any) -> Kernel:
    kernel = Kernel(City(capacity), KernelConfig(seed=seed), **options)
    rng = np.random.default_rng(seed)
    room = 9 if capacity is None else capacity
    places = rng.permutation(np.repeat(np.arange(GRID.count), room))[:count]
    at = np.full(count, -1)
    at[: len(places)] = places
    at[rng.random(count) < 0.3] = -1
    kernel.register_population("people", count, table=PEOPLE, cell=at)
    return kernel


@given(st.sampled_from(CAPACITIES), st.integers(0, 2**16), st.integers(1, 30))
def test_no_cell_passes_its_capacity_by_batches_and_intents_of_one_tick(capacity, seed, count):
    log = RecordList()
    kernel = populated(capacity, seed, count, sink=log)
    require_consistent(kernel, capacity)
    rng, numbers = np.random.default_rng(seed), numbers_from()

    def payload(kind: str, n: int) -> dict[str, Any]:
        drawn = {"Go": rng.integers(-1, GRID.count, n), "Walk": rng.integers(0, 9, n)}
        return {
            {"Go": "cell", "Walk": "step", "Leave": "why"}[kind]: drawn.get(kind, np.zeros(n, int))
        }

    for tick in range(4):
        batches: list[Any] = []
        for kind in rng.permutation(["Go", "Walk", "Leave", "Go"]).tolist():
            agents = rng.permutation(count)[: int(rng.integers(1, count + 1))]
            if rng.random() < 0.5:
                req_id = f"x:{next(numbers)}"
                batches.append(
                    ColumnBatch(kind, "people", payload(kind, len(agents)), req_id, agents=agents)
                )
                continue
            for agent in agents.tolist():
                values = {name: int(each[0]) for name, each in payload(kind, 1).items()}
                batches.append([kernel.intent(kind, values, agent=f"people:{agent}")])
        kernel.step(float(tick + 1), batches)
        require_consistent(kernel, capacity)
    assert folded(log).state.digest().hex() == kernel.digest()


@pytest.mark.parametrize("capacity", CAPACITIES)
def test_domain_of_cells_keeps_the_laws_of_columns(capacity):
    def columns(rng: Any, table: str, numbers: Any) -> dict[str, Any]:
        return {"cell": rng.permutation(GRID.count)[: len(numbers)]}

    counts = check_columns(City(capacity), columns=columns, worlds=8, batches=12)
    assert all(counts[kind]["admitted"] for kind in ("Go", "Walk", "Leave"))
    assert counts["Go"]["city.no_cell"]
    assert capacity is None or counts["Go"]["city.occupied"]


def codes(kernel: Kernel, kind: str, payload: dict[str, Any], agents: Any = None) -> list[str]:
    batch = ColumnBatch(kind, "people", payload, f"{kind}:{kernel.seq}", agents=agents)
    verdict = kernel.decide_columns(batch)
    return [verdict.code_of(code) if code else "" for code in verdict.codes.tolist()]


def test_each_way_not_to_get_a_cell_has_its_code():
    kernel = Kernel(City())
    kernel.register_population("people", 4, table=PEOPLE, cell=[0, 1, 2, -1])
    # 0 stays, 1 and 3 want a free cell, 2 one that was full before the batch
    got = codes(kernel, "Go", {"cell": [0, 5, 1, 5]})
    assert got[0] == ""
    assert got[2] == "city.occupied"
    assert sorted((got[1], got[3])) == ["", "conflict"]
    assert codes(kernel, "Walk", {"step": [8] * 4})[0] == "city.no_cell"
    kernel = Kernel(City(2))
    kernel.register_population("people", 4, table=PEOPLE, cell=[0, 0, 2, -1])
    got = codes(kernel, "Go", {"cell": [3, 3, 3, 0]})
    assert got[3] == "city.occupied"
    assert sorted(got[:3]) == ["", "", "city.out_of_bounds"]


def test_leave_empties_the_cell_and_is_admitted_where_there_is_none():
    kernel = Kernel(City())
    kernel.register_population("people", 2, table=PEOPLE, cell=[5, -1])
    assert codes(kernel, "Leave", {"why": [0, 0]}) == ["", ""]
    assert kernel.state[CELLS]["cells:5"]["who"] == -1
    assert kernel.population("people")["cell"].tolist() == [-1, -1]


def test_nodes_of_a_network_hold_agents_as_cells_do():
    nodes = CellTable(ring_lattice(5, 2), "city.nodes", capacity=None)
    assert nodes.table.rows == 5
    assert nodes.field.high == 4


@pytest.mark.parametrize(
    ("capacity", "cells", "message"),
    [
        (1, [3, 3], r"cell 3 of city\.cells would have 2 agents, and has room for 1"),
        (2, [3, 3, 3], "would have 3 agents, and has room for 2"),
        (1, [-2], r"the cells 0\.\.11, got -2"),
    ],
)
def test_population_beyond_the_capacity_is_not_registered(capacity, cells, message):
    class Crowded(City):
        def on_populate(self, draft: Any, population: Any) -> None:
            self.cells.populate(draft, population, cells)

    kernel = Kernel(Crowded(capacity))
    with pytest.raises(ValidationError, match=message):
        kernel.register_population("people", len(cells), table=PEOPLE)


@pytest.mark.parametrize("capacity", [1, 2, None])
def test_a_population_is_put_into_the_given_cells(capacity):
    class Placed(City):
        def on_populate(self, draft: Any, population: Any) -> None:
            self.cells.populate(draft, population, [7, -1, 3])

    kernel = Kernel(Placed(capacity))
    kernel.register_population("people", 3, table=PEOPLE)
    assert kernel.population("people")["cell"].tolist() == [7, -1, 3]
    require_consistent(kernel, capacity)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capacity": 0}, "an int >= 1, or None for no bound, got 0"),
        ({"capacity": True}, "got True"),
        ({"name": "cells"}, "named <domain>.<rows>"),
        ({"layers": {"who": Field("i4")}}, "has a field 'who' for its agents"),
        ({"layers": {"count": Field("i4")}, "capacity": 2}, "has a field 'count' for its agents"),
        ({"layers": {"sugar": 1}}, "names and Field"),
    ],
)
def test_table_that_cannot_be_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        CellTable(GRID, **{"name": CELLS, **options})
