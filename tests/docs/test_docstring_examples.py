"""The examples in the docstrings of the classes with which a program begins are executed."""

import asyncio
import inspect
import re
import textwrap
from ast import PyCF_ALLOW_TOP_LEVEL_AWAIT
from functools import partial

import numpy as np
import pytest
from typing_extensions import TypedDict

from placet import (
    AgentHandle,
    Domain,
    Kind,
    Orchestrator,
    OrchestratorConfig,
    Simulation,
    Verdict,
)
from placet.domains.world import World
from placet.envs import ArrayEnv, VectorEnv, WorldEnv
from placet.envs.grid import MoveOnGrid, grid_env
from placet.kernel import EffectHandler, Field, Kernel, KernelConfig, Table
from placet.lab import Collector
from placet.scenarios import Scenario
from placet.scenarios.engine import run_scenario
from placet.schemas.codec import Json
from placet.schemas.effect import Effect
from placet.schemas.portrayal import Portrayal
from placet_tools import Gate, Tools
from tests.envs.line import Line, Walk

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


def walk(view, intent):
    x, y, _ = view.state["world.agents"][view.agent_id]["position"]
    return [intent("Move", to=[x + 1, y])]


LATER = {
    **NAMES, "ArrayEnv": ArrayEnv, "Collector": Collector, "Effect": Effect,
    "EffectHandler": EffectHandler, "Field": Field, "Json": Json, "Kernel": Kernel,
    "KernelConfig": KernelConfig, "Line": Line, "OrchestratorConfig": OrchestratorConfig,
    "Portrayal": Portrayal, "Scenario": Scenario, "Table": Table, "VectorEnv": VectorEnv,
    "Walk": Walk, "grid_env": grid_env, "np": np, "run_scenario": run_scenario, "walk": walk,
}  # fmt: skip


@pytest.mark.parametrize(
    ("of", "printed"),
    [
        (ArrayEnv, "(100, 1) (100,) True"),
        (Collector, "9 3"),
        (EffectHandler, ""),
        (Kernel, "True (3.0, 4.0, 0.0)"),
        (OrchestratorConfig, ""),
        (Portrayal, ""),
        (Scenario, "200 "),
        (Table, ""),
        (VectorEnv, ""),
        (grid_env, ""),
    ],
)
async def test_the_example_of_a_name_runs_and_prints(of, printed, capsys):
    await run(example_of(of), dict(LATER))
    assert capsys.readouterr().out.startswith(printed)


async def test_a_refused_verdict_has_a_stage_and_a_code(capsys):
    async with Orchestrator(World(max_step=5.0)) as world:
        ann = await world.register_agent("ann", position=[0, 0])
        await run(example_of(Verdict), {"ann": ann})
    assert capsys.readouterr().out == "domain world.step_too_long 0\n"
