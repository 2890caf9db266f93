"""Three simulated nodes of Ray on one machine, and the faults of a sweep on them; a program.

It runs in a network namespace with loopback alone: Ray would bind the machine's addresses, and ask
the outside for them. It reads names of the functions below as lines, and answers each with a line
of JSON, so that the nodes are started once for all tests. It ends only processes that it started.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from ray.cluster_utils import Cluster

import placet

SCENARIO = """
title = "agents of the tests of sweeps on Ray"
ticks = 2
[agents.folk]
count = 1
policy = "faulty:Walker"
area = [[0, 0], [9, 9]]
[agents.folk.options]
sleep_s = 0.0
raises = []
segfaults = []
exits = []
loops = []
is_held = false
"""

POLICY = """
import os, sys, time
from pathlib import Path

class Walker:
    def __init__(self, member, scenario, intent):
        self.intent, self.seed = intent, scenario.seed
        self.options = scenario.agents["folk"].options

    def propose(self, view):
        if view.sim_time == 0:
            with Path({marks!r}).open("a") as marks:
                marks.write(f"{{self.seed}}\\n")
            time.sleep(self.options["sleep_s"])
            while self.options["is_held"] and not Path({marks!r} + ".free").exists():
                time.sleep(0.02)
            if self.seed in self.options["raises"]:
                raise ValueError("this seed raises")
            if self.seed in self.options["segfaults"]:
                import ctypes
                ctypes.string_at(0)
            if self.seed in self.options["exits"]:
                os._exit(0)
            while self.seed in self.options["loops"]:
                pass
        return [self.intent("Move", to=[float(self.seed % 9), view.sim_time])]
"""
# A machine that is gone refuses each check at once; one that is busy has half a minute to answer.
QUICK_TO_NOTICE = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 1_000,
    "health_check_failure_threshold": 4,
    "health_check_timeout_ms": 30_000,
}
LATEST_SECONDS = 300
STORE_BYTES = 80 * 2**20


class Nodes:
    """The cluster: a head without slots and two nodes of one slot."""

    def __init__(self, folder):
        self.folder = folder
        head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE_BYTES}
        self.cluster = Cluster(
            initialize_head=True, head_node_args={**head, "_system_config": QUICK_TO_NOTICE}
        )
        self.nodes = [self.add(), self.add()]
        self._count = 0

    def add(self, **options):
        return self.cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES, **options)

    def close(self):
        for node in self.nodes:
            self.cluster.remove_node(node)
        self.cluster.shutdown()

    def study(self, runs, *more, **options):
        """Return a new sweep of this many runs on the cluster."""
        self._count += 1
        return Sweep(self, self.folder / f"sweep{self._count}", runs, more, options)

    # ---- the faults

    def equal_to_local(self):
        here = self.study(40, is_local=True).start().wait()
        return {"here": here, "ray": self.study(40, "--logs", "all").start().wait()}

    def runs_that_fail(self):
        faults = {"raises": 20, "segfaults": 60, "loops": 100, "exits": 140}
        options = [f"agents.folk.options.{kind}=[{seed}]" for kind, seed in faults.items()]
        sets = [text for option in options for text in ("--set", option)]
        return self.study(160, "--timeout", "6", *sets).start().wait()

    def node_of_other_code(self):
        """Add a node whose placet has another file."""
        return self._with_other_node("placet/kernel/prng.py", "# changed\n")

    def node_without_module(self):
        """Run a policy that imports an installed module of this machine alone."""
        site = self.folder / "here" / "site-packages"
        site.mkdir(parents=True)
        (site / "only_here.py").write_text("")
        sweep = self.study(20, PYTHONPATH=str(site))
        policy = sweep.folder / "faulty.py"
        policy.write_text("import only_here\n" + policy.read_text())
        return sweep.start().wait()

    def workers_killed(self):
        sweep, chance = self.study(120, sleep_s=0.05).start(), random.Random(1)
        for count in (20, 50, 80):
            sweep.wait_rows(count)
            workers = [pid for node in self.nodes for pid in workers_of(node)]
            if workers:
                kill(chance.choice(workers))
        return sweep.wait()

    def driver_killed(self):
        sweep = self.study(160, sleep_s=0.03).start()
        sweep.wait_rows(60)
        kill(sweep.process.pid)
        sweep.process.wait()
        return sweep.start().wait()

    def interrupted(self):
        sweep = self.study(160, sleep_s=0.03).start()
        sweep.wait_rows(60)
        began = time.monotonic()
        sweep.process.send_signal(signal.SIGINT)
        first = sweep.wait()
        return {"first": first, "took_s": time.monotonic() - began, "second": sweep.start().wait()}

    def machine_lost(self):
        sweep = self.study(60, sleep_s=0.25).start()
        sweep.wait_rows(8)
        node = self.nodes.pop()
        raylet = raylet_of(node)
        kill(raylet, *children_of(raylet))
        self.cluster.remove_node(node, allow_graceful=False)
        self.nodes.append(self.add())
        return sweep.wait()

    def no_free_slot(self):
        """Start a sweep while another has all slots; the patience is shortened."""
        busy = self.study(2, "--set", "agents.folk.options.is_held=true").start()
        busy.wait_marks(2)
        waiting = self.study(2, PLACET_TEST_NOTICE_S="1").start()
        waiting.wait_text("no node of Ray had a free slot")
        busy.release()
        busy.wait()
        return waiting.wait()

    def _with_other_node(self, path, text):
        copy = self.folder / "other"
        shutil.copytree(Path(placet.__file__).parent, copy / "placet")
        changed = copy / path
        changed.write_text(changed.read_text() + text)
        node = self.add(env_vars={"PYTHONPATH": str(copy)})
        try:
            return self.study(60, sleep_s=0.05).start().wait()
        finally:
            self.cluster.remove_node(node)


class Sweep:
    """A sweep as a command, in a folder of its own."""

    def __init__(self, nodes, folder, runs, more, options):
        self.folder, self.runs = folder, runs
        self.study, self.marks = folder / "study", folder / "marks"
        folder.mkdir()
        (folder / "faulty.toml").write_text(SCENARIO)
        (folder / "faulty.py").write_text(POLICY.format(marks=str(self.marks)))
        sleep_s = options.pop("sleep_s", 0.0)
        where = ["--on", "ray", "--ray-address", nodes.cluster.address]
        if options.pop("is_local", False):
            where = ["--jobs", "2"]
        self._environment = {**os.environ, **options}
        self._command = [
            *(sys.executable, "-m", "tests.sweeps.ray_command", "sweep", "faulty.toml"),
            *("--seeds", f"0..{runs - 1}", "--to", "study", "--json", *where, *more),
            *("--set", f"agents.folk.options.sleep_s={sleep_s}"),
        ]

    def start(self):
        root = str(Path(__file__).parents[2])
        path = os.pathsep.join(filter(None, [self._environment.get("PYTHONPATH"), root]))
        with (self.folder / "out").open("w") as out, (self.folder / "err").open("w") as err:
            self.process = subprocess.Popen(
                self._command,
                cwd=self.folder,
                stdout=out,
                stderr=err,
                env={**self._environment, "PYTHONPATH": path},
                start_new_session=True,
            )
        return self

    def wait_rows(self, count):
        self._wait(lambda: len(self.recorded()) >= count)

    def wait_marks(self, count):
        self._wait(lambda: len(self.executed()) >= count)

    def wait_text(self, text):
        self._wait(lambda: text in (self.folder / "err").read_text())

    def release(self):
        """Let runs that are held go on."""
        self.marks.with_name("marks.free").touch()

    def _wait(self, is_reached):
        deadline = time.monotonic() + LATEST_SECONDS
        while not is_reached() and self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)

    def wait(self):
        """Wait for the end; return the exit code, texts, and counts of executions and rows."""
        code = self.process.wait(LATEST_SECONDS)
        executed, recorded = self.executed(), self.recorded()
        return {
            "code": code,
            "error": (self.folder / "err").read_text(),
            "out": (self.folder / "out").read_text(),
            "executed": executed,
            "again": sum(executed.values()) - len(executed),
            "recorded": len(recorded),
            "logs": len(list((self.study / "logs").glob("*.db"))),
            "recorded_twice": len(recorded) - len({row["key"] for row in recorded}),
            "failed": {row["seed"]: row["error"] for row in recorded if row["error"]},
            "status": dict(Counter(row["status"] for row in recorded)),
            "digests": {row["seed"]: row.get("digest") for row in recorded},
        }

    def executed(self):
        return Counter(self.marks.read_text().split()) if self.marks.exists() else Counter()

    def recorded(self):
        files = sorted((self.study / "results").glob("*.jsonl"))
        return [json.loads(line) for f in files for line in f.read_text().split("\n")[:-1]]


def raylet_of(node):
    return node.all_processes["raylet"][0].process.pid


def workers_of(node):
    """Return the processes of a node that execute tasks."""
    names = {pid: _read(pid, "cmdline") for pid in children_of(raylet_of(node))}
    return [p for p, name in names.items() if name.startswith("ray::") and "Agent" not in name]


def children_of(parent):
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in pids if _parent(pid) == parent]


def _parent(pid):
    fields = _read(pid, "stat").rpartition(")")[2].split()
    return int(fields[1]) if fields else None


def _read(pid, name):
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except OSError:
        return ""


def kill(*pids):
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def answer(value):
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def main(folder, kind: type[Nodes] = Nodes):
    nodes = kind(Path(folder))
    answer("ready")
    try:
        for line in sys.stdin:
            answer(getattr(nodes, line.strip())())
    finally:
        nodes.close()


if __name__ == "__main__":
    main(sys.argv[1])
