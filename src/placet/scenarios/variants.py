"""Derives scenarios from a scenario by replacing values at dotted keys, as sweeps do.

A key is that of `--set`: `settings.max_step`, `agents.folk.count`, `ticks`. A key without a dot
that is no key of a scenario is a setting of the domain, so `max_step` is `settings.max_step`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from itertools import product as cartesian_product
from math import prod
from pathlib import Path
from typing import Any, Final

from placet.scenarios.loader import as_text, from_values, load, set_value
from placet.scenarios.scenario import Scenario, ScenarioError
from placet.schemas.codec import Json
from placet.schemas.json_value import from_numpy
from placet.schemas.limits import SWEEP_RUNS_MAX

SCENARIO_COLUMN: Final = "scenario"
"""Column of a data frame that names the scenario of each row."""


def with_values(
    scenario: Scenario, values: Mapping[str, Json] | None = None, /, **settings: Json
) -> Scenario:
    """Return a scenario with other values at dotted keys, such as `agents.folk.count`.

    A name without a dot that is no key of a scenario is a setting of its domain.

    Raises:
        ScenarioError: A key does not exist, or a value is invalid.
    """
    raw: dict[str, Json] = json.loads(as_text(scenario))
    source = scenario.name
    for key, value in {**(values or {}), **settings}.items():
        path = full_key(key).split(".")
        set_value(raw, path, partial(_plain, value), source)
    return replace(from_values(source, raw), name=scenario.name)


def product(
    scenario: Scenario,
    axes: Mapping[str, Iterable[Json]] | None = None,
    /,
    **settings: Iterable[Json],
) -> list[Scenario]:
    """Return a scenario for each combination of values; the last key changes fastest.

    Args:
        scenario: The scenario to start from.
        axes: Dotted keys, such as `agents.folk.count`, and the values of each.
        settings: The same for keys without a dot: `max_step=[0.5, 1]`, `ticks=[10, 100]`.

    Raises:
        ScenarioError: A key does not exist, has no values, a value is invalid, or there are too
            many combinations.
    """
    given = {**(axes or {}), **settings}
    columns = {full_key(key): _values(scenario, key, values) for key, values in given.items()}
    count = prod(map(len, columns.values()))
    if count > SWEEP_RUNS_MAX:
        keys = ", ".join(columns)
        problem = f"{count} combinations of values, expected at most {SWEEP_RUNS_MAX}"
        raise ScenarioError(scenario.name, keys, problem)
    combinations = cartesian_product(*columns.values())
    return [with_values(scenario, dict(zip(columns, row, strict=True))) for row in combinations]


def from_dataframe(
    samples: Any,  # noqa: ANN401  # of any library
    *,
    base: Scenario | str | Path | None = None,
) -> list[Scenario]:
    """Return a scenario for each row of a table of values.

    Args:
        samples: A data frame of pandas or polars, an Arrow table, or a list of mappings. Its
            columns are dotted keys, as in `product`; a column `scenario` holds the name or
            path of each row's scenario.
        base: The scenario, its name or its path; None if `samples` has a column `scenario`.

    Raises:
        ScenarioError: A row has no scenario, a key does not exist, or a value is invalid.
        TypeError: `samples` is no table.
    """
    start = base if base is None or isinstance(base, Scenario) else load(base)
    return _scenarios_of(_rows_of(samples), start)


def _scenarios_of(rows: Iterable[Mapping[str, Json]], base: Scenario | None) -> list[Scenario]:
    """Return a scenario for each row of values.

    Args:
        rows: Mappings from dotted keys to values. A key `scenario` names the scenario of a row.
        base: The scenario of rows without a key `scenario`.

    Raises:
        ScenarioError: A row has no scenario, a key does not exist, or a value is invalid.
    """
    scenarios: list[Scenario] = []
    loaded: dict[str, Scenario] = {}
    for number, row in enumerate(rows):
        values = dict(row)
        name = values.pop(SCENARIO_COLUMN, None)
        if name is not None:
            of_row = loaded.setdefault(str(name), load(str(name)))
        elif base is not None:
            of_row = base
        else:
            problem = (
                f"expected a column {SCENARIO_COLUMN!r}, or a scenario to start from: "
                'from_dataframe(samples, base="town"); the row has '
                f"{', '.join(map(str, row)) or 'no columns'}"
            )
            raise ScenarioError(f"row {number} of the data frame", "", problem)
        scenarios.append(with_values(of_row, values))
    return scenarios


def _rows_of(samples: Any) -> Iterable[Mapping[str, Json]]:  # noqa: ANN401  # of any library
    """Return the rows of a pandas or polars data frame, an Arrow table, or rows as they are.

    Raises:
        TypeError: `samples` is none of these.
    """
    if hasattr(samples, "to_dicts"):  # polars
        return _mappings(samples.to_dicts())
    if hasattr(samples, "to_pylist"):  # Arrow
        return _mappings(samples.to_pylist())
    if hasattr(samples, "to_dict"):  # pandas
        return _mappings(samples.to_dict("records"))
    return _mappings(samples)


def full_key(key: str) -> str:
    """Return a dotted key; a name without a dot that no scenario has is a setting."""
    is_own = "." in key or key in {field.name for field in fields(Scenario)}
    return key if is_own else f"settings.{key}"


def leaves_of(scenario: Scenario) -> dict[str, Json]:
    """Return the values of a scenario by dotted key, without its name, title and seed.

    A list, and a table without keys, is one value.
    """
    leaves: dict[str, Json] = {}
    raw: dict[str, Json] = json.loads(as_text(scenario))
    for key in ("name", "title", "seed"):
        raw.pop(key, None)
    _collect_leaves(raw, "", leaves)
    return leaves


def _collect_leaves(table: Mapping[str, Json], prefix: str, leaves: dict[str, Json]) -> None:
    for key, value in table.items():
        if isinstance(value, dict) and value:
            _collect_leaves(value, f"{prefix}{key}.", leaves)
        else:
            leaves[prefix + key] = value


def _values(scenario: Scenario, key: str, values: Iterable[Json]) -> Sequence[Json]:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise ScenarioError(scenario.name, key, f"expected a list of values, got {values!r}")
    listed = list(values)
    if not listed:
        raise ScenarioError(scenario.name, key, "expected at least one value, got none")
    return listed


def _mappings(rows: Any) -> Sequence[Mapping[str, Json]]:  # noqa: ANN401  # checked here
    listed = list(rows) if isinstance(rows, Iterable) and not isinstance(rows, Mapping) else None
    if listed is None or not all(isinstance(row, Mapping) for row in listed):
        raise TypeError(
            "expected a data frame of pandas or polars, an Arrow table, or a list of mappings from "
            f"dotted keys to values, got {type(rows).__name__}"
        )
    return listed


def _plain(value: Any, before: Json) -> Json:  # noqa: ANN401  # a scalar of any library
    """Return a value as plain JSON; a whole float becomes an int where an int stood before.

    Samplers return floats, also for a count.
    """
    plain: Any = from_numpy(value)
    is_whole = isinstance(plain, float) and plain.is_integer()
    return int(plain) if is_whole and type(before) is int else plain
