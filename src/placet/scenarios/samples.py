"""Values of many runs as users give them: data frames, axes, and numbers of numpy."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from placet.scenarios.values import ScenarioError
from placet.schemas.codec import Json, without_numpy

SCENARIO_COLUMN: Final = "scenario"
"""Column of a data frame that names the scenario of each row."""


def rows_of(samples: Any) -> Iterable[Mapping[str, Json]]:  # noqa: ANN401  # of any library
    """Return the rows of a pandas or polars data frame, an Arrow table, or rows as they are.

    Raises:
        TypeError: `samples` is none of these.
    """
    if hasattr(samples, "to_dicts"):  # polars
        samples = samples.to_dicts()
    elif hasattr(samples, "to_pylist"):  # Arrow
        samples = samples.to_pylist()
    elif hasattr(samples, "to_dict"):  # pandas
        samples = samples.to_dict("records")
    is_listed = isinstance(samples, Iterable) and not isinstance(samples, Mapping)
    listed = list(samples) if is_listed else None
    if listed is None or not all(isinstance(row, Mapping) for row in listed):
        raise TypeError(
            "expected a data frame of pandas or polars, an Arrow table, or a list of mappings from "
            f"dotted keys to values, got {type(samples).__name__}"
        )
    return listed


def axis_values(source: str, key: str, values: Iterable[Json]) -> Sequence[Json]:
    """Return the values of an axis as a list.

    Raises:
        ScenarioError: They are no list of at least one value.
    """
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise ScenarioError(source, key, f"expected a list of values, got {values!r}")
    listed = list(values)
    if not listed:
        raise ScenarioError(source, key, "expected at least one value, got none")
    return listed


def plain_like(value: Any, before: Json) -> Json:  # noqa: ANN401  # a scalar of any library
    """Return a value as plain JSON; a whole float becomes an int where an int stood before.

    Samplers return floats, also for a count.
    """
    plain = without_numpy(value)
    is_whole = isinstance(plain, float) and plain.is_integer()
    return int(plain) if is_whole and type(before) is int else plain
