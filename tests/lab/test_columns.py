"""The tables of a log with column batches: as arrays, and equal to the rows of its records."""

import json

import numpy as np
import pytest

import placet
from placet.history.selection import Selection
from placet.kernel import Kernel, KernelConfig, RecordList
from placet.kernel.log.replay import Replayer
from placet.schemas.log.record import Columns, decode_record
from placet.stores.reading import log_to_read
from placet.tables.arrow import json_text
from placet.tables.definitions import DEFINITIONS
from placet.tables.export import export
from placet.tables.plan import TableOptions, TablePlan
from placet.tables.row_block import BLOCK_ROWS, JsonObjects, RowBlock, Same, Values, json_texts
from placet.tables.table import LogRows, read_tables
from tests.kernel.columns.lab import Lab
from tests.lab.columns import N, write_columns, write_log


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The path of a log with column batches, and the kernel that wrote it."""
    path = tmp_path_factory.mktemp("columns") / "lab.db"
    return path, write_columns(path, ticks=12)


def column_records(path):
    for _, data in log_to_read(str(path)).read():
        record = decode_record(data)
        if isinstance(record, Columns):
            yield record


def plain(row):
    """Return a row without its empty cells, with JSON text read and the payload in columns."""
    cells = {name: value for name, value in row.items() if name != "payload"}
    kind = row.get("kind")
    cells |= {f"{kind}.{name}": value for name, value in row.get("payload", {}).items()}
    return {name: value for name, value in cells.items() if value is not None}


def read_json(name, row):
    columns = [column.name for column in DEFINITIONS[name].columns if column.type == "json"]
    return {
        key: json.loads(value) if key in columns and value is not None else value
        for key, value in row.items()
    }


@pytest.mark.parametrize("name", DEFINITIONS)
def test_arrow_tables_hold_the_rows_that_iteration_yields(written, name):
    path, _ = written
    log = placet.Log(path)
    arrow = [plain(read_json(name, row)) for row in log.tables(name, every=3)[name].rows()]
    rows = log.entities(3) if name == "entities" else log._rows(name)
    expected = [json.loads(json.dumps(plain(row))) for row in rows]
    assert repr(json.loads(json.dumps(arrow))) == repr(expected)
    assert arrow or name in {"effects", "model_calls"}


def test_each_row_of_a_column_batch_is_an_intent_or_a_refusal(written):
    path, _ = written
    log = placet.Log(path)
    intents, refusals = list(log.intents), list(log.refusals)
    for record in column_records(path):
        batch = f"b{record.number}"
        admitted = [row for row in intents if row["batch"] == batch]
        refused = [row for row in refusals if row["batch"] == batch]
        numbers = np.frombuffer(record.agents, "<u4").tolist() or list(range(N))
        codes = list(record.codes) or [0] * len(numbers)
        names = {code: name for code, name, _ in record.reasons}
        by_agent = {row["agent"]: row for row in admitted + refused}
        assert len(admitted) + len(refused) == len(by_agent) == len(numbers)
        for number, code in zip(numbers, codes, strict=True):
            row = by_agent[f"birds:{number}"]
            assert ("code" in row) == bool(code)
            assert code not in names or row["code"] == names[code]
        assert {row["seq"] for row in admitted} <= {record.seq}
        assert {row["context_seq"] for row in admitted + refused} == (
            {record.contexts}
            if isinstance(record.contexts, int)
            else set(np.frombuffer(record.contexts, "<i8").tolist())
        )


def test_payloads_of_column_batches_and_of_intents_stand_in_one_column(written):
    path, _ = written
    rows = [row for row in placet.Log(path).intents if row["kind"] == "Move"]
    assert any(row["req_id"].startswith("own:") for row in rows)
    assert any(row["req_id"].startswith("Move:") for row in rows)
    assert all(len(row["payload"]["to"]) == 2 for row in rows)


@pytest.mark.parametrize("after_seq", [0, 9])
def test_changes_fold_to_the_state(written, after_seq):
    path, kernel = written
    log = log_to_read(str(path))
    past = Replayer()
    for _, data in log.read():
        if decode_record(data).seq > after_seq:
            break
        past.apply(data)
    state = json.loads(json.dumps(past.state.as_dict()))
    options = TableOptions(Selection(from_seq=after_seq + 1), ("changes",))
    for row in LogRows("changes", lambda: TablePlan(log, options)):
        fields = state.setdefault(row["collection"], {}).setdefault(row["entity"], {})
        old, new = json.loads(json.dumps([row["old"], row["new"]]))
        assert fields.get(row["field"]) == old, row
        fields[row["field"]] = new
    assert state == kernel.tree.as_dict()


def test_a_row_that_several_agents_changed_has_no_author(written):
    path, _ = written
    changes = [row for row in placet.Log(path).changes if row["collection"] == "lab.agents"]
    shared = [row for row in changes if row["by"] is None]
    assert shared
    assert {row["field"] for row in shared} == {"money"}
    moved = [row for row in changes if row["field"] == "position" and row["by"] != "operator"]
    assert all(row["by"] == row["entity"] for row in moved)


def test_entities_are_the_state_after_each_tick(written):
    path, kernel = written
    rows = list(placet.Log(path).entities(1))
    last = [row for row in rows if row["tick"] == kernel.ledger.tick]
    state = {
        (name, entity): fields
        for name, entities in kernel.tree.as_dict().items()
        for entity, fields in entities.items()
    }
    assert {(row["collection"], row["entity"]): row["fields"] for row in last} == state
    assert len(rows) == len(state) * kernel.ledger.tick


def test_ticks_count_the_rows_of_column_batches(written):
    path, _ = written
    log = placet.Log(path)
    ticks = list(log._rows("ticks"))
    assert sum(row["intents"] for row in ticks) == len(list(log.intents))
    assert sum(row["refused"] for row in ticks) == len(list(log.refusals))
    moved = {
        (row["seq"], row["entity"])
        for row in log.changes
        if row["by"] is None or "birds" in row["by"]
    }
    assert sum(row["changed"] for row in ticks) == len(moved)


def test_members_are_agents_and_a_suspended_one_is_marked(written):
    path, _ = written
    rows = {row["agent"]: row for row in placet.Log(path)._rows("agents")}
    assert list(rows) == ["ann", *(f"birds:{number}" for number in range(N))]
    assert [name for name, row in rows.items() if row["is_suspended"]] == ["birds:2"]
    assert rows["birds:3"]["owner"] == "operator"


def test_selections_choose_rows_of_a_batch(written):
    path, _ = written
    log = log_to_read(str(path))

    def rows(name, **selected):
        options = TableOptions(Selection(**selected), (name,))
        return list(LogRows(name, lambda: TablePlan(log, options)))

    every = rows("intents")
    assert rows("intents", from_seq=9, to_seq=14) == [row for row in every if 9 <= row["seq"] <= 14]
    assert rows("intents", kinds=frozenset({"Roll"})) == [
        row for row in every if row["kind"] == "Roll"
    ]
    # NaN, which a refused payload may hold, differs from itself.
    assert repr(rows("refusals", refused=True)) == repr(rows("refusals"))
    assert not rows("intents", refused=True)


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow"])
def test_files_hold_the_rows(written, tmp_path, ending):
    path, _ = written
    target = tmp_path / f"intents.{ending}"
    report = export(log_to_read(str(path)), target, TableOptions())
    assert report.rows == {"intents": len(list(placet.Log(path).intents))}
    assert target.stat().st_size


def test_blocks_are_cut_to_a_bounded_number_of_rows():
    count = 2 * BLOCK_ROWS + 3
    block = RowBlock(count, [Same(1), Values(np.arange(count))])
    parts = list(block.parts())
    assert [part.count for part in parts] == [BLOCK_ROWS, BLOCK_ROWS, 3]
    assert next(row.cells for row in parts[2].rows()) == (1, 2 * BLOCK_ROWS)


@pytest.mark.parametrize(
    "array",
    [
        np.array([1, -2], "i4"),
        np.array([0.1, 1e300, -0.0]),
        np.array([True, False]),
        np.array([[1.5, 2.0], [3.0, -4.0]]),
        np.arange(12).reshape(2, 3, 2),
        np.zeros((0, 2)),
        np.array([2**64 - 1, 0], "u8"),
        np.array([0.1, 3.0], "f4"),
    ],
)
def test_json_texts_are_those_of_the_values(array):
    assert json_texts(array).to_pylist() == [json_text(value) for value in array.tolist()]


def test_objects_are_canonical_text():
    cells = JsonObjects({"b": np.array([1, 2]), "a": np.array([[1.0, 2.0], [3.0, 4.0]])})
    expected = ['{"a":[1.0,2.0],"b":1}', '{"a":[3.0,4.0],"b":2}']
    assert [str(text) for text in cells.arrow("json", 2).storage.to_pylist()] == expected


def test_small_column_batches_share_a_row_group(written):
    path, _ = written
    plan = TablePlan(log_to_read(str(path)), TableOptions(names=("intents", "changes")))
    names = [name for name, _ in plan.batches()]
    assert sorted(names) == ["changes", "intents"]


def test_tables_in_memory_are_those_of_a_later_start(written):
    path, _ = written
    log = log_to_read(str(path))
    later = read_tables(TablePlan(log, TableOptions(Selection(from_seq=9), ("intents",))))
    whole = [row for row in placet.Log(path).tables("intents")["intents"].rows() if row["seq"] >= 9]
    assert [plain(row) for row in later["intents"].rows()] == [plain(row) for row in whole]


class Grow(Lab):
    """A lab whose hooks write columns, and a row of a table."""

    def on_populate(self, draft, population):
        draft.columns("lab.agents").set("hue", 2)

    def on_tick(self, draft, sim_time):
        money = draft.columns("lab.agents")["money"]
        draft.columns("lab.agents").set("money", np.minimum(money + 1, 6), where=money < 5)
        draft.put("lab.cells", "cells:1", "coins", int(sim_time) % 4)


def test_columns_that_hooks_write_are_changes_by_the_system(tmp_path):
    sink = RecordList()
    kernel = Kernel(Grow(N, 9), KernelConfig(), sink=sink)
    kernel.register_population("birds", N, table="lab.agents")
    for _ in range(4):
        kernel.step(1.0)
    write_log(tmp_path / "grown.db", sink)
    log = placet.Log(tmp_path / "grown.db")
    state: dict[str, dict[str, dict[str, object]]] = {}
    for row in log.changes:
        state.setdefault(row["collection"], {}).setdefault(row["entity"], {})[row["field"]] = row[
            "new"
        ]
    expected = kernel.tree.as_dict()
    assert json.loads(json.dumps(state)) == json.loads(json.dumps(expected))
    by = {row["by"] for row in log.changes if row["field"] == "hue" and row["new"] == 2}
    assert by == {"system"}
    last = {row["entity"]: row["fields"] for row in log.entities()}
    assert last["birds:3"]["money"] == expected["lab.agents"]["birds:3"]["money"]
