"""The bundled models of columns: one digest of a seed, a log that folds to it, and row by row."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placet.kernel import Kernel
from placet.kernel.log.replay import folded
from placet.scenarios import Scenario, bundled
from placet.scenarios.builtin import flock, segregation, sir, wealth
from placet.scenarios.engine import run_scenario
from placet.scenarios.kernel_runner import KernelRunner
from placet.scenarios.setup import prepare
from placet.stores.url import open_event_log

SMALL = {
    "flock": ("ticks=8", "populations.birds.count=30"),
    "segregation": ("ticks=8", "settings.side=9", "populations.people.count=60"),
    "sir": ("ticks=12", "settings.links=120", "populations.people.count=60"),
    "shepherd": ("ticks=5", "agents.dog.count=3", "populations.birds.count=50", "settings.side=60"),
    "wealth": ("ticks=8", "settings.side=4", "populations.people.count=25"),
}


def small(name: str, *more: str) -> Scenario:
    return Scenario.load(name, overrides=[*SMALL[name], *more])


def ran(scenario: Scenario, store: str = "memory://", *, uses_arrays: bool = True) -> KernelRunner:
    runner = KernelRunner(prepare(scenario, store=store))
    runner.world.kernel.uses_arrays = uses_arrays
    for _ in range(scenario.ticks):
        runner.tick()
    return runner


@pytest.mark.parametrize("name", SMALL)
def test_seed_gives_one_digest_the_log_folds_to_it_and_rows_one_by_one_give_the_log(name, tmp_path):
    store = f"sqlite:///{tmp_path}/a.db"
    report = run_scenario(small(name), store=store)
    assert report.admitted > 0
    again = ran(small(name)).result()
    assert again.digest == report.digest
    one_by_one = ran(small(name), uses_arrays=False).result()
    assert (one_by_one.digest, one_by_one.head) == (again.digest, again.head)
    data = [data for _, data in open_event_log(store).read()]
    assert folded(data).state.digest().hex() == report.digest
    assert ran(small(name, "seed=9")).result().digest != report.digest


@pytest.mark.parametrize("name", SMALL)
def test_policy_proposes_what_its_rule_admits(name):
    """What is refused is lost to others: a claim of the same cell, and nothing else."""
    assert set(ran(small(name)).report.refusals) <= {"domain/conflict"}


@pytest.mark.parametrize("name", SMALL)
def test_model_is_a_file_that_can_be_read(name):
    folder = Path(flock.__file__).parent
    assert len((folder / f"{name}.py").read_text().splitlines()) < 120
    assert name in bundled()


def test_dogs_are_objects_and_birds_columns_of_one_tick():
    runner = ran(small("shepherd"))
    kernel = runner.world.kernel
    assert runner.report.submitted == 5 * (3 + 50)
    assert set(kernel.state["shepherd.dogs"]) == {"dog_1", "dog_2", "dog_3"}
    assert kernel.state["shepherd.birds"]["birds:17"]["position"] == tuple(
        kernel.population("birds")["position"][17]
    )


def test_birds_flee_from_a_dog_nearby():
    def distance(kernel: Kernel) -> float:
        dog = np.array(kernel.state["shepherd.dogs"]["dog_1"]["position"])
        return float(np.hypot(*(kernel.population("birds")["position"] - dog).T).min())

    crowded = small("shepherd", "ticks=1", "agents.dog.count=1", "settings.side=12")
    far = [distance(ran(crowded.with_values({"seed": seed})).world.kernel) for seed in range(8)]
    calm = crowded.with_values({"populations.birds.options.fear": 0.01})
    near = [distance(ran(calm.with_values({"seed": seed})).world.kernel) for seed in range(8)]
    assert np.mean(far) > np.mean(near)


# the rules


def refused(name: str, kind: str, payload: dict[str, Any], agents: Any = None) -> dict[str, int]:
    """Return the counts of a batch that the rule is to refuse in part."""
    from placet.kernel import ColumnBatch

    kernel = ran(small(name, "ticks=0")).world.kernel
    population = next(iter(kernel.ledger.populations))
    batch = ColumnBatch(kind, population, payload, "x:1", agents=agents)
    return kernel.decide_columns(batch).counts()


def test_rules_refuse_what_no_policy_proposes():
    fast = np.full((30, 2), 0.9)
    assert refused("flock", "Fly", {"heading": fast}) == {"flock.too_fast": 30}
    far = {"to": np.full((50, 2), 30.0)}
    assert "shepherd.too_far" in refused("shepherd", "Fly", far)
    occupied = refused("segregation", "Settle", {"cell": np.arange(60)})
    assert occupied["segregation.occupied"] > 20
    assert "wealth.too_far" in refused("wealth", "Walk", {"cell": np.zeros(25, int)})
    given = refused("wealth", "Give", {"to": np.zeros(25, int)})
    assert given["wealth.to_itself"] == 1
    assert given["wealth.elsewhere"] > 10
    with pytest.raises(IndexError, match=r"it adds row 99 of wealth\.people"):
        refused("wealth", "Give", {"to": np.full(25, 99)})
    caught = refused("sir", "Catch", {"link": np.zeros(60, int)})
    assert caught["sir.no_link"] == 58
    assert refused("sir", "Recover", {"from_state": np.zeros(60, int)})["sir.not_infectious"] == 55


def test_coins_are_given_and_none_is_made():
    kernel = ran(small("wealth")).world.kernel
    assert kernel.population("people")["coins"].sum() == 25


def test_each_person_has_the_cell_that_has_the_person():
    kernel = ran(small("segregation")).world.kernel
    who = kernel.tree.tables["segregation.cells"].columns["who"]
    assert (who[kernel.population("people")["cell"]] == np.arange(60)).all()
    assert (who >= 0).sum() == 60


# measures


def test_measures_of_the_models():
    east = np.tile([1.0, 0.0], (4, 1))
    assert flock.order(east) == 1.0
    assert flock.order(np.concatenate([east, -east])) < 1e-9
    assert wealth.gini(np.full(10, 3)) == pytest.approx(0)
    assert wealth.gini(np.array([0] * 99 + [100])) == pytest.approx(0.99)
    share = segregation.like_share(np.array([0, 1, 3]), np.array([0, 0, 1]), 2)
    assert share == pytest.approx((0.5 + 0.5 + 0.0) / 3)


def test_links_join_each_pair_once():
    kernel = ran(small("sir", "ticks=0")).world.kernel
    links = kernel.tree.tables[sir.LINKS].columns
    pairs = {
        frozenset(pair) for pair in zip(links["one"].tolist(), links["other"].tolist(), strict=True)
    }
    assert len(pairs) == 120
    assert all(len(pair) == 2 for pair in pairs)
    assert links["other"].max() < 60
    assert (kernel.population("people")["state"] == sir.INFECTIOUS).sum() == 5


def test_mates_are_drawn_among_those_there_are():
    cells = np.array([2, 0, 2, 2, 1])
    for draw in np.linspace(0, 0.999, 7):
        has_mate, mate = wealth.mates(cells, np.full(5, draw))
        assert has_mate.tolist() == [True, False, True, True, False]
        assert (cells[mate[has_mate]] == 2).all()
        assert (mate[has_mate] != np.flatnonzero(has_mate)).all()
