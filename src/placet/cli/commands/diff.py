"""`placet diff`: how two worlds differ."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from placet.cli.progress import read_log
from placet.cli.terminal import ColoredLine, Line, Output, StoreArgument, json_line, with_json
from placet.schemas.errors import ValidationError

if TYPE_CHECKING:
    from placet.history.diff import DecisionDifference, WorldDiff, WorldDifference

_Difference = TypeVar("_Difference")
_SHOWN: Final = 40


@with_json
def diff(
    store: StoreArgument,
    other: Annotated[str, typer.Argument(metavar="OTHER", help="Another log.")],
    at: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="SEQ", help="Compare both at this seq. Default: each at its end."
        ),
    ] = None,
    path: Annotated[
        str,
        typer.Option(
            metavar="P",
            help="Compare only the state at collection, collection/entity or "
            "collection/entity/field.",
        ),
    ] = "",
) -> Output:
    """Compare state, ledger and decisions of two worlds.

    Decisions are compared from the first record in which the logs differ.

    For example of a fork and its parent. Exit code 1 if they differ, 2 if neither has anything at
    the path. `placet bisect` finds the first record in which two logs differ, and its rule.
    """
    from placet.history.diff import diff as compare  # noqa: PLC0415  # and pydantic with it

    first, second = (read_log(log, "diff") for log in (store, other))
    try:
        worlds = compare(first, second, at=at, path=path)
    except ValidationError as error:  # there is nothing to compare
        raise typer.BadParameter(str(error), param_hint="--path") from error
    return Output(worlds.as_dict, _lines(store, other, worlds), worlds.is_empty)


def _lines(store: str, other: str, worlds: "WorldDiff") -> list[Line]:
    lines: list[Line] = [
        _first(f"- {store} at seq {worlds.seqs[0]}, digest {worlds.digests[0]}"),
        _second(f"+ {other} at seq {worlds.seqs[1]}, digest {worlds.digests[1]}"),
        f"The first {worlds.shared_records} records are the same.",
    ]
    if worlds.is_empty:
        return [*lines, "No differences."]
    return [
        *lines,
        *_section("State", worlds.state, _difference_lines),
        *_section("Ledger", worlds.ledger, _difference_lines),
        *_section("Decisions", worlds.decisions, _decision_lines),
    ]


def _section(
    title: str, differences: Sequence[_Difference], lines_of: Callable[[_Difference], list[Line]]
) -> list[Line]:
    if not differences:
        return []
    lines: list[Line] = [f"{title}: {len(differences)}"]
    for difference in differences[:_SHOWN]:
        lines += lines_of(difference)
    more = len(differences) - _SHOWN
    return [*lines, f"  and {more} more; all of them with --json"] if more > 0 else lines


def _difference_lines(difference: "WorldDifference") -> list[Line]:
    return [
        f"  {difference.path}",
        *([_first(f"  - {json_line(difference.first)}")] if difference.is_in_first else []),
        *([_second(f"  + {json_line(difference.second)}")] if difference.is_in_second else []),
    ]


def _decision_lines(difference: "DecisionDifference") -> list[Line]:
    return [
        f"  {difference.agent_id} {', '.join(difference.req_ids)}",
        _first(f"  - {difference.first or 'no verdict in the log'}"),
        _second(f"  + {difference.second or 'no verdict in the log'}"),
    ]


def _first(text: str) -> ColoredLine:
    return ColoredLine(text, "red")


def _second(text: str) -> ColoredLine:
    return ColoredLine(text, "green")
