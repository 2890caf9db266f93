"""A client that breaks HTTP, JSON or its own promise: it is answered a problem, or cut off.

After each, the same server answers an honest client; it lives, and its memory is bounded.
"""

import base64
import contextlib
import resource
import socket
import ssl
import struct
import sys
import time

import httpx
import pytest

from tests.server.attacks import BEHIND, CHUNKED, CHUNKS, REFUSED
from tests.server.clients import HEALTH, LATEST_SECONDS, Client, memory_bytes
from tests.server.process import running

MIB = 1024 * 1024
ROOM = "/api/v1/worlds/world"
PATIENT = ("connections_per_address_max=0",)
HASTY = ("head_seconds_max=1", "body_seconds_max=1", *PATIENT)


@contextlib.contextmanager
def served(folder, limits):
    """Run a server; yield it and its memory."""
    sets = [part for limit in limits for part in ("--set", f"serve.limits.{limit}")]
    with running(folder, *sets) as server:
        assert server.post("agents", {"agent_id": "alice"}).status_code == 201
        yield server, memory_bytes(server.process.process_id) if sys.platform == "linux" else None


@pytest.fixture(scope="module")
def patient(tmp_path_factory):
    """A server that waits for requests as long as by default, on a busy machine too."""
    with served(tmp_path_factory.mktemp("patient"), PATIENT) as patient:
        yield patient


@pytest.fixture(scope="module")
def hasty(tmp_path_factory):
    """A server that waits two seconds for a request."""
    with served(tmp_path_factory.mktemp("hasty"), HASTY) as hasty:
        yield hasty


@pytest.fixture
def server(request):
    """After the test, the server decides an honest client's batch, and is as large as before."""
    # In the slow tests a server gives up waiting.
    name = "hasty" if request.node.get_closest_marker("slow") else "patient"
    server, memory_before = request.getfixturevalue(name)
    yield server
    if memory_before is not None:
        assert memory_bytes(server.process.process_id) - memory_before < 128 * MIB
    batch = [{"kind": "Speak", "payload": {"text": "a"}, "agent_id": "alice"}]
    key = {"idempotency-key": str(time.monotonic_ns())}
    try:
        assert server.post("batches", batch, headers=key).status_code == 200
    except httpx.TimeoutException:
        pytest.fail(f"the server hangs:\n{server.process.stacks()}")


@pytest.fixture
def url(server):
    return server.told["url"]


def answers(url, data, *, is_ended=False):
    """Send bytes and return all answers, until the server closes."""
    with Client(url) as client:
        client.send(data)
        if is_ended:
            client.socket.shutdown(socket.SHUT_WR)
        return answers_of(client)


def answers_of(client):
    """Return all answers to a client, until the server closes; it must."""
    got = []
    with contextlib.suppress(EOFError):
        while True:
            got.append(client.answer())
    return got


def check_refused(got):
    """Each answer is a problem of the client's, and none of the server's."""
    for status, head, body in got:
        assert 400 <= status < 500
        assert b"content-type: application/problem+json" in head.lower()
        assert b'"code":"' in body


def post(path, body=b"", *, token, head=b""):
    text = f"POST {ROOM}/{path} HTTP/1.1\r\nhost: x\r\nauthorization: {token}\r\n".encode()
    return text + head + b"\r\n" + body


GET = b"GET /healthz HTTP/1.1\r\nhost: x\r\n"


@pytest.mark.parametrize("attack", REFUSED.values(), ids=REFUSED)
def test_an_attack_is_refused_and_no_byte_behind_it_is_a_request(url, attack):
    for is_ended in (False, True):
        got = answers(url, attack.data + BEHIND, is_ended=is_ended)
        check_refused(got)
        assert len(got) == 1  # a second answer would be taken for that of another request


def test_a_request_of_an_old_version_is_answered_and_ends_the_connection(url):
    for data in (b"GET /healthz\r\n\r\n", b"GET /healthz HTTP/1.0\r\n\r\n"):
        assert [status for status, _, _ in answers(url, data + HEALTH)] == [200]


BROKEN_CHUNKS = [
    *(pytest.param(attack.data.partition(CHUNKED)[2], id=name) for name, attack in CHUNKS.items()),
    pytest.param(b"", id="nothing more", marks=pytest.mark.slow),
    pytest.param(b"5\r\n[", id="half a chunk", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("data", BROKEN_CHUNKS)
def test_broken_chunks_of_a_known_caller_are_refused_once(server, url, data):
    head = b"transfer-encoding: chunked\r\n"
    whole = post("batches", data, token=server.headers["authorization"], head=head)
    for is_ended in (False, True):
        got = answers(url, whole, is_ended=is_ended)
        check_refused(got)
        assert len(got) <= 1


def test_a_body_that_breaks_after_its_answer_has_no_second_answer(url):
    with Client(url) as client:
        head = b"transfer-encoding: chunked\r\n"
        assert client.status(post("batches", b"1\r\n[\r\n", token="Bearer none", head=head)) == 401
        client.send(b"xyz\r\n")
        assert answers_of(client) == []


@pytest.mark.slow
def test_an_incomplete_request_is_closed_and_has_no_effect(server, url):
    batch = b'[{"kind":"Speak","payload":{"text":"a"},"agent_id":"alice","req_id":"half"}]'
    length = b"content-length: %d\r\n" % len(batch)
    token = server.headers["authorization"]
    whole = post("batches", batch, token=token, head=length)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(url)) for _ in range(8)]
        sizes = (1, 10, len(whole) - len(batch), len(whole) - 1)
        for client, size in zip(clients, [*sizes, *sizes], strict=True):
            client.send(whole[:size])
        for client in clients[:4]:
            client.socket.shutdown(socket.SHUT_WR)
        for client in clients:
            check_refused(answers_of(client))
    query = {"agent_id": "alice", "req_id": "half"}
    assert server.client.get(f"{ROOM}/verdicts", params=query).status_code == 404


@pytest.mark.slow
def test_a_promised_body_that_never_comes_is_refused_or_closed(server, url):
    token = server.headers["authorization"]
    for head in (b"content-length: 100\r\n", b"content-length: 100\r\nexpect: 100-continue\r\n"):
        got = answers(url, post("batches", token=token, head=head))
        assert [status for status, _, _ in got] in ([], [408], [100], [100, 408])


BODIES = {
    "bad UTF-8": b'[{"kind":"\xff\xfe"}]',
    "UTF-16": '[{"kind":"Speak"}]'.encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf[]",
    "a NUL": b'{"kind":\x00}',
    "a lone surrogate": b'[{"kind":"Speak","payload":{"text":"\\ud800"}}]',
    "NaN": b'[{"kind":"Move","payload":{"to":[NaN,0]}}]',
    "Infinity": b'[{"kind":"Move","payload":{"to":[Infinity,-Infinity]}}]',
    "a number beyond a double": b'[{"kind":"Move","payload":{"to":[1e999,0]}}]',
    "a number of a million digits": b"[" + b"9" * 1_000_000 + b"]",
    "a key twice": b'{"intents":[],"intents":[]}',
    "arrays 100 000 deep": b"[" * 100_000 + b"]" * 100_000,
    "objects 100 000 deep": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "a million intents": b"[" + b"{}," * 1_000_000 + b"{}]",
    "a million keys": b"{" + b",".join(b'"%d":0' % n for n in range(300_000)) + b"}",
    "an escape bomb": b'["' + b"\\u0041" * 500_000 + b'"]',
    "half a document": b'[{"kind":',
    "two documents": b"[][]",
    "nothing": b"",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("path", ["batches", "agents", "history/forks"])
def test_a_body_that_is_no_batch_is_refused(server, url, body, path):
    head = b"content-length: %d\r\n" % len(body)
    with Client(url) as client:
        client.send(post(path, body, token=server.headers["authorization"], head=head) + HEALTH)
        status, head, text = client.answer()
        assert status in {413, 422}
        assert b"application/json" in head or b"application/problem+json" in head
        assert len(text) < 16_384  # it does not repeat the body
        if status == 422:
            assert client.answer()[0] == 200


TEXTS = [
    b"/healthz%",
    b"/healthz?a=%ff",
    b"/%ff%fe",
    b"/\xff\xfe",
    b"/api/v1/worlds/%00",
    b"//",
    b"*",
]


@pytest.mark.parametrize("path", TEXTS)
@pytest.mark.parametrize("header", [b"a: \xff\xfe", b"authorization: \xff", b"x-request-id: \xff"])
def test_bytes_beyond_ascii_in_a_head_are_no_fault_of_the_server(url, path, header):
    got = answers(
        url, b"GET " + path + b" HTTP/1.1\r\n" + header + b"\r\nconnection: close\r\n\r\n"
    )
    assert all(status < 500 for status, _, _ in got)


def test_tls_on_the_plain_port_ends_at_once(url):
    host, _, port = url.removeprefix("http://").rpartition(":")
    context = ssl.create_default_context()
    with (
        socket.create_connection((host, int(port)), timeout=LATEST_SECONDS) as plain,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        context.wrap_socket(plain, server_hostname="x")


def test_a_flood_of_headers_is_refused(url):
    got = answers(url, GET + b"".join(b"a%d: b\r\n" % n for n in range(100_000)) + b"\r\n")
    assert [status for status, _, _ in got] == [431]
    within = GET + b"".join(b"a%d: b\r\n" % n for n in range(5_000)) + b"connection: close\r\n\r\n"
    assert [status for status, _, _ in answers(url, within)] == [200]


def cut(client):
    """End a connection by a reset, as a client does that is killed."""
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.socket.close()


def handshake(server):
    key = base64.b64encode(bytes(16)).decode()
    return (
        f"GET {ROOM}/stream HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\n"
        f"connection: upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: {key}\r\n"
        f"authorization: {server.headers['authorization']}\r\n\r\n"
    ).encode()


FRAMES = [b"", b"\x81", b"\xff\xff\xff\xff", b"\x82\xff" + b"\xff" * 8, b"\x88\x80\0\0\0\0"]


@pytest.mark.parametrize("frame", FRAMES)
def test_aborted_streams_leave_no_stream_behind(server, url, frame):
    whole = handshake(server)
    for size in (20, len(whole) - 1):
        for _ in range(5):
            half = Client(url)
            half.send(whole[:size])
            cut(half)
    for _ in range(3 * 16):  # a token has 16 streams
        client = Client(url)
        latest = time.monotonic() + LATEST_SECONDS
        while client.status(whole) == 429:  # a reset takes a moment to arrive
            assert time.monotonic() < latest
            client.socket.close()
            time.sleep(0.02)  # leave the processor to the server
            client = Client(url)
        client.send(frame)
        cut(client)


def test_clients_that_leave_in_the_middle_leave_nothing(server, url):
    token = server.headers["authorization"]
    for number in range(200):
        client = Client(url)
        body = b"[" + b" " * 1_000_000
        head = b"content-length: 2000000\r\n"
        client.send((post("batches", body, token=token, head=head), HEALTH * 1_000)[number % 2])
        cut(client)


def test_a_thousand_idle_connections_leave_room_for_others(server, url):
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(1_000, files - 200)
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(Client(url)).send(b"GET / HTTP/1.1\r\n")
        assert server.client.get("/healthz").status_code == 200
