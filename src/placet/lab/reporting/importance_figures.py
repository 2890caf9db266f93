"""The figures of a study's options: which of them explains each outcome."""

from collections.abc import Iterator, Sequence

from placet.lab.importance import INTERACTIONS, SEEDS, VarianceShares, variance_shares
from placet.lab.intervals import is_finite
from placet.lab.reporting.drawings import ShareBar, bars
from placet.lab.reporting.figures import Figure, ReportSection, table_of
from placet.sweeps.results import Results

_BARS_MAX = 12
"""Largest number of options in one drawing; the table has all of them."""

_HOW_TO_READ = (
    "The share of the variance over all runs that each option explains alone: its main effect (eta "
    "squared), the spread between the means of its values. The red line is the share to expect of "
    "an option without effect. Interactions are what combinations add; seeds are the "
    "differences between runs of one combination. The shares hold for the values that were tried: "
    "few or close values have a small share, and other values may matter more or less."
)


def importance_section(results: Results, measures: Sequence[str]) -> ReportSection:
    """Return a figure for each measure that varies: the options by their share of its variance."""
    found = [
        variance_shares(results, measure)
        for measure in measures
        if results.parameters and sum(is_finite(row[measure]) for row in results) > 1
    ]
    equal = ", ".join(_title_of(one.measure) for one in found if one.is_constant)
    constant = f" The same in all runs, so that no option explains it: {equal}." if equal else ""
    return ReportSection(
        title="Which option explains it",
        figures=[figure_of(one) for one in found if not one.is_constant],
        empty=constant.strip() or "The runs differ by their seeds only, or have no numbers.",
        note=_HOW_TO_READ + constant,
    )


def figure_of(found: VarianceShares) -> Figure:
    """Return the shares of a measure as bars, with what qualifies them in the note."""
    shown = [one for one in found.shares if one.share is not None]
    options = [one for one in shown if one.source not in {INTERACTIONS, SEEDS}]
    rest = shown[len(options) :]
    name = _title_of(found.measure)
    drawn = [
        ShareBar(one.source, one.share or 0.0, one.by_chance, is_quiet=one in rest)
        for one in (*options[:_BARS_MAX], *rest)
    ]
    return Figure(
        title=f"What explains {name}",
        note=" ".join(_notes(found)),
        data=table_of(
            [
                {
                    "source": one.source,
                    "values": one.values or None,
                    "share": one.share,
                    "by chance": one.by_chance,
                }
                for one in found.shares
            ]
        ),
        drawing=bars(drawn, f"share of the variance of {name}"),
    )


def _notes(found: VarianceShares) -> Iterator[str]:
    left_out = f" ({found.left_out} left out)" if found.left_out else ""
    yield (
        f"{found.runs} runs{left_out}: {_number(found.combinations, 'combination')}, "
        f"{_number(found.seeds, 'seed')}."
    )
    if not found.is_balanced:
        yield "The grid is not full or has missing runs, so shares overlap and may sum to more."
    if found.combinations == found.runs:
        yield "One run of each combination: chance is in all shares; run more seeds to see it."
    if found.grouped:
        yield f"In groups of neighboring values: {', '.join(found.grouped)}."
    unknown = ", ".join(one.source for one in found.shares if one.share is None)
    if unknown:
        yield f"Each value is in one combination, so no share of its own is known: {unknown}."


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _title_of(measure: str) -> str:
    return measure.rpartition(":")[2]
