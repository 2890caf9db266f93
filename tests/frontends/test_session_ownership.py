"""Agent and name of a session are checked alike by every front end; it can be closed."""

from urllib.parse import quote

import anyio
import mcp_types as types
import pytest
from mcp import Client

from placet import Orchestrator, OrchestratorConfig
from placet.agents import HumanAdapter, Session
from placet.domains.session import Sessions
from placet.domains.world import World
from placet.frontends.mcp.server import McpServer
from placet.frontends.sessions import bodies as http_bodies
from tests.agents.till import Till
from tests.frontends.test_session_routes import MAIN, Talking, talking
from tests.frontends.turns import turns
from tests.server.served import serving

LONG = "x" * 65


@pytest.fixture
def anyio_backend():
    return "asyncio"


# the command line


def held_by_mcp(store):
    """Create an approval request in the session of an MCP client."""

    async def hold():
        async with Orchestrator([World(), Sessions()], OrchestratorConfig(store=store)) as world:
            session = await Session.open(
                world=world, session="mcp", agent="mcp", mode="interactive"
            )
            assert (await session.send("/Speak text=hi")).outcome == "held"

    anyio.run(hold)


def test_a_plan_held_over_mcp_is_approved_in_a_chat(placet):
    held_by_mcp("town.db")
    chat = ("chat", "--store", "town.db", "--session", "mcp", "--as", "ann", "--json")
    outcome = placet.with_input("/approve", "/Speak text=again", to=chat)
    what_became = [(one["outcome"], one["agent"]) for one in turns(outcome)]
    assert what_became == [("applied", "mcp"), ("held", "mcp")]  # in the client's mode
    outcome = placet.with_input("/approve", "/Speak text=more", to=(*chat, "--mode", "assisted"))
    assert [(one["outcome"], one["agent"]) for one in turns(outcome)] == [("applied", "mcp")] * 2
    assert outcome.code == 0


def test_an_mcp_client_does_not_continue_the_session_of_another_agent(placet):
    placet.with_input("/Speak text=hi", to=("chat", "--domain", "world", "--store", "town.db"))
    outcome = placet("mcp", "--store", "town.db", "--session", "main")
    assert outcome.code == 1
    assert "session 'main' belongs to agent 'agent', not to 'mcp'" in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize("command", ["chat", "mcp"])
def test_a_name_that_is_too_long_is_a_usage_error(placet, command):
    outcome = placet(command, "--domain", "world", "--session", LONG)
    assert outcome.code == 2
    assert "1 to 64 characters, got 65" in outcome.err


# over MCP


@pytest.mark.anyio
async def test_a_call_that_cannot_be_recorded_is_an_error_with_the_reason():
    config = OrchestratorConfig(quotas={"session.turn": {"rate": 0.001, "burst": 1}})
    async with Orchestrator([Till(), Sessions()], config) as world:
        session = await Session.open(world=world, session="mcp", agent="mcp")
        async with Client(McpServer(session).server(), cache=None) as client:
            assert not (await client.call_tool("till__put", {"amount": 1})).is_error
            refused = await client.call_tool("till__put", {"amount": 1})
            assert isinstance(refused, types.CallToolResult)
            assert refused.is_error
            assert refused.structured_content["stop"] == "quota_exceeded"
            assert "the turn could not begin" in repr(refused.content)


# over HTTP


@pytest.mark.anyio
async def test_over_http_a_session_belongs_to_one_agent():
    async with talking() as talk:
        await talk.say("/till.put amount=1")
        assert (await talk.served.ask("DELETE", MAIN)).status_code == 204
        other = await talk.served.post("sessions", {"agent": "mallory"})
        assert other.status_code == 409
        assert other.json()["refusal"] == "session.agent_other"
        assert "belongs to agent 'alice'" in other.json()["detail"]
        again = await talk.served.post("sessions", {})
        assert (again.status_code, again.json()["agent"]) == (201, "alice")
        assert [one["outcome"] for one in again.json()["turns"]] == ["applied"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"session": LONG}, "session: Expected `str` of length <= 64"),
        ({"session": ""}, "session: Expected `str` of length >= 1"),
        ({"session": 5}, "session: Expected `str`, got 5"),
        ({"agent": "session.recorder"}, "own voice"),
        ({"proposer": "robot"}, "'robot'"),
        ({"people": {"bob": LONG}}, "people[...]: Expected `str` of length <= 64"),
    ],
)
async def test_over_http_names_are_bounded_on_input(body, why):
    async with talking() as talk:
        answer = await talk.served.post("sessions", {"session": "two", **body})
        assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")
        assert why in answer.json()["detail"]


@pytest.mark.anyio
@pytest.mark.parametrize("name", [".draft", "notes ", "a\\b", "con", "caf\u00ade"])
async def test_over_http_a_session_in_the_log_keeps_a_name_that_a_new_one_may_not_have(
    name, monkeypatch
):
    async with serving([Till(), Sessions()]) as served:
        refused = await served.post("sessions", {"session": name})
        assert (refused.status_code, refused.json()["code"]) == (422, "request_invalid")
        assert refused.json()["detail"].startswith("the name of a session must ")
        with monkeypatch.context() as before:
            before.setattr("placet.agents.session.opener.name_fault", lambda _: "")
            old = await Session.open(world=served.world, session=name, agent="alice")
        held = (await old.send("/till.put amount=500")).approval_id
        await old.close()
        again = await served.post("sessions", {"session": name})
        assert (again.status_code, again.json()["agent"]) == (201, "alice"), again.text
        path = f"sessions/{quote(name, safe='')}/approvals/{held}"
        assert (await served.post(path, {"decision": "approve"})).status_code == 200
    assert refused.json()["detail"].isascii()


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["a/b", ".", ".."])
async def test_over_http_no_session_is_opened_to_which_no_path_leads(name):
    async with serving([Till(), Sessions()]) as served:
        session = await Session.open(world=served.world, session=name, agent="alice")
        await session.send("/till.put amount=1")
        await session.close()
        refused = await served.post("sessions", {"session": name})
        assert refused.status_code == 422
        assert "because it is a part of a path" in refused.json()["detail"]


@pytest.mark.anyio
async def test_the_gate_decides_between_two_openers_of_a_session():
    async with serving([Till(), Sessions()]) as served:
        world = served.world
        mine = await Session.open(world=world, session="main", agent="alice")
        assert (await served.post("sessions", {"agent": "mallory"})).status_code == 201
        await mine.send("/till.put amount=1")
        answer = await served.post(f"{MAIN}/messages", {"message": "what was said?"})
        assert (answer.status_code, answer.json()["stop"]) == (409, "session.agent_other")
        assert (await served.get(MAIN)).json()["turns"] == []


@pytest.mark.anyio
async def test_a_turn_beyond_the_quota_has_retry_after():
    quotas = {"session.turn": {"rate": 0.001, "burst": 1}}
    config = {"quotas": quotas, "clock": "next_event"}  # time stands where nobody sleeps
    async with serving([Till(), Sessions()], **config) as served:  # type: ignore[arg-type]
        await served.post("sessions", {"people": {"bob": ""}})
        talk = Talking(served)
        assert (await talk.say("/till.put amount=1")).status_code == 200
        answer = await talk.say("/till.put amount=1")
        assert (answer.status_code, answer.json()["stop"]) == (429, "quota_exceeded")
        assert answer.json()["route"] == "command"
        assert answer.headers["retry-after"] == "1000"


@pytest.mark.anyio
async def test_an_unrecorded_end_is_not_reported_as_nothing_applied():
    quotas = {"session.end": {"rate": 0.001, "burst": 1}}
    async with serving([Till(), Sessions()], quotas=quotas) as served:
        await served.post("sessions", {"people": {"bob": ""}})
        talk = Talking(served)
        assert (await talk.say("/till.put amount=1")).json()["outcome"] == "applied"
        turn = (await talk.say("/till.put amount=1")).json()
        assert (turn["outcome"], turn["stop"]) == ("failed", "quota_exceeded")
        assert turn["route"] == "command"
        assert "look what was done" in turn["message"]
        assert await talk.total() == 2


@pytest.mark.anyio
async def test_only_one_of_two_concurrent_requests_opens_a_session():
    async with serving([Till(), Sessions()]) as served:
        answers = []

        async def post():
            answers.append((await served.post("sessions", {})).status_code)

        async with anyio.create_task_group() as group:
            group.start_soon(post)
            group.start_soon(post)
        assert sorted(answers) == [201, 409]


@pytest.mark.anyio
async def test_open_sessions_are_bounded_and_closing_one_frees_its_place():
    async with talking(limits={"sessions_max": 1}) as talk:
        answer = await talk.served.post("sessions", {"session": "two"})
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        await talk.served.ask("DELETE", MAIN)
        assert (await talk.served.post("sessions", {"session": "two"})).status_code == 201


# closing


@pytest.mark.anyio
async def test_a_session_can_be_closed_twice_and_reopened():
    async with talking() as talk:
        hold = await talk.held()
        for _ in range(2):
            answer = await talk.served.ask("DELETE", MAIN)
            assert (answer.status_code, answer.content) == (204, b"")
        assert (await talk.served.get(MAIN)).status_code == 404
        assert (await talk.say("hi")).status_code == 403, "who is of none is told of none"
        assert (await talk.served.post("sessions", {"people": {"bob": ""}})).status_code == 201
        assert (await talk.decide(hold, {"decision": "approve"})).json()["outcome"] == "applied"


@pytest.mark.anyio
async def test_only_the_operator_opens_and_closes_sessions():
    async with talking() as talk:
        for token, status in ((None, 401), ("alice", 403), ("bob", 403), ("carol", 403)):
            assert (await talk.served.ask("DELETE", MAIN, token=token)).status_code == status
        elsewhere = "/api/v1/worlds/nowhere/sessions/main"
        assert (await talk.served.ask("DELETE", elsewhere)).status_code == 404
        assert (await talk.served.get(MAIN)).status_code == 200


@pytest.mark.anyio
async def test_closing_a_session_ends_its_waiting_turn(monkeypatch):
    human = HumanAdapter()
    monkeypatch.setattr(http_bodies, "proposer", lambda *_, **__: human)
    async with talking() as talk:
        said = []

        async def say():
            said.append(await talk.say("what now?"))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(say)
                await human.wait_question()
                group.start_soon(say)
                await anyio.wait_all_tasks_blocked()
                await talk.served.ask("DELETE", MAIN)
        told = [(one.status_code, one.json().get("stop") or one.json()["code"]) for one in said]
        assert sorted(told) == [(409, "conflict"), (409, "operator_stopped")]
        assert talk.served.app.state.sessions == {}


@pytest.mark.anyio
async def test_the_openapi_document_has_the_route_that_closes():
    async with talking() as talk:
        document = (await talk.served.get("/openapi.json")).json()
        route = document["paths"]["/api/v1/worlds/{world}/sessions/{session}"]["delete"]
        assert {"204", "401", "403", "404"} <= route["responses"].keys()
        schema = document["components"]["schemas"]["SessionOpening"]["properties"]["session"]
        assert schema["maxLength"] == 64
