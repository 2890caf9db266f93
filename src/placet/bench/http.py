"""How many plans of 10 actions a second pass through HTTP, on one core of the server?

    ./dev python benchmarks/bench_http.py [--designs] [--seconds S] [--clients N] [--json]

`placet serve` as a process of its own, in memory, every stage on; beside it, in this process, so
many keep-alive connections that each wait for their verdict. Batches of 10 `Move` for 100 agents,
made and encoded beforehand; with `--designs`, plans of 10 actions, a design for each connection.
The server's CPU time gives what one core of its own would do, also where the clients share it; it
is told of all seconds, and of the best of them, which others on the machine disturbed least.

It does not show: TLS, a network, a disk, clients that open a connection for each request.
"""

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple

from plans import PARAMETERS

AGENTS = 100
ACTIONS = 10
PASSED = (b'"admitted":true', b'"success":true')


class Server(NamedTuple):
    """A server that runs."""

    url: str
    token: str
    process_id: int

    def cpu_seconds(self) -> float:
        """Give the processor time that it took so far."""
        fields = Path(f"/proc/{self.process_id}/stat").read_text("utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def call(self, method: str, path: str, body: object) -> None:
        """Ask once, outside the measurement."""
        request = urllib.request.Request(
            f"{self.url}/api/v1/{path}",
            json.dumps(body).encode(),
            {"authorization": f"Bearer {self.token}", "content-type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request) as answer:
            answer.read()


@contextmanager
def serving(domain: str) -> Iterator[Server]:
    """Start a server, and end it."""
    command = [sys.executable, "-m", "placet", "serve", "--port", "0", "--json", "--domain", domain]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            document = json.loads(process.stdout.readline())
            yield Server(document["url"], document["operator_token"], process.pid)
        finally:
            process.terminate()


def batches(server: Server, agents: list[int]) -> Iterator[bytes]:
    """Write batches of moves, agent by agent, as requests."""
    for turn in count():
        for agent in agents:
            name = f"agent_{agent}"
            batch = [
                {
                    "kind": "Move",
                    "payload": {"to": [float((turn * ACTIONS + n) % 100), float(agent), 0.0]},
                    "agent_id": name,
                    "req_id": f"{name}:{turn * ACTIONS + n}",
                    "context_seq": 0,
                    "priority": 10,
                    "schema_version": "1.0.0",
                }
                for n in range(ACTIONS)
            ]
            yield request_of(server, "worlds/world/batches", batch)


def plans(server: Server, name: str) -> Iterator[bytes]:
    """Write plans for one design, each on the version before it, as requests."""
    for version in count():
        factor = 1 + 0.001 * (version % 50 + 1)
        plan = {
            "plan_id": f"{name}-{version}",
            "intent_id": "intent",
            "design_version_before": version,
            "actions": [
                {"action_type": "set", "path": path, "value": value * factor}
                for path, value in PARAMETERS.items()
            ],
        }
        yield request_of(server, f"designs/{name}/actions", plan)


def request_of(server: Server, path: str, document: object) -> bytes:
    """Write one request, as bytes."""
    body = json.dumps(document).encode()
    head = (
        f"POST /api/v1/{path} HTTP/1.1\r\nhost: localhost\r\n"
        f"authorization: Bearer {server.token}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def client(
    server: Server, requests: Iterator[bytes], until: float, waits: list[float]
) -> int:
    """Send one batch after another; give how many were admitted."""
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    admitted = turn = 0
    while time.perf_counter() < until:
        request = next(requests)
        began = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        body = await reader.readexactly(length)
        waits.append(time.perf_counter() - began)
        admitted += head.startswith(b"HTTP/1.1 200") and any(mark in body[:64] for mark in PASSED)
        turn += 1
    writer.close()
    await writer.wait_closed()
    assert admitted == turn, f"{turn - admitted} of {turn} batches were not admitted"
    return admitted


async def second(
    server: Server, loads: list[Iterator[bytes]], waits: list[float]
) -> tuple[int, float, float]:
    """Measure one second; give plans, seconds, and seconds of the server's processor."""
    cpu, began = server.cpu_seconds(), time.perf_counter()
    counts = await asyncio.gather(
        *(client(server, requests, began + 1.0, waits) for requests in loads)
    )
    return sum(counts), time.perf_counter() - began, server.cpu_seconds() - cpu


async def run(server: Server, loads: list[Iterator[bytes]], seconds: int) -> dict[str, float]:
    """Measure, second by second."""
    waits: list[float] = []
    measured = [await second(server, loads, waits) for _ in range(seconds)]
    count, elapsed, cpu = (sum(column) for column in zip(*measured, strict=True))
    best = min(cpu / count for count, _, cpu in measured)
    cuts = quantiles(waits, n=100)
    return {
        "plans_per_second": count / elapsed,
        "plans_per_server_cpu_second": count / cpu,
        "plans_per_server_cpu_second_best": 1 / best,
        "server_cpu_us_per_plan": cpu / count * 1e6,
        "server_cpu_us_per_plan_best": best * 1e6,
        "p50_ms": cuts[49] * 1e3,
        "p99_ms": cuts[98] * 1e3,
    }


def loads_for(server: Server, clients: int, *, is_designing: bool) -> list[Iterator[bytes]]:
    """Set the server up, and give the requests of each client."""
    if is_designing:
        names = [f"design_{n}" for n in range(clients)]
        for name in names:
            server.call("POST", "designs", {"design_id": name})
        return [plans(server, name) for name in names]
    for agent in range(AGENTS):
        server.call("POST", "worlds/world/agents", {"agent_id": f"agent_{agent}"})
    return [batches(server, list(range(first, AGENTS, clients))) for first in range(clients)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--designs", action="store_true", help="plans for designs, not moves")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with serving("design" if options.designs else "world") as server:
        loads = loads_for(server, options.clients, is_designing=options.designs)
        figures = asyncio.run(run(server, loads, options.seconds))
    if options.json:
        print(json.dumps(figures))
        return
    print(f"CPython {platform.python_version()}, {os.cpu_count()} CPUs, {options.clients} clients")
    for name, figure in figures.items():
        print(f"  {name:34} {figure:10,.2f}")


if __name__ == "__main__":
    main()
