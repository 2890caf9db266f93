"""Held calls of a gate, decided by a person over HTTP while the gate runs."""

from contextlib import asynccontextmanager

import httpx

from placet import OrchestratorConfig
from placet.server import create_app
from placet.server.config import ServeConfig
from placet.server.credentials import Credentials, KnownToken, hash_of
from placet_tools import Gate, NotDone, Tools

QUIET = OrchestratorConfig(log_level="critical")


def trip():
    """Tools of which a plan needs a person, with what they did."""
    tools = Tools("trip")
    done: list[str] = []

    @tools.tool()
    def cancel(hotel: str) -> None:
        """Cancel a room."""
        done.remove(hotel)

    @tools.tool(risk="high", undo=cancel)
    def book(hotel: str) -> str:
        """Book a room."""
        done.append(hotel)
        return f"room in {hotel}"

    @tools.tool(risk="high")
    def fly(to: str) -> str:
        """Buy a ticket."""
        if to == "nowhere":
            raise NotDone("sold out")
        return f"ticket to {to}"

    return tools, done


@asynccontextmanager
async def serving(tools):
    """Open a gate, and a client with the token of ann, who has the role of the tools."""
    known = Credentials([KnownToken("ann", hash_of("a"))])
    async with Gate(tools, config=QUIET) as gate:
        app = create_app(
            gate.world, credentials=known, serve=ServeConfig(people={"ann": ["operator"]})
        )
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(
                transport=httpx.ASGITransport(app),
                base_url="http://placet/api/v1/worlds/world/",
                headers={"authorization": "Bearer a"},
            ) as client,
        ):
            yield gate, client


async def decide(client, decision, **more):
    (one,) = (await client.get("approvals?state=open")).json()["approvals"]
    body = {"decision": decision, "digest": one["digest"], **more}
    return await client.post(f"approvals/{one['id']}", json=body)


async def test_a_call_that_is_approved_over_http_runs():
    tools, done = trip()
    async with serving(tools) as (gate, client):
        held = await gate.call("book", key="k", hotel="Adler")
        answer = await decide(client, "approve")
        assert answer.status_code == 200, answer.text
        assert (await gate.outcome("k")).output == "room in Adler"
        got = (await client.get(f"approvals/{held.approval}")).json()
        assert (got["calls"][0]["status"], got["calls"][0]["output"]) == ("done", "room in Adler")
        assert done == ["Adler"]


async def test_an_amended_plan_is_one_plan_and_is_undone_as_one():
    tools, done = trip()
    async with serving(tools) as (gate, client):
        held = await gate.plan([("book", {"hotel": "Adler"}), ("fly", {"to": "Bern"})])
        few = await decide(
            client, "amend", calls=[{"kind": "trip.book", "payload": {"hotel": "Post"}}]
        )
        assert (few.status_code, few.json()["code"]) == (422, "request_invalid")
        assert "an amendment has 2 calls too" in few.json()["detail"]
        calls = [
            {"kind": "trip.book", "payload": {"hotel": "Post"}},
            {"kind": "trip.fly", "payload": {"to": "nowhere"}},
        ]
        answer = await decide(client, "amend", calls=calls)
        assert answer.status_code == 200, answer.text
        decision = await gate.decision(held[0].approval)
        assert decision.state == "amended"
        assert [one.status for one in decision.outcomes] in (
            ["done", "failed"],
            ["undone", "failed"],
        )
        keys = [one.key for one in decision.outcomes]
        assert (await gate.outcome(keys[1])).status == "failed"
        async for _ in gate.world.events():
            if not done:  # the room that was booked is canceled again
                break
