"""Stage 5: does the agent propose faster than it may?

A batch passes a bucket if its charge leaves the bucket's theoretical arrival time within `burst`
intervals of now (`kernel/ledger/token_buckets.py` has the algorithm). The charges are computed here
once, and applied by the commit: a batch that a later stage refuses is not charged.
"""

from placet.kernel.context import GateContext
from placet.kernel.gate.intent_refusals import positions_of, refuse_intent
from placet.kernel.ledger.token_buckets import Charge, Charges, charges_on
from placet.schemas.batch import CheckedBatch
from placet.schemas.refusal import Refusal, RefusalCode, seconds_until


def check(batch: CheckedBatch, context: GateContext) -> list[Refusal] | Charges:
    """Refuse a batch that exceeds a quota, or return its charges, which are not applied yet."""
    now_ns = context.now_ns
    # All buckets must pass before any is charged: a refused batch would else pay for its try.
    charges = charges_on(batch, context.ledger, now_ns)
    for _, _, _, (interval_ns, burst), _, tat_ns in charges:
        if tat_ns - burst * interval_ns > now_ns:
            return _refusals(batch, charges, now_ns)
    return charges


def _refusals(batch: CheckedBatch, charges: Charges, now_ns: int) -> list[Refusal]:
    """Refuse for each exceeded bucket; `retry_after` is when the batch passes all of them.

    It is None where a bucket is asked for more than its burst: waiting does not help then.
    """
    exceeded: list[tuple[Charge, int | None]] = []
    for charge in charges:
        _, _, _, (interval_ns, burst), intents, tat_ns = charge
        over_ns = tat_ns - burst * interval_ns - now_ns
        if over_ns > 0:
            exceeded.append((charge, over_ns if intents <= burst else None))
    waits = [over_ns for _, over_ns in exceeded if over_ns is not None]
    retry_after = (
        seconds_until(now_ns + max(waits), now_ns) if len(waits) == len(exceeded) else None
    )
    return [
        refusal
        for charge, over_ns in exceeded
        for refusal in _refuse(batch, charge, over_ns, retry_after)
    ]


def _refuse(
    batch: CheckedBatch, charge: Charge, over_ns: int | None, retry_after: float | None
) -> list[Refusal]:
    agent, _, kind, quota, intents, _ = charge
    who = "all agents together" if agent is None else f"agent {agent.agent_id!r}"
    what = f"{kind} " if kind else ""
    rule = f"{who} may {what}{quota.rate:g}/s (burst {quota.burst})"
    code = RefusalCode.QUOTA_EXCEEDED
    if over_ns is None:
        code = RefusalCode.BATCH_EXCEEDS_BURST
        message = f"{rule}; the batch asks for {intents} at once and can never pass; split it"
    elif retry_after is None:
        message = f"{rule}; the batch can never pass for another quota; split it"
    else:
        message = f"{rule}; retry in {retry_after:.2f} s"
    positions = range(len(batch)) if agent is None else positions_of(batch, agent.agent_id, kind)
    return [
        refuse_intent(batch, index, code, message, retry_after=retry_after) for index in positions
    ]
