"""Does an intent cost more when there are more agents, or a longer log?

    ./dev python benchmarks/bench_w5_scaling.py [--seconds S] [--json]

W5: W1 at 1, 10 and 100 times the agents, and after a million log records. The windows hold 64
req_ids, or the largest crowd could not fill them; costs are medians of CPU time.

It does not show: more than 10 000 agents, memory (see bench_memory), a log on disk.
"""

from measuring import measure

if __name__ == "__main__":
    measure(["w5"], __doc__)
