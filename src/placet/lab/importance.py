"""Shares of variance over a sweep: how much of an outcome each option explains.

The share of an option is its main effect, eta squared: the variance between the means of its
values, divided by the variance of all runs. On a full grid with equal numbers of runs the shares of
the options, of their interactions and of the seeds sum to 1. They describe the runs that were made:
the values that were tried, at the weights with which they were tried.

Source: Montgomery, Design and Analysis of Experiments, chapter 5 (factorial designs with blocks);
Plischke, Borgonovo & Smith, Eur. J. Oper. Res. 226 (2013), for the groups of sampled options.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, isqrt, prod
from typing import Any, Final, NamedTuple

from placet.lab.intervals import is_finite
from placet.lab.paired import Rows, require_column, rows_of
from placet.schemas.codec import Json, canonical
from placet.schemas.keywords import explain_keywords
from placet.sweeps.columns import SEED
from placet.sweeps.errors import LabError
from placet.sweeps.results import Results

INTERACTIONS: Final = "interactions"
SEEDS: Final = "seeds"
"""Names of the two shares that belong to no option."""

_GROUPS_MAX: Final = 8
"""Largest number of groups of the values of a sampled option."""

_PAIRED_MIN: Final = 0.5
"""Least share of the runs that the seeds with a run of every combination must have."""

_ALONE_MIN: Final = 0.75
"""Least share of the values of a sampled option that are in one combination only."""

_ROUNDING: Final = 1e-12


class VarianceShare(NamedTuple):
    """The share of the variance of a measure that one source explains alone.

    Attributes:
        source: The option, `interactions` or `seeds`.
        values: Number of values of the option, or of groups of them; 0 of another source.
        share: The share, from 0 to 1; None where each value of the option is in one combination
            only, so that it cannot be told from the others.
        by_chance: The share to expect of an option without any effect and with as many values;
            None of another source, and if no combination has two runs.
    """

    source: str
    values: int
    share: float | None
    by_chance: float | None = None

    def as_dict(self) -> dict[str, Json]:
        """Return the share as a row of a table."""
        return self._asdict()


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceShares:
    """The shares of the variance of a measure.

    Attributes:
        measure: The measured column.
        shares: The options, highest share first; then `interactions`, if the design is balanced and
            has two options at least, and `seeds`, if a combination has two runs.
        runs: Number of runs that were used.
        left_out: Number of runs that were not: without a number, or of a seed that lacks a
            combination.
        combinations: Number of combinations of the options.
        seeds: Number of seeds.
        is_balanced: Whether all combinations of all values have equally many runs. If not, the
            shares of the options overlap, and their sum may be above 1.
        is_constant: Whether all runs have one value, so that there is no variance to explain; the
            shares are 0.
        grouped: The options whose values were put into groups of neighbors, because almost each
            value is in one combination only.
    """

    measure: str
    shares: tuple[VarianceShare, ...]
    runs: int
    left_out: int
    combinations: int
    seeds: int
    is_balanced: bool
    is_constant: bool
    grouped: tuple[str, ...] = ()


@explain_keywords
def variance_shares(
    results: Rows, measure: str, *, options: Sequence[str] | None = None, seed: str = SEED
) -> VarianceShares:
    """Return the share of the variance of a measure that each option explains. O(runs * options).

    Args:
        results: `Results` of a sweep, or one row a run.
        measure: Column of numbers; True counts as 1.
        options: Columns of the options; by default those of a sweep.
        seed: Column of the seed, by which runs are paired: a seed that lacks a number in one
            combination is left out of all, if the other seeds have half of the runs.

    Raises:
        LabError: A column is missing, or fewer than two runs have a number.
    """
    if options is None:
        if not isinstance(results, Results):
            raise LabError(
                "options are known for Results alone; name the columns of these rows in `options`"
            )
        options = results.parameters
    rows = rows_of(results)
    for name in (measure, seed, *options):
        require_column(rows, name)
    runs = _Runs(rows, measure, options, seed)
    if len(runs.values) < 2:  # noqa: PLR2004  # one run varies from nothing
        raise LabError(
            f"{len(runs.values)} of {len(rows)} runs have a number in {measure!r}: expected two at "
            "least"
        )
    columns = {name: runs.column(name) for name in options}
    return VarianceShares(
        measure=measure,
        shares=tuple(_shares(runs, columns)),
        runs=len(runs.values),
        left_out=len(rows) - len(runs.values),
        combinations=len({*runs.cells}),
        seeds=len({*runs.seeds}),
        is_balanced=runs.is_balanced,
        is_constant=runs.total == 0,
        grouped=tuple(name for name in options if len({*columns[name]}) < runs.levels(name)),
    )


class _Runs:
    """The runs with a number: values, combinations and seeds, side by side."""

    def __init__(
        self, rows: Sequence[Mapping[str, Any]], measure: str, options: Sequence[str], seed: str
    ) -> None:
        found = [row for row in rows if is_finite(row[measure])]
        by_seed: dict[bytes, set[bytes]] = {}
        for row in found:
            by_seed.setdefault(canonical(row[seed]), set()).add(_cell(row, options))
        every = {_cell(row, options) for row in found}
        paired = [row for row in found if by_seed[canonical(row[seed])] == every]
        self._rows = paired if len(paired) >= _PAIRED_MIN * len(found) else found
        self.cells = [_cell(row, options) for row in self._rows]
        self.seeds = [canonical(row[seed]) for row in self._rows]
        self.is_paired = len(self._rows) == len({*self.cells}) * len({*self.seeds})
        numbers = [float(row[measure]) for row in self._rows]
        scale = max(map(abs, numbers), default=0.0) or 1.0  # squares of large numbers stay finite
        middle = fsum(value / scale for value in numbers) / max(1, len(numbers))
        is_constant = len({*numbers}) < 2  # noqa: PLR2004  # the mean of equal numbers is rounded
        self.values = [0.0 if is_constant else value / scale - middle for value in numbers]
        self.total = fsum(value * value for value in self.values)
        counts = Counter(self.cells)
        is_full = len(counts) == prod(map(self.levels, options))
        self.is_balanced = is_full and len({*counts.values()}) == 1

    def levels(self, option: str) -> int:
        """Return the number of values of an option."""
        return len({canonical(row[option]) for row in self._rows})

    def column(self, option: str) -> list[Hashable]:
        """Return the value of an option in each run, or the number of the group that it is in."""
        keys: list[Hashable] = [canonical(row[option]) for row in self._rows]
        groups = min(_GROUPS_MAX, isqrt(len({*self.cells})))
        are_numbers = all(is_finite(row[option]) for row in self._rows)
        if self.is_balanced or not (self._is_sampled(keys) and are_numbers and groups > 1):
            return keys
        ranks = {value: n for n, value in enumerate(sorted({row[option] for row in self._rows}))}
        return [ranks[row[option]] * groups // len(ranks) for row in self._rows]

    def _is_sampled(self, column: Sequence[Hashable]) -> bool:
        """Return whether almost each value of a column is in one combination only."""
        pairs = {*zip(column, self.cells, strict=True)}
        combinations = Counter(value for value, _ in pairs)
        alone = sum(count == 1 for count in combinations.values())
        return alone >= _ALONE_MIN * len(combinations)

    def between(self, column: Sequence[Hashable]) -> float:
        """Return the sum of squares between the means of the values of a column."""
        groups: dict[Hashable, list[float]] = {}
        for key, value in zip(column, self.values, strict=True):
            groups.setdefault(key, []).append(value)
        return fsum(fsum(group) ** 2 / len(group) for group in groups.values())

    @property
    def error(self) -> float | None:
        """The mean square of chance: what neither the combination nor the seed explains."""
        cells, seeds = len({*self.cells}), len({*self.seeds})
        freedom = len(self.values) - cells
        squares = self.total - self.between(self.cells)
        if self.is_paired:
            freedom = (cells - 1) * (seeds - 1)
            squares -= self.between(self.seeds)
        return max(0.0, squares) / freedom if freedom > 0 else None


def _cell(row: Mapping[str, Any], options: Sequence[str]) -> bytes:
    return canonical([row[name] for name in options])


def _shares(runs: _Runs, columns: Mapping[str, Sequence[Hashable]]) -> Iterator[VarianceShare]:
    total = runs.total or 1.0
    error, cells = runs.error, len({*runs.cells})
    alone: list[VarianceShare] = []
    for name, column in columns.items():
        values = len({*column})
        is_alias = len(columns) > 1 and not runs.is_balanced and values == cells
        share = None if is_alias else _bounded(runs.between(column) / total)
        chance = None if error is None or is_alias else _bounded((values - 1) * error / total)
        alone.append(VarianceShare(name, values, share, chance))
    yield from sorted(alone, key=lambda one: -1.0 if one.share is None else one.share, reverse=True)
    of_all = runs.between(runs.cells) / total
    if runs.is_balanced and len(columns) > 1:
        of_options = fsum(one.share or 0.0 for one in alone)
        yield VarianceShare(INTERACTIONS, 0, _bounded(of_all - of_options))
    if cells < len(runs.values):
        yield VarianceShare(SEEDS, 0, _bounded(1.0 - of_all) if runs.total else 0.0)


def _bounded(share: float) -> float:
    """Return a share within 0..1; one below the precision of the sums is 0."""
    return 0.0 if share < _ROUNDING else min(1.0, share)
