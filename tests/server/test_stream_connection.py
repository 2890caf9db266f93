"""What a stream's client may send, and what many streams cost, over real sockets."""

import base64
import contextlib
import itertools
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.process import Running, running

LATEST_SECONDS = 60
STREAM = "/api/v1/worlds/world/stream"
EMPTY_MESSAGE = b"\x81\x80\0\0\0\0"
PING = b"\x89\x80\0\0\0\0"
CLOSED_BY_POLICY = b"\x88\x1c\x03\xf0a stream takes no messages"
"""A close frame: 28 bytes, code 1008, reason."""

ALL_STREAMS = ("--set", "serve.limits.streams_per_token_max=1000")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("streams"), *ALL_STREAMS) as running_server:
        yield running_server


def address(server: Running) -> tuple[str, int]:
    host, _, port = server.told["url"].removeprefix("http://").rpartition(":")
    return host, int(port)


def open_stream(server: Running) -> socket.socket:
    """Open a stream, and read the answer to its handshake."""
    client = socket.create_connection(address(server), timeout=LATEST_SECONDS)
    key = base64.b64encode(os.urandom(16)).decode()
    client.sendall(
        f"GET {STREAM} HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
        f"authorization: {server.headers['authorization']}\r\nsec-websocket-version: 13\r\n"
        f"sec-websocket-extensions: permessage-deflate\r\nsec-websocket-key: {key}\r\n\r\n".encode()
    )
    head = b""
    while b"\r\n\r\n" not in head:
        head += client.recv(1)
    assert head.startswith(b"HTTP/1.1 101"), head
    assert b"permessage-deflate" not in head.lower()
    read_snapshot(client)
    return client


def read_snapshot(client: socket.socket) -> None:
    opcode, size = client.recv(2, socket.MSG_WAITALL)
    if size == 126:
        size = int.from_bytes(client.recv(2, socket.MSG_WAITALL))
    assert opcode == 0x81
    assert b"snapshot" in client.recv(size, socket.MSG_WAITALL)


@contextlib.contextmanager
def open_streams(server: Running, count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(open_stream(server)) for _ in range(count)]


def read_to_end(client: socket.socket) -> bytes:
    parts = []
    with contextlib.suppress(ConnectionError):
        while part := client.recv(65_536):
            parts.append(part)
    return b"".join(parts)


def test_a_message_of_a_client_closes_its_stream(server):
    with open_stream(server) as client:
        client.sendall(EMPTY_MESSAGE)
        assert read_to_end(client) == CLOSED_BY_POLICY


def test_a_message_that_comes_in_single_bytes_closes_its_stream(server):
    with open_stream(server) as client:
        for byte in PING + EMPTY_MESSAGE[:1]:
            client.sendall(bytes([byte]))
        client.sendall(EMPTY_MESSAGE[1:])
        assert read_to_end(client).endswith(CLOSED_BY_POLICY)


@pytest.mark.parametrize(
    "flood",
    [PING * 700, PING * 17, b"\x89\xfe" + b"\0" * 4_096],
    ids=["bytes", "frames", "one frame"],
)
def test_a_client_that_sends_too_much_at_once_is_cut(server, flood):
    with open_stream(server) as client:
        client.sendall(flood)
        assert read_to_end(client) == b""


def test_a_client_may_ping_until_it_has_sent_64_kib(server):
    ping = b"\x89\xfd\0\0\0\0" + b"x" * 125
    with open_stream(server) as client:
        client.settimeout(LATEST_SECONDS)
        for _ in range(64 * 1024 // len(ping)):
            client.sendall(ping)
            assert client.recv(127, socket.MSG_WAITALL).startswith(b"\x8a")
        client.sendall(ping)
        assert read_to_end(client) == b""


class Health(threading.Thread):
    """Asks for health over one connection until it is stopped."""

    def __init__(self, server: Running) -> None:
        super().__init__(daemon=True)
        self._seconds: list[float] = []
        self._client = socket.create_connection(address(server), timeout=LATEST_SECONDS)
        self._end = threading.Event()

    def run(self) -> None:
        while not self._end.is_set():
            began = time.perf_counter()
            self._client.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            answer = b""
            while not answer.endswith(b'{"status":"ok"}'):
                answer += self._client.recv(65_536)
            self._seconds.append(time.perf_counter() - began)
            self._end.wait(0.002)

    def stop(self) -> float:
        """Return the longest time that an answer took, seconds."""
        self._end.set()
        self.join()
        self._client.close()
        return max(self._seconds)


@contextlib.contextmanager
def health_of(server: Running) -> Iterator[list[float]]:
    """Ask for health meanwhile; the longest time is added to the list at the end."""
    longest: list[float] = []
    health = Health(server)
    health.start()
    try:
        yield longest
    finally:
        longest.append(health.stop())


@pytest.mark.slow
def test_clients_that_flood_their_streams_do_not_delay_others(server):
    with health_of(server) as idle:
        time.sleep(1)
    flooded = []
    for _ in range(2):
        with open_streams(server, 20) as clients, health_of(server) as longest:
            flood(clients, seconds=1)
        flooded += longest
    assert min(flooded) <= 10 * idle[0]


def flood(clients: list[socket.socket], seconds: float) -> None:
    """Send empty messages as fast as they are taken, on each stream until it ends."""
    ends = time.monotonic() + seconds
    open_clients = set(clients)
    while time.monotonic() < ends:
        for client in list(open_clients):
            client.setblocking(False)
            try:
                client.send(EMPTY_MESSAGE * 5_000)
            except BlockingIOError:
                continue
            except OSError:
                open_clients.remove(client)
        time.sleep(0.002)


def cpu_ns(server: Running) -> int:
    return int(Path(f"/proc/{server.process.process_id}/schedstat").read_text("utf-8").split()[0])


def speak(server: Running, number: int) -> None:
    text = "".join(chr(97 + (number * 7 + place * place) % 26) for place in range(20_000))
    intent = {
        "kind": "Speak",
        "payload": {"text": text},
        "agent_id": "alice",
        "req_id": f"alice:{number}",
        "context_seq": 0,
        "priority": 10,
        "schema_version": "1.0.0",
    }
    answer = server.post("batches", [intent])
    assert answer.status_code == 200, answer.text


@pytest.mark.slow
def test_a_long_message_to_many_unread_streams_costs_little(server):
    """The message is encoded once, and compressed for no stream: 300 cost 7 times one, not 100."""
    server.post("agents", {"agent_id": "alice"})
    costs = {}
    numbers = itertools.count()
    for count in (1, 300):
        with open_streams(server, count):
            time.sleep(1)  # until their snapshots are sent
            before = cpu_ns(server)
            for _ in range(5):
                speak(server, next(numbers))
                time.sleep(0.2)
            costs[count] = (cpu_ns(server) - before) / 5e6
    assert costs[300] < 20 * costs[1]
