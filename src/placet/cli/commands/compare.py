"""`placet compare`: the agents that decided differently in two runs, and what followed."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import typer

from placet.cli.domains import AgainBy
from placet.cli.progress import read_log
from placet.cli.terminal import (
    Line,
    Output,
    TextTable,
    number,
    pluralize,
    rounded_json,
    rounded_line,
    shorten,
    text_or_json,
    with_json,
)

if TYPE_CHECKING:
    from placet.history.diff import Request
    from placet.lab.comparison import AgentDifference, Comparison, TickDifference
    from placet.schemas.codec import Json
    from placet.sweeps.results import Results

_AGENTS_SHOWN: Final = 12
_TICKS_SHOWN: Final = 16
_CELL_CHARACTERS: Final = 48


@with_json
def compare(
    store: Annotated[str, typer.Argument(metavar="STORE", help="A log, or a study.")],
    other: Annotated[
        str | None, typer.Argument(metavar="[OTHER]", help="Another log of the same model.")
    ] = None,
    *,
    by: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Compare the runs of a study by this key of its sweep."),
    ] = None,
    pair_by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="With --by, a further column of the results that is equal in the two runs of a "
            "pair, besides the seed and the other keys of the sweep, such as code. Repeatable.",
        ),
    ] = None,
    domain: AgainBy = None,
) -> Output:
    """Compare two runs agent by agent.

    Two logs: prints where they part, which agents decided differently and from which tick on, how
    the difference spread, and how the states differ at the end. Exit code 1 if the runs differ, 0
    if they are equal.

    A study, with --by: prints the difference that each value of the key makes to each outcome,
    over the pairs of runs with the same seed, with its 95 % interval.
    """
    if (other is None) == (by is None):
        raise typer.BadParameter("give OTHER to compare two logs, or --by to compare a study")
    if by is not None:
        return _compare_study(store, by, pair_by or [])
    if pair_by:
        raise typer.BadParameter("--pair-by is for a study, with --by")
    assert other is not None, "one of the two is given"
    return _compare_logs(store, other, domain or [])


def _compare_study(folder: str, key: str, pair_by: Sequence[str]) -> Output:
    from placet.lab.paired import paired_differences  # noqa: PLC0415  # scenarios with it
    from placet.scenarios.scenario import full_key  # noqa: PLC0415  # likewise
    from placet.sweeps.columns import SEED  # noqa: PLC0415  # likewise
    from placet.sweeps.results import Results  # noqa: PLC0415  # likewise

    results = Results.load(folder)
    option = full_key(key)
    others = [name for name in results.parameters if name != option]
    differences = paired_differences(results, key, pair_by=[SEED, *others, *pair_by])
    header = ("measure", "from", "to", "pairs", "mean from", "mean to", "difference", "95 %")
    rows = [
        (
            d.measure,
            text_or_json(d.baseline),
            text_or_json(d.value),
            str(d.pairs),
            *(f"{value:.4g}" for value in (d.mean_baseline, d.mean_value, d.difference)),
            f"{d.low:.4g} .. {d.high:.4g}{'' if d.is_clear else '  (contains 0)'}",
        )
        for d in differences
    ]
    pooled = [*others, *pair_by]
    lines: list[Line] = [f"{folder} by {option}", *map(partial(_pooled, results), pooled)]
    lines.append(TextTable(rows, header))
    return Output([difference.as_dict() for difference in differences], lines)


def _pooled(results: "Results", name: str) -> str:
    """Return a line that says over which values of another option the pairs are pooled."""
    values = {text_or_json(value): None for value in results.column(name)}
    shown = shorten(", ".join(values), _CELL_CHARACTERS)
    return f"  pooled over {name} = {shown}: the differences are means over these values"


def _compare_logs(store: str, other: str, domain: list[str]) -> Output:
    from placet.lab.comparison import compare as compared  # noqa: PLC0415  # and pydantic with it

    first, second = (read_log(log, "compare") for log in (store, other))
    runs = compared(first, second, domains=domain)
    return Output(runs.as_dict, _lines(store, other, runs), runs.is_equal)


def _lines(store: str, other: str, runs: "Comparison") -> Iterator[Line]:
    parting = runs.parting
    if runs.is_equal:
        shared = pluralize(parting.record, "record")
        yield f"{store} and {other} are equal in all {shared} that both have"
        return
    yield f"A is {store}, B is {other}"
    if runs.settings:
        yield "Settings that differ"
        rows = [(one.key, *_cells(one.first, one.second)) for one in runs.settings]
        yield TextTable(rows, ("setting", "A", "B"))
    place = f"record {parting.record}, after seq {parting.seq}"
    if "fork_adopted" in parting.values:
        yield f"One of them is a fork, of the other or of its parent: they part at {place}"
    else:
        yield f"They part at {place}: {parting.part}"
        yield TextTable(
            [("A", text_or_json(parting.values[0])), ("B", text_or_json(parting.values[1]))]
        )
    if parting.rule:
        yield f"  decided by {parting.rule}"
    yield from _ends(runs)
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
    ends = (
        "the end"
        if len({*runs.ends}) == 1
        else "the ends, A {} and B {}".format(*(f"at tick {tick}" for tick in runs.ends))
    )
    yield from _section(
        f"State at {ends}",
        ("collection", "entities", "example", "A", "B"),
        [
            (c.collection, number(c.entities), c.example, *_cells(c.first, c.second))
            for c in runs.state
        ],
        0,
    )


def _ends(runs: "Comparison") -> Iterator[Line]:
    """Yield where the runs end, if one ends before the other: the rest of that has no pair."""
    if len({*runs.ends}) == 1:
        return
    (early, first), (late, last) = sorted(zip("AB", runs.ends, strict=True), key=lambda e: e[1])
    where = f"{early} ends at tick {first}, {late} at tick {last}"
    yield f"{where}: ticks after {first} are not compared"
    if first == runs.parted_at:
        yield f"  {early} has no tick after they part: placet run --resume continues it"


def _section(
    title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]], more: int
) -> Iterator[Line]:
    if not rows:
        return
    yield ""
    yield title
    yield TextTable(rows, header)
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
    refused = "" if request.decision.passes else f" ({request.decision})"
    return shorten(
        f"{request.kind} {rounded_line(dict(request.payload))}{refused}", _CELL_CHARACTERS
    )


def _cells(first: "Json", second: "Json") -> tuple[str, str]:
    """Return two different values for people, rounded unless they would then look the same."""
    shown = [v if isinstance(v, str) else rounded_json(v) for v in (first, second)]
    if shown[0] == shown[1]:
        shown = [text_or_json(first), text_or_json(second)]
    return shorten(shown[0], _CELL_CHARACTERS), shorten(shown[1], _CELL_CHARACTERS)


def _thinned(rows: "Sequence[TickDifference]") -> "Sequence[TickDifference]":
    """Return at most so many rows, evenly spread, with the first and the last."""
    last = len(rows) - 1
    if last < _TICKS_SHOWN:
        return rows
    places = sorted({round(k * last / (_TICKS_SHOWN - 1)) for k in range(_TICKS_SHOWN)})
    return [rows[place] for place in places]
