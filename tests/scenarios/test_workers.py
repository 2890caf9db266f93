"""Policies on workers: copies of the state, deaths, errors, and what cannot travel."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import TypedDict

from placet.actors.observation.viewer import Viewer
from placet.domains.world import World
from placet.kernel import Domain, Kernel, Kind
from placet.kernel.plugin.registry import Registry
from placet.kernel.state.draft import Draft
from placet.scenarios import Scenario, ScenarioError, load
from placet.scenarios.engine import run_scenario
from placet.scenarios.kernel_runner import KernelRunner
from placet.scenarios.opening import domain_of
from placet.scenarios.scenario_agent import PolicyError
from placet.scenarios.setup import prepare
from placet.scenarios.simulation import Simulation
from placet.scenarios.slots import slots_here
from placet.scenarios.thinking import Workers
from placet.scenarios.workers import processes
from placet.scenarios.workers.copies import NO_CUT, ChangeWriter, Copy
from placet.scenarios.workers.job import job_of, problem_of
from placet.scenarios.workers.messages import ThinkAnswer, error_of
from placet.scenarios.workers.pickling import dumps, loads
from placet.scenarios.workers.pool import WorkerFailed, WorkerThinkers
from placet.scenarios.workers.processes import Processes
from placet.scenarios.workers.transport import WorkerLost
from placet.scenarios.workers.worker import Worker
from placet.schemas.intent import Intent
from tests.scenarios import worker_policies

MODULE = worker_policies.__name__
TWO = Workers(2, slots=4)


def walkers(count: int = 6, ticks: int = 5, **options: object) -> Scenario:
    """Return a scenario of walkers; some option makes one of them fail."""
    town = load("town").with_agents(0)
    walker = replace(town.agents["folk"], count=count, policy=f"{MODULE}:Walker", options=options)
    return replace(town, ticks=ticks, agents={"walker": walker})


class HereTransport:
    """Workers as objects of this process, whose calls are lost as a test says.

    Attributes:
        lost: Numbers of the calls, from 0, whose worker is lost.
        sent: The `since` of each call.
    """

    def __init__(self, job: Any, count: int, lost: set[int] = frozenset()) -> None:  # type: ignore[assignment]
        self.job, self.lost, self.restarts = job, lost, 0
        self.sent: list[int] = []
        self.workers = [Worker(job) for _ in range(count)]

    def call(self, worker, request, changes):
        future: Future[bytes] = Future()
        if len(self.sent) in self.lost:
            future.set_exception(WorkerLost("it was lost"))
        else:
            future.set_result(self.workers[worker].think(loads(dumps(request)), changes))
        self.sent.append(request.since)
        return future

    def restart(self, worker):
        self.restarts += 1
        self.workers[worker] = Worker(self.job)

    def where(self, worker):
        return f"worker {worker + 1}"

    def close(self):
        self.workers = []


def runner_on(scenario: Scenario, count: int, lost: set[int] = frozenset()) -> KernelRunner:  # type: ignore[assignment]
    """Return a runner whose policies are called by objects with copies of the state."""
    setup = prepare(scenario, store="memory://")
    runner = KernelRunner(setup)
    kernel = runner.world.kernel
    job = job_of(setup, kernel.registry, frozenset(kernel.declared))
    assert problem_of(job) == ""
    transport: Any = HereTransport(job, count, lost)
    runner.notices = []  # type: ignore[attr-defined]
    runner.thinkers = WorkerThinkers(
        transport,
        count,
        runner.population,
        runner.populations,
        source=scenario.name,
        timeout_s=60.0,
        on_notice=runner.notices.append,  # type: ignore[attr-defined]
    )
    return runner


def run_all(runner: KernelRunner, ticks: int) -> tuple[str, str]:
    while runner.report.ticks < ticks:
        runner.tick()
    result = runner.result()
    runner.close()
    return result.digest, result.head


# ---- one digest


@pytest.mark.parametrize("name", ["town", "rush", "sir", "flock", "shepherd", "wealth"])
def test_a_run_on_copies_has_the_digest_and_head_of_a_run_without(name):
    scenario = replace(load(name), ticks=6)
    if name in {"rush", "shepherd"}:
        scenario = scenario.with_agents(40)
    if name in {"flock", "shepherd"}:
        scenario = scenario.with_values({"populations.birds.count": 500})
    alone = run_scenario(scenario)
    for count in (1, 2, 5):
        assert run_all(runner_on(scenario, count), 6) == (alone.digest, alone.head)


def test_limited_sight_is_judged_alike_on_a_copy():
    scenario = replace(load("town"), ticks=8).with_values(
        {"settings.observation": {"distance": 12.0}}
    )
    alone = run_scenario(scenario)
    assert run_all(runner_on(scenario, 3), 8) == (alone.digest, alone.head)


def test_another_cut_in_between_costs_the_whole_state_and_no_change():
    scenario = walkers(ticks=6)
    alone = run_scenario(scenario)
    runner = runner_on(scenario, 2)
    for tick in range(6):
        runner.tick()
        if tick == 2:
            runner.view("walker_1")
    transport: Any = runner.thinkers._transport  # type: ignore[attr-defined]
    whole = [since == NO_CUT for since in transport.sent]
    assert whole == [True, True, False, False, False, False, True, True, *[False] * 4]
    assert run_all(runner, 6) == (alone.digest, alone.head)


def test_lost_workers_lose_nothing_and_are_named():
    scenario = walkers(ticks=6)
    alone = run_scenario(scenario)
    runner = runner_on(scenario, 2, lost={1, 4, 5, 9})
    assert run_all(runner, 6) == (alone.digest, alone.head)
    assert len(runner.notices) == 4  # type: ignore[attr-defined]
    assert runner.notices[0] == (  # type: ignore[attr-defined]
        "worker 2 was replaced in tick 1: it was lost; its agents are asked again (1 of 2)"
    )


def test_a_share_that_ends_three_workers_names_its_agent_and_begins_no_tick():
    runner = runner_on(walkers(), 2, lost={0, 2, 4})
    with pytest.raises(WorkerFailed, match=r"of walker_3 ended its worker in tick 1 \(it"):
        runner.tick()
    assert (runner.report.ticks, runner.world.kernel.ledger.tick) == (0, 0)


def test_a_share_that_ends_two_workers_is_asked_one_by_one():
    scenario = walkers()
    alone = run_scenario(scenario)
    assert run_all(runner_on(scenario, 2, lost={0, 2}), 5) == (alone.digest, alone.head)


def test_a_collection_that_is_empty_is_known_on_a_copy():
    kernel = Kernel(World())
    kernel.register_agent("ann", position=[0, 0])
    writer, copy = ChangeWriter(), Copy(kernel.registry, frozenset(kernel.declared), 0)
    writer.take(kernel)
    copy.take(NO_CUT, writer.cut, loads(writer.changes(is_whole=True)))
    assert copy.kernel.state == kernel.state
    kernel.remove_agent("ann")
    writer.take(kernel)
    copy.take(writer.follows, writer.cut, loads(writer.changes(is_whole=False)))
    assert copy.kernel.state["world.agents"] == {}
    fresh = Copy(kernel.registry, frozenset(), 0)
    fresh.take(NO_CUT, writer.cut, loads(writer.changes(is_whole=True)))
    assert fresh.kernel.state["world.agents"] == {}
    assert copy.kernel.sim_time == kernel.sim_time


class Empty(TypedDict):
    """A payload without fields."""


class Sparks(Domain):
    """Makes an entity of a collection that it does not declare, and removes it at once."""

    name, version, collections = "sparks", "1", ()

    def __init__(self) -> None:
        self.kinds = [Kind("Spark", Empty, self.spark)]

    def spark(self, draft: Draft, intent: Intent) -> None:
        draft.create("sparks.hot", "h")
        draft.delete("sparks.hot", "h")


def test_a_collection_that_was_made_and_emptied_between_two_cuts_is_known_on_a_copy():
    kernel = Kernel(Sparks())
    kernel.register_agent("ann")
    writer, copy = ChangeWriter(), Copy(kernel.registry, frozenset(kernel.declared), 0)
    writer.take(kernel)
    copy.take(NO_CUT, writer.cut, loads(writer.changes(is_whole=True)))
    assert "sparks.hot" not in copy.viewer.view(copy.kernel, "ann").state
    assert kernel.decide([kernel.intent("Spark", agent="ann")]).admitted
    writer.take(kernel)
    copy.take(writer.follows, writer.cut, loads(writer.changes(is_whole=False)))
    here, there = (
        v.view(k, "ann").state for v, k in ((Viewer(kernel), kernel), (copy.viewer, copy.kernel))
    )
    assert here["sparks.hot"] == there["sparks.hot"] == {}


def test_arrays_of_a_population_that_cannot_be_pickled_are_an_error_of_its_policy():
    scenario = replace(load("flock"), ticks=2).with_values({"populations.birds.count": 5})
    worker = Worker(
        job_of(prepare(scenario, store="memory://"), Registry([domain_of(scenario)]), frozenset())
    )
    answer = ThinkAnswer(columns={"birds": [lambda: None]})  # type: ignore[list-item]  # no array
    sent = loads(worker._pickled(answer, 0))
    assert not sent.columns
    with pytest.raises(PolicyError, match=r"populations.birds.policy: returned arrays that cannot"):
        raise error_of(sent.column_faults["birds"])


# ---- policies of whole cohorts


def flockers(**options: object) -> Scenario:
    scenario = walkers(count=7)
    both = {
        "stander": replace(scenario.agents["walker"], count=2, options={}),
        "walker": replace(scenario.agents["walker"], policy=f"{MODULE}:Flockers", options=options),
    }
    return replace(scenario, agents=both)


def test_a_policy_of_a_cohort_is_called_once_a_tick_and_worker():
    called = worker_policies.Flockers
    called.calls = 0
    alone = run_scenario(flockers())
    assert (called.calls, alone.silent) == (5, 1)
    for count in (1, 3):
        called.calls = 0
        assert run_all(runner_on(flockers(), count), 5) == (alone.digest, alone.head)
        assert called.calls == 5 * count


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"raises": 2}, r"raised ValueError: the model raises in tick 3 \(2 s\) for walker_1"),
        ({"drops": 1}, r"propose_all returned [0-6] batches for [0-7] views; expected a batch"),
    ],
)
def test_a_policy_of_a_cohort_that_fails_is_the_error_of_its_agents(options, problem):
    for count in (1, 2):
        with pytest.raises(PolicyError, match=problem) as error:
            run_all(runner_on(flockers(**options), count), 5)
        assert error.value.agent_id == "walker_1"
        assert "the policies of 6 more agents failed too" in str(error.value)
    with pytest.raises(PolicyError, match=problem):
        run_scenario(flockers(**options))


def test_a_policy_of_a_cohort_is_made_with_scenario_and_cohort():
    folk = replace(walkers().agents["walker"], policy=f"{MODULE}:Misshapen", options={})
    with pytest.raises(ScenarioError, match=r"expected a class made with \(scenario, cohort\)"):
        run_scenario(replace(walkers(), agents={"walker": folk}))


# ---- errors


def test_a_policy_that_raises_gives_the_error_of_one_process():
    scenario = walkers(fails="raises", agent="walker_4", tick=2)
    with pytest.raises(PolicyError) as alone:
        run_scenario(scenario)
    runner = runner_on(scenario, 2)
    with pytest.raises(PolicyError) as error:
        run_all(runner, 5)
    assert str(error.value) == str(alone.value)
    assert "worker_policies.py, line " in str(error.value)
    assert error.value.agent_id == "walker_4"
    assert "ValueError: this policy raises" in str(error.value.__cause__)
    assert runner.report.ticks == 2


def test_policies_that_cannot_be_made_are_one_error_of_the_first():
    scenario = walkers(count=9)
    unmade = replace(scenario.agents["walker"], policy=f"{MODULE}:Unmade", options={})
    for count in (1, 4):
        with pytest.raises(PolicyError, match="no policy for walker_1 as it was made for walker_1"):
            run_all(runner_on(replace(scenario, agents={"walker": unmade}), count), 1)


def test_a_part_of_a_view_in_a_payload_travels_as_it_is_decided_here():
    folk = replace(load("town").agents["folk"], count=3, options={})
    for policy in ("walk", "quote"):
        scenario = replace(
            walkers(), ticks=2, agents={"x": replace(folk, policy=f"{MODULE}:{policy}")}
        )
        alone = run_scenario(scenario)
        runner = runner_on(scenario, 2)
        assert run_all(runner, 2) == (alone.digest, alone.head)
        assert runner.report.refusals == alone.refusals


def test_an_intent_that_cannot_be_pickled_is_an_error_of_its_policy():
    runner = runner_on(walkers(fails="lambda", agent="walker_2", tick=1), 2)
    with pytest.raises(
        PolicyError, match=r"intents that cannot be pickled .* in tick 2 for walker_2"
    ):
        run_all(runner, 5)


def test_a_population_whose_policy_raises_is_named():
    flock = replace(load("flock"), ticks=2)
    name = next(iter(flock.populations))
    bad = replace(flock.populations[name], policy=f"{MODULE}:walk_of_nobody")
    with pytest.raises(ScenarioError, match="has no callable 'walk_of_nobody'"):
        prepare(replace(flock, populations={name: bad}), store="memory://")


# ---- bad numbers, and what cannot travel


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"count": 0}, "workers: count: expected an int of 1 to 4096, got 0"),
        ({"count": -1}, "got -1"),
        ({"count": 1.5}, "got 1.5"),
        ({"count": True}, "got True"),
        ({"count": 1, "on": "moon"}, "on: expected 'here' or 'ray', got 'moon'"),
        ({"count": 1, "timeout_s": 0}, "timeout_s: expected seconds above 0, at most .*, got 0"),
        ({"count": 1, "timeout_s": 1e12}, "timeout_s: expected seconds above 0, at most .*, got 1"),
        ({"count": 1, "gpus": -1, "on": "ray"}, "gpus: expected a number of at least 0"),
        ({"count": 1, "address": "head:1"}, "address: it belongs to on='ray'"),
        ({"count": 1, "gpus": 1}, "gpus: it belongs to on='ray'"),
        ({"count": 1, "slots": 0}, "slots: expected an int of at least 1"),
    ],
)
def test_workers_of_invalid_values_are_refused(arguments, problem):
    with pytest.raises(ScenarioError, match=problem):
        Workers(**arguments)


def test_more_workers_than_slots_are_refused_before_the_log_is_begun(tmp_path):
    store = f"sqlite:///{tmp_path}/run.db"
    with pytest.raises(ScenarioError, match=r"3 workers need as many processors, .* use at most 2"):
        run_scenario(walkers(), store=store, workers=Workers(3, slots=2))
    with pytest.raises(ScenarioError, match="use at most"):
        Simulation(walkers(), store=store, workers=4096)
    assert not (tmp_path / "run.db").exists()


def test_slots_are_those_of_the_cgroup_and_the_affinity(tmp_path):
    own = slots_here(tmp_path)
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert slots_here(tmp_path) == own
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert slots_here(tmp_path) == min(own, 1)
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    assert slots_here(tmp_path) == 1
    (tmp_path / "cpu.max").unlink()
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("-1\n")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert slots_here(tmp_path) == own


def test_a_clock_that_does_not_wait_takes_no_workers():
    with pytest.raises(ScenarioError, match=r"need clock = 'stepped'.*it is 'realtime'"):
        run_scenario(load("market"), workers=TWO)


def test_a_policy_that_cannot_travel_names_its_cohort():
    with pytest.raises(ScenarioError, match=r"folk.policy: cannot travel to workers: .*<lambda>"):
        Simulation(World(), agents={"folk": (2, lambda view: [])}, workers=TWO)
    with pytest.raises(ScenarioError, match="check: it needs the kernel"):
        Simulation(World(), agents={"folk": (2, worker_policies.slow)}, workers=TWO, check=True)


def test_a_domain_that_cannot_be_made_again_is_refused():
    with pytest.raises(ScenarioError, match=r"domain 'park' .* its settings\(\) returns None"):
        Simulation(worker_policies.Park(9), agents={"folk": (2, worker_policies.slow)}, workers=TWO)


def test_a_worker_of_other_code_says_what_differs():
    setup = prepare(walkers(), store="memory://")
    registry = Registry([setup.domain])
    job = job_of(setup, registry, frozenset())
    assert job.modules == ["placet.domains.world.domain", MODULE]
    other = replace(job, versions=("2.7.18", "0.1"))
    assert "the run Python 2.7.18 and placet 0.1" in problem_of(other)
    assert "rules of the domains differ" in problem_of(replace(job, fingerprint="0" * 32))
    missing = replace(job, policies={"walker": "no_such_module:Walker"})
    assert "No module named 'no_such_module'" in problem_of(missing)
    with pytest.raises(ScenarioError, match=r"process [0-9]+ cannot run this: .*no_such_mod"):
        Processes(missing, 1)


# ---- processes


@pytest.mark.slow
def test_a_process_that_is_killed_or_hangs_in_mid_tick_is_replaced(tmp_path, capfd):
    for fails, timeout_s in (("dies", 60.0), ("hangs", 3.0)):
        mark = tmp_path / fails
        scenario = walkers(fails=fails, agent="walker_3", tick=2, once=str(mark))
        mark.touch()
        alone = run_scenario(scenario)
        mark.unlink()
        report = run_scenario(scenario, workers=replace(TWO, timeout_s=timeout_s))
        assert (report.digest, report.head) == (alone.digest, alone.head)
        assert mark.exists()
    printed = "".join(capfd.readouterr())
    assert "was replaced in tick 3: it ended with exit code -9; its agents are asked" in printed
    assert "it took longer than 3 s" in printed


@pytest.mark.slow
def test_a_policy_that_kills_its_worker_each_time_ends_the_run_with_its_name(tmp_path):
    store = f"sqlite:///{tmp_path}/run.db"
    scenario = walkers(fails="dies", agent="walker_5", tick=2)
    with pytest.raises(WorkerFailed) as error:
        run_scenario(scenario, store=store, workers=TWO)
    assert (error.value.agent_id, error.value.tick) == ("walker_5", 3)
    assert error.value.key == "agents.walker.policy"
    mended = scenario.with_values({"agents.walker.options.agent": "nobody"})
    alone = run_scenario(mended)
    resumed = run_scenario(mended, store=store, is_resumed=True)
    assert (resumed.resumed_at, resumed.digest) == (2, alone.digest)


@pytest.mark.slow
def test_a_worker_that_is_killed_while_it_starts_is_started_again(monkeypatch):
    begun: list[int] = []
    start = processes._Process.__init__

    def killed_at_first(self: Any, *arguments: Any) -> None:
        start(self, *arguments)
        begun.append(self.pid)
        if len(begun) in {3, 4}:  # the first two are those of the start of the run
            os.kill(self.pid, signal.SIGKILL)

    agents = {"folk": (3, worker_policies.slow)}
    alone = Simulation(World(), agents=agents).run(2)
    with Simulation(World(), agents=agents, workers=TWO) as simulation:
        transport: Any = simulation._runner.thinkers._transport  # type: ignore[attr-defined]
        monkeypatch.setattr(processes._Process, "__init__", killed_at_first)
        begun += [transport.pid(0), transport.pid(1)]
        simulation.step()
        os.kill(transport.pid(0), signal.SIGKILL)
        assert simulation.run(1).digest == alone.digest
    assert len(begun) == 5


@pytest.mark.slow
def test_a_script_without_a_with_block_ends_at_ctrl_c(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from placet.domains.world import World\n"
        "from placet.scenarios.simulation import Simulation\n"
        "from placet.scenarios.thinking import Workers\n"
        "from tests.scenarios import worker_policies\n"
        "agents = {'folk': (2, worker_policies.forever)}\n"
        "run = Simulation(World(), agents=agents, workers=Workers(2, slots=4))\n"
        "print('open', flush=True)\n"
        "run.run(1)\n"
    )
    command = [sys.executable, str(script)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"open\n"
        time.sleep(0.5)  # until it waits for its workers
        run.send_signal(signal.SIGINT)
        try:
            assert run.wait(60) != 0
        finally:
            run.kill()


@pytest.mark.slow
def test_lines_that_a_policy_prints_on_a_worker_are_not_lost(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from placet.domains.world import World\n"
        "from placet.scenarios.simulation import Simulation\n"
        "from placet.scenarios.thinking import Workers\n"
        "from tests.scenarios import worker_policies\n"
        "agents = {'folk': (4, worker_policies.printing)}\n"
        "with Simulation(World(), agents=agents, workers=Workers(2, slots=4)) as run:\n"
        "    run.run(2)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    environment.pop("PYTHONUNBUFFERED", None)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.splitlines().count("a policy prints") == 8


@pytest.mark.slow
def test_a_program_of_functions_runs_on_processes_and_ends_them():
    agents = {"folk": (3, worker_policies.slow)}
    alone = Simulation(World(), agents=agents).run(3)
    with Simulation(World(), agents=agents, workers=TWO) as simulation:
        transport: Any = simulation._runner.thinkers._transport  # type: ignore[attr-defined]
        pids = [transport.pid(0), transport.pid(1)]
        simulation.step()
        os.kill(pids[0], signal.SIGKILL)
        report = simulation.run(2)
        pids.append(transport.pid(0))
        assert (report.digest, report.head) == (alone.digest, alone.head)
        assert report.silent == 0
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
