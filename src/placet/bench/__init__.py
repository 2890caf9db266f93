"""How fast it is, measured: the workloads, the loop they are compared with, and the report.

`placet bench` and the scripts in `benchmarks/` call `run`; tests run the same code with tiny sizes.
Nothing of the library imports this package but the command line, when it is asked to.
"""

from placet.bench.report import WORKLOADS, as_markdown, as_table, run
from placet.bench.workloads import Scale

__all__ = ["WORKLOADS", "Scale", "as_markdown", "as_table", "run"]
