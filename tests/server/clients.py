"""Clients that speak HTTP over a socket as a program with bad intent would."""

import contextlib
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

LATEST_SECONDS = 60
HEALTH = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Client:
    """A connection to a server; `url` is http://HOST:PORT."""

    def __init__(self, url: str, *, receive_bytes: int | None = None) -> None:
        host, _, port = url.removeprefix("http://").rpartition(":")
        self.socket = socket.socket()
        if receive_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(LATEST_SECONDS)
        self.socket.connect((host, int(port)))
        self._unread = b""

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes, step: int = 1 << 30) -> bool:
        """Send in writes of `step` bytes; False where the server has closed before the end."""
        try:
            for at in range(0, len(data), step):
                self.socket.sendall(data[at : at + step])
        except OSError:
            return False
        return True

    def answer(self) -> tuple[int, bytes, bytes]:
        """Read the next response: its status, head and body.

        Raises:
            EOFError: The server closed the connection.
        """
        while b"\r\n\r\n" not in self._unread:
            self._read()
        head, _, self._unread = self._unread.partition(b"\r\n\r\n")
        found = _LENGTH.search(head)
        length = int(found[1]) if found else 0
        while len(self._unread) < length:
            self._read()
        body, self._unread = self._unread[:length], self._unread[length:]
        return int(head.split(b" ", 2)[1]), head, body

    def status(self, request: bytes) -> int:
        """Send a request and return the status of its response."""
        self.send(request)
        return self.answer()[0]

    def is_closed(self) -> bool:
        """Wait until the server closes; False where it has not in `LATEST_SECONDS`."""
        try:
            while self.socket.recv(1 << 20):
                pass
        except TimeoutError:
            return False
        except OSError:
            return True
        return True

    def _read(self) -> None:
        try:
            data = self.socket.recv(1 << 20)
        except ConnectionError as error:
            raise EOFError from error
        if not data:
            raise EOFError("closed")
        self._unread += data


def memory_bytes(process_id: int) -> int:
    """Return the resident memory of a process (Linux)."""
    pages = Path(f"/proc/{process_id}/statm").read_text("ascii").split()[1]
    return int(pages) * 4_096


def health_seconds(url: str, count: int) -> float:
    """Return the median time of `count` requests `GET /healthz` over one connection."""
    taken = []
    with Client(url) as client:
        for _ in range(count):
            start = time.perf_counter()
            assert client.status(HEALTH) == 200
            taken.append(time.perf_counter() - start)
    return sorted(taken)[count // 2]


@contextlib.contextmanager
def flooding(url: str, data: bytes, connections: int, begin: bytes = b"") -> Iterator[None]:
    """Send `data` again and again, unread, over so many connections; closed ones connect again."""
    is_over = threading.Event()

    def flood() -> None:
        clients: dict[int, tuple[Client, bytes]] = {}
        while not is_over.is_set():
            for number in range(connections):
                if number not in clients:
                    client = Client(url)
                    client.send(begin)
                    client.socket.setblocking(False)
                    clients[number] = client, data
                client, left = clients[number]
                try:
                    clients[number] = client, left[client.socket.send(left) :] or data
                except BlockingIOError:
                    continue
                except OSError:
                    client.socket.close()
                    del clients[number]
            is_over.wait(0.002)
        for client, _ in clients.values():
            client.socket.close()

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
