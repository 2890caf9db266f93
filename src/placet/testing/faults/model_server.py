"""A local provider of language models: it answers by a script and counts requests.

The clients that reach it are the real ones. A step of the script is what one request is answered
with; what was asked is kept, so that a test reads what would have left the machine.
"""

import asyncio
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple

import anyio

Call = tuple[str, Any]
"""Name of a tool, and its arguments: a value, or the text that a model wrote."""


class ReceivedRequest(NamedTuple):
    """One request that came."""

    path: str
    headers: dict[str, str]
    body: Any


class Step(NamedTuple):
    """How one request is answered.

    Attributes:
        body: JSON.
        events: The same as an event stream, for a client that asks for one.
        status: Of HTTP.
        headers: Besides the usual ones.
        is_cut: The connection ends before the answer does.
        is_silent: Nothing comes until the client gives up.
        text: Sent instead of the JSON, if it is not empty.
        kind: Media type of the answer.
    """

    body: Any = None
    events: Sequence[str] = ()
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    is_cut: bool = False
    is_silent: bool = False
    text: str = ""
    kind: str = "application/json"


class Provider:
    """Serves a script; `async with Provider(steps) as provider`.

    Attributes:
        asked: Every request, in order.
        left: Set when a client has gone away from a request that was not answered.
        url: Where it is.
    """

    def __init__(self, steps: Iterable[Step]) -> None:
        self._steps: Iterator[Step] = iter(steps)
        self.asked: list[ReceivedRequest] = []
        self.came = asyncio.Event()
        self.left = asyncio.Event()
        self.url = ""
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def __aenter__(self) -> "Provider":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        for writer in self._open.values():
            writer.close()
        with anyio.CancelScope(shield=True):
            await self.emptied()

    async def emptied(self) -> None:
        """Wait until every client has hung up."""
        await asyncio.gather(*self._open)

    def step(self, asked: ReceivedRequest) -> Step:
        """Return the next step of the script; a provider without a script overrides it."""
        over = Step({"error": {"message": "the script is over"}}, status=400)
        return next(self._steps, over)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while (asked := await _read(reader)) is not None:
                self.asked.append(asked)
                self.came.set()
                step = self.step(asked)
                if step.is_silent:
                    await reader.read()
                    self.left.set()
                    break
                await _write(writer, step, is_stream=asked.body.get("stream", False))
                if step.is_cut:
                    break
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def _read(reader: asyncio.StreamReader) -> ReceivedRequest | None:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return ReceivedRequest(first.split(" ")[1], headers, json.loads(body))


async def _write(writer: asyncio.StreamWriter, step: Step, *, is_stream: bool) -> None:
    is_stream = is_stream and bool(step.events)
    chunks = step.events if is_stream else [step.text or json.dumps(step.body)]
    kind = "text/event-stream" if is_stream else step.kind
    head = [f"HTTP/1.1 {step.status} Said", f"content-type: {kind}", "transfer-encoding: chunked"]
    head += [f"{name}: {value}" for name, value in step.headers]
    writer.write("\r\n".join([*head, "", ""]).encode())
    if step.is_cut:
        chunks = [*chunks[:-1], chunks[-1][: len(chunks[-1]) // 2]]
    for chunk in chunks:
        data = chunk.encode()
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await writer.drain()
    if not step.is_cut:
        writer.write(b"0\r\n\r\n")
    await writer.drain()


# the two wire formats


class ParsedRequest(NamedTuple):
    """A request, as parsed from either wire format.

    Attributes:
        system: The system prompt.
        user: The first message of the user, its blocks.
        answers: The model's own answers: names of the tools called in each.
        results: What was said to each call, by its id.
        tools: Names of the tools offered.
    """

    system: str
    user: list[str]
    answers: list[list[str]]
    results: dict[str, str]
    tools: list[str]


class OpenAI:
    """OpenAI's chat completions."""

    name = "openai"

    def model(self, url: str, key: str = "sk-test") -> Any:
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        return OpenAIChatModel("gpt-5-mini", provider=OpenAIProvider(f"{url}/v1", api_key=key))

    def says(
        self, *calls: Call, text: str = "", is_refused: bool = False, usage: int = 100
    ) -> Step:
        """Answer with text and calls, or refuse; usage 0 is not reported."""
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
        return Step(
            {**_chunk([choice], **more), "object": "chat.completion"},
            events=[*events, "data: [DONE]\n\n"],
        )

    def fails(self, status: int, message: str, *headers: tuple[str, str]) -> Step:
        return Step({"error": {"message": message, "type": "e"}}, status=status, headers=headers)

    def read(self, asked: ReceivedRequest) -> ParsedRequest:
        messages = asked.body["messages"]
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
            tools=[one["function"]["name"] for one in asked.body["tools"]],
        )


class Anthropic:
    """Anthropic's messages."""

    name = "anthropic"

    def model(self, url: str, key: str = "sk-test") -> Any:
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        return AnthropicModel(
            "claude-haiku-4-5", provider=AnthropicProvider(api_key=key, base_url=url)
        )

    def says(
        self, *calls: Call, text: str = "", is_refused: bool = False, usage: int = 100
    ) -> Step:
        """Answer with text and calls, or refuse."""
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
        return Step(
            _message(blocks, stop, used),
            events=[f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events],
        )

    def fails(self, status: int, message: str, *headers: tuple[str, str]) -> Step:
        body = {"type": "error", "error": {"type": "e", "message": message}}
        return Step(body, status=status, headers=headers)

    def read(self, asked: ReceivedRequest) -> ParsedRequest:
        system = asked.body["system"]
        messages = asked.body["messages"]
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
            tools=[one["name"] for one in asked.body["tools"]],
        )


class Responses(OpenAI):
    """OpenAI's responses, which `openai:…` names; no event stream."""

    name = "responses"

    def model(self, url: str, key: str = "sk-test") -> Any:
        from pydantic_ai.models.openai import OpenAIResponsesModel
        from pydantic_ai.providers.openai import OpenAIProvider

        return OpenAIResponsesModel("gpt-5-mini", provider=OpenAIProvider(f"{url}/v1", api_key=key))

    def says(
        self, *calls: Call, text: str = "", is_refused: bool = False, usage: int = 100
    ) -> Step:
        """Answer with text and calls, or refuse."""
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
        return Step(
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

    def read(self, asked: ReceivedRequest) -> ParsedRequest:
        items = asked.body["input"]
        user = next(one["content"] for one in items if one.get("role") == "user")
        system = [one["content"] for one in items if one.get("role") in {"system", "developer"}]
        called = [one["name"] for one in items if one.get("type") == "function_call"]
        return ParsedRequest(
            system=asked.body.get("instructions") or system[0],
            user=[one["text"] for one in _blocks(user)],
            answers=[called] if called else [],
            results={
                one["call_id"]: one["output"]
                for one in items
                if one.get("type") == "function_call_output"
            },
            tools=[one["name"] for one in asked.body["tools"]],
        )


Wire = OpenAI | Anthropic


def _chunk(choices: list[Any], **more: Any) -> dict[str, Any]:
    return {
        "id": "c1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt-5-mini",
        "choices": choices,
        **more,
    }


def _message(content: list[Any], stop: str | None, usage: Any) -> dict[str, Any]:
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


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
