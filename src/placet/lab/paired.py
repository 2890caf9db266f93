"""Paired differences over a sweep: the effect of an option, seed by seed.

Two runs with the same seed share their random draws, as far as the option does not touch them
(common random numbers). So the difference of a pair varies less than its two runs do, and fewer
seeds show an effect.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import nan
from statistics import mean
from typing import Any, Final, NamedTuple, TypeAlias

from placet.lab.intervals import is_finite, mean_interval, not_finite
from placet.scenarios.scenario import full_key
from placet.schemas.codec import Json, canonical
from placet.schemas.keywords import explain_keywords
from placet.schemas.name_suggestions import did_you_mean
from placet.sweeps.columns import COUNTS, ENDED_AT, ENDS, RULE_ERRORS
from placet.sweeps.errors import LabError
from placet.sweeps.results import Results

_PAIRS_MIN: Final = 2
"""One difference has no interval."""

Rows: TypeAlias = Iterable[Mapping[str, Any]]
"""Rows by column; a data frame of pandas or polars and an Arrow table are accepted too."""


class PairedDifference(NamedTuple):
    """The difference that a value of an option makes to a measure.

    Attributes:
        option: The option.
        baseline: Its value in the first run of each pair.
        value: Its value in the second run of each pair.
        measure: The measured column.
        pairs: Number of pairs.
        mean_baseline: Mean of the measure under `baseline`, over the pairs.
        mean_value: Mean of the measure under `value`, over the pairs.
        difference: Mean of the differences, `value` minus `baseline`.
        low: Lower end of Student's t interval of the mean difference, at 95 %.
        high: Upper end.
        not_finite: Number of further pairs that are left out, because a value is NaN or infinite.
    """

    option: str
    baseline: Json
    value: Json
    measure: str
    pairs: int
    mean_baseline: float
    mean_value: float
    difference: float
    low: float
    high: float
    not_finite: int = 0

    @property
    def is_clear(self) -> bool:
        """Whether the interval does not contain 0."""
        return self.low > 0 or self.high < 0

    def as_dict(self) -> dict[str, Json]:
        """Return the difference as a row of a table."""
        return self._asdict()


@explain_keywords
def paired_differences(
    results: Rows,
    option: str,
    *,
    baseline: Json = None,
    measures: Sequence[str] = (),
    pair_by: Sequence[str] | None = None,
) -> list[PairedDifference]:
    """Compare the values of an option, run by run with the same seed.

    Args:
        results: `Results` of a sweep, or one row a run, with a column for the option, the seed and
            each measure.
        option: Column of the option.
        baseline: Value that the others are compared with; None is the first in the results.
        measures: Columns to compare; by default the outcomes and counts of a sweep, or all other
            columns of numbers.
        pair_by: Columns that are equal in the two runs of a pair; by default the seed, and the
            other options of a sweep.

    Returns:
        One difference for each other value and measure. A value without a number (a failed run)
        leaves its pair out; pairs with NaN or an infinity are left out and counted. Where fewer
        than two pairs are left, the means and the interval are NaN.

    Raises:
        LabError: A column is missing, the option has one value, a pair has several runs, or fewer
            than two pairs are left for one of the given `measures`, or for all.
    """
    is_named = bool(measures)
    if isinstance(results, Results):
        option = full_key(option)
        measures = measures or [*results.outcomes, *COUNTS]
        if pair_by is None:
            pair_by = ["seed", *(name for name in results.parameters if name != option)]
    pair_by = ("seed",) if pair_by is None else pair_by
    rows = rows_of(results)
    for name in (option, *pair_by, *measures):
        require_column(rows, name)
    names = measures or _measures(rows, {option, *pair_by})
    values = list({canonical(row[option]): row[option] for row in rows}.values())
    base = values[0] if baseline is None else baseline
    others = [value for value in values if canonical(value) != canonical(base)]
    if not others or len(others) == len(values):
        shown = ", ".join(map(repr, values))
        raise LabError(
            f"{option} has the values {shown}: expected at least two, of which {base!r} is one"
        )
    runs = _by_pair(rows, option, pair_by)
    differences = [
        _difference(runs, (option, base, value), measure) for value in others for measure in names
    ]
    lacking = [one for one in differences if one.pairs < _PAIRS_MIN]
    if lacking and (is_named or len(lacking) == len(differences)):
        raise _too_few_pairs(lacking[0])
    return differences


_Key: TypeAlias = tuple[bytes, bytes]


def _difference(
    runs: Mapping[_Key, Mapping[str, Any]], compared: tuple[str, Json, Json], measure: str
) -> PairedDifference:
    option, base, value = compared
    found = [
        (run[measure], other[measure])
        for (key, of_option), run in runs.items()
        if of_option == canonical(base) and (other := runs.get((key, canonical(value)))) is not None
    ]
    pairs = [pair for pair in found if all(map(is_finite, pair))]
    left_out = sum(not_finite(pair) > 0 for pair in found)
    numbers = (nan,) * 5
    if len(pairs) >= _PAIRS_MIN:
        before, after = ([float(value) for value in values] for values in zip(*pairs, strict=True))
        differences = [late - early for early, late in zip(before, after, strict=True)]
        means = (mean(before), mean(after), mean(differences))
        numbers = (*means, *mean_interval(differences))
    return PairedDifference(option, base, value, measure, len(pairs), *numbers, left_out)


def _too_few_pairs(one: PairedDifference) -> LabError:
    return LabError(
        f"{one.option} = {one.baseline!r} and {one.value!r} have {one.pairs} pairs of runs with a "
        f"number in {one.measure!r}, and {one.not_finite} more with NaN or an infinity: an "
        "interval needs two at least; run the sweep with more seeds"
    )


def _by_pair(
    rows: Sequence[Mapping[str, Any]], option: str, pair_by: Sequence[str]
) -> dict[_Key, Mapping[str, Any]]:
    runs: dict[_Key, Mapping[str, Any]] = {}
    for row in rows:
        key = canonical([row[name] for name in pair_by]), canonical(row[option])
        if key in runs:
            pair = ", ".join(f"{name} = {row[name]!r}" for name in pair_by)
            cause = _why_several(runs[key], row, pair_by)
            raise LabError(f"{option} = {row[option]!r} has several runs with {pair}. {cause}")
        runs[key] = row
    return runs


def _why_several(
    first: Mapping[str, Any], second: Mapping[str, Any], pair_by: Sequence[str]
) -> str:
    """Return why two rows have one place in a pair, and what to do, as a sentence."""
    names = [name for name in first if repr(first[name]) != repr(second.get(name))]
    own = {*COUNTS, RULE_ERRORS, ENDED_AT, *ENDS}
    options = [name for name in names if name not in own]
    if not options:
        differ = f"differ in {', '.join(names)} alone" if names else "are equal"
        return f"They {differ}: keep one row of each run"
    return (
        f"They differ in {', '.join(options)}: add those that are options to pair_by, as in "
        f"pair_by={[*pair_by, options[0]]!r} (`placet compare`: --pair-by {options[0]})"
    )


def _measures(rows: Sequence[Mapping[str, Any]], keys: set[str]) -> list[str]:
    names = dict.fromkeys(name for row in rows for name in row if name not in keys)
    measures = [name for name in names if any(is_finite(row.get(name)) for row in rows)]
    if not measures:
        raise LabError(f"the results have no column of numbers besides {', '.join(sorted(keys))}")
    return measures


def rows_of(results: Any) -> list[Mapping[str, Any]]:  # noqa: ANN401  # a table of any library
    """Return the rows of results, or of a table of pandas, polars or pyarrow.

    Raises:
        LabError: There are none.
    """
    if hasattr(results, "to_pylist"):  # pyarrow
        results = results.to_pylist()
    elif hasattr(results, "to_dicts"):  # polars
        results = results.to_dicts()
    elif hasattr(results, "to_dict"):  # pandas
        results = results.to_dict("records")
    rows: list[Mapping[str, Any]] = [dict(row) for row in results]
    if not rows:
        raise LabError("there are no results to compare")
    return rows


def require_column(rows: Sequence[Mapping[str, Any]], name: str) -> None:
    """Check that each row has a column.

    Raises:
        LabError: The column is missing in a row.
    """
    missing = sum(name not in row for row in rows)
    if missing == len(rows):
        hint = did_you_mean(name, dict.fromkeys(key for row in rows for key in row))
        raise LabError(f"the results have no column {name!r}; {hint}")
    if missing:
        raise LabError(f"{missing} of {len(rows)} rows of the results have no column {name!r}")
