"""An agent of PydanticAI whose tools a gate decides.

    ./dev python examples/gate_pydantic_ai.py
    ./dev python examples/gate_pydantic_ai.py anthropic:claude-sonnet-4-5

The second command asks a real model, and needs its key; without a name, the model is a script. The
model looks an order up, asks for a refund that the gate refuses, reads why, and asks for less,
which a person must approve. Meanwhile the call waits in its tool.
"""

import asyncio
import sys
from typing import Annotated, Any

from pydantic import Field
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import Model
from pydantic_ai.models.function import FunctionModel

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


def script() -> Model:
    """Return a model that gives the answers of a script, one after another."""
    answers = iter(
        [
            ModelResponse([ToolCallPart("lookup", {"order": "B2"})]),
            ModelResponse([ToolCallPart("refund", {"order": "B2", "euro": 900})]),
            ModelResponse([ToolCallPart("refund", {"order": "B2", "euro": 150})]),
            ModelResponse([TextPart("150 euro are paid back.")]),
        ]
    )
    return FunctionModel(lambda *_: next(answers))


async def main(model: Model | str) -> None:
    """Run the agent once."""
    async with Gate(tools) as gate:  # a program adds store="sqlite:///shop.db"
        person = asyncio.create_task(ask_a_person(gate))
        agent = Agent(model, toolsets=[gate.pydantic_ai("support")])
        run = await agent.run(TASK)
        person.cancel()
    for message in run.all_messages():
        for part in message.parts:
            if part.part_kind == "tool-return":
                print(f"{part.tool_name}: {part.content}")
    print(run.output)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else script()))
