"""A connection is bounded in bytes and in time before authentication."""

import asyncio
import re

import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.server import ServerState

from placet.schemas.limits import HttpLimits
from placet.server.http.connection import BoundedConnection
from placet.server.http.connections import Connections
from tests.actors.virtual_time import in_virtual_time
from tests.server.attacks import ATTACKS, BEHIND, HANDSHAKE

BYTES_MAX, SECONDS_MAX = 1_000, 10
GET = b"GET / HTTP/1.1\r\nhost: x\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"


class Wire(asyncio.Transport):
    """Keeps the bytes sent to a client."""

    def __init__(self):
        super().__init__()
        self.sent = b""
        self.is_closed = False
        self.protocol = None

    def write(self, data):
        self.sent += bytes(data)

    def writelines(self, list_of_data):
        self.sent += b"".join(list_of_data)

    def close(self):
        self.is_closed = True

    def is_closing(self):
        return self.is_closed

    def get_write_buffer_size(self):
        return 0

    def abort(self):
        self.is_closed = True

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass

    def get_protocol(self):
        return self.protocol

    def set_protocol(self, protocol):
        self.protocol = protocol


class Application:
    """Answers with the headers that it was asked by, once it may.

    Attributes:
        paths: The paths that it was asked for.
    """

    def __init__(self):
        self.paths = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def __call__(self, scope, receive, send):
        self.paths.append(scope["path"])
        while (await receive()).get("more_body"):
            pass
        await self.may_answer.wait()
        body = b",".join(name for name, _ in scope["headers"])
        length = (b"content-length", str(len(body)).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        await send({"type": "http.response.body", "body": body})


def connected(application=None):
    """Return a connection and its transport."""
    config = uvicorn.Config(application or Application(), lifespan="off", timeout_keep_alive=5)
    config.load()
    limits = HttpLimits(head_bytes_max=BYTES_MAX, head_seconds_max=4, body_seconds_max=6)
    connection = BoundedConnection(
        limits=limits, shared=Connections(), config=config, server_state=ServerState(), app_state={}
    )
    wire = Wire()
    connection.connection_made(wire)
    return connection, wire


async def settle():
    for _ in range(10):
        await asyncio.sleep(0)


@in_virtual_time
async def test_a_head_is_bounded():
    connection, wire = connected()
    connection.data_received(GET)
    for _ in range(20):
        connection.data_received(b"x-more: " + b"a" * 90 + b"\r\n")
        if wire.is_closed:
            break
    assert wire.is_closed
    assert wire.sent.startswith(b"HTTP/1.1 431 ")


@in_virtual_time
async def test_an_endless_header_or_path_is_bounded():
    for begun in (GET + b"x-more: ", b"GET /"):
        connection, wire = connected()
        connection.data_received(begun)
        for _ in range(3):
            assert not wire.is_closed
            connection.data_received(b"a" * 400)
        assert wire.is_closed


@in_virtual_time
async def test_a_trailer_is_bounded_and_not_read_as_a_header():
    connection, wire = connected()
    connection.data_received(CHUNKED + b"2\r\nhi\r\n0\r\nauthorization: x\r\n\r\n")
    await settle()
    assert wire.sent.endswith(b"host,transfer-encoding")
    connection.data_received(CHUNKED + b"0\r\n")
    for _ in range(3):
        connection.data_received(b"x: " + b"a" * 400 + b"\r\n")
    assert wire.is_closed
    assert b" 431 " not in wire.sent  # that request has begun to be answered


@in_virtual_time
async def test_a_body_does_not_count_as_head():
    connection, wire = connected()
    whole = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5000\r\n\r\n" + b"a" * 5_000
    for at in range(0, len(whole), 100):
        connection.data_received(whole[at : at + 100])
    connection.data_received(whole + GET)
    connection.data_received(b"\r\n")
    await settle()
    assert wire.sent.count(b"200 OK") == 3
    assert not wire.is_closed


@in_virtual_time
async def test_a_connection_without_a_request_is_closed():
    for sent in (b"", GET, CHUNKED + b"2\r\n"):
        connection, wire = connected()
        if sent:
            connection.data_received(sent)
        await asyncio.sleep(SECONDS_MAX - 1)
        assert not wire.is_closed
        await asyncio.sleep(2)
        assert wire.is_closed
        connection.connection_lost(None)


@in_virtual_time
async def test_a_second_request_has_the_same_time_limit():
    connection, wire = connected()
    connection.data_received(GET + b"\r\n")
    await settle()
    assert b"200 OK" in wire.sent
    connection.data_received(b"GET")
    await asyncio.sleep(SECONDS_MAX - 1)
    assert not wire.is_closed
    await asyncio.sleep(2)
    assert wire.is_closed


@pytest.mark.parametrize("begun", [GET, CHUNKED + b"2\r\n"])
@in_virtual_time
async def test_a_slow_answer_is_not_cut_by_bytes_sent_after_its_request(begun):
    application = Application()
    application.may_answer.clear()
    connection, wire = connected(application)
    connection.data_received(GET + b"\r\n" + begun)
    await asyncio.sleep(SECONDS_MAX * 5)
    assert not wire.is_closed
    application.may_answer.set()
    await settle()
    assert b"200 OK" in wire.sent
    await asyncio.sleep(SECONDS_MAX + 1)
    assert wire.is_closed


@in_virtual_time
async def test_no_request_is_parsed_before_the_one_ahead_is_answered():
    for ahead in (
        GET + b"\r\n",
        CHUNKED + b"2\r\nhi\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nhi",
    ):
        application = Application()
        application.may_answer.clear()
        connection, wire = connected(application)
        whole = ahead + (GET + b"\r\n") * 50
        for at in range(0, len(whole), 7):  # ends of heads lie across reads
            connection.data_received(whole[at : at + 7])
            await settle()
            assert not connection.pipeline
        application.may_answer.set()
        for _ in range(100):
            await settle()
        assert wire.sent.count(b"200 OK") == 51
        connection.connection_lost(None)


@in_virtual_time
async def test_a_body_of_declared_length_takes_few_turns():
    connection, wire = connected()
    turns = 0
    parse = connection.parse

    def counted():
        nonlocal turns
        turns += 1
        parse()

    connection.parse = counted
    kib = 1_024
    head = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (1_024 * kib)
    connection.data_received(head)
    for _ in range(4):
        connection.data_received(b"a" * (256 * kib))
        for _ in range(40):
            await settle()
    assert b"200 OK" in wire.sent
    assert turns <= 1_024 / 64 + 4
    connection.connection_lost(None)


async def answered(data, step):
    """Send bytes in reads of `step` bytes; return statuses, paths, and whether it was closed."""
    application = Application()
    connection, wire = connected(application)
    for at in range(0, len(data), step):
        if not wire.is_closed:
            connection.data_received(data[at : at + step])
            await settle()
    await settle()
    statuses = tuple(map(int, re.findall(rb"HTTP/1.1 (\d+) ", wire.sent)))
    connection.connection_lost(None)
    await settle()
    return statuses, tuple(application.paths), wire.is_closed


@pytest.mark.parametrize("step", [1 << 20, 7, 1])
@in_virtual_time
async def test_each_attack_has_one_reading_however_it_arrives(step):
    for name, attack in ATTACKS.items():
        statuses, paths, is_closed = await answered(attack.data + BEHIND, step)
        assert (statuses, paths) == (attack.statuses, attack.paths), name
        assert is_closed or statuses[-1] == 200, name


@pytest.mark.parametrize("behind", [BEHIND, b"\x89\x80\0\0\0\0"])
@in_virtual_time
async def test_bytes_behind_a_handshake_are_refused(behind):
    data = HANDSHAKE + b"\r\n" + behind
    assert await answered(data, step=len(data)) == ((400,), (), True)


INNER = b"POST /inner HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"
BODIES = (
    (b"content-length: %d" % len(INNER), INNER),
    (b"Content-Length:\t%d " % len(INNER), INNER),
    (b"transfer-encoding: chunked", b"%x\r\n%b\r\n0\r\n\r\n" % (len(INNER), INNER)),
    (b"Transfer-Encoding:Chunked", b"%X;a=b\r\n%b\r\n0\r\na: b\r\n\r\n" % (len(INNER), INNER)),
)
"""A header, and the bytes that it makes a body."""

OTHERS = (
    b"connection: upgrade\r\nupgrade: h2c",
    b"connection: upgrade\r\nupgrade: websocket",
    b"connection: close",
    b"content-length: 0",
    b"expect: 100-continue",
    b"host: y",
    b"transfer-encoding: gzip",
    b"upgrade: h2c",
    b"a: b",
)


@given(
    st.sampled_from([b"GET", b"POST", b"DELETE", b"OPTIONS"]),
    st.sampled_from([b"1.1", b"1.0", b"2.0"]),
    st.sampled_from(BODIES),
    st.lists(st.sampled_from(OTHERS), max_size=2),
    st.booleans(),
    st.integers(1, 50),
)
@in_virtual_time
async def test_a_body_is_never_read_as_a_request(method, version, framed, others, is_last, step):
    """Law: where a head has a length or chunks, its body is no request, however it arrives."""
    ends, body = framed
    fields = [*others, ends] if is_last else [ends, *others]
    head = b"\r\n".join([method + b" /first HTTP/" + version, b"host: x", *fields])
    data = head + b"\r\n\r\n" + body + BEHIND
    statuses, paths, is_closed = await answered(data, len(data))
    assert "/inner" not in paths
    assert "/behind" not in paths or statuses == (200, 200)
    assert (statuses, paths, is_closed) == await answered(data, step)
