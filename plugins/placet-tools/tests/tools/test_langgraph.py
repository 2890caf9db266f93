"""LangGraph and LangChain: calls go through the gate, by keys that a resumed graph has again."""

import asyncio
import json
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph, add_messages
from langgraph.prebuilt import ToolNode
from langgraph.types import Command
from pydantic import BaseModel
from tests.tools.scripted_langchain import agent_graph, node_graph, results
from tests.tools.shop import QUIET
from typing_extensions import TypedDict

from placet_tools import Gate, ToolError, Tools
from tests.lab.full_disk import full_disk

THREAD = {"configurable": {"thread_id": "t"}}
GO = {"messages": [("user", "go")]}


@pytest.fixture(params=[agent_graph, node_graph])
def graph_of(request):
    return request.param


def resumed(state, value=True):
    """Return the command that answers all interrupts of a graph, which decides nothing."""
    return Command(resume={one.id: value for one in state["__interrupt__"]})


def approvals_of(state):
    return {one.value["approval"] for one in state["__interrupt__"]}


async def test_a_model_is_shown_the_tools_by_their_schemas(gate):
    shown = {
        one["function"]["name"]: one["function"]
        for one in map(convert_to_openai_tool, gate.langgraph("support"))
    }
    assert {*shown} == {*gate.tools}
    assert shown["refund"]["description"] == "Pay money back to the customer of an order."
    assert shown["refund"]["parameters"]["properties"]["euro"]["maximum"] == 500


async def test_outputs_and_refusals_are_results(shop, gate, graph_of):
    answers = [
        [("lookup", {"order": "A"}), ("mail", {"to": "competitor"}), ("lookup", {"ordr": "A"})],
        [("lookup", {"order": float("inf")}), ("lookup", {"order": "\ud800"})],
        [("mail", {"to": "bob"})],
    ]
    graph = graph_of(gate.langgraph("support"), None, *answers)
    done, refused, wrong, infinite, no_text, sent = results(await graph.ainvoke(GO))
    assert json.loads(done) == {"order": "A", "euro": 42}
    assert json.loads(refused)["codes"] == ["shop.no_competitor"]
    for answer in (wrong, infinite, no_text):
        assert {*json.loads(answer)["codes"]} == {"payload_invalid"}
    assert sent == "sent"
    assert shop.ran == [("lookup", "A"), ("mail", "bob")]


async def test_a_tool_that_raises_is_a_result(shop, gate, graph_of):
    shop.breaks, shop.fails = {"mail"}, {"lookup"}
    calls = [("mail", {"to": "bob"}), ("lookup", {"order": "A"})]
    doubt, failed = map(
        json.loads,
        results(await graph_of(gate.langgraph("support"), None, calls).ainvoke(GO)),
    )
    assert (doubt["status"], failed["status"]) == ("doubt", "failed")


async def test_a_repeated_call_id_of_another_answer_is_another_call(shop, gate, graph_of):
    graph = graph_of(
        gate.langgraph("support"), None, [("mail", {"to": "bob"})], [("mail", {"to": "bob"})]
    )
    await graph.ainvoke(GO)
    assert shop.ran == [("mail", "bob")] * 2


@pytest.mark.parametrize("verb", ["approve", "deny"])
async def test_a_held_call_interrupts_until_a_person_has_decided(shop, gate, graph_of, verb):
    calls = [("refund", {"order": "A"}), ("lookup", {"order": "B"})]
    graph = graph_of(gate.langgraph("support"), InMemorySaver(), calls)
    state = await graph.ainvoke(GO, THREAD)
    for _ in range(2):  # what LangGraph is told approves nothing
        state = await graph.ainvoke(resumed(state, "approved"), THREAD)
        (shown,) = state["__interrupt__"]
        assert (shown.value["tool"], shown.value["arguments"]) == ("refund", {"order": "A"})
    assert ("refund", "A", 5) not in shop.ran
    (request,) = await gate.approvals()
    assert approvals_of(state) == {request.id}
    await gate.decide(request, verb, by="ann", reason="as agreed")
    state = await graph.ainvoke(resumed(state), THREAD)
    refund, lookup = map(json.loads, results(state))
    assert lookup["euro"] == 42
    if verb == "approve":
        assert refund == {"paid": 5}
        assert sorted(shop.ran) == [("lookup", "B"), ("refund", "A", 5)]
    else:
        assert (refund["status"], refund["message"]) == ("denied", "ann: as agreed")
        assert shop.ran == [("lookup", "B")]


async def test_an_amended_call_is_a_result_with_the_calls_in_its_place(shop, gate, graph_of):
    graph = graph_of(gate.langgraph("support"), InMemorySaver(), [("refund", {"order": "A"})])
    state = await graph.ainvoke(GO, THREAD)
    (request,) = await gate.approvals()
    calls = [("refund", {"order": "A", "euro": 3})]
    await gate.decide(request, "amend", by="ann", reason="as agreed", calls=calls)
    (answer,) = results(await graph.ainvoke(resumed(state), THREAD))
    assert json.loads(answer)["status"] == "amended"
    assert "as agreed" in answer
    assert '"paid": 3' in answer
    assert shop.ran == [("refund", "A", 3)]


async def test_an_expired_request_is_a_result(shop, graph_of):
    async with Gate(shop.tools, config=QUIET, hold_s=0.2) as gate:
        graph = graph_of(gate.langgraph("support"), InMemorySaver(), [("refund", {"order": "A"})])
        state = await graph.ainvoke(GO, THREAD)
        while state.get("__interrupt__"):
            await gate.decision(approvals_of(state).pop())
            state = await graph.ainvoke(resumed(state), THREAD)
    assert json.loads(results(state)[0])["status"] == "expired"
    assert shop.ran == []


async def test_several_held_calls_of_an_answer_are_all_decided(shop, gate, graph_of):
    calls = [("refund", {"order": "A"}), ("refund", {"order": "B"}), ("mail", {"to": "boss"})]
    graph, rounds = graph_of(gate.langgraph("support"), InMemorySaver(), calls), 0
    state = await graph.ainvoke(GO, THREAD)
    while state.get("__interrupt__"):
        for request in await gate.approvals():
            if request.id in approvals_of(state):
                await gate.decide(request, "approve", by="ann", role=request.role)
        state, rounds = await graph.ainvoke(resumed(state), THREAD), rounds + 1
        assert rounds <= len(calls)
    assert results(state) == ['{"paid": 5}', '{"paid": 5}', "sent"]
    assert sorted(shop.ran) == [("mail", "boss"), ("refund", "A", 5), ("refund", "B", 5)]


async def test_a_held_call_may_wait_instead(shop, gate, graph_of):
    graph = graph_of(gate.langgraph("support", deferred=False), None, [("refund", {"order": "A"})])
    run = asyncio.create_task(graph.ainvoke(GO))
    async for _ in gate.world.events():
        if requests := await gate.approvals():
            await gate.decide(requests[0], "approve", by="ann")
            break
    assert results(await run) == ['{"paid": 5}']


async def test_the_calls_of_one_answer_may_be_one_plan(shop, gate, graph_of):
    answers = [
        [("lookup", {"order": "A"}), ("mail", {"to": "competitor"})],
        [("lookup", {"order": "A"}), ("mail", {"to": "bob"})],
        [("lookup", {"order": "B"}), ("refund", {"order": "B"})],
    ]
    graph = graph_of(gate.langgraph("support", atomic=True), InMemorySaver(), *answers)
    state = await graph.ainvoke(GO, THREAD)
    skipped, refused, done, sent = results(state)
    assert json.loads(skipped)["status"] == "skipped"
    assert json.loads(refused)["codes"] == ["shop.no_competitor"]
    assert (json.loads(done)["order"], sent) == ("A", "sent")
    assert sorted(shop.ran) == [("lookup", "A"), ("mail", "bob")]
    state = await graph.ainvoke(resumed(state), THREAD)
    (request,) = await gate.approvals()
    assert approvals_of(state) == {request.id}
    assert len(request.calls) == 2
    await gate.decide(request, "approve", by="ann")
    state = await graph.ainvoke(resumed(state), THREAD)
    assert [json.loads(one) for one in results(state)[-2:]] == [
        {"order": "B", "euro": 42},
        {"paid": 5},
    ]
    assert sorted(shop.ran[2:]) == [("lookup", "B"), ("refund", "B", 5)]


async def test_a_plan_that_was_refused_is_decided_once(shop, gate, graph_of):
    calls = [("lookup", {"order": "A"}), ("mail", {"to": "competitor"})]
    graph = graph_of(gate.langgraph("support", atomic=True), None, calls)
    await graph.ainvoke(GO)
    assert gate.world.statistics()["batches"] == 1


async def test_a_failed_store_is_a_result(shop, tmp_path, graph_of):
    store = f"sqlite:///{tmp_path}/shop.db"
    async with Gate(shop.tools, store=store, config=QUIET) as gate:
        await gate.call("lookup", agent="support", order="A")
        graph = graph_of(gate.langgraph("support"), None, [("mail", {"to": "bob"})])
        with full_disk():
            state = await graph.ainvoke(GO)
    assert json.loads(results(state)[0])["status"] == "gate_failed"
    assert shop.ran == [("lookup", "A")]


@pytest.mark.parametrize("is_opened", [False, True])
async def test_a_gate_that_is_not_open_is_a_result(shop, is_opened):
    gate = Gate(shop.tools, config=QUIET)
    if is_opened:
        async with gate:
            pass
    graph = agent_graph(gate.langgraph("support"), None, [("mail", {"to": "bob"})])
    for state in (await graph.ainvoke(GO), await asyncio.to_thread(graph.invoke, GO)):
        assert json.loads(results(state)[0])["status"] == "gate_failed"


def test_a_program_without_an_event_loop_invokes_the_graph(shop, graph_of):
    calls = [("refund", {"order": "A"}), ("lookup", {"order": "B"})]
    with Gate(shop.tools, config=QUIET) as gate:
        graph = graph_of(gate.langgraph("support"), InMemorySaver(), calls)
        state = graph.invoke(GO, THREAD)
        state = graph.invoke(resumed(state), THREAD)
        (request,) = gate.approvals()
        gate.decide(request, "approve", by="ann")
        state = graph.invoke(resumed(state), THREAD)
        assert asyncio.run(graph.ainvoke(GO, THREAD))["messages"][-1].content == "done"
    assert results(state)[0] == '{"paid": 5}'
    assert sorted(shop.ran) == [("lookup", "B"), ("refund", "A", 5)]
    state = graph.invoke(GO, {"configurable": {"thread_id": "u"}})
    assert {json.loads(one)["status"] for one in results(state)} == {"gate_failed"}


async def test_a_graph_that_blocks_the_event_loop_of_the_gate_is_a_result(shop, gate, monkeypatch):
    monkeypatch.setattr("placet_tools.frontend.framework_calls._LOOP_SECONDS_MAX", 0.05)
    graph = agent_graph(gate.langgraph("support"), None, [("mail", {"to": "bob"})])
    (answer,) = results(graph.invoke(GO))
    assert "ainvoke" in json.loads(answer)["message"]
    await asyncio.sleep(0)
    assert shop.ran == []


async def test_a_process_resumes_the_graph_of_another(shop, tmp_path, graph_of):
    store, threads = f"sqlite:///{tmp_path}/shop.db", f"{tmp_path}/threads.db"
    calls = [("refund", {"order": "A"}), ("lookup", {"order": "B"})]
    async with (
        Gate(shop.tools, store=store, config=QUIET) as gate,
        AsyncSqliteSaver.from_conn_string(threads) as saver,
    ):
        await graph_of(gate.langgraph("support"), saver, calls).ainvoke(GO, THREAD)
    async with Gate(shop.tools, store=store, config=QUIET) as gate:
        (request,) = await gate.approvals()
        await gate.decide(request, "approve", by="ann")
    async with (
        Gate(shop.tools, store=store, config=QUIET) as gate,
        AsyncSqliteSaver.from_conn_string(threads) as saver,
    ):
        graph = graph_of(gate.langgraph("support"), saver, calls)
        state = await graph.ainvoke(Command(resume=True), THREAD)
    assert results(state)[0] == '{"paid": 5}'
    assert sorted(shop.ran) == [("lookup", "B"), ("refund", "A", 5)]


class Notes(BaseModel):
    notes: Annotated[list[AnyMessage], add_messages]


class NotesDict(TypedDict):
    notes: Annotated[list[AnyMessage], add_messages]


@pytest.mark.parametrize("schema", [Notes, NotesDict, Annotated[list[AnyMessage], add_messages]])
async def test_the_state_of_a_graph_may_have_any_form(gate, schema):
    answer = AIMessage("", tool_calls=[{"name": "lookup", "args": {"order": "A"}, "id": "c"}])
    graph: Any = StateGraph(schema)
    graph.add_node("tools", ToolNode(gate.langgraph("support"), messages_key="notes"))
    graph.add_edge(START, "tools")
    is_list = schema not in {Notes, NotesDict}
    state = await graph.compile().ainvoke([answer] if is_list else {"notes": [answer]})
    told = (state if is_list else state["notes"])[-1].content
    assert json.loads(told)["euro"] == 42


def with_config(config: str) -> None: ...
def with_run_manager(run_manager: str) -> None: ...
def with_runtime(runtime: str) -> None: ...


@pytest.mark.parametrize("function", [with_config, with_run_manager, with_runtime])
async def test_a_parameter_that_langchain_fills_itself_is_refused(function):
    tools = Tools("desk")
    tools.tool()(function)
    with pytest.raises(ToolError, match=function.__name__.removeprefix("with_")):
        Gate(tools, config=QUIET).langgraph("support")
