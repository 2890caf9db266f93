"""`placet compare`: the agents that decided differently in two runs, and what followed."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from placet.cli.domains import AgainBy
from placet.cli.stores import log_to_read
from placet.cli.terminal import (
    AsJson,
    StoreArgument,
    json_line,
    number,
    pluralize,
    say_json,
    say_lines,
    shorten,
    table,
    text_or_json,
)

if TYPE_CHECKING:
    from placet.lab.comparison import AgentDifference, Comparison, Request, TickDifference

_AGENTS_SHOWN: Final = 12
_TICKS_SHOWN: Final = 16
_CELL_CHARACTERS: Final = 48


def compare(
    store: StoreArgument,
    other: Annotated[str, typer.Argument(metavar="OTHER", help="Another log of the same model.")],
    domain: Annotated[list[str] | None, AgainBy] = None,
    *,
    as_json: AsJson = False,
) -> int:
    """Compare two runs agent by agent.

    Prints where the logs part, which agents decided differently and from which tick on, how the
    difference spread, and how the states differ at the end. Exit code 1 if the runs differ, 0 if
    they are equal.
    """
    from placet.lab.comparison import compare as compared  # noqa: PLC0415  # and pydantic with it

    runs = compared(log_to_read(store), log_to_read(other), domains=domain or ())
    if as_json:
        say_json(runs.as_dict())
    else:
        say_lines(_lines(store, other, runs))
    return 0 if runs.is_equal else 1


def _lines(store: str, other: str, runs: "Comparison") -> Iterator[str]:
    parting = runs.parting
    if runs.is_equal:
        shared = pluralize(parting.record, "record")
        yield f"{store} and {other} are equal in all {shared} that both have"
        return
    yield f"A is {store}, B is {other}"
    place = f"record {parting.record}, after seq {parting.seq}"
    if "fork_adopted" in parting.values:
        yield f"One of them is a fork, of the other or of its parent: they part at {place}"
    else:
        yield f"They part at {place}: {parting.part}"
        yield from table(
            [("A", text_or_json(parting.values[0])), ("B", text_or_json(parting.values[1]))]
        )
    if parting.rule:
        yield f"  decided by {parting.rule}"
    yield from _section(
        f"Agents that differ: {len(runs.agents)}",
        ("agent", "from tick", "A", "B", "chose", "decided"),
        [_agent_row(agent) for agent in runs.agents[:_AGENTS_SHOWN]],
        len(runs.agents) - _AGENTS_SHOWN,
    )
    yield from _section(
        "How it spread (chose: other proposals; decided: equal proposals, other verdicts)",
        ("tick", "agents", "so far", "chose", "decided"),
        [
            tuple(map(str, (t.tick, t.agents, t.agents_so_far, t.chose, t.decided)))
            for t in _thinned(runs.ticks)
        ],
        0,
    )
    yield from _section(
        "Intents from there on",
        ("kind", "admitted A", "admitted B", "refused A", "refused B"),
        [(k.kind, *map(number, (*k.admitted, *k.refused))) for k in runs.kinds],
        0,
    )
    yield from _section(
        "State at the end",
        ("collection", "entities", "example", "A", "B"),
        [
            (c.collection, number(c.entities), c.example, _cell(c.first), _cell(c.second))
            for c in runs.state
        ],
        0,
    )


def _section(
    title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]], more: int
) -> Iterator[str]:
    if not rows:
        return
    yield ""
    yield title
    yield from table([header, *rows])
    if more > 0:
        yield f"  and {more} more; all of them with --json"


def _agent_row(agent: "AgentDifference") -> tuple[str, ...]:
    return (
        agent.agent_id,
        str(agent.tick),
        _request(agent.first),
        _request(agent.second),
        str(agent.chose),
        str(agent.decided),
    )


def _request(request: "Request | None") -> str:
    if request is None:
        return "-"
    refused = "" if request.is_admitted else f" ({request.outcome})"
    return shorten(f"{request.kind} {json_line(dict(request.payload))}{refused}", _CELL_CHARACTERS)


def _cell(value: object) -> str:
    return shorten(text_or_json(value), _CELL_CHARACTERS)


def _thinned(rows: "Sequence[TickDifference]") -> "Sequence[TickDifference]":
    """Return at most so many rows, evenly spread, with the first and the last."""
    last = len(rows) - 1
    if last < _TICKS_SHOWN:
        return rows
    places = sorted({round(k * last / (_TICKS_SHOWN - 1)) for k in range(_TICKS_SHOWN)})
    return [rows[place] for place in places]
