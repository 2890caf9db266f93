"""What does it cost to keep the log on a PostgreSQL server instead of in a SQLite file?

    TMPDIR=/a/real/disk ./dev python benchmarks/bench_w3_postgres.py [--url U] [--seconds S]

W3 twice in one run: 100 agents, batches of 10, 4 outstanding each, answered when durable; SQLite at
synchronous=FULL and PostgreSQL at synchronous_commit=on take turns, memory beside them. Without
--url a server of its own is started on a socket, with its data in the same folder as the SQLite
file and 32 MB of shared buffers; TEST_POSTGRES_BIN names the folder of its programs.

It does not show: a network between world and server, synchronous standbys of the server, other
worlds on it.
"""

import argparse
import asyncio
import json
import os
import platform
import sys
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

from placet.schemas.codec import Json
from placet_bench.measure import interleave, percentiles_ms, ratios, spread
from placet_bench.subjects import WholeWorld
from placet_bench.workloads import Load, Shape

LANES = 4


async def compete(stores: Mapping[str, str], seconds: float) -> dict[str, dict[str, Json]]:
    """Let worlds that differ in their store alone work in turn."""
    shape = Shape(lanes=LANES)
    worlds = {name: WholeWorld(Load(shape), store) for name, store in stores.items()}
    async with AsyncExitStack() as stack:
        for world in worlds.values():
            await stack.enter_async_context(world)
        turns = await interleave(list(worlds.values()), seconds)
        return {
            name: {
                "intents_per_second": spread([turn.per_second for turn in turns[world]]).as_dict(),
                "ratio_to_sqlite": spread(ratios(turns[world], turns[worlds["sqlite"]])).as_dict(),
                "verdict_ms": percentiles_ms(world.latencies_ns),
                "commit_ms": world.statistics()["commit_ms"],
                "durability": world.statistics()["durability"],
            }
            for name, world in worlds.items()
        }


def own_server(stack: ExitStack, folder: Path) -> str:
    """Start a server whose data is in a folder, and name a world in it."""
    sys.path.append(str(Path(__file__).parents[1]))
    from tests.postgres.server import Server, binaries  # noqa: PLC0415  # only without --url

    programs = binaries()
    if programs is None:
        raise SystemExit("no PostgreSQL on this machine: give --url, or set TEST_POSTGRES_BIN")
    server = stack.enter_context(Server(programs, {"full_page_writes": "on"}, room=folder))
    return server.url("w3")


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--url", help="postgresql://user@host/database?world=NEW")
    parser.add_argument("--seconds", type=float, default=5.0, help="timed work of each store")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="placet-bench-")))
        folder.chmod(0o755)  # the server runs as another user where we are root
        stores = {
            "sqlite": f"sqlite:///{folder}/w3.db?synchronous=full",
            "postgres": options.url or own_server(stack, folder),
            "memory": "memory://",
        }
        figures = asyncio.run(compete(stores, options.seconds))
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    print(f"{'store':<10}{'intents/s':>12}{'to sqlite':>22}{'commit p50':>12}{'verdict p50':>13}")
    for name, figure in figures.items():
        ratio = figure["ratio_to_sqlite"]
        print(
            f"{name:<10}{figure['intents_per_second']['median']:>12,.0f}"
            f"{ratio['median']:>8.2f} ({ratio['min']:.2f}-{ratio['max']:.2f})"
            f"{figure['commit_ms']['p50']:>9.2f} ms{figure['verdict_ms']['p50']:>10.2f} ms"
        )
    print(f"Python {platform.python_version()}; {os.cpu_count()} cores; {platform.platform()}")


if __name__ == "__main__":
    main()
