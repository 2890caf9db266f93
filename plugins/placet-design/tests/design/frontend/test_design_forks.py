"""Forks beside designs: forks and designs have different names."""

from tests.design.frontend.test_design_routes import DESIGNS

from placet.server.config import ServeConfig
from placet_design import Design
from tests.server.served import serving

FORKS = "/api/v1/worlds/world/history/forks"
NAME = "world-fork-1"


def designing():
    serve = ServeConfig(claims={"carol": {"world": "operator"}})
    return serving(Design(), agents=(), serve=serve)


async def listed(served):
    return [one["world"] for one in (await served.get("/api/v1/history")).json()["worlds"]]


async def test_a_fork_does_not_take_the_name_of_a_design():
    async with designing() as served:
        assert (await served.post(DESIGNS, {"design_id": NAME}, token="alice")).status_code == 201
        before = (await served.get(f"/api/v1/worlds/{NAME}/history")).json()
        made = await served.post(FORKS, {"record": 0}, token="carol")
        assert (made.status_code, made.json()["world"]) == (201, "world-fork-2")
        for path in (f"worlds/{NAME}/history", f"worlds/{NAME}/state"):
            assert (await served.get(f"/api/v1/{path}", token="carol")).status_code == 404
        shown = (await served.get("/api/v1/history", token="carol")).json()["worlds"]
        assert shown == [
            {"world": "world", "fork": False},
            {"world": "world-fork-2", "fork": True},
        ]
        assert (await served.get(f"/api/v1/worlds/{NAME}/history")).json() == before


async def test_a_design_does_not_take_the_name_of_a_fork():
    async with designing() as served:
        assert (await served.post(FORKS, {"record": 0}, token="carol")).json()["world"] == NAME
        taken = await served.post(DESIGNS, {"design_id": NAME}, token="alice")
        assert taken.status_code == 409
        assert await listed(served) == ["world", NAME]


async def test_a_fork_does_not_take_the_name_of_a_design_that_is_being_made():
    async with designing() as served:
        made = []

        async def check() -> None:
            made.append((await served.post(FORKS, {"record": 0})).json()["world"])
            made.append(served.app.state.timelines.names)

        await served.context.worlds.create(NAME, check=check)
        # The time lines are those of open worlds: the design's cannot be played yet.
        assert made == ["world-fork-2", ["world"]]
        assert await listed(served) == ["world", NAME, "world-fork-2"]
        assert (await served.get(f"/api/v1/worlds/{NAME}/history")).status_code == 200
