"""Exports of names that no column or file can have as they are, and of values before a range."""

import asyncio
import json
from contextlib import closing

import pyarrow.parquet as pq
import pytest

from placet import Domain, Kind, Log, Orchestrator, OrchestratorConfig
from placet.history.selection import Selection
from placet.stores.reading import log_to_read
from placet.tables.export import export
from placet.tables.plan import TableOptions, TablePlan
from placet.tables.table import read_tables


def put(draft, intent):
    for collection, fields in intent["payload"]["rows"].items():
        if fields is None:
            draft.delete(collection, "e")
        elif draft.exists(collection, "e"):
            for name, value in fields.items():
                draft.put(collection, "e", name, value)
        else:
            draft.create(collection, "e", fields)


def accept(_draft, _intent):
    return None


class Anything(Domain):
    """Writes any fields into any collection."""

    name, version = "any", "1"
    kinds = tuple(
        Kind(kind, dict[str, object], rule)
        for kind, rule in (("Put", put), ("A", accept), ("A.b", accept))
    )


def log_of(store, batches):
    """Write batches of `(kind, payload)`, each in its own tick, and return the log."""

    async def run():
        config = OrchestratorConfig(store=str(store), clock="stepped")
        async with Orchestrator(Anything(), config) as world:
            ann = await world.register_agent("ann")
            for batch in batches:
                pending = ann.submit_nowait([ann.intent(kind, **p) for kind, p in batch])
                await world.step(1.0)
                assert (await pending).admitted

    asyncio.run(run())
    return closing(log_to_read(str(store)))


def rows(**collections):
    return "Put", {"rows": {f"any.{name}": fields for name, fields in collections.items()}}


def test_kinds_and_fields_with_dots_have_columns_of_their_own(tmp_path):
    batch = [("A.b", {"c": 1}), ("A", {"b.c": "text"})]
    with log_of(tmp_path / "w.db", [batch]) as log:
        table = read_tables(TablePlan(log, TableOptions(names=("intents",))))["intents"]
    assert [(row["A.b.c"], row["A.b.c_"]) for row in table.rows()] == [(None, 1), ("text", None)]


def test_fields_named_like_columns_and_old_values_are_kept_apart(tmp_path):
    first = {"seq": 1, "seq_": "a", "a": 1, "a.old": "s"}
    batches = [[rows(x=first)], [rows(x={"a": 2, "a.old": "t"})]]
    with log_of(tmp_path / "w.db", batches) as log:
        tables = read_tables(TablePlan(log, TableOptions(wide=True)))
    changed = list(tables["changes.any.x"].rows())[1]
    assert (changed["a"], changed["a.old"]) == (2, 1)
    assert (changed["a.old_"], changed["a.old_.old"]) == ("t", "s")
    (entity,) = tables["entities.any.x"].rows()
    assert (entity["seq_"], entity["seq__"], entity["a"], entity["a.old"]) == (1, "a", 2, "t")


LONG = "l" * 210


@pytest.mark.parametrize(
    "names",
    [("x", "X"), (f"{LONG}1", f"{LONG}2"), ("\x010", "\x10"), ("é" * 150, "../../../x")],
)
def test_tables_of_any_two_collections_have_two_files(tmp_path, names):
    batch = [rows(**{name: {"a": value} for value, name in enumerate(names)})]
    with log_of(tmp_path / "w.db", [batch]) as log:
        export(log, tmp_path / "out", TableOptions(names=("entities",), wide=True))
    described = json.loads((tmp_path / "out" / "_schema.json").read_text())["tables"]
    files = {table["file"].lower() for table in described.values()}
    assert len(files) == len(names)
    for value, name in enumerate(names):
        file = described[f"entities.any.{name}"]["file"]
        assert pq.read_table(tmp_path / "out" / file)["a"].to_pylist() == [value]


def test_old_values_that_are_gone_after_a_range_have_their_types(tmp_path):
    batches = [[rows(x={"a": 1.5}, gone={"b": 1})], [rows(x={"a": "text"}, gone=None)]]
    with log_of(tmp_path / "w.db", batches) as log:
        last = max(change["seq"] for change in Log(tmp_path / "w.db").changes)
        selection = Selection(from_seq=last)
        tables = read_tables(TablePlan(log, TableOptions(selection, wide=True)))
    (changed,) = tables["changes.any.x"].rows()
    assert (changed["a.old"], changed["a"]) == ("1.5", '"text"')
    (deleted,) = tables["changes.any.gone"].rows()
    assert (deleted["what"], deleted["b.old"], deleted["b"]) == ("deleted", 1, None)


@pytest.mark.parametrize("every", [None, 1])
def test_range_after_the_end_has_no_rows(tmp_path, every):
    with log_of(tmp_path / "w.db", [[rows(x={"a": 1})]]) as log:
        tables = read_tables(TablePlan(log, TableOptions(Selection(from_seq=999), every=every)))
    assert {len(table) for table in tables.values()} == {0}
