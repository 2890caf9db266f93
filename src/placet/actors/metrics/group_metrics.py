"""Counts what a group of batches came to, once for all of them, and says so to whoever logs it."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from placet.actors.metrics.counters import Counters, Outcome
from placet.kernel.decide import Answer
from placet.schemas.limits import SECOND_NS
from placet.schemas.verdict import Verdict

if TYPE_CHECKING:
    from placet.schemas.batch import CheckedBatch

GroupReport: TypeAlias = Callable[[Sequence[Verdict]], None]

_FIRST_GUESS_NS = 10_000


class GroupMetrics:
    """Counts verdicts.

    Args:
        counters: Where to.
        on_group: Told of the verdicts of each group, for logging.

    Attributes:
        rejected_at_ingress: Batches that the door refused, by code (`Counters.rejected_at_ingress`).
        ns_per_intent: What deciding one intent has cost lately; the size of a chunk rests on it.
    """

    __slots__ = ("_counters", "_on_group", "ns_per_intent", "rejected_at_ingress")

    def __init__(self, counters: Counters, on_group: GroupReport | None) -> None:
        self._counters = counters
        self._on_group = on_group
        self.rejected_at_ingress = counters.rejected_at_ingress
        self.ns_per_intent = _FIRST_GUESS_NS

    def count_group(self, answers: Sequence[Answer], spent_ns: int) -> None:
        """Count a group. Dry runs cost time and are not counted otherwise."""
        admitted: list[CheckedBatch] = []
        by_outcome: dict[Outcome, list[CheckedBatch]] = {"admitted": admitted}
        intents = 1
        for batch, verdict in answers:
            intents += len(batch.intents)
            if verdict.dry_run:
                continue
            if verdict.admitted and not (verdict.replayed or verdict.scheduled):
                admitted.append(batch)  # what most are, at a third of the cost
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

    @property
    def is_reported(self) -> bool:
        """Somebody is told of each verdict."""
        return self._on_group is not None

    def count_turned_away(self, verdict: Verdict) -> None:
        """Count a batch that the door refused; nobody has looked at its kinds."""
        self.rejected_at_ingress[verdict.refusals[0].code] += 1
        if self._on_group is not None:
            self._on_group([verdict])

    def count_refused(self, verdict: Verdict) -> None:
        """Count a batch that was refused for its shape."""
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
