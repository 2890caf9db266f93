"""HTTP: requests per second of the server's processor, over keep-alive connections.

A server of a world runs as a process (`placet serve`, in memory, every stage on); the clients are
in this process. The loads alternate in rounds, and the figures are medians over the rounds. They
count the processor time of the server alone, so the cost of the clients does not matter. The cost
of a stream message is the additional cost of a batch while `_STREAMS` streams are open, divided by
their number.

It does not show TLS, a network, a disk, or clients that open a connection for each request.
"""

import asyncio
import base64
import json
import os
import sys
import time
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count, cycle, repeat
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from placet.schemas.codec import Json, to_json
from placet.schemas.errors import PlacetError
from placet_bench.measure import TURN_SECONDS, TURNS_MAX, TURNS_MIN, percentiles_ms, spread
from placet_bench.workloads import Scale

CLIENTS: Final = 20
_STREAMS: Final = 50
_INTENTS: Final = 10
_LENGTH_16: Final = 126
_LENGTH_64: Final = 127


class Server(NamedTuple):
    """A server process under measurement: its address, the operator's token, and its process id.

    Attributes:
        host: Address that it listens on.
        port: Port that it listens on.
        token: Token of the operator.
        process_id: Id of the process.
    """

    host: str
    port: int
    token: str
    process_id: int

    def cpu_ns(self) -> int:
        """Return the CPU time of the server's threads so far, nanoseconds."""
        threads = Path(f"/proc/{self.process_id}/task").glob("*/schedstat")
        return sum(int(thread.read_text("utf-8").split()[0]) for thread in threads)

    def request(self, method: str, path: str, document: Json = None) -> bytes:
        """Build the bytes of an HTTP request with the operator's token."""
        body = b"" if document is None else to_json(document)
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {self.token}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


class HttpLoad(NamedTuple):
    """The requests of the clients in a turn.

    Attributes:
        server: Server that they ask.
        requests: Requests of each client; they do not end.
    """

    server: Server
    requests: list[Iterator[bytes]]


class HttpTurn(NamedTuple):
    """A measurement of one load.

    Attributes:
        cpu_us: Processor time of the server for each request, microseconds.
        waits_ns: How long each client waited for each answer.
    """

    cpu_us: float
    waits_ns: list[int]


async def http(_scale: Scale, seconds: float) -> dict[str, Json]:
    """Measure workload `http`: requests per second of the server's CPU time."""
    check_system()
    rounds = max(TURNS_MIN, min(TURNS_MAX, round(seconds / TURN_SECONDS)))
    costs: dict[str, list[float]] = {}
    waits: list[int] = []
    async with serving("world") as world:
        loads = {
            "health": HttpLoad(world, [repeat(world.request("GET", "/healthz"))] * CLIENTS),
            "batch": await _batches(world, "batches", "a"),
            "dry_run": await _batches(world, "dry-run", "d"),
        }
        streamed = await _batches(world, "batches", "s")
        for _ in range(rounds):
            for name, load in loads.items():
                turn = await turn_of(load, seconds / rounds)
                costs.setdefault(name, []).append(turn.cpu_us)
                waits += turn.waits_ns if name == "batch" else []
            async with _streams(world):
                shown = (await turn_of(streamed, seconds / rounds)).cpu_us
            message = max(shown - costs["batch"][-1], 0.001) / _STREAMS
            costs.setdefault("stream_message", []).append(message)
    return {
        "per_cpu_second": {name: 1e6 / median(cost) for name, cost in costs.items()},
        "spread": {
            "cpu_us": {name: spread(cost).as_dict() for name, cost in costs.items()},
        },
        "verdict_ms": percentiles_ms(waits),
        "turns": rounds,
        "notes": [
            f"{CLIENTS} keep-alive clients; batches of {_INTENTS}; {_STREAMS} streams",
            "per second of the server's processor; verdict_ms is of a batch, as a client waits",
        ],
    }


def check_system() -> None:
    """Raise where the processor time of another process cannot be read.

    Raises:
        PlacetError: It cannot.
    """
    if not Path("/proc/self/task").exists():
        raise PlacetError("the processor time of another process is read from /proc, as on Linux")


@asynccontextmanager
async def serving(domain: str) -> AsyncIterator[Server]:
    """Start a server, and end it.

    Raises:
        PlacetError: It does not start.
    """
    command = [
        sys.executable,
        "-P",
        "-m",
        "placet",
        "serve",
        "--port",
        "0",
        "--json",
        "--domain",
        domain,
    ]
    limit = f"serve.limits.streams_per_token_max={_STREAMS}"
    process = await asyncio.create_subprocess_exec(
        *command, "--domain", domain, "--set", limit, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None, "it is a pipe"
    try:
        line = await process.stdout.readline()
        if not line:
            raise PlacetError("`placet serve` did not start; its messages are above")
        told = json.loads(line)
        host, _, port = told["url"].removeprefix("http://").rpartition(":")
        yield Server(host, int(port), told["operator_token"], process.pid)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _batches(server: Server, path: str, prefix: str) -> HttpLoad:
    """Return batches of moves for one agent of each client, which are registered."""
    names = [f"{prefix}{number}" for number in range(CLIENTS)]
    for name in names:
        await ask_once(server, "/api/v1/worlds/world/agents", {"agent_id": name})
    return HttpLoad(server, [_batches_of(server, path, name) for name in names])


def _batches_of(server: Server, path: str, agent_id: str) -> Iterator[bytes]:
    numbers = count()
    places = cycle(range(100))
    while True:
        yield server.request(
            "POST",
            f"/api/v1/worlds/world/{path}",
            [
                {
                    "kind": "Move",
                    "payload": {"to": [float(next(places)), 1.0, 0.0]},
                    "agent_id": agent_id,
                    "req_id": f"{agent_id}:{next(numbers)}",
                    "context_seq": 0,
                    "priority": 10,
                    "schema_version": "1.0.0",
                }
                for _ in range(_INTENTS)
            ],
        )


async def ask_once(server: Server, path: str, document: Json) -> None:
    """Ask outside of the measurement."""
    reader, writer = await asyncio.open_connection(server.host, server.port)
    await _ask(reader, writer, server.request("POST", path, document))
    await _close(writer)


async def turn_of(load: HttpLoad, seconds: float) -> HttpTurn:
    """Measure a load for some seconds."""
    waits: list[int] = []
    before, ends = load.server.cpu_ns(), time.perf_counter() + seconds
    await asyncio.gather(
        *(_client(load.server, requests, ends, waits) for requests in load.requests)
    )
    return HttpTurn((load.server.cpu_ns() - before) / 1e3 / len(waits), waits)


async def _client(server: Server, requests: Iterator[bytes], ends: float, waits: list[int]) -> None:
    """Send one request after another, each when the last one was answered."""
    reader, writer = await asyncio.open_connection(server.host, server.port)
    while time.perf_counter() < ends or not waits:
        request = next(requests)
        began = time.perf_counter_ns()
        await _ask(reader, writer, request)
        waits.append(time.perf_counter_ns() - began)
    await _close(writer)


async def _ask(reader: StreamReader, writer: StreamWriter, request: bytes) -> None:
    """Send a request and read its answer.

    Raises:
        PlacetError: It is no success.
    """
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    body = await reader.readexactly(length)
    if not head.startswith(b"HTTP/1.1 20") or b'"success":false' in body:
        raise PlacetError(f"the server refused a request of the benchmark: {body.decode():.300}")


@asynccontextmanager
async def _streams(server: Server) -> AsyncIterator[None]:
    """Open streams, and read all of their messages meanwhile."""
    async with AsyncExitStack() as stack:
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        readers = []
        for _ in range(_STREAMS):
            reader, writer = await asyncio.open_connection(server.host, server.port)
            stack.push_async_callback(_close, writer)
            writer.write(_handshake(server))
            await reader.readuntil(b"\r\n\r\n")
            await _read_message(reader)  # the snapshot
            readers.append(tasks.create_task(_read_messages(reader)))
        yield
        for task in readers:
            task.cancel()


def _handshake(server: Server) -> bytes:
    key = base64.b64encode(os.urandom(16)).decode()
    return (
        "GET /api/v1/worlds/world/stream HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\n"
        f"connection: upgrade\r\nauthorization: Bearer {server.token}\r\n"
        f"sec-websocket-version: 13\r\nsec-websocket-key: {key}\r\n\r\n"
    ).encode()


async def _read_messages(reader: StreamReader) -> None:
    while True:
        await _read_message(reader)


async def _read_message(reader: StreamReader) -> None:
    """Read a frame of a server, which has no mask."""
    length = (await reader.readexactly(2))[1]
    if length == _LENGTH_16:
        length = int.from_bytes(await reader.readexactly(2))
    elif length == _LENGTH_64:
        length = int.from_bytes(await reader.readexactly(8))
    await reader.readexactly(length)


async def _close(writer: StreamWriter) -> None:
    writer.close()
    await writer.wait_closed()
