"""Kills of real processes: a worker in its function, and the server under a call."""

import asyncio
import runpy
import signal
import subprocess
import sys

import pytest

from placet_tools import Gate
from tests.server.process import running

pytestmark = pytest.mark.slow

TOOLS = """
import os
import sys
import time
from pathlib import Path

from placet_tools import Gate, Tools

tools = Tools("desk")
here = Path(__file__).parent


def run(name, key):
    with (here / "ran").open("a") as file:
        file.write(f"{name} {key}\\n")
    if (here / "hang").exists():
        time.sleep(600)
    return name


@tools.tool(seconds_max=5.0)
def send(text: str) -> str:
    return run("send", text)


@tools.tool(seconds_max=5.0)
def charge(text: str, idempotency_key: str) -> str:
    return run("charge", idempotency_key)


served = tools.domain(runs_on_workers=True)

if __name__ == "__main__":
    url, token, tool, key = sys.argv[1:]
    with Gate(tools, url=url, token=token) as gate:
        print(gate.call(tool, agent="a", key=key, text="t").status, flush=True)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "desk_tools.py").write_text(TOOLS)
    return tmp_path


def worker(folder, server, tool, key):
    """Start a program that makes one call."""
    command = [sys.executable, "desk_tools.py", server.told["url"], server.told["operator_token"]]
    return subprocess.Popen([*command, tool, key], cwd=folder, stdout=subprocess.PIPE, text=True)


def ran(folder):
    path = folder / "ran"
    return path.read_text().split("\n")[:-1] if path.exists() else []


async def until_ran(folder, count):
    async with asyncio.timeout(60):
        while len(ran(folder)) < count:  # noqa: ASYNC110  # another process writes the file
            await asyncio.sleep(0.02)


def serving(folder):
    store = f"sqlite:///{folder}/desk.db"
    return running(folder, "--domain", "desk_tools:served", "--store", store)


def ended(process):
    text, _ = process.communicate(timeout=120)
    return text.strip()


async def test_a_worker_that_is_killed_in_its_function(folder):
    with serving(folder) as server:
        (folder / "hang").touch()
        lost = [worker(folder, server, tool, tool) for tool in ("send", "charge")]
        await until_ran(folder, 2)
        for process in lost:
            process.send_signal(signal.SIGKILL)
            process.communicate()
        (folder / "hang").unlink()
        again = [worker(folder, server, tool, tool) for tool in ("send", "charge")]
        statuses = [await asyncio.to_thread(ended, process) for process in again]
    assert statuses == ["doubt", "done"]
    assert sorted(ran(folder)) == ["charge charge", "charge charge", "send t"]


async def test_a_server_that_is_killed_under_a_call(folder):
    (folder / "hang").touch()
    with serving(folder) as server:
        lost = [worker(folder, server, tool, tool) for tool in ("send", "charge")]
        await until_ran(folder, 2)
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
    for process in lost:
        process.kill()
        process.communicate()
    (folder / "hang").unlink()
    with serving(folder) as server:
        again = [worker(folder, server, tool, tool) for tool in ("send", "charge")]
        statuses = [await asyncio.to_thread(ended, process) for process in again]
        assert statuses == ["doubt", "done"]
        tools = runpy.run_path(str(folder / "desk_tools.py"))["tools"]
        async with Gate(tools, url=server.told["url"], token=server.told["operator_token"]) as gate:
            assert (await gate.settle("send", done=False, output="lost")).status == "failed"
            assert (await gate.call("send", text="t", key="new")).status == "done"
    assert [line.split()[0] for line in ran(folder)].count("send") == 2
