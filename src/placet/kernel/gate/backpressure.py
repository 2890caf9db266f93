"""Stage 6: has the world taken on more work than it has finished?

Only what is a function of the log is judged here: the outbox of each executor and the schedule.
What depends on the moment - queue, loop lag - is judged at the door (`actors/door.py`).
"""

from placet.kernel.gate.context import GateContext, positions_of, refuse_intent
from placet.schemas.batch import CheckedBatch
from placet.schemas.refusal import Refusal, RefusalCode

_RETRY_SECONDS = 1.0
"""A guess: when an executor will have settled something cannot be known."""


def check(batch: CheckedBatch, context: GateContext) -> list[Refusal] | None:
    """Refuse kinds whose executors are behind, and batches for a schedule that is full."""
    ledger, kinds = context.ledger, context.registry.kinds
    refusals: list[Refusal] | None = None
    for agent_id, kind, _ in batch.counts:
        for effect in kinds[kind].effects:
            depth, limit = ledger.outbox_depth.get(effect, 0), ledger.executors.get(effect)
            if limit is not None and depth >= limit:
                message = (
                    f"executor {effect!r} has {depth} effects waiting, its limit is {limit}; "
                    f"retry in {_RETRY_SECONDS:.2f} s"
                )
                details = {"signal": "outbox_depth", "value": depth, "limit": limit}
                positions = positions_of(batch, agent_id, kind)
                refusals = (refusals or []) + _refuse(batch, positions, message, details)
    sim_time_ns = batch.sim_time_ns
    if batch.due_of is None and sim_time_ns is not None and sim_time_ns > context.now_ns:
        return refusals or _check_schedule(batch, context)
    return refusals


def _check_schedule(batch: CheckedBatch, context: GateContext) -> list[Refusal] | None:
    waiting, limit = len(context.ledger.scheduled), context.ledger.policy.limits.schedule_batches_max
    if waiting < limit:
        return None
    message = (
        f"{waiting} batches are scheduled for later, the limit is {limit}; "
        f"retry in {_RETRY_SECONDS:.2f} s"
    )
    details = {"signal": "schedule", "value": waiting, "limit": limit}
    return _refuse(batch, range(len(batch)), message, details)


def _refuse(
    batch: CheckedBatch, positions: range | list[int], message: str, details: dict[str, int | str]
) -> list[Refusal]:
    return [
        refuse_intent(
            batch,
            index,
            RefusalCode.EXECUTOR_BUSY,
            message,
            retry_after=_RETRY_SECONDS,
            **details,
        )
        for index in positions
    ]
