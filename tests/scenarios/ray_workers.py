"""Policies on Ray: a cluster of two nodes with a slot each, and its faults; a program.

It runs in a network namespace with loopback alone, and answers names of its methods with JSON.
"""

import re
import shutil
import sys
import threading
from dataclasses import replace
from pathlib import Path

import placet
from placet import Simulation
from placet.domains.world import World
from placet.scenarios import ScenarioError, load
from placet.scenarios.thinking import Workers
from tests.scenarios import worker_policies
from tests.sweeps.ray_nodes import Nodes, children_of, kill, main, raylet_of

MODULE = worker_policies.__name__
TICKS = 5


def town(**options):
    scenario = load("town").with_agents(0)
    folk = replace(scenario.agents["folk"], count=8, policy=f"{MODULE}:Walker", options=options)
    return replace(scenario, ticks=TICKS, agents={"walker": folk})


def outcome(scenario, workers=None, at_tick=lambda tick, simulation: None):
    with Simulation(scenario, workers=workers) as simulation:
        for tick in simulation.ticks(TICKS):
            at_tick(tick, simulation)
        report = simulation.report
    return [report.digest, report.head]


def refused(scenario, workers):
    try:
        outcome(scenario, workers)
    except ScenarioError as error:
        return {"error": str(error), "kind": type(error).__name__}
    return {"error": ""}


def pid_of(simulation, worker):
    where = simulation._runner.thinkers._transport.where(worker)
    return int(re.findall(r"process (\d+)", where)[0])


def kill_in_mid_tick(simulation, worker):
    """Kill a worker 50 ms from now, in the middle of the next tick."""
    threading.Timer(0.05, kill, [pid_of(simulation, worker)]).start()


class WorkerNodes(Nodes):
    """The cluster, and runs on it."""

    def on_cluster(self, count, **more):
        return Workers(count, "ray", self.cluster.address, **more)

    def digests(self):
        """Run on 1 and 2 workers, one of which is killed."""
        slow = replace(town(), agents={"x": replace(town().agents["walker"], options={})})
        slow = replace(slow, agents={"x": replace(slow.agents["x"], policy=f"{MODULE}:slow")})

        def strike(tick, simulation):
            if tick in {1, 3}:
                kill_in_mid_tick(simulation, tick // 2)

        return {
            "alone": outcome(slow),
            "1": outcome(slow, self.on_cluster(1)),
            "2": outcome(slow, self.on_cluster(2), strike),
        }

    def policy_that_raises(self):
        return refused(town(fails="raises", agent="walker_4", tick=2), self.on_cluster(2))

    def policy_that_kills(self):
        return refused(town(fails="dies", agent="walker_5", tick=1), self.on_cluster(2))

    def too_few_slots(self):
        return {
            "slots": refused(town(), self.on_cluster(3))["error"],
            "gpus": refused(town(), self.on_cluster(2, gpus=0.5))["error"],
        }

    def by_value(self):
        """Run functions that no module has."""

        def folk(view, intent):
            return [intent("Move", to=[1 + view.sim_time, len(view.agent_id)])]

        def digest(workers):
            with Simulation(World(), agents={"folk": (3, folk)}, workers=workers) as simulation:
                return simulation.run(3).digest

        return {"alone": digest(None), "ray": digest(self.on_cluster(2))}

    def module_missing(self):
        """Run a policy that imports an installed module of this machine alone."""
        site = self.folder / "here" / "site-packages"
        site.mkdir(parents=True)
        (site / "only_here.py").write_text("")
        (self.folder / "needing.py").write_text("import only_here\ndef stand(view): return []\n")
        sys.path[:0] = [str(site), str(self.folder)]
        folk = replace(town().agents["walker"], policy="needing:stand", options={})
        try:
            return refused(replace(town(), agents={"x": folk}), self.on_cluster(2))
        finally:
            del sys.path[:2]

    def other_code(self):
        """Run beside a node whose placet has another file."""
        copy = self.folder / "other"
        shutil.copytree(Path(placet.__file__).parent, copy / "placet")
        changed = copy / "placet" / "kernel" / "prng.py"
        changed.write_text(changed.read_text() + "# changed\n")
        node = self.add(env_vars={"PYTHONPATH": str(copy)})
        try:
            return refused(town(), self.on_cluster(3))
        finally:
            self.cluster.remove_node(node)

    def node_lost(self):
        """Lose a node in the middle of a run; another is there."""
        spare = []

        def strike(tick, simulation):
            if tick == 2:
                spare.append(self.add())
                pid = pid_of(simulation, 1)
                node = next(n for n in self.nodes if pid in children_of(raylet_of(n)))
                raylet = raylet_of(node)
                kill(raylet, *children_of(raylet))
                self.nodes.remove(node)
                self.cluster.remove_node(node, allow_graceful=False)

        found = {"alone": outcome(town()), "ray": outcome(town(), self.on_cluster(2), strike)}
        self.nodes += spare
        return found


if __name__ == "__main__":
    main(sys.argv[1], WorkerNodes)
