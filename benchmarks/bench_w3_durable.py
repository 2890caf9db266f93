"""What does it cost to answer only when the disk has it?

    TMPDIR=/a/real/disk ./dev python benchmarks/bench_w3_durable.py [--seconds S] [--json]

W3: W1 with 4 outstanding batches per agent and SQLite at synchronous=FULL, beside the same in
memory. The commit latency is printed, since it moves by a factor of ten on one disk in one hour.

It does not show: one submitter that waits for each commit (that is the commit latency), a store
on another machine, recovery.
"""

from measuring import measure

if __name__ == "__main__":
    measure(["w3"], __doc__)
