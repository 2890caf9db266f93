"""Exports of names that no column can have as they are, and of a range without rows."""

import asyncio
from contextlib import closing

import pytest

from placet import Domain, Kind, Orchestrator, OrchestratorConfig
from placet.history.selection import Selection
from placet.stores.reading import log_to_read
from placet.tables.plan import TableOptions, TablePlan
from placet.tables.table import read_tables


def put(draft, intent):
    for collection, fields in intent["payload"]["rows"].items():
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


@pytest.mark.parametrize("every", [None, 1])
def test_range_after_the_end_has_no_rows(tmp_path, every):
    with log_of(tmp_path / "w.db", [[rows(x={"a": 1})]]) as log:
        tables = read_tables(TablePlan(log, TableOptions(Selection(from_seq=999), every=every)))
    assert {len(table) for table in tables.values()} == {0}
