"""All questions at once, and the table of `docs/benchmarks.md`.

    ./dev python benchmarks/all.py [--seconds S] [--markdown | --json]

Takes about 15 minutes at 5 s each, most of it preparation. Run it on a machine that does nothing
else: the ratios forgive a busy one, the absolute figures and the 99th percentiles do not.
"""

from measuring import measure

from placet.bench import WORKLOADS

if __name__ == "__main__":
    measure(WORKLOADS, __doc__)
