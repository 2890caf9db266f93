"""A planner talks about a program: its plan is one turn, the phrases need no planner."""

import subprocess
import sys

import pytest
from tests.program.programs import begin, calculator, put
from tests.program.test_program_calculator import PHRASES, PLAN

from placet import Orchestrator
from placet.agents import ScriptedAdapter, Session
from placet.schemas.codec import from_json, to_json
from placet_program import Program

pytestmark = pytest.mark.anyio


async def test_a_planner_builds_a_calculator_in_one_turn():
    steps = [[(f"program.{kind}", payload) for kind, payload in PLAN]]
    opened = Session.open(domain=Program(), mode="autonomous", adapter=ScriptedAdapter(steps))
    async with opened as session:
        turn = await session.send("make me a calculator")
        assert (turn.outcome, turn.stop) == ("applied", "completed")
        assert list(turn.attempts[0].actions) == [f"program.{k}" for k, _ in PLAN]
        assert turn.results[3].output["value"] == 5.0


async def test_phrases_are_commands_and_near_misses_go_to_the_planner():
    async with Session.open(
        domain=Program(), mode="autonomous", adapter=ScriptedAdapter([])
    ) as session:
        turns = [await session.send(phrase) for phrase in PHRASES]
        assert {(turn.route, turn.outcome) for turn in turns} == {("command", "applied")}
        assert turns[-1].results[0].output["value"] == "Hello, world!"
        assert (await session.send("run the program")).route == "agent"


async def test_a_view_has_the_program_without_its_history():
    async with Orchestrator(Program()) as world:
        ann = await world.register_agent("ann")
        for made in ([begin("f")], [put("f", "c", "const", value=1)]):
            verdict = await ann.submit([ann.intent("program.mutate_batch", mutations=made)])
            assert verdict.admitted
        view = await ann.refresh_view()
        assert view.state["program.functions"]["f"]["nodes"]["c"]["value"] == 1
        assert not view.state.get("program.versions")
        assert await world.state("program.versions")


# the command line


def placet(*arguments, lines=()):
    done = subprocess.run(
        [sys.executable, "-m", "placet", *arguments],
        input=b"\n".join(to_json(line) for line in lines),
        capture_output=True,
        check=True,
        timeout=60,
    )
    return done.stdout


@pytest.mark.slow
async def test_the_command_line_knows_the_domain():
    assert b"program.history_query" in placet("kinds", "--domain", "program")
    intent = {
        "kind": "program.mutate_batch",
        "payload": {"mutations": calculator()},
        "agent_id": "ann",
        "req_id": "r:1",
        "context_seq": 0,
        "priority": 1,
        "schema_version": "1.0.0",
    }
    run = {
        "kind": "program.simulate",
        "payload": {"function": "calc", "inputs": {"op": "mul", "a": 6, "b": 7}},
        "req_id": "r:2",
    }
    lines = [{"register": "ann"}, [intent, {**intent, **run}]]
    told = placet("gate", "--domain", "program", lines=lines).splitlines()
    assert from_json(told[1])["results"][1]["output"]["value"] == 42.0
