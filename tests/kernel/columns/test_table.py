"""A table as the rest of the kernel reads it: in cuts, in restored worlds, and as plain values."""

from typing import Any

import numpy as np
import pytest

from placet.kernel import ColumnBatch, Kernel, KernelConfig
from placet.kernel.state.table import TableRows
from placet.schemas.errors import AgentError, ValidationError
from tests.kernel.columns.lab import lab_kernel, stamps


def opened(count: int = 4, cells: int = 6) -> Kernel:
    kernel = lab_kernel(count, cells, KernelConfig(seed=1))
    kernel.register_population(
        "birds", count, table="lab.agents", position=np.full((count, 2), 500.0)
    )
    return kernel


def roll(kernel: Kernel, req_id: str = "a") -> Any:
    payload = {"x": np.zeros(kernel.population("birds").count, "i2")}
    return kernel.decide_columns(
        ColumnBatch("Fragile", "birds", payload, req_id, context_seq=kernel.seq)
    )


def move(kernel: Kernel, to: float, req_id: str = "m") -> None:
    payload = {"to": np.full((kernel.population("birds").count, 2), to)}
    batch = ColumnBatch("Move", "birds", payload, req_id, context_seq=kernel.seq)
    assert kernel.decide_columns(batch).admitted[0]


# cuts


def test_a_cut_shows_the_values_of_its_moment() -> None:
    kernel = opened()
    cut = kernel.tree.cut()
    move(kernel, 500.5)
    kernel.patch([("lab.agents", "birds:2", {"money": 6}, False)], "a test")
    rows = cut.collections["lab.agents"].entities
    assert dict(rows["birds:2"].fields)["position"] == (500.0, 500.0)
    assert cut.get("lab.agents", "birds:2", "money") == 3
    assert kernel.tree.get("lab.agents", "birds:2", "money") == 6
    assert kernel.state["lab.agents"]["birds:2"]["position"] == (500.5, 500.5)


def test_the_rows_of_a_cut_are_read_as_a_mapping() -> None:
    rows = opened().tree.cut().collections["lab.agents"].entities
    assert isinstance(rows, TableRows)
    assert [*rows] == ["birds:0", "birds:1", "birds:2", "birds:3"] == [*rows.ids()]
    assert len(rows) == 4
    assert "birds:3" in rows
    assert not any(name in rows for name in ("birds:4", "birds:03", "fish:0", "birds", 3))
    assert rows.get("birds:4") is None
    with pytest.raises(KeyError):
        rows["birds:4"]


def test_a_cut_names_no_change_where_no_row_was_written() -> None:
    tree = (kernel := opened()).tree
    assert tree.cut().collections["lab.agents"].changed is None  # nothing to compare with
    assert tree.cut().collections["lab.agents"].changed == {}
    kernel.tick(1.0)
    assert tree.cut().collections["lab.agents"].changed == {}
    move(kernel, 500.5)
    cut = tree.cut()
    assert cut.collections["lab.agents"].changed is None
    assert cut.collections["lab.cells"].changed == {}
    assert tree.cut().collections["lab.agents"].changed == {}


def test_a_cut_after_a_rollback_to_the_cut_before_names_no_change() -> None:
    tree = (kernel := opened()).tree
    mark = kernel.mark()
    tree.cut()
    move(kernel, 500.5)
    kernel.rollback(mark)
    assert tree.cut().collections["lab.agents"].changed == {}


def test_a_cut_shares_the_arrays_that_are_not_written() -> None:
    tree = (kernel := opened()).tree
    cut = tree.cut()
    move(kernel, 500.5)
    ours, theirs = tree.tables["lab.agents"].columns, cut.tables["lab.agents"].columns
    assert [name for name in ours if ours[name] is not theirs[name]] == ["position"]


# another state


def test_a_restored_world_has_the_tables_of_its_snapshot() -> None:
    kernel = opened()
    roll(kernel)
    kernel.change_agent("birds:1", "suspended")
    state, rows = kernel.state, kernel.state["lab.agents"]
    data, digest, before = kernel.snapshot(), kernel.world_digest(), stamps(kernel)
    move(kernel, 500.5)
    kernel.decide_group([kernel.intent("Fragile", {"x": 2}, agent="birds:2")])
    kernel.restore(data)
    assert kernel.world_digest() == digest
    assert kernel.digest() == opened_again(data).digest()
    assert stamps(kernel) == before
    assert (
        rows["birds:0"]["position"] == (500.0, 500.0) == state["lab.agents"]["birds:0"]["position"]
    )
    kernel.change_agent("birds:1", "resumed")
    move(kernel, 500.5, "again")
    assert rows["birds:0"]["position"] == (500.5, 500.5)


def opened_again(data: bytes) -> Kernel:
    """Return a kernel without a population that was restored from a snapshot."""
    kernel = lab_kernel(4, 6, KernelConfig(seed=1))
    kernel.restore(data)
    return kernel


def test_a_world_without_a_population_takes_one_over_and_loses_it_again() -> None:
    empty = lab_kernel(4, 6, KernelConfig(seed=1))
    data, digest = empty.snapshot(), empty.world_digest()
    kernel = opened_again(opened().snapshot())
    assert kernel.world_digest() == opened().world_digest()
    roll(kernel)
    other = opened()
    roll(other)
    assert kernel.world_digest() == other.world_digest()
    kernel.restore(data)
    assert kernel.world_digest() == digest
    assert not kernel.state["lab.agents"]
    kernel.register_population("birds", 4, table="lab.agents", position=np.full((4, 2), 500.0))
    roll(kernel)
    assert kernel.digest() == other.digest()


# plain values


def test_the_whole_state_as_plain_values_has_each_row() -> None:
    kernel = opened(12)
    plain = kernel.tree.as_dict()
    assert [*plain["lab.agents"]] == sorted(f"birds:{number}" for number in range(12))
    row = plain["lab.agents"]["birds:11"]
    assert (row["cell"], row["money"], row["position"]) == (0, 3, [500.0, 500.0])
    assert row.keys() == kernel.tree.tables["lab.agents"].fields.keys()


class Counted(TableRows):
    """Rows that count the names that are made."""

    made = 0

    def __iter__(self) -> Any:
        for name in super().__iter__():
            Counted.made += 1
            yield name


def test_ids_and_texts_make_only_the_names_that_are_read() -> None:
    kernel = opened(50)
    table = kernel.tree.tables["lab.agents"]
    table.entities = Counted(table)  # type: ignore[assignment]  # a mapping that is only read
    Counted.made = 0
    assert next(kernel.tree.ids("lab.agents")) == "birds:0"
    assert repr(kernel.state["lab.agents"]).startswith("<50 entities: birds:0, birds:1")
    assert "lab.agents: 50" in repr(kernel.state)
    assert "lab.agents 50" in repr(kernel.tree)
    assert next(iter(kernel.state["lab.agents"])) == "birds:0"
    assert Counted.made < 20


# the rows as entities of ordinary batches


def test_two_fields_of_a_row_in_one_batch_are_one_change() -> None:
    kernel = opened()
    draft = kernel._draft
    draft.open_batch()
    draft.begin(0, 9, "ann")
    draft.put("lab.agents", "birds:1", "money", 1)
    draft.put("lab.agents", "birds:1", "hue", 2)
    draft.put("lab.agents", "birds:1", "money", 2)
    draft.put("lab.cells", "cells:1", "color", 7)
    (first, second) = draft.changes().entities
    assert first.fields == {"money": 2, "hue": 2}
    assert (first.entity, first.seq, first.by, first.foreign_seq) == (
        "birds:1",
        9,
        "ann",
        kernel.seq,
    )
    assert second.fields == {"color": 7}
    assert [(c.entity, c.field, c.old, c.new) for c in draft.diff()] == [
        ("birds:1", "money", 3, 2), ("birds:1", "hue", 0, 2), ("cells:1", "color", 0, 7),
    ]  # fmt: skip
    assert draft.preview().changes == draft.diff()
    assert [ref.entity for ref in draft.changed()] == ["birds:1", "cells:1"]


def test_a_refused_batch_leaves_values_and_stamps_as_they_were() -> None:
    kernel = opened()
    kernel.register_agent("ann")
    draft = kernel._draft
    draft.open_batch()
    draft.begin(0, 9, "ann")
    draft.put("lab.agents", "birds:1", "money", 1)
    draft.open_batch()  # as committed
    before, digest = stamps(kernel), kernel.digest()
    assert before[1][-1] == {1: "ann"}
    for by in ("bob", "birds:1", "birds:2", "system"):
        draft.open_batch()
        draft.begin(0, 11, by)
        draft.put("lab.agents", "birds:1", "money", 2)
        draft.put("lab.agents", "birds:2", "money", 2)
        with pytest.raises(ValueError, match="within 0 and 6"):
            draft.put("lab.agents", "birds:2", "money", 7)
        draft.undo()
        assert stamps(kernel) == before, by
        assert kernel.digest() == digest


@pytest.mark.parametrize(
    ("entity", "fields", "is_whole", "message"),
    [
        ("cells:1", {"color": 1000}, False, "fit into u1, got 1000"),
        ("cells:1", {"wing": 1}, False, "no field 'wing'"),
        ("cells:1", None, False, "neither created nor deleted"),
        ("cells:1", {"color": 1}, True, "neither created nor deleted"),
        ("cells:99", {"color": 1}, True, "neither created nor deleted"),
        ("cells:99", {"color": 1}, False, "no entity lab.cells/cells:99"),
    ],
)
def test_a_patch_that_does_not_fit_a_table_changes_nothing(
    entity: str, fields: Any, is_whole: bool, message: str
) -> None:
    kernel = opened()
    before = kernel.world_digest()
    with pytest.raises(ValidationError, match=message):
        kernel.patch([("lab.cells", entity, fields, is_whole)], "a test")
    assert kernel.world_digest() == before


def test_a_row_keeps_all_of_its_fields() -> None:
    fields: Any = opened().tree.tables["lab.agents"].entities["birds:0"].fields
    with pytest.raises(TypeError, match="has all of its fields"):
        del fields["money"]


@pytest.mark.parametrize(
    ("name", "count", "table", "options", "message"),
    [
        ("birds", 2, "lab.agent", {}, "did you mean 'lab.agents'"),
        ("birds", 2, "x", {}, "the tables of agents are"),
        ("a:b", 2, "lab.agents", {}, "without ':'"),
        ("cells", 2, "lab.agents", {}, "choose another name"),
        ("birds", 0, "lab.agents", {}, "column_rows_max"),
        ("birds", 2, "lab.agents", {"money": [7, 0]}, "within 0 and 6"),
        ("birds", 2, "lab.agents", {"wing": [7, 0]}, "no field 'wing'"),
        ("birds", 2, "lab.agents", {"priority_max": 101}, "priority_max"),
    ],
)
def test_a_population_that_does_not_fit_changes_nothing(
    name: str, count: int, table: str, options: Any, message: str
) -> None:
    kernel = lab_kernel(4, 6, KernelConfig(seed=1))
    before = kernel.world_digest()
    with pytest.raises((AgentError, ValueError), match=message):
        kernel.register_population(name, count, table=table, **options)
    assert kernel.world_digest() == before


def test_a_table_has_one_population() -> None:
    kernel = opened()
    with pytest.raises(ValueError, match="has its population, 'birds', already"):
        kernel.register_population("fish", 2, table="lab.agents")


def test_the_buckets_of_a_member_are_a_mapping() -> None:
    kernel = opened()
    tats = kernel.ledger.agents["birds:1"].tats
    assert tats is not None
    assert (len(tats), [*tats], tats.get("Take", 7)) == (0, [], 7)
    tats["Take"] = 5
    assert ([*tats], len(tats), tats["Take"]) == (["Take"], 1, 5)
    del tats["Take"]
    assert tats["Take"] == 0
