"""Benchmarks: the workloads, the reference loop that they are compared with, and the report.

`placet bench` and the scripts in `benchmarks/` call `run`; tests run the same code with tiny sizes.
Only the command `placet bench` imports this package.
"""

from placet_bench.report import WORKLOADS, as_markdown, as_table, notes_of, run, tables_of
from placet_bench.workloads import Scale

__all__ = ["WORKLOADS", "Scale", "as_markdown", "as_table", "notes_of", "run", "tables_of"]


def __getattr__(name: str) -> str:
    """Return `__version__`, read from the installed metadata when it is asked for."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version  # noqa: PLC0415  # 15 ms

    return version("placet-bench")
