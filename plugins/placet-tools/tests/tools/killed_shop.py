"""A gate that is killed: its tools append a line to a file outside, which counts executions.

A child asks for calls by keys that it gets, so that the next child asks for the same ones again.
"""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from placet import OrchestratorConfig
from placet.actors.effects.dispatcher import Executors
from placet.schemas.limits import Limits
from placet_tools import Gate, NotDone, Tools
from tests.crash.process_forker import Report

POINTS = ("committed", "begun", "done")
"""After the commit of the call; in the tool before its work; in the tool after its work."""


def config() -> OrchestratorConfig:
    # A machine that stands still is no overload.
    return OrchestratorConfig(log_level="critical", limits=Limits(loop_lag_ms_max=600_000))


def shop(outside: str, at: Callable[[str], None]) -> Tools:
    """Return tools that append their name and key to a file.

    Args:
        outside: Path of the file.
        at: Called with each point of an execution.
    """
    tools = Tools("shop")
    file = os.open(outside, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def work(*words: str) -> None:
        at("begun")
        os.write(file, f"{' '.join(words)}\n".encode())
        os.fsync(file)  # it takes time: a kill at random finds it under way
        at("done")

    @tools.tool()
    async def send(order: str) -> str:
        work("send", order)
        return order

    @tools.tool()
    async def charge(order: str, idempotency_key: str) -> str:
        work("charge", order, idempotency_key)
        return order

    @tools.tool()
    async def unbook(order: str) -> None:
        work("unbook", order)

    @tools.tool(undo=unbook)
    async def book(order: str) -> None:
        work("book", order)

    @tools.tool(delivery="pure")
    async def fail() -> None:
        raise NotDone("there is none")

    return tools


def executions(outside: str) -> Counter[str]:
    """Return how often each line was written."""
    path = Path(outside)
    return Counter(path.read_text().splitlines() if path.exists() else [])


def kill_at(point: str) -> Callable[[str], None]:
    """Return a function that kills the process at a point."""

    def at(reached: str) -> None:
        if reached == point:
            os.kill(os.getpid(), signal.SIGKILL)

    if point == "committed":
        take = Executors.take
        Executors.take = lambda self, effects: at("committed")  # type: ignore[method-assign]
        assert take is not Executors.take
    return at


def call_once(report: Report, *, store: str, outside: str, tool: str, point: str) -> None:
    """Make one call, and be killed at a point of it."""

    async def main() -> None:
        async with Gate(shop(outside, kill_at(point)), store=store, config=config()) as gate:
            await gate.call(tool, key="t1", order="A")
        report.send("ended")

    asyncio.run(main())


def plan_once(report: Report, *, store: str, outside: str) -> None:
    """Make a plan of which a call fails, and be killed before the other one is undone."""

    async def main() -> None:
        async with Gate(shop(outside, lambda reached: None), store=store, config=config()) as gate:
            gate._runner._undo = lambda *call: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment, method-assign]
            await gate.plan([("book", {"order": "A"}), ("fail", {})], key="p")

    asyncio.run(main())


def call_many(report: Report, *, store: str, outside: str, first: int, count: int) -> None:
    """Make calls one after another from a number on; report each that was answered."""

    async def main() -> None:
        async with Gate(shop(outside, lambda reached: None), store=store, config=config()) as gate:
            report.send("opened")
            for number in range(first, first + count):
                for tool in ("send", "charge"):
                    outcome = await gate.call(tool, key=f"{tool}{number}", order=str(number))
                    report.send("answered", key=outcome.key, status=outcome.status)
        report.send("ended")

    asyncio.run(main())
