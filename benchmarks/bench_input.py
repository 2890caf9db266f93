"""How long does an input take from one client of `placet serve` to what another client observes?

    ./dev python benchmarks/bench_input.py [--rounds N] [--inputs N] [--clients N] [--json]

A server in a process of its own, with a log in memory, and a driver of raw sockets in this one.
With `TEST_CHROMIUM`, or `chromium` on PATH, a page drives it too: by `fetch`, and by `placet.js`.
One client moves; another has a WebSocket of observations. The two ways of an input take turns in
one run: a POST on a connection that is kept, and a message on a WebSocket of batches. An input is
sent once the one before was observed. Each turn is measured alone, and while `--clients` other
agents move 20 times a second each, by POST. Figures are milliseconds over all inputs of a subject.

It does not show: a network, a durable log, a page of another origin, of which the browser asks the
server first (CORS). The driver's own share is in each figure.
"""

import argparse
import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from statistics import median, quantiles
from typing import Any, BinaryIO, Final

from playwright.sync_api import sync_playwright

from placet_bench.report import machine

PREFIX: Final = "/api/v1/worlds/world"
WARM_UP: Final = 50
PERIOD_SECONDS: Final = 1 / 20
MASK: Final = b"\0\0\0\0"
TEXT: Final = 0x81
PING: Final = 0x89
PONG: Final = 0x8A

IN_BROWSER: Final = """async ([token, prefix, rounds, inputs, warmUp]) => {
  const { connect } = await import("/placet.js");
  const ann = connect(location.origin, token, "ann");
  const bob = connect(location.origin, token, "bob", { show: "view" });
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  let number = 0;
  let onX = () => {};
  bob.on("view", (view) => onX(view.get("world.agents/ann").position[0]));
  await new Promise((go) => { onX = go; });
  const ways = {
    "page, fetch": async (batch) => {
      batch[0].req_id = `page:${number}`;
      batch[0].agent_id = "ann";
      const body = JSON.stringify(batch);
      const answer = await fetch(`${prefix}/batches`, { method: "POST", headers, body });
      return answer.json();
    },
    "page, placet.js": (batch) => ann.submit(batch),
  };
  async function input(way) {
    const x = ++number % 10;
    const seen = new Promise((go) => { onX = (at) => { if (at === x) go(performance.now()); }; });
    const begin = performance.now();
    const verdict = ways[way]([{ kind: "Move", payload: { to: [x, 0] } }]);
    const ms = (await seen) - begin;
    if (!(await verdict).admitted) throw new Error("refused");
    return ms;
  }
  const taken = {};
  for (const way in ways) {
    taken[way] = [];
    for (let n = 0; n < warmUp; n++) await input(way);
  }
  for (let round = 0; round < rounds; round++) {
    for (const way in ways) for (let n = 0; n < inputs; n++) taken[way].push(await input(way));
  }
  return taken;
}"""

Way = tuple[Callable[[bytes], None], Callable[[], Any]]
"""What sends a batch, and what then returns its verdict."""


class Server:
    """A running `placet serve`."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "placet", "serve", "--port", "0", "--json"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        told = json.loads(self.process.stdout.readline())
        host, _, port = told["url"].removeprefix("http://").rpartition(":")
        self._address = (host, int(port))
        self.url, self.token = told["url"], told["operator_token"]
        self.head = f"host: x\r\nauthorization: Bearer {told['operator_token']}\r\n"

    def connect(self) -> tuple[socket.socket, BinaryIO]:
        """Return a new connection, and its reader."""
        client = socket.create_connection(self._address)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return client, client.makefile("rb")

    def posting(self, path: str) -> tuple[Callable[[bytes], None], Callable[[], bytes]]:
        """Return what sends a body on a connection that is kept, and what reads the answer."""
        client, reader = self.connect()

        def send(body: bytes) -> None:
            client.sendall(
                f"POST {PREFIX}/{path} HTTP/1.1\r\n{self.head}content-type: application/json\r\n"
                f"content-length: {len(body)}\r\n\r\n".encode()
                + body
            )

        def answer() -> bytes:
            size = 0
            while (line := reader.readline()) != b"\r\n":
                if line.lower().startswith(b"content-length:"):
                    size = int(line.partition(b":")[2])
            return reader.read(size)

        return send, answer

    def poster(self, path: str) -> Callable[[bytes], bytes]:
        """Return a function that posts a body, and returns the answer."""
        send, answer = self.posting(path)

        def post(body: bytes) -> bytes:
            send(body)
            return answer()

        return post

    def websocket(self, path: str) -> "WebSocket":
        """Return an open WebSocket."""
        client, reader = self.connect()
        key = base64.b64encode(os.urandom(16)).decode()
        client.sendall(
            f"GET {PREFIX}/{path} HTTP/1.1\r\n{self.head}upgrade: websocket\r\n"
            f"connection: upgrade\r\nsec-websocket-version: 13\r\n"
            f"sec-websocket-key: {key}\r\n\r\n".encode()
        )
        while reader.readline() != b"\r\n":
            pass
        return WebSocket(client, reader)


class WebSocket:
    """An open WebSocket of a client."""

    def __init__(self, client: socket.socket, reader: BinaryIO) -> None:
        self._client = client
        self._reader = reader

    def send(self, text: bytes, first: int = TEXT) -> None:
        """Send a message as one frame."""
        size = len(text)
        length = bytes([0x80 | size]) if size < 126 else bytes([0xFE]) + size.to_bytes(2)
        self._client.sendall(bytes([first]) + length + MASK + text)

    def read(self) -> dict[str, Any]:
        """Return the next JSON message; answer the server's pings."""
        while True:
            first, size = self._reader.read(2)
            if size == 126:
                size = int.from_bytes(self._reader.read(2))
            elif size == 127:
                size = int.from_bytes(self._reader.read(8))
            payload = self._reader.read(size)
            if first == PING:
                self.send(payload, PONG)
            if first == TEXT:
                message: dict[str, Any] = json.loads(payload)
                return message


def move(agent_id: str, number: int) -> list[dict[str, Any]]:
    """Return a batch of one move."""
    payload = {"to": [number % 10, 0]}
    return [
        {"kind": "Move", "payload": payload, "agent_id": agent_id, "req_id": f"{agent_id}:{number}"}
    ]


@contextmanager
def others(server: Server, names: list[str]) -> Iterator[list[int]]:
    """Move other agents by POST meanwhile; yield how many moves were answered, by agent."""
    is_over = threading.Event()
    counts = [0] * len(names)

    def play(index: int) -> None:
        post = server.poster("batches")
        while not is_over.wait(PERIOD_SECONDS):
            number = time.monotonic_ns()
            post(json.dumps(move(names[index], number)).encode())
            counts[index] += 1

    threads = [threading.Thread(target=play, args=(index,)) for index in range(len(names))]
    for thread in threads:
        thread.start()
    try:
        yield counts
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def measured(server: Server, rounds: int, inputs: int, clients: int) -> Mapping[str, object]:
    """Return the milliseconds of each way."""
    register = server.poster("agents")
    names = [f"other_{number}" for number in range(clients)]
    for index, name in enumerate(["ann", "bob", *names]):
        # The others are out of sight, so that the observer gets ann's moves alone.
        body = {"agent_id": name, "attributes": {"position": [0 if index < 2 else 1_000, 0]}}
        register(json.dumps(body).encode())
    post, posted = server.posting("batches")
    inputs_socket = server.websocket("batches")
    assert inputs_socket.read()["type"] == "open"
    seen = server.websocket("stream?agent=bob&observe=true")
    seen.read()
    number = 0

    def say(batch: bytes) -> None:
        inputs_socket.send(b'{"number":1,"batch":%b}' % batch)

    ways: dict[str, Way] = {
        "post": (post, lambda: json.loads(posted())),
        "socket": (say, lambda: inputs_socket.read()["verdict"]),
    }

    def inputs_by(way: str, count: int) -> Iterator[float]:
        nonlocal number
        send, verdict = ways[way]
        for _ in range(count):
            number += 1
            batch = json.dumps(move("ann", number)).encode()
            begin = time.perf_counter()
            send(batch)
            wait_seen(seen, number)
            yield (time.perf_counter() - begin) * 1e3
            assert verdict()["admitted"]

    taken: dict[str, list[float]] = {}
    served = 0
    for way in ways:
        list(inputs_by(way, WARM_UP))
    for _ in range(rounds):
        for is_busy in (False, True):
            with others(server, names if is_busy else []) as counts:
                for way in ways:
                    name = f"{way}, beside {clients}" if is_busy else way
                    taken.setdefault(name, []).extend(inputs_by(way, inputs))
            served += sum(counts)
    taken |= measured_in_browser(server, rounds, inputs)
    return {
        "machine": machine(),
        "load": os.getloadavg()[0],
        "inputs": rounds * inputs,
        "others_served": served,
        "ms": {
            name: {"p50": median(ms), "p95": quantiles(ms, n=20)[-1], "max": max(ms)}
            for name, ms in taken.items()
        },
        "ratio": {
            f"{socket_way} / {post_way}": median(taken[socket_way]) / median(taken[post_way])
            for socket_way, post_way in (("socket", "post"), ("page, placet.js", "page, fetch"))
            if socket_way in taken
        },
    }


def measured_in_browser(server: Server, rounds: int, inputs: int) -> dict[str, list[float]]:
    """Return the milliseconds of each way of a page; empty without a browser."""
    chromium = os.environ.get("TEST_CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        return {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"{server.url}/openapi.json")
        taken: dict[str, list[float]] = page.evaluate(
            IN_BROWSER, [server.token, PREFIX, rounds, inputs, WARM_UP]
        )
        browser.close()
    return taken


def wait_seen(observer: WebSocket, number: int) -> None:
    """Read observations until ann is where move `number` has led."""
    while True:
        for change in observer.read()["changes"]:
            x = change["fields"]["position"][0]
            if change["entity"] == "world.agents/ann" and x == number % 10:
                return


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--inputs", type=int, default=200, help="inputs of a turn")
    parser.add_argument("--clients", type=int, default=8, help="agents that move beside")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    server = Server()
    try:
        result = measured(server, options.rounds, options.inputs, options.clients)
    finally:
        server.process.terminate()
        server.process.wait()
    if options.json:
        print(json.dumps(result, indent=2))
        return
    print(f"{'ms to the observer':<20}{'p50':>9}{'p95':>9}{'max':>9}")
    assert isinstance(result["ms"], Mapping)
    for name, row in result["ms"].items():
        print(f"{name:<20}" + "".join(f"{row[one]:>9.3f}" for one in ("p50", "p95", "max")))
    assert isinstance(result["ratio"], Mapping)
    print("; ".join(f"{name}: {value:.2f}" for name, value in result["ratio"].items()))
    print(f"{result['inputs']} inputs a row; load {result['load']:.1f}; {result['machine']}")


if __name__ == "__main__":
    main()
