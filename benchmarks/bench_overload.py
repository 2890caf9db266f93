"""What becomes of a world that is offered five times what it can take?

    ./dev python benchmarks/bench_overload.py [--seconds S] [--places N] [--json]

For each policy of back-pressure an open-loop load (Poisson, seeded) at 0.5, 1, 2 and 5 times the
capacity: admitted intents per second, latency of what is admitted, refusals by code, memory, and
what a control message takes meanwhile, beside what it takes when idle. `S` seconds for each load,
of CPU time: a process that is given half a core is offered half as much, and so overloaded alike.
`N` batches may wait in all, under `wait` half of them in the line before the queue; without it as
many as the closed loop has outstanding.

The columns: `offered/s` and `goodput/s` per CPU second of the world, which is that of the process
less what the generator spends on making batches and on its books, `gen` for each offer. `peak` is
goodput to the best of the four open loads; the bar is 0.9 at five times. `net` and `raw` are to the
closed loops before and after, without the generator's time and with it. Latencies are by the wall's
clock, so other programs are in them, and the generator.

It does not show: clients in other processes and what a network would refuse first; clients who wait
as `retry_after` tells them, or come again at all (each batch is new); batches of other sizes; a
store on disk.
"""

import argparse
import json
from typing import Any

from placet_bench import Scale, run
from placet_bench.overload import OUTSTANDING


def table(policies: dict[str, list[dict[str, Any]]]) -> str:
    """Give one line for each policy and load."""
    head = (
        f"{'policy':12} {'load':12} {'offered/s':>10} {'goodput/s':>10} {'peak':>5} {'net':>5} "
        f"{'raw':>5} {'gen µs':>6} {'verdict ms':>15} {'control ms':>15} {'rss MB':>7}  refused"
    )
    lines = [head]
    for policy, points in policies.items():
        for point in points:
            figures = [
                figure(point["goodput_to_peak"], 5, 2),
                figure(point["goodput_to_closed_loop"], 5, 2),
                figure(point["goodput_to_closed_loop_raw"], 5, 2),
                figure(point["generator_us"], 6, 1),
            ]
            lines.append(
                f"{policy:12} {point['load']:12} "
                f"{point['offered']:10,.0f} {point['goodput']:10,.0f} {' '.join(figures)} "
                f"{pair(point['verdict_ms']):>15} {pair(point['control_ms']):>15} "
                f"{point['rss_growth_mb']:7.0f}  "
                + ", ".join(f"{code} {count:,}" for code, count in point["refused"].items())
            )
    return "\n".join(lines)


def figure(value: object, width: int, places: int) -> str:
    """Give a number, or nothing where there is none."""
    return f"{value:{width}.{places}f}" if isinstance(value, float) else " " * width


def pair(percentiles: object) -> str:
    """Give p50 and p99."""
    if not isinstance(percentiles, dict):
        return ""
    return f"{percentiles['p50']:.2f} / {percentiles['p99']:.2f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=4.0, help="time of each load")
    parser.add_argument("--places", type=int, default=OUTSTANDING, help="batches that may wait")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    if options.places < OUTSTANDING:
        parser.error(f"--places must be at least {OUTSTANDING}: so many wait in the closed loop")
    scale = Scale(overload_places=options.places)
    result = run(["overload"], options.seconds, scale=scale)[0]
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        print(table(result["policies"]))
        print(f"{result['python']}; {result['machine']}; seed {result['seed']}")
        for note in result["notes"]:
            print(note)
