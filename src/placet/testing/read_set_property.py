"""The read-set property: an intent's behavior depends only on what its kind declares to read.

The check decides an intent twice, and undoes both decisions. The first time, another agent's intent
runs first; the second time, a record without state changes, so that both have the same seq. Unless
the gate refuses the intent as stale, it must have the same verdict and the same writes to its read
set both times. Writes outside the read set, such as to a shared counter, may differ, and so may
entities that its kind declares to revalidate.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple, cast

from placet.kernel.plugin.domain import Domain, Kind
from placet.kernel.recorded_batch import recorded_batch
from placet.kernel.rollback import RollbackMark
from placet.schemas.codec import Json, thaw
from placet.schemas.intent import Intent
from placet.schemas.log.record import Admitted, decode_record
from placet.schemas.refusal import RefusalCode
from placet.testing.trace import Factory, Proposal, Propose, Trace, TraceRunner

_OTHERS_MAX: Final = 6
_UNUSED_EXECUTOR: Final = "placet.testing"
"""An effect kind that no rule emits: registering it writes a record without state changes."""


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
    """Return whether a kind of the domain has a read set that the gate checks."""
    return any(map(_is_bound, domain.kinds))


def footprint_breach(runner: TraceRunner, trace: Trace, _factory: Factory) -> str | None:
    """Describe a proposal in a trace whose outcome depends on an entity outside its read set.

    None if there is none.
    """
    kinds = runner.kernel.registry.kinds
    proposals = [p for s in trace if isinstance(s, Propose) for batch in s.batches for p in batch]
    for step in trace:
        bound = step.batches[0] if isinstance(step, Propose) else ()
        for proposal in bound:
            if not _is_bound(kinds[proposal.kind]):
                continue
            for other in _others(proposal, proposals):
                breach = _breach(runner, proposal, other)
                if breach is not None:
                    return breach
        runner.run(step)
    return None


def _is_bound(kind: Kind) -> bool:
    return kind.when_stale == "reject" and not (kind.reads is None and kind.reads_self is None)


def _others(proposal: Proposal, proposals: list[Proposal]) -> Iterator[Proposal]:
    others = (other for other in proposals if other.agent_id != proposal.agent_id)
    return islice(others, _OTHERS_MAX)


def _breach(runner: TraceRunner, proposal: Proposal, other: Proposal) -> str | None:
    mark, faults = runner.kernel.mark(), len(runner.faults)
    try:
        return _breach_after(mark, runner, proposal, other)
    finally:
        runner.kernel.rollback(mark)
        del runner.faults[faults:]


def _breach_after(
    mark: RollbackMark, runner: TraceRunner, proposal: Proposal, other: Proposal
) -> str | None:
    kernel = runner.kernel
    own = runner.intents((proposal._replace(behind=0),))
    if not kernel.decide(runner.intents((other._replace(behind=0),), 1), runner.now).admitted:
        return None
    touched = {(change.collection, change.entity) for change in _latest(runner).changes.entities}
    after = _outcome(runner, proposal, own)
    if RefusalCode.STALE_CONTEXT.value in after.codes:
        return None
    kernel.rollback(mark)
    kernel.change_executor(_UNUSED_EXECUTOR, 1)
    alone = _outcome(runner, proposal, own)
    if after == alone or _is_revalidated(touched, runner, proposal):
        return None
    return (
        f"Now {proposal} would be {alone}; but if first {other}, it is {after}, and the gate does "
        f"not call it stale. Add the entities that its rule reads to `reads` of {proposal.kind}."
    )


def _outcome(runner: TraceRunner, proposal: Proposal, own: list[dict[str, Json]]) -> _Outcome:
    """Decide the batch of a proposal, and return its outcome."""
    verdict = runner.kernel.decide(own, runner.now)
    if not verdict.admitted:
        return _Outcome(verdict.codes, None, None)
    record = _latest(runner)
    [intent] = recorded_batch(record).intents
    read = _read(runner.kernel.registry.kinds[proposal.kind], intent)
    written = {
        f"{change.collection}/{change.entity}": thaw(change.fields)
        for change in record.changes.entities
        if {(change.collection, change.entity), (change.collection, None)} & read
    }
    return _Outcome((), thaw(verdict.results[0].normalized), written)


def _latest(runner: TraceRunner) -> Admitted:
    """Return the record of the latest admitted batch."""
    latest = map(decode_record, reversed(runner.log))  # a checkpoint may follow it
    return next(record for record in latest if isinstance(record, Admitted))


def _is_revalidated(touched: set[tuple[str, str]], runner: TraceRunner, proposal: Proposal) -> bool:
    """Return whether every changed entity is declared in `revalidates`."""
    revalidates = runner.kernel.registry.kinds[proposal.kind].revalidates
    if revalidates is None:
        return False
    [intent] = runner.intents((proposal,))
    declared = {(collection, entity) for collection, entity in revalidates(cast("Intent", intent))}
    return all(ref in declared or (ref[0], None) in declared for ref in touched)


def _read(kind: Kind, intent: Intent) -> set[tuple[str, str | None]]:
    if kind.reads_self is not None:
        return {(kind.reads_self, intent["agent_id"])}
    assert kind.reads is not None, "the kind has a footprint"
    return {(collection, entity) for collection, entity in kind.reads(intent)}
