"""A scripted model of the OpenAI Agents SDK."""

import json
from typing import Any

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

Answer = list[tuple[str, str, Any]]
"""The calls of one answer: id, tool, and arguments of each; a text is passed as it is."""

QUIET = RunConfig(tracing_disabled=True)


class Script(Model):
    """A model that answers with these calls, one list an answer, and then with `done`."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        calls = self._answers.pop(0) if self._answers else []
        output: list[Any] = [
            ResponseFunctionToolCall(
                type="function_call",
                call_id=call_id,
                name=name,
                arguments=arguments if isinstance(arguments, str) else json.dumps(arguments),
            )
            for call_id, name, arguments in calls
        ]
        if not calls:
            text = ResponseOutputText(text="done", type="output_text", annotations=[])
            output = [
                ResponseOutputMessage(
                    id="m", role="assistant", status="completed", type="message", content=[text]
                )
            ]
        return ModelResponse(output=output, usage=Usage(requests=1), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


def agent_of(tools: list[Any], *answers: Answer) -> Agent[Any]:
    """Return an agent of a scripted model."""
    return Agent("support", model=Script(*answers), tools=tools)


async def run(agent: Agent[Any], state: Any = "go", **options: Any) -> Any:
    """Run an agent from its beginning, or from a state."""
    return await Runner.run(agent, state, run_config=QUIET, **options)


def results(result: Any) -> dict[str, Any]:
    """Return what the model received of its calls, by the ids of the calls."""
    return {
        item.raw_item["call_id"]: item.output
        for item in result.new_items
        if item.type == "tool_call_output_item"
    }
