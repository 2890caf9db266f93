"""The function that a Ray worker runs; it travels as code, to run where placet is missing.

So it imports nothing of placet, and everything else inside of its functions.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def run_group(expected: Mapping[str, Any], calls: Sequence[bytes]) -> Iterator[Any]:
    """Yield the problem of this machine, then the answers to the calls, one by one.

    Args:
        expected: `packages`: name -> (version, path -> hash); `modules`: names; `hash` of both.
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


def problem_here(expected: Mapping[str, Any]) -> str:
    """Return the first difference of this machine's code from the driver's; empty if none."""
    import hashlib  # noqa: PLC0415  # see above
    import importlib  # noqa: PLC0415  # see above
    import importlib.metadata  # noqa: PLC0415  # see above
    import pathlib  # noqa: PLC0415  # see above

    for package, (version, digests) in expected["packages"].items():
        try:
            file = importlib.import_module(package).__file__
            here = importlib.metadata.version(package)
        except Exception as error:  # noqa: BLE001  # whatever an import raises
            return f"package {package!r} cannot be imported: {type(error).__name__}: {error}"
        if here != version:
            return f"{package} is {here} there, {version} here"
        root = pathlib.Path(file or "").parent
        for path, digest in digests.items():
            data = (root / path).read_bytes() if (root / path).is_file() else b""
            if hashlib.sha256(data).hexdigest()[:16] != digest:
                return f"{package} {version} has another {path} there ({root / path})"
    for module in expected["modules"]:
        try:
            importlib.import_module(module)
        except Exception as error:  # noqa: BLE001  # whatever an import raises
            return f"module {module!r} cannot be imported: {type(error).__name__}: {error}"
    return ""
