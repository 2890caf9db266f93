"""An agent of LangGraph whose tools a gate decides.

    ./dev python examples/gate_langgraph.py
    ./dev python examples/gate_langgraph.py anthropic:claude-sonnet-4-5

The second command asks a real model, and needs its key; without a name, the model is a script. The
model looks an order up, asks for a refund that the gate refuses, reads why, and asks for less,
which a person must approve. Meanwhile the graph is interrupted; then it is resumed.
"""

import asyncio
import sys
from collections.abc import Sequence
from typing import Annotated, Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
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


class Script(GenericFakeChatModel):
    """A model that gives the answers of a script, one after another."""

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:  # noqa: ANN401
        return self


def script() -> Script:
    calls = [
        ToolCall(name="lookup", args={"order": "B2"}, id="1"),
        ToolCall(name="refund", args={"order": "B2", "euro": 900}, id="2"),
        ToolCall(name="refund", args={"order": "B2", "euro": 150}, id="3"),
    ]
    answers = [AIMessage("", tool_calls=[call]) for call in calls]
    return Script(messages=iter([*answers, AIMessage("150 euro are paid back.")]))


async def main(model: Script | str) -> None:
    """Run the graph, and resume it until no call is held."""
    async with Gate(tools) as gate:  # a program adds store="sqlite:///shop.db"
        person = asyncio.create_task(ask_a_person(gate))
        # The threads of a program are in a database too: AsyncSqliteSaver, AsyncPostgresSaver.
        agent: Any = create_agent(model, gate.langgraph("support"), checkpointer=InMemorySaver())
        thread = {"configurable": {"thread_id": "customer-7"}}
        state = await agent.ainvoke({"messages": [("user", TASK)]}, thread)
        while interrupts := state.get("__interrupt__"):
            for interrupt in interrupts:
                await gate.decision(interrupt.value["approval"])
            resume = {interrupt.id: True for interrupt in interrupts}
            state = await agent.ainvoke(Command(resume=resume), thread)
        person.cancel()
    for message in state["messages"]:
        if isinstance(message, ToolMessage):
            print(f"{message.name}: {message.content}")
    print(state["messages"][-1].content)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else script()))
