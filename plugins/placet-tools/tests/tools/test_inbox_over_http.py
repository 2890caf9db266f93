"""Held calls of a gate, decided by a person over HTTP while the gate runs."""

from contextlib import asynccontextmanager

import httpx
import pytest
from tests.tools.shop import QUIET, notes_of

from placet.server import create_app
from placet.server.config import ServeConfig
from placet.server.credentials import Credentials, KnownToken, hash_of
from placet_tools import Gate, NotDone, Tools

PEOPLE = {"ann": ["operator"]}


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

    @tools.tool(undo=cancel)
    def reserve(hotel: str) -> None:
        """Reserve a room."""
        done.append(hotel)

    @tools.tool(once="insure:{hotel}", undo=cancel)
    def insure(hotel: str) -> str:
        """Insure a room."""
        done.append(hotel)
        raise ConnectionError("no answer")

    return tools, done


@asynccontextmanager
async def serving(tools, people=PEOPLE):
    """Open a gate, and a client with the token of ann, who has the role of the tools."""
    known = Credentials([KnownToken(name, hash_of(name)) for name in people])
    async with Gate(tools, config=QUIET) as gate:
        app = create_app(gate.world, credentials=known, serve=ServeConfig(people=people))
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(
                transport=httpx.ASGITransport(app),
                base_url="http://placet/api/v1/worlds/world/",
                headers={"authorization": "Bearer ann"},
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


async def in_doubt(gate):
    assert (await gate.call("insure", agent="traveler", key="k", hotel="Adler")).status == "doubt"


@pytest.mark.parametrize(("outcome", "output"), [("done", {"number": 7}), ("failed", None)])
async def test_a_call_in_doubt_is_listed_and_settled_by_a_person_with_the_role(outcome, output):
    tools, _ = trip()
    async with serving(tools) as (gate, client):
        await in_doubt(gate)
        (doubt,) = (await client.get("approvals/doubts")).json()["doubts"]
        assert doubt == {
            "effect": doubt["effect"],
            "kind": "trip.insure",
            "call": "k",
            "agent": "traveler",
            "payload": {"hotel": "Adler"},
            "why": "ConnectionError: no answer",
            "decides": True,
        }
        said = {"effect": doubt["effect"], "outcome": outcome, "reason": "asked by phone"}
        answer = await client.post("approvals/doubts", json={**said, "output": output})
        assert answer.status_code == 200, answer.text
        settled = await gate.outcome("k")
        assert (settled.status, settled.output) == (outcome, output)
        assert settled.message == ("" if outcome == "done" else "asked by phone")
        (note,) = await notes_of(gate.world)
        assert note == {
            "effect": doubt["effect"],
            "kind": "trip.insure",
            "call": "k",
            "agent": "traveler",
            "outcome": outcome,
            "by": "ann",
            "reason": "asked by phone",
        }
        assert (await client.get("approvals/doubts")).json()["doubts"] == []
        again = await client.post("approvals/doubts", json=said)
        assert again.status_code == 409, again.text


async def test_a_person_without_the_role_and_the_agent_itself_settle_nothing():
    tools, _ = trip()
    people = {"ann": ["operator"], "bob": ["manager"], "traveler": ["operator"]}
    async with serving(tools, people=people) as (gate, client):
        await in_doubt(gate)
        (doubt,) = (await client.get("approvals/doubts")).json()["doubts"]
        said = {"effect": doubt["effect"], "outcome": "done"}
        for name, shown in (("bob", []), ("traveler", [False])):
            headers = {"authorization": f"Bearer {name}"}
            listed = (await client.get("approvals/doubts", headers=headers)).json()["doubts"]
            assert [one["decides"] for one in listed] == shown
            answer = await client.post("approvals/doubts", json=said, headers=headers)
            assert answer.status_code == 403, answer.text
        wrong = await client.post("approvals/doubts", json={**said, "outcome": "succeeded"})
        assert wrong.status_code == 422, wrong.text
        assert (await gate.outcome("k")).status == "doubt"
        assert await notes_of(gate.world) == []


async def test_a_program_settles_for_a_person_who_is_not_the_agent():
    tools, _ = trip()
    async with serving(tools) as (gate, _client):
        await in_doubt(gate)
        with pytest.raises(ValueError, match="another person settles it"):
            await gate.settle("k", done=True, by="traveler")
        with pytest.raises(ValueError, match="pass by='ann'"):
            await gate.settle("k", done=True, reason="it is done")
        failed = await gate.settle("k", done=False, by="ann", reason="they know nothing of it")
        assert (failed.status, failed.message) == ("failed", "they know nothing of it")
        assert [one["by"] for one in await notes_of(gate.world)] == ["ann"]


async def test_a_plan_whose_call_is_settled_as_failed_over_http_is_undone():
    tools, done = trip()
    async with serving(tools) as (gate, client):
        plan = [("reserve", {"hotel": "Post"}), ("insure", {"hotel": "Adler"})]
        assert [one.status for one in await gate.plan(plan, key="p")] == ["done", "doubt"]
        (doubt,) = (await client.get("approvals/doubts")).json()["doubts"]
        said = {"effect": doubt["effect"], "outcome": "failed"}
        assert (await client.post("approvals/doubts", json=said)).status_code == 200
        async for _ in gate.world.events():
            if (await gate.outcome("p.0")).status == "undone":
                break
        assert done == ["Adler"]
