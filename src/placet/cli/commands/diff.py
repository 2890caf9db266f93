"""`placet diff`: how two worlds differ."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from placet.cli.stores import log_to_read
from placet.cli.terminal import AsJson, StoreArgument, printable, say, say_json
from placet.schemas.codec import Json, to_json
from placet.schemas.errors import ValidationError

if TYPE_CHECKING:
    from placet.runtime.history.diff import OtherAnswer, WorldDiff, WorldDifference

_Found = TypeVar("_Found")
_SHOWN: Final = 40
_VALUE_CHARS_MAX: Final = 120


def diff(
    store: StoreArgument,
    other: Annotated[str, typer.Argument(metavar="OTHER", help="Another log.")],
    at: Annotated[
        int | None,
        typer.Option(min=0, metavar="SEQ", help="At which seq of both; else each at its end."),
    ] = None,
    path: Annotated[
        str,
        typer.Option(metavar="P", help="Only the state at this path, and no ledger or decisions."),
    ] = "",
    *,
    as_json: AsJson = False,
) -> int:
    """Compare the state and decisions of two worlds.

    The ledgers are compared too, and the decisions since the worlds parted.

    Such as a fork and its parent. Exit code 1 if they differ, 2 if neither has anything at a path.
    Where two logs of one world part, and which rule it was, says `placet bisect`.
    """
    from placet.runtime.history.diff import diff as compare  # noqa: PLC0415  # and pydantic with it

    try:
        found = compare(log_to_read(store), log_to_read(other), at=at, path=path)
    except ValidationError as error:  # there is nothing to compare
        raise typer.BadParameter(str(error), param_hint="--path") from error
    if as_json:
        say_json(found.as_dict())
    else:
        for line in _lines(store, other, found):
            say(printable(line))
    return 0 if found.is_empty else 1


def _lines(store: str, other: str, found: "WorldDiff") -> list[str]:
    lines = [
        f"- {store} at seq {found.seqs[0]}, digest {found.digests[0]}",
        f"+ {other} at seq {found.seqs[1]}, digest {found.digests[1]}",
        f"The first {found.shared_records} records are the same.",
    ]
    if found.is_empty:
        return [*lines, "Nothing differs."]
    return [
        *lines,
        *_section("State", found.state, _difference_lines),
        *_section("Ledger", found.ledger, _difference_lines),
        *_section("Decisions", found.decisions, _answer_lines),
    ]


def _section(
    title: str, found: Sequence[_Found], lines_of: Callable[[_Found], list[str]]
) -> list[str]:
    if not found:
        return []
    lines = [f"{title}: {len(found)}"]
    for one in found[:_SHOWN]:
        lines += lines_of(one)
    more = len(found) - _SHOWN
    return [*lines, f"  and {more} more; all of them with --json"] if more > 0 else lines


def _difference_lines(one: "WorldDifference") -> list[str]:
    return [
        f"  {one.path}",
        *([f"  - {_shown(one.one)}"] if one.is_in_one else []),
        *([f"  + {_shown(one.other)}"] if one.is_in_other else []),
    ]


def _answer_lines(one: "OtherAnswer") -> list[str]:
    return [
        f"  {one.agent_id} {', '.join(one.req_ids)}",
        f"  - {one.one or 'no answer in the log'}",
        f"  + {one.other or 'no answer in the log'}",
    ]


def _shown(value: Json) -> str:
    text = to_json(value).decode()
    return text if len(text) <= _VALUE_CHARS_MAX else f"{text[:_VALUE_CHARS_MAX]}…"
