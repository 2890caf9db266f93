"""WebSockets that take batches, over real sockets: hostile clients, floods, the end of a server."""

import base64
import contextlib
import json
import os
import signal
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from placet.schemas.limits import HttpLimits
from placet.server.http.message_frames import FrameFault, MessageFrames
from tests.server.process import Running, running

LATEST_SECONDS = 60
SOCKET = "/api/v1/worlds/world/batches"
MASK = b"\1\2\3\4"
TEXT, BINARY, CONTINUED, CLOSE, PING, PONG = 0x81, 0x82, 0x80, 0x88, 0x89, 0x8A
BYTES_MAX = 64 * 1024
SHORT = ("--set", "serve.limits.body_seconds_max=1")


def frame(first: int, payload: bytes, *, size: int | None = None, mask: bytes = MASK) -> bytes:
    """Return a frame of a client; `size` is the length that it declares."""
    size = len(payload) if size is None else size
    if size < 126:
        head = bytes([first, 0x80 | size])
    elif size < 1 << 16:
        head = bytes([first, 0x80 | 126]) + struct.pack("!H", size)
    else:
        head = bytes([first, 0x80 | 127]) + struct.pack("!Q", size)
    masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
    return head + mask + masked


class Client:
    """A WebSocket client that sends the bytes that a test names."""

    def __init__(self, server: Running, query: str = "") -> None:
        host, _, port = server.told["url"].removeprefix("http://").rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=LATEST_SECONDS)
        key = base64.b64encode(os.urandom(16)).decode()
        self.send(
            f"GET {SOCKET}{query} HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\n"
            f"connection: upgrade\r\nauthorization: {server.headers['authorization']}\r\n"
            f"sec-websocket-version: 13\r\nsec-websocket-key: {key}\r\n\r\n".encode()
        )
        self._reader = self.socket.makefile("rb")
        assert self._reader.readline().startswith(b"HTTP/1.1 101")
        while self._reader.readline() != b"\r\n":
            pass
        assert self.message()["type"] == "open"

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def say(self, number: int, batch: object) -> None:
        self.send(message(number, batch))

    def frame(self) -> tuple[int, bytes]:
        """Return opcode and payload of the server's next frame."""
        first, size = self._reader.read(2)
        if size == 126:
            size = int.from_bytes(self._reader.read(2))
        elif size == 127:
            size = int.from_bytes(self._reader.read(8))
        return first & 0x0F, self._reader.read(size)

    def message(self) -> Any:
        opcode, payload = self.frame()
        assert opcode == 1, (opcode, payload)
        return json.loads(payload)

    def closed(self) -> tuple[int, str]:
        """Return code and reason of the close frame, which comes next but for messages."""
        opcode, payload = self.frame()
        while opcode != 8:
            opcode, payload = self.frame()
        return int.from_bytes(payload[:2]), payload[2:].decode()


def message(number: int, batch: object) -> bytes:
    return frame(TEXT, json.dumps({"number": number, "batch": batch}).encode())


def move(agent_id: str, number: int) -> dict[str, Any]:
    return {
        "kind": "Move",
        "payload": {"to": [number % 2, 0]},
        "agent_id": agent_id,
        "req_id": f"{agent_id}:{number}",
    }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("batches"), *SHORT) as opened:
        for agent_id in ("alice", "bob"):
            opened.post("agents", {"agent_id": agent_id, "attributes": {"position": [0, 0]}})
        yield opened


GOOD = b'{"number": 1, "batch": []}'
ENDS: dict[str, tuple[bytes, int, str]] = {
    "binary": (frame(BINARY, GOOD), 1003, "text frame"),
    "no UTF-8": (frame(TEXT, b'{"number": \xff}'), 1007, "UTF-8; byte 11"),
    "a cut character": (frame(TEXT, "é".encode()[:1]), 1007, "UTF-8"),
    "no UTF-8 in two frames": (
        frame(0x01, b"\xc3") + frame(CONTINUED, b"\x28"),
        1007,
        "UTF-8; byte 0",
    ),
    "a huge frame": (frame(TEXT, b"", size=1 << 40), 1009, "at most 65536 bytes"),
    "a frame one byte too long": (frame(TEXT, b"", size=BYTES_MAX + 1), 1009, "POST"),
    "a huge message of frames": (
        frame(0x01, b"x" * 60_000) + frame(0x00, b"", size=6_000),
        1009,
        "at most 65536 bytes",
    ),
    "a message of many frames": (
        frame(0x01, b"x") + frame(0x00, b"x") * 64,
        1008,
        "at most 64 frames",
    ),
    "a long ping": (frame(PING, b"x" * 126), 1002, "at most 125 bytes"),
    "a ping of a huge length": (frame(PING, b"", size=1 << 40), 1002, "at most 125 bytes"),
    "a fragmented ping": (frame(0x09, b"x"), 1002, ""),
    "no mask": (b"\x81\x02{}", 1002, "mask"),
    "a reserved bit": (frame(0xC1, b"{}"), 1002, "reserved"),
    "a reserved opcode": (frame(0x83, b"{}"), 1002, ""),
    "a continuation of nothing": (frame(CONTINUED, b"{}"), 1002, ""),
    "a message in a message": (frame(0x01, b"{") + frame(TEXT, b"{}"), 1002, ""),
    "a negative length": (b"\x81\xff" + b"\xff" * 8 + MASK, 1009, "at most 65536 bytes"),
    "half a frame for too long": (frame(TEXT, GOOD)[:-1], 1008, "longer than 1 s"),
    "half a message for too long": (frame(0x01, GOOD), 1008, "longer than 1 s"),
}


@pytest.mark.parametrize("case", ENDS)
def test_frames_that_end_the_socket(server, case):
    sent, code, reason = ENDS[case]
    with Client(server) as client:
        client.send(sent)
        closed = client.closed()
        assert closed[0] == code, closed
        assert reason in closed[1]


ANSWERED: dict[str, tuple[bytes, int, object]] = {
    "no JSON": (frame(TEXT, b"{"), 422, None),
    "nothing": (frame(TEXT, b""), 422, None),
    "no object": (frame(TEXT, b"[]"), 422, None),
    "no batch": (frame(TEXT, b'{"number": 1}'), 422, 1),
    "an empty batch": (frame(TEXT, GOOD), 422, 1),
    "four frames": (
        frame(0x01, GOOD[:5]) + frame(PING, b"x") + frame(0x00, GOOD[5:9]) + frame(0x80, GOOD[9:]),
        422,
        1,
    ),
    "pings and pongs": (frame(PONG, b"") * 20 + frame(PING, b"") + frame(TEXT, GOOD), 422, 1),
    "the longest message": (
        frame(TEXT, GOOD + b" " * (BYTES_MAX - len(GOOD))),
        422,
        1,
    ),
}


@pytest.mark.parametrize("case", ANSWERED)
@pytest.mark.parametrize("step", [1 << 20, 1])
def test_messages_that_are_answered(server, case, step):
    sent, status, number = ANSWERED[case]
    with Client(server) as client:
        for at in range(0, 200, step):
            client.send(sent[at : at + step])
        client.send(sent[max(200, step) :])
        opcode, payload = client.frame()
        while opcode == 10:  # pong
            opcode, payload = client.frame()
        answer = json.loads(payload)
        assert answer["number"] == number
        assert (answer.get("status") or answer["problem"]["status"]) == status
        client.send(message(9, [move("alice", 1_000 + len(sent) + step)]))
        assert client.message()["status"] == 200


def test_a_client_that_leaves_within_a_frame_loses_nothing_that_was_admitted(server):
    with Client(server) as client:
        client.say(1, [move("alice", 1)])
        client.send(message(2, [move("alice", 2)])[:-1])
        first = client.message()["verdict"]
    told = server.client.get("/api/v1/worlds/world/verdicts?agent_id=alice&req_id=alice:1")
    assert told.json()["seq"] == first["seq"]
    with Client(server) as client:
        client.say(7, [move("alice", 1)])
        client.say(8, [move("alice", 2)])
        again, new = client.message(), client.message()
    assert (again["number"], again["verdict"]["replayed"]) == (7, True)
    assert (new["number"], new["verdict"]["replayed"]) == (8, False)


def test_a_close_is_answered(server):
    with Client(server) as client:
        client.send(frame(CLOSE, struct.pack("!H", 1000)))
        assert client.closed()[0] == 1000


def test_batches_of_a_burst_are_answered_in_order(server):
    with Client(server) as client:
        client.send(b"".join(message(n, [move("bob", n)]) for n in range(100)))
        answers = [client.message() for _ in range(100)]
    seqs = [one["verdict"]["seq"] for one in answers if one["verdict"]["admitted"]]
    assert sorted(one["number"] for one in answers) == list(range(100))
    assert seqs == sorted(seqs)


def test_a_flood_is_served_and_so_are_others(server):
    """Neither waits for the end of the other: both are counted while the flood goes on."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(server)) for _ in range(8)]
        is_over = threading.Event()
        sent = message(1, {}) * 50 + frame(PING, b"x") * 50

        def flood(client: Client) -> None:
            client.socket.settimeout(0.05)
            with contextlib.suppress(OSError):
                while not is_over.is_set():
                    with contextlib.suppress(TimeoutError):
                        client.socket.send(sent)

        threads = [threading.Thread(target=flood, args=(client,)) for client in clients[:-1]]
        for thread in threads:
            thread.start()
        try:
            for number in range(15):
                posted = server.post("batches", [move("alice", 5_000 + number)])
                assert posted.status_code == 200
                clients[-1].say(number, [move("bob", 5_000 + number)])
                assert clients[-1].message()["status"] == 200
        finally:
            is_over.set()
            for thread in threads:
                thread.join()
        for client in clients[:-1]:
            client.socket.settimeout(LATEST_SECONDS)
            assert client.frame()[0] in {1, 10}, "a flood is read, and answered"


def test_a_server_that_ends_answers_and_closes(tmp_path):
    with running(tmp_path) as ending:
        ending.post("agents", {"agent_id": "alice", "attributes": {"position": [0, 0]}})
        with Client(ending) as client, Client(ending, "?events=true") as watching:
            client.say(1, [move("alice", 1)])
            assert client.message()["status"] == 200
            os.kill(ending.process.process_id, signal.SIGTERM)
            assert client.closed()[0] == 1012
            assert watching.closed()[0] in {1001, 1012}


def test_a_client_beyond_its_rate_is_read_later():
    limits = HttpLimits(socket_bytes_per_second_max=1_000, socket_bytes_burst_max=1_000)
    frames = MessageFrames(limits)
    sent = frame(TEXT, b"x" * 236)  # 500 with what a frame costs besides
    frames.add(sent * 4)
    for _ in range(3):
        assert frames.wait_seconds(0.0) == 0
        assert frames.take(0.0) == sent
    assert frames.wait_seconds(0.0) == pytest.approx(0.5)
    assert frames.wait_seconds(0.5) == 0
    assert frames.take(0.5) == sent
    assert not frames.is_partial


def test_nothing_of_a_frame_that_is_too_long_is_kept():
    frames = MessageFrames(HttpLimits(socket_message_bytes_max=10))
    frames.add(frame(TEXT, b"", size=11)[:2])
    fault = frames.take(0.0)
    assert isinstance(fault, FrameFault)
    assert fault.code == 1009
