"""The law of hashes: a life is the same log whatever order Python gives to sets.

That order differs between processes (PYTHONHASHSEED), so traces are run in two other processes and
the ends of their logs compared. `python -m placet.testing.hash_order_property` is such a process:
it reads a pickle of the factory and the traces, and writes the hash of each log's last record, one
per line.
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
SENTENCE: Final = "The same life is the same log, whatever order Python gives to sets."

_HASH_SEEDS: Final = ("1", "2")


def check(factory: Factory, traces: Sequence[Trace]) -> None:
    """Run traces in two processes whose sets have different orders.

    Raises:
        PropertyViolation: A life is not the same log in both.
        SkipTest: The factory has no name by which another process could import it.
    """
    try:
        told = pickle.dumps((factory, list(traces)))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise SkipTest(
            f"{NAME}: the factory must be a class or a function of a module, or a partial of one, "
            f"so that another process can import it ({error})"
        ) from None
    processes = [_begun(seed) for seed in _HASH_SEEDS]
    said = [_ended(process, told) for process in processes]
    ends = [_ends(process, *text) for process, text in zip(processes, said, strict=True)]
    parted = [life for life, one, other in zip(traces, *ends, strict=True) if one != other]
    if parted:
        smallest = min(parted, key=len)
        runner = TraceRunner(factory).live_all(smallest)
        seen = (
            "Its log is another with PYTHONHASHSEED=1 than with PYTHONHASHSEED=2. Go through a set "
            "in sorted order."
        )
        raise PropertyViolation(SENTENCE, smallest, runner, seen)


def _begun(hash_seed: str) -> "subprocess.Popen[bytes]":
    environment = {
        **os.environ,
        "PYTHONHASHSEED": hash_seed,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "placet.testing.hash_order_property"]
    return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe)


def _ended(process: "subprocess.Popen[bytes]", told: bytes) -> tuple[bytes, bytes]:
    with process:
        return process.communicate(told)


def _ends(process: "subprocess.Popen[bytes]", out: bytes, err: bytes) -> list[bytes]:
    if process.returncode:
        raise RuntimeError(f"a process that was to live lives failed:\n{err.decode()}")
    return out.split()


def live_in_this_process() -> None:
    """Read traces on stdin, run them, and write the hash of each log's end."""
    factory, traces = pickle.load(sys.stdin.buffer)
    for life in traces:
        end = record_hash(TraceRunner(factory).live_all(life).log[-1])
        sys.stdout.write(f"{end.hex()}\n")


if __name__ == "__main__":
    live_in_this_process()
