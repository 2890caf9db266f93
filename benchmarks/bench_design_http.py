"""Plans over HTTP: per second of the processor time of a server of designs.

    ./dev python benchmarks/bench_design_http.py [--seconds 5]

A plan sets ten parameters of a ferry. The clients are in this process; see `placet_bench.http`.
"""

import argparse
import asyncio
from collections.abc import Iterator
from itertools import count
from statistics import median

from placet_bench.http import CLIENTS, HttpLoad, Server, ask_once, check_system, serving, turn_of

PARAMETERS = {
    "hull.loa": 100.0,
    "hull.beam": 15.0,
    "hull.draft": 3.0,
    "hull.cb": 0.5,
    "hull.deadrise_deg": 10.0,
    "mission.range_nm": 1000.0,
    "mission.max_speed_kts": 30.0,
    "mission.gm_required_m": 1.0,
    "propulsion.total_installed_power_kw": 2000.0,
    "propulsion.propeller_diameter_m": 2.0,
}
"""Ten parameters of a ferry: a plan sets all of them to values that differ from the last ones."""

TURNS = 5


async def _plans(server: Server) -> HttpLoad:
    """Return plans for one design of each client, which are created."""
    names = [f"design-{number}" for number in range(CLIENTS)]
    for name in names:
        await ask_once(server, "/api/v1/designs", {"design_id": name})
    return HttpLoad(server, [_plans_of(server, name) for name in names])


def _plans_of(server: Server, design_id: str) -> Iterator[bytes]:
    for version in count():
        factor = 1 + 0.001 * (version % 50 + 1)
        plan = {
            "plan_id": f"{design_id}-{version}",
            "intent_id": "intent",
            "design_version_before": version,
            "actions": [
                {"action_type": "set", "path": path, "value": value * factor}
                for path, value in PARAMETERS.items()
            ],
        }
        yield server.request("POST", f"/api/v1/designs/{design_id}/actions", plan)


async def main(seconds: float) -> None:
    """Print the median of the turns."""
    check_system()
    async with serving("design") as server:
        load = await _plans(server)
        costs = [(await turn_of(load, seconds / TURNS)).cpu_us for _ in range(TURNS)]
    print(f"plans a second of the server's processor: {1e6 / median(costs):.0f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=5.0)
    asyncio.run(main(parser.parse_args().seconds))
