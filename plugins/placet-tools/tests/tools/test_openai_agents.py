"""The OpenAI Agents SDK: calls go through the gate, by keys that a resumed run has again."""

import asyncio
import json

import pytest
from agents import RunState, Usage
from agents.exceptions import ModelBehaviorError
from agents.tool_context import ToolContext
from tests.tools.scripted_openai import Answer, agent_of, results, run
from tests.tools.shop import QUIET

from placet_tools import Gate
from tests.lab.full_disk import full_disk


def approved(result):
    """Return the state of a run of which the SDK is told that all calls are approved."""
    state = result.to_state()
    for call in result.interruptions:
        state.approve(call)
    return state


async def test_a_model_is_shown_the_tools_by_their_schemas(gate):
    shown = {tool.name: tool for tool in gate.openai_agents("support", run="r")}
    assert {*shown} == {*gate.tools}
    assert shown["refund"].description == "Pay money back to the customer of an order."
    assert shown["refund"].params_json_schema["properties"]["euro"]["maximum"] == 500


@pytest.mark.parametrize("deferred", [False, True])
async def test_outputs_and_refusals_are_results(shop, gate, deferred):
    answers: list[Answer] = [
        [
            ("a", "lookup", {"order": "A"}),
            ("b", "mail", {"to": "competitor"}),
            ("c", "lookup", {"ordr": "A"}),
            ("d", "lookup", {"order": float("inf")}),
            ("e", "lookup", "[]"),
            ("f", "lookup", '{"order'),
        ],
        [("g", "mail", {"to": "bob"})],
    ]
    agent = agent_of(gate.openai_agents("support", run="r", deferred=deferred), *answers)
    result = await run(agent)
    if deferred:  # the SDK asks about arguments that are no object of JSON
        assert {one.call_id for one in result.interruptions} == {"d", "e", "f"}
        assert await gate.approvals() == []
        result = await run(agent, approved(result))
    answer = results(result)
    assert json.loads(answer.pop("a")) == {"order": "A", "euro": 42}
    assert json.loads(answer.pop("b"))["codes"] == ["shop.no_competitor"]
    assert answer.pop("g") == "sent"
    assert {code for one in answer.values() for code in json.loads(one)["codes"]} == {
        "payload_invalid"
    }
    assert result.final_output == "done"
    assert shop.ran == [("lookup", "A"), ("mail", "bob")]


async def test_a_tool_that_raises_is_a_result(shop, gate):
    shop.breaks, shop.fails = {"mail"}, {"lookup"}
    calls = [("a", "mail", {"to": "bob"}), ("b", "lookup", {"order": "A"})]
    answer = results(await run(agent_of(gate.openai_agents("support", run="r"), calls)))
    assert json.loads(answer["a"])["status"] == "doubt"
    assert json.loads(answer["b"])["status"] == "failed"


@pytest.mark.parametrize("verb", ["approve", "deny"])
async def test_a_held_call_interrupts_the_run_and_the_tool_returns_the_decision(shop, gate, verb):
    calls = [("a", "refund", {"order": "A"}), ("b", "lookup", {"order": "B"})]
    tools = gate.openai_agents("support", run="r")
    result = await run(agent_of(tools, calls))
    assert [one.call_id for one in result.interruptions] == ["a"]
    text = json.dumps(result.to_state().to_json())
    (request,) = await gate.approvals()
    await gate.decide(request, verb, by="ann", reason="as agreed")

    agent = agent_of(tools)
    state = await RunState.from_json(agent, json.loads(text))
    for call in state.get_interruptions():
        state.approve(call)
    answer = {one: json.loads(two) for one, two in results(await run(agent, state)).items()}
    if verb == "approve":
        assert answer["a"] == {"paid": 5}
    else:
        assert (answer["a"]["status"], answer["a"]["message"]) == ("denied", "ann: as agreed")
    ran = [("lookup", "B"), ("refund", "A", 5)]
    assert shop.ran == (ran if verb == "approve" else ran[:1])


async def test_an_approval_of_the_sdk_alone_approves_nothing(shop, gate):
    calls = [("a", "refund", {"order": "A"})]
    agent = agent_of(gate.openai_agents("support", run="r"), calls)
    result = await run(agent)
    same = await run(agent, result.to_state())  # the SDK was told nothing
    assert [one.call_id for one in same.interruptions] == ["a"]
    result = await run(agent, approved(result))
    assert json.loads(results(result)["a"])["status"] == "held"
    assert len(await gate.approvals()) == 1
    assert shop.ran == []


async def test_an_expired_request_is_a_result(shop):
    async with Gate(shop.tools, config=QUIET, hold_s=0.2) as gate:
        agent = agent_of(gate.openai_agents("support", run="r"), [("a", "refund", {"order": "A"})])
        result = await run(agent)
        for request in await gate.approvals():
            await gate.decision(request)
        result = await run(agent, approved(result))
    assert json.loads(results(result)["a"])["status"] == "expired"
    assert shop.ran == []


async def test_several_held_calls_of_an_answer_are_all_interruptions(shop, gate):
    calls = [("a", "refund", {"order": "A"}), ("b", "refund", {"order": "B"})]
    agent = agent_of(gate.openai_agents("support", run="r"), calls)
    result = await run(agent)
    assert len(result.interruptions) == 2
    for request in await gate.approvals():
        await gate.decide(request, "approve", by="ann")
    result = await run(agent, approved(result))
    assert results(result) == {"a": '{"paid": 5}', "b": '{"paid": 5}'}
    assert sorted(shop.ran) == [("refund", "A", 5), ("refund", "B", 5)]


async def test_a_held_call_may_wait_instead(shop, gate):
    tools = gate.openai_agents("support", run="r", deferred=False)
    running = asyncio.create_task(run(agent_of(tools, [("a", "refund", {"order": "A"})])))
    async for _ in gate.world.events():
        if requests := await gate.approvals():
            await gate.decide(requests[0], "approve", by="ann")
            break
    assert results(await running) == {"a": '{"paid": 5}'}


async def test_equal_calls_of_two_runs_are_two_calls(shop, gate):
    tools = gate.openai_agents("support", run=lambda ctx: ctx.context)
    for name in ("r1", "r2", "r2"):
        await run(agent_of(tools, [("a", "mail", {"to": "bob"})]), context=name)
    assert shop.ran == [("mail", "bob")] * 2


async def test_equal_calls_of_two_turns_are_two_calls(shop, gate):
    tool = next(one for one in gate.openai_agents("support", run="r") if one.name == "mail")
    arguments = json.dumps({"to": "bob"})
    for requests in (1, 2, 2):
        usage = Usage(requests=requests)
        context = ToolContext(None, usage, tool.name, "a", arguments)
        assert await tool.on_invoke_tool(context, arguments) == "sent"
    assert shop.ran == [("mail", "bob")] * 2


async def test_the_sdk_ends_a_run_whose_model_repeats_an_id_for_another_call(shop, gate):
    tools = gate.openai_agents("support", run="r")
    with pytest.raises(ModelBehaviorError):
        await run(agent_of(tools, [("a", "mail", {"to": "bob"})], [("a", "mail", {"to": "eve"})]))
    assert shop.ran == [("mail", "bob")]


async def test_the_calls_of_one_answer_cannot_be_one_plan(gate):
    with pytest.raises(ValueError, match="they cannot be one plan"):
        gate.openai_agents("support", run="r", atomic=True)


@pytest.mark.parametrize("deferred", [False, True])
async def test_a_failed_store_is_a_result(shop, tmp_path, deferred):
    store = f"sqlite:///{tmp_path}/shop.db"
    async with Gate(shop.tools, store=store, config=QUIET) as gate:
        await gate.call("lookup", agent="support", order="A")
        tools = gate.openai_agents("support", run="r", deferred=deferred)
        with full_disk():
            result = await run(agent_of(tools, [("a", "mail", {"to": "bob"})]))
    assert json.loads(results(result)["a"])["status"] == "gate_failed"
    assert shop.ran == [("lookup", "A")]


async def test_a_gate_that_is_closed_is_a_result(shop):
    async with Gate(shop.tools, config=QUIET) as gate:
        pass
    tools = gate.openai_agents("support", run="r")
    result = await run(agent_of(tools, [("a", "mail", {"to": "bob"})]))
    assert json.loads(results(result)["a"])["status"] == "gate_failed"


def test_a_run_in_another_event_loop_calls_the_gate_in_its_own(shop):
    with Gate(shop.tools, config=QUIET) as gate:
        tools = gate.openai_agents("support", run="r")
        agent = agent_of(tools, [("a", "refund", {"order": "A"})])
        result = asyncio.run(run(agent))
        (request,) = gate.approvals()
        gate.decide(request, "approve", by="ann")
        result = asyncio.run(run(agent, approved(result)))
    assert results(result) == {"a": '{"paid": 5}'}
    assert shop.ran == [("refund", "A", 5)]


async def test_a_process_resumes_the_run_of_another(shop, tmp_path):
    store = f"sqlite:///{tmp_path}/shop.db"
    calls = [("a", "refund", {"order": "A"}), ("b", "lookup", {"order": "B"})]
    async with Gate(shop.tools, store=store, config=QUIET) as gate:
        result = await run(agent_of(gate.openai_agents("support", run="r"), calls))
        text = json.dumps(result.to_state().to_json())
    async with Gate(shop.tools, store=store, config=QUIET) as gate:
        (request,) = await gate.approvals()
        await gate.decide(request, "approve", by="ann")
    async with Gate(shop.tools, store=store, config=QUIET) as gate:
        agent = agent_of(gate.openai_agents("support", run="r"))
        state = await RunState.from_json(agent, json.loads(text))
        for call in state.get_interruptions():
            state.approve(call)
        result = await run(agent, state)
    assert results(result)["a"] == '{"paid": 5}'
    assert shop.ran == [("lookup", "B"), ("refund", "A", 5)]
