"""The read-set property: an intent's behavior depends only on what its kind declares to read.

Two copies of a world are made. In one, another agent's intent passes first; in the other, a record
without state changes, so that both have the same seq. If the gate then does not call the intent
stale, it must behave the same in both: its answer, and its writes to what it reads. Writes
elsewhere, such as to a shared counter, may differ, and so may what its kind declares to revalidate.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple, cast

from placet.kernel.checked_batch import recorded_batch
from placet.kernel.domain import Domain, Kind
from placet.schemas.codec import Json, thaw
from placet.schemas.intent import Intent
from placet.schemas.log.record import Admitted, decode_record
from placet.schemas.refusal import RefusalCode
from placet.testing.trace import Factory, Proposal, Propose, Trace, TraceRunner

_OTHERS_MAX: Final = 6
_NOBODYS: Final = "placet.testing"
"""An executor that no rule emits for: entering it is a record, and no change of the state."""


class _Outcome(NamedTuple):
    """The result of an intent: its codes, or its payload and its writes."""

    codes: tuple[str, ...]
    payload: Json
    written: Json

    def __str__(self) -> str:
        if self.codes:
            return f"refused, {', '.join(self.codes)}"
        return f"admitted as {self.payload}, to {self.written}"


def has_footprints(domain: Domain) -> bool:
    """Return whether a kind of the domain is held to one."""
    return any(map(_is_bound, domain.kinds))


def footprint_breach(runner: TraceRunner, life: Trace, factory: Factory) -> str | None:
    """Return where an intent's outcome is up to what its kind does not say that it reads."""
    copy = TraceRunner(factory)
    kinds = runner.kernel.registry.kinds
    proposals = [p for s in life if isinstance(s, Propose) for batch in s.batches for p in batch]
    for step in life:
        bound = step.batches[0] if isinstance(step, Propose) else ()
        for proposal in bound:
            if not _is_bound(kinds[proposal.kind]):
                continue
            for other in _others(proposal, proposals):
                found = _breach(runner, copy, proposal, other)
                if found is not None:
                    return found
        runner.live(step)
    return None


def _is_bound(kind: Kind) -> bool:
    return kind.when_stale == "reject" and not (kind.reads is None and kind.reads_self is None)


def _others(proposal: Proposal, proposals: list[Proposal]) -> Iterator[Proposal]:
    others = (other for other in proposals if other.agent_id != proposal.agent_id)
    return islice(others, _OTHERS_MAX)


def _breach(
    runner: TraceRunner, copy: TraceRunner, proposal: Proposal, other: Proposal
) -> str | None:
    world = runner.kernel.snapshot()
    before = runner.intents((other._replace(behind=0),), 1)
    copy.kernel.restore(world)
    if not copy.kernel.decide(before, runner.now).admitted:
        return None
    touched = {(change.collection, change.entity) for change in _latest(copy).changes.entities}
    after = _outcome(runner, copy, proposal)
    if RefusalCode.STALE_CONTEXT.value in after.codes:
        return None
    copy.kernel.restore(world)
    copy.kernel.change_executor(_NOBODYS, 1)
    alone = _outcome(runner, copy, proposal)
    if after == alone or _is_judged_anew(touched, runner, proposal):
        return None
    return (
        f"Now {proposal} would be {alone}; but if first {other}, it is {after}, and the gate does "
        f"not call it stale. Let the footprint of {proposal.kind} name what its rule looks at."
    )


def _outcome(runner: TraceRunner, copy: TraceRunner, proposal: Proposal) -> _Outcome:
    """Decide a proposal in the copy, as its agent meant it before anything else was."""
    verdict = copy.kernel.decide(runner.intents((proposal._replace(behind=0),)), runner.now)
    if not verdict.admitted:
        return _Outcome(verdict.codes, None, None)
    record = _latest(copy)
    [intent] = recorded_batch(record).intents
    read = _read(copy.kernel.registry.kinds[proposal.kind], intent)
    written = {
        f"{change.collection}/{change.entity}": thaw(change.fields)
        for change in record.changes.entities
        if {(change.collection, change.entity), (change.collection, None)} & read
    }
    return _Outcome((), thaw(verdict.results[0].normalized), written)


def _latest(copy: TraceRunner) -> Admitted:
    """Return the record of the batch that passed last."""
    latest = map(decode_record, reversed(copy.log))  # a checkpoint may stand behind it
    return next(record for record in latest if isinstance(record, Admitted))


def _is_judged_anew(touched: set[tuple[str, str]], runner: TraceRunner, proposal: Proposal) -> bool:
    """Return whether every change is in what the rule declares to revalidate."""
    revalidates = runner.kernel.registry.kinds[proposal.kind].revalidates
    if revalidates is None:
        return False
    [intent] = runner.intents((proposal,))
    judged = {(collection, entity) for collection, entity in revalidates(cast("Intent", intent))}
    return all(one in judged or (one[0], None) in judged for one in touched)


def _read(kind: Kind, intent: Intent) -> set[tuple[str, str | None]]:
    if kind.reads_self is not None:
        return {(kind.reads_self, intent["agent_id"])}
    assert kind.reads is not None, "the kind has a footprint"
    return {(collection, entity) for collection, entity in kind.reads(intent)}
