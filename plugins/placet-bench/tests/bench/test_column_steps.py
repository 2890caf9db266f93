"""The steppers of workload `columns`: what they decide, refuse and fold."""

import builtins
from typing import Any

import numpy as np
import pytest

from placet.schemas.errors import MissingExtraError
from placet_bench import columns as workload
from placet_bench.column_steps import POPULATION, ColumnStep, FoldStep
from placet_bench.suite import SUITE
from placet_bench.workloads import Scale


async def step_of(stepper):
    """Run two steps, and return the verdict on the second batch asked again."""
    async with stepper:
        await stepper.step(await stepper.prepare())
        batch = await stepper.prepare()
        await stepper.step(batch)
        (verdict,) = stepper.kernel.step(0.0, [batch])
    assert verdict.replayed
    return verdict


async def test_a_whole_population_moves():
    verdict = await step_of(ColumnStep("move", 40, has_digest=True))
    assert verdict.counts() == {"admitted": 40}


async def test_a_permuted_population_has_suspended_and_refused_rows():
    verdict = await step_of(ColumnStep("move", 400, is_permuted=True))
    counts = verdict.counts()
    assert counts.pop("agent_suspended") == 20
    assert 10 < counts.pop("crowd.too_far") <= 20
    assert counts.pop("admitted") >= 360
    assert not counts


async def test_claims_of_one_cell_are_lost_but_one():
    stepper = ColumnStep("take", 400, "Take")
    counts = (await step_of(stepper)).counts()
    assert counts["admitted"] + counts["conflict"] == 400
    assert 100 < counts["conflict"] < 200


@pytest.mark.parametrize(
    ("wealth", "codes"), [(100, {"admitted"}), (1, {"admitted", "crowd.out_of_bounds"})]
)
async def test_gifts_are_refused_where_a_bound_binds(wealth, codes):
    counts = (await step_of(ColumnStep("give", 40, "Give", wealth=wealth))).counts()
    assert codes <= counts.keys()
    assert ("crowd.out_of_bounds" in counts) == (wealth == 1)


async def test_a_refused_row_stops_the_measurement():
    stepper = ColumnStep("move", 4)
    async with stepper:
        batch = await stepper.prepare()
        to: Any = batch.payload["to"]
        to[0] = np.nan
        with pytest.raises(AssertionError, match="1 rows of 4 were refused"):
            await stepper.step(batch)


async def test_a_fold_reaches_the_positions_of_the_world():
    stepper = FoldStep("fold", 30)
    async with stepper:
        await stepper.step(await stepper.prepare())
        await stepper.step(await stepper.prepare())
        folded = stepper._replayer
    assert folded.state.digest().hex() == stepper.kernel.digest()
    assert len(stepper.kernel.population(POPULATION)["position"]) == 30


def test_the_bars_are_of_the_sizes_that_they_hold_for():
    sizes = Scale().column_agents
    assert sizes[0] < workload.BARS_FROM <= sizes[1]
    assert sizes[-1] == workload.MESA_AGENTS_MAX


async def test_a_missing_numpy_is_named_with_its_remedy(monkeypatch):
    imported = builtins.__import__

    def without_numpy(name, *arguments, **options):
        if name == "numpy":
            raise ModuleNotFoundError("No module named 'numpy'", name="numpy")
        return imported(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without_numpy)
    with pytest.raises(MissingExtraError, match=r"workload columns .*pip install '\.\[arrays"):
        await SUITE["columns"](Scale(), 1.0)
