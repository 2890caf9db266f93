"""The tools of a gate as function tools of the OpenAI Agents SDK.

The SDK passes a tool neither the id of its run nor the other calls of the answer. So the program
names the run; the place of a call is that name, the count of requests to the model, which a
`RunState` keeps, and the call id. A held call is an interruption, and then the SDK must be told
to approve it: that approves nothing in the gate, and the tool returns the decision of the gate.
"""

import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from agents import FunctionTool, RunContextWrapper
from agents.tool_context import ToolContext

from placet.schemas.codec import Json
from placet_tools.frontend.framework_calls import (
    CallGate,
    FrameworkCalls,
    ModelCall,
    description,
    text,
)
from placet_tools.outcome import Outcome
from placet_tools.tool import DeclaredTool

RunName: TypeAlias = str | Callable[[RunContextWrapper[Any]], str]
"""Name of a run, or a function that returns it by the context of the run."""

NOT_ATOMIC: Final = (
    "the Agents SDK passes a tool no other calls of the model's answer, so they cannot be one "
    "plan; leave atomic out, or declare one tool that does both"
)


def openai_agents_tools(
    gate: CallGate, agent: str, *, run: RunName, deferred: bool
) -> list[FunctionTool]:
    """Return the tools of one agent; `Gate.openai_agents` describes them."""
    calls = FrameworkCalls(gate, agent, deferred=deferred)
    return [_tool(calls, tool, run, deferred=deferred) for tool in gate.tools.values()]


def _tool(
    calls: FrameworkCalls, tool: DeclaredTool, run: RunName, *, deferred: bool
) -> FunctionTool:
    def place(ctx: RunContextWrapper[Any]) -> list[Json]:
        return [run if isinstance(run, str) else run(ctx), ctx.usage.requests]

    async def needs_approval(
        ctx: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str
    ) -> bool:
        return await calls.is_held(place(ctx), ModelCall(call_id, tool.name, arguments))

    async def invoke(ctx: ToolContext[Any], json_text: str) -> str:
        try:
            arguments = json.loads(json_text or "{}")
        except ValueError as error:
            arguments = f"no JSON: {error}"
        if not isinstance(arguments, dict):
            message = f"the arguments must be a JSON object, got {arguments!r:.200}"
            return text(Outcome("refused", message=message, codes=("payload_invalid",)))
        call = ModelCall(ctx.tool_call_id, tool.name, arguments)
        return text(await calls.outcome(place(ctx), [call], call.id))

    return FunctionTool(
        name=tool.name,
        description=description(tool),
        params_json_schema=tool.payload.model_json_schema(),
        on_invoke_tool=invoke,
        strict_json_schema=False,  # a strict schema has no defaults
        needs_approval=needs_approval if deferred else False,
    )
