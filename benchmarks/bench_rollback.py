"""What does it cost to go back eight frames of a hundred agents, and to be able to?

    ./dev python benchmarks/bench_rollback.py [--agents N] [--frames F] [--rounds R] [--json]

Every agent proposes one `Move` in a frame, through `Kernel.step`. A loop as of rollback netcode
marks each frame, and goes back to the mark of the first of eight. `rollback` is the CPU time of one
`Kernel.rollback`, bar <= 1 ms for 100 agents; `restore` that of `Kernel.restore` of a snapshot of
the same moment, without the snapshot; `frame` that of a frame, and `marked` its ratio to a frame of
a kernel that makes no mark. The second world also holds idle agents: a rollback costs what has
changed.

It does not show: a world with entities that rules create and delete; the views of a frame.
"""

import argparse
import gc
import json
import sys
import time
from collections import deque
from statistics import quantiles
from typing import Any

from placet.domains.world import World
from placet.kernel import Kernel, KernelConfig
from placet_bench.report import machine

IDLE = (0, 5_000)
clock = time.process_time_ns


class Game:
    """A world in which every acting agent moves once in a frame."""

    def __init__(self, agents: int, idle: int) -> None:
        self.kernel = Kernel(World(), KernelConfig(seed=7))
        self._acting = [f"agent_{number:06d}" for number in range(agents)]
        for name in [*self._acting, *[f"idle_{number:06d}" for number in range(idle)]]:
            self.kernel.register_agent(name, position=[0, 0])
        self._number = 0

    def frame(self) -> int:
        """Run one frame; return its CPU nanoseconds, without those of its inputs."""
        self._number += 1
        moves = [
            [self.kernel.intent("Move", agent=name, to=[self._number % 7, place % 11])]
            for place, name in enumerate(self._acting)
        ]
        before = clock()
        verdicts = self.kernel.step(1 / 60, moves)
        spent = clock() - before
        assert all(verdict.admitted for verdict in verdicts)
        return spent


def measured(agents: int, idle: int, frames: int, rounds: int) -> dict[str, Any]:
    """Run two games in turns, one of which makes marks, and return the figures."""
    marking, plain = Game(agents, idle), Game(agents, idle)
    costs: dict[str, list[float]] = {"rollback": [], "restore": [], "frame": [], "marked": []}
    for _ in range(rounds):
        gc.collect(1)
        marks, spent = deque([marking.kernel.mark()], maxlen=frames), 0
        for _ in range(frames):
            marks.append(marking.kernel.mark())
            spent += marking.frame()
        alone = sum(plain.frame() for _ in range(frames))
        before = clock()
        marking.kernel.rollback(marks[0])
        costs["rollback"].append((clock() - before) / 1e6)
        saved = plain.kernel.snapshot()
        before = clock()
        plain.kernel.restore(saved)
        costs["restore"].append((clock() - before) / 1e6)
        costs["frame"].append(spent / frames / 1e6)
        costs["marked"].append(spent / alone)
    figures: dict[str, Any] = {"agents": agents, "idle": idle, "frames": frames}
    for name, values in costs.items():
        low, middle, high = quantiles(values, n=4)
        figures[name] = {"p25": low, "median": middle, "p75": high}
    return figures


def as_line(figures: dict[str, Any]) -> str:
    """Return the figures of one world as a line of the table."""
    cells = [
        "{median:.3f} ({p25:.3f}-{p75:.3f})".format(**figures[name])
        for name in ("rollback", "restore", "frame", "marked")
    ]
    return f"{figures['agents']:>6} {figures['idle']:>7}  " + "".join(f"{c:24}" for c in cells)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--agents", type=int, default=100, help="agents that act in each frame")
    parser.add_argument("--frames", type=int, default=8, help="frames that are undone")
    parser.add_argument("--rounds", type=int, default=15, help="rollbacks of each world")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    rows = [measured(options.agents, idle, options.frames, max(options.rounds, 2)) for idle in IDLE]
    if options.json:
        print(json.dumps({"machine": machine(), "rows": rows}, indent=2))
    else:
        print("agents    idle  rollback ms             restore ms              frame ms", end="")
        print("                marked ÷ plain")
        print("\n".join(map(as_line, rows)))
        print("CPU time, median (p25-p75)")
        print(f"CPython {sys.version.split()[0]}; {machine()}; {options.rounds} rounds")
