"""Runs that collect rows: by both engines, stopped, killed and resumed, live and later."""

import asyncio
import importlib.util
import os
import signal
import subprocess
import sys
import time
from contextlib import closing

import pytest

from placet import Simulation
from placet.domains.world import World
from placet.scenarios import ScenarioError, bundled, collecting, load
from placet.scenarios.collecting import collector_of
from placet.scenarios.engine import run_scenario
from placet.stores.reading import log_to_read
from placet.tables.collector import Collector
from placet.tables.parts import CollectError, read_collected
from tests.cli.command_line import run_process
from tests.scenarios.actors import by_actors

SMALL = (
    "agents.folk.count=12",
    "agents.merchant.count=4",
    "agents.child.count=4",
    "agents.crier.count=1",
    'collect={every=1, agents=["position"], refusals=true, world={width="widths:width"}}',
)
WIDTHS = """\
def width(state):
    xs = [agent["position"][0] for agent in state["world.agents"].values()]
    return max(xs) - min(xs)
"""


@pytest.fixture(autouse=True)
def widths(tmp_path, monkeypatch):
    """The module of the scenario's function, in the current folder."""
    (tmp_path / "widths.py").write_text(WIDTHS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "widths", raising=False)


def small(*more):
    return load("town", overrides=[*SMALL, *more])


def collector_to(scenario, folder=None):
    made = collector_of(scenario, folder)
    assert made is not None
    return made


def digests(tables):
    return {name: table.digest() for name, table in tables.items()}


def later(scenario, store):
    made = collector_to(scenario)
    with closing(log_to_read(str(store))) as log:
        made.collect(log)
    made.close()
    return made.tables()


@pytest.mark.parametrize("engine", ["kernel", "actors"])
def test_rows_of_a_run_equal_those_from_its_log(tmp_path, engine):
    """G27, for a whole scenario: agents, world, and the refusals that have a record."""
    scenario = small("ticks=15")
    live = collector_to(scenario)
    if engine == "kernel":
        run_scenario(scenario, store=str(tmp_path / "w.db"), collector=live)
    else:
        runner = by_actors(scenario, store=str(tmp_path / "w.db"), collector=live)
        asyncio.run(runner.run())
        live.close()
    tables, from_log = live.tables(), later(scenario, tmp_path / "w.db")
    assert tables["agents"].digest() == from_log["agents"].digest()
    assert tables["world"].digest() == from_log["world"].digest()
    rows = list(tables["refusals"].rows())
    assert [row for row in rows if row["recorded"]] == list(from_log["refusals"].rows())
    assert {row["recorded"] for row in rows} == {True, False}
    assert len(tables["agents"]) == 15 * scenario.agents_count


def test_both_engines_collect_the_same_rows(tmp_path):
    scenario = small("ticks=12")
    one, two = collector_to(scenario), collector_to(scenario)
    run_scenario(scenario, collector=one)
    asyncio.run(by_actors(scenario, collector=two).run())
    assert digests(one.tables()) == digests(two.tables())


def test_stopped_run_is_sealed_and_resumed_without_a_seam(tmp_path):
    scenario, store = small("ticks=14"), str(tmp_path / "w.db")
    ticks: list[int] = []
    run_scenario(
        scenario,
        store=store,
        collector=collector_to(scenario, "rows"),
        on_tick=ticks.append,
        is_stopped=lambda: len(ticks) == 5,
    )
    assert [r["tick"] for r in read_collected(tmp_path / "rows")["world"].rows()] == [*range(1, 6)]
    run_scenario(scenario, store=store, is_resumed=True, collector=collector_to(scenario, "rows"))
    run_scenario(scenario, collector=collector_to(scenario, "whole"))
    whole = read_collected(tmp_path / "whole")
    assert digests(read_collected(tmp_path / "rows")) == digests(whole)


def test_simulation_collects(tmp_path):
    def walk(view, intent):
        x, y, _ = view.state["world.agents"][view.agent_id]["position"]
        return [intent("Move", to=[x + 1, y])]

    collector = Collector(agents=["position"])
    simulation = Simulation(
        World(bounds=[[0, 0], [9, 9]]), agents={"folk": (2, walk)}, collector=collector
    )
    simulation.run(ticks=3)
    rows = list(collector.tables()["agents"].rows())
    assert [(r["tick"], r["agent"]) for r in rows] == [
        (tick, f"folk_{n}") for tick in (1, 2, 3) for n in (1, 2)
    ]
    assert rows[-1]["position"] == list(simulation.state["world.agents"]["folk_2"]["position"])


def test_continued_simulation_begins_with_the_ticks_of_its_log(tmp_path):
    def stay(view, intent):
        return [intent("Speak", text=f"{view.sim_time}", channel="public")]

    def simulate(ticks, **options):
        store = str(tmp_path / "s.db")
        with Simulation(World(), agents={"folk": (1, stay)}, store=store, **options) as simulation:
            simulation.run(ticks=ticks)

    simulate(2)
    collector = Collector(agents=["position"])
    simulate(4, collector=collector)  # the ticks of the log count
    assert [r["tick"] for r in collector.tables()["agents"].rows()] == [1, 2, 3, 4]


def test_folder_with_other_files_stops_the_run_before_its_log_is_written(tmp_path):
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "notes.txt").write_text("of a person")
    scenario = small("ticks=2")
    with pytest.raises(CollectError, match="is there already"):
        run_scenario(
            scenario, store=str(tmp_path / "w.db"), collector=collector_to(scenario, "rows")
        )
    assert not (tmp_path / "w.db").exists()


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("collect.evry=2", "there is no such key; did you mean 'every'"),
        ("collect.every=0", "collect.every: input should be greater than or equal to 1"),
        ("clock=realtime", 'need clock = "stepped"'),
        ("collect={every=1}", "there is nothing to collect"),
        ("collect.world.width=widths:nix", "'widths' has no function 'nix'"),
        ("collect.world.width=nowhere:f", "'nowhere:f' cannot be imported"),
    ],
)
def test_invalid_collect_table_names_the_key(override, said):
    with pytest.raises(ScenarioError, match=said):
        collector_of(small(override), None)


def test_scenario_without_a_collect_table_collects_nothing():
    assert collector_of(load("planners"), None) is None


@pytest.fixture
def without_pyarrow(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        collecting, "find_spec", lambda name: None if name == "pyarrow" else found(name)
    )


def test_optional_table_is_left_out_where_it_cannot_be_collected(without_pyarrow):
    assert collector_of(small(), None) is not None
    assert collector_of(small("collect.optional=true"), None) is None


def test_optional_table_waits_for_no_clock_that_does_not_wait():
    town = load("town", overrides=["clock=realtime"])
    assert collector_of(town, None) is None
    with pytest.raises(ScenarioError, match="need clock"):
        collector_of(town, "rows")  # a named folder is asked for


@pytest.mark.parametrize("scenario", [name for name in bundled() if load(name).collect])
def test_bundled_scenario_collects_and_its_digest_is_that_of_a_run_that_does_not(scenario):
    chosen = load(scenario, overrides=["ticks=3"])
    collector = collector_of(chosen, None)
    assert collector is not None
    digest = run_scenario(chosen, collector=collector).digest
    assert len(collector.tables()["world"]) == 3
    assert digest == run_scenario(chosen).digest


def test_bundled_scenario_collects_beside_its_log_or_in_a_named_folder(placet):
    run = ["run", "wealth", "--ticks", "2", "--no-verify"]
    assert "wealth.db.collected" in placet(*run).out
    (placet.folder / "wealth.db").unlink()
    assert "wealth-2.db.collected" in placet(*run).out  # the rows of another run stay
    for _ in range(2):
        assert "collected" not in placet(*run, "--store", "memory://").out
    assert "are in rows." in placet(*run, "--store", "memory://", "--collect-to", "rows").out


def test_command_without_pyarrow_runs_what_is_optional(placet, without_pyarrow):
    outcome = placet("run", "wealth", "--ticks", "2")
    assert (outcome.code, "collected" in outcome.out) == (0, False)
    assert [path.name for path in placet.folder.glob("wealth*")] == ["wealth.db"]


def test_command_runs_collects_and_collects_again(placet):
    (placet.folder / "widths.py").write_text(WIDTHS)
    options = [part for override in SMALL for part in ("--set", override)]
    report = placet("run", "town", *options, "--ticks", "6", "--json").json()
    assert report["collected"] == "town.db.collected"
    live = read_collected(placet.folder / "town.db.collected")
    refused = placet("collect", "town.db", "--to", "later")
    assert refused.code == 1
    assert "a log may be a stranger's" in refused.err
    named = refused.err.partition("if you trust them: ")[2].split()
    outcome = placet("collect", "town.db", "--to", "later", *named, "--json")
    assert outcome.json()["rows"]["agents"] == len(live["agents"])
    again = read_collected(placet.folder / "later")
    assert again["world"].digest() == live["world"].digest()
    assert placet("collect", "town.db", "--to", "x", "--world", "width").code == 2
    plain = placet("run", "planners", "--ticks", "1", "--collect-to", "x")
    assert "--collect-to needs a scenario" in plain.err


@pytest.mark.slow
def test_killed_process_is_resumed_with_the_rows_of_an_undisturbed_run(tmp_path):
    options = [part for override in SMALL for part in ("--set", override)]
    command = [sys.executable, "-m", "placet", "run", "town", *options]
    # Parts are closed at nearly every tick, so that the kill falls between parts and log.
    often = {**os.environ, "PYTHONPATH": str(tmp_path)}
    (tmp_path / "sitecustomize.py").write_text(
        "from placet.tables import collector\ncollector._PART_SECONDS = 0.02\n"
    )
    arguments = ["--ticks", "400", "--no-verify"]
    with subprocess.Popen([*command, *arguments, "--store", "w.db"], env=often) as process:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("w.db.collected/parts/*.ticks")):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(0.2)
        process.send_signal(signal.SIGKILL)
    assert run_process("run", "--resume", "w.db", folder=tmp_path).code == 0
    run_process(*command[3:], *arguments, "--store", "other.db", folder=tmp_path)
    resumed = read_collected(tmp_path / "w.db.collected")
    whole = read_collected(tmp_path / "other.db.collected")
    for name in ("agents", "world"):
        assert resumed[name].digest() == whole[name].digest()
    recorded = [
        [row for row in tables["refusals"].rows() if row["recorded"]] for tables in (resumed, whole)
    ]
    assert recorded[0] == recorded[1]
