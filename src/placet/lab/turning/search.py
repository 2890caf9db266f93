"""Find the tick at which the outcome of a recorded run became likely, by continuing it.

At many ticks the run is continued with other seeds, and the share of continuations with the outcome
is counted: P(outcome | state at the tick). The turning point is the first tick from which on the
confidence interval lies wholly beyond the threshold. Whatever the scenario fixes is settled from
the beginning; a turning point is decided by chance.

An interval holds for its tick, at 95 %: among many ticks, some miss the truth.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import chain
from math import ceil, log2
from os import cpu_count
from time import perf_counter
from typing import Final, NamedTuple

from placet.actors.ports import EventLog
from placet.history.reader import fold
from placet.kernel.plugin.registry import Registry
from placet.kernel.plugin.rules_version import rules_in
from placet.kernel.state.tree import WorldState
from placet.lab.intervals import wilson
from placet.lab.stores import require_unwritten
from placet.lab.turning.blame import Blame, Tipping, find_causes
from placet.lab.turning.continuation import (
    Continuation,
    RunSource,
    TickState,
    first_tick,
    other_seeds,
    run_source,
    states_at,
)
from placet.lab.turning.points import Point
from placet.lab.turning.workers import ContinuationWorkers
from placet.plugins.domains import remake
from placet.scenarios.ticks import tick_ns_of
from placet.schemas.codec import Json
from placet.schemas.keywords import explain_keywords
from placet.schemas.printable import printable_html
from placet.stores.reading import Store, as_log
from placet.sweeps.errors import LabError
from placet.sweeps.outcome import Outcome, decided, find_outcome, name_of
from placet.tables.table import html_rows

EVERY: Final = 10
SEEDS: Final = 30
THRESHOLD: Final = 0.5

_SEEDS_MAX: Final = 1_000_000
"""Most seeds that a threshold may need."""

_PLAIN: Final = (
    *("store", "outcome", "threshold", "until", "recorded", "tick", "before", "becomes_likely"),
)
"""Fields of a result that are plain JSON."""

_PILOT_TICKS: Final = 5
_TESTS_OF_BLAME: Final = 10
"""States that are continued to find one batch among a few hundred, after its tick was found."""


class Cost(NamedTuple):
    """The expected cost of finding a turning point, or of finding the batches to blame.

    Attributes:
        purpose: `probabilities` or `blame`; the latter is a least cost, of a single cause.
        states: Number of ticks from which the run is continued.
        continuations: Number of continuations, of all states.
        ticks: Number of simulated ticks of all continuations.
        seconds: Expected real seconds, from the speed of a first continuation.
        jobs: Number of processes.
    """

    purpose: str
    states: int
    continuations: int
    ticks: int
    seconds: float
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TurningPoint:
    """The turning point of a run, and the probabilities that show it.

    Attributes:
        store: The log of the run.
        outcome: Name of the outcome function.
        threshold: The probability that is passed at the turning point.
        until: Tick at which the outcome is read.
        recorded: The outcome of the run itself; None if the run has not reached `until`.
        points: P(outcome | state) at each tick from which the run was continued, in order.
        tick: The turning point; None if the probability did not settle beyond the threshold, or
            if all continuations end alike.
        before: The latest tick before it from which the run was continued; None if there is none.
        becomes_likely: At the turning point the outcome became likely; otherwise, unlikely.
        blame: The batches that caused it; None if they were not looked for, or there is no `tick`.
    """

    store: str
    outcome: str
    threshold: float
    until: int
    recorded: bool | None
    points: tuple[Point, ...]
    tick: int | None
    before: int | None
    becomes_likely: bool
    blame: Blame | None = None

    @property
    def is_constant(self) -> bool:
        """Whether all continuations from all ticks end alike, so that no tick decides."""
        return len({answer for p in self.points for answer in (p.hits == p.seeds, p.hits > 0)}) == 1

    @property
    def is_surprise(self) -> bool:
        """Whether the run ended otherwise than it became likely to end."""
        return self.tick is not None and self.recorded is (not self.becomes_likely)

    def rows(self) -> list[dict[str, Json]]:
        """Return the points as rows, for a table or a data frame."""
        return [point.as_dict() for point in self.points]

    def as_dict(self) -> dict[str, Json]:
        """Return the result as plain JSON."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "constant": self.is_constant,
            "points": self.rows(),
            "blame": None if self.blame is None else self.blame.as_dict(),
        }

    def __str__(self) -> str:
        """Return the result in a sentence."""
        name = self.outcome
        if self.is_constant:
            end = "occurs" if self.points[0].hits else "does not occur"
            return (
                f"{name} {end} in all {sum(p.seeds for p in self.points)} continuations: no tick "
                "decides it. Ask for an outcome that differs between seeds, or change the scenario"
            )
        if self.tick is None:
            low, high = self.points[-1].interval
            return (
                f"{name} is not settled at tick {self.points[-1].tick}: P is {low:.2f} to "
                f"{high:.2f} there, around {self.threshold:g}. Continue from later ticks "
                "(a smaller every), or with more seeds"
            )
        likely = "likely" if self.becomes_likely else "unlikely"
        beyond = f"{'above' if self.becomes_likely else 'below'} {self.threshold:g}"
        if self.before is None:
            return f"{name} is {likely} from tick {self.tick} on: P is {beyond} at every tick"
        return (
            f"{name} became {likely} between tick {self.before} and tick {self.tick}: from then "
            f"on P is {beyond}"
        )

    def _repr_html_(self) -> str:
        return f"{html_rows(f'P({self.outcome})', self.rows())}<p>{printable_html(str(self))}</p>"


@explain_keywords
def turning_point(
    store: Store,
    outcome: Outcome | str,
    *,
    every: int = EVERY,
    seeds: int = SEEDS,
    threshold: float = THRESHOLD,
    blame: bool = False,
    jobs: int = 1,
    executor: Executor | None = None,
    on_cost: Callable[[Cost], None] = lambda _: None,
    on_progress: Callable[[int], None] = lambda _: None,
) -> TurningPoint:
    """Find the tick at which the outcome of a run in a log became likely or unlikely.

    The log is only read. O(log), and `seeds` runs of the remaining ticks for every `every`-th tick.
    Of a compacted log, the ticks after its oldest snapshot are continued.

    Args:
        store: Path or URL of a log of a stepped scenario, a `placet.Log`, or an open log.
        outcome: Function of the state at the end that returns whether the outcome occurred, or its
            name, `module:function`. It is imported, as are the scenario's policies.
        every: Continue from every so many ticks, at least 1.
        seeds: Number of other seeds for each tick.
        threshold: Probability to pass, above 0 and below 1.
        blame: Find the batches of the turning point without which the run does not tip.
        jobs: Number of worker processes; 1 is this process alone. A program that asks for more
            needs `if __name__ == "__main__":`.
        executor: A `concurrent.futures` executor to use instead; it stays open.
        on_cost: Called with the expected cost, before it is spent; again before blame is sought.
        on_progress: Called with the number of continuations that ended, after some of them.

    Raises:
        LabError: The log is no finished or stopped run of a stepped scenario, another process
            writes it, the outcome function is missing or raised, or the seeds are too few.
        ScenarioError: The scenario, or a policy of it, is not valid here.
        StoreError: The log cannot be read.
    """
    _check_options(every, seeds, threshold)
    log = as_log(store)
    require_unwritten(log)
    run, completed = run_source(log)
    function = find_outcome(outcome) if isinstance(outcome, str) else outcome
    until = run.parsed.ticks
    recorded = decided(function, _end_of(log, run)) if completed >= until else None
    ticks = _ticks(first_tick(log, tick_ns_of(run.parsed)), completed, until, every)
    if not ticks:
        raise LabError(
            f"cannot continue {log.url}: it was compacted, and no tick before its last is left"
        )
    states = states_at(log, ticks, tick_ns_of(run.parsed))
    first = next(states)
    workers = ContinuationWorkers(
        run,
        outcome if isinstance(outcome, str) else function,
        seeds=other_seeds(run.parsed.seed, seeds),
        until=until,
        jobs=jobs,
        executor=executor,
        on_progress=on_progress,
    )
    with workers:
        speed = _Speed(run, first, jobs)
        on_cost(speed.cost("probabilities", ticks, seeds))
        points = list(workers.points(chain([first], states)))
        tick, before, side = _turn(points, threshold)
        causes = None
        if blame and tick is not None and before is not None:
            tests = ceil(log2(tick - before)) + _TESTS_OF_BLAME
            on_cost(speed.cost("blame", [tick] * tests, seeds))
            causes = find_causes(log, run, workers, (before, tick), Tipping(threshold, side))
    return TurningPoint(
        store=log.url,
        outcome=name_of(outcome),
        threshold=threshold,
        until=until,
        recorded=recorded,
        points=tuple(points),
        tick=tick,
        before=before,
        becomes_likely=side > 0,
        blame=causes,
    )


def _check_options(every: int, seeds: int, threshold: float) -> None:
    if type(every) is not int or every < 1:
        raise LabError(f"every must be at least 1 tick, got {every!r}")
    if type(seeds) is not int:
        raise LabError(f"seeds must be a number of seeds, got {seeds!r}")
    if not 0 < threshold < 1:
        raise LabError(f"the threshold is a probability above 0 and below 1, got {threshold!r}")
    counts = range(1, _SEEDS_MAX + 1)
    needed = 1 + bisect_left(
        counts, x=True, key=lambda n: wilson(n, n).low > threshold > wilson(0, n).high
    )
    if needed > _SEEDS_MAX:
        raise LabError(
            f"the threshold {threshold!r} is so near to {round(threshold)} that more than "
            f"{_SEEDS_MAX} seeds would be needed to pass it; choose another"
        )
    if seeds < needed:
        reached = f"{wilson(max(seeds, 0), seeds).low:.2f}" if seeds > 0 else "0"
        raise LabError(
            f"{seeds} seeds are too few: even if all continuations end alike, the interval reaches "
            f"{reached} only, and the threshold is {threshold!r}; give at least {needed} seeds"
        )


def _ticks(first: int, completed: int, until: int, every: int) -> list[int]:
    """Return the ticks from which to continue: at least one tick is left after each."""
    last = min(completed, until - 1)
    ticks = list(range(-(-first // every) * every, last + 1, every))
    is_last_due = completed < until or not ticks
    return [*ticks, last] if is_last_due and last not in ticks and last >= first else ticks


def _end_of(log: EventLog, run: RunSource) -> WorldState:
    """Return the state at the end of a log, with the collections that its domains declare."""
    past = fold(log)
    assert past.header is not None, "a run's log begins with its header"
    declared = Registry(remake(rules_in(past.header), run.domains)).collections
    return WorldState(past.state, declared)


class _Speed:
    """The speed of continuations, measured by continuing a state for a few ticks."""

    def __init__(self, run: RunSource, state: TickState, jobs: int) -> None:
        began = perf_counter()
        world = Continuation(run, state, other_seeds(run.parsed.seed, 1)[0])
        opened = perf_counter()
        self._until, self._jobs = run.parsed.ticks, jobs
        world.run(min(self._until, state.tick + _PILOT_TICKS))
        self._open_s = opened - began
        self._tick_s = (perf_counter() - opened) / (world.tick - state.tick)

    def cost(self, purpose: str, ticks: Sequence[int], seeds: int) -> Cost:
        """Return the cost of continuing from some ticks under so many seeds each."""
        continuations = len(ticks) * seeds
        simulated = sum(self._until - tick for tick in ticks) * seeds
        seconds = continuations * self._open_s + simulated * self._tick_s
        parallel = min(self._jobs, cpu_count() or 1)
        return Cost(purpose, len(ticks), continuations, simulated, seconds / parallel, self._jobs)


def _turn(points: list[Point], threshold: float) -> tuple[int | None, int | None, int]:
    """Return the turning point, the tick before it, and the side of the threshold it leads to."""
    side = points[-1].side(threshold)
    is_constant = len({p.hits for p in points}) == 1 and points[0].hits in {0, points[0].seeds}
    if not side or is_constant:
        return None, None, side
    place = len(points) - 1
    while place and points[place - 1].side(threshold) == side:
        place -= 1
    return points[place].tick, points[place - 1].tick if place else None, side
