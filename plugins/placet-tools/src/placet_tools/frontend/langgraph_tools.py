"""The tools of a gate as tools of LangGraph and LangChain: for a `ToolNode`, or `create_agent`.

The place of a call is its thread, the id of the model's message, and the call id. A held call is an
interrupt. A resumed graph runs the node again from its start, with all calls of the node, and the
gate returns the outcomes of the calls that are done. A `ToolNode` shows one interrupt at a time,
`create_agent` one for each held call.
"""

from collections.abc import Collection
from typing import Any, Final, TypeAlias

from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool
from langgraph.prebuilt import ToolRuntime
from langgraph.types import interrupt

from placet.schemas.codec import Json
from placet_tools.frontend.framework_calls import (
    CallGate,
    FrameworkCalls,
    ModelCall,
    description,
    text,
)
from placet_tools.outcome import Outcome
from placet_tools.tool import DeclaredTool, ToolError

_OF_LANGCHAIN: Final = ("config", "run_manager", "runtime")
"""Parameters that LangChain fills, whatever the model wrote."""

_Runtime: TypeAlias = ToolRuntime[Any, Any]


def langgraph_tools(
    gate: CallGate, agent: str, *, deferred: bool, atomic: bool
) -> list[StructuredTool]:
    """Return the tools of one agent; `Gate.langgraph` describes them."""
    calls = FrameworkCalls(gate, agent, deferred=deferred)
    siblings = gate.tools if atomic else ()
    return [_tool(calls, tool, siblings) for tool in gate.tools.values()]


def _tool(calls: FrameworkCalls, tool: DeclaredTool, siblings: Collection[str]) -> StructuredTool:
    for name in _OF_LANGCHAIN:
        if name in tool.payload.model_fields:
            raise ToolError(
                f"tool {tool.name}: LangChain fills the parameter {name!r}, whatever the model "
                "wrote; rename it"
            )

    async def coroutine(runtime: _Runtime, **arguments: Json) -> str:
        submission = _submission(runtime, tool.name, arguments, siblings)
        while (outcome := await calls.outcome(*submission)).status == "held":
            _interrupt(tool.name, arguments, outcome)
        return text(outcome)

    def func(runtime: _Runtime, **arguments: Json) -> str:
        submission = _submission(runtime, tool.name, arguments, siblings)
        while (outcome := calls.outcome_in_thread(*submission)).status == "held":
            _interrupt(tool.name, arguments, outcome)
        return text(outcome)

    return StructuredTool(
        name=tool.name,
        description=description(tool),
        args_schema=tool.payload.model_json_schema(),  # LangChain checks no arguments by a schema
        func=func,
        coroutine=coroutine,
    )


def _interrupt(tool: str, arguments: dict[str, Json], outcome: Outcome) -> None:
    """Interrupt the graph; a resumed graph asks the gate again, whatever value it was given."""
    approval = {"approval": outcome.approval, "key": outcome.key}
    interrupt({**approval, "tool": tool, "arguments": arguments})


def _submission(
    runtime: _Runtime, tool: str, arguments: dict[str, Json], siblings: Collection[str]
) -> tuple[list[Json], list[ModelCall], str]:
    """Return the place of a call, the calls to decide with it, and its id."""
    answer, call_id = _answer(runtime), str(runtime.tool_call_id)
    calls = [ModelCall(call_id, tool, arguments)]
    if siblings:
        calls = [
            ModelCall(str(call["id"]), call["name"], call["args"])
            for call in answer.tool_calls
            if call["name"] in siblings
        ]
    return [runtime.config.get("configurable", {}).get("thread_id"), answer.id], calls, call_id


def _answer(runtime: _Runtime) -> AIMessage:
    """Return the model's answer that made a call, from the messages in any field of the state."""
    state: Any = runtime.state
    if isinstance(state, list):
        state = {"messages": state}
    fields: list[Any] = [*(state if isinstance(state, dict) else vars(state)).values()]
    for messages in [field for field in fields if isinstance(field, list)]:
        for message in reversed(messages):
            if isinstance(message, AIMessage) and any(
                call["id"] == runtime.tool_call_id for call in message.tool_calls
            ):
                return message
    raise LookupError(f"no answer in the state of the graph has the call {runtime.tool_call_id!r}")
