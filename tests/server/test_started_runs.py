"""Runs that the page of a watched run starts: who may, what is refused, where they came from."""

import asyncio
import shutil
from contextlib import asynccontextmanager

import httpx
import pytest

from placet.cli.domains import again_by
from placet.history.reader import check_integrity
from placet.scenarios import Scenario
from placet.scenarios.engine import run_scenario
from placet.schemas.errors import StoreError
from placet.schemas.identity import OPERATOR
from placet.schemas.limits import HttpLimits
from placet.server.config import ServeConfig
from placet.server.credentials import Credentials, KnownToken, hash_of
from placet.server.history import started_runs as module
from placet.server.history.controls import SentControls
from placet.server.history.started_runs import StartedRuns
from placet.server.history.timelines import Source
from placet.server.play import build_play_app
from placet.stores.reading import log_to_read

WORLD = "/api/v1/worlds/sir"
INFECT = "populations.people.options.infect"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The log of a run of 12 ticks."""
    store = tmp_path_factory.mktemp("sir") / "sir.db"
    run_scenario(Scenario.load("sir", overrides=["ticks=12"]), store=str(store))
    return store


@asynccontextmanager
async def watched(recorded, folder, **limits):
    """Yield a client of the player of a run, as `placet run --watch` serves it."""
    store = str(shutil.copy(recorded, folder / "sir.db"))
    source = Source(log_to_read(store), again_by(None), store)
    runs = StartedRuns(
        "sir", source, SentControls(lambda _command: None), limits=HttpLimits(**limits)
    )
    known = [KnownToken(OPERATOR, hash_of("op")), KnownToken("ann", hash_of("ann"))]
    app = build_play_app("sir", source, ServeConfig(), Credentials(known), runs)
    transport, headers = httpx.ASGITransport(app), {"authorization": "Bearer op"}
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://run", headers=headers) as client,
    ):
        yield client


async def ended(client, world):
    """Wait until a started run has ended; return its history."""
    while True:
        history = (await client.get(f"/api/v1/worlds/{world}/history")).json()
        if not history["run"]["running"] and history["indexed"] == history["records"]:
            return history
        await asyncio.sleep(0.05)


async def test_a_fork_runs_to_its_end_and_says_where_it_came_from(recorded, tmp_path):
    before = recorded.read_bytes()
    async with watched(recorded, tmp_path) as client:
        moment = (await client.get(f"{WORLD}/history/moment?tick=4")).json()
        wish = {"name": "hot", "settings": {INFECT: 0.5}, "record": moment["record"]}
        # Two people press at once: one gets the name, the other a free one.
        answers = await asyncio.gather(*[client.post(f"{WORLD}/runs", json=wish) for _ in "ab"])
        assert sorted(one.status_code for one in answers) == [201, 409]
        refused = next(one.json() for one in answers if one.status_code == 409)
        assert (refused["setting"], refused["free"]) == ("name", "hot 2")
        history = await ended(client, "hot")
        assert history["ticks"] == 12
        assert history["controls"] == []
        assert history["run"] == {
            "parent": "sir",
            "tick": 4,
            "seed": None,
            "changes": {INFECT: [0.08, 0.5]},
            "running": False,
            "problem": "",
        }
        assert (await client.post("/api/v1/worlds/hot/pause")).status_code == 409
        worlds = (await client.get("/api/v1/history")).json()["worlds"]
        assert [one["world"] for one in worlds] == ["sir", "hot"]
    assert check_integrity(log_to_read(str(tmp_path / "hot.db"))).is_ok
    assert (tmp_path / "sir.db").read_bytes() == before


async def test_a_run_from_the_start_has_the_other_seed_and_its_failure_is_shown(recorded, tmp_path):
    async with watched(recorded, tmp_path) as client:
        wish = {"name": "again", "again": True, "seed": 2, "settings": {"settings.links": 90}}
        assert (await client.post(f"{WORLD}/runs", json=wish)).status_code == 201
        assert (await ended(client, "again"))["run"]["seed"] == 2
        settings = (await client.get("/api/v1/worlds/again/settings")).json()
        assert (settings["seed"], settings["settings"][0]["value"]) == (2, 90)
        high = {"name": "high", "again": True, "seed": 2**53}
        assert (await client.post(f"{WORLD}/runs", json=high)).status_code == 201
        await ended(client, "high")
        after = {"name": "after", "again": True, "seed": "next"}
        answer = await client.post("/api/v1/worlds/high/runs", json=after)
        assert answer.status_code == 201, answer.text
        assert (await ended(client, "after"))["run"]["seed"] == 2**53 + 1
        many = {"name": "many", "again": True, "settings": {"settings.links": 999_999}}
        assert (await client.post(f"{WORLD}/runs", json=many)).status_code == 201
        assert "cannot be registered" in (await ended(client, "many"))["run"]["problem"]


async def test_wishes_are_refused_and_leave_no_log(recorded, tmp_path, monkeypatch):
    async with watched(recorded, tmp_path, worlds_per_token_max=1) as client:
        full = await client.post(f"{WORLD}/runs", json={"name": "x"})
        assert (full.status_code, full.json()["code"]) == (409, "conflict")
    async with watched(recorded, tmp_path) as client:
        for wish, setting in (
            ({"name": "a/b"}, "name"),
            ({"name": "x", "settings": {"settings.links": "many"}}, "settings.links"),
            ({"name": "x", "settings": {"settings.outbreak": 1.5}}, "settings.outbreak"),
            ({"name": "x", "settings": {"settings.none": 1}}, "settings.none"),
            ({"name": "x"}, ""),  # all ticks are run at the end
        ):
            answer = await client.post(f"{WORLD}/runs", json=wish)
            assert (answer.status_code, answer.json()["setting"]) == (422, setting), answer.text
        for path, method in (("runs", "POST"), ("settings", "GET"), ("end", "POST")):
            told = [
                (
                    await client.request(method, f"/api/v1/worlds/{world}/{path}", headers=by)
                ).status_code
                for world, by in (
                    ("sir", {"authorization": "Bearer ann"}),
                    ("sir", {"authorization": ""}),
                    ("none", {}),
                )
            ]
            assert told == [403, 401, 404]
        assert (await client.post(f"{WORLD}/end")).status_code == 409  # a signal ends the first run

        def fail(*_arguments, **_options):
            raise StoreError("cannot fork into x.db: no space left on device")

        monkeypatch.setattr(module, "fork_run", fail)
        no_space = await client.post(f"{WORLD}/runs", json={"name": "x"})
        assert no_space.status_code == 503
        assert "no space left" in no_space.json()["detail"]
    assert [one.name for one in tmp_path.iterdir() if one.suffix == ".db"] == ["sir.db"]
