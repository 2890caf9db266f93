"""How many intents a second pass the whole gate, against a loop written by hand?

    ./dev python benchmarks/bench_w1_throughput.py [--seconds S] [--json]

W1: 100 agents, batches of 10 `Move` made beforehand, one outstanding batch each, every stage on,
full dedup windows, log in memory. Beside it the kernel alone: the difference is what actors cost.

It does not show: other kinds and larger payloads, refusals, delivery to observers, a network.
"""

from measuring import measure

if __name__ == "__main__":
    measure(["w1", "kernel"], __doc__)
