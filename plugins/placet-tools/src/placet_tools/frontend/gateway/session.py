"""One client of a gateway and its connection to the server.

`tools/list`, `tools/call` and the cancellation of a call are answered here; every other message
passes, in both directions. The gateway's own requests have ids that no client can guess.
"""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from itertools import count
from typing import Any, Final, TypeVar
from uuid import uuid4

from msgspec import Raw
from msgspec.json import decode

from placet.schemas.codec import Json
from placet_tools.frontend import jsonrpc
from placet_tools.frontend.gateway.calls import Calls
from placet_tools.frontend.gateway.declarations import TOOLS_MAX, own_tools
from placet_tools.frontend.gateway.links import MessageLink
from placet_tools.frontend.gateway.tool_gate import (
    GATE_ERRORS,
    LiveCall,
    Notify,
    ServerFault,
    ToolGate,
)
from placet_tools.frontend.jsonrpc import Message, MessageInvalid

_PAGES_MAX: Final = TOOLS_MAX
_GRACE_S: Final = 1.5
"""Seconds for which calls go on that run when a client leaves: it ends this process after 2 s."""

_INPUT_REQUIRED: Final = b'"input_required"'
_META: Final = "_meta"
_PROGRESS: Final = "progressToken"
_NEVER_RAN: Final = frozenset({jsonrpc.METHOD_NOT_FOUND, jsonrpc.INVALID_PARAMS})


_T = TypeVar("_T")


class GatewaySession:
    """Passes messages between a client and the server, and answers calls of tools itself.

    Args:
        gate: The gate.
        client: MessageLink to the client.
        server: MessageLink to the server.
        notify: Reports a line to the operator.

    Attributes:
        has_answered: The server has sent a message.
    """

    def __init__(
        self, gate: ToolGate, client: MessageLink, server: MessageLink, notify: Notify
    ) -> None:
        self._gate = gate
        self._client = client
        self._server = server
        self._notify = notify
        self._prefix = f"placet-{uuid4().hex[:12]}"
        self._numbers = count()
        self._pending: dict[jsonrpc.Id, asyncio.Future[Message]] = {}
        self._waiting: set[jsonrpc.Id] = set()
        self._answering: set[jsonrpc.Id] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._meta: Mapping[str, Json] = {}
        self._is_listed = False
        self._listing = asyncio.Lock()
        self._calls = Calls(gate, self)
        self.has_answered = False
        self._has_ended = False

    async def run(self) -> bool:
        """Pass messages until one of the ends closes; return whether it was the server's."""
        self._gate.connect(self)
        from_client = asyncio.create_task(self._read_client())
        from_server = asyncio.create_task(self._read_server())
        try:
            ends: tuple[asyncio.Task[None], ...] = (from_client, from_server)
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if from_server in done:
                await self._fail_all()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=_GRACE_S)
            for end in done:
                end.result()
            return from_server in done
        finally:
            self._gate.disconnect(self)
            tasks = [from_client, from_server, *self._tasks]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # from the client

    async def _read_client(self) -> None:
        async for line in self._client.lines():
            if line is None:
                message = "a message is too long"
                await self._to_client(jsonrpc.failure(None, jsonrpc.INVALID_REQUEST, message))
            elif line.strip():
                await self._from_client(line)

    async def _from_client(self, line: bytes) -> None:
        try:
            message = jsonrpc.read(line)
            method = jsonrpc.value_of(message, "method")
            number: jsonrpc.Id = jsonrpc.value_of(message, "id")
            if not isinstance(number, int | float | str | None):
                raise MessageInvalid(jsonrpc.INVALID_REQUEST, "an id is a number or a text")
            await self._route(message, method, number)
        except MessageInvalid as error:
            await self._to_client(jsonrpc.failure(None, error.code, str(error)))

    async def _route(self, message: Message, method: Json, number: jsonrpc.Id) -> None:
        """Answer a message of the client, or pass it on."""
        match method:
            case "tools/call":
                self._answer(number, self._calls.answer(jsonrpc.object_of(message, "params")))
                return
            case "tools/list":
                self._answer(number, self._list(jsonrpc.object_of(message, "params")))
                return
            case "notifications/cancelled":
                canceled = jsonrpc.object_of(message, "params").get("requestId")
                if canceled in self._answering:  # the call continues; its answer is not sent
                    self._answering.discard(canceled)
                    return
            case "initialize":
                self._calls.take_capabilities(jsonrpc.object_of(message, "params"))
            case None if number in self._pending:
                self._pending.pop(number).set_result(message)
                return
        if method is not None and number is not None:
            self._waiting.add(number)
        await self._to_server(jsonrpc.written(message))

    def _answer(self, number: jsonrpc.Id, work: Coroutine[object, object, Json | Raw]) -> None:
        """Answer a request of the client in a separate task."""
        if number is None:  # a notification of this name has no answer and no effect
            work.close()
            return
        self._answering.add(number)
        self.start(self._answered(number, work))

    async def _answered(
        self, number: jsonrpc.Id, work: Coroutine[object, object, Json | Raw]
    ) -> None:
        try:
            answer = jsonrpc.response(number, await work)
        except MessageInvalid as error:
            answer = jsonrpc.failure(number, error.code, str(error))
        except (*GATE_ERRORS, ServerFault) as error:
            answer = jsonrpc.failure(number, jsonrpc.SERVER_ERROR, str(error))
        if number in self._answering:  # it was not canceled
            self._answering.discard(number)
            await self._to_client(answer)

    def start(self, work: Coroutine[object, object, _T]) -> "asyncio.Task[_T]":
        """Start work that ends with the session."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # from the server

    async def _read_server(self) -> None:
        async for line in self._server.lines():
            if line is None:
                self._notify("a message of the server is too long, and is dropped")
            elif line.strip():
                await self._from_server(line)

    async def _from_server(self, line: bytes) -> None:
        try:
            message = jsonrpc.read(line)
            method = jsonrpc.value_of(message, "method")
            number: jsonrpc.Id = jsonrpc.value_of(message, "id")
            is_response = method is None and isinstance(number, int | float | str)
        except MessageInvalid as error:
            self._notify(f"the server printed no message, which is dropped: {error}")
            return
        self.has_answered = True
        if is_response and number in self._pending:
            self._pending.pop(number).set_result(message)
            return
        if is_response:
            self._waiting.discard(number)
        if method == "notifications/tools/list_changed":
            self._is_listed = False
        await self._to_client(line)

    async def _fail_all(self) -> None:
        """Answer the requests that a server which ended leaves open."""
        self._has_ended = True
        fault = ServerFault("the server ended before it had answered")
        for answer in self._pending.values():
            answer.set_exception(fault)
        self._pending.clear()
        for number in self._waiting:
            await self._to_client(jsonrpc.failure(number, jsonrpc.SERVER_ERROR, str(fault)))
        self._waiting.clear()

    # the gateway's own requests

    async def ask_server(self, method: str, params: Json) -> Raw:
        """Send a request of the gateway to the server, and return the result.

        Raises:
            ServerFault: The server answered with an error, or has ended.
        """
        if self._has_ended:
            raise ServerFault("the server has ended", was_not_done=True)
        message = await self._ask(self._server, method, params)
        if "error" not in message:
            return message.get("result", Raw(b"null"))
        error = decode(message["error"])
        code = error.get("code") if isinstance(error, Mapping) else None
        text = error.get("message") if isinstance(error, Mapping) else None
        raise ServerFault(f"the server answered: {text} ({code})", was_not_done=code in _NEVER_RAN)

    async def ask_client(self, method: str, params: Json) -> Json:
        """Send a request of the gateway to the client; return the result, or None for an error."""
        message = await self._ask(self._client, method, params)
        return jsonrpc.value_of(message, "result")

    async def _ask(self, link: MessageLink, method: str, params: Json) -> Message:
        number = f"{self._prefix}-{next(self._numbers)}"
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._pending[number] = answer
        try:
            await link.send(jsonrpc.request(number, method, params))
            return await answer
        except OSError as error:
            raise ServerFault(f"the request could not be sent: {error}") from error
        finally:
            self._pending.pop(number, None)

    async def run_tool(self, tool: str, arguments: Json, call: LiveCall | None) -> Raw:
        """Call a tool of the server, and return the unchanged result."""
        params: dict[str, Json] = {"name": tool, "arguments": arguments}
        meta = self._meta if call is None else call.meta
        if meta:
            params[_META] = meta
        while True:
            raw = await self.ask_server("tools/call", params)
            question = _question_in(raw)
            if question is None:
                return raw
            if call is None:
                raise ServerFault("the server asks for input, and no client waits")
            call.answer = asyncio.get_running_loop().create_future()
            call.questions.put_nowait(question)
            params["inputResponses"] = await call.answer
            if "requestState" in question:
                params["requestState"] = question["requestState"]

    # the list of tools

    def see_meta(self, meta: Mapping[str, Json]) -> None:
        """Keep the fields of a request that name protocol and client, for requests of ours."""
        self._meta = {name: value for name, value in meta.items() if name != _PROGRESS}

    async def ensure_listed(self) -> None:
        """List the tools of the server, if that was not done since they changed."""
        if not self._is_listed:
            await self._relist()

    async def _list(self, params: Mapping[str, Json]) -> Json:
        """Return all tools that may be called, with the gateway's own, on one page."""
        if "cursor" in params:
            raise MessageInvalid(jsonrpc.INVALID_PARAMS, "the tools have one page, and no cursor")
        self.see_meta(params.get(_META) or {})
        listed, page = await self._relist()
        known = await self._gate.shown()
        tools = [{**one, **known.get(one["name"], {})} for one in listed]
        return {**page, "tools": [*tools, *own_tools()]}

    async def _relist(self) -> tuple[Sequence[Mapping[str, Json]], Mapping[str, Json]]:
        """Return the tools that may be called, and the other fields of the server's last page."""
        async with self._listing:
            self._is_listed = True  # a change while they are listed lists them again
            try:
                listed, page = await self._pages()
                names = await self._gate.declare(listed)
            except BaseException:
                self._is_listed = False
                raise
        first: dict[str, Mapping[str, Json]] = {}
        for one in listed:
            if isinstance(one, Mapping) and one.get("name") in names:
                first.setdefault(one["name"], one)
        return list(first.values()), page

    async def _pages(self) -> tuple[list[Json], Mapping[str, Json]]:
        listed: list[Json] = []
        params: dict[str, Json] = {_META: self._meta} if self._meta else {}
        for _ in range(_PAGES_MAX):
            page = decode(await self.ask_server("tools/list", params))
            if not isinstance(page, dict) or not isinstance(page.get("tools"), list):
                raise ServerFault("the server lists no tools: expected an array `tools`")
            listed += page.pop("tools")
            cursor = page.pop("nextCursor", None)
            if cursor is None or len(listed) > TOOLS_MAX:
                return listed, page
            params = {**params, "cursor": cursor}
        raise ServerFault(f"the list of the server's tools has over {_PAGES_MAX} pages")

    # lines

    async def _to_client(self, line: bytes) -> None:
        await self._client.send(line)

    async def _to_server(self, line: bytes) -> None:
        try:
            await self._server.send(line)
        except OSError:
            return  # it ended; open requests are answered when its output ends


def _question_in(raw: Raw) -> dict[str, Json] | None:
    """Return the result of a call if it asks for input before the call continues; else None."""
    if _INPUT_REQUIRED not in bytes(raw):
        return None
    result = decode(raw)
    is_question = isinstance(result, dict) and result.get("resultType") == "input_required"
    return result if is_question else None
