"""One scenario by both engines: a kernel, and the actors of a world. Their runs are equal."""

import asyncio
import os
import random
import shutil
import signal
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from placet import AgentError, Simulation, StoreError
from placet.domains.world import World
from placet.history.reader import check_integrity
from placet.runtime import kernel_world
from placet.runtime import world as open_world
from placet.scenarios import engine, load
from placet.scenarios.engine import OpenRun, run_scenario
from placet.scenarios.report import RunReport
from placet.scenarios.resume import find_run
from placet.scenarios.scenario import Scenario
from placet.stores.url import open_event_log
from tests.scenarios import actors
from tests.scenarios.test_resume import whole_digest
from tests.stores.snapshots.test_snapshots import InThisProcess

if TYPE_CHECKING:
    from pathlib import Path

AGENTS, TICKS = 12, 5
TOWN = load("town", overrides=[f"ticks={TICKS}"]).with_agents(AGENTS)

MIXED = """
import placet.kernel.prng as prng

class Mixed:
    def __init__(self, member, scenario, intent):
        self.intent, self.name = intent, member.agent_id
        self.key, self.people = scenario.seed, [m.agent_id for m in scenario.members()]

    def propose(self, view):
        def draw(bound, purpose):
            tick = round(view.sim_time)
            return prng.randint_below(bound, self.key, tick, 0, 0, purpose, self.name)

        batch = []
        for n in range(draw(4, "batch")):
            act = draw(5, f"act {n}")
            if act == 0:
                to = [draw(14, f"x {n}") - 2, draw(14, f"y {n}") - 2]
                batch.append(self.intent("Move", to=to))
            elif act == 1:
                batch.append(self.intent("Speak", text=f"{n} of {self.name}"))
            elif act == 2:
                name = f"gem_{1 + draw(3, f'gem {n}')}"
                kind = ["pickup", "drop", "use"][draw(3, f"how {n}")]
                batch.append(self.intent("Interact", target_id=name, interaction_type=kind))
            elif act == 3:
                other = self.people[draw(len(self.people), f"other {n}")]
                batch.append({**self.intent("Move", to=[1, 1]), "agent_id": other})
            elif draw(3, f"odd {n}") == 0:
                batch.append(self.intent("Nothing"))
        if batch and draw(9, "again") == 0:
            batch[-1]["req_id"] = f"run:{draw(40, 'old')}"
        if batch and draw(7, "late") == 0:
            return batch and [{**batch[0], "context_seq": max(0, view.view_seq - 60)}]
        if batch and draw(9, "later") == 0:
            batch = [{**batch[0], "valid_until": view.sim_time + draw(3, "until")}]
        return batch
"""


@pytest.fixture
def mixed(tmp_path, monkeypatch):
    (tmp_path / "mixed_agents.py").write_text(MIXED)
    monkeypatch.syspath_prepend(tmp_path)

    def make(number: int) -> Scenario:
        chance = random.Random(number)
        path = tmp_path / "mixed.toml"
        path.write_text(
            f"seed = {number}\nticks = {chance.randint(3, 9)}\n"
            f"tick_s = {chance.choice([1.0, 0.5, 2.0])}\n"
            + chance.choice(["", f"staleness_threshold = {chance.randint(0, 60)}\n"])
            + "[settings]\nbounds = [[0, 0], [10, 10]]\n"
            + chance.choice(["", "max_step = 6.0\n"])
            + chance.choice(["", "cooldowns = { Move = 2.0 }\n"])
            + chance.choice(["", "observation = { distance = 4.0 }\n"])
            + "[quotas]\n"
            + chance.choice(["", "Speak = { rate = 0.5, burst = 2 }\n"])
            + chance.choice(["", "'*' = { rate = 1.0, burst = 3 }\n"])
            + f"[agents.a]\ncount = {chance.randint(1, 9)}\npolicy = 'mixed_agents:Mixed'\n"
            "area = [[0, 0], [10, 10]]\n"
            f"[agents.b]\ncount = {chance.randint(0, 9)}\npolicy = 'mixed_agents:Mixed'\n"
            "permissions = ['Move', 'Interact']\narea = [[0, 0], [10, 10]]\n"
            "[objects.gem]\ncount = 3\narea = [[0, 0], [10, 10]]\n"
        )
        return load(path)

    return make


def by_actors(scenario: Scenario, store: str = "memory://", **options: Any) -> RunReport:
    return asyncio.run(actors.by_actors(scenario, store=store, **options).run())


def by_kernel(scenario: Scenario, store: str = "memory://", **options: Any) -> RunReport:
    return run_scenario(scenario, store=store, **options)


def figures(report: RunReport) -> dict[str, Any]:
    """Return everything in a report that does not depend on the machine or the engine."""
    depends = {"seconds", "intents_per_second", "verdict_ms", "thinking_us", "time", "head"}
    depends |= {"store", "resumed_at"}
    figures = {key: value for key, value in report.as_dict().items() if key not in depends}
    return figures | {"examples": report.examples}


def test_the_kernel_runs_what_needs_no_actors():
    runs: list[OpenRun] = []
    run_scenario(load("rush", overrides=["ticks=1"]).with_agents(2), on_open=runs.append)
    overrides = ["ticks=1", "clock=realtime", "tick_s=0.01"]
    run_scenario(load("rush", overrides=overrides).with_agents(2), on_open=runs.append)
    scenario = load("rush", overrides=["ticks=1"]).with_agents(2)
    run_scenario(scenario, on_open=runs.append, metrics_port=0)
    assert [run.metrics_url is None for run in runs] == [True, True, False]
    # The actors fill in the report that is in progress, a kernel makes another at the end.
    assert [run.report.digest != "" for run in runs] == [False, True, True]


@pytest.mark.parametrize("number", range(12))
def test_generated_scenario_has_one_digest_by_both_engines(mixed, tmp_path, number):
    scenario = mixed(number)
    stores = [f"sqlite:///{tmp_path}/{name}.db?synchronous=off" for name in ("kernel", "actors")]
    assert figures(by_kernel(scenario, stores[0])) == figures(by_actors(scenario, stores[1]))
    assert whole_digest(stores[0]) == whole_digest(stores[1])
    for store in stores:
        assert check_integrity(open_event_log(store)).is_ok


@pytest.mark.slow
@pytest.mark.parametrize("number", range(12, 120))
def test_more_generated_scenarios_have_one_digest_by_both_engines(mixed, tmp_path, number):
    test_generated_scenario_has_one_digest_by_both_engines(mixed, tmp_path, number)


@pytest.fixture(params=[False, True], ids=["log alone", "snapshots and compaction"])
def crashes(request, tmp_path, monkeypatch):
    """Copy the store after every write of a run by a kernel, as a crash would leave it."""
    options: dict[str, Any] = {}
    if request.param:
        monkeypatch.setattr(open_world, "SnapshotProcess", InThisProcess)
        options = {"snapshot_every_seqs": 30, "compact_log": True}
    (tmp_path / "live").mkdir()
    store = f"sqlite:///{tmp_path}/live/t.db?synchronous=off"
    images: list[Path] = []
    original = kernel_world.KernelWorld.flush

    def copy_after_write(world: Any) -> None:
        original(world)
        image = tmp_path / f"crash{len(images)}"
        while True:
            try:
                shutil.copytree(tmp_path / "live", image)
            except shutil.Error:  # a snapshot was deleted during the copy: copy again
                shutil.rmtree(image)
            else:
                break
        images.append(image / "t.db")

    with monkeypatch.context() as patch:
        patch.setattr(kernel_world.KernelWorld, "flush", copy_after_write)
        by_kernel(TOWN, store, **options)
    return images, store, options


@pytest.mark.parametrize("resume", [by_kernel, pytest.param(by_actors, marks=pytest.mark.slow)])
def test_run_resumed_after_any_write_ends_with_the_same_digest(crashes, resume):
    images, store, options = crashes
    whole = whole_digest(store)
    resumed_at = set()
    for image in images:
        found = find_run(open_event_log(str(image)))
        assert found is not None
        resumed_at.add(found.ticks)
        url = f"sqlite:///{image}?synchronous=off"
        assert resume(TOWN, url, is_resumed=True, **options).digest == whole[0].hex()
        assert whole_digest(str(image)) == whole
        assert check_integrity(open_event_log(str(image))).is_ok
    assert resumed_at == set(range(TICKS + 1))


def test_run_is_stopped_between_two_ticks_and_reported(tmp_path):
    store = f"sqlite:///{tmp_path}/t.db?synchronous=off"
    whole = by_kernel(TOWN)
    answers = iter([False] * 3)
    stopped = by_kernel(TOWN, store, is_stopped=lambda: next(answers, True))
    assert (stopped.ticks, stopped.is_stopped) == (2, True)
    resumed = by_kernel(TOWN, store, is_resumed=True)
    assert (resumed.ticks, resumed.resumed_at, resumed.is_stopped) == (TICKS, 2, False)
    assert resumed.digest == whole.digest


def test_agent_is_suspended_between_two_ticks_by_both_engines_alike(tmp_path, monkeypatch):
    def suspended(store):
        """Suspend folk_1 before the second tick, and resume it before the fourth."""
        runs: list[OpenRun] = []
        ticks = iter(range(100))

        def is_stopped():
            if runs and runs[0].report.ticks in {1, 3}:
                change = {1: "suspended", 3: "resumed"}[runs[0].report.ticks]
                runs[0].change_agent("folk_1", change)
                with pytest.raises(AgentError, match="nobody"):
                    runs[0].change_agent("nobody", change)
            return next(ticks) > 50

        report = run_scenario(TOWN, store=store, on_open=runs.append, is_stopped=is_stopped)
        return report.digest, report.refusals

    stores = [f"sqlite:///{tmp_path}/{name}.db?synchronous=off" for name in "ab"]
    kernel = suspended(stores[0])
    monkeypatch.setattr(engine, "reason_for_actors", lambda _: "this test")
    assert suspended(stores[1]) == kernel
    assert kernel[1]["agent/agent_suspended"] == 2
    assert kernel[0] != by_kernel(TOWN).digest


class FailingSnapshots(InThisProcess):
    """Snapshots that fail, as on a disk that is full."""

    def run(self):
        raise StoreError("cannot write a snapshot: the disk is full")


def test_failed_snapshot_is_reported_and_harms_nothing(tmp_path, monkeypatch, capfd):
    store = f"sqlite:///{tmp_path}/t.db?synchronous=off"
    monkeypatch.setattr(open_world, "SnapshotProcess", FailingSnapshots)
    scenario = replace(TOWN, ticks=60)
    report = by_kernel(scenario, store, snapshot_every_seqs=20, compact_log=True)
    assert report.digest == by_kernel(scenario).digest
    assert capfd.readouterr().err.count("the disk is full") == 1
    assert check_integrity(open_event_log(store)).is_ok


# Ctrl-C


class Interrupt:
    """A policy that sends SIGINT to its own process at one tick."""

    def __init__(self, at: float):
        self.at = at

    def propose(self, view):
        if view.sim_time == self.at:
            self.at = -1.0
            os.kill(os.getpid(), signal.SIGINT)
        return [{"kind": "Move", "payload": {"to": [view.sim_time, 0]}}]


def interrupted(store: str, at: float, world: World | None = None) -> Simulation:
    agents: dict[str, Any] = {"folk": (3, Interrupt(at))}
    return Simulation(world or World(), agents, store=store)


def test_interrupt_in_a_policy_leaves_the_tick_undone(tmp_path):
    store = f"sqlite:///{tmp_path}/t.db?synchronous=off"
    whole = interrupted("memory://", -1.0).run(ticks=6).digest
    with interrupted(store, 3.0) as simulation:
        with pytest.raises(KeyboardInterrupt):
            simulation.run(ticks=6)
        assert (simulation.tick, simulation.kernel.sim_time) == (3, 3.0)
    with interrupted(store, -1.0) as simulation:
        report = simulation.run(ticks=6)
    assert (report.resumed_at, report.digest) == (3, whole)


def world_interrupted_in_a_rule(times: int) -> World:
    """Return a world whose interaction `stop` sends SIGINT to its process, so many times."""

    def stop(draft, intent):
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGINT)

    return World(objects={"bell": {"position": [0, 0]}}, interactions={"stop": stop})


def ring(view, intent):
    if view.agent_id == "folk_2" and view.sim_time == 2.0:
        return [intent("Interact", target_id="bell", interaction_type="stop")]
    return [intent("Move", to=[view.sim_time, 0])]


def test_interrupt_in_a_step_takes_effect_after_the_step(tmp_path):
    store = f"sqlite:///{tmp_path}/t.db?synchronous=off"
    simulation = Simulation(world_interrupted_in_a_rule(1), {"folk": (3, ring)}, store=store)
    with pytest.raises(KeyboardInterrupt):
        simulation.run(ticks=6)
    assert simulation.tick == 3
    assert [verdict.admitted for verdict in simulation.verdicts.values()] == [True] * 3
    assert simulation.report.admitted == 9
    simulation.close()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with Simulation(world_interrupted_in_a_rule(0), {"folk": (3, ring)}, store=store) as again:
        assert again.run(ticks=6).resumed_at == 3


def test_second_interrupt_ends_the_step_and_its_decisions_are_written(tmp_path):
    store = f"sqlite:///{tmp_path}/t.db?synchronous=off"
    simulation = Simulation(world_interrupted_in_a_rule(2), {"folk": (9, ring)}, store=store)
    with pytest.raises(KeyboardInterrupt):
        simulation.run(ticks=6)
    seq = simulation.kernel.seq
    with pytest.raises(Exception, match="a step was interrupted by KeyboardInterrupt"):
        simulation.step()
    simulation.close()
    log = open_event_log(f"{tmp_path}/t.db")
    assert check_integrity(log).is_ok
    assert check_integrity(log).seq == seq
    with pytest.raises(Exception, match="ends inside tick 3"):
        Simulation(world_interrupted_in_a_rule(0), {"folk": (9, ring)}, store=store)


def test_simulation_runs_outside_of_the_main_thread():
    reports = []
    thread = threading.Thread(
        target=lambda: reports.append(interrupted("memory://", -1.0).run(ticks=3))
    )
    thread.start()
    thread.join()
    assert reports[0].admitted == 9
