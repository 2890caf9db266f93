"""Does a look after a change cost more in a larger world, and a search of what is near?

    ./dev python benchmarks/bench_views.py [--rounds N] [--sizes 100 10000 100000] [--json]

A kernel with objects on a plane, four a unit of area at every size. Before each look one agent
moves. A look is `Viewer.view` and one field of the agent; a search adds `near` with a radius of 2.
CPU time, median of the rounds; sizes take turns. It does not show the round trip to the
orchestrator of a world in realtime (`placet bench step`), nor a search after a tick in which
everything moved.
"""

import argparse
import json
import time
from statistics import median

from placet.actors.observation.viewer import Viewer
from placet.domains.world import World
from placet.kernel import Kernel
from placet.schemas.intent import SCHEMA_VERSION

RADIUS = 2.0


class Plane:
    """A world of some size with a viewer."""

    def __init__(self, size: int) -> None:
        side = int(size**0.5) + 1
        objects = {f"o{n}": {"position": [n % side / 2, n // side / 2]} for n in range(size)}
        self.kernel = Kernel(World(objects=objects))
        for name in ("ann", "bob"):
            self.kernel.register_agent(name, position=[side / 4, side / 4])
        self.viewer = Viewer(self.kernel)
        self.middle = [side / 4, side / 4]
        self.count = 0
        self.us: dict[str, list[float]] = {"look": [], "search": []}

    def move(self) -> None:
        """Move an agent, so that nothing is left of an earlier look."""
        self.count += 1
        intent = {
            "kind": "Move",
            "payload": {"to": [self.count % 7, 1.0]},
            "agent_id": "bob",
            "req_id": f"m:{self.count}",
            "context_seq": self.kernel.seq,
            "priority": 1,
            "schema_version": SCHEMA_VERSION,
        }
        assert self.kernel.decide([intent]).admitted

    def measure(self) -> None:
        """Move and look, then move, look and search."""
        for name, timings in self.us.items():
            self.move()
            started = time.process_time_ns()
            view = self.viewer.view(self.kernel, "ann")
            assert view.state["world.agents"]["ann"]["position"]
            if name == "search":
                assert len(view.near(self.middle, RADIUS)) > 1
            timings.append((time.process_time_ns() - started) / 1e3)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 10_000, 100_000])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    planes = [Plane(size) for size in options.sizes]
    for _ in range(options.rounds):
        for plane in planes:
            plane.measure()
    result = {
        name: {
            str(size): round(median(plane.us[name]), 2)
            for size, plane in zip(options.sizes, planes, strict=True)
        }
        for name in ("look", "search")
    }
    if options.json:
        print(json.dumps(result, indent=2))
        return
    for name, by_size in result.items():
        first = next(iter(by_size.values()))
        for size, us in by_size.items():
            print(f"{name:>6} at {int(size):>8,} entities  {us:8.1f} us  {us / first:5.2f}")


if __name__ == "__main__":
    main()
