"""Find the batches of one tick without which a run does not tip.

The tick is decided again without some of its batches, and the run is continued from there with
other seeds. Halving the batches finds a smallest set whose absence prevents the tipping: one batch,
or several that cause it jointly. Then the rest is searched for another such set.

Source: delta debugging, Zeller, "Yesterday, my program worked. Today, it does not. Why?",
ESEC/FSE 1999; its algorithm dd, with "the run no longer tips" as the test.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from placet.actors.ports import EventLog
from placet.lab.turning.continuation import (
    RunSource,
    TickState,
    batches_of_tick,
    state_without,
    states_at,
)
from placet.lab.turning.points import Point
from placet.lab.turning.workers import ContinuationWorkers
from placet.scenarios.ticks import tick_ns_of
from placet.schemas.codec import Json
from placet.schemas.log.expand import BatchRecord
from placet.schemas.log.record import Refused, intents_of
from placet.sweeps.errors import LabError

CAUSES_MAX: Final = 4
"""Largest number of causes that are looked for."""


class Tipping(NamedTuple):
    """The condition of tipping: the interval of P lies wholly beyond a threshold, on a side.

    Attributes:
        threshold: The probability.
        side: 1 above it, -1 below it.
    """

    threshold: float
    side: int

    def has_tipped(self, point: Point) -> bool:
        """Return whether a point lies wholly beyond the threshold."""
        return point.side(self.threshold) == self.side


@dataclass(frozen=True, slots=True)
class BlamedBatch:
    """A batch of the turning point.

    Attributes:
        seq: Sequence number of its last intent.
        agent_ids: Agents of its intents, each once.
        req_ids: Request ids of its intents.
        intents: `(kind, payload)` of its intents.
    """

    seq: int
    agent_ids: tuple[str, ...]
    req_ids: tuple[str, ...]
    intents: tuple[tuple[str, Mapping[str, Json]], ...]

    @classmethod
    def of(cls, record: BatchRecord) -> "BlamedBatch":
        """Return the batch of a record."""
        intents = intents_of(record)
        return cls(
            record.seq,
            tuple(dict.fromkeys(intent["agent_id"] for intent in intents)),
            tuple(intent["req_id"] for intent in intents),
            tuple((intent["kind"], intent["payload"]) for intent in intents),
        )

    def as_dict(self) -> dict[str, Json]:
        """Return the batch as plain JSON."""
        return {
            "seq": self.seq,
            "agent_ids": list(self.agent_ids),
            "req_ids": list(self.req_ids),
            "intents": [{"kind": kind, "payload": dict(body)} for kind, body in self.intents],
        }


@dataclass(frozen=True, slots=True)
class Cause:
    """Batches without which the run does not tip; several are a joint cause.

    Attributes:
        batches: The batches, in the order in which they were decided.
        without: P(outcome) after the tick without them.
    """

    batches: tuple[BlamedBatch, ...]
    without: Point

    def as_dict(self) -> dict[str, Json]:
        """Return the cause as plain JSON."""
        return {
            "batches": [batch.as_dict() for batch in self.batches],
            "without": self.without.as_dict(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Blame:
    """The causes of a turning point.

    Attributes:
        tick: The single tick at which the run tips.
        before: P(outcome) before the tick.
        after: P(outcome) after the tick.
        without_all: P(outcome) after the tick without any of its admitted batches.
        batches: Number of admitted batches of the tick.
        causes: The causes; empty if the run tips without all batches too.
        tests: Number of times that the tick was decided without some of its batches.
    """

    tick: int
    before: Point
    after: Point
    without_all: Point
    batches: int
    causes: tuple[Cause, ...]
    tests: int

    @property
    def is_clear(self) -> bool:
        """Whether the intervals before and after the tick do not overlap."""
        before, after = sorted([self.before.interval, self.after.interval])
        return before.high < after.low

    def as_dict(self) -> dict[str, Json]:
        """Return the result as plain JSON."""
        return {
            "tick": self.tick,
            "before": self.before.as_dict(),
            "after": self.after.as_dict(),
            "without_all": self.without_all.as_dict(),
            "clear": self.is_clear,
            "batches": self.batches,
            "causes": [cause.as_dict() for cause in self.causes],
            "tests": self.tests,
        }


def find_causes(
    log: EventLog,
    run: RunSource,
    workers: ContinuationWorkers,
    ticks: tuple[int, int],
    tipping: Tipping,
) -> Blame:
    """Find the causes of a turning point between two ticks.

    First the single tick is found by bisection. One test continues a state under all seeds; a
    single cause among n batches takes about log2(n) tests.

    Args:
        log: The log of the run; it is only read.
        run: The source of continuations.
        workers: The workers, which continue a state under all seeds.
        ticks: A tick at which the run has not tipped, and a later one at which it has.
        tipping: The condition of tipping.

    Raises:
        LabError: The tick cannot be decided again, or a continuation failed.
        StoreError: The log cannot be read.
    """
    tick_ns = tick_ns_of(run.parsed)
    low, high = ticks
    points: dict[int, Point] = {}
    while high - low > 1:
        middle = (low + high) // 2
        (state,) = states_at(log, [middle], tick_ns)
        points[middle] = workers.point(state)
        if tipping.has_tipped(points[middle]):
            high = middle
        else:
            low = middle
    before, after = states_at(log, [low, high], tick_ns)
    search = _Search(run, workers, tipping, before, batches_of_tick(log, high, tick_ns))
    search.require_same_state(after)
    return search.run(
        points.get(low) or workers.point(before), points.get(high) or workers.point(after)
    )


class _Search:
    """The search among the batches of one tick, named by their places among its records."""

    def __init__(
        self,
        run: RunSource,
        workers: ContinuationWorkers,
        tipping: Tipping,
        before: TickState,
        records: Sequence[BatchRecord],
    ) -> None:
        self._run, self._workers, self._tipping = run, workers, tipping
        self._before, self._records = before, records
        self._points: dict[frozenset[int], Point] = {}
        self._halfway = 0.0

    def require_same_state(self, after: TickState) -> None:
        """Raise if the tick with all of its batches does not lead to the recorded state.

        Raises:
            LabError: It leads to another one.
        """
        again = state_without(self._run, self._before, self._records, ())
        if again.digest != after.digest:
            raise LabError(
                f"tick {after.tick} of {self._run.store} is decided differently here than it was "
                "recorded, so its batches cannot be blamed: another version of the domain, or "
                "something else than batches changed the state; `placet verify` names the record"
            )

    def run(self, before: Point, after: Point) -> Blame:
        """Search, and return the causes."""
        # A refused batch changed nothing, and one of the schedule was submitted in another tick.
        places = [
            place
            for place, record in enumerate(self._records)
            if not isinstance(record, Refused) and record.due_of is None
        ]
        without_all = self._without(places)
        self._halfway = (without_all.share + after.share) / 2
        causes = [] if self._still_tips(places) else list(self._causes(places))
        return Blame(
            tick=after.tick,
            before=before,
            after=after,
            without_all=without_all,
            batches=len(places),
            causes=tuple(causes),
            tests=len(self._points),
        )

    def _causes(self, places: list[int]) -> Iterator[Cause]:
        """Yield causes that have no batch in common, until the rest causes nothing."""
        for _ in range(CAUSES_MAX):
            if not places or self._still_tips(places):
                return
            found = sorted(self._smallest(places, frozenset()))
            batches = tuple(BlamedBatch.of(self._records[place]) for place in found)
            yield Cause(batches, self._without(found))
            places = [place for place in places if place not in found]

    def _smallest(self, places: list[int], out: frozenset[int]) -> list[int]:
        """Return the fewest of `places` without which, and without `out`, the run does not tip."""
        if len(places) == 1:
            return places
        first, second = places[: len(places) // 2], places[len(places) // 2 :]
        if not self._still_tips(out.union(first)):
            return self._smallest(first, out)
        if not self._still_tips(out.union(second)):
            return self._smallest(second, out)
        part = self._smallest(first, out.union(second))
        return [*part, *self._smallest(second, out.union(part))]

    def _still_tips(self, places: Collection[int]) -> bool:
        """Return whether the run tips without some batches.

        P must also have come back half of the way that all batches together moved it: near the
        threshold, a single seed more or less would otherwise blame a batch.
        """
        point = self._without(places)
        way_back = (self._halfway - point.share) * self._tipping.side
        return self._tipping.has_tipped(point) or way_back < 0

    def _without(self, places: Collection[int]) -> Point:
        key = frozenset(places)
        if key not in self._points:
            state = state_without(self._run, self._before, self._records, key)
            self._points[key] = self._workers.point(state)
        return self._points[key]
