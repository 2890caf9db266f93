"""The function that a Ray worker runs; it travels as code, to run where placet is missing.

So it imports nothing of placet but what travels too, and everything else inside of its functions.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from placet.scenarios.on_ray.code_check import problem_here


def run_group(expected: Mapping[str, Any], calls: Sequence[bytes]) -> Iterator[Any]:
    """Yield the problem of this machine, then the answers to the calls, one by one.

    Args:
        expected: As in `problem_here`, with `hash` of all.
        calls: Pickled `(function, arguments)`.

    Yields:
        First `(problem, process id, machine)`, where the problem is empty if there is none; if
        there is one, no call is executed. Then for each call `(True, value)`, or `(False, (class,
        message, traceback))` of the error that it raised.
    """
    import os  # noqa: PLC0415  # see above
    import pickle  # noqa: PLC0415  # see above
    import sys  # noqa: PLC0415  # see above
    import traceback  # noqa: PLC0415  # see above

    import ray  # noqa: PLC0415  # see above

    known = sys.__dict__.setdefault("_placet_problems", {})  # a worker checks itself once
    if expected["hash"] not in known:
        known[expected["hash"]] = problem_here(expected)
    problem = known[expected["hash"]]
    node = ray.get_runtime_context().get_node_id()[:8]
    yield problem, os.getpid(), f"{ray.util.get_node_ip_address()} ({node})"
    for call in () if problem else calls:
        try:
            function, arguments = pickle.loads(call)
            answer: Any = True, function(*arguments)
        except Exception as error:  # noqa: BLE001  # the driver's business; its class may be missing
            trace = "".join(traceback.format_exception(error))
            answer = False, (type(error).__name__, str(error), trace)
        yield answer
