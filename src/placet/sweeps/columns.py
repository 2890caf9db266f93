"""The columns of the results that a sweep fills itself, and which outcomes must not overwrite."""

from collections.abc import Iterable
from dataclasses import fields
from typing import Final

from placet.scenarios.scenario import Scenario
from placet.scenarios.values import Collect

SEED: Final = "seed"
COUNTS: Final = ("submitted", "admitted", "refused")
RULE_ERRORS: Final = "rule_errors"
"""Column of the contained exceptions of rules and hooks, if a run contains them."""
ENDED_AT: Final = "ended_at"
"""Column of the tick after which the condition of a scenario ended a run, if it has one."""
ENDS: Final = ("seq", "digest", "status", "error", "seconds")
CODE: Final = "code"
RUNS: Final = ("runs", "failed")
"""Columns of the means over the seeds of a scenario."""

_OWN: Final = frozenset({SEED, *COUNTS, RULE_ERRORS, ENDED_AT, *ENDS, CODE, *RUNS})
TABLES: Final = frozenset({"settings", "quotas", "agents", "objects", "collect"})
"""Keys of a scenario that are tables: the keys in them fill columns, and they themselves none."""

_WITHOUT_COLUMN: Final = frozenset({*TABLES, "name", "title"})
_VALUES: Final = frozenset(field.name for field in fields(Scenario)) - _WITHOUT_COLUMN


def clash_of(column: str) -> str | None:
    """Return what else fills a column with this name, as words; None if nothing does."""
    if column in _OWN:
        return "the sweep's own column of that name"
    return "the key of a scenario of that name" if _is_of_scenario(column) else None


def collected_clash(collect: Collect) -> str | None:
    """Return the collected column that is also one which names the run; None if there is none.

    The joined rows of all runs have the seed and the keys in which scenarios differ.
    """
    names = (*collect.agents, *collect.world)
    return next((name for name in names if name == SEED or _is_of_scenario(name)), None)


def _is_of_scenario(column: str) -> bool:
    head, dot, _ = column.partition(".")
    return column in _VALUES or (bool(dot) and head in TABLES and "/" not in column)


def clash_among(outcomes: Iterable[str]) -> str | None:
    """Return why the names of outcome functions cannot name columns, as words; None if they can.

    Args:
        outcomes: Outcome functions, each once, as `module:function`.
    """
    of_column: dict[str, str] = {}
    for spec in outcomes:
        column = spec.rpartition(":")[2]
        other = clash_of(column) or of_column.get(column)
        if other is not None:
            return f"the outcome {spec} would fill the column {column!r} and overwrite {other}"
        of_column[column] = f"that of {spec}"
    return None
