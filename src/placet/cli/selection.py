"""The options that select records of a log, shared by `placet log` and `placet export`."""

import re
from typing import Annotated, TypeAlias

import typer

from placet.cli import completion
from placet.history.selection import Selection

FromOption: TypeAlias = Annotated[
    int, typer.Option("--from", min=0, metavar="SEQ", help="First seq.")
]
ToOption: TypeAlias = Annotated[
    int | None,
    typer.Option("--to", min=0, metavar="SEQ", help="Last seq. Default: the end of the log."),
]
AgentOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--agent",
        metavar="ID",
        help="Only records about this agent. Repeatable.",
        autocompletion=completion.agents,
    ),
]
KindOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        metavar="KIND",
        help="Only batches with this kind, or with a kind of this domain. Repeatable.",
        autocompletion=completion.kinds,
    ),
]
RefusedOption: TypeAlias = Annotated[
    bool,
    typer.Option("--refused", help="Only refused batches and noted refusals, nothing held."),
]
GrepOption: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="PATTERN", help="Only records whose JSON has this regular expression."),
]


def selection_of(
    from_seq: int,
    to_seq: int | None,
    agent: list[str] | None,
    kind: list[str] | None,
    *,
    refused: bool,
    grep: str | None,
) -> Selection:
    """Return the selection that the options describe.

    Raises:
        BadParameter: The pattern is no regular expression, or the range is empty.
    """
    if to_seq is not None and to_seq < from_seq:
        raise typer.BadParameter(f"--to {to_seq} is before --from {from_seq}")
    try:
        pattern = None if grep is None else re.compile(grep)
    except re.error as error:
        raise typer.BadParameter(f"--grep {grep!r} is no regular expression: {error}") from None
    return Selection(
        from_seq, to_seq, frozenset(agent or ()), frozenset(kind or ()), refused, pattern
    )
