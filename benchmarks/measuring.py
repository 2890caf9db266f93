"""What the scripts of this folder have in common: two options, and a table or JSON."""

import argparse
import json
import sys
from collections.abc import Sequence

from placet_bench import as_markdown, as_table, run


def measure(workloads: Sequence[str], doc: str | None) -> None:
    """Run workloads, one after another, and print what came of them."""
    summary = (doc or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument("--seconds", type=float, default=5.0, help="timed work of each contender")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON document")
    form.add_argument(
        "--markdown", action="store_true", help="print the table of docs/reference/benchmarks.md"
    )
    options = parser.parse_args()
    results = []
    for workload in workloads:
        print(f"{workload} ...", file=sys.stderr, flush=True)
        results += run([workload], options.seconds)
    if options.json:
        print(json.dumps(results, indent=2))
    elif options.markdown:
        print(as_markdown(results))
    else:
        print(as_table(results))
        first = results[0]
        print(f"{first['python']}; {first['machine']}; seed {first['seed']}")
