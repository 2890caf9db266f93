"""How long does one submitter wait for one verdict when nobody else is there?

    ./dev python benchmarks/bench_w4_latency.py [--seconds S] [--json]

W4: one agent, one batch of 10 after another, in memory; from call to verdict.

It does not show: latency under load, which is queueing and follows from W1, or of durable answers.
"""

from measuring import measure

if __name__ == "__main__":
    measure(["w4"], __doc__)
