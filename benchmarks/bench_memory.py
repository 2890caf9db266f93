"""What does an idle agent hold, and what a remembered req_id?

    ./dev python benchmarks/bench_memory.py [--json]

Bytes requested from the allocator, by tracemalloc, garbage collected before. An agent is counted
with its handle, its entity and its record in the log in memory; a req_id with its string.

It does not show: what the allocator adds, the log of a running world, agents with long names.
"""

from measuring import measure

if __name__ == "__main__":
    measure(["memory"], __doc__)
