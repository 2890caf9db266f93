"""Populations in scenarios: columns and objects in one tick, both engines, resumed runs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placet import Simulation
from placet.kernel import Kernel, random_unit
from placet.kernel.log.replay import folded
from placet.scenarios import Scenario, ScenarioError
from placet.scenarios.engine import run_scenario
from placet.scenarios.kernel_runner import KernelRunner
from placet.scenarios.resume import find_run
from placet.scenarios.scenario_agent import PolicyError
from placet.scenarios.setup import prepare
from placet.schemas.log.column_records import Columns
from placet.schemas.log.record import decode_record
from placet.stores.url import open_event_log
from tests.scenarios import column_models as models
from tests.scenarios.column_models import Meadow

TOML = """
domain = "tests.scenarios.column_models:Meadow"
seed = 3
ticks = 6

[agents.shepherd]
count = 2
policy = "tests.scenarios.column_models:shepherd"

[populations.birds]
count = 40
table = "meadow.birds"
policy = "tests.scenarios.column_models:birds"
permissions = ["Fly", "Peck"]
quotas = { Peck = { rate = 0.1, burst = 1 } }
columns = { x = 5, fed = 1 }

[populations.worms]
count = 9
table = "meadow.worms"
policy = "tests.scenarios.column_models:worms"
"""


@pytest.fixture(name="scenario")
def loaded(tmp_path: Path) -> Scenario:
    path = tmp_path / "meadow.toml"
    path.write_text(TOML)
    return Scenario.load(path)


def records(store: str) -> list[Any]:
    return [decode_record(data) for _, data in open_event_log(store).read()]


def digest_of_fold(store: str) -> str:
    return folded([data for _, data in open_event_log(store).read()]).state.digest().hex()


def test_seed_gives_one_digest_and_the_log_folds_to_it(scenario, tmp_path):
    store = f"sqlite:///{tmp_path}/a.db"
    report = run_scenario(scenario, store=store)
    again = run_scenario(scenario)
    assert report.digest == again.digest == digest_of_fold(store)
    assert report.digest != run_scenario(replace(scenario, seed=4)).digest


def test_report_counts_rows_and_intents(scenario):
    report = run_scenario(scenario)
    assert report.agents == report.as_dict()["agents"] == 51
    assert report.ticks == 6
    assert report.submitted == report.admitted + sum(report.refusals.values())
    flown = 40 * 6
    assert report.submitted > flown + 9 * 6 + 2 * 6
    assert report.refusals["domain/meadow.too_far"] > 0
    assert report.refusals["domain/conflict"] > 0
    assert report.refusals["quota/quota_exceeded"] > 0
    assert report.refusals["domain/meadow.out_of_bounds"] > 0
    assert report.examples["domain/meadow.too_far"] == "a flight is at most 0.9"


def test_actors_and_kernel_write_the_same_log(scenario, tmp_path):
    by_kernel, by_actors = (f"sqlite:///{tmp_path}/{name}.db" for name in "ka")
    one = run_scenario(scenario, store=by_kernel)
    other = run_scenario(scenario, store=by_actors, metrics_port=0)
    assert one.digest == other.digest
    assert one.refusals == other.refusals
    assert (one.submitted, one.admitted, one.batches) == (
        (other.submitted, other.admitted, other.batches)
    )
    mine, its = records(by_kernel), records(by_actors)
    assert [type(record) for record in mine] == [type(record) for record in its]


def test_row_by_row_gives_the_same_log(scenario, tmp_path):
    def run(name: str, *, uses_arrays: bool) -> tuple[str, str]:
        store = f"sqlite:///{tmp_path}/{name}.db"
        runner = KernelRunner(prepare(scenario, store=store))
        runner.world.kernel.uses_arrays = uses_arrays
        for _ in range(scenario.ticks):
            runner.tick()
        report = runner.result()
        runner.close()
        return report.digest, report.head

    assert run("arrays", uses_arrays=True) == run("rows", uses_arrays=False)


@pytest.mark.parametrize("stops_after", [0, 1, 4])
@pytest.mark.parametrize("metrics_port", [None, 0])
def test_stopped_run_resumes_to_the_same_end(scenario, tmp_path, stops_after, metrics_port):
    store, whole = f"sqlite:///{tmp_path}/part.db", f"sqlite:///{tmp_path}/whole.db"
    done = 0

    def count(ticks: int) -> None:
        nonlocal done
        done = ticks

    run_scenario(
        scenario, store=store, metrics_port=metrics_port, on_tick=count,
        is_stopped=lambda: done >= stops_after,
    )  # fmt: skip
    found = find_run(open_event_log(store))
    assert found is not None
    assert found.ticks == (stops_after or 0)
    report = run_scenario(found.scenario, store=store, is_resumed=True, metrics_port=metrics_port)
    expected = run_scenario(scenario, store=whole)
    assert report.digest == expected.digest == digest_of_fold(store)
    assert report.ticks == 6


def test_order_of_populations_is_drawn_each_tick(scenario, tmp_path):
    def firsts(seed: int) -> list[str]:
        store = f"sqlite:///{tmp_path}/{seed}.db"
        run_scenario(replace(scenario, seed=seed, ticks=12), store=store)
        names: dict[int, str] = {}
        for record in records(store):
            if isinstance(record, Columns):
                names.setdefault(record.tick, record.population)
        return list(names.values())

    assert set(firsts(1)) == {"birds", "worms"}
    assert firsts(1) != firsts(2)


def test_objects_are_decided_before_columns_in_a_tick(scenario, tmp_path):
    store = f"sqlite:///{tmp_path}/a.db"
    run_scenario(scenario, store=store)
    kinds = [type(record).__name__ for record in records(store)]
    tick = kinds[kinds.index("Columns") - 1 :]
    assert tick.index("Tick") == 4  # the shepherds, three column batches, the tick
    assert tick[1:4] == ["Columns"] * 3


def test_unchanged_scenario_without_populations_is_stored_as_before():
    from placet.scenarios.scenario import as_text

    assert "populations" not in as_text(Scenario.load("town"))


def test_overrides_reach_a_population(tmp_path):
    path = tmp_path / "meadow.toml"
    path.write_text(TOML)
    few = Scenario.load(path, overrides=["populations.birds.count=5"])
    assert few.populations["birds"].count == 5
    assert few.members_count == 14
    with pytest.raises(ScenarioError, match="no entry 'bird' in populations"):
        Scenario.load(path, overrides=["populations.bird.count=5"])


@pytest.mark.parametrize(
    ("line", "other", "key", "text"),
    [
        ("count = 40", "count = 0", "populations.birds.count", "greater than or equal to 1"),
        ("count = 40", "counts = 40", "populations.birds.counts", "no such key"),
        ('"meadow.birds"', '"meadow.bird"', "populations.birds", "did you mean 'meadow.birds'"),
        ("x = 5", "z = 5", "populations.birds", "no field 'z'"),
        ("x = 5", "x = [1, 2]", "populations.birds", "shape (40,), got (2,)"),
        ("x = 5", "x = 500", "populations.birds", "within 0 and 100"),
        ('"Fly", "Peck"', '"Flie"', "populations.birds.permissions", "no kind 'Flie'"),
        ("{ Peck = {", "{ Pek = {", "populations.birds.quotas.Pek", "no kind 'Pek'"),
        ("models:birds", "models:bird", "populations.birds.policy", "no callable 'bird'"),
        ("models:birds", "models:Meadow", "populations.birds.policy", "a plain function"),
        ("models:birds", "models:call", "populations.birds.policy", "a function of (view)"),
        ("[populations.worms]", "[populations.shepherd]", "populations.shepherd", "rename one"),
        ("ticks = 6", 'ticks = 6\nclock = "realtime"', "clock", "populations act at ticks"),
    ],
)
def test_mistake_in_a_population_names_its_key(tmp_path, line, other, key, text):
    assert line in TOML
    path = tmp_path / "meadow.toml"
    path.write_text(TOML.replace(line, other, 1))
    with pytest.raises(ScenarioError) as caught:
        run_scenario(Scenario.load(path))
    assert caught.value.key == key
    assert text in str(caught.value)


@pytest.mark.parametrize("metrics_port", [None, 0])
@pytest.mark.parametrize(
    ("policy", "text"),
    [
        ("raises", "raised IndexError"),
        ("no_dict", "return a dict of kinds"),
        ("no_arrays", "returned 3 for the kind 'Fly'"),
        ("other_shape", "must be an array of shape (40,)"),
    ],
)
def test_mistake_of_a_policy_ends_the_run_and_names_it(scenario, policy, text, metrics_port):
    birds = replace(scenario.populations["birds"], policy=f"{models.__name__}:{policy}")
    changed = replace(scenario, populations={**scenario.populations, "birds": birds})
    with pytest.raises(PolicyError) as caught:
        run_scenario(changed, metrics_port=metrics_port)
    assert caught.value.key == "populations.birds.policy"
    assert caught.value.agent_id == "birds"
    assert text in str(caught.value)


def test_resumed_run_with_another_count_is_refused(scenario, tmp_path):
    store = f"sqlite:///{tmp_path}/a.db"
    run_scenario(replace(scenario, ticks=2), store=store)
    birds = replace(scenario.populations["birds"], count=41)
    changed = replace(scenario, populations={**scenario.populations, "birds": birds})
    with pytest.raises(ScenarioError, match=r"40 members of 'meadow.birds', the scenario has 41"):
        run_scenario(changed, store=store, is_resumed=True)


# Simulation


def test_simulation_runs_populations_beside_agents():
    def still(view: Any) -> Any:
        return {"Fly": {"by": np.full(view.count, 0.25)}} if view.tick else {}

    at = np.linspace(0, 9, 10)
    simulation = Simulation(
        Meadow(),
        {"shepherd": (1, models.shepherd)},
        populations={
            "birds": {"count": 10, "table": "meadow.birds", "policy": still, "columns": {"x": at}},
            "worms": (3, "meadow.worms", models.worms),
        },
    )
    simulation.step()
    assert (simulation.population("birds")["x"] == at).all()
    assert list(simulation.column_verdicts) == ["worms"]
    simulation.run(ticks=3)
    assert [len(v) for v in simulation.column_verdicts.values()] == [1, 1]
    moved = simulation.population("birds")["x"] - at
    assert (moved >= 0.75).all()
    assert (moved < 0.76).all()
    assert simulation.state["meadow.calls"]["all"]["count"] == 4
    assert simulation.report.agents == 14


def test_simulation_of_populations_alone_continues_its_store(tmp_path):
    def made(ticks: int, store: str | None = None) -> Simulation:
        simulation = Simulation(
            Meadow(), populations={"birds": (20, "meadow.birds", models.birds)}, store=store, seed=9
        )
        simulation.run(ticks=ticks)
        return simulation

    store = f"sqlite:///{tmp_path}/a.db"
    made(3, store).close()
    with made(5, store) as continued:
        assert continued.tick == 5
        assert continued.digest() == made(5).digest()


@pytest.mark.parametrize(
    ("populations", "text"),
    [
        ({"birds": 3}, "expected (count, table, policy)"),
        ({"birds": (3, "meadow.birds", 5)}, "is a plain function"),
        ({"birds": {"count": 3, "table": "meadow.birds"}}, "policy: is missing"),
        ({"birds": (3, "meadow.birds", "nowhere")}, "there is no policy 'nowhere'"),
    ],
)
def test_mistake_in_populations_of_a_simulation_is_explained(populations, text):
    with pytest.raises(ScenarioError) as caught:
        Simulation(Meadow(), populations=populations)
    assert text in str(caught.value)


def test_scenario_has_its_own_populations(scenario):
    with pytest.raises(ScenarioError, match="has its own populations"):
        Simulation(scenario, populations={})


# the view


def test_view_reads_draws_and_selects():
    seen: list[Any] = []

    def look(view: Any) -> Any:
        seen.append(
            (view.tick, view.sim_time, view.seq, view.random_unit("a"), view["x"].copy(), view)
        )
        with pytest.raises(ValueError, match="read-only"):
            view["x"][0] = 3
        with pytest.raises(KeyError, match="no field"):
            view["z"]
        with pytest.raises(KeyError, match="no table"):
            view.table("meadow.none")
        with pytest.raises(ValueError, match="a mask of birds has 8 items"):
            view.only(np.ones(3, bool), by=1)
        with pytest.raises(ValueError, match="a bound in"):
            view.randint_below(0, "b")
        assert not view.suspended.any()
        assert view.numbers.tolist() == list(range(8))
        return {"Fly": view.only([5, 2], by=[0.5, 0.1])}

    simulation = Simulation(
        Meadow(), populations={"birds": (8, "meadow.birds", look)}, seed=5, tick_s=2.0
    )
    simulation.run(ticks=2)
    (tick, now, seq, drawn, x, view), (later, then, after, again, x_then, _) = seen
    assert (tick, now, later, then) == (0, 0.0, 1, 2.0)
    assert after > seq
    expected = [random_unit(5, 0, 0, 0, "a", f"birds:{n}") for n in range(8)]
    assert drawn.tolist() == expected
    assert (drawn != again).all()
    assert np.flatnonzero(x_then - x).tolist() == [2, 5]
    assert "birds" in repr(view)


def test_payload_that_is_a_column_of_the_world_is_decided_as_it_was():
    def peck(view: Any) -> Any:
        return {"Fly": {"by": np.full(4, 0.5)}, "Peck": {"tuft": view["fed"]}}

    def dig(view: Any) -> Any:
        return {"Dig": {"tuft": view.table("meadow.birds")["fed"]}}

    fed = np.array([3, 4, 5, 6])
    columns = {"fed": fed}
    simulation = Simulation(
        Meadow(),
        populations={
            "birds": {"count": 4, "table": "meadow.birds", "policy": peck, "columns": columns},
            "worms": (4, "meadow.worms", dig),
        },
    )
    grown = 0
    for _ in range(8):  # the birds are first in some of the ticks
        seen = simulation.population("birds")["fed"].copy()
        simulation.step()
        (verdict,) = simulation.column_verdicts["worms"]
        assert verdict.counts().get("payload_invalid", 0) == (seen > 6).sum()
        grown += int((simulation.population("birds")["fed"] > seen).sum())
    assert grown


def test_kernel_of_a_simulation_knows_its_populations(scenario):
    with Simulation(scenario) as simulation:
        kernel: Kernel = simulation.kernel
        assert list(kernel.ledger.populations) == ["birds", "worms"]
        assert (simulation.population("birds")["x"] == 5).all()
