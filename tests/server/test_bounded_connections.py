"""What one client may do over a socket before a token is checked: little, and in order."""

import asyncio
import base64
import random
import signal
import sys
import threading
import time
from collections import Counter
from contextlib import asynccontextmanager

import pytest

from placet.schemas.limits import HttpLimits
from placet.server.config import ServeConfig
from placet.server.listener import listen, serve_until_signal, url_of
from tests.cli import command_line
from tests.levels import examples
from tests.server.clients import (
    HEALTH,
    LATEST_SECONDS,
    Client,
    flooding,
    health_seconds,
    memory_bytes,
)
from tests.server.process import running

HEAD_BYTES_MAX = 64 * 1024
SECONDS_BEFORE_PING = 10
BATCHES = b"POST /api/v1/worlds/world/batches HTTP/1.1\r\nhost: x\r\n"
MIB = 1024 * 1024
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    arguments = (
        "--set",
        "serve.limits.head_seconds_max=1",
        "--set",
        "serve.limits.body_seconds_max=1",
    )
    with running(tmp_path_factory.mktemp("served"), *arguments) as server:
        yield server


@pytest.fixture
def url(server):
    return server.told["url"]


@linux
@pytest.mark.slow
def test_pipelined_unread_requests_take_bounded_memory(tmp_path):
    with running(tmp_path) as server:
        before = memory_bytes(server.process.process_id)
        with flooding(server.told["url"], HEALTH * 500, connections=20):
            for _ in range(30):
                time.sleep(0.1)
                grown = memory_bytes(server.process.process_id) - before
                assert grown < 64 * MIB
        assert server.client.get("/healthz").status_code == 200


@pytest.mark.slow
def test_random_pipelined_requests_are_answered_in_order(server, url):
    draw = random.Random(3)
    for trial in range(examples(60)):
        count = draw.choice([1, 3, 40, 300])
        names = [f"{trial}-{number}".encode() for number in range(count)]
        data = b"".join(_request(draw, name, server.headers) for name in names)
        step = draw.choice([1 << 30, 1_000, 4_096, 70_000])
        with Client(url) as client:
            sending = threading.Thread(target=client.send, args=(data, step))
            sending.start()
            heads = [client.answer()[1] for _ in names]
            sending.join()
        answered = [
            head.lower().partition(b"x-request-id: ")[2].split(b"\r\n")[0] for head in heads
        ]
        assert answered == names


def _request(draw, name, headers):
    """Draw a request: without a body, or with one of declared length or in chunks."""
    head = b"host: x\r\nx-request-id: " + name + b"\r\n"
    if draw.random() < 0.5:  # else it is refused before its body is read
        head += f"authorization: {headers['authorization']}\r\n".encode()
    shape = draw.randrange(4)
    if shape < 2:
        path = (b"/healthz", b"/none")[shape]
        return b"GET " + path + b" HTTP/1.1\r\n" + head + b"\r\n"
    body = b"[" + b"1,\r\n\r\n" * draw.choice([0, 10, 1_000, 10_000]) + b"1]"
    begun = b"POST /api/v1/worlds/world/dry-run HTTP/1.1\r\n" + head
    if shape == 2:
        return begun + b"content-length: %d\r\n\r\n" % len(body) + body
    size = draw.choice([1, 1_000, 9_000])
    body = body[: 1_000 * size]
    parts = (body[at : at + size] for at in range(0, len(body), size))
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    return begun + b"transfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


def _head_of(size):
    begun = b"GET /healthz HTTP/1.1\r\nhost: x\r\na: "
    return begun + b"x" * (size - len(begun) - 4) + b"\r\n\r\n"


@pytest.mark.parametrize(
    ("excess", "status"), [(-1, 200), (0, 200), (1, 431), (40_000, 431), (1_000_000, 431)]
)
def test_a_head_has_one_bound_however_it_arrives(url, excess, status):
    head = _head_of(HEAD_BYTES_MAX + excess)
    with Client(url) as client:
        client.send(head)
        assert client.answer()[0] == status
    with Client(url) as client:
        client.send(head, step=5_000)
        assert client.answer()[0] == status
    body = b"[1]"
    for before in (
        HEALTH,
        BATCHES + b"content-length: 3\r\n\r\n" + body,
        BATCHES + b"transfer-encoding: chunked\r\n\r\n3\r\n" + body + b"\r\n0\r\n\r\n",
    ):
        with Client(url) as client:
            client.send(before + head)
            assert client.answer()[0] in {200, 401}
            assert client.answer()[0] == status


def test_too_large_a_head_is_answered_by_a_problem_document(url):
    with Client(url) as client:
        client.send(_head_of(HEAD_BYTES_MAX + 1))
        _, head, body = client.answer()
        assert b"application/problem+json" in head
        assert b'"head_too_large"' in body
        assert client.is_closed()


@pytest.mark.slow
def test_two_hundred_dripping_heads_are_closed(url):
    clients = [Client(url) for _ in range(200)]
    for client in clients:
        client.send(HEALTH[:-2])
    latest = time.monotonic() + LATEST_SECONDS
    while clients:
        assert time.monotonic() < latest
        time.sleep(0.2)
        closed = [client for client in clients if not client.send(b"a")]
        for client in closed:
            client.socket.close()
            clients.remove(client)


@pytest.mark.slow
@pytest.mark.parametrize("drip", [b"\r\n", b"G"])
def test_a_drip_behind_an_answered_request_is_closed(url, drip):
    with Client(url) as client:
        assert client.status(HEALTH) == 200
        latest = time.monotonic() + LATEST_SECONDS
        while client.send(drip):
            assert time.monotonic() < latest
            time.sleep(0.2)


@pytest.mark.slow
def test_chunks_of_one_byte_without_a_token_delay_others_little(url):
    idle = health_seconds(url, 100)
    begin = BATCHES + b"transfer-encoding: chunked\r\n\r\n"
    with flooding(url, b"1\r\nx\r\n" * 20_000, connections=10, begin=begin):
        time.sleep(0.3)
        assert health_seconds(url, 40) <= 10 * idle


@pytest.mark.slow
def test_empty_lines_delay_others_little(url):
    idle = health_seconds(url, 100)
    with flooding(url, b"\r\n" * 8_000, connections=50):
        time.sleep(0.3)
        assert health_seconds(url, 40) <= 20 * idle


@pytest.mark.slow
def test_a_client_cannot_fill_the_log(tmp_path):
    with running(tmp_path) as server:
        for request in (b"\0", b"GET / HTTP/1.1\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n"):
            with Client(server.told["url"]) as client:
                client.status(request)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.end().err == ""


def test_of_an_answered_body_little_is_read(url):
    with Client(url) as client:
        client.send(BATCHES + b"content-length: 100000000\r\n\r\n")
        assert client.answer()[0] == 401
        assert not client.send(b"x" * 100_000_000)


@pytest.mark.parametrize("more", ["a: b\r\n" * 200, "a: " + "b" * 9_000 + "\r\n"])
def test_a_handshake_that_the_websocket_parser_refuses_is_answered(url, more):
    head = "GET / HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    with Client(url) as client:
        assert client.status(f"{head}{more}\r\n".encode()) == 422
        assert client.is_closed()


def test_a_websocket_client_that_sends_is_disconnected(server, url):
    key = base64.b64encode(bytes(16)).decode()
    handshake = (
        "GET /api/v1/worlds/world/stream HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\n"
        f"connection: upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: {key}\r\n"
        f"authorization: {server.headers['authorization']}\r\n\r\n"
    )
    with Client(url) as client:
        assert client.status(handshake.encode()) == 101
        client.socket.settimeout(SECONDS_BEFORE_PING)
        client.send(b"\x8a\x80\0\0\0\0" * 5_000)  # pongs that nobody asked for
        assert client.is_closed()


@asynccontextmanager
async def _listening(application, **limits):
    """Serve an application in this process."""
    serve = ServeConfig(port=0, limits=HttpLimits(**limits))
    is_started = asyncio.Event()
    with listen(serve) as listening:
        url = url_of(listening)
        task = asyncio.create_task(
            serve_until_signal(
                application,
                serve,
                listening,
                shutdown_seconds_max=1,
                drain=lambda: None,
                on_started=is_started.set,
            )
        )
        await is_started.wait()
        try:
            yield url
        finally:
            signal.raise_signal(signal.SIGTERM)
            await task


async def _large(scope, receive, send):
    body = bytes(50 * MIB)
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": body})


@pytest.mark.slow
async def test_a_client_that_takes_nothing_of_an_answer_is_disconnected():
    async with _listening(_large, stream_send_seconds_max=1) as url:
        with Client(url, receive_bytes=64 * 1024) as client:
            client.send(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            await asyncio.sleep(3)
            assert await asyncio.to_thread(_read_all, client) < 50 * MIB


@pytest.mark.slow
async def test_a_client_that_takes_an_answer_slowly_has_all_of_it():
    async with _listening(_large, stream_send_seconds_max=1) as url:
        with Client(url, receive_bytes=64 * 1024) as client:
            client.send(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            assert await asyncio.to_thread(_read_all, client, pause=0.3, pauses=8) > 50 * MIB


def _read_all(client, pause=0.0, pauses=0):
    """Read to the end, with pauses before the first megabytes, and return the number of bytes."""
    total = 0
    while True:
        if total >= (8 - pauses) * 4 * MIB and pauses:
            time.sleep(pause)
            pauses -= 1
        try:
            data = client.socket.recv(1 << 20)
        except ConnectionError:
            return total
        if not data:
            return total
        total += len(data)


async def _answer(scope, receive, send):
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize("limit", ["connections_max", "connections_per_address_max"])
async def test_connections_are_bounded_and_closed_ones_make_room(limit):
    async with _listening(_answer, **{limit: 2}) as url:

        def scenario() -> None:
            with Client(url) as first, Client(url) as second:
                assert (first.status(HEALTH), second.status(HEALTH)) == (204, 204)
                with Client(url) as third:
                    status, head, _ = third.answer()
                    assert status == 503
                    assert b"retry-after: 1" in head
                    assert third.is_closed()
                assert first.status(HEALTH) == 204
            latest = time.monotonic() + LATEST_SECONDS
            while True:
                assert time.monotonic() < latest
                with Client(url) as again:
                    if again.status(HEALTH) == 204:
                        return

        await asyncio.to_thread(scenario)


@linux
@pytest.mark.parametrize(("hard", "accepted"), [(1_000, 199), (160, 31)])
def test_connections_leave_files_to_the_process(tmp_path, monkeypatch, hard, accepted):
    limited = f'ulimit -Sn 160; ulimit -Hn {hard}; exec "$0" "$@"'
    monkeypatch.setattr(command_line, "PLACET", ["sh", "-c", limited, *command_line.PLACET])
    with running(tmp_path, "--set", "serve.limits.connections_max=200") as server:
        assert server.client.get("/healthz").status_code == 200  # this connection stays open
        url = server.told["url"]
        clients = [Client(url) for _ in range(210)]
        statuses = Counter(client.status(HEALTH) for client in clients)
        for client in clients:
            client.socket.close()
    assert statuses == {200: accepted, 503: 210 - accepted}


async def test_an_address_has_no_limit_of_its_own_where_it_is_zero():
    async with _listening(_answer, connections_per_address_max=0) as url:

        def scenario() -> None:
            clients = [Client(url) for _ in range(20)]
            assert {client.status(HEALTH) for client in clients} == {204}
            for client in clients:
                client.socket.close()

        await asyncio.to_thread(scenario)
