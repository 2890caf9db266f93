"""Batches over a WebSocket: each message of a client is a batch, and has one answer.

A message is submitted as `POST batches` would, by the same function and in the order of arrival;
verdicts are sent as they are made. At most `socket_in_flight_max` are unanswered: then no further
message is read, and so the client's own socket becomes full. On the same WebSocket the client may
have its events or observations.

A batch whose WebSocket ends is decided all the same. Its verdict is returned for the same req_ids
again, over a WebSocket or by POST, or on request.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, NoReturn

from msgspec import Meta
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from placet.runtime.orchestrator import Orchestrator
from placet.runtime.verdict_json import verdict_line
from placet.schemas.codec import Json, from_json, to_json
from placet.schemas.errors import PlacetError
from placet.schemas.json_value import format_value
from placet.server.context import RequestContext, context_of
from placet.server.http.fair_share import admit_message
from placet.server.http.message_frames import TOO_BIG, UNSUPPORTED
from placet.server.http.parameters import END, Fields, read_fields, read_query
from placet.server.http.problems import Problem, deny, problem_of
from placet.server.http.routing import WORLD_PREFIX
from placet.server.http.stream_protocol import SERVICE_RESTART, allow_messages
from placet.server.http.verdict_status import retry_after, status_of
from placet.server.roles import Role
from placet.server.routes.stream import EventStream, StreamQuery, accept, admit
from placet.server.served_socket import ServedSocket, SocketEnd
from placet.server.streams import NO_MORE_STREAMS
from placet.server.submission import BARE_KEY, Submission, submit, window_of

_NUMBER_MAX: Final = 2**53 - 1
"""The largest integer that every JSON parser keeps exact."""


class BatchSocketQuery(StreamQuery, frozen=True):
    """The query parameters of `take_batches`: those of the stream.

    Attributes:
        events: Send events, too; without it and `observe`, only answers are sent.
    """

    events: bool = False


class BatchMessage(Fields, frozen=True):
    """A message of a client.

    Attributes:
        number: Chosen by the client; the answer has the same.
        batch: The body of `POST batches`, as JSON.
        key: The value of the header `Idempotency-Key`.
    """

    number: Annotated[int, Meta(ge=0, le=_NUMBER_MAX, description="an integer, 0 to 2**53 - 1")]
    batch: Any
    key: (
        Annotated[
            str, Meta(pattern=f"^{BARE_KEY}{END}", description="1 to 124 visible ASCII characters")
        ]
        | None
    ) = None


async def take_batches(socket: WebSocket) -> None:
    """Decide the batches that a client sends, and send their verdicts."""
    context = context_of(socket)
    try:
        query = read_query(socket.scope["query_string"], BatchSocketQuery)
        caller = context.caller(socket)  # keeps the principal for each message
        who, world = context.enter(socket, socket.path_params["world"], needs=Role.AGENT)
        assert caller is not None, "a token without a caller is refused before"
        if context.is_draining:
            raise Problem("unavailable", NO_MORE_STREAMS)
        sent = None
        if _is_shown(query):
            sent = await admit(context, who, world, query)
            await context.reads.require(caller)
        context.streams.enter(caller)
    except Problem as problem:
        await deny(socket, problem)
        return
    try:
        allow_messages(socket.scope)
        await accept(socket)
        served = ServedSocket(socket, context.limits.stream_send_seconds_max)
        batches = _Batches(context, socket, served)
        await served.send(_opening(context, world))
        if sent is None:
            await served.run(batches.receive())
            return
        sight, latency = sent
        shown = EventStream(context, world, served, sight, context.principal(socket))
        sending = (
            shown.observe(latency)
            if query.observe
            else shown.follow(query.since, query.from_record)
        )
        await served.run(sending, batches.receive())
    except (TimeoutError, WebSocketDisconnect):
        return  # before the first message was sent
    finally:
        context.streams.leave(caller)


route = WebSocketRoute(f"{WORLD_PREFIX}/batches", take_batches)


def _is_shown(query: BatchSocketQuery) -> bool:
    """Return whether a client is sent events or observations.

    Raises:
        Problem: The parameters contradict each other.
    """
    if query.events and query.observe:
        raise Problem("request_invalid", "events=true or observe=true, and not both")
    if not query.events and not query.observe:
        inert = [
            name
            for name in StreamQuery.__struct_fields__
            if getattr(query, name) is not None and getattr(query, name) is not False
        ]
        if inert:
            names = ", ".join(inert)
            raise Problem("request_invalid", f"{names}: is for events=true or observe=true")
    return query.events or query.observe


def _opening(context: RequestContext, world: Orchestrator) -> str:
    """Return the first message: the bounds of a client, and how long a batch is safe to repeat."""
    req_ids, seconds = window_of(world)
    opening = {
        "type": "open",
        "seq": world.seq,
        "sim_time": world.sim_time,
        "message_bytes_max": context.limits.socket_message_bytes_max,
        "in_flight_max": context.limits.socket_in_flight_max,
        "window": {"req_ids": req_ids, "seconds": seconds},
    }
    return to_json(opening).decode()


class _Batches:
    """The batches that one client sends."""

    def __init__(self, context: RequestContext, socket: WebSocket, served: ServedSocket) -> None:
        self._context = context
        self._socket = socket
        self._served = served
        self._is_operator = context.is_operator(socket)
        self._room = asyncio.Semaphore(context.limits.socket_in_flight_max)

    async def receive(self) -> NoReturn:
        """Submit the messages of the client, until it disconnects or the server ends.

        Raises:
            SocketEnd: The server ends, or the client sent no text.
            WebSocketDisconnect: The client is gone.
        """
        async with asyncio.TaskGroup() as answering:
            while True:
                await self._room.acquire()
                message = await self._socket.receive()
                if message["type"] == "websocket.disconnect":
                    break
                await self._take(message.get("text"), answering)
            if message.get("code") != SERVICE_RESTART:
                raise WebSocketDisconnect(message.get("code", 1006))
            self._room.release()
            await self._answer_all()
        raise SocketEnd(SERVICE_RESTART, "the server ends; connect again and send again")

    async def _answer_all(self) -> None:
        """Wait until each batch is answered, for half of the time that the server has to end."""
        try:
            async with asyncio.timeout(self._context.shutdown_seconds_max / 2):
                for _ in range(self._context.limits.socket_in_flight_max):
                    await self._room.acquire()
        except TimeoutError:
            reason = "the server ends before all is answered; connect again and send again"
            raise SocketEnd(SERVICE_RESTART, reason) from None

    async def _take(self, text: str | None, answering: asyncio.TaskGroup) -> None:
        """Submit one message, and answer it in a task; a problem is answered here."""
        if text is None:
            raise SocketEnd(UNSUPPORTED, "a message is JSON in a text frame")
        encoded = text.encode()
        bytes_max = self._context.limits.socket_message_bytes_max
        if len(encoded) > bytes_max:
            raise SocketEnd(TOO_BIG, f"a message has at most {bytes_max} bytes")
        number: int | None = None
        try:
            document = _document(encoded)
            number = _number_of(document)
            submission, release = await self._submit(document, len(encoded))
        except (Problem, PlacetError) as error:
            await self._served.send(self._problem(number, error))
            self._room.release()
            return
        assert number is not None, "a message without one is a problem"
        answering.create_task(self._answer(number, submission, release))

    async def _submit(
        self, document: dict[str, Json], size: int
    ) -> tuple[Submission, Callable[[], None]]:
        """Submit the batch of a message; return also what ends the work on its bytes.

        Raises:
            Problem: The message is invalid, or the token may not submit any more.
            ClosedError, StoreError: The world is closed, or has failed.
        """
        # A batch is judged by the gate, and not by the fields of the message.
        message = read_fields(
            {**document, "batch": None} if "batch" in document else document, BatchMessage
        )
        name = self._socket.path_params["world"]
        release = await admit_message(
            self._socket.scope, self._context.principal(self._socket), size
        )
        try:
            # As for each POST: the token may have lost the world, which may have been reopened.
            who, world = self._context.enter(self._socket, name, needs=Role.AGENT)
            submission = submit(world, who, document["batch"], key=message.key)
        except BaseException:
            release()
            raise
        if submission.waits_for_step:
            release()
        return submission, release

    async def _answer(
        self, number: int, submission: Submission, release: Callable[[], None]
    ) -> None:
        """Send the verdict of a batch, once it is decided."""
        try:
            verdict = await submission.pending
            diff = await submission.diff(verdict)
            head = f'{{"type":"verdict","number":{number},"status":{int(status_of(verdict))},'
            seconds = retry_after(verdict)
            if seconds is not None:
                head += f'"retry_after":{verdict.refusals[0].retry_after or seconds},'
            text = f'{head}"verdict":{verdict_line(verdict, diff).decode()}}}'
        except PlacetError as error:
            text = self._problem(number, error)
        finally:
            release()
        await self._served.send(text)
        self._room.release()

    def _problem(self, number: int | None, error: Problem | PlacetError) -> str:
        """Return the answer to a message without a verdict, as POST has it."""
        problem = error if isinstance(error, Problem) else problem_of(error)
        document = problem.document(is_operator=self._is_operator)
        return to_json({"type": "problem", "number": number, "problem": document}).decode()


def _number_of(document: Mapping[str, Json]) -> int | None:
    """Return the number of a message; None without a valid one. 7.0 is 7, as to JSON Schema."""
    number = document.get("number")
    if type(number) is float and number.is_integer():
        number = int(number)
    return number if type(number) is int and 0 <= number <= _NUMBER_MAX else None


def _document(encoded: bytes) -> dict[str, Json]:
    """Return a message as JSON.

    Raises:
        Problem: It is no JSON object.
    """
    try:
        value = from_json(encoded)
    except ValueError as error:
        raise Problem("request_invalid", f"a message must be JSON: {error}") from None
    if type(value) is not dict:
        expected = 'an object, such as {"number": 1, "batch": [...]}'
        raise Problem("request_invalid", f"a message must be {expected}, got {format_value(value)}")
    return value
