"""What does a batch cost that holds a single intent?

    ./dev python benchmarks/bench_w1s_single_intents.py [--seconds S] [--json]

W1s: W1 with batches of 1, so what is paid per batch is paid per intent.

It does not show: what a caller gains by batching beyond 10; compare with W1.
"""

from measuring import measure

if __name__ == "__main__":
    measure(["w1s"], __doc__)
