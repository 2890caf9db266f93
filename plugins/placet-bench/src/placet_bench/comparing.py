"""Compare results with those of an earlier run, which `placet bench --to` kept."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from placet.cli.terminal import TextTable
from placet.schemas.codec import Json
from placet.schemas.documents import DocumentError, parse_json
from placet.schemas.errors import PlacetError

_BYTES_MAX: Final = 16_000_000


class FigureChange(NamedTuple):
    """A figure in two runs.

    Attributes:
        workload: Name of the workload, with the row of its table.
        figure: Name of the figure.
        old: Its value in the earlier run.
        new: Its value in this one.
    """

    workload: str
    figure: str
    old: float
    new: float


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
    head = ("workload", "figure", "old", "new", "new ÷ old")
    rows = [
        (one.workload, one.figure, f"{one.old:.4g}", f"{one.new:.4g}", _quotient(one))
        for one in changes
    ]
    return TextTable(rows, head, indent="")


def _quotient(change: FigureChange) -> str:
    return f"{change.new / change.old:.2f}" if change.old else ""


def _figures(results: Sequence[dict[str, Json]]) -> Iterator[tuple[tuple[str, str], float]]:
    for result in results:
        name = str(result["workload"])
        for figure in ("ratio_to_reference", "intents_per_second"):
            if isinstance(result.get(figure), int | float):
                yield (name, figure), float(result[figure])
        for row in result.get("rows", ()):
            place = f"{name}, {row['name']}, {row['agents']:,}"
            for figure in ("ratio", "cpu_us"):
                if figure in row:
                    yield (place, figure), float(row[figure]["median"])
