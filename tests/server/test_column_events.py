"""Events of tables and column batches: one a record, with counts, as far as a caller may see."""

import json
from contextlib import asynccontextmanager

import numpy as np
import pytest

from placet.actors.publisher import events_of
from placet.kernel import ColumnBatch, RecordList
from placet.kernel.state import table as table_module
from placet.server.viewpoint import Viewpoint
from tests.actors.observation.flock import SIDE, Flock, flock_kernel, near_birds
from tests.server.served import serving

N = 30


def flown(sight, **options):
    """Return a kernel whose birds flew twice, and the events of its log."""
    log = RecordList()
    kernel = flock_kernel(sight, n=N, sink=log)
    rng = np.random.default_rng(3)
    for tick in range(2):
        to = rng.uniform(0, SIDE, (N, 2))
        to[0] = np.nan
        kernel.step(1.0, [ColumnBatch("Fly", "birds", {"to": to}, f"m:{tick}", **options)])
    return kernel, [event for at, data in enumerate(log) for event in events_of(at, data)]


def of_columns(events):
    return [event for event in events if event["type"] == "columns"]


def test_the_operator_gets_one_event_with_counts():
    kernel, events = flown(None)
    shown = of_columns(Viewpoint("operator", None).events(kernel, events))
    assert [(e["rows"], e["refused"], e["refusals"]) for e in shown] == [
        (N, 1, {"payload_invalid": 1})
    ] * 2
    assert [event["columns"] for event in shown] == [["flock.birds/position"]] * 2
    assert len(json.dumps(shown[0])) < 1_000


@pytest.mark.parametrize("agent", ["birds:0", "w0"])
def test_an_agent_gets_the_changed_columns_of_public_tables_and_no_counts(agent):
    kernel, events = flown(None)
    shown = of_columns(Viewpoint(agent, agent).events(kernel, events))
    assert [event["columns"] for event in shown] == [["flock.birds/position"]] * 2
    assert all(not event["changes"] for event in shown)
    assert all("rows" not in event and "refusals" not in event for event in shown)


@pytest.mark.parametrize("agent", ["birds:0", "w0"])
def test_an_agent_gets_nothing_of_a_table_that_hides_rows(agent):
    kernel, events = flown(near_birds())
    assert of_columns(Viewpoint(agent, agent).events(kernel, events)) == []


def test_the_owner_of_a_population_reads_the_counts_of_its_batches():
    kernel, events = flown(near_birds())
    kernel.ledger.populations["birds"].owner = "w1"
    shown = of_columns(Viewpoint("w1", "w1").events(kernel, events))
    assert [(event["kind"], event["rows"], event["refused"]) for event in shown] == [
        ("Fly", N, 1)
    ] * 2
    assert all("columns" not in event for event in shown)


def test_a_projection_of_another_domain_gets_no_refusals():
    kernel, events = flown(None)
    own, others = Viewpoint("operator", None), Viewpoint("w0", "w0")
    assert own.readable(kernel, events) == events
    shown = [event for event in others.readable(kernel, events) if event.type == "columns"]
    assert [(event.data["refused"], event.data["refusals"]) for event in shown] == [
        (None, None)
    ] * 2


async def pages_of(served, collection, limit, **more):
    """Return the pages of a collection."""
    pages: list[dict[str, object]] = []
    after: str | None = ""
    while after is not None:
        query = f"state?path={collection}&limit={limit}" + (f"&after={after}" if after else "")
        answer = await served.get(query, **more)
        assert answer.status_code == 200, answer.text
        pages.append(answer.json()["value"])
        after = answer.json()["next"]
    return pages


@asynccontextmanager
async def sky(sight=None):
    async with serving(Flock(sight=sight)) as served:
        place = np.random.default_rng(1).uniform(0, SIDE, (N, 2))
        await served.world.register_population("birds", N, table="flock.birds", position=place)
        yield served


async def test_a_table_is_read_in_pages_of_rows_by_number():
    async with sky() as served:
        pages = await pages_of(served, "flock.birds", 7)
        assert [len(page) for page in pages] == [7, 7, 7, 7, 2]
        names = [name for page in pages for name in page]
        assert names == [f"birds:{row}" for row in range(N)]
        whole = (await served.get("state?path=flock.birds")).json()["value"]
        assert {name: row for page in pages for name, row in page.items()} == whole
        more = await pages_of(served, "flock.rocks", 40)
        assert [len(page) for page in more] == [40, 0]


async def test_a_page_makes_its_rows_alone(monkeypatch):
    async with sky() as served:
        made = []
        whole = table_module.RowEntity.__init__

        def noted(self, table, row):
            made.append(row)
            whole(self, table, row)

        monkeypatch.setattr(table_module.RowEntity, "__init__", noted)
        await served.get("state?path=flock.birds&limit=3&after=birds:9")
        assert set(made) == {10, 11, 12}


async def test_an_agent_pages_over_the_rows_that_it_may_see():
    async with sky(near_birds(30.0)) as served:
        whole = (await served.get("state?path=flock.birds&agent=birds:4")).json()["value"]
        assert 1 < len(whole) < N
        pages = await pages_of(served, "flock.birds&agent=birds:4", 2)
        assert {name: row for page in pages for name, row in page.items()} == whole
        assert max(map(len, pages)) == 2


@pytest.mark.parametrize(
    "query", ["path=flock.nothing&limit=3", "path=flock.birds&after=x", "limit=2"]
)
async def test_a_page_of_nothing_is_a_clear_error(query):
    async with sky() as served:
        answer = await served.get(f"state?{query}")
        assert answer.status_code == 404
        assert "a page is of a collection" in answer.text
