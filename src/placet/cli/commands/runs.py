"""`placet runs`: the runs of a folder, with their status, settings and forks."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from placet.cli.progress import progress_bar
from placet.cli.terminal import (
    CommandError,
    Line,
    Output,
    TextTable,
    number,
    rounded_line,
    shorten,
    with_json,
)
from placet.schemas.codec import Json
from placet.schemas.printable import printable

if TYPE_CHECKING:
    from placet.server.runs.folder import RunFolder
    from placet.server.runs.listing import RunList

_NAME_CHARACTERS: Final = 60
_LOOK_S: Final = 0.2


@with_json
def runs(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A folder of logs, or of a study.")
    ],
    find: Annotated[
        str,
        typer.Argument(
            metavar="[FILTER]",
            help="The runs to list, such as 'beta=0.3 status:failed'; quote it for the shell.",
        ),
    ] = "",
) -> Output:
    """List the runs of a folder: status, settings, forks.

    Of a fork it names the run, the tick and the changed settings. It reads each log once.
    `placet play FOLDER` shows the same list in the browser, with tags and notes; the guide to runs
    describes the filter.
    """
    from placet.server.runs.filters import FilterError  # noqa: PLC0415  # with the list
    from placet.server.runs.folder import folder_of_logs  # noqa: PLC0415  # 90 ms
    from placet.server.runs.listing import RunList  # noqa: PLC0415  # with it

    if not folder.is_dir():
        raise CommandError(f"{folder} is no folder; expected one with logs, such as placet runs .")
    files = folder_of_logs(folder)
    listing = RunList(files)
    try:
        _read_all(listing, files)
        found = listing.rows(find)
    except FilterError as error:
        raise CommandError(str(error)) from error
    return Output(found, _lines(found, find))


def _read_all(listing: "RunList", files: "RunFolder") -> None:
    """Read the logs, in the background, with a bar on a terminal."""
    found = listing.rows()
    total = found["total"]
    with progress_bar("reading", total, "logs") as on_log:
        while unread := found["unread"]:
            on_log(total - unread)
            files.wait(_LOOK_S)
            found = listing.rows()
        on_log(total)


def _lines(found: Mapping[str, Any], find: str) -> Iterator[Line]:
    rows, total = found["runs"], found["total"]
    if not rows:
        yield "no run meets the filter" if total else f"no log is in {found['folder']}"
        return
    columns: Sequence[str] = found["columns"]
    heads = [key.rpartition(".")[2] for key in columns]
    table = [[*_cells(row), *(_setting(row, key) for key in columns)] for row in rows]
    head = ["run", "status", "scenario", "seed", "ticks", "agents", "refused", *heads]
    yield TextTable(table, head, indent="")
    for row in rows:
        yield from _below(row)
    if find:
        yield f"{len(rows)} of {total} runs"
    if found["problem"]:
        yield printable(found["problem"])


def _cells(row: Mapping[str, Any]) -> list[str]:
    seed = "-" if row["seed"] is None else str(row["seed"])
    agents, refused = (
        "-" if row[key] is None else number(row[key]) for key in ("agents", "refused")
    )
    planned, ticks = row["ticks_planned"], row["ticks"]
    done = "-" if ticks is None else number(ticks)
    name = shorten(printable(row["run"]), _NAME_CHARACTERS)
    scenario = printable(row["scenario"] or row["world"]) or "-"
    of = "" if planned is None or planned == ticks else f" of {number(planned)}"
    return [name, row["status"], scenario, seed, f"{done}{of}", agents, refused]


def _setting(row: Mapping[str, Any], key: str) -> str:
    return _text(row["settings"][key]) if key in row["settings"] else "-"


def _below(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield the ancestors of a run, the nearest first; its condition; and its error."""
    name = shorten(printable(row["run"]), _NAME_CHARACTERS)
    forks = [_fork(one) for one in reversed(row["lineage"])]
    if forks:
        yield f"{name}: {', itself a '.join(forks)}"
    if row["ended_by"]:
        yield f"{name}: ended by {printable(row['ended_by'])}"
    if row["error"]:
        yield f"{name}: {printable(row['error'])}"


def _fork(one: Mapping[str, Any]) -> str:
    when = f"after {one['sim_time']:g} s" if one["tick"] is None else f"at tick {one['tick']}"
    changes = [
        f"{printable(key)} {_text(after)} (there {_text(before)})"
        for key, (before, after) in one["changes"].items()
    ]
    edits = [
        f"without {printable(edit[1:])}" if edit.startswith("-") else f"edited {printable(edit)}"
        for edit in one["edits"]
    ]
    more = [f"{one['left_out']} more"] if one["left_out"] else []
    what = ", ".join([*changes, *edits, *more]) or "nothing changed"
    parent = one["run"] or one["parent"]
    return f"fork of {printable(parent)} {when}: {what}"


def _text(value: Json) -> str:
    return "none" if value is None else rounded_line(value)
