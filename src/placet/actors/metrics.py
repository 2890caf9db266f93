"""Metrics of a world, in plain integers.

Counting is on the path of every batch and must cost next to nothing, so no metrics library is used
here; an exporter in `runtime/` reads these numbers on request. Values that a client chooses (kinds,
codes) never grow the set of labels without bound.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from placet.kernel.decide.batches import Answer
from placet.schemas.batch import CheckedBatch
from placet.schemas.codec import Json
from placet.schemas.limits import SECOND_NS
from placet.schemas.refusal import STAGE_OF, Refusal, Stage
from placet.schemas.verdict import Verdict

if TYPE_CHECKING:
    from placet.kernel.columns.verdict import ColumnVerdict

Outcome: TypeAlias = Literal["admitted", "refused", "replayed", "scheduled"]
OUTCOMES: Final[tuple[Outcome, ...]] = ("admitted", "refused", "replayed", "scheduled")

EffectCount: TypeAlias = Literal["attempts", "retries", "dead_letters", "in_doubt"]
EFFECT_COUNTS: Final[tuple[EffectCount, ...]] = get_args(EffectCount)

Gauge: TypeAlias = Literal[
    "time_dilation",
    "barrier_late",
    "mailbox_depth",
    "mailbox_oldest_seconds",
    "rule_running_seconds",
    "outbox_depth",
    "observers",
    "observation_lag_seqs",
    "observation_overflows",
    "seq",
    "agents",
    "log_bytes",
    "log_first_record",
    "snapshot_seq",
]

UNKNOWN_KIND: Final = "unknown"
"""Stands for every kind that the registry does not know."""

_ADMISSION: Final = Stage.ADMISSION.value

OTHER_CODE: Final = "other"
"""Stands for the codes of domains and validators beyond `DOMAIN_CODES_MAX`."""

DOMAIN_CODES_MAX: Final = 256


class Histogram:
    """A histogram: counts samples by bucket; a sample belongs to the first bound >= its value.

    A sample costs one bisection and two additions: a third of the time of a Prometheus histogram.
    The buckets give percentiles; their bounds include the round numbers that an exporter shows.

    Attributes:
        bounds: Upper bounds of the buckets, ascending; one more bucket holds values above the last.
        total: Sum of the samples.
    """

    __slots__ = ("_counts", "_largest", "bounds", "total")

    def __init__(self, bounds: Iterable[float]) -> None:
        self.bounds = tuple(bounds)
        self.total = 0.0
        self._counts = [0] * (len(self.bounds) + 1)
        self._largest = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count a sample, `times` times."""
        self._counts[bisect_left(self.bounds, value)] += times
        self.total += value * times
        if value > self._largest:  # noqa: PLR1730  # max() would cost as much as the bisection
            self._largest = value

    def observe_all(self, values: Sequence[float]) -> None:
        """Count several samples at half the cost of one call for each."""
        if not values:
            return
        counts, bounds = self._counts, self.bounds
        for value in values:
            counts[bisect_left(bounds, value)] += 1
        self.total += sum(values)
        self._largest = max(self._largest, *values)

    @property
    def count(self) -> int:
        """Number of samples. O(buckets)."""
        return sum(self._counts)

    def cumulative(self) -> list[int]:
        """Return, for each bound, the number of samples up to it; then the number of all.

        O(buckets).

        Safe to call from another thread than the one that observes.
        """
        return list(accumulate(self._counts[:]))

    def quantile(self, fraction: float) -> float | None:
        """Return the value below which a fraction of the samples lies; None if there are none.

        The answer is off by at most half the width of its bucket; above the last bound, by the
        distance to the largest sample. O(buckets).

        Raises:
            ValueError: The fraction is not within 0..1.
        """
        if not 0 <= fraction <= 1:
            raise ValueError(f"a quantile is a fraction in 0..1, got {fraction!r}")
        cumulative = self.cumulative()
        if not cumulative[-1]:
            return None
        rank = max(1, -int(-fraction * cumulative[-1] // 1))
        bucket = bisect_left(cumulative, rank)
        if bucket == len(self.bounds):
            return self._largest
        upper = self.bounds[bucket]
        lower = self.bounds[bucket - 1] if bucket else 0.0
        # The harmonic mean of the bounds has the smallest relative error at both of them.
        middle = 2 * lower * upper / (lower + upper) if lower else upper
        return min(middle, self._largest)


def _decades(first: int, last: int) -> list[float]:
    """Return bounds from 10**first to 10**last, each at most a tenth above the one before."""
    mantissas = [*range(100, 250, 10), *range(250, 500, 25), *range(500, 1000, 50)]
    decades = range(first, last)
    bounds = [float(f"{m}e{exponent - 2}") for exponent in decades for m in mantissas]
    return [*bounds, 10.0**last]


LATENCY_BOUNDS: Final = tuple(_decades(-7, 3))
"""100 ns to 1 000 s, ratio at most 1.1, so a percentile is off by less than 5 %."""

BATCH_BOUNDS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 512)


class LatencyHistogram(Histogram):
    """A histogram of durations in seconds, 100 ns to 1 000 s, with percentiles within 5 %."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(LATENCY_BOUNDS)


class Counters:
    """The metrics of one world. Written by its actors in one thread, read from any.

    Attributes:
        rejected_at_ingress: Batches rejected by admission control, by refusal code (not broken down
            by kind).
        batch_intents: Histogram of batch sizes.
        decide_seconds: Time to decide a group.
        commit_seconds: Time to make a group durable.
        verdict_seconds: Time from submit to verdict.
        effect_seconds: Duration of attempts at effects, for each `(executor, outcome)`.
        effect_counts: For each `(executor, event)`: `attempts`, `retries`, `dead_letters` (given
            up, or their `on_settle` raised) and `in_doubt`.
        snapshots: Number of snapshots by outcome, `written` or `failed`.
        snapshot_seconds: Duration of a snapshot, written in its separate process.
        gauges: Values read on request: gauge -> label -> reading.
        observe_batch: Count one batch size.
        observe_decide: Count the seconds that deciding one group took.
        observe_commit: Count the seconds that one append to the log took.
        observe_verdicts: Count the seconds from submission to verdict of several batches.
    """

    def __init__(self, kinds: Iterable[str]) -> None:
        self._kinds = frozenset([*kinds, UNKNOWN_KIND])
        zeros = dict.fromkeys(sorted(self._kinds), 0)
        self._intents: dict[Outcome, dict[str, int]] = {o: zeros.copy() for o in OUTCOMES}
        self._refusals: dict[tuple[str, str], int] = {
            (stage.value, code): 0 for code, stage in STAGE_OF.items()
        }
        # Separate, and keyed by the code alone: under overload most counting happens here, and a
        # key of two parts took a fifth of the cost of a refusal.
        self.rejected_at_ingress = {
            code: 0 for code, stage in STAGE_OF.items() if stage is Stage.ADMISSION
        }
        self._domain_codes = 0
        self.batch_intents = Histogram(BATCH_BOUNDS)
        self.decide_seconds = LatencyHistogram()
        self.commit_seconds = LatencyHistogram()
        self.verdict_seconds = LatencyHistogram()
        self.effect_seconds: dict[tuple[str, str], LatencyHistogram] = {}
        self.effect_counts: dict[tuple[str, EffectCount], int] = {}
        self.snapshots = {"written": 0, "failed": 0}
        self.snapshot_seconds = LatencyHistogram()
        self.gauges: dict[Gauge, dict[str, Callable[[], float]]] = {}
        # Bound once: a method around each would double the cost of a sample.
        self.observe_batch = self.batch_intents.observe
        self.observe_decide = self.decide_seconds.observe
        self.observe_commit = self.commit_seconds.observe
        self.observe_verdicts = self.verdict_seconds.observe_all

    @property
    def intents(self) -> dict[Outcome, dict[str, int]]:
        """Number of intents, by outcome and then by kind; a copy."""
        counts = {outcome: by_kind.copy() for outcome, by_kind in self._intents.items()}
        counts["refused"][UNKNOWN_KIND] += sum(self.rejected_at_ingress.values())
        return counts

    @property
    def refusals(self) -> dict[tuple[str, str], int]:
        """Number of refusals for each `(stage, code)`; a copy."""
        counts = self._refusals.copy()
        for code, count in self.rejected_at_ingress.items():
            counts[_ADMISSION, code] += count
        return counts

    def count_batches(self, batches: Sequence[CheckedBatch], outcome: Outcome) -> None:
        """Count checked batches of one outcome: their sizes, and their intents by kind."""
        by_kind = self._intents[outcome]
        sizes: dict[int, int] = {}
        for batch in batches:
            for _, kind, count in batch.counts:
                by_kind[kind if kind in by_kind else UNKNOWN_KIND] += count
            size = len(batch.intents)
            sizes[size] = sizes.get(size, 0) + 1
        for size, times in sizes.items():
            self.observe_batch(size, times)

    def count_intents(self, kind: object, outcome: Outcome, count: int = 1) -> None:
        """Count intents of a kind with an outcome; an unregistered kind counts as `unknown`."""
        is_known = isinstance(kind, str) and kind in self._kinds
        self._intents[outcome][str(kind) if is_known else UNKNOWN_KIND] += count

    def count_refusal(self, stage: Stage, code: str, count: int = 1) -> None:
        """Count refusals by stage and code.

        Codes of domains beyond `DOMAIN_CODES_MAX` count as `other`.
        """
        key = (stage.value, code)
        if key not in self._refusals:
            if self._domain_codes < DOMAIN_CODES_MAX:
                self._domain_codes += 1
            else:
                key = (stage.value, OTHER_CODE)
        self._refusals[key] = self._refusals.get(key, 0) + count

    def effect(self, executor: str, outcome: str, seconds: float) -> None:
        """Add one attempt at an effect to the histogram of its executor and outcome.

        Labels must not come from clients: each new pair adds a histogram that stays.

        Args:
            executor: Kind of effect that the executor handles.
            outcome: `settled`, `failed`, `retried` or `in_doubt`.
            seconds: Duration of the attempt, real seconds.
        """
        key = (executor, outcome)
        histogram = self.effect_seconds.get(key)
        if histogram is None:
            histogram = self.effect_seconds[key] = LatencyHistogram()
        histogram.observe(seconds)

    def count_effect(self, executor: str, outcome: EffectCount) -> None:
        """Count one event of an effect, such as a retry; `executor` is the kind of the effect."""
        key = (executor, outcome)
        self.effect_counts[key] = self.effect_counts.get(key, 0) + 1

    def snapshot(self, outcome: str, seconds: float) -> None:
        """Count one snapshot by outcome, `written` or `failed`, and its duration."""
        self.snapshots[outcome] += 1
        self.snapshot_seconds.observe(seconds)

    def watch(self, gauge: Gauge, reading: Callable[[], float], label: str = "") -> None:
        """Set the function that reads a gauge; it replaces an earlier one of the same label.

        Args:
            gauge: Name of the gauge.
            reading: Returns the value; must be cheap, and safe to call from another thread.
            label: Name of the actor or executor; never a name that a client chooses.
        """
        self.gauges.setdefault(gauge, {})[label] = reading

    def statistics(self) -> dict[str, Json]:
        """Return a summary of all counters as plain JSON.

        Times are milliseconds; null if nothing was measured.
        """
        return {
            "batches": self.batch_intents.count,
            "intents": {
                outcome: sum(by_kind.values()) for outcome, by_kind in self.intents.items()
            },
            "refusals": {
                f"{stage}/{code}": count
                for (stage, code), count in sorted(self.refusals.items())
                if count
            },
            "decide_ms": _percentiles(self.decide_seconds),
            "commit_ms": _percentiles(self.commit_seconds),
            "verdict_ms": _percentiles(self.verdict_seconds),
        }


def _percentiles(histogram: Histogram) -> Mapping[str, float | None]:
    values = {"p50": histogram.quantile(0.5), "p99": histogram.quantile(0.99)}
    return {name: None if value is None else value * 1e3 for name, value in values.items()}


GroupReport: TypeAlias = Callable[[Sequence[Verdict]], None]

_NS_PER_INTENT_FIRST = 10_000


class GroupMetrics:
    """The metrics of decided groups: updates `Counters`, and reports the verdicts for logging.

    Args:
        counters: The metrics to update.
        on_group: Called with the verdicts of each group, for logging; None to skip it.

    Attributes:
        rejected_at_ingress: Rejected batches by code (`Counters.rejected_at_ingress`).
        ns_per_intent: Moving average of the time to decide one intent; limits the size of a chunk.
    """

    def __init__(self, counters: Counters, on_group: GroupReport | None) -> None:
        self._counters = counters
        self._on_group = on_group
        self.rejected_at_ingress = counters.rejected_at_ingress
        self.ns_per_intent = _NS_PER_INTENT_FIRST

    def count_group(self, answers: Sequence[Answer], spent_ns: int) -> None:
        """Count the verdicts of a decided group by outcome; dry runs count only in the time.

        Args:
            answers: The batches with their verdicts.
            spent_ns: Time that it took to decide them, nanoseconds.
        """
        admitted: list[CheckedBatch] = []
        by_outcome: dict[Outcome, list[CheckedBatch]] = {"admitted": admitted}
        intents = 1
        for batch, verdict in answers:
            intents += len(batch.intents)
            if verdict.dry_run:
                continue
            if verdict.admitted and not (verdict.replayed or verdict.scheduled):
                admitted.append(batch)  # the usual case, at a third of the cost
                continue
            outcome = _outcome(verdict)
            if outcome in by_outcome:
                by_outcome[outcome].append(batch)
            else:
                by_outcome[outcome] = [batch]
            if verdict.refusals:
                for refusal in verdict.refusals:
                    self._counters.count_refusal(refusal.stage, refusal.code)
        for outcome, batches in by_outcome.items():
            self._counters.count_batches(batches, outcome)
        self._counters.observe_decide(spent_ns / SECOND_NS)
        self.ns_per_intent = (self.ns_per_intent * 7 + spent_ns // intents) // 8 + 1
        if self._on_group is not None and answers:
            self._on_group([verdict for _, verdict in answers])

    def count_columns(
        self, kind: str, verdict: "ColumnVerdict", refusals: Sequence[tuple[int, Refusal]]
    ) -> None:
        """Count a decided column batch: its rows by outcome, and its refusals.

        `ns_per_intent` stays: a row costs a hundredth of an ordinary intent, and a chunk of
        ordinary batches would become too large by it.
        """
        counters, rows = self._counters, len(verdict)
        counters.observe_batch(rows)
        refused = sum(count for count, _ in refusals)
        if verdict.replayed:
            counters.count_intents(kind, "replayed", rows)
            return
        counters.count_intents(kind, "admitted", rows - refused)
        counters.count_intents(kind, "refused", refused)
        for count, refusal in refusals:
            counters.count_refusal(refusal.stage, refusal.code, count)

    @property
    def is_reported(self) -> bool:
        """Whether every verdict is passed to `on_group`; then no answer may come from a cache."""
        return self._on_group is not None

    def count_rejected(self, verdict: Verdict) -> None:
        """Count a batch that admission control refused by its code; its kinds are unknown."""
        self.rejected_at_ingress[verdict.refusals[0].code] += 1
        if self._on_group is not None:
            self._on_group([verdict])

    def count_refused(self, verdict: Verdict) -> None:
        """Count a batch that was refused at the structure check."""
        if verdict.dry_run:
            return
        for refusal in verdict.refusals:
            self._counters.count_intents(refusal.details.get("kind", ""), "refused")
            self._counters.count_refusal(refusal.stage, refusal.code)
        if self._on_group is not None:
            self._on_group([verdict])


def _outcome(verdict: Verdict) -> Outcome:
    if verdict.replayed:
        return "replayed"
    if not verdict.admitted:
        return "refused"
    return "scheduled" if verdict.scheduled else "admitted"
