"""The steppers of workload `step`: how they alternate, what stops them, an absent package."""

import builtins
import json
import subprocess
import sys
from pathlib import Path

import pytest

from placet_bench import step as workload
from placet_bench.step import Quartiles, alternate
from placet_bench.stepping import KernelStep, SimulationStep, Stepper

SIDE = Path(__file__).parents[4] / "benchmarks" / "step_side.py"


class Counted(Stepper):
    """Notes the order in which it prepared and stepped."""

    def __init__(self, name, agents, calls):
        super().__init__(name, agents)
        self.calls = calls

    async def prepare(self):
        self.calls.append((self.name, "prepare"))
        return len(self.calls)

    async def step(self, inputs):
        assert inputs == len(self.calls)
        self.calls.append((self.name, "step"))


async def test_steppers_alternate_and_few_agents_step_more_often():
    calls: list[tuple[str, str]] = []
    few, many = Counted("few", 2, calls), Counted("many", 6, calls)
    costs = await alternate([few, many], 6, 1e-9)
    assert [len(cost.rounds) for cost in costs] == [workload.ROUNDS_MIN] * 2
    steps = [name for name, call in calls if call == "step"]
    warm_up = ["few"] * 3 + ["many"]
    assert steps[:4] == warm_up
    assert steps[4:12] == ["many", *["few"] * 3, *["few"] * 3, "many"]  # the order is reversed


async def test_a_refused_batch_stops_the_measurement():
    stepper = KernelStep("L1", 2)
    batches = await stepper.prepare()
    await stepper.step(batches)
    with pytest.raises(AssertionError, match="not every batch was admitted"):
        await stepper.step([batches[0][:0], batches[1]])


async def test_a_step_of_a_simulation_is_one_tick_with_every_verdict():
    simulation = workload.simulation_of(3)
    stepper = SimulationStep("L2", 3, simulation)
    await stepper.step(None)
    assert (simulation.tick, len(simulation.verdicts)) == (1, 3)
    with pytest.raises(AssertionError, match="not every batch was admitted"):
        await SimulationStep("L2", 4, simulation).step(None)


def test_a_missing_peer_is_named_with_its_remedy(monkeypatch):
    imported = builtins.__import__

    def without_mesa(name, *arguments, **options):
        if name.partition(".")[0] == "mesa":
            raise ModuleNotFoundError("No module named 'mesa'", name="mesa")
        return imported(name, *arguments, **options)

    monkeypatch.delitem(sys.modules, "placet_bench.mesa_steps", raising=False)
    monkeypatch.setattr(builtins, "__import__", without_mesa)
    notes: list[str] = []
    assert workload.if_installed(lambda: workload._mesa(2), notes) == []
    (note,) = notes
    assert "pip install 'mesa==3.3.1'" in note


def test_quartiles_are_around_the_median():
    assert Quartiles.of([4.0, 1.0, 2.0, 3.0, 5.0]) == (2.0, 3.0, 4.0)


@pytest.mark.slow
def test_a_side_of_the_comparison_answers_each_command_with_a_cost():
    commands = ["l1", "l2", "l1", "w1", "w1s"]
    done = subprocess.run(
        [sys.executable, SIDE],
        input="\n".join(commands),
        capture_output=True,
        text=True,
        check=True,
    )
    costs = [json.loads(line)["cpu_us"] for line in done.stdout.splitlines()]
    assert len(costs) == len(commands)
    assert min(costs) > 0
