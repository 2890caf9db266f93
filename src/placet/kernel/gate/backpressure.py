"""Stage 6: has the world taken on more work than it has finished?

Only functions of the log are judged here: the outbox of each executor and the schedule. Signals of
the moment (queue, loop lag) are judged at admission (`actors/admission/overload.py`).
"""

from collections.abc import Sequence
from typing import NamedTuple

from placet.kernel.context import GateContext
from placet.kernel.gate.intent_refusals import positions_of, refuse_intent
from placet.schemas.batch import CheckedBatch
from placet.schemas.limits import SECOND_NS
from placet.schemas.refusal import Refusal, RefusalCode, Stage, seconds_until

_RETRY_SECONDS = 1.0
"""An estimate: the time of an executor's next settlement is unknown."""


class _Signal(NamedTuple):
    """An exceeded signal: its name, value and limit."""

    name: str
    value: int
    limit: int


def check(batch: CheckedBatch, context: GateContext) -> list[Refusal] | None:
    """Return refusals if an outbox of an emitted effect, or the schedule, is full; else None."""
    ledger, kinds = context.ledger, context.registry.kinds
    refusals: list[Refusal] | None = None
    for agent_id, kind, _ in batch.counts if ledger.executors else ():
        for effect in kinds[kind].effects:
            depth, limit = ledger.outbox_depth.get(effect, 0), ledger.executors.get(effect)
            if limit is not None and depth >= limit:
                problem = f"executor {effect!r} has {depth} effects waiting, its limit is {limit}"
                signal = _Signal("outbox_depth", depth, limit)
                positions = positions_of(batch, agent_id, kind)
                refusals = (refusals or []) + _refuse(batch, positions, problem, signal)
    sim_time_ns = batch.sim_time_ns
    if sim_time_ns is not None and sim_time_ns > context.now_ns:
        return refusals or _check_schedule(batch, context, sim_time_ns)
    return refusals


def _check_schedule(batch: CheckedBatch, context: GateContext, due_ns: int) -> list[Refusal] | None:
    limits = context.ledger.policy.limits
    ahead_ns_max = limits.schedule_ahead_ns_max
    if due_ns - context.now_ns > ahead_ns_max:
        return [_too_far(due_ns, ahead_ns_max, context.now_ns)]
    waiting, limit = len(context.ledger.scheduled), limits.schedule_batches_max
    if waiting < limit:
        return None
    problem = f"{waiting} batches are scheduled for later, the limit is {limit}"
    return _refuse(batch, range(len(batch)), problem, _Signal("schedule_batches", waiting, limit))


def _too_far(due_ns: int, ahead_ns_max: int, now_ns: int) -> Refusal:
    """Build the refusal of a batch for a time beyond the schedule, which is no sign of load."""
    value, limit = due_ns / SECOND_NS, (now_ns + ahead_ns_max) / SECOND_NS
    return Refusal(
        RefusalCode.SIM_TIME_TOO_FAR.value,
        f"sim_time {value:g} is {(due_ns - now_ns) / SECOND_NS:g} s ahead of the world; a batch "
        f"may be scheduled at most {ahead_ns_max / SECOND_NS:g} s ahead: send an earlier sim_time",
        Stage.BACKPRESSURE,
        at="/sim_time",
        retry_after=seconds_until(due_ns - ahead_ns_max, now_ns),
        details={"signal": "sim_time", "value": value, "limit": limit},
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
            signal=signal.name,
            value=signal.value,
            limit=signal.limit,
        )
        for index in positions
    ]
