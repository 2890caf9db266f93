"""The hash-order property: a trace gives the same log for every iteration order of sets.

The order of a set differs between processes (PYTHONHASHSEED), so traces are run in two other
processes and the ends of their logs compared. Such a process is started by
`python -m placet.testing.hash_order_property`: it reads a pickle of the factory and the traces, and
writes the hash of each log's last record, one per line.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from typing import Final
from unittest import SkipTest

from placet.schemas.log.record import record_hash
from placet.testing.errors import PropertyViolation
from placet.testing.trace import Factory, Trace, TraceRunner

NAME: Final = "the_order_of_sets_does_not_matter"
SENTENCE: Final = "The same trace gives the same log for every iteration order of sets."

_HASH_SEEDS: Final = ("1", "2")


def check(factory: Factory, traces: Sequence[Trace]) -> None:
    """Check that a domain gives the same logs in two processes with different hash seeds.

    Sets iterate in different orders there. Every trace is run in both.

    Raises:
        PropertyViolation: A trace gives different logs in the two processes.
        SkipTest: The factory has no name by which another process could import it.
    """
    try:
        job = pickle.dumps((factory, list(traces)))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise SkipTest(
            f"{NAME}: the factory must be a class or a function of a module, or a partial of one, "
            f"so that another process can import it ({error})"
        ) from None
    processes = [_start(seed) for seed in _HASH_SEEDS]
    outputs = [_finish(process, job) for process in processes]
    ends = [_ends(process, *text) for process, text in zip(processes, outputs, strict=True)]
    different = [
        trace for trace, first, second in zip(traces, *ends, strict=True) if first != second
    ]
    if different:
        smallest = min(different, key=len)
        runner = TraceRunner(factory).run_all(smallest)
        finding = (
            "Its log with PYTHONHASHSEED=1 differs from that with PYTHONHASHSEED=2. Iterate over "
            "sets in sorted order."
        )
        raise PropertyViolation(SENTENCE, smallest, runner, finding)


def _start(hash_seed: str) -> "subprocess.Popen[bytes]":
    environment = {
        **os.environ,
        "PYTHONHASHSEED": hash_seed,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    pipe = subprocess.PIPE
    command = [sys.executable, "-P", "-m", "placet.testing.hash_order_property"]
    return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe)


def _finish(process: "subprocess.Popen[bytes]", job: bytes) -> tuple[bytes, bytes]:
    with process:
        return process.communicate(job)


def _ends(process: "subprocess.Popen[bytes]", out: bytes, err: bytes) -> list[bytes]:
    if process.returncode:
        raise RuntimeError(f"a process that runs traces failed:\n{err.decode()}")
    return out.split()


def run_in_this_process() -> None:
    """Read traces on stdin, run them, and print the hash of the last record of each log."""
    factory, traces = pickle.load(sys.stdin.buffer)
    for trace in traces:
        end = record_hash(TraceRunner(factory).run_all(trace).log[-1])
        sys.stdout.write(f"{end.hex()}\n")


if __name__ == "__main__":
    run_in_this_process()
