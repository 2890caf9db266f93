"""A collector of a world with tables: columns in place of entities, with equal values."""

from contextlib import closing

import numpy as np
import pytest

from placet.kernel import Kernel, RecordList
from placet.kernel.state.tree import State, WorldState
from placet.schemas.codec import thaw
from placet.stores.reading import log_to_read
from placet.tables.collector import Collector
from placet.tables.parts import CollectError
from placet.tables.statistic import FieldStatistic, statistic_named
from tests.lab.columns import N, columns_kernel, run_columns, write_log

STATISTICS = ("count", "sum", "mean", "min", "max", "q0", "q5", "q50", "q99")
FIELDS = ("lab.agents/position", "lab.agents/money", "lab.agents/hue", "lab.cells/coins")


def by_entity(kernel: Kernel) -> WorldState:
    """Return the state of a kernel with ordinary collections in place of tables."""
    state = State()
    for name, rows in kernel.tree.collections.items():
        for entity, row in rows.entities.items():
            of = state.collection(name)
            of.entities[entity] = type("Plain", (), {"fields": thaw(dict(row.fields))})()
    return WorldState(state)


def collector(**more):
    world = {f"{name} {field}": f"{name}({field})" for name in ("mean", "q50") for field in FIELDS}
    return Collector(agents=["position", "lab.agents/money"], world=world, **more)


def rows_of(made):
    return {name: list(table.rows()) for name, table in made.tables().items()}


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("field", FIELDS)
def test_a_statistic_of_a_column_is_that_of_the_entities(name, field):
    kernel = columns_kernel(seed=11)
    run_columns(kernel, ticks=7)
    statistic = FieldStatistic(name, *field.split("/"))
    assert statistic(WorldState(kernel.tree)) == statistic(by_entity(kernel))


def test_statistics_are_those_of_numpy():
    kernel = columns_kernel(seed=11)
    run_columns(kernel, ticks=7)
    state, position = WorldState(kernel.tree), kernel.population("birds")["position"]
    for name, expected in {
        "mean": position.mean(axis=0),
        "q25": np.quantile(position, 0.25, axis=0),
        "max": position.max(axis=0),
    }.items():
        statistic = statistic_named(f"{name}(lab.agents/position)")
        assert statistic is not None
        assert statistic(state) == pytest.approx(expected)
    assert FieldStatistic("count", "lab.agents", "position")(state) == N


def test_sums_beyond_64_bits_are_exact():
    kernel = columns_kernel()
    table = kernel.tree.tables["lab.agents"]
    table.columns["money"] = np.full(N, 2**62)
    assert FieldStatistic("sum", "lab.agents", "money")(WorldState(kernel.tree)) == N * 2**62


def test_a_collection_without_entities_has_no_mean():
    state = WorldState(State(), ("world.agents",))
    assert FieldStatistic("mean", "world.agents", "energy")(state) is None
    assert FieldStatistic("q50", "world.agents", "energy")(state) is None
    assert FieldStatistic("max", "world.agents", "energy")(state) is None
    assert FieldStatistic("count", "world.agents", "energy")(state) == 0


def test_a_missing_field_of_a_table_ends_the_collecting_and_names_a_near_one():
    kernel = columns_kernel()
    made = Collector(world={"m": "mean(lab.agents/mony)"})
    made.attach(kernel)
    kernel.step(1.0)
    with pytest.raises(CollectError, match="did you mean 'money'"):
        made.check()


def test_a_text_that_is_no_statistic_names_both_forms():
    with pytest.raises(CollectError, match="a statistic of a field such as"):
        Collector(world={"m": "median(lab.agents/money)"})


def test_columns_are_read_only_and_live():
    kernel = columns_kernel()
    columns = WorldState(kernel.tree).columns("lab.agents")
    assert columns is not None
    with pytest.raises(ValueError, match="read-only"):
        columns["money"][0] = 1
    assert WorldState(kernel.tree).columns("world.agents") is None


def test_members_are_collected_as_their_entities_would_be():
    kernel = columns_kernel()
    made = collector()
    made.attach(kernel)
    run_columns(kernel, ticks=1)
    seen = [
        (name, list(row.fields["position"]), row.fields["money"])
        for name, row in kernel.tree.collections["lab.agents"].entities.items()
    ]
    rows = [row for row in rows_of(made)["agents"] if row["tick"] == kernel.ledger.tick]
    assert [row["agent"] for row in rows] == ["ann", *(f"birds:{row}" for row in range(N))]
    assert [(r["agent"], r["position"], r["lab.agents/money"]) for r in rows[1:]] == seen
    assert rows[0]["position"] is None


def test_collected_live_equals_collected_from_the_log(tmp_path):
    sink = RecordList()
    kernel = columns_kernel(sink)
    live = collector(to=tmp_path / "live")
    live.attach(kernel)
    run_columns(kernel, ticks=4)
    live.close()
    write_log(tmp_path / "lab.db", sink)
    later = collector()
    with closing(log_to_read(str(tmp_path / "lab.db"))) as log:
        later.collect(log)
    later.close()
    assert rows_of(live) == rows_of(later)
    assert len(rows_of(later)["agents"]) == (N + 1) * kernel.ledger.tick


def test_a_field_that_no_member_has_is_an_error_with_a_suggestion():
    kernel = columns_kernel()
    made = Collector(agents=["positoin"])
    made.attach(kernel)
    kernel.step(1.0)
    with pytest.raises(CollectError, match="did you mean 'position'"):
        made.check()


def test_a_later_batch_does_not_change_collected_rows():
    kernel = columns_kernel()
    made = Collector(agents=["position"])
    made.attach(kernel)
    kernel.step(1.0)
    before = rows_of(made)["agents"]
    run_columns(kernel, ticks=2)
    assert rows_of(made)["agents"][: len(before)] == before
