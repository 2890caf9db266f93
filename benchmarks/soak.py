"""Does a world that runs for long, and compacts its log, stay the same size?

    TMPDIR=/a/real/disk ./dev python benchmarks/soak.py [--intents N] [--json]

W1 (100 agents, batches of 10, full dedup windows) on SQLite with snapshots and compaction. At even
distances it notes the memory of the process, the disk that log and snapshots take, and the rate.

It does not show: a state that grows (W1's does not), other stores, days of wall time.
"""

import argparse
import asyncio
import json
import os
import resource
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TypedDict

from placet import Orchestrator
from placet.stores.gc_tuning import tuned_gc
from placet_bench.report import machine
from placet_bench.subjects import WholeWorld
from placet_bench.workloads import Load, Shape, make_config, make_domain

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Sample(TypedDict):
    """What was noted at one moment."""

    intents: int
    rss_mb: float
    disk_mb: float
    snapshots: int
    log_first_record: int
    intents_per_second: float


def rss_mb() -> float:
    """Give the resident memory of this process."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * PAGE_BYTES / 1e6


def disk_mb(folder: Path) -> float:
    """Give the size of all files; what goes while it is counted is not counted."""
    sizes = []
    for path in folder.rglob("*"):
        try:
            sizes.append(path.stat().st_size)
        except FileNotFoundError:
            continue
    return sum(sizes) / 1e6


async def soak(intents: int, samples: int, store: str, every: int) -> list[Sample]:
    """Run the load and note what it takes."""
    shape = Shape()
    world = WholeWorld(Load(shape))
    with tempfile.TemporaryDirectory(prefix="placet-soak-") as name:
        folder = Path(name)
        config = replace(
            make_config(shape, f"sqlite:///{folder / 'soak.db'}?synchronous={store}"),
            snapshot_every_seqs=every,
            compact_log=True,
        )
        world.orchestrator = Orchestrator(make_domain(), config)
        noted: list[Sample] = []
        async with world:
            counters = world.orchestrator._open.counters  # noqa: SLF001  # no metrics server here
            done, began = 0, time.perf_counter()
            while done < intents:
                chunk = world.next_chunk()
                await world.run(chunk)
                done += chunk.intents
                del world.latencies_ns[:]
                if done >= intents * (len(noted) + 1) / samples:
                    noted.append(
                        {
                            "intents": done,
                            "rss_mb": round(rss_mb(), 1),
                            "disk_mb": round(disk_mb(folder), 1),
                            "snapshots": counters.snapshots["written"],
                            "log_first_record": int(counters.gauges["log_first_record"][""]()),
                            "intents_per_second": round(done / (time.perf_counter() - began)),
                        }
                    )
                    print(noted[-1], file=sys.stderr, flush=True)
            assert counters.snapshots["failed"] == 0, "a snapshot failed"
    return noted


def main() -> None:
    """Read the options, run, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--intents", type=int, default=10_000_000)
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--synchronous", default="normal", choices=["full", "normal", "off"])
    parser.add_argument("--snapshot-every", type=int, default=200_000, metavar="SEQS")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    with tuned_gc():
        samples = asyncio.run(
            soak(options.intents, options.samples, options.synchronous, options.snapshot_every)
        )
    half = samples[len(samples) // 2 :]
    memory = [sample["rss_mb"] for sample in half]
    summary = {
        "growth_in_second_half_mb": round(memory[-1] - memory[0], 1),
        "snapshot_process_mb_max": round(
            resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3, 1
        ),
        "machine": machine(),
    }
    if options.json:
        print(json.dumps({"samples": samples, **summary}, indent=2))
        return
    columns = list(samples[0])
    print(" ".join(column.rjust(18) for column in columns))
    for sample in samples:
        print(" ".join(f"{value:>18,}" for value in sample.values()))
    print(summary)


if __name__ == "__main__":
    main()
