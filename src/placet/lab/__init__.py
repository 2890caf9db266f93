"""The lab: data out of logs and runs, sweeps, and questions that only a log can answer.

The names are imported on first use, so that `import placet.lab` loads no extra. Their modules stand
above the scenarios; a running scenario itself needs the Arrow tables and the collectors, which are
in `placet.tables` below them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from placet.lab.comparison import compare
    from placet.lab.importance import variance_shares
    from placet.lab.paired import paired_differences
    from placet.lab.reporting.report import report
    from placet.lab.turning.search import turning_point
    from placet.scenarios import Scenario
    from placet.sweeps.results import Results
    from placet.sweeps.sweep import run_scenarios
    from placet.tables.collector import Collector

_MODULES: Final = {
    "Collector": "placet.tables.collector",
    "Results": "placet.sweeps.results",
    "Scenario": "placet.scenarios",
    "run_scenarios": "placet.sweeps.sweep",
    "compare": "placet.lab.comparison",
    "paired_differences": "placet.lab.paired",
    "report": "placet.lab.reporting.report",
    "turning_point": "placet.lab.turning.search",
    "variance_shares": "placet.lab.importance",
}
"""Public name -> the module that defines it."""

__all__ = [
    "Collector",
    "Results",
    "Scenario",
    "compare",
    "paired_differences",
    "report",
    "run_scenarios",
    "turning_point",
    "variance_shares",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401  # a name of any kind
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
