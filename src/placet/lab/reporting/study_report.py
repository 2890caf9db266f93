"""The figures of a study: small multiples of its outcomes over its options, pairs, and failures."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import Final

from placet.lab.intervals import (
    Interval,
    is_finite,
    left_out_note,
    mean_interval,
    not_finite,
    wilson,
)
from placet.lab.paired import paired_differences
from placet.lab.reporting.collected import multiples_section
from placet.lab.reporting.drawings import Estimate, estimates, lines_of_means, number_text
from placet.lab.reporting.figures import (
    Figure,
    Page,
    ReportSection,
    listed,
    table_of,
    text_of,
    y_range_of,
)
from placet.lab.reporting.importance_figures import importance_section
from placet.schemas.codec import Json, canonical
from placet.sweeps.errors import LabError
from placet.sweeps.formats import Row
from placet.sweeps.results import Results

_MEASURES: Final = ("admitted", "refused")
_VALUES_MAX: Final = 24
"""Largest number of an option's values in one drawing."""

_CROSSED: Final = 2
_LINES_MAX: Final = 8
"""Largest number of values of the second option: as many as there are colors."""

_FACETS_MAX: Final = 12
"""Largest number of figures of a measure over one option."""


def study_page(folder: Path, results: Results) -> Page:
    """Return the report of a study. O(runs).

    Raises:
        LabError: The study has no finished run.
    """
    if not results.rows:
        raise LabError(f"{folder} has no finished run yet: there is nothing to report")
    failed = results.failed
    seconds = sum(float(row["seconds"]) for row in results.rows if row["seconds"] is not None)
    facts = [
        ("runs", str(len(results))),
        ("failed", str(len(failed))),
        ("options", ", ".join(results.parameters) or "none"),
        ("seeds", str(len({row["seed"] for row in results.rows}))),
        ("outcomes", ", ".join(results.outcomes) or "none"),
        ("seconds of all runs", number_text(seconds)),
    ]
    sections = [
        importance_section(results, [*results.outcomes, *_MEASURES]),
        _multiples(results),
        multiples_section(results),
        _pairs(results),
        _intents(results),
        _failures(failed),
        ReportSection(title="Runs", figures=_runs(results)),
    ]
    return Page(title=folder.resolve().name, subtitle="a study", facts=facts, sections=sections)


def _runs(results: Results) -> list[Figure]:
    """Return the table of all runs, without the columns that have one value in all of them."""
    alike = {
        name: results.rows[0][name]
        for name in results.columns
        if name not in results.parameters
        and len(results) > 1
        and len({canonical([text_of(value)]) for value in results.column(name)}) == 1
    }
    rows = [{name: row[name] for name in results.columns if name not in alike} for row in results]
    told = {name: text_of(v) for name, v in alike.items() if v is not None and v != ""}
    shown = ", ".join(f"{name} {value}" for name, value in told.items())
    return listed("All runs", rows, f"Of all runs: {shown}." if shown else "")


def _multiples(results: Results) -> ReportSection:
    """Draw each outcome over each option."""
    drawn, alike = _varying(results, results.outcomes)
    return ReportSection(
        title="Outcomes over options",
        figures=_figures(results, drawn),
        empty=alike or "The runs differ by their seeds only, or have no outcome that is a number.",
        note=alike,
    )


def _intents(results: Results) -> ReportSection:
    drawn, alike = _varying(results, _MEASURES)
    return ReportSection(
        title="Intents over options",
        figures=_figures(results, drawn),
        empty=alike or "The runs differ by their seeds only.",
        note=alike,
    )


def _varying(results: Results, measures: Sequence[str]) -> tuple[list[str], str]:
    """Return the measures that vary over the runs, and a sentence about the others."""
    alike: dict[str, Json] = {}
    for measure in measures:
        found = {repr(row[measure]): row[measure] for row in results}
        if len(results) > 1 and len(found) == 1 and results.parameters:
            alike[measure] = next(iter(found.values()))
    shown = ", ".join(f"{_title_of(name)} = {text_of(value)}" for name, value in alike.items())
    note = f"The same in all runs, and not drawn: {shown}." if shown else ""
    return [measure for measure in measures if measure not in alike], note


def _figures(results: Results, measures: Sequence[str]) -> list[Figure]:
    """Return the figures of each measure: those of two options at once, then those of each."""
    return [
        figure
        for measure in measures
        for figure in (
            *crossed(results.rows, measure, results.parameters),
            *(
                figure
                for option in results.parameters
                for figure in facets(results.rows, measure, option, results.parameters)
            ),
        )
    ]


def crossed(rows: Sequence[Row], measure: str, options: Sequence[str]) -> Iterator[Figure]:
    """Yield figures of a measure over the first option, with a line for each value of the second.

    One for each combination of the other options; none if there are too many values to read.
    """
    if len(options) < _CROSSED:
        return
    x, by, *others = options
    facets_of = _combinations(rows, others)
    lines_of = [
        [
            (text_of(group[0][by]), _estimates(group, measure, x, is_pooled=False))
            for group in _combinations(facet, [by])
        ]
        for facet in facets_of
    ]
    estimates_of = [e for lines in lines_of for _, line in lines for e in line]
    most = max((len(lines) for lines in lines_of), default=0)
    places = {estimate.label for estimate in estimates_of}
    is_readable = 1 < most <= _LINES_MAX and 1 < len(places) <= _VALUES_MAX
    if not is_readable or len(facets_of) > _FACETS_MAX:
        return
    ends = [end for estimate in estimates_of for end in estimate.interval or ()]
    y_range = y_range_of([*(estimate.mean for estimate in estimates_of), *ends])
    for facet, lines in zip(facets_of, lines_of, strict=True):
        where = ", ".join(f"{name} = {text_of(facet[0][name])}" for name in others)
        yield Figure(
            title=_title_of(measure),
            note=f"by {x}, a line for each {by}{where and ', at '}{where}: means with 95 % "
            f"intervals{_left_out(facet, measure)}",
            data=table_of(
                [{by: label, **_estimate_row(x, row)} for label, line in lines for row in line]
            ),
            drawing="" if y_range is None else lines_of_means(lines, measure, x, y_range),
            y_range=y_range,
        )


def _combinations(rows: Sequence[Row], options: Sequence[str]) -> list[list[Row]]:
    """Return the rows of each combination of the values of options, in the order of the values."""
    found: dict[bytes, list[Row]] = {}
    for row in sorted(rows, key=lambda row: [_order(row[name]) for name in options]):
        found.setdefault(canonical([row[name] for name in options]), []).append(row)
    return list(found.values())


def _title_of(measure: str) -> str:
    return measure if measure in _MEASURES else measure.rpartition(":")[2]


def facets(
    rows: Sequence[Row], measure: str, option: str, options: Sequence[str]
) -> Iterator[Figure]:
    """Yield figures of a measure over an option: one for each combination of the other options.

    Many combinations share one figure, which has no means, because those of unlike runs mislead.
    """
    others = [name for name in options if name != option]
    combinations = _combinations(rows, others)
    is_pooled = len(combinations) > _FACETS_MAX
    groups = [rows] if is_pooled else combinations
    drawn = [_estimates(group, measure, option, is_pooled=is_pooled) for group in groups]
    shown = [estimate for facet in drawn for estimate in facet]
    if not 1 < len({estimate.label for estimate in shown}) <= _VALUES_MAX:
        return
    ends = [end for estimate in shown for end in estimate.interval or ()]
    y_range = y_range_of([*(v for estimate in shown for v in estimate.values), *ends])
    is_share = all(isinstance(row[measure], bool | None) for row in rows)
    for group, facet in zip(groups, drawn, strict=True):
        if not facet:
            continue
        where = ", ".join(f"{name} = {text_of(group[0][name])}" for name in others)
        how = (
            f"each run, the mean, and its 95 % interval (of {'Wilson' if is_share else 'Student'})"
        )
        if is_pooled:
            where, how = "", f"each run; those of all values of {', '.join(others)} together"
        yield Figure(
            title=_title_of(measure),
            note=f"by {option}{where and ', at '}{where}: {how}{_left_out(group, measure)}",
            data=table_of([_estimate_row(option, estimate) for estimate in facet]),
            drawing="" if y_range is None else estimates(facet, measure, option, y_range),
            y_range=y_range,
        )


def _estimates(
    rows: Sequence[Row], measure: str, option: str, *, is_pooled: bool
) -> list[Estimate]:
    """Return an estimate for each value of an option."""
    is_share = all(isinstance(row[measure], bool | None) for row in rows)
    groups: dict[bytes, tuple[Json, list[float]]] = {}
    for row in rows:
        if is_finite(row[measure]):
            group = groups.setdefault(canonical(row[option]), (row[option], []))
            group[1].append(float(row[measure]))
    return [
        Estimate(
            text_of(value), mean(found), None if is_pooled else _interval(found, is_share), found
        )
        for value, found in sorted(groups.values(), key=lambda group: _order(group[0]))
    ]


def _estimate_row(option: str, estimate: Estimate) -> dict[str, Json]:
    row: dict[str, Json] = {option: estimate.label, "runs": len(estimate.values)}
    row["mean"] = estimate.mean
    if estimate.interval is not None:
        row |= {"low": estimate.interval.low, "high": estimate.interval.high}
    return row


def _left_out(rows: Sequence[Row], measure: str) -> str:
    return left_out_note(not_finite(row[measure] for row in rows))


def _pairs(results: Results) -> ReportSection:
    rows: list[dict[str, Json]] = []
    problems = []
    for option in results.parameters:
        for measure in (*results.outcomes, *_MEASURES):
            try:
                found = paired_differences(results, option, measures=[measure])
            except LabError as error:
                problems.append(str(error))
                continue
            rows += [_pair_row(difference.as_dict()) for difference in found]
    note = (
        "Each value of an option beside its first value, over the runs with the same seed and the "
        "same other options; Student's 95 % interval of the mean difference."
    )
    return ReportSection(
        title="Paired differences",
        figures=listed("Differences", rows, note),
        empty=problems[0] if problems else "The runs differ by their seeds only.",
    )


def _pair_row(row: dict[str, Json]) -> dict[str, Json]:
    return {
        **row,
        "baseline": text_of(row["baseline"]),
        "value": text_of(row["value"]),
        "contains 0": "yes" if row["low"] <= 0 <= row["high"] else "no",
    }


def _failures(failed: Sequence[Row]) -> ReportSection:
    counts = Counter((str(row["status"]), str(row["error"])) for row in failed)
    rows: list[dict[str, Json]] = [
        {"status": status, "error": error, "runs": count}
        for (status, error), count in counts.most_common()
    ]
    return ReportSection(
        title="Failures",
        figures=listed("Errors", rows),
        empty="No run failed.",
    )


def _interval(values: Sequence[float], is_share: bool) -> Interval:
    if is_share:
        return wilson(round(sum(values)), len(values))
    return mean_interval(values) if len(values) > 1 else Interval(values[0], values[0])


def _order(value: Json) -> tuple[bool, float, str]:
    is_number = isinstance(value, int | float)
    return not is_number, float(value) if is_number else 0.0, text_of(value)
