"""All questions at once, and the table of `docs/reference/benchmarks.md`.

    ./dev python benchmarks/all.py [--seconds S] [--markdown | --json]

Takes about 15 minutes at 5 s each, most of it preparation. Run it on a machine that does nothing
else: a busy one moves every figure, the ratios least.
"""

from measuring import measure

from placet_bench import WORKLOADS

if __name__ == "__main__":
    measure(WORKLOADS, __doc__)
