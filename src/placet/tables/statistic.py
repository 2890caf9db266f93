"""Statistics of a field over a collection, as a column of a collector: `mean(flock.birds/energy)`.

Of a table, the column of the field is read; of any other collection, its entities. Sums are exact,
so both ways, and any order of the rows, give the same bits.
"""

import re
from collections.abc import Callable, Sequence
from math import fsum
from typing import TYPE_CHECKING, Any, Final, Union

from placet.kernel.state.tree import WorldState
from placet.schemas.codec import Json
from placet.schemas.name_suggestions import did_you_mean

if TYPE_CHECKING:
    from placet.kernel.arrays.words import Array

_FORM: Final = re.compile(r"(count|sum|mean|min|max|q[0-9]{1,2})\(([^()/]+)/([^()/]+)\)")
_PERCENT: Final = 100
_INT64_MAX: Final = 2**63 - 1

Numbers = Union["Array", Sequence[Any]]
"""Numbers of one component: an array of one dimension, or a sequence."""


class FieldStatistic:
    """A statistic of a field over the entities of a collection that have it.

    Of a vector it is a list, of one value for each component. Without an entity `count` is 0, and
    the others are None.

    Args:
        name: `count`, `sum`, `mean`, `min`, `max`, or a quantile in percent such as `q50`, which is
            interpolated between the two nearest values.
        collection: Name of the collection.
        field: Name of the field.
    """

    def __init__(self, name: str, collection: str, field: str) -> None:
        self.name, self.collection, self.field = name, collection, field
        self._of: Callable[[Numbers], Json] = _STATISTICS.get(name) or _quantile(int(name[1:]))

    def __call__(self, state: WorldState) -> Json:
        """Return the statistic of a state.

        Raises:
            KeyError: There is no such collection, or a table has no such field.
            TypeError: A value is neither a number nor a vector of numbers.
        """
        columns = state.columns(self.collection)
        if columns is not None:
            if self.field not in columns:
                hint = did_you_mean(self.field, columns)
                raise KeyError(f"the table {self.collection!r} has no {self.field!r}; {hint}")
            column = columns[self.field]
            if self.name == "count" or column.ndim == 1:
                return self._of(column)
            return [self._of(part) for part in column.reshape(len(column), -1).T]
        return self._of_values(
            [
                fields[self.field]
                for fields in state[self.collection].values()
                if self.field in fields
            ]
        )

    def _of_values(self, values: list[Json]) -> Json:
        if self.name == "count" or not any(isinstance(value, list | tuple) for value in values):
            return self._of(values)
        return [self._of(part) for part in zip(*values, strict=True)]


def statistic_named(text: str) -> FieldStatistic | None:
    """Return the statistic of a text such as `mean(flock.birds/energy)`; None of another text."""
    form = _FORM.fullmatch(text)
    return None if form is None else FieldStatistic(*form.groups())


def _plain(value: Any) -> Json:  # noqa: ANN401  # a number, or a scalar of numpy
    return value.item() if hasattr(value, "item") else value


def _sum(values: Numbers) -> Json:
    if not len(values):
        return None
    kind = getattr(getattr(values, "dtype", None), "kind", "")
    if kind in {"i", "u"}:
        array: Any = values
        most = max(abs(int(array.min())), abs(int(array.max())))
        if most * len(array) <= _INT64_MAX:
            return int(array.sum())
    if kind:
        numbers: list[Any] = values.tolist()  # type: ignore[union-attr]  # an array
        return fsum(numbers) if kind == "f" else sum(numbers)
    if not set(map(type, values)) <= {int, float, bool}:
        raise TypeError("a value is no number")
    return fsum(values) if float in set(map(type, values)) else sum(values)


def _mean(values: Numbers) -> Json:
    total = _sum(values)
    return None if total is None else total / len(values)


def _least(values: Numbers) -> Json:
    return _plain(values.min() if hasattr(values, "min") else min(values, default=None))


def _most(values: Numbers) -> Json:
    return _plain(values.max() if hasattr(values, "max") else max(values, default=None))


def _quantile(percent: int) -> Callable[[Numbers], Json]:
    def quantile(values: Numbers) -> Json:
        if not len(values):
            return None
        if hasattr(values, "dtype"):
            ordered: Any = values.copy()  # type: ignore[union-attr]  # an array
            ordered.sort()
        else:
            ordered = sorted(values)
        below, part = divmod(percent * (len(ordered) - 1), _PERCENT)
        low, high = _plain(ordered[below]), _plain(ordered[min(below + 1, len(ordered) - 1)])
        return low if not part or low == high else low + (high - low) * (part / _PERCENT)

    return quantile


_STATISTICS: Final[dict[str, Callable[[Numbers], Json]]] = {
    "count": len,
    "sum": _sum,
    "mean": _mean,
    "min": _least,
    "max": _most,
}
