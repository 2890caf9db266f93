"""The figures of a study: small multiples of its outcomes over its options, pairs, and failures."""

from collections import Counter
from collections.abc import Sequence
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
from placet.lab.reporting.drawings import Estimate, estimates, number_text
from placet.lab.reporting.figures import Figure, Page, ReportSection, listed, table_of, text_of
from placet.schemas.codec import Json, canonical
from placet.sweeps.errors import LabError
from placet.sweeps.formats import Row
from placet.sweeps.results import Results

_MEASURES: Final = ("admitted", "refused")
_VALUES_MAX: Final = 24
"""Largest number of an option's values in one drawing."""


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
        _multiples(results),
        _pairs(results),
        multiples_section(results),
        _failures(failed),
        ReportSection(title="Runs", figures=listed("All runs", results.rows)),
    ]
    return Page(title=folder.resolve().name, subtitle="a study", facts=facts, sections=sections)


def _multiples(results: Results) -> ReportSection:
    """Draw each measure over each option."""
    figures = [
        figure
        for measure in (*results.outcomes, *_MEASURES)
        for option in results.parameters
        if (figure := _multiple(results.rows, measure, option)) is not None
    ]
    return ReportSection(
        title="Outcomes over options",
        figures=figures,
        empty="The runs differ by their seeds only, or have no outcome that is a number.",
    )


def _multiple(rows: Sequence[Row], measure: str, option: str) -> Figure | None:
    groups: dict[bytes, tuple[Json, list[float]]] = {}
    is_share = all(isinstance(row[measure], bool | None) for row in rows)
    for row in rows:
        value = row[measure]
        if is_finite(value):
            groups.setdefault(canonical(row[option]), (row[option], []))[1].append(float(value))
    ordered = sorted(groups.values(), key=lambda group: _order(group[0]))
    if len(ordered) < 2 or len(ordered) > _VALUES_MAX:  # noqa: PLR2004  # nothing to compare
        return None
    shown = [
        Estimate(text_of(option_value), mean(values), _interval(values, is_share), values)
        for option_value, values in ordered
    ]
    table = [
        {
            option: text_of(value),
            "runs": len(values),
            "mean": mean(values),
            "low": estimate.interval.low,
            "high": estimate.interval.high,
        }
        for (value, values), estimate in zip(ordered, shown, strict=True)
    ]
    kind = "Wilson" if is_share else "Student"
    left_out = left_out_note(not_finite(row[measure] for row in rows))
    return Figure(
        title=measure if measure in _MEASURES else measure.rpartition(":")[2],
        note=f"by {option}: each run, the mean, and its 95 % interval (of {kind}){left_out}",
        data=table_of(table),
        drawing=estimates(shown, measure, option),
    )


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
