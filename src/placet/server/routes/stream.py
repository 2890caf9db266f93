"""Events as they happen, over a WebSocket. A client holds a place in the log, and no buffer here.

The log is read at the client's pace, so a slow client costs the others nothing. A client that falls
behind by more than `stream_lag_seqs_max` does not receive every missed event: it gets one
`snapshot`, its view and the seq, and continues from there. A client that reads nothing at all is
disconnected.
"""

from collections.abc import Hashable, Mapping, Sequence
from contextlib import aclosing
from typing import Annotated, Final, TypeAlias

from msgspec import Meta
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from placet.kernel.kernel import Kernel
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.codec import Json, to_json
from placet.schemas.errors import AgentError
from placet.schemas.event import Event
from placet.schemas.latency import ByDistance, Constant, Latency, Uniform
from placet.server.context import SUBPROTOCOL, RequestContext, context_of
from placet.server.credentials import Principal
from placet.server.http.parameters import Fields, Place, ViewAgent, read_query
from placet.server.http.problems import Problem, deny
from placet.server.http.routing import API_PREFIX
from placet.server.routes.state import looked_at, sight_of
from placet.server.served_socket import POLICY_VIOLATION, ServedSocket, SocketEnd
from placet.server.streams import NO_MORE_STREAMS
from placet.server.viewpoint import Viewpoint, WorldMoment

_PAGE_RECORDS_MAX: Final = 64
"""Of a stream, so that other streams get their turn."""

_OpenLog: TypeAlias = tuple[str, int]
"""The log of a world in one opening: the world's name, and how often it was reopened before."""

_Seconds = Annotated[float, Meta(ge=0)]


class StreamQuery(Fields, frozen=True):
    """The query parameters of `stream`; latencies are in simulated seconds.

    Attributes:
        since: Send events with a greater seq; without it, a snapshot is sent first.
        from_record: Send events from this record on, instead of `since`.
        agent: Name of the agent whose view is sent.
        observe: Send an agent's observations instead of events.
        latency: Latency of all observations; the minimum, if one of the others is set.
        latency_most: Maximum latency; latencies are drawn between `latency` and this.
        latency_per_unit: Additional latency for each unit of distance.
    """

    since: Place | None = None
    from_record: Place | None = None
    agent: ViewAgent = None
    observe: bool = False
    latency: _Seconds | None = None
    latency_most: _Seconds | None = None
    latency_per_unit: _Seconds | None = None

    def latency_model(self) -> Latency | None:
        """Return the latency model of these parameters; None for no latency.

        Raises:
            Problem: The parameters contradict each other.
        """
        base = self.latency or 0.0
        try:
            if self.latency_most is not None and self.latency_per_unit is not None:
                raise ValueError("latency_most or latency_per_unit, and not both")
            if self.latency_most is not None:
                return Uniform(base, self.latency_most)
            if self.latency_per_unit is not None:
                return ByDistance(per_unit=self.latency_per_unit, base=base)
            return None if self.latency is None else Constant(base)
        except ValueError as error:
            raise Problem("request_invalid", str(error)) from error


async def stream(socket: WebSocket) -> None:
    """Send a world's events over a WebSocket, after `since` or from a record on.

    Without either, a snapshot and the events after it.

    A message is one JSON object: an event as `GET events` has it, or `{"type": "snapshot", ...}`.
    With `observe`, it is an agent's observation: a snapshot and then deltas, as it sees the world,
    or with a latency, as it saw it so long ago.
    """
    context = context_of(socket)
    try:
        query = read_query(socket.scope["query_string"], StreamQuery)
        world = socket.path_params["world"]
        who, orchestrator = context.enter(socket, world)
        sight, latency = await admit(context, who, orchestrator, query)
        token = context.principal(socket)
        await context.reads.require(token.submitter)
        context.streams.enter(token.submitter)
    except Problem as problem:
        await deny(socket, problem)
        return
    try:
        await accept(socket)
        served = ServedSocket(socket, context.limits.stream_send_seconds_max)
        events = EventStream(context, orchestrator, served, sight, token)
        sending = (
            events.observe(latency)
            if query.observe
            else events.follow(query.since, query.from_record)
        )
        await served.run(sending, _reject_messages(socket))
    finally:
        context.streams.leave(token.submitter)


route = WebSocketRoute(f"{API_PREFIX}/worlds/{{world}}/stream", stream)


async def accept(socket: WebSocket) -> None:
    """Accept a handshake, with our subprotocol if the client offers it."""
    offered = socket.scope.get("subprotocols", [])
    await socket.accept(subprotocol=SUBPROTOCOL if SUBPROTOCOL in offered else None)


async def admit(
    context: RequestContext, who: Principal, world: Orchestrator, query: StreamQuery
) -> tuple[Viewpoint, Latency | None]:
    """Return the viewpoint and the latency of a client that is admitted.

    Raises:
        Problem: It may not see this, the query is unsound, or the server shuts down.
    """
    sight = await sight_of(context, who, world, query.agent)
    latency = query.latency_model()
    await world.query(sight.check)
    if latency is not None and not query.observe:
        raise Problem("request_invalid", "a latency is of observations; say observe=true")
    if query.observe and sight.agent_id is None:
        raise Problem("request_invalid", "observations are an agent's; name it with `agent`")
    if query.observe and sight.agent_id is not None:
        await context.check_speaks_for(world, who, sight.agent_id)
    if context.is_draining:
        raise Problem("unavailable", NO_MORE_STREAMS)
    return sight, latency


async def _reject_messages(socket: WebSocket) -> None:
    """Wait until the client disconnects, or sends a message, which it may not."""
    if (await socket.receive())["type"] == "websocket.disconnect":
        raise WebSocketDisconnect
    raise SocketEnd(POLICY_VIOLATION, "a stream takes no messages")


class EventStream:
    """The events or observations that one client is sent.

    Args:
        context: The application.
        world: The world.
        socket: The client's WebSocket.
        sight: The viewpoint of the client.
        token: The caller, to which reads are charged.
    """

    def __init__(
        self,
        context: RequestContext,
        world: Orchestrator,
        socket: ServedSocket,
        sight: Viewpoint,
        token: Principal,
    ) -> None:
        self._context = context
        self._token = token
        self._world = world
        self._socket = socket
        self._sight = sight

    async def observe(self, latency: Latency | None) -> None:
        """Send the agent's observations; a slow client receives the newest state when it reads."""
        assert self._sight.agent_id is not None, "observations are an agent's"
        observations = self._world.observe(self._sight.agent_id, latency=latency)
        async with aclosing(observations):
            async for observation in observations:
                await self._take_turn()
                self._context.reads.charge(self._token.submitter, size=len(observation.encoded))
                await self._socket.send(observation.encoded.decode())
        # Raises where the world has ended.
        await self._world.gateway.is_registered(self._sight.agent_id)
        raise AgentError(f"there is no agent {self._sight.agent_id!r} any more")

    async def follow(self, since: int | None, from_record: int | None) -> None:
        """Send what happens, each event of it; to a client that is lost, a snapshot instead."""
        record = from_record
        if await self._is_lost(since, from_record):
            record = await self._send_snapshot()
        name = self._world.config.world
        while True:
            log = (name, self._context.streams.reopenings[name])
            pages = self._world.event_pages(
                since or 0, from_record=record, page_records_max=_PAGE_RECORDS_MAX
            )
            async with aclosing(pages):
                async for page in pages:
                    if self._is_behind(page[0].seq):
                        break
                    await self._take_turn()
                    for text in await self._texts_of(page, log):
                        await self._socket.send(text)
                else:
                    return
            record = await self._send_snapshot()

    async def _is_lost(self, since: int | None, from_record: int | None) -> bool:
        """Return whether a client cannot continue at its position.

        It is invalid, too far behind, or compacted.

        A place that the log has not reached is of another log, such as that of a world in memory
        before the server was started again: its client would be told nothing, perhaps for ever.
        """
        start = await self._world.log_start()
        seq, records = await self._world.query(lambda kernel: (kernel.seq, kernel.record_count))
        if from_record is not None:
            return not start.record <= from_record <= records
        return since is None or not start.seq <= since <= seq or self._is_behind(since)

    async def _texts_of(self, page: Sequence[Event], log: _OpenLog) -> Sequence[str]:
        """Return the messages of a page, as this stream's viewer sees them now."""
        place = (*log, page[0].record, page[-1].record)
        if self._sight.sees_everything:  # nothing of the state is looked at
            texts = self._context.streams.texts.get(place)
            if texts is None:
                texts = [_text(event.as_dict()) for event in page]
                self._keep_texts(place, texts)
            return texts

        def look(kernel: Kernel) -> Sequence[str]:
            key = (*place, self._sight, kernel.seq)
            texts = self._context.streams.texts.get(key)
            if texts is None:
                texts = [_text(event) for event in self._sight.events(kernel, page)]
                self._keep_texts(key, texts)
                self._context.reads.charge(self._token.submitter, entities=len(page))
            return texts

        return await self._world.query(look)

    def _keep_texts(self, key: Hashable, texts: Sequence[str]) -> None:
        """Keep the messages of a page for other streams, and charge this one for them."""
        self._context.streams.texts.put(key, texts)
        self._context.reads.charge(self._token.submitter, size=sum(map(len, texts)))

    async def _take_turn(self) -> None:
        """Wait until the token may read and this stream may send.

        Raises:
            SocketEnd: The token may not read the world any more.
        """
        await self._context.reads.until_allowed(self._token.submitter)
        await self._context.streams.turns.take()
        # The token may have lost the world since the stream began.
        if self._context.role_in(self._token, self._world.config.world) is None:
            raise SocketEnd(POLICY_VIOLATION, "this token may not read the world any more")

    def _is_behind(self, seq: int) -> bool:
        return self._world.seq - seq > self._context.limits.stream_lag_seqs_max

    async def _send_snapshot(self) -> int:
        """Send the present view, and return the record to continue from."""

        def encode(moment: WorldMoment) -> tuple[int, str]:
            snapshot = {
                "type": "snapshot",
                "seq": moment.seq,
                "record": moment.record,
                "sim_time": moment.sim_time,
                "state": self._sight.state(moment, ""),
            }
            return moment.record + 1, _text(snapshot)

        await self._take_turn()
        caller = self._token.submitter
        self._context.reads.charge(caller, requests=1)
        look = looked_at(self._context.reads, caller, self._world, self._sight, "", encode)
        record, text = await look
        self._context.reads.charge(caller, size=len(text))
        await self._socket.send(text)
        return record


def _text(message: Mapping[str, Json]) -> str:
    return to_json(message).decode()
