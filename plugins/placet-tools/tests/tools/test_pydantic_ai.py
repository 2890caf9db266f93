"""PydanticAI: its calls go through the gate, by keys that a resumed run has again."""

import asyncio

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from tests.tools.shop import QUIET

from placet_tools import Gate
from tests.lab.full_disk import full_disk


def script(*answers):
    """Return a model that answers with these calls, one list an answer, and then with `done`."""
    left = [list(answer) for answer in answers]

    def answer(messages, info):
        if not left:
            return ModelResponse([TextPart("done")])
        calls = left.pop(0)
        return ModelResponse(
            [ToolCallPart(name, args, tool_call_id=f"c{n}") for n, (name, args) in enumerate(calls)]
        )

    return FunctionModel(answer)


async def approve_all(gate):
    """Approve each request, as a person who waits for them."""
    async for _ in gate.world.events():
        for request in await gate.approvals():
            assert request.agent == "support"
            await gate.decide(request, "approve", by="ann")


def results(run):
    """Return what the model received of its calls."""
    return [
        part.content
        for message in run.all_messages()
        for part in message.parts
        if part.part_kind == "tool-return"
    ]


async def test_a_model_is_shown_the_tools_by_their_schemas(gate):
    shown = []

    def answer(messages, info):
        shown.extend(info.function_tools)
        return ModelResponse([TextPart("done")])

    await Agent(FunctionModel(answer), toolsets=[gate.pydantic_ai("support")]).run("go")
    refund = next(tool for tool in shown if tool.name == "refund")
    assert refund.description == "Pay money back to the customer of an order."
    assert refund.parameters_json_schema["properties"]["euro"]["maximum"] == 500
    assert {tool.name for tool in shown} == {*gate.tools}


async def test_outputs_and_refusals_are_results(shop, gate):
    model = script(
        [("lookup", {"order": "A"})],
        [("mail", {"to": "competitor"})],
        [("lookup", {"ordr": "A"})],
    )
    run = await Agent(model, toolsets=[gate.pydantic_ai("support")]).run("go")
    done, refused, wrong = results(run)
    assert done == {"order": "A", "euro": 42}
    assert (refused["status"], refused["codes"]) == ("refused", ["shop.no_competitor"])
    assert {*wrong["codes"]} == {"payload_invalid"}
    assert shop.ran == [("lookup", "A")]
    assert run.output == "done"


async def test_a_repeated_call_id_of_another_answer_is_another_call(shop, gate):
    model = script([("mail", {"to": "bob"})], [("mail", {"to": "bob"})])
    await Agent(model, toolsets=[gate.pydantic_ai("support")]).run("go")
    assert shop.ran == [("mail", "bob")] * 2


async def test_a_held_call_waits_for_the_person(shop, gate):
    model = script([("refund", {"order": "A"})])
    agent = Agent(model, toolsets=[gate.pydantic_ai("support")])
    person = asyncio.create_task(approve_all(gate))
    assert results(await agent.run("go")) == [{"paid": 5}]
    person.cancel()
    assert shop.ran == [("refund", "A", 5)]


async def test_a_deferred_run_is_resumed_once_a_person_has_decided(shop, gate):
    model = script([("refund", {"order": "A"})])
    toolset = gate.pydantic_ai("support", deferred=True)
    agent = Agent(model, toolsets=[toolset], output_type=[str, DeferredToolRequests])
    first = await agent.run("go")
    assert isinstance(first.output, DeferredToolRequests)
    (call,) = first.output.approvals
    messages = ModelMessagesTypeAdapter.validate_json(first.all_messages_json())
    approved = DeferredToolResults(approvals={call.tool_call_id: True})
    # The approval of the framework is no authority.
    again = await agent.run(message_history=messages, deferred_tool_results=approved)
    assert isinstance(again.output, DeferredToolRequests)
    assert shop.ran == []
    (request,) = await gate.approvals()
    await gate.decide(request, "approve", by="ann")
    last = await agent.run(message_history=messages, deferred_tool_results=approved)
    assert results(last)[-1] == {"paid": 5}
    assert shop.ran == [("refund", "A", 5)]


async def test_the_calls_of_one_answer_may_be_one_plan(shop, gate):
    model = script(
        [("lookup", {"order": "A"}), ("mail", {"to": "competitor"})],
        [("lookup", {"order": "A"}), ("mail", {"to": "bob"})],
    )
    run = await Agent(model, toolsets=[gate.pydantic_ai("support", atomic=True)]).run("go")
    skipped, refused, done, sent = results(run)
    assert (skipped["status"], refused["status"]) == ("skipped", "refused")
    assert (done["order"], sent) == ("A", "sent")
    assert sorted(shop.ran) == [("lookup", "A"), ("mail", "bob")]


async def test_a_failed_store_is_a_result(shop, tmp_path):
    store = f"sqlite:///{tmp_path}/shop.db"
    async with Gate(shop.tools, store=store, config=QUIET) as gate:
        await gate.call("lookup", agent="support", order="A")
        agent = Agent(script([("mail", {"to": "bob"})]), toolsets=[gate.pydantic_ai("support")])
        with full_disk():
            run = await agent.run("go")
    assert results(run)[0]["status"] == "gate_failed"
    assert shop.ran == [("lookup", "A")]
