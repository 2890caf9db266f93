"""`placet export`: the tables of a log in files that other tools read."""

import json
import resource
import subprocess
import sys
from contextlib import closing
from decimal import Decimal
from math import inf, nan
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import placet
from placet.cli.app import run_command
from placet.history.selection import Selection
from placet.schemas.errors import PlacetError, StoreError
from placet.stores.reading import log_to_read
from placet.tables import rows as rows_module
from placet.tables.arrow import canonical_rows
from placet.tables.definitions import DEFINITIONS
from placet.tables.export import export
from placet.tables.files import ExportError
from placet.tables.plan import TableOptions
from placet.tables.row import Row
from placet.tables.table import ArrowTable
from tests.lab.logs import run_town


def exported(store, target, **options):
    selection = Selection(**options.pop("selection", {}))
    with closing(log_to_read(str(store))) as log:
        return export(log, Path(target), TableOptions(selection, **options))


def digests_of(folder):
    return {
        path.name: ArrowTable(path.stem, pq.read_table(path)).digest()
        for path in sorted(folder.glob("*.parquet"))
    }


def test_a_folder_has_every_table_and_its_schema(town_log, tmp_path):
    report = exported(town_log, tmp_path / "out", every=3)
    names = {f"{name}.parquet" for name in DEFINITIONS} | {"_schema.json"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names
    schema = json.loads((tmp_path / "out" / "_schema.json").read_text())["tables"]
    for name, count in report.rows.items():
        table = pq.read_table(tmp_path / "out" / f"{name}.parquet")
        assert table.num_rows == count == schema[name]["rows"]
        assert table.column_names == [c["name"] for c in schema[name]["columns"]]
    time = next(c for c in schema["intents"]["columns"] if c["name"] == "sim_time_ns")
    assert time["unit"] == "ns"
    assert schema["intents"]["metadata"]["placet.world"] == "town"


def test_exported_twice_the_rows_and_the_bytes_are_the_same(town_log, tmp_path):
    """G27: what is exported can be derived again from the log, row for row."""
    for name in ("one", "two"):
        exported(town_log, tmp_path / name, every=2)
    assert digests_of(tmp_path / "one") == digests_of(tmp_path / "two")
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_planted_fault_in_one_cell_changes_the_digest_of_its_table(town_log, tmp_path, monkeypatch):
    exported(town_log, tmp_path / "sound")
    whole = rows_module.IntentRows.rows
    seen = []

    def faulty(self, record):
        for row in whole(self, record):
            assert isinstance(row, Row), "a town has no column batches"
            seen.append(row)
            last = row.cells[-1] + (len(seen) == 50)
            yield row._replace(cells=(*row.cells[:-1], last))

    monkeypatch.setattr(rows_module.IntentRows, "rows", faulty)
    exported(town_log, tmp_path / "faulty")
    sound, faulty_ones = digests_of(tmp_path / "sound"), digests_of(tmp_path / "faulty")
    assert [name for name in sound if sound[name] != faulty_ones[name]] == ["intents.parquet"]


def test_rows_are_the_same_where_the_domain_is_not_installed(town_log, tmp_path, monkeypatch):
    exported(town_log, tmp_path / "installed")
    monkeypatch.setattr("placet.tables.plan.installed_schemas", lambda _: {})
    exported(town_log, tmp_path / "elsewhere")
    assert digests_of(tmp_path / "installed") == digests_of(tmp_path / "elsewhere")


def test_all_formats_have_the_same_rows(town_log, tmp_path):
    exported(town_log, tmp_path / "x.parquet")
    exported(town_log, tmp_path / "x.arrow")
    exported(town_log, tmp_path / "x.csv")
    parquet = ArrowTable("x", pq.read_table(tmp_path / "x.parquet"))
    with pa.ipc.open_file(str(tmp_path / "x.arrow")) as reader:
        arrow = ArrowTable("x", reader.read_all())
    assert parquet.digest() == arrow.digest()
    frame = pd.read_csv(tmp_path / "x.csv")
    assert frame["seq"].tolist() == parquet.arrow["seq"].to_pylist()
    to = [json.loads(v) if isinstance(v, str) else None for v in frame["Move.to"]]
    assert to == parquet.arrow["Move.to"].to_pylist()
    assert (tmp_path / "x_schema.json").exists()


def test_intents_of_the_table_are_those_of_the_records(town_log, tmp_path):
    exported(town_log, tmp_path / "i.parquet")
    rows = pq.read_table(tmp_path / "i.parquet").to_pylist()
    events = [e for e in placet.Log(town_log).records() if e.type == "batch"]
    expected = [
        (event.seq, intent["agent_id"], intent["kind"], intent["req_id"])
        for event in events
        for intent in event.data["intents"]
    ]
    assert sorted((r["agent"], r["kind"], r["req_id"]) for r in rows) == sorted(
        e[1:] for e in expected
    )
    assert [r["seq"] for r in rows] == sorted(r["seq"] for r in rows)
    move = next(r for r in rows if r["kind"] == "Move")
    assert len(move["Move.to"]) == 3
    assert move["Speak.text"] is None


def test_changes_lead_from_the_old_state_to_the_new(notes_log):
    table = placet.Log(notes_log).tables("changes")["changes"]
    state: dict[tuple[str, str, str], str] = {}
    for row in table.rows():
        key = (row["collection"], row["entity"], row["field"])
        assert state.get(key) == row["old"], key
        if row["new"] is None:
            del state[key]
        else:
            state[key] = row["new"]
    final = placet.Log(notes_log).at().state
    assert state == {
        (collection, entity, field): json.dumps(thawed(value), separators=(",", ":"))
        for collection, rows in final.items()
        for entity, fields in rows.items()
        for field, value in fields.items()
    }


def thawed(value):
    return list(value) if isinstance(value, tuple) else value


def test_refusals_name_the_intent_that_was_refused(notes_log, tmp_path):
    exported(notes_log, tmp_path / "r.parquet", names=("refusals",))
    rows = pq.read_table(tmp_path / "r.parquet").to_pylist()
    assert [(r["kind"], r["is_cause"], r["code"]) for r in rows] == [
        ("Drop", False, rows[1]["code"]),
        ("Drop", True, rows[1]["code"]),
    ]
    assert {r["recorded"] for r in rows} == {True}


def test_a_file_of_refused_batches_alone_holds_the_refusals(notes_log, tmp_path):
    exported(notes_log, tmp_path / "r.parquet", selection={"refused": True})
    assert pq.read_table(tmp_path / "r.parquet")["code"].null_count == 0


def test_effects_have_their_outcomes(notes_log, tmp_path):
    exported(notes_log, tmp_path / "e.parquet", names=("effects",))
    rows = pq.read_table(tmp_path / "e.parquet").to_pylist()
    assert [(r["kind"], json.loads(r["payload"])["to"], r["outcome"]) for r in rows] == [
        ("mail", "bob", "succeeded"),
        ("mail", "nobody", "failed"),
    ]
    assert json.loads(rows[0]["output"]) == {"sent": "bob"}
    assert rows[0]["settled_seq"] > rows[0]["seq"]


def test_model_calls_have_tokens_cost_and_the_hash_of_their_prompt(tmp_path):
    import asyncio

    from placet.agents import FunctionAdapter, Session
    from placet.agents.proposal.adapter import PlannerOutput, Usage

    usage = Usage(1, 120, 7, Decimal("0.25"), "price list", True)

    def answer(_):
        return PlannerOutput(text="no", usage=usage, model="tiny")

    async def talk():
        store, adapter = str(tmp_path / "s.db"), FunctionAdapter(answer)
        async with Session.open(domain="world", adapter=adapter, store=store) as session:
            await session.send("walk")

    asyncio.run(talk())
    table = placet.Log(tmp_path / "s.db").tables("model_calls")["model_calls"]
    (row,) = table.rows()
    assert (row["requests"], row["tokens_in"], row["tokens_out"]) == (1, 120, 7)
    assert (row["cost_usd"], row["model"], row["outcome"]) == (0.25, "tiny", "succeeded")
    assert (row["price"], row["is_estimated"]) == ("price list", True)
    assert len(row["prompt_hash"]) == 32
    assert (row["turn"], row["attempt"]) == (1, 1)


def test_mixed_values_are_json_text(notes_log, tmp_path):
    exported(notes_log, tmp_path / "i.parquet")
    table = pq.read_table(tmp_path / "i.parquet")
    field = table.schema.field("Put.value")
    assert str(field.type) == "extension<arrow.json>"
    assert table["Put.value"].to_pylist()[:3] == ["1", '"text"', "[1,2.5]"]
    assert str(table.schema.field("Put.id").type) == "string"


def test_pandas_polars_and_duckdb_read_the_files(town_log, notes_log, tmp_path):
    for store, name in ((town_log, "town"), (notes_log, "notes")):
        report = exported(store, tmp_path / name, every=1)
        for table, count in report.rows.items():
            path = tmp_path / name / f"{table}.parquet"
            assert len(pd.read_parquet(path)) == count
            assert pl.read_parquet(path).height == count
            assert queried(f"select count(*) from '{path}'") == count
    mean = queried(
        f"select avg(\"Move.to\"[1]) from '{tmp_path}/town/intents.parquet' where kind = 'Move'"
    )
    frame = pl.read_parquet(tmp_path / "town" / "intents.parquet")
    own = frame.filter(pl.col("kind") == "Move")["Move.to"].list.get(0).mean()
    assert mean == pytest.approx(own)


def queried(query):
    """Return the one value that a query of DuckDB yields."""
    with closing(duckdb.connect()) as connection:
        ((value,),) = connection.execute(query).fetchall()
    return value


@pytest.mark.parametrize(
    ("selection", "holds"),
    [
        ({"agents": frozenset({"folk_1"})}, lambda r: r["agent"] == "folk_1"),
        ({"kinds": frozenset({"Speak"})}, lambda r: r["kind"] == "Speak"),
        ({"from_seq": 40, "to_seq": 60}, lambda r: 40 <= r["seq"] <= 60),
    ],
)
def test_filters_keep_the_rows_that_match_and_no_other(town_log, tmp_path, selection, holds):
    exported(town_log, tmp_path / "all.parquet")
    exported(town_log, tmp_path / "some.parquet", selection=selection)
    everything = pq.read_table(tmp_path / "all.parquet").to_pylist()
    some = pq.read_table(tmp_path / "some.parquet").to_pylist()
    keys = [r["seq"] for r in everything if holds(r)]
    assert keys
    assert [r["seq"] for r in some] == keys


def test_range_has_the_ticks_and_old_values_of_the_whole(town_log, tmp_path):
    exported(town_log, tmp_path / "all.parquet", names=("changes",))
    exported(town_log, tmp_path / "late.parquet", names=("changes",), selection={"from_seq": 100})
    everything = pq.read_table(tmp_path / "all.parquet").to_pylist()
    late = pq.read_table(tmp_path / "late.parquet").to_pylist()
    assert late == [r for r in everything if r["seq"] >= 100]
    assert any(r["old"] is not None for r in late)


def test_log_that_grows_between_the_passes_is_read_to_one_end(tmp_path, monkeypatch):
    """A kind that first appears after the pass over the types does not reach the rows."""
    store = tmp_path / "town.db"
    run_town(store, ticks=3)
    from placet.tables import plan

    whole = plan.TablePlan._make_schemas

    def grown(self):
        run_town_on(store)
        return whole(self)

    monkeypatch.setattr(plan.TablePlan, "_make_schemas", grown)
    before = placet.Log(store).at().seq
    report = exported(store, tmp_path / "i.parquet")
    rows = pq.read_table(tmp_path / "i.parquet").to_pylist()
    assert report.rows["intents"] == len(rows)
    assert max(r["seq"] for r in rows) <= before < placet.Log(store).at().seq


def run_town_on(store):
    import asyncio

    from placet import Orchestrator, OrchestratorConfig

    async def run():
        config = OrchestratorConfig(store=str(store), clock="stepped", world="town", seed=1)
        async with Orchestrator(None, config) as world:
            new = await world.register_agent("new", position=[1, 1, 0])
            pending = new.submit_nowait([new.intent("Speak", text="hello", channel="public")])
            await world.step(1.0)
            assert (await pending).admitted

    asyncio.run(run())


def test_compacted_log_is_exported_from_its_oldest_snapshot_on(town_log, tmp_path):
    """Where the state is known, every row is that of the whole log."""
    store = tmp_path / "town.db"
    run_town(store, snapshot_every_seqs=100)
    exported(store, tmp_path / "whole", every=4)
    assert run_command(["compact", str(store), "--keep", "150"]) == 0
    exported(store, tmp_path / "rest", every=4)
    kept = 0
    for name in ("intents", "refusals", "changes", "entities", "ticks"):
        rest = pq.read_table(tmp_path / "rest" / f"{name}.parquet")
        since = int(rest.schema.metadata[b"placet.compacted_to_seq"])
        rows = pq.read_table(tmp_path / "whole" / f"{name}.parquet").to_pylist()
        if name != "ticks":  # the first one is counted from the snapshot on
            assert rest.to_pylist() == [row for row in rows if row["seq"] > since]
        assert [r["tick"] for r in rest.to_pylist()] == [
            row["tick"] for row in rows if row["seq"] > since
        ]
        kept += rest.num_rows
    assert kept > 100
    with pytest.raises(StoreError, match="its first seq with a known state is"):
        exported(store, tmp_path / "no", selection={"from_seq": 10})


# errors


def test_existing_target_is_refused_and_left_alone(town_log, tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(ExportError, match="is there already; name another target"):
        exported(town_log, tmp_path / "out")
    (tmp_path / "x.csv").write_text("mine")
    with pytest.raises(ExportError, match="is there already"):
        exported(town_log, tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text() == "mine"


@pytest.mark.parametrize(
    ("target", "options", "said"),
    [
        ("x.xlsx", {}, "no known format"),
        ("x.csv", {"names": ("ticks", "agents")}, "a file holds one table"),
        ("nowhere/x.csv", {}, "there is no folder"),
    ],
)
def test_target_that_cannot_be_written_is_a_clear_error(town_log, tmp_path, target, options, said):
    with pytest.raises(ExportError, match=said):
        exported(town_log, tmp_path / target, **options)
    assert list(tmp_path.iterdir()) == []


def test_unknown_table_suggests_the_nearest():
    with pytest.raises(PlacetError, match="no table 'qqq'; the tables are intents, "):
        TableOptions(names=("qqq",))
    with pytest.raises(PlacetError, match="did you mean 'intents'"):
        TableOptions(names=("intent",))


def test_failed_export_leaves_nothing_behind(town_log, tmp_path, monkeypatch):
    whole, count = rows_module.IntentRows.rows, iter(range(10**6))

    def failing(self, record):
        if next(count) > 60:
            raise OSError(28, "No space left on device")
        yield from whole(self, record)

    monkeypatch.setattr(rows_module.IntentRows, "rows", failing)
    for target in ("out", "x.parquet"):
        with pytest.raises(ExportError, match="No space left on device"):
            exported(town_log, tmp_path / target)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_full_disk_is_one_line_and_leaves_no_half_file(town_log, tmp_path):
    """The size of files is limited by the system, so that the write itself fails."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    import signal

    done = subprocess.run(
        [sys.executable, "-m", "placet", "export", str(town_log), "--to", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: (limit(), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)),
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "File too large" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_damaged_record_ends_the_export_with_its_place(town_log, tmp_path, capsys):
    import sqlite3

    store = tmp_path / "damaged.db"
    store.write_bytes(town_log.read_bytes())
    with closing(sqlite3.connect(store)) as connection:
        rowid, data = connection.execute(
            "select rowid, blob from groups order by rowid desc limit 1 offset 3"
        ).fetchone()
        broken = data[:40] + bytes([data[40] ^ 255]) + data[41:]
        connection.execute("update groups set blob=? where rowid=?", (broken, rowid))
        connection.commit()
    assert run_command(["export", str(store), "--to", str(tmp_path / "out")]) == 1
    assert "damaged" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_missing_log_and_empty_selection(tmp_path, town_log):
    with pytest.raises(StoreError, match="there is no file"):
        exported(tmp_path / "none.db", tmp_path / "out")
    with pytest.raises(PlacetError, match="no agent 'nobody'; there are folk_1"):
        exported(town_log, tmp_path / "none", selection={"agents": frozenset({"nobody"})})
    report = exported(town_log, tmp_path / "none", selection={"from_seq": 10**6})
    assert report.rows["intents"] == report.rows["refusals"] == 0
    assert pl.read_parquet(tmp_path / "none" / "intents.parquet").height == 0


def test_command_exports_and_prints_the_counts(town_log, tmp_path, capsys):
    target = tmp_path / "out"
    code = run_command(
        ["export", str(town_log), "--to", str(target), "--to", "50", "--table", "intents", "--json"]
    )
    assert code == 0
    report = json.loads(capsys.readouterr().out)
    table = pq.read_table(target / "intents.parquet")
    assert report["rows"] == {"intents": table.num_rows}
    assert max(table["seq"].to_pylist()) <= 50
    assert run_command(["export", str(town_log), "--to", "5"]) == 2
    assert "give --to once with a folder" in capsys.readouterr().err


def test_missing_pyarrow_names_the_extra(town_log, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(PlacetError, match=r"pip install '\.\[lab\]'"):
        exported(town_log, tmp_path / "out")
    with pytest.raises(PlacetError, match=r"pip install '\.\[lab\]'"):
        placet.Log(town_log).tables()
    assert list(tmp_path.iterdir()) == []


def test_memory_of_an_export_does_not_grow_with_the_log(tmp_path):
    """Rows in memory are bounded by a batch of each table, counted rather than measured."""
    from placet.tables import batch_builder, plan

    largest = []
    whole = batch_builder.BatchBuilder.take

    class Watched(batch_builder.BatchBuilder):
        def take(self):
            largest.append(len(self._cells))
            return whole(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_builder, "BATCH_ROWS", 50)
        patch.setattr(plan, "BatchBuilder", Watched)
        run_town(tmp_path / "town.db", ticks=6)
        report = exported(tmp_path / "town.db", tmp_path / "out")
    assert report.rows["intents"] > 100
    assert max(largest) == 50


def test_canonical_rows_tell_numbers_that_json_lacks_apart():
    values = [nan, inf, -inf, None, "nan", "inf", 0.0]
    digests = {canonical_rows([{"a": value}], frozenset()) for value in values}
    assert len(digests) == len(values)
    assert canonical_rows([{"a": nan}], frozenset()) == canonical_rows([{"a": -nan}], frozenset())


def test_canonical_rows_do_not_depend_on_types():
    one = canonical_rows([{"a": 1.0, "b": None, "c": '{"x": 2.0}'}], frozenset({"c"}))
    two = canonical_rows([{"a": 1, "c": '{"x":2}'}], frozenset({"c"}))
    other = canonical_rows([{"a": 1, "c": '{"x":3}'}], frozenset({"c"}))
    assert one == two != other
