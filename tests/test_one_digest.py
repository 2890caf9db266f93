"""One world reached in five ways: its state digest, codes, seq, head and ledger are the same.

By ordinary intents, by column batches as arrays, row by row, from its log, and resumed from it.
And one run whose policies workers call: any number of them, processes and actors of Ray.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from placet.kernel import ColumnBatch, Kernel, KernelConfig, RecordList
from placet.kernel.log.replay import folded
from placet.kernel.log.snapshot import world_digest
from placet.scenarios import load
from placet.scenarios.engine import run_scenario
from placet.scenarios.simulation import Simulation
from placet.scenarios.thinking import Workers
from tests.kernel.columns.lab import KINDS, OWN_ROW_KINDS, lab, lab_kernel, payload_of
from tests.kernel.columns.laws import code, ordinary
from tests.scenarios.test_workers import walkers
from tests.sweeps.ray_program import ROOT, in_namespace

N, CELLS, TICKS = 9, 14, 8
CONFIG = KernelConfig(seed=11, quotas={"Roll": {"rate": 0.6, "burst": 1}})


class Sent(NamedTuple):
    """One batch of members: the same whichever way it is sent."""

    kind: str
    agents: Any
    payload: dict[str, Any]
    req_id: str


class World:
    """A world of nine birds, and the codes of its rows."""

    def __init__(self, *, uses_arrays: bool = True) -> None:
        self.log = RecordList()
        self.codes: list[list[str]] = []
        self.kernel = lab_kernel(N, CELLS, CONFIG, sink=self.log)
        self.kernel.uses_arrays = uses_arrays
        self.kernel.register_population(
            "birds", N, table="lab.agents", position=np.full((N, 2), 500.0), cell=np.arange(N)
        )
        self.kernel.change_agent("birds:3", "suspended")

    def send(self, sent: Sent) -> None:
        verdict = self.kernel.decide_columns(
            ColumnBatch(sent.kind, "birds", sent.payload, sent.req_id, agents=sent.agents)
        )
        self.codes.append([verdict.code_of(number) for number in verdict.codes.tolist()])

    def send_one_by_one(self, sent: Sent) -> None:
        batch = ordinary(sent.kind, sent.payload, sent.agents, sent.req_id, self.kernel.seq)
        self.codes.append(list(map(code, self.kernel.decide_group(batch))))

    def resume(self) -> None:
        """Continue from the log."""
        uses_arrays = self.kernel.uses_arrays
        self.kernel = Kernel(lab(N, CELLS), CONFIG, history=list(self.log), sink=self.log)
        self.kernel.uses_arrays = uses_arrays

    @property
    def head(self) -> bytes:
        return folded(self.log).journal.prev


def calls_of(kinds: Sequence[str], seed: int) -> list[list[Sent]]:
    """Return random batches of some ticks."""
    rng = np.random.default_rng(seed)
    ticks = []
    for tick in range(TICKS):
        calls = []
        for part in range(2):
            kind = kinds[int(rng.integers(len(kinds)))]
            agents = rng.permutation(N)[: int(rng.integers(1, N + 1))]
            payload = payload_of(rng, kind, agents, N, CELLS, np.full((N, 2), 500.0))
            calls.append(Sent(kind, agents, payload, f"s{part}:{tick}"))
        ticks.append(calls)
    return ticks


def tick(*worlds: World) -> None:
    for world in worlds:
        world.kernel.tick(world.kernel.sim_time + 1)


@pytest.mark.parametrize("seed", range(6))
def test_own_row_kinds_reach_one_state_in_five_ways(seed: int) -> None:
    arrays, rows, resumed, singly = World(), World(uses_arrays=False), World(), World()
    for calls in calls_of(OWN_ROW_KINDS, seed):
        for sent in calls:
            for world in (arrays, rows, resumed):
                world.send(sent)
            singly.send_one_by_one(sent)
            singly.kernel.ledger.group = arrays.kernel.ledger.group  # refusals leave no record
        tick(arrays, rows, resumed, singly)
        resumed.resume()
    assert arrays.codes == rows.codes == resumed.codes == singly.codes
    states = {world.kernel.digest() for world in (arrays, rows, resumed, singly)}
    states |= {folded(world.log).state.digest().hex() for world in (arrays, rows, singly)}
    assert len(states) == 1
    assert {"admitted", "agent_suspended"} <= {code for codes in arrays.codes for code in codes}


@pytest.mark.parametrize("seed", range(6))
def test_all_kinds_reach_one_world_in_four_ways(seed: int) -> None:
    arrays, rows, resumed = World(), World(uses_arrays=False), World()
    for calls in calls_of(KINDS, seed):
        for sent in calls:
            for world in (arrays, rows, resumed):
                world.send(sent)
        tick(arrays, rows, resumed)
        resumed.resume()
        rows.resume()
    assert arrays.codes == rows.codes == resumed.codes
    assert arrays.log == rows.log == resumed.log
    assert len({world.head for world in (arrays, rows, resumed)}) == 1
    kernels = [world.kernel for world in (arrays, rows, resumed)]
    past = folded(arrays.log)
    digests = {kernel.world_digest() for kernel in kernels}
    assert digests == {world_digest(past.state, past.ledger).hex()}
    assert {kernel.seq for kernel in kernels} == {past.ledger.seq}


# ---- policies on workers


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "ticks", "killed_in"),
    [
        *((count, 12, {3, 7}) for count in (1, 2, 4)),
        pytest.param(2, 24, set(range(2, 22)), marks=pytest.mark.soak),
    ],
)
def test_a_run_on_processes_ends_as_one_without_through_kills_in_mid_tick(
    count, ticks, killed_in, tmp_path
):
    scenario = replace(load("town"), ticks=ticks)
    alone = run_scenario(scenario)
    store = f"sqlite:///{tmp_path}/run.db"
    with Simulation(scenario, store=store, workers=Workers(count, slots=4)) as simulation:
        transport: Any = simulation._runner.thinkers._transport  # type: ignore[attr-defined]
        for tick in simulation.ticks(ticks):
            if tick in killed_in:
                pid = transport.pid(tick % count)
                threading.Timer(0.002, os.kill, [pid, signal.SIGKILL]).start()
        report = simulation.report
    assert (report.digest, report.head) == (alone.digest, alone.head)


@pytest.mark.slow
def test_a_run_on_a_ray_of_its_own_ends_as_one_without(tmp_path):
    command, environment = in_namespace(tmp_path)
    done = subprocess.run(
        [*command, sys.executable, "-m", "tests.scenarios.ray_alone"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    alone = run_scenario(walkers(count=8))
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == {"found": [alone.digest, alone.head], "is_ray_open": False}
