"""The past over HTTP: moments, steps, searches, explanations and forks, for the operator alone."""

import asyncio
from contextlib import asynccontextmanager

import httpx
import pytest

from placet.domains.world import World
from placet.history.timeline import moments
from placet.plugins.domains import DomainNotRemade, remake
from placet.schemas.identity import OPERATOR
from placet.schemas.log.record import SingleBlock, decode_record
from placet.server.config import ServeConfig
from placet.server.credentials import Credentials, KnownToken, hash_of
from placet.server.history.timelines import Source
from placet.server.play import build_play_app
from tests.cli.command_line import move
from tests.history.timeline.played_logs import log_of, world_records
from tests.server.served import serving

HISTORY = "/api/v1/worlds/run/history"


@asynccontextmanager
async def playing(log, domains=remake, given=(), name="run"):
    """Yield a client of the application of `placet play`, with the operator's token."""
    known = [KnownToken(OPERATOR, hash_of("op")), KnownToken("ann", hash_of("ann"))]
    source = Source(log, domains, "run.db", given)
    app = build_play_app(name, source, ServeConfig(), Credentials(known))
    transport = httpx.ASGITransport(app)
    headers = {"authorization": "Bearer op"}
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://run", headers=headers) as client,
    ):
        yield client


async def test_a_moment_has_the_map_the_table_and_the_events():
    records = world_records()
    async with playing(log_of(records)) as client:
        query = "map=true&events=5&collection=world.agents&agents=10"
        moment = (await client.get(f"{HISTORY}/moment?tick=2&{query}")).json()
        assert (moment["tick"], moment["sim_time"], moment["agent_count"]) == (2, 2.0, 3)
        [layer] = moment["map"]
        assert (layer["collection"], layer["ids"]) == ("world.agents", ["ann", "bob", "cyd"])
        assert layer["y"] == [11.0, 11.0, 10.0]  # the last one's moves are refused
        table = moment["table"]
        rows = {
            entity: dict(zip(table["fields"], cells, strict=True))
            for entity, cells in table["rows"]
        }
        assert rows["ann"]["position"] == "[0.0,11.0,0.0]"
        assert [event["type"] for event in moment["events"]][-1] == "batch"
        assert {row["agent_id"] for row in moment["agents"]["rows"]} == {"ann", "bob", "cyd"}


async def test_a_step_by_record_stops_at_each_batch_of_a_group():
    records = world_records()
    group = next(
        n for n, data in enumerate(records) if isinstance(decode_record(data), SingleBlock)
    )
    async with playing(log_of(records)) as client:
        seen = []
        for batch in range(3):
            asked = f"{HISTORY}/moment?record={group}&batch={batch}"
            moment = (await client.get(asked)).json()
            assert (moment["record"], moment["batch"], moment["batches"]) == (group, batch, 3)
            seen.append(moment["event"]["intents"][0]["agent_id"])
        assert sorted(seen) == ["ann", "bob", "cyd"]
        back = (await client.get(f"{HISTORY}/moment?record={group}&batch=1&step=-1")).json()
        assert (back["record"], back["batch"]) == (group, 0)


async def test_the_time_line_counts_and_the_search_finds():
    async with playing(log_of(world_records())) as client:
        line = (await client.get(HISTORY)).json()
        assert line["indexed"] == line["records"]
        assert sum(bar[1] for bar in line["bars"]) == 12
        assert line["codes"] == {"domain/world.out_of_bounds": 6}
        found = (await client.get(f"{HISTORY}/find?record=0&refused=true")).json()["place"]
        event = (await client.get(f"{HISTORY}/moment?record={found['record']}")).json()["event"]
        assert event["refusals"][0][2] == "world.out_of_bounds"
        none = (await client.get(f"{HISTORY}/find?record=0&kind=Fly")).json()
        assert none == {"place": None}


async def test_the_series_of_a_run_that_collects_nothing_are_none():
    async with playing(log_of(world_records())) as client:
        assert (await client.get(f"{HISTORY}/series")).json() == {"series": [], "problem": ""}


async def test_the_fields_of_an_entity_are_listed_over_time():
    async with playing(log_of(world_records())) as client:
        query = "collection=world.agents&entity=ann"
        series, team = (await client.get(f"{HISTORY}/trace?{query}")).json()["series"]
        assert (series["name"], len(series["seqs"])) == ("position", 6)
        assert set(series["lines"][2]["values"]) == {0.0}
        assert team["categories"] == [{"name": "null", "value": None}]
        assert team["values"] == [0] * 6


async def test_a_request_is_explained_and_a_view_is_shown():
    async with playing(log_of(world_records())) as client:
        explained = (await client.get(f"{HISTORY}/explain?agent=cyd&req_id=0")).json()
        assert (explained["answer"], explained["stages"][-1]["result"]) == ("refused", "refused")
        record = (await client.get(f"{HISTORY}/moment?tick=2")).json()["record"]
        view = (await client.get(f"{HISTORY}/view?record={record}&agent=ann")).json()
        assert view["agent_id"] == "ann"
        assert dict(view["collections"][0]["rows"])["ann"]["position"] == "[0.0,11.0,0.0]"
        unknown = await client.get(f"{HISTORY}/view?record=12&agent=zoe")
        assert unknown.status_code == 404


async def test_a_fork_is_played_beside_its_parent_and_the_parent_is_unchanged(tmp_path):
    log = log_of(world_records())
    before = [data for _, data in log.read()]
    async with playing(log, given=["town:World"]) as client:
        body = {
            "record": 10,
            "put": {"world.agents/ann/position": [50.0, 50.0, 0.0]},
            "replay": True,
        }
        forked = (await client.post(f"{HISTORY}/forks", json=body)).json()
        assert forked["counterfactual"]["batches"] > 0
        assert "--set 'world.agents/ann/position=[50.0,50.0,0.0]'" in forked["command"]
        assert forked["command"].endswith("--replay --domain town:World")
        worlds = (await client.get("/api/v1/history")).json()["worlds"]
        assert [one["world"] for one in worlds] == ["run", "run-fork-1"]
        moment = await client.get(
            f"/api/v1/worlds/run-fork-1/history/moment?record={forked['record']}&map=true"
        )
        assert moment.json()["map"][0]["x"][0] == 50.0
        bad = await client.post(f"{HISTORY}/forks", json={"record": 10, "put": {"nowhere": 1}})
        assert bad.status_code == 422
        late = await client.post(f"{HISTORY}/forks", json={"record": 10_000})
        assert late.status_code == 404
    assert [data for _, data in log.read()] == before


async def test_forks_that_are_made_at_once_have_different_names():
    async with playing(log_of(world_records())) as client:
        asked = (client.post(f"{HISTORY}/forks", json={"record": 9, "seed": n}) for n in range(3))
        made = [answer.json()["world"] for answer in await asyncio.gather(*asked)]
        assert sorted(made) == ["run-fork-1", "run-fork-2", "run-fork-3"]
        worlds = (await client.get("/api/v1/history")).json()["worlds"]
        assert {one["world"] for one in worlds} == {"run", *made}


async def test_a_world_with_an_old_name_is_forked():
    async with playing(log_of(world_records()), name=".hid") as client:
        made = [
            await client.post("/api/v1/worlds/.hid/history/forks", json={"record": 9})
            for _ in range(2)
        ]
        assert [one.json()["world"] for one in made] == ["world-fork-1", "world-fork-2"]


async def test_a_refused_fork_takes_no_name():
    async with playing(log_of(world_records())) as client:
        bad = await client.post(f"{HISTORY}/forks", json={"record": 9, "put": {"nowhere": 1}})
        assert bad.status_code == 422
        made = await client.post(f"{HISTORY}/forks", json={"record": 9})
        assert made.json()["world"] == "run-fork-1"


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/moment",
        "/steps?record=1",
        "/find?record=1",
        "/view?record=1&agent=ann",
        "/explain?seq=3",
        "/entity?record=1&collection=a&entity=b",
    ],
)
async def test_only_the_operator_sees_the_past(path):
    async with playing(log_of(world_records())) as client:
        for headers, status in (
            ({"authorization": ""}, 401),
            ({"authorization": "Bearer ann"}, 403),
        ):
            assert (await client.get(HISTORY + path, headers=headers)).status_code == status
        assert (
            await client.get("/api/v1/history", headers={"authorization": "Bearer ann"})
        ).status_code == 403
        fork = await client.post(
            f"{HISTORY}/forks", json={"record": 1}, headers={"authorization": "Bearer ann"}
        )
        assert fork.status_code == 403


async def test_a_player_of_a_log_has_no_route_that_writes():
    async with playing(log_of(world_records())) as client:
        paths = [route.path for route in client._transport.app.routes]
        posted = [
            route.path
            for route in client._transport.app.routes
            if set(route.methods) - {"GET", "HEAD"}
        ]
        assert posted == ["/api/v1/worlds/{world}/history/forks"]
        assert "/api/v1/worlds/{world}/batches" not in paths
        for path in ("batches", "step", "agents", "pause"):
            assert (await client.post(f"/api/v1/worlds/run/{path}", json={})).status_code == 404


async def test_a_place_that_is_not_there_says_what_there_is():
    async with playing(log_of(world_records())) as client:
        for query, words in (
            ("record=999", "its last is"),
            ("seq=999", "it ends at seq"),
            ("tick=999", "so far"),
        ):
            answer = await client.get(f"{HISTORY}/moment?{query}")
            assert (answer.status_code, words in answer.json()["detail"]) == (404, True)
        two = await client.get(f"{HISTORY}/moment?seq=1&tick=1")
        assert two.status_code == 422
        for query in ("explain?seq=999", "view?record=999&agent=ann", "find?record=9999&agent=zoe"):
            assert (await client.get(f"{HISTORY}/{query}")).status_code in {200, 404}
        both = await client.get(f"{HISTORY}/explain?seq=3&req_id=1")
        assert both.status_code == 422


async def test_a_log_whose_domain_is_not_installed_is_played_without_views():
    def unmakable(_rules):
        raise DomainNotRemade("the log is of the domain 'mine', which is not installed here")

    app_log = log_of(world_records())
    async with playing(app_log, unmakable) as client:
        assert (await client.get(f"{HISTORY}/moment?tick=1&map=true")).status_code == 200
        view = await client.get(f"{HISTORY}/view?record=5&agent=ann")
        assert (view.status_code, "not installed" in view.json()["detail"]) == (409, True)


async def test_an_open_world_is_played_while_it_goes_on():
    async with serving(World(max_step=5.0), agents=()) as served:
        await served.register("ann", attributes={"position": [0, 0]})
        assert (await served.get("history")).json()["seq"] == served.world.seq
        assert (await served.submit(move("ann", 1, to=[1, 0]))).status_code == 200
        moment = (await served.get("history/moment?map=true")).json()
        assert moment["map"][0]["x"] == [1.0]
        assert (await served.get("history/moment", token="alice")).status_code == 403


@pytest.mark.parametrize(
    "value",
    ["x" * 10_000_000, [[1] * 10_000] * 1_000, {"a": {str(n): "y" * 999 for n in range(9_999)}}],
    ids=["text", "lists", "object"],
)
def test_a_cell_is_short_for_every_value(value):
    cell = moments.short(value)
    assert isinstance(cell, str)
    assert len(cell) < 200
    assert moments.short(2**60) == str(2**60)  # a browser would round it


@pytest.mark.parametrize(
    "path",
    ["moment?record=99&step=-1&by=tick", "moment?record=99&step=1", "explain?seq=999999"],
)
async def test_a_place_after_the_end_of_the_log_is_not_found(path):
    async with serving(World()) as served:
        answer = await served.get(f"history/{path}")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), answer.text
