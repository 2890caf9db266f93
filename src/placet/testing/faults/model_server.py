"""A server of language models that answers by a script, over HTTP on this machine.

Adapters reach it through the real clients of the providers. A script lists the answer to each
request: a proposal, a failure such as 429, an answer that is slow, cut off or no JSON, or none at
all. The server keeps each request, so that a test can read the data that left the process.
"""

import asyncio
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import anyio


class ReceivedRequest(NamedTuple):
    """A request to the server.

    Attributes:
        path: Path of its address.
        headers: Its headers, by name in lower case.
        body: Its JSON.
    """

    path: str
    headers: dict[str, str]
    body: Any


class ServerAnswer(NamedTuple):
    """The answer to one request; `OpenAI().says(...)` and `.fails(...)` build it.

    Attributes:
        body: JSON.
        events: The same as an event stream, for a client that requests one.
        status: HTTP status.
        headers: Further headers.
        is_cut: The connection ends before the answer does.
        is_silent: No answer is sent until the client disconnects.
        text: Sent instead of the JSON, if it is not empty.
        kind: Media type.
        delay_seconds: Real seconds before the answer is sent.
    """

    body: Any = None
    events: Sequence[str] = ()
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    is_cut: bool = False
    is_silent: bool = False
    text: str = ""
    kind: str = "application/json"
    delay_seconds: float = 0.0


class ScriptedModelServer:
    """A server that answers requests by a script: `async with ScriptedModelServer(answers)`.

    Args:
        answers: The answers in the order of the requests; later requests get status 400.

    Attributes:
        requests: All requests, in order.
        received: Set when a request was received.
        disconnected: Set when a client disconnected from a request without an answer.
        url: Address of the server.
    """

    def __init__(self, answers: Iterable[ServerAnswer]) -> None:
        self._answers: Iterator[ServerAnswer] = iter(answers)
        self.requests: list[ReceivedRequest] = []
        self.received = asyncio.Event()
        self.disconnected = asyncio.Event()
        self.url = ""
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def __aenter__(self) -> "ScriptedModelServer":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._open.values():
            writer.close()
        with anyio.CancelScope(shield=True):
            await self.wait_disconnected()

    async def wait_disconnected(self) -> None:
        """Wait until all clients have disconnected."""
        await asyncio.gather(*self._open)

    def answer_to(self, request: ReceivedRequest) -> ServerAnswer:  # for subclasses
        """Return the next answer of the script; a subclass may choose by the request."""
        over = ServerAnswer({"error": {"message": "the script is over"}}, status=400)
        return next(self._answers, over)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while (request := await _read(reader)) is not None:
                self.requests.append(request)
                self.received.set()
                answer = self.answer_to(request)
                if answer.is_silent:
                    await reader.read()
                    self.disconnected.set()
                    break
                await asyncio.sleep(answer.delay_seconds)
                await _write(writer, answer, is_stream=request.body.get("stream", False))
                if answer.is_cut:
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


async def _write(writer: asyncio.StreamWriter, answer: ServerAnswer, *, is_stream: bool) -> None:
    is_stream = is_stream and bool(answer.events)
    chunks = answer.events if is_stream else [answer.text or json.dumps(answer.body)]
    kind = "text/event-stream" if is_stream else answer.kind
    head = [
        f"HTTP/1.1 {answer.status} Scripted",
        f"content-type: {kind}",
        "transfer-encoding: chunked",
    ]
    head += [f"{name}: {value}" for name, value in answer.headers]
    writer.write("\r\n".join([*head, "", ""]).encode())
    if answer.is_cut:
        chunks = [*chunks[:-1], chunks[-1][: len(chunks[-1]) // 2]]
    for chunk in chunks:
        data = chunk.encode()
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await writer.drain()
    if not answer.is_cut:
        writer.write(b"0\r\n\r\n")
    await writer.drain()
