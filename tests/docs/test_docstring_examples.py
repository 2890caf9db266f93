"""The examples in the docstrings of the classes with which a program begins are executed."""

import asyncio
import inspect
import re
import textwrap
from ast import PyCF_ALLOW_TOP_LEVEL_AWAIT
from functools import partial

import pytest
from typing_extensions import TypedDict

from placet import AgentHandle, Domain, Kind, Orchestrator, Simulation
from placet.domains.world import World
from placet.envs import WorldEnv
from placet.envs.grid import MoveOnGrid
from placet_tools import Gate, Tools

SHOP = Tools("shop")


@SHOP.tool(risk="medium")
def refund(order: str, euro: int) -> dict[str, int]:
    """Refund an order."""
    return {order: euro}


NAMES = {
    "Domain": Domain, "Gate": Gate, "Kind": Kind, "MoveOnGrid": MoveOnGrid, "tools": SHOP,
    "Orchestrator": Orchestrator, "Simulation": Simulation, "TypedDict": TypedDict, "World": World,
    "WorldEnv": WorldEnv, "partial": partial,
}  # fmt: skip


async def run(code, names):
    """Run an example, which may wait, and return its names."""
    compiled = compile(code, "docstring", "exec", flags=PyCF_ALLOW_TOP_LEVEL_AWAIT)
    waiting = eval(compiled, names)
    if inspect.iscoroutine(waiting):
        await waiting
    return names


def example_of(cls):
    """Return the first indented block of a docstring, before its sections."""
    text = (inspect.getdoc(cls) or "").partition("\nArgs:")[0].partition("\nAttributes:")[0]
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", text + "\n", re.MULTILINE)
    return textwrap.dedent(next(block for block in blocks if block.strip()))


async def test_a_simulation_is_run():
    names = await run(example_of(Simulation), dict(NAMES))
    assert names["simulation"].state["world.agents"]["folk_7"]["position"] == (9.0, 0.0, 0.0)
    assert names["simulation"].report.refused == 150


async def test_an_orchestrator_decides_a_batch(capsys):
    await run(example_of(Orchestrator), dict(NAMES))
    assert capsys.readouterr().out == "True ()\n[3.0, 4.0, 0.0]\n"


async def test_an_agent_looks_and_proposes():
    async with Orchestrator(World()) as world:
        ann = await world.register_agent("ann", position=[0, 0])
        names = await run(example_of(AgentHandle), {"ann": ann})
    assert names["verdict"].admitted


async def test_a_domain_has_a_kind():
    names = await run(example_of(Domain), dict(NAMES))
    async with Orchestrator(names["Bank"]()) as world:
        ann = await world.register_agent("ann")
        assert (await ann.submit(ann.intent("Save", coins=3))).admitted
        assert await world.state("bank.accounts/ann/coins") == 3


async def test_an_environment_runs_an_episode():
    names = await run(example_of(WorldEnv), dict(NAMES))
    assert not names["env"].agents


@pytest.mark.parametrize("method", [None, Gate.call])
async def test_a_gate_calls_a_tool(method, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with asyncio.timeout(60):
        if method is None:
            names = await run(example_of(Gate), dict(NAMES))
        else:
            async with Gate(SHOP) as gate:
                names = await run(example_of(method), {"gate": gate})
    assert names["outcome"].output == {"A7": 42}
