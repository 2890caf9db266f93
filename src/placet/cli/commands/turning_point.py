"""`placet turning-point`: the tick at which the outcome of a run became likely."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Final

import typer

from placet.cli.progress import progress_bar, read_log
from placet.cli.terminal import (
    Line,
    Output,
    StoreArgument,
    TextTable,
    notify,
    number,
    pluralize,
    rounded_line,
    with_json,
)

if TYPE_CHECKING:
    from placet.lab.turning.blame import Blame
    from placet.lab.turning.points import Point
    from placet.lab.turning.search import Cost, TurningPoint

_TRACK_CHARACTERS: Final = 40
_BATCHES_SHOWN: Final = 12
_MINUTE_S: Final = 60


@with_json
def turning_point(
    store: StoreArgument,
    *,
    outcome: Annotated[
        str,
        typer.Option(
            metavar="M:F",
            help="Function of the state at the end that returns whether the outcome occurred, "
            "as module:function.",
        ),
    ],
    every: Annotated[
        int, typer.Option(min=1, metavar="T", help="Continue from every T-th tick.")
    ] = 10,
    seeds: Annotated[
        int, typer.Option(min=1, metavar="N", help="Other seeds for each of these ticks.")
    ] = 30,
    threshold: Annotated[
        float, typer.Option(metavar="P", help="Probability that is passed at the turning point.")
    ] = 0.5,
    blame: Annotated[
        bool,
        typer.Option("--blame", help="Find the tick's batches without which the run does not tip."),
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, metavar="J", help="Worker processes.")] = 1,
) -> Output:
    """Find the tick at which a run's outcome became likely.

    The run is continued from many of its ticks with other seeds. The turning point is the first
    tick from which on the share with the outcome is surely beyond the threshold. The expected cost
    is printed first. The outcome, the domain and the policies that the log names are imported.
    Exit code 1 if there is no turning point.
    """
    from placet.lab.turning.search import turning_point as find  # noqa: PLC0415  # scenarios with it

    with ExitStack() as bars:
        bar = _Bar(store, bars)
        turn = find(
            read_log(store, "turning-point"),
            outcome,
            every=every,
            seeds=seeds,
            threshold=threshold,
            blame=blame,
            jobs=jobs,
            on_cost=bar.begin,
            on_progress=bar.advance,
        )
    return Output(turn.as_dict, _lines(store, turn), turn.tick is not None)


class _Bar:
    """Writes the expected cost, and shows a bar once it is known."""

    def __init__(self, store: str, bars: ExitStack) -> None:
        self._store, self._bars = store, bars
        self._ended = 0
        self._show: Callable[[int], None] = lambda _: None

    def begin(self, cost: "Cost") -> None:
        notify(_cost_line(cost))
        self._bars.close()  # a terminal has one bar at a time
        self._ended = 0
        self._show = self._bars.enter_context(
            progress_bar(self._store, cost.continuations, "continuations")
        )

    def advance(self, count: int) -> None:
        self._ended += count
        self._show(self._ended)


def _cost_line(cost: "Cost") -> str:
    where = "in this process" if cost.jobs == 1 else f"in {cost.jobs} processes"
    what = "Blame, at least: " if cost.purpose == "blame" else ""
    states = pluralize(cost.states, "state" if cost.purpose == "blame" else "tick")
    return (
        f"{what}{states} x {cost.continuations // cost.states} seeds: "
        f"{number(cost.continuations)} continuations of {number(cost.ticks)} ticks in all, about "
        f"{_duration(cost.seconds)} {where}"
    )


def _duration(seconds: float) -> str:
    if seconds < 2 * _MINUTE_S:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / _MINUTE_S:.0f} minutes"


def _lines(store: str, turn: "TurningPoint") -> Iterator[Line]:
    end = {True: "occurred", False: "did not occur", None: "is open: the run is not finished"}
    yield f"{store}: {turn.outcome} {end[turn.recorded]}"
    yield ""
    header = ("tick", "P", "95 % interval", _scale(turn.threshold))
    yield TextTable([_row(point, turn.threshold) for point in turn.points], header)
    yield ""
    yield str(turn)
    if turn.is_surprise:
        yield "The recorded run ended otherwise than most of its continuations"
    if turn.blame is not None:
        yield ""
        yield from _blame_lines(turn.blame)


def _row(point: "Point", threshold: float) -> tuple[str, ...]:
    low, high = point.interval
    return (
        str(point.tick),
        f"{point.share:.2f}",
        f"{low:.2f} .. {high:.2f}",
        _track(point, threshold),
    )


def _scale(threshold: float) -> str:
    """Return the header of the tracks: 0, the threshold and 1 above their places."""
    mark = f"{threshold:g}"
    left = _place(threshold)
    return f"0{mark.rjust(left)}{'1'.rjust(_TRACK_CHARACTERS - left)}"


def _track(point: "Point", threshold: float) -> str:
    """Draw an interval between 0 and 1, its estimate, and the threshold."""
    low, high = (_place(end) for end in point.interval)
    marks = ["-" if low <= place <= high else " " for place in range(_TRACK_CHARACTERS + 1)]
    marks[_place(threshold)] = ":" if marks[_place(threshold)] == " " else "+"
    marks[_place(point.share)] = "o"
    return "".join(marks)


def _place(share: float) -> int:
    return round(share * _TRACK_CHARACTERS)


def _blame_lines(blame: "Blame") -> Iterator[Line]:
    admitted = pluralize(blame.batches, "admitted batch", "admitted batches")
    yield (
        f"It tips at tick {blame.tick}: P is {blame.before.share:.2f} before it and "
        f"{blame.after.share:.2f} after it, {blame.without_all.share:.2f} without its {admitted}"
    )
    if not blame.is_clear:
        yield "These intervals overlap, so chance may blame the wrong batches: give more --seeds"
    if not blame.causes:
        yield (
            f"No batch is to blame: without all of them P is {blame.without_all.share:.2f}, which "
            "is beyond the threshold too"
        )
    for cause in blame.causes:
        those = "this batch" if len(cause.batches) == 1 else f"these {len(cause.batches)} together"
        yield f"Without {those} it does not tip: P is {cause.without.share:.2f}"
        rows = [
            (
                str(batch.seq),
                ", ".join(batch.agent_ids),
                "; ".join(f"{kind} {rounded_line(payload)}" for kind, payload in batch.intents),
            )
            for batch in cause.batches[:_BATCHES_SHOWN]
        ]
        yield TextTable(rows, ("seq", "agent", "intents"))
        more = len(cause.batches) - _BATCHES_SHOWN
        if more > 0:
            yield f"  and {more} more; all of them with --json"
