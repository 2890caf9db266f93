"""How fast is a log folded back into a world?

    ./dev python benchmarks/bench_replay.py [--seconds S] [--json]

The records of W1, in memory, through the replayer: chain, decoding, state and books.

It does not show: reading from a disk, re-deciding (which runs the rules), starting from a snapshot.
"""

from measuring import measure

if __name__ == "__main__":
    measure(["replay"], __doc__)
