"""The tools of a gate as a toolset of PydanticAI.

The key of a call is its place in the conversation: conversation, answer of the model, call id. So a
run that is resumed finds the calls that it has made. A refusal is a result that the model reads.
An approval in PydanticAI is no authority: a held call stays held until it is decided in the gate.
"""

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from pydantic_ai.exceptions import ApprovalRequired
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from placet.schemas.errors import ClosedError, StoreError
from placet_tools.frontend.calls import digest_of_place
from placet_tools.outcome import Outcome
from placet_tools.tool import DeclaredTool

_ANY: Final = SchemaValidator(core_schema.dict_schema())
"""Validator of arguments: the gate checks them, and its refusal is a result."""

_PLANS_MAX: Final = 64
"""Answers of models of which the calls are remembered, to decide the calls of each once."""


class CallGate(Protocol):
    """The part of a `Gate` that a toolset calls; the gate itself imports this module."""

    @property
    def name(self) -> str:
        """Name of the domain of the tools."""

    @property
    def tools(self) -> Mapping[str, DeclaredTool]:
        """The tools by name."""

    async def plan(
        self, calls: Sequence[tuple[str, Mapping[str, Any]]], *, agent: str, key: str
    ) -> list[Outcome]:
        """Decide several calls as one batch."""

    async def outcome(self, key: str) -> Outcome:
        """Return the outcome of a call by its key."""

    async def decision(self, approval: str) -> object:
        """Wait until a request is decided or expired."""


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
        self._deferred = deferred
        self._atomic = atomic
        self._plans: dict[str, asyncio.Task[list[Outcome]]] = {}

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
                    description=inspect.getdoc(tool.function) or tool.name,
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
        try:
            if self._atomic:
                outcome = await self._of_plan(ctx)
            else:
                place = _place(ctx, ctx.tool_call_id, name, tool_args)
                calls = [(name, tool_args)]
                outcome = (await self._gate.plan(calls, agent=self._agent, key=place))[0]
            if outcome.status == "held" and not self._deferred:
                await self._gate.decision(outcome.approval)
                outcome = await self._gate.outcome(outcome.key)
        except (ClosedError, StoreError) as error:
            return {"status": "gate_failed", "message": str(error)}
        if outcome.status == "held":
            raise ApprovalRequired(metadata={"approval": outcome.approval, "key": outcome.key})
        return outcome.for_model

    async def _of_plan(self, ctx: RunContext[Any]) -> Outcome:
        """Decide all calls of the model's answer once, and return the outcome of this one."""
        parts = [
            part
            for part in _answer(ctx).parts
            if isinstance(part, ToolCallPart) and part.tool_name in self._gate.tools
        ]
        ids = [part.tool_call_id for part in parts]
        calls = [(part.tool_name, part.args_as_dict()) for part in parts]
        place = _place(ctx, ids, calls)
        run = f"{ctx.run_id}/{place}"  # a resumed run asks again
        if run not in self._plans:
            plan = self._gate.plan(calls, agent=self._agent, key=place)
            self._plans[run] = asyncio.ensure_future(plan)
            if len(self._plans) > _PLANS_MAX:
                del self._plans[next(iter(self._plans))]
        outcomes = await asyncio.shield(self._plans[run])
        return outcomes[ids.index(str(ctx.tool_call_id))]


def _answer(ctx: RunContext[Any]) -> ModelResponse:
    """Return the model's answer that made this call."""
    for message in reversed(ctx.messages):
        if isinstance(message, ModelResponse):
            ids = [part.tool_call_id for part in message.parts if isinstance(part, ToolCallPart)]
            if ctx.tool_call_id in ids:
                return message
    raise LookupError(f"no answer of the model has the call {ctx.tool_call_id!r}")


def _place(ctx: RunContext[Any], *content: object) -> str:
    """Return the key of calls at their place: the same in a resumed run, as its messages are."""
    return digest_of_place(ctx.conversation_id, str(_answer(ctx).timestamp), *content)
