"""A gateway between a client and a server of the SDK, in each protocol."""

import sys
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters, stdio_client, types
from pydantic import FileUrl

pytestmark = pytest.mark.slow  # each test starts two processes that import the SDK

SERVER = Path(__file__).parent / "sdk_server.py"
NEVER = ("--approve-from", "never")
LEGACY, MODERN = "legacy", "auto"


@asynccontextmanager
async def client_of(*options, mode=LEGACY, **callbacks):
    arguments = ["-m", "placet", "gateway", f"{sys.executable} {SERVER}", *options]
    server = StdioServerParameters(command=sys.executable, args=arguments)
    async with Client(stdio_client(server), mode=mode, **callbacks) as client:
        yield client


def text(result):
    (part,) = result.content
    return part.text


@pytest.mark.parametrize("mode", [LEGACY, MODERN])
async def test_calls_lists_resources_and_prompts_pass(mode):
    async with client_of(*NEVER, mode=mode) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names[:2] == ["add", "fail"]
        assert names[-2:] == ["placet_plan", "placet_outcome"]
        result = await client.call_tool("add", {"a": 1, "b": 2})
        assert (result.structured_content, result.is_error) == ({"result": 3}, False)
        assert "Error executing tool fail" in text(await client.call_tool("fail", {}))
        refused = await client.call_tool("add", {"a": "x", "b": 2})
        assert (refused.is_error, "payload_invalid" in text(refused)) == (True, True)
        calls = [{"tool": "add", "arguments": {"a": 1, "b": 2}}] * 2
        plan = await client.call_tool("placet_plan", {"calls": calls})
        assert "same_running" in text(plan)  # a plan does not do the same twice
        assert [str(one.uri) for one in (await client.list_resources()).resources] == [
            "shop://orders",
            "shop://slow",
        ]
        assert (await client.read_resource("shop://orders")).contents[0].text == "A7"
        assert [one.name for one in (await client.list_prompts()).prompts] == ["greet"]
        prompt = await client.get_prompt("greet", {"name": "ann"})
        assert prompt.messages[0].content.text == "Hello ann"


@pytest.mark.parametrize("mode", [LEGACY, MODERN])
@pytest.mark.parametrize("answer", ["accept", "decline", "cancel"])
async def test_the_user_of_the_client_decides_a_held_call(mode, answer):
    shown = []

    async def elicit(context, params):
        shown.append(params.message)
        if answer == "accept":
            return types.ElicitResult(action="accept", content={"confirm": True})
        return types.ElicitResult(action=answer)

    async with client_of(mode=mode, elicitation_callback=elicit) as client:
        await client.list_tools()
        result = await client.call_tool("add", {"a": 1, "b": 2})
        if answer == "accept":
            assert result.structured_content == {"result": 3}
        else:
            status = {"decline": "denied", "cancel": "held"}[answer]
            assert f'"status":"{status}"' in text(result)
        assert 'add {"a":1,"b":2}' in shown[0]
        calls = [{"tool": "add", "arguments": {"a": n, "b": n}} for n in range(2)]
        plan = await client.call_tool("placet_plan", {"calls": calls})
        assert ('"result":2' in text(plan)) == (answer == "accept")


@pytest.mark.parametrize("options", [(), ("--person", "")])
@pytest.mark.parametrize("mode", [LEGACY, MODERN])
async def test_without_a_user_who_may_be_asked_the_call_stays_held(mode, options):
    async def elicit(context, params):
        raise AssertionError("nobody may be asked")

    callbacks = {"elicitation_callback": elicit} if options else {}
    async with client_of(*options, mode=mode, **callbacks) as client:
        await client.list_tools()
        assert '"status":"held"' in text(await client.call_tool("add", {"a": 1, "b": 2}))


async def test_requests_of_the_server_in_a_call_reach_the_client():
    async def sample(context, params):
        content = types.TextContent(type="text", text="from the model")
        return types.CreateMessageResult(role="assistant", content=content, model="m")

    async def roots(context):
        return types.ListRootsResult(roots=[types.Root(uri=FileUrl("file:///home"))])

    seen = []

    async def on_progress(progress, total, message):
        seen.append((progress, total, message))

    callbacks = {"sampling_callback": sample, "list_roots_callback": roots}
    async with client_of(*NEVER, **callbacks) as client:
        assert "from the model" in text(await client.call_tool("sample", {}))
        assert "file:///home" in text(await client.call_tool("roots", {}))
        await client.call_tool("progress", {}, progress_callback=on_progress)
        assert seen == [(1, 2, "half")]


async def test_a_server_that_asks_by_its_answer_runs_one_call():
    async def elicit(context, params):
        return types.ElicitResult(action="accept", content={"color": params.message})

    async with client_of(*NEVER, mode=MODERN, elicitation_callback=elicit) as client:
        await client.list_tools()
        result = await client.call_tool("ask", {"what": "red"})
        assert text(result) == "asked: {'color': 'red'}, 2 times"
        result = await client.call_tool("ask", {"what": "blue"})
        assert text(result) == "asked: {'color': 'blue'}, 4 times"


@pytest.mark.parametrize("state", ["placet:mcp-0", "placet:", "mine"])
async def test_an_answer_about_no_held_call_is_refused(state):
    confirmed = types.ElicitResult(action="accept", content={"confirm": True})
    async with client_of(mode=MODERN) as client:
        await client.list_tools()
        result = await client.call_tool(
            "add",
            {"a": 1, "b": 2},
            request_state=state,
            input_responses={"confirm": confirmed},
        )
        assert "request_changed" in text(result)


async def test_an_answer_to_a_held_call_approves_no_other_one():
    async def elicit(context, params):
        raise AssertionError("the answers are given by hand")

    confirmed = types.ElicitResult(action="accept", content={"confirm": True})
    async with client_of(mode=MODERN, elicitation_callback=elicit) as client:
        await client.list_tools()
        held = await client.session.call_tool("add", {"a": 1, "b": 2}, allow_input_required=True)
        answers = {
            "request_state": held.request_state,
            "input_responses": {"confirm": confirmed},
        }
        other = await client.session.call_tool("add", {"a": 9, "b": 9}, **answers)
        assert "request_changed" in text(other)
        mine = await client.session.call_tool("add", {"a": 1, "b": 2}, **answers)
        assert mine.structured_content == {"result": 3}


async def test_a_request_that_is_no_call_is_canceled_at_the_server():
    async with client_of(*NEVER) as client:
        with anyio.move_on_after(0.2) as scope:
            await client.read_resource("shop://slow")
        assert scope.cancelled_caught
        assert (await client.read_resource("shop://orders")).contents[0].text == "A7"


async def test_a_new_tool_is_held_by_its_risk(tmp_path):
    async with client_of("--store", str(tmp_path / "gate.db"), *NEVER) as client:
        assert text(await client.call_tool("grow", {})) == "grown"
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert "fresh" in names
        assert text(await client.call_tool("fresh", {})) == "fresh"
