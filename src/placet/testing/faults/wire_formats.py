"""Wire formats of model providers: build scripted answers, and parse requests.

The formats are those of OpenAI's chat completions and responses and of Anthropic's messages.
"""

import json
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from placet.testing.faults.model_server import ReceivedRequest, ServerAnswer

if TYPE_CHECKING:
    from pydantic_ai.models import Model

Call: TypeAlias = tuple[str, Any]
"""Name of a tool, and its arguments: a value, or the text that a model wrote."""


class ParsedRequest(NamedTuple):
    """The parts of a request to a model, parsed from a wire format.

    Attributes:
        system: The system prompt.
        user: Blocks of the first message of the user.
        answers: Names of the tools that each earlier answer of the model called.
        results: Id of an earlier call -> its result.
        tools: Names of the offered tools.
    """

    system: str
    user: list[str]
    answers: list[list[str]]
    results: dict[str, str]
    tools: list[str]


class OpenAI:
    """The wire format of OpenAI's chat completions."""

    name = "openai"

    def model(self, url: str, key: str = "sk-test") -> "Model":
        """Return a model of pydantic-ai that requests its answers from a server.

        Args:
            url: Address of the server.
            key: Key that is sent.
        """
        from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415  # the extra `llm`
        from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415  # the extra `llm`

        return OpenAIChatModel("gpt-5-mini", provider=OpenAIProvider(f"{url}/v1", api_key=key))

    def says(
        self, *calls: Call, text: str = "", is_refused: bool = False, usage: int = 100
    ) -> ServerAnswer:
        """Build an answer of calls and text, or a refusal; a usage of 0 is not reported."""
        finish = "content_filter" if is_refused else "tool_calls" if calls else "stop"
        wanted = [
            {
                "id": f"call_{n}",
                "type": "function",
                "function": {"name": name, "arguments": _text(arguments)},
            }
            for n, (name, arguments) in enumerate(calls)
        ]
        message: dict[str, Any] = {"role": "assistant", "content": text}
        deltas: list[Any] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": word} for word in _words(text)]
        for n, call in enumerate(wanted):
            deltas.append({"tool_calls": [{"index": n, **call}]})
        if wanted:
            message["tool_calls"] = wanted
        used = {"prompt_tokens": usage, "completion_tokens": 10, "total_tokens": usage + 10}
        more = {"usage": used} if usage else {}
        choice = {"index": 0, "message": message, "finish_reason": finish}
        chunks = [_chunk([{"index": 0, "delta": delta}]) for delta in deltas]
        chunks += [_chunk([{"index": 0, "delta": {}, "finish_reason": finish}]), _chunk([], **more)]
        events = [f"data: {json.dumps(one)}\n\n" for one in chunks]
        return ServerAnswer(
            {**_chunk([choice], **more), "object": "chat.completion"},
            events=[*events, "data: [DONE]\n\n"],
        )

    def fails(self, status: int, message: str, *headers: tuple[str, str]) -> ServerAnswer:
        """Build an answer with an error: its HTTP status, message, and further headers."""
        return ServerAnswer(
            {"error": {"message": message, "type": "e"}}, status=status, headers=headers
        )

    def read(self, request: ReceivedRequest) -> ParsedRequest:
        """Parse a request."""
        messages = request.body["messages"]
        user = next(one["content"] for one in messages if one["role"] == "user")
        return ParsedRequest(
            system=next(one["content"] for one in messages if one["role"] == "system"),
            user=[one["text"] for one in _blocks(user)],
            answers=[
                [call["function"]["name"] for call in one.get("tool_calls", ())]
                for one in messages
                if one["role"] == "assistant"
            ],
            results={x["tool_call_id"]: x["content"] for x in messages if x["role"] == "tool"},
            tools=[one["function"]["name"] for one in request.body["tools"]],
        )


class Anthropic:
    """The wire format of Anthropic's messages."""

    name = "anthropic"

    def model(self, url: str, key: str = "sk-test") -> "Model":
        """Return a model of pydantic-ai that requests its answers from a server.

        Args:
            url: Address of the server.
            key: Key that is sent.
        """
        from pydantic_ai.models.anthropic import AnthropicModel  # noqa: PLC0415  # the extra `llm`
        from pydantic_ai.providers.anthropic import AnthropicProvider  # noqa: PLC0415  # the extra `llm`

        return AnthropicModel(
            "claude-haiku-4-5", provider=AnthropicProvider(api_key=key, base_url=url)
        )

    def says(
        self, *calls: Call, text: str = "", is_refused: bool = False, usage: int = 100
    ) -> ServerAnswer:
        """Build an answer of calls and text, or a refusal."""
        used = {"input_tokens": usage, "output_tokens": 10}
        stop = "refusal" if is_refused else "tool_use" if calls else "end_turn"
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
        blocks += [
            {"type": "tool_use", "id": f"call_{n}", "name": name, "input": arguments}
            for n, (name, arguments) in enumerate(calls)
        ]
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": _message([], None, used)}
        ]
        for index, block in enumerate(blocks):
            events += _block_events(index, block)
        ends = {"stop_reason": stop, "stop_sequence": None}
        events += [
            {"type": "message_delta", "delta": ends, "usage": {"output_tokens": 10}},
            {"type": "message_stop"},
        ]
        return ServerAnswer(
            _message(blocks, stop, used),
            events=[f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events],
        )

    def fails(self, status: int, message: str, *headers: tuple[str, str]) -> ServerAnswer:
        """Build an answer with an error: its HTTP status, message, and further headers."""
        body = {"type": "error", "error": {"type": "e", "message": message}}
        return ServerAnswer(body, status=status, headers=headers)

    def read(self, request: ReceivedRequest) -> ParsedRequest:
        """Parse a request."""
        system = request.body["system"]
        messages = request.body["messages"]
        return ParsedRequest(
            system="".join(one["text"] for one in _blocks(system)),
            user=[one["text"] for one in _blocks(messages[0]["content"])],
            answers=[
                [one["name"] for one in _blocks(said["content"]) if one["type"] == "tool_use"]
                for said in messages
                if said["role"] == "assistant"
            ],
            results={
                one["tool_use_id"]: "".join(part["text"] for part in _blocks(one["content"]))
                for said in messages
                for one in _blocks(said["content"])
                if one["type"] == "tool_result"
            },
            tools=[one["name"] for one in request.body["tools"]],
        )


class Responses(OpenAI):
    """The wire format of OpenAI's responses (`openai:…`), without an event stream."""

    name = "responses"

    def model(self, url: str, key: str = "sk-test") -> "Model":
        """Return a model of pydantic-ai that requests its answers from a server.

        Args:
            url: Address of the server.
            key: Key that is sent.
        """
        from pydantic_ai.models.openai import OpenAIResponsesModel  # noqa: PLC0415  # the extra `llm`
        from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415  # the extra `llm`

        return OpenAIResponsesModel("gpt-5-mini", provider=OpenAIProvider(f"{url}/v1", api_key=key))

    def says(
        self, *calls: Call, text: str = "", is_refused: bool = False, usage: int = 100
    ) -> ServerAnswer:
        """Build an answer of calls and text, or a refusal."""
        said = {"type": "output_text", "text": text, "annotations": []}
        if is_refused:
            said = {"type": "refusal", "refusal": text}
        message = {"type": "message", "id": "m1", "role": "assistant", "status": "completed"}
        output: list[dict[str, Any]] = [{**message, "content": [said]}] if text else []
        output += [
            {
                "type": "function_call",
                "id": f"fc_{n}",
                "call_id": f"call_{n}",
                "name": name,
                "arguments": _text(arguments),
                "status": "completed",
            }
            for n, (name, arguments) in enumerate(calls)
        ]
        used = {
            "input_tokens": usage,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 10,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage + 10,
        }
        return ServerAnswer(
            {
                "id": "r1",
                "object": "response",
                "created_at": 1,
                "model": "gpt-5-mini",
                "status": "completed",
                "output": output,
                "parallel_tool_calls": True,
                "tool_choice": "auto",
                "tools": [],
                "usage": used,
            }
        )

    def read(self, request: ReceivedRequest) -> ParsedRequest:
        """Parse a request."""
        items = request.body["input"]
        user = next(one["content"] for one in items if one.get("role") == "user")
        system = [one["content"] for one in items if one.get("role") in {"system", "developer"}]
        called = [one["name"] for one in items if one.get("type") == "function_call"]
        return ParsedRequest(
            system=request.body.get("instructions") or system[0],
            user=[one["text"] for one in _blocks(user)],
            answers=[called] if called else [],
            results={
                one["call_id"]: one["output"]
                for one in items
                if one.get("type") == "function_call_output"
            },
            tools=[one["name"] for one in request.body["tools"]],
        )


Wire = OpenAI | Anthropic
"""The wire format of a model server."""


def _chunk(choices: list[Any], **more: object) -> dict[str, Any]:
    return {
        "id": "c1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt-5-mini",
        "choices": choices,
        **more,
    }


def _message(content: list[Any], stop: str | None, usage: object) -> dict[str, Any]:
    return {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-4-5",
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }


def _block_events(index: int, block: dict[str, Any]) -> list[dict[str, Any]]:
    if block["type"] == "text":
        begun: dict[str, Any] = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": word} for word in _words(block["text"])]
    else:
        begun = {**block, "input": {}}
        written = _text(block["input"])
        deltas = [
            {"type": "input_json_delta", "partial_json": part}
            for part in (written[:3], written[3:])
        ]
    return [
        {"type": "content_block_start", "index": index, "content_block": begun},
        *[{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas],
        {"type": "content_block_stop", "index": index},
    ]


def _words(text: str) -> list[str]:
    return [word for word in text.replace(" ", " \0").split("\0") if word]


def _text(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _blocks(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
