"""The tools of a gate as a toolset of PydanticAI.

The place of a call is its conversation, the time of the model's answer, and the call id.
"""

from typing import Any, Final

from pydantic_ai.exceptions import ApprovalRequired
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from placet_tools.frontend.framework_calls import CallGate, FrameworkCalls, ModelCall, description

_ANY: Final = SchemaValidator(core_schema.dict_schema())
"""Validator of arguments: the gate checks them, and its refusal is a result."""


class GateToolset(AbstractToolset[Any]):
    """The toolset of one agent; `Gate.pydantic_ai` makes it.

    Args:
        gate: The gate.
        agent: Name of the agent.
        deferred: End the run with a held call, as a deferred tool; else the call waits.
        atomic: Decide the calls of one answer of the model as one plan.
    """

    def __init__(self, gate: CallGate, agent: str, *, deferred: bool, atomic: bool) -> None:
        self._gate = gate
        self._agent = agent
        self._atomic = atomic
        self._calls = FrameworkCalls(gate, agent, deferred=deferred)

    @property
    def id(self) -> str:
        """Name of the toolset, the same in every process."""
        return f"placet-{self._gate.name}-{self._agent}"

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the tools with their JSON schemas."""
        return {
            tool.name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=tool.name,
                    description=description(tool),
                    parameters_json_schema=tool.payload.model_json_schema(),
                ),
                max_retries=0,
                args_validator=_ANY,
            )
            for tool in self._gate.tools.values()
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> object:
        """Call a tool through the gate; return the output, or why the call is not done.

        Raises:
            ApprovalRequired: The call is held, and the toolset is `deferred`.
        """
        answer, call_id = _answer(ctx), str(ctx.tool_call_id)
        calls = [ModelCall(call_id, name, tool_args)]
        if self._atomic:
            calls = [
                ModelCall(part.tool_call_id, part.tool_name, part.args_as_dict())
                for part in answer.parts
                if isinstance(part, ToolCallPart) and part.tool_name in self._gate.tools
            ]
        place = [ctx.conversation_id, str(answer.timestamp)]
        outcome = await self._calls.outcome(place, calls, call_id)
        if outcome.status == "held":
            raise ApprovalRequired(metadata={"approval": outcome.approval, "key": outcome.key})
        return outcome.for_model


def _answer(ctx: RunContext[Any]) -> ModelResponse:
    """Return the model's answer that made this call."""
    for message in reversed(ctx.messages):
        if isinstance(message, ModelResponse):
            ids = [part.tool_call_id for part in message.parts if isinstance(part, ToolCallPart)]
            if ctx.tool_call_id in ids:
                return message
    raise LookupError(f"no answer of the model has the call {ctx.tool_call_id!r}")
