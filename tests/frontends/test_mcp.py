"""MCP: the SDK's own client, in this process, over stdio and over HTTP, sees the gate's answers."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from placet.agents import Session
from placet.agents.proposal.tools import ToolDefinition
from placet.domains.world import World
from placet.frontends.mcp import command
from placet.frontends.mcp import stdin as mcp_stdin
from placet.frontends.mcp.server import McpServer
from tests.agents.proposal.provider_subsets import PROVIDERS, undescribed
from tests.agents.till import Till
from tests.cli.command_line import PLACET, Process, run_process
from tests.levels import soak_between
from tests.server.attacks import BEHIND, HEADS, Attack
from tests.server.clients import Client as HttpClient

pytestmark = pytest.mark.anyio

MODES = ("auto", "legacy")
"""Both protocols: that of 2026-07-28, which asks by an answer, and the older one, which asks."""


@pytest.fixture
def anyio_backend():
    return "asyncio"


@contextlib.asynccontextmanager
async def connected(
    *answers: types.ElicitResult | None, person: str | None = "ann", protocol="auto", **more
) -> AsyncIterator[tuple[Any, Session, list[str]]]:
    """Connect a client, whose user gives these answers; no answers is a client that cannot ask."""
    asked: list[str] = []
    waiting = iter(answers)

    async def elicit(_context, params):
        asked.append(params.message)
        return next(waiting)

    async with Session.open(domain=Till(), agent="mcp", session="mcp", **more) as session:
        server = McpServer(session, person).server()
        async with Client(
            server, mode=protocol, elicitation_callback=elicit if answers else None, cache=None
        ) as client:
            yield client, session, asked


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    },
}
YES = types.ElicitResult(action="accept", content={"confirm": True})
NO = types.ElicitResult(action="accept", content={"confirm": False})
DECLINED = types.ElicitResult(action="decline")
CANCELLED = types.ElicitResult(action="cancel")


SUM = "till.box/box/sum"


async def sum_in(session):
    return await session.world.state("till.box/box/sum")


async def test_kinds_are_tools_with_hints_of_their_risk():
    async with connected() as (client, _, _):
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert {"till__empty", "till__look", "till__put", "propose_plan"} <= tools.keys()
    assert not [name for name in tools if name.startswith("session")]
    assert tools["till__put"].input_schema["properties"]["amount"]["type"] == "integer"
    hints = {name: tool.annotations for name, tool in tools.items()}
    assert hints["till__look"].read_only_hint
    assert not hints["till__look"].destructive_hint
    assert hints["till__empty"].destructive_hint
    assert hints["till__put"].destructive_hint, "for large sums it is a medium risk"


async def test_every_model_provider_takes_the_tools():
    async with connected() as (client, _, _):
        for one in (await client.list_tools()).tools:
            tool = ToolDefinition(one.name, one.description, one.input_schema)
            assert [faults(tool) for faults in PROVIDERS.values()] == [[]] * 3
            assert undescribed(tool.schema) == []


async def test_kinds_of_the_session_are_never_tools():
    async with connected() as (client, session, _):
        world: Any = session.world
        await world.set_agent_permissions("mcp", None)
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert "till__put" in names
        assert not [name for name in names if name.startswith("session")]


@pytest.mark.parametrize("protocol", MODES)
async def test_a_call_is_decided_and_its_turn_is_structured(protocol):
    async with connected(protocol=protocol) as (client, session, _):
        result = await client.call_tool("till__put", {"amount": 5})
        assert not result.is_error
        assert result.structured_content["outcome"] == "applied"
        assert result.structured_content["diff"][0]["new"] == 5
        assert await sum_in(session) == 5
        looked = await client.call_tool("till__look", {})
        assert looked.structured_content["results"][0]["output"] == 5
        assert "till.look gave: 5" in looked.content[0].text


async def test_refusals_are_errors_with_codes_and_suggestions():
    async with connected() as (client, session, _):
        unknown = await client.call_tool("till__putt", {"amount": 5})
        assert unknown.is_error
        (issue,) = unknown.structured_content["attempts"][0]["issues"]
        assert issue["code"] == "kind_unknown"
        assert issue["suggestions"][0] == "till.put"
        missing = await client.call_tool("till__put", {})
        assert missing.structured_content["stop"] == "payload_missing"
        negative = await client.call_tool("till__put", {"amount": -1})
        assert negative.structured_content["stop"] == "till.negative"
        assert "till.negative" in negative.content[0].text
        own = await client.call_tool("session__grant", {})
        assert own.structured_content["stop"] == "kind_unknown", "what is not granted is not there"
        assert await sum_in(session) == 0


async def test_a_plan_is_applied_whole_or_not_at_all():
    def plan(*amounts):
        actions = [{"kind": "till__put", "payload": {"amount": one}} for one in amounts]
        return {"goal": "fill the till", "actions": actions}

    async with connected() as (client, session, _):
        refused = await client.call_tool("propose_plan", plan(5, -1))
        assert refused.structured_content["stop"] == "till.negative"
        assert await sum_in(session) == 0
        done = await client.call_tool("propose_plan", plan(5, 6))
        assert len(done.structured_content["results"]) == 2
        assert await sum_in(session) == 11


@pytest.mark.parametrize(
    ("arguments", "at"),
    [
        ({"goal": "x"}, "/actions"),
        ({"actions": []}, "/goal"),
        ({"goal": 1, "actions": []}, "/goal"),
        ({"goal": "x", "actions": '[{"kind": "till__put"}]'}, "/actions"),
        ({"goal": "x", "actions": {"kind": "till__put"}}, "/actions"),
        ({"goal": "x", "actions": [1]}, "/actions/0"),
        ({"goal": "x", "actions": [{"payload": {}}]}, "/actions/0/kind"),
        ({"goal": "x", "actions": [{"kind": "till__put", "payload": "{}"}]}, "/actions/0/payload"),
        ({"goal": "x", "actions": [{"kind": "a"}, {"kind": 2}]}, "/actions/1/kind"),
        (
            {"goal": "x", "actions": [{"kind": "till__put", "confirmed": True}]},
            "/actions/0/confirmed",
        ),
        (
            {"goal": "x", "actions": [{"kind": "till__put", "if_unchanged": SUM}]},
            "/actions/0/if_unchanged",
        ),
    ],
)
async def test_an_invalid_plan_is_refused_with_the_argument_at_fault(arguments, at):
    async with connected() as (client, _, _):
        result = await client.call_tool("propose_plan", arguments)
        assert result.is_error
        assert result.structured_content["stop"] == "payload_invalid"
        [attempt] = result.structured_content["attempts"]
        assert [issue["at"] for issue in attempt["issues"]] == [at]
        assert f"propose_plan: {at} " in result.content[0].text


async def test_a_call_may_name_the_values_of_the_view_that_it_rests_on():
    async with connected(YES, YES) as (client, session, asked):
        tools = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
        assert tools["till__put"]["properties"]["if_unchanged"]["type"] == "array"
        call = {"amount": 5, "if_unchanged": [SUM]}
        unseen = await client.call_tool("till__put", call)
        assert "if_unchanged needs a view" in unseen.content[0].text
        await client.read_resource("placet://view")
        await session.send("/till.put amount=2")
        failed = await client.call_tool("till__put", call)
        assert failed.structured_content["stop"] == "condition_failed"
        (issue,) = failed.structured_content["attempts"][0]["issues"]
        assert issue["at"] == "/actions/0/if_unchanged/0"
        assert issue["changed"] == [{"path": SUM, "new": 2}]
        assert "expected till.box/box/sum == 0, found 2" in failed.content[0].text
        await client.read_resource("placet://view")
        await client.call_tool("till__put", call)
        action = {"kind": "till__put", "payload": {"amount": 500}, "if_unchanged": [SUM]}
        again = {"goal": "x", "actions": [action]}
        assert (await client.call_tool("propose_plan", again)).structured_content["outcome"] == (
            "refused"
        ), "the call before changed it"
        await client.read_resource("placet://view")
        held = await client.call_tool("propose_plan", again)
        assert held.structured_content["route"] == "person"
        assert await sum_in(session) == 507
        assert len(asked) == 1


@pytest.mark.parametrize("paths", ["till.box/box", [1], [["till.box", "box"]]])
async def test_paths_of_another_form_are_refused(paths):
    async with connected() as (client, _, _):
        result = await client.call_tool("till__put", {"amount": 5, "if_unchanged": paths})
        assert result.structured_content["stop"] == "payload_invalid"
        assert "till__put: /if_unchanged" in result.content[0].text


@pytest.mark.parametrize("protocol", MODES)
async def test_a_held_plan_is_elicited_and_applied_on_yes(protocol):
    async with connected(YES, protocol=protocol) as (client, session, asked):
        result = await client.call_tool("till__put", {"amount": 500})
        assert result.structured_content["outcome"] == "applied"
        assert result.structured_content["route"] == "person"
        assert await sum_in(session) == 500
        assert "/till.put amount=500" in asked[0]
        assert "0 -> 500" in asked[0]
        (hold,) = await session.approvals()
        assert (hold.state, hold.by) == ("approved", "ann")


@pytest.mark.parametrize("protocol", MODES)
@pytest.mark.parametrize(
    ("answer", "state"), [(NO, "denied"), (DECLINED, "denied"), (CANCELLED, "open")]
)
async def test_a_held_plan_is_not_applied_on_any_other_answer(protocol, answer, state):
    async with connected(answer, protocol=protocol) as (client, session, _):
        await client.call_tool("till__put", {"amount": 500})
        assert await sum_in(session) == 0
        assert [hold.state for hold in await session.approvals()] == [state]


@pytest.mark.parametrize("protocol", MODES)
async def test_no_elicitation_without_a_person(protocol):
    async with connected(YES, person=None, protocol=protocol) as (client, session, asked):
        result = await client.call_tool("till__put", {"amount": 500})
        assert not result.is_error
        assert result.structured_content["outcome"] == "held"
        assert result.structured_content["approval_id"] in result.content[0].text
        assert (asked, await sum_in(session)) == ([], 0)


async def test_a_client_without_elicitation_gets_the_held_turn():
    async with connected() as (client, _, _):
        result = await client.call_tool("till__put", {"amount": 500})
        assert result.structured_content["outcome"] == "held"


async def test_an_approval_that_needs_a_role_is_not_given_through_a_client():
    from placet.agents.proposal.modes import PolicyDecision

    def chief(_plan, _risks, _mode):
        return PolicyDecision("hold", "chief", "the chief signs")

    async with connected(YES, policy=chief) as (client, session, asked):
        result = await client.call_tool("till__put", {"amount": 1})
        assert result.structured_content["stop"] == "approval_required"
        assert (asked, await sum_in(session)) == ([], 0)


async def raw_call(client, amount, state=None, responses=None):
    return await client.session.call_tool(
        "till__put",
        {"amount": amount},
        request_state=state,
        input_responses=responses,
        allow_input_required=True,
    )


async def test_a_confirmation_applies_only_to_the_call_it_was_asked_for():
    """A client that swaps the call under a confirmation has nothing applied."""
    async with connected(YES) as (client, session, _):
        asked = await raw_call(client, 500)
        assert isinstance(asked, types.InputRequiredResult)
        for state, amount in ((asked.request_state, 900), ("mcp-made-up-1", 500)):
            swapped = await raw_call(client, amount, state, {"confirm": YES})
            assert swapped.is_error
            assert swapped.structured_content["stop"] == "session.approval_changed"
        unanswered = await raw_call(client, 500, asked.request_state, {})
        assert unanswered.structured_content["stop"] == "confirmation_required"
        assert await sum_in(session) == 0
        applied = await raw_call(client, 500, asked.request_state, {"confirm": YES})
        assert applied.structured_content["outcome"] == "applied"
        again = await raw_call(client, 500, asked.request_state, {"confirm": YES})
        assert again.is_error, "a hold is resolved once"
        assert await sum_in(session) == 500


async def test_the_view_the_kinds_and_the_events_are_resources():
    async with connected() as (client, session, _):
        await client.call_tool("till__put", {"amount": 5})
        uris = [one.uri for one in (await client.list_resources()).resources]
        assert uris == ["placet://view", "placet://kinds", "placet://events"]
        (template,) = (await client.list_resource_templates()).resource_templates
        assert template.uri_template == "placet://events/{since}"
        view = await read(client, "placet://view")
        assert view["view"]["till.box"]["box"]["sum"] == 5
        kinds = await read(client, "placet://kinds")
        tools = (await client.list_tools()).tools
        assert [one["tool"] for one in kinds["kinds"]] == [one.name for one in tools][:-1]
        events = await read(client, "placet://events")
        assert "till.put" in json.dumps(events)
        later = await read(client, f"placet://events/{session.world.seq}")
        assert later == {"events": [], "seq": session.world.seq}
        with pytest.raises(MCPError, match="there is no resource"):
            await client.read_resource("placet://secrets")


async def test_a_removed_agent_gets_no_events():
    async with connected() as (client, session, _):
        await client.call_tool("till__put", {"amount": 5})
        world: Any = session.world
        await world.remove_agent(session.agent_id)
        with pytest.raises(MCPError, match="there is no agent"):
            await client.read_resource("placet://events")


async def read(client, uri):
    (content,) = (await client.read_resource(uri)).contents
    return json.loads(content.text)


async def test_hidden_values_are_in_no_resource():
    async with Session.open(domain=World(observation={"distance": 10}), agent="mcp") as session:
        world: Any = session.world
        far = await world.register_agent("far", position=[900, 900])
        await world.submit([far.intent("Speak", text="psst")])
        async with Client(McpServer(session).server(), cache=None) as client:
            assert "psst" not in json.dumps(await read(client, "placet://events"))
            assert "far" not in (await read(client, "placet://view"))["view"]["world.agents"]


@pytest.mark.slow
async def test_over_stdio_a_world_is_a_subprocess_and_its_log_is_kept(tmp_path):
    command = [*PLACET[1:], "mcp", "--domain", "world", "--store", "town.db"]
    server = StdioServerParameters(command=sys.executable, args=command, cwd=tmp_path)
    async with Client(server) as client:
        result = await client.call_tool("Move", {"to": [1, 2]})
        assert result.structured_content["outcome"] == "applied"
    assert run_process("verify", "town.db", folder=tmp_path).code == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", soak_between([15, 2], 2))
def test_over_stdio_a_signal_ends_a_server_with_a_silent_client(tmp_path, number):
    with Process("mcp", "--domain", "world", "--store", "town.db", folder=tmp_path) as process:
        process.tell(HELLO)
        assert json.loads(process.out.readline())["id"] == 1
        process.send_signal(number)
        assert process.wait() == 128 + number
    assert sorted(file.name for file in tmp_path.iterdir()) == ["town.db"]


@pytest.mark.slow
def test_over_stdio_messages_may_come_from_a_file(tmp_path):
    (tmp_path / "said").write_bytes(b"\xff\n" + json.dumps(HELLO).encode())
    with (tmp_path / "said").open("rb") as said:
        command = [*PLACET, "mcp", "--domain", "world"]
        done = subprocess.run(command, stdin=said, capture_output=True, check=True, cwd=tmp_path)
    assert json.loads(done.stdout.splitlines()[-1])["id"] == 1


async def test_lines_of_stdin_are_read_from_any_chunks(monkeypatch):
    reading, writing = os.pipe()
    monkeypatch.setattr(mcp_stdin, "_STDIN", reading)
    heard = []
    with mcp_stdin.lines_of_stdin() as lines:
        assert os.read(reading, 1) == b""  # others find nothing there

        async def listen():
            heard.extend([line async for line in lines])

        async with anyio.create_task_group() as group:
            group.start_soon(listen)
            for piece in (b"on", b"e\ntw", b"o\n\nthr\xc3", b"\xa9e"):
                os.write(writing, piece)
                await anyio.wait_all_tasks_blocked()
            os.close(writing)
    assert heard == ["one", "two", "", "thr\u00e9e"]
    assert os.read(reading, 1) == b""  # it is given back, at its end
    os.close(reading)


@pytest.mark.slow
async def test_over_http_a_valid_token_is_served(tmp_path):
    command = ("mcp", "--domain", "world", "--http", "127.0.0.1:0")
    with Process(*command, folder=tmp_path) as process:
        url = process.err.readline().decode().split()[-1]
        token = process.err.readline().decode().split()[-1]
        async with httpx.AsyncClient() as stranger:
            for wrong in ({}, {"authorization": "Bearer placet_x"}):
                assert (await stranger.post(url, json={}, headers=wrong)).status_code == 401
        known: Any = httpx.AsyncClient(headers={"authorization": f"Bearer {token}"})
        async with known, Client(streamable_http_client(url, http_client=known)) as client:
            result = await client.call_tool("Move", {"to": [1, 2]})
            assert result.structured_content["outcome"] == "applied"
        process.send_signal(2)
        assert process.wait() == 130


@pytest.mark.slow
@pytest.mark.parametrize("number", soak_between([2, 15], 2))
async def test_over_http_a_signal_closes_the_log(tmp_path, number):
    command = ("mcp", "--domain", "world", "--store", "town.db", "--http", "127.0.0.1:0")
    with Process(*command, folder=tmp_path) as process:
        process.err.readline()
        process.err.readline()
        process.send_signal(number)
        assert process.wait() == 128 + number
    assert sorted(file.name for file in tmp_path.iterdir()) == ["town.db"]


@pytest.mark.slow
def test_over_http_attacks_are_refused_before_authentication(tmp_path):
    large = Attack(b"GET / HTTP/1.1\r\nhost: x\r\nx-more: " + b"a" * 70_000, (431,))
    with Process("mcp", "--domain", "world", "--http", "127.0.0.1:0", folder=tmp_path) as process:
        url = httpx.URL(process.err.readline().decode().split()[-1])
        for name, attack in {**HEADS, "a large head": large}.items():
            with HttpClient(f"http://{url.host}:{url.port}") as client:
                client.send(attack.data + BEHIND)
                assert client.answer()[0] == attack.statuses[0], name
                assert client.is_closed(), name


@pytest.mark.slow
def test_over_http_the_bodies_of_a_caller_are_bounded_together(tmp_path):
    with Process("mcp", "--domain", "world", "--http", "127.0.0.1:0", folder=tmp_path) as process:
        url = httpx.URL(process.err.readline().decode().split()[-1])
        token = process.err.readline().decode().split()[-1]
        head = f"POST {url.path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n"
        clients = [HttpClient(f"http://{url.host}:{url.port}") for _ in range(66)]
        for client in clients:  # the first is admitted, 64 wait
            client.send(f"{head}content-length: 300000\r\n\r\n".encode())
        assert clients[-1].answer()[0] == 429
        for client in clients:
            client.socket.close()


@pytest.mark.parametrize(
    ("options", "code", "why"),
    [
        (("--http", "8001"), 2, "--http takes HOST:PORT"),
        (("--http", "0.0.0.0:1"), 1, "can be reached from other machines"),
        (("--mode", "wild"), 2, "unknown mode"),
        (("--person", "mcp"), 2, "the proposer does not confirm"),
        (
            ("--agent", "session.recorder"),
            2,
            "'session.recorder' is the agent that records conversations",
        ),
    ],
)
def test_a_usage_error_is_reported(placet, options, code, why):
    outcome = placet("mcp", "--domain", "world", *options)
    assert outcome.code == code
    assert why in outcome.err


@pytest.mark.parametrize(
    ("installed", "says"),
    [
        ("1.30.0", "works with mcp 2.x, and mcp 1.30.0 is installed"),
        ("2.3.0", "needs mcp_types, which is not installed"),
    ],
)
def test_a_missing_module_is_reported_with_the_version_that_is_needed(
    installed: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "version", lambda _: installed)
    error = ModuleNotFoundError("No module named 'mcp_types'", name="mcp_types")
    assert says in command.missing_module(error)
