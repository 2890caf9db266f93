"""A process is killed while its model answers: no request is repeated, the session continues."""

import subprocess
import sys
from pathlib import Path

import pytest

from placet import Orchestrator
from placet.agents import PlannerInput, Session
from tests.agents.till import Till, put, total

pytestmark = pytest.mark.anyio

DIES = """
import asyncio, os, signal, sys
from placet.agents import Session
from tests.agents.till import Till, put

async def model(context):
    with open(sys.argv[2], "a") as calls:
        calls.write(context.message + "\\n")
    if context.message == "two":
        os.kill(os.getpid(), signal.SIGKILL)
    return [put(1)]

async def main():
    async with Session.open(domain=Till(), store=sys.argv[1], adapter=model) as session:
        for message in ("one", "two", "never"):
            print((await session.send(message)).outcome, flush=True)

asyncio.run(main())
"""


async def test_a_request_of_a_killed_process_is_not_repeated(tmp_path: Path) -> None:
    store, calls = f"sqlite:///{tmp_path / 'till.db'}", tmp_path / "calls.txt"
    died = subprocess.run(  # noqa: ASYNC221  # nothing else runs meanwhile
        [sys.executable, "-c", DIES, store, str(calls)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (died.returncode, died.stdout) == (-9, "applied\n"), died.stderr
    seen: list[PlannerInput] = []

    def model(context: PlannerInput) -> object:
        seen.append(context)
        return [put(10)]

    async with Session.open(domain=Till(), store=store, adapter=model) as session:
        outcomes = [(turn["outcome"], turn["stop"]) for turn in await session.turns()]
        assert outcomes == [("applied", "completed"), ("failed", "internal")]
        assert seen == [], "opening asks nobody"
        assert isinstance(session.world, Orchestrator)
        await session.world.wait_effects()
        assert await session.world.effects() == [], "the call is settled as failed"
        assert await total(session) == 1
        turn = await session.send("three")
        assert (turn.id, turn.outcome) == ("main/3", "applied")
        assert await total(session) == 11
    assert calls.read_text(encoding="utf-8").split() == ["one", "two"], "two calls were paid for"
    assert [context.message for context in seen] == ["three"]
