"""The access to a design over MCP: tools, resources and sentences of agents with and without it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client

from placet import Orchestrator
from placet.agents import Session
from placet.domains.session import Sessions
from placet.frontends.mcp.server import McpServer
from placet.schemas.codec import from_json
from placet_design import Design

pytestmark = pytest.mark.anyio

SECRET = "the words of ann"
ACCESS = {"owner": "ann", "editors": ["ed"], "readers": ["rita"]}
CALLS: dict[str, dict[str, Any]] = {
    "design__set": {"path": "hull.beam", "value": 9},
    "design__lock": {"path": "hull.beam"},
    "design__unlock": {"path": "hull.depth"},
    "design__undo": {},
    "design__run_phases": {"phases": ["hull"]},
    "design__export": {"format": "markdown"},
    "design__request_clarification": {"message": "what did ann say?"},
    "propose_plan": {"goal": "look", "actions": [{"kind": "design__noop"}]},
}


@pytest.fixture
def anyio_backend():
    return "asyncio"


@asynccontextmanager
async def connected(agent: str) -> AsyncIterator[tuple[Any, Orchestrator]]:
    """Connect a client of an agent to a design of Ann's, with a value, a lock and her words."""
    async with Orchestrator([Design(design_id="ship"), Sessions()]) as world:
        host = await world.register_agent("host", role="operator")
        ann = await world.register_agent("ann")
        await host.submit([host.intent("design.set_access", **ACCESS)])
        worded = ann.intent("design.request_clarification", message=SECRET)
        locked = ann.intent("design.lock", path="hull.depth", reason=SECRET)
        value = ann.intent("design.set", path="hull.loa", value=61.25)
        assert (await ann.submit([worded, value, locked])).admitted
        opening = Session.open(world=world, session="s", agent=agent, mode="autonomous")
        async with opening as session, Client(McpServer(session).server(), cache=None) as client:
            yield client, world


async def read(client: Any, name: str) -> Any:
    resource = await client.read_resource(f"placet://{name}")
    return from_json(resource.contents[0].text)


@pytest.mark.parametrize(
    ("agent", "code"), [("mallory", "design.no_access"), ("rita", "design.read_only")]
)
async def test_each_tool_of_a_design_is_refused_without_access(agent, code):
    async with connected(agent) as (client, world):
        digest = await world.query(lambda kernel: kernel.tree.entity("design.about", "design"))
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert CALLS.keys() <= tools
        for name, arguments in CALLS.items():
            answer = await client.call_tool(name, arguments)
            turn = answer.structured_content
            assert (turn["outcome"], turn["stop"]) == ("refused", code), name
            assert SECRET not in str(answer)
            assert "61.25" not in str(answer)
        about = await world.query(lambda kernel: kernel.tree.entity("design.about", "design"))
        assert about == digest


async def test_the_resources_of_a_design_are_empty_for_an_agent_that_may_not_read():
    async with connected("mallory") as (client, _):
        await client.call_tool("design__set", CALLS["design__set"])
        assert (await read(client, "view"))["view"] == {}
        shown = (await read(client, "events"))["events"]
        changed = [change["entity"] for event in shown for change in event["changes"]]
        assert changed == ["session.sessions/s", "session.turns/s/000001"], "her own session"
        assert SECRET not in str(shown)


@pytest.mark.parametrize("agent", ["ann", "ed", "rita"])
async def test_the_resources_of_a_design_are_for_all_who_may_read(agent):
    async with connected(agent) as (client, _):
        assert "61.25" in str(await read(client, "view"))
        assert SECRET in str(await read(client, "events"))


async def test_an_owner_sets_the_access_by_a_tool_once_a_person_confirms():
    async with connected("ann") as (client, world):
        access = {"owner": "ann", "editors": [], "readers": []}
        answer = await client.call_tool("design__set_access", access)
        assert answer.structured_content["outcome"] == "held"
        stored = await world.query(lambda kernel: kernel.tree.entity("design.access", "design"))
        assert stored is not None
        assert stored["editors"] == ("ed",)
