"""Compare results with those of an earlier run, which `placet bench --to` kept."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from placet.cli.terminal import TextTable
from placet.schemas.codec import Json
from placet.schemas.documents import DocumentError, parse_json
from placet.schemas.errors import PlacetError

_BYTES_MAX: Final = 16_000_000
_HIGHER_IS_BETTER: Final = frozenset({"ratio_to_reference", "intents_per_second"})
_MACHINE_FREE: Final = frozenset({"ratio_to_reference", "ratio"})
"""Figures that compare two measurements of one run, so that the machine cancels out."""

_LOAD_DIFFERENCE_MAX: Final = 1.0
"""Difference of two loads that is one busy processor: more of it makes figures incomparable."""


class FigureSpread(NamedTuple):
    """A figure with the ends of its spread: quartiles, or the least and the most."""

    low: float
    middle: float
    high: float


class FigureChange(NamedTuple):
    """A figure in two runs.

    Attributes:
        workload: Name of the workload, with the row of its table.
        figure: Name of the figure.
        old: Its value in the earlier run, with its spread.
        new: Its value in this one.
    """

    workload: str
    figure: str
    old: FigureSpread
    new: FigureSpread

    @property
    def quotient(self) -> FigureSpread | None:
        """The quotient new ÷ old, from its least to its most by both spreads; None beside 0."""
        if self.old.low <= 0:
            return None
        return FigureSpread(
            self.new.low / self.old.high,
            self.new.middle / self.old.middle,
            self.new.high / self.old.low,
        )

    @property
    def is_machine_free(self) -> bool:
        """Whether the figure is a ratio within one run."""
        return self.figure in _MACHINE_FREE

    @property
    def judgment(self) -> str:
        """`better` or `worse` where the spreads of the two runs do not overlap, else `unclear`."""
        quotient = self.quotient
        if quotient is None or quotient.low <= 1 <= quotient.high:
            return "unclear"
        return "better" if (quotient.low > 1) == (self.figure in _HIGHER_IS_BETTER) else "worse"


def read_results(path: Path) -> list[dict[str, Json]]:
    """Read the results that `--to` or `--json` wrote.

    Raises:
        PlacetError: The file cannot be read, or has no results.
    """
    try:
        found: Any = parse_json(path.read_bytes(), bytes_max=_BYTES_MAX)
    except OSError as error:
        raise PlacetError(f"cannot read {path}: {error.strerror}") from error
    except DocumentError as error:
        raise PlacetError(f"{path} has no results of `placet bench`: {error}") from error
    is_list = isinstance(found, list) and found
    if not is_list or not all(isinstance(one, dict) and "workload" in one for one in found):
        raise PlacetError(
            f"{path} has no results of `placet bench`: expected a list of objects with "
            "`workload`, as --to writes it"
        )
    results: list[dict[str, Json]] = found
    return results


def changes(
    old: Sequence[dict[str, Json]], new: Sequence[dict[str, Json]]
) -> Iterator[FigureChange]:
    """Yield the figures that both runs have, those first that do not depend on the machine."""
    earlier = dict(_figures(old))
    for key, value in _figures(new):
        if key in earlier:
            yield FigureChange(*key, earlier[key], value)


def table_of(changes: Sequence[FigureChange]) -> TextTable:
    """Return the comparison as a table."""
    head = ("workload", "figure", "old", "new", "new ÷ old", "(range)")
    rows = [
        (
            one.workload,
            one.figure,
            f"{one.old.middle:.4g}",
            f"{one.new.middle:.4g}",
            *(("", "") if (q := one.quotient) is None else (f"{q.middle:.2f}", _range_text(q))),
        )
        for one in changes
    ]
    return TextTable(rows, head, indent="")


def _range_text(quotient: FigureSpread) -> str:
    return f"{quotient.low:.2f}-{quotient.high:.2f}"


class Circumstances(NamedTuple):
    """Where and when two runs were measured.

    Attributes:
        old: Date, load, Python and machine of the earlier run, of the workloads that both have.
        new: Those of this run.
        warnings: Sentences on differences that make the figures hard to compare.
    """

    old: str
    new: str
    warnings: list[str]


def circumstances(old: Sequence[dict[str, Json]], new: Sequence[dict[str, Json]]) -> Circumstances:
    """Return where and when two runs were measured, with warnings if that differs."""
    names = {str(one["workload"]) for one in new}
    old = [one for one in old if one["workload"] in names] or old
    warnings = [
        f"The {noun} differs, so only ratios are comparable."
        for noun in ("machine", "python")
        if _of_run(old, noun) != _of_run(new, noun)
    ]
    loads = [[float(one["load"]) for one in run if "load" in one] for run in (old, new)]
    if all(loads) and _distance(*loads) > _LOAD_DIFFERENCE_MAX:
        warnings.append(
            f"The load of the machine was {_span(loads[0])} and is {_span(loads[1])}: a busy "
            "machine changes all figures, and ratios less; measure both at one load."
        )
    return Circumstances(_described(old), _described(new), warnings)


def _distance(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the largest difference of the loads of two runs."""
    return max(max(first) - min(second), max(second) - min(first))


def _of_run(results: Sequence[dict[str, Json]], name: str) -> list[str]:
    return list(dict.fromkeys(str(one.get(name, "unknown")) for one in results))


def _described(results: Sequence[dict[str, Json]]) -> str:
    loads = [float(one["load"]) for one in results if "load" in one]
    load = f"load {_span(loads)}" if loads else "load unknown"
    parts = (", ".join(_of_run(results, name)) for name in ("python", "machine"))
    return "; ".join([str(results[0].get("date", "date unknown")), load, *parts])


def _span(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _figures(results: Sequence[dict[str, Json]]) -> Iterator[tuple[tuple[str, str], FigureSpread]]:
    for result in results:
        name = str(result["workload"])
        for figure in ("ratio_to_reference", "intents_per_second"):
            value = result.get(figure)
            if isinstance(value, int | float):
                spread = result.get("spread", {}).get(figure, {})
                yield (
                    (name, figure),
                    FigureSpread(spread.get("min", value), value, spread.get("max", value)),
                )
        for row in result.get("rows", ()):
            place = f"{name}, {row['name']}, {row['agents']:,}"
            for figure in ("ratio", "cpu_us"):
                if figure in row:
                    quartiles = row[figure]
                    yield (
                        (place, figure),
                        FigureSpread(quartiles["p25"], quartiles["median"], quartiles["p75"]),
                    )
