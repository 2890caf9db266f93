"""A function of the world that returns a mapping fills a column for each key."""

from math import nan
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet import Simulation
from placet.domains.world import World
from placet.lab import Collector, Scenario, run_scenarios
from placet.lab.reporting.collected import collected_figures
from placet.tables import mappings
from placet.tables.arrow import arrow_array
from placet.tables.mappings import gathered, mappings_of, with_key_columns
from placet.tables.parts import PartFolder
from placet.tables.table import ArrowTable

SCENARIO = """
domain = "world"
ticks = 3
[settings]
max_step = 1
[agents.folk]
count = 2
policy = "tests.lab.test_collected_mappings:walk"
[collect]
[collect.world]
n = "tests.lab.test_collected_mappings:counts"
"""


def walk(view, intent):
    x, y, _ = view.state["world.agents"][view.agent_id]["position"]
    return [intent("Move", to=[x + 1, y])]


def reached(state) -> int:
    return max(int(agent["position"][0]) for agent in state["world.agents"].values())


def counts(state):
    """Return a mapping whose second key comes later."""
    return {"S": 3 - reached(state), **({"I": 0.5} if reached(state) > 1 else {})}


def ran(**options):
    folk = {"count": 2, "policy": walk, "area": ((0, 0), (0, 0))}
    collector = Collector(world={"n": counts, "far": reached}, **options)
    with Simulation(World(), {"folk": folk}, collector=collector) as simulation:
        simulation.run(3)
    collector.close()
    return collector.tables()["world"]


EXPECTED: dict[str, list[Any]] = {"n.I": [None, 0.5, 0.5], "n.S": [2, 1, 0], "far": [1, 2, 3]}


def columns_of(table):
    return {name: table.arrow.column(name).to_pylist() for name in table.columns[3:]}


@pytest.mark.parametrize("is_folder", [False, True])
def test_the_keys_of_a_mapping_are_columns_with_types_of_their_own(tmp_path, is_folder):
    table = ran(**({"to": tmp_path / "rows"} if is_folder else {}))
    assert columns_of(table) == EXPECTED
    assert [str(table.arrow.schema.field(name).type) for name in EXPECTED] == [
        "double",
        "int64",
        "int64",
    ]
    assert mappings_of(table.arrow) == {"n": ["I", "S"]}
    frame = table.to_pandas()
    assert frame["n.S"].tolist() == [2, 1, 0]
    assert table.to_polars()["n.I"].to_list() == [None, 0.5, 0.5]


def test_tables_that_were_sealed_are_continued_and_a_live_run_is_read(tmp_path):
    ran(to=tmp_path / "rows")
    collector = Collector(world={"n": counts, "far": reached}, to=tmp_path / "rows")
    folder = PartFolder(tmp_path / "rows", collector._tables)
    folder.continue_from(2)
    assert columns_of(PartFolder(tmp_path / "rows", []).written()["world"]) == {
        name: values[:2] for name, values in EXPECTED.items()
    }
    collector._world_table.rows.append((3, 9, 3, {"S": 0, "R": True}, 3))
    folder.write(3)
    folder.seal()
    table = collector.tables()["world"]
    assert columns_of(table)["n.R"] == [None, None, True]
    assert columns_of(table)["n.S"] == [2, 1, 0]


def test_the_runs_of_a_sweep_are_joined_over_their_keys(tmp_path, monkeypatch):
    (tmp_path / "walk.toml").write_text(SCENARIO)
    scenario = Scenario.load(tmp_path / "walk.toml")
    results = run_scenarios(scenario.product(ticks=[1, 3]), jobs=1, to=tmp_path / "study")
    table = results.collected("world")
    assert table.columns[-2:] == ["n.I", "n.S"]
    short, long = table.arrow.to_pylist()[:1], table.arrow.to_pylist()[1:]
    assert [row["n.I"] is None for row in short] == [row["n.S"] == 2 for row in short]
    assert len(long) == 3


def table_of(*cells, **others):
    return pa.table({"n": arrow_array(list(cells), "json"), **others})


@pytest.mark.parametrize(
    "cells",
    [
        ({"a": 1}, 5),
        ({"a": 1}, [[1]]),
        ({f"k{number}": 1 for number in range(300)},),
        ({"a\u202eb": 1},),
        ({},),
    ],
)
def test_a_column_that_is_no_mapping_of_names_stays_json_text(cells):
    table = table_of(*cells)
    assert with_key_columns(table, ["n"]).equals(table)


def test_a_name_that_is_taken_is_not_overwritten():
    table = table_of({"S": 1}, **{"n.S": pa.array([7])})
    assert with_key_columns(table, ["n"]).column_names == ["n", "n.S"]


def test_only_columns_that_are_named_are_read():
    table = table_of({"S": 1})
    assert with_key_columns(table, []).equals(table)


cells = st.dictionaries(
    st.text("abc.", min_size=1, max_size=3),
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.just([[1]]),
    min_size=1,
)


@given(st.lists(st.none() | cells, min_size=1, max_size=5))
def test_the_columns_of_keys_have_the_values_of_the_mappings(rows):
    table = table_of(*rows)
    spread = with_key_columns(table, ["n"])
    again = gathered(spread)
    kept = [None if not row else {k: v for k, v in row.items() if v is not None} for row in rows]
    digests = {ArrowTable("world", t).digest() for t in (spread, with_key_columns(again, ["n"]))}
    assert len(digests) == 1
    if mappings_of(spread):
        assert mappings._cells(again.column("n")) == [row or None for row in kept]


def test_numbers_that_are_not_finite_stay_numbers():
    spread = with_key_columns(table_of({"a": nan}, {"a": 1}), ["n"])
    assert str(spread.column("n.a").to_pylist()) == "[nan, 1.0]"


def test_keys_that_name_the_values_of_a_field_have_its_order():
    table = ran()
    for names, order in ((("I", "S", "R"), ["I", "S"]), (("S",), ["S", "I"])):
        figures = {one.title: one for one in collected_figures({"world": table}, {"state": names})}
        assert list(figures["n"].data) == order
