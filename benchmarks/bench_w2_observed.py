"""What does it cost to show every move to eight neighbors, beside not showing it?

    ./dev python benchmarks/bench_w2_observed.py [--seconds S] [--json]

W2: W1 with agents that see by distance, each of whom observes; a move is a change in the eyes of
about eight. `ratio_to_w1` is the figure to look at (at least 0.4).

It does not show: a network, an agent that thinks about what it sees, encoding to JSON.
"""

from measuring import measure

if __name__ == "__main__":
    measure(["w2"], __doc__)
