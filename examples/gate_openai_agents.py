"""An agent of the OpenAI Agents SDK whose tools a gate decides.

    ./dev python examples/gate_openai_agents.py
    ./dev python examples/gate_openai_agents.py gpt-5-mini

The second command asks a real model, and needs its key; without a name, the model is a script. The
model looks an order up, asks for a refund that the gate refuses, reads why, and asks for less,
which a person must approve. Meanwhile the run is interrupted; then it is resumed.
"""

import asyncio
import json
import sys
from typing import Annotated, Any
from uuid import uuid4

from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from pydantic import Field

from placet.kernel import Draft, RuleRefusal, refuse
from placet.schemas.intent import Intent
from placet_tools import Gate, NotDone, Tools

TASK = "Order B2 came broken, please pay 150 euro back."

tools = Tools("shop")
orders = {"A7": 120, "B2": 300}


@tools.tool(risk="read")
def lookup(order: str) -> dict[str, Any]:
    """Find an order of the shop."""
    return {"order": order, "euro": orders[order]}


@tools.tool(once="refund:{order}")
def refund(order: str, euro: Annotated[int, Field(ge=1, le=500)]) -> dict[str, Any]:
    """Pay money back to the customer of an order."""
    if order not in orders:
        raise NotDone("there is no such order")  # only this says: nothing was done
    return {"order": order, "paid": euro}


@tools.rule("refund")
def large_refunds_need_a_person(_draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Ask a manager before more than 100 euro are paid back."""
    if intent["payload"]["euro"] > 100:
        return refuse("approval_required", "more than 100 euro", role="manager")
    return None


async def ask_a_person(gate: Gate) -> None:
    """Stand for a person: show each request, and approve it."""
    async for _ in gate.world.events():
        for request in await gate.approvals():
            print(request)
            await gate.decide(request, "approve", by="ann", role="manager")


def call(call_id: str, tool: str, **arguments: object) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        type="function_call", call_id=call_id, name=tool, arguments=json.dumps(arguments)
    )


def message(text: str) -> ResponseOutputMessage:
    return ResponseOutputMessage(
        id="message",
        type="message",
        role="assistant",
        status="completed",
        content=[ResponseOutputText(type="output_text", text=text, annotations=[])],
    )


class Script(Model):
    """A model that gives the answers of a script, one after another."""

    def __init__(self) -> None:
        self._answers: list[Any] = [
            call("1", "lookup", order="B2"),
            call("2", "refund", order="B2", euro=900),
            call("3", "refund", order="B2", euro=150),
            message("150 euro are paid back."),
        ]

    async def get_response(self, *args: Any, **options: Any) -> ModelResponse:  # noqa: ANN401
        return ModelResponse(
            output=[self._answers.pop(0)], usage=Usage(requests=1), response_id=None
        )

    def stream_response(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401
        raise NotImplementedError


async def main(model: Model | str) -> None:
    """Run the agent, and resume the run until no call is held."""
    set_tracing_disabled(disabled=True)
    async with Gate(tools) as gate:  # a program adds store="sqlite:///shop.db"
        person = asyncio.create_task(ask_a_person(gate))
        # A program that resumes runs keeps the name of a run beside its RunState.
        agent = Agent(
            "support", model=model, tools=[*gate.openai_agents("support", run=uuid4().hex)]
        )
        result = await Runner.run(agent, TASK)
        while result.interruptions:
            for request in await gate.approvals():
                await gate.decision(request)
            state = result.to_state()
            for held in result.interruptions:
                state.approve(held)  # approves nothing: the tool returns the decision of the gate
            result = await Runner.run(agent, state)
        person.cancel()
    for item in result.new_items:
        if item.type == "tool_call_output_item":
            print(item.output)
    print(result.final_output)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else Script()))
