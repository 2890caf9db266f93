"""What becomes of a world that is offered five times what it can take?

    ./dev python benchmarks/bench_overload.py [--seconds S] [--json]

For each policy of back-pressure an open-loop load (Poisson, seeded) at 0.5, 1, 2 and 5 times the
capacity: admitted intents per second, latency of what is admitted, refusals by code, memory, and
what a control message takes meanwhile, beside what it takes when idle. `S` seconds for each load.

The columns: `÷ peak` is goodput per CPU second that the generator did not use, to the closed loops
before and after; `refusing` is one offer that is refused at once, with the faces it goes through.

It does not show: clients in other processes and what a network would refuse first; clients who wait
as `retry_after` tells them (these never do); batches of other sizes; a store on disk.
"""

import argparse
import json

from placet.bench import run


def table(policies: dict[str, list[dict[str, object]]]) -> str:
    """Give one line for each policy and load."""
    head = f"{'policy':12} {'load':12} {'offered/s':>10} {'goodput/s':>10} {'÷ peak':>7} "
    head += f"{'verdict ms':>15} {'control ms':>15} {'refusing':>9} {'rss MB':>7}  refused"
    lines = [head]
    for policy, points in policies.items():
        for point in points:
            ratio, cost = point["goodput_to_peak"], point["refusing_us"]
            rates = f"{point['offered']:10,.0f} {point['goodput']:10,.0f}"
            lines.append(
                f"{policy:12} {point['load']:12} {rates} "
                f"{'' if ratio is None else f'{ratio:.2f}':>7} "
                f"{pair(point['verdict_ms']):>15} {pair(point['control_ms']):>15} "
                f"{'' if cost is None else f'{cost:.1f} µs':>9} {point['rss_growth_mb']:7.0f}  "
                + ", ".join(f"{code} {count:,}" for code, count in point["refused"].items())
            )
    return "\n".join(lines)


def pair(percentiles: object) -> str:
    """Give p50 and p99."""
    if not isinstance(percentiles, dict):
        return ""
    return f"{percentiles['p50']:.2f} / {percentiles['p99']:.2f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=4.0, help="time of each load")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    result = run(["overload"], options.seconds)[0]
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        print(table(result["policies"]))
        print(f"{result['python']}; {result['machine']}; seed {result['seed']}")
        for note in result["notes"]:
            print(note)
