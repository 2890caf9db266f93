"""Stage 6: has the world taken on more work than it has finished?

Only functions of the log are judged here: the outbox of each executor and the schedule. Signals of
the moment (queue, loop lag) are judged at admission (`actors/admission/overload.py`).
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from placet.kernel.context import GateContext
from placet.kernel.gate.intent_refusals import positions_of, refuse_batch, refuse_intent
from placet.kernel.ledger.ledger import ScheduleShare, scheduled_bytes
from placet.kernel.ledger.schedule import room_at_ns
from placet.schemas.batch import CheckedBatch
from placet.schemas.identity import OPERATOR
from placet.schemas.limits import SECOND_NS
from placet.schemas.refusal import Refusal, RefusalCode, seconds_until

_RETRY_SECONDS: Final = 1.0
"""An estimate: the time of an executor's next settlement is unknown."""


_OUTBOX_SHARE_MIN: Final = 32
"""Open effects of one kind that every agent may have, as long as the outbox has room."""


class _Signal(NamedTuple):
    """An exceeded signal: its name, value and limit."""

    signal: str
    value: int
    limit: int


class _Bound(NamedTuple):
    """A bound of the schedule, in batches or in bytes.

    Attributes:
        signal: Its signal.
        noun: The unit of the signal.
        added: Amount that the batch adds.
        heap: The heap of the batches that count.
    """

    signal: _Signal
    noun: str
    added: int
    heap: Sequence[tuple[int, int]]

    @property
    def missing(self) -> int:
        """Amount that must leave first; one batch fits into an empty schedule, however large."""
        _, value, limit = self.signal
        return value + self.added - limit if value else 0


def check(batch: CheckedBatch, context: GateContext) -> list[Refusal] | None:
    """Return refusals if an outbox of an emitted effect, or the schedule, is full; else None."""
    ledger, kinds = context.ledger, context.registry.kinds
    refusals: list[Refusal] | None = None
    for agent_id, kind, _ in batch.counts if ledger.executors else ():
        for effect in kinds[kind].effects:
            full = _full_outbox(batch, context, agent_id, effect)
            if full is not None:
                positions = positions_of(batch, agent_id, kind)
                refusals = (refusals or []) + _refuse(batch, positions, *full)
    sim_time_ns = batch.sim_time_ns
    if sim_time_ns is not None and sim_time_ns > context.now_ns:
        return refusals or _check_schedule(batch, context, sim_time_ns)
    return refusals


def _full_outbox(
    batch: CheckedBatch, context: GateContext, agent_id: str, effect: str
) -> tuple[str, _Signal] | None:
    """Return why an agent may emit no effect of a kind now, and the signal; None if it may.

    Once half of the outbox is taken, an agent has at most as many open effects as there are free
    places. The operator is exempt, and its effects count for their agents.
    """
    ledger = context.ledger
    depth, limit = ledger.outbox_depth.get(effect, 0), ledger.executors.get(effect)
    if limit is None:
        return None
    if depth >= limit:
        problem = f"executor {effect!r} has {depth} effects waiting, its limit is {limit}"
        return problem, _Signal("outbox_depth", depth, limit)
    own = ledger.outbox_shares.get((effect, agent_id), 0)
    share = max(limit - depth, _OUTBOX_SHARE_MIN)
    if own < share or not context.checks_shares or batch.submitter == OPERATOR:
        return None
    problem = (
        f"executor {effect!r} has {own} effects of agent {agent_id!r} waiting, at most {share} are "
        f"allowed while {depth} of its {limit} places are taken"
    )
    return problem, _Signal("outbox_depth_of_agent", own, share)


def _check_schedule(batch: CheckedBatch, context: GateContext, due_ns: int) -> list[Refusal] | None:
    ahead_ns_max = context.ledger.policy.limits.schedule_ahead_ns_max
    if due_ns - context.now_ns > ahead_ns_max:
        return [_too_far(due_ns, ahead_ns_max, context.now_ns)]
    full = [bound for bound in _schedule_bounds(batch, context) if bound.missing > 0]
    return [_schedule_full(batch, context, due_ns, full)] if full else None


def _schedule_bounds(batch: CheckedBatch, context: GateContext) -> Iterator[_Bound]:
    """Yield the bounds of the schedule: of the submitter, then of the world."""
    ledger, limits = context.ledger, context.ledger.policy.limits
    size = scheduled_bytes(batch.encoded)
    if context.checks_shares:
        if batch.submitter != OPERATOR:
            share = ledger.schedule_shares.get(batch.submitter) or ScheduleShare()
            batches_max = limits.schedule_batches_per_agent_max
            signal = _Signal("schedule_batches_of_agent", share.count, batches_max)
            yield _Bound(signal, "batches", 1, share.heap)
            bytes_max = limits.schedule_bytes_per_agent_max
            signal = _Signal("schedule_bytes_of_agent", share.size, bytes_max)
            yield _Bound(signal, "bytes", size, share.heap)
        signal = _Signal("schedule_bytes", ledger.schedule_size, limits.schedule_bytes_max)
        yield _Bound(signal, "bytes", size, ledger.schedule)
    signal = _Signal("schedule_batches", len(ledger.scheduled), limits.schedule_batches_max)
    yield _Bound(signal, "batches", 1, ledger.schedule)


def _schedule_full(
    batch: CheckedBatch, context: GateContext, due_ns: int, full: Sequence[_Bound]
) -> Refusal:
    """Build the refusal of a batch for which the schedule has no room.

    It passes when enough batches were due; at its own time it needs no room.
    """
    room_ns = max(room_at_ns(context.ledger, bound.heap, *_needed(bound)) for bound in full)
    retry_after = seconds_until(min(room_ns, due_ns), context.now_ns)
    name, value, limit = full[0].signal
    whose = f"submitter {batch.submitter!r}" if name.endswith("_of_agent") else "the world"
    return refuse_batch(
        RefusalCode.SCHEDULE_FULL,
        f"{whose} has {value} {full[0].noun} scheduled for later, the limit is {limit}; retry in "
        f"{retry_after:.2f} s, when there is room, or submit the batch without sim_time",
        at="/sim_time",
        retry_after=retry_after,
        **full[0].signal._asdict(),
    )


def _needed(bound: _Bound) -> tuple[int, int]:
    """Return the places and the bytes that must leave for a bound."""
    return (bound.missing, 0) if bound.noun == "batches" else (0, bound.missing)


def _too_far(due_ns: int, ahead_ns_max: int, now_ns: int) -> Refusal:
    """Build the refusal of a batch for a time beyond the schedule, which is no sign of load."""
    value, limit = due_ns / SECOND_NS, (now_ns + ahead_ns_max) / SECOND_NS
    return refuse_batch(
        RefusalCode.SIM_TIME_TOO_FAR,
        f"sim_time {value:g} is {(due_ns - now_ns) / SECOND_NS:g} s ahead of the world; a batch "
        f"may be scheduled at most {ahead_ns_max / SECOND_NS:g} s ahead: send an earlier sim_time",
        at="/sim_time",
        retry_after=seconds_until(due_ns - ahead_ns_max, now_ns),
        signal="sim_time",
        value=value,
        limit=limit,
    )


def _refuse(
    batch: CheckedBatch,
    positions: Sequence[int],
    problem: str,
    signal: _Signal,
) -> list[Refusal]:
    return [
        refuse_intent(
            batch,
            index,
            RefusalCode.EXECUTOR_BUSY,
            f"{problem}; retry in {_RETRY_SECONDS:.2f} s",
            retry_after=_RETRY_SECONDS,
            **signal._asdict(),
        )
        for index in positions
    ]
