"""The page of a comparison of two runs of `placet bench`."""

from collections.abc import Sequence
from pathlib import Path

from placet.lab.reporting.drawings import Quotient, quotients
from placet.lab.reporting.figures import Figure, Page, ReportSection, table_of
from placet.lab.reporting.page import render
from placet.lab.reporting.report import require_replaceable
from placet.schemas.codec import Json
from placet.schemas.errors import PlacetError
from placet.stores.files import write_whole
from placet_bench.comparing import FigureChange, changes, circumstances

_HOW_TO_READ = (
    "New ÷ old of each figure; the line at 1 means no change. A range goes from the low end of the "
    "new spread ÷ the high end of the old one to the opposite: of quartiles of the rounds, or of "
    "the least and the most. Better and worse are the figures whose spreads do not overlap."
)


def require_page(path: Path) -> None:
    """Check, before anything is measured, that a page can be written to a path.

    Raises:
        PlacetError: The name does not end in .html, the folder is missing, or another file is
            there.
    """
    if path.suffix != ".html":
        raise PlacetError(f"cannot plot to {path}: expected a name that ends in .html")
    if not path.parent.is_dir():
        raise PlacetError(f"cannot write {path}: there is no folder {path.parent}")
    require_replaceable(path)


def write_page(
    path: Path, old: Sequence[dict[str, Json]], new: Sequence[dict[str, Json]], old_name: str
) -> None:
    """Write the comparison of two runs as one HTML file.

    Raises:
        PlacetError: The file cannot be written.
    """
    try:
        write_whole(path, render(page_of(old, new, old_name)).encode())
    except OSError as error:
        raise PlacetError(f"cannot write {path}: {error.strerror}") from error


def page_of(old: Sequence[dict[str, Json]], new: Sequence[dict[str, Json]], old_name: str) -> Page:
    """Return the page: where both runs were measured, ratios within a run, and other figures."""
    found = list(changes(old, new))
    was, now, warnings = circumstances(old, new)
    ratios = [one for one in found if one.is_machine_free]
    others = [one for one in found if not one.is_machine_free]
    empty = "The two runs have no such figure in common."
    return Page(
        title="Benchmarks compared",
        subtitle=" ".join([f"This run beside {old_name}.", *warnings]),
        facts=[("old", was), ("new", now)],
        sections=[
            ReportSection(
                title="Ratios within a run",
                figures=_figures(ratios),
                note=_HOW_TO_READ,
                empty=empty,
            ),
            ReportSection(
                title="Figures of the machine",
                figures=_figures(others),
                note="They depend on the machine and its load.",
                empty=empty,
            ),
        ],
    )


def _figures(found: Sequence[FigureChange]) -> list[Figure]:
    """Return a figure for each name of figures, with all workloads that have it."""
    by_name: dict[str, list[FigureChange]] = {}
    for change in found:
        by_name.setdefault(change.figure, []).append(change)
    return [_figure(name, group) for name, group in by_name.items()]


def _figure(name: str, group: Sequence[FigureChange]) -> Figure:
    drawn = [
        Quotient(one.workload, *quotient, one.judgment)
        for one in group
        if (quotient := one.quotient) is not None
    ]
    rows: list[dict[str, Json]] = []
    for one in group:
        row: dict[str, Json] = {"workload": one.workload, "old": one.old.middle}
        row |= {"new": one.new.middle}
        if (quotient := one.quotient) is not None:
            row |= {"new ÷ old": quotient.middle, "low": quotient.low, "high": quotient.high}
        rows.append({**row, "judgment": one.judgment})
    better = "higher" if name in {"ratio_to_reference", "intents_per_second"} else "lower"
    return Figure(
        title=name,
        note=f"{better} is better",
        data=table_of(rows),
        drawing=quotients(drawn, f"{name}, new ÷ old") if drawn else "",
    )
