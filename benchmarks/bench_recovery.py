"""How long until a world is back: from all of its log, and from a snapshot?

    TMPDIR=/a/real/disk ./dev python benchmarks/bench_recovery.py [--seconds S] [--json]

The log of W1 in SQLite, opened from its first record beside W1 in the same run; then logs of 10^5
and 10^6 intents with a snapshot 20 000 intents before their end. Prepares for about a minute.

It does not show: a cold disk, the start of the interpreter, a large state (its snapshot is read
whole).
"""

from measuring import measure

if __name__ == "__main__":
    measure(["recovery"], __doc__)
