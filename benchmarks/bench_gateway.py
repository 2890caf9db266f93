"""How many milliseconds does `placet gateway` add to a call of a tool of an MCP server?

    ./dev python benchmarks/bench_gateway.py [--turns N] [--calls N] [--json]

A server that answers at once, as a process of JSON lines, and one client with one call at a time.
Three subjects take turns: the server alone, the server behind the gateway with a log in memory, and
with SQLite on disk (`synchronous=FULL`). Beside them is the time of one commit of that file system.
Figures are medians over the turns of the milliseconds of a call, and their spread.

It does not show: several calls at a time, which share commits; servers that do anything; HTTP.
"""

import argparse
import asyncio
import json
import shlex
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Final

from placet_bench.report import machine

SERVE: Final = "--serve"
COMMITS: Final = 200
COMMIT_BYTES: Final = 400
WARM_UP: Final = 50

Caller = Callable[[int], Awaitable[None]]


def serve() -> None:
    """Answer each request at once."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    tools = [{"name": "work", "description": "Work.", "inputSchema": schema}]
    done = {"content": [{"type": "text", "text": "done"}]}
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            result = {"tools": tools} if message["method"] == "tools/list" else done
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


async def caller(stack: AsyncExitStack, command: list[str]) -> Caller:
    """Start a command, and return a function that makes one call."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert process.stdin is not None
    assert process.stdout is not None
    writer, reader = process.stdin, process.stdout
    stack.push_async_callback(process.wait)
    stack.callback(writer.close)

    async def call(n: int) -> None:
        params = {"name": "work", "arguments": {"n": n}}
        message = {"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params}
        writer.write(json.dumps(message).encode() + b"\n")
        answer = json.loads(await reader.readline())
        assert answer["result"]["content"][0]["text"] == "done", answer

    return call


def commit_ms(folder: Path) -> float:
    """Return the median milliseconds of one commit of SQLite in a folder."""
    database = sqlite3.connect(folder / "commits.db", isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE log (data BLOB)")
    taken = []
    for _ in range(COMMITS):
        begin = time.perf_counter()
        database.execute("INSERT INTO log VALUES (?)", (b"x" * COMMIT_BYTES,))
        taken.append((time.perf_counter() - begin) * 1e3)
    database.close()
    return median(taken)


async def measured(turns: int, calls: int, folder: Path) -> Mapping[str, object]:
    """Return the milliseconds of a call of each subject."""
    server = [sys.executable, __file__, SERVE]
    gateway = [sys.executable, "-m", "placet", "gateway", shlex.join(server), "--approve-from"]
    commands = {
        "server": server,
        "memory": [*gateway, "never"],
        "sqlite": [*gateway, "never", "--store", f"sqlite:///{folder}/gate.db"],
    }
    taken: dict[str, list[float]] = {name: [] for name in commands}
    async with AsyncExitStack() as stack:
        callers = {name: await caller(stack, command) for name, command in commands.items()}
        number = 0
        for call in callers.values():
            for _ in range(WARM_UP):
                await call(number := number + 1)
        for _ in range(turns):
            for name, call in callers.items():
                begin = time.perf_counter()
                for _ in range(calls):
                    await call(number := number + 1)
                taken[name].append((time.perf_counter() - begin) / calls * 1e3)
    added = {
        name: [one - bare for one, bare in zip(taken[name], taken["server"], strict=True)]
        for name in ("memory", "sqlite")
    }
    rows = {**taken, **{f"{name}, added": values for name, values in added.items()}}
    return {
        "machine": machine(),
        "calls": turns * calls,
        "commit_ms": commit_ms(folder),
        "ms": {name: [median(one), min(one), max(one)] for name, one in rows.items()},
    }


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--calls", type=int, default=200, help="calls of a turn")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="placet-") as folder:
        result = asyncio.run(measured(options.turns, options.calls, Path(folder)))
    if options.json:
        print(json.dumps(result, indent=2))
        return
    print(f"{'ms a call':<16}{'median':>9}{'least':>9}{'most':>9}")
    assert isinstance(result["ms"], Mapping)
    for name, values in result["ms"].items():
        print(f"{name:<16}" + "".join(f"{value:>9.3f}" for value in values))
    print(f"one commit: {result['commit_ms']:.3f} ms; {result['calls']} calls; {result['machine']}")


if __name__ == "__main__":
    if SERVE in sys.argv:
        serve()
    else:
        main()
