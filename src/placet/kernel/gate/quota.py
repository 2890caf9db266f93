"""Stage 5: does the agent propose faster than it may?

A batch passes a bucket if its charge leaves the bucket's theoretical arrival time within `burst`
intervals of now (`kernel/ledger/token_buckets.py` has the algorithm). `charges_on` computes the
charges once, and the commit applies them: a batch that a later stage refuses is not charged.

Work is checked here for intents and bytes, and by `check_work` again after the rules, which may
have charged more.
"""

from functools import partial

from placet.kernel.context import GateContext
from placet.kernel.gate.intent_refusals import positions_of, refuse_batch, refuse_intent
from placet.kernel.ledger.agent import Agent
from placet.kernel.ledger.token_buckets import (
    Charge,
    Charges,
    charges_on,
    is_exceeded,
    work_charges,
)
from placet.schemas.batch import CheckedBatch
from placet.schemas.config import Quota
from placet.schemas.limits import SECOND_NS
from placet.schemas.refusal import Refusal, RefusalCode, seconds_until


def check(batch: CheckedBatch, context: GateContext) -> list[Refusal] | None:
    """Return refusals if a quota is exceeded; else None, and put the charges into the context."""
    ledger, now_ns = context.ledger, context.now_ns
    if ledger.has_quotas:
        # All buckets must pass before any is charged: a refused batch would else pay for its try.
        charges = charges_on(batch, ledger, now_ns)
        for charge in charges:
            if is_exceeded(charge, now_ns):
                return _refusals(batch, charges, now_ns)
        context.charges = charges
    if ledger.policy.checks_work:
        units = batch.base_work
        return check_work(batch, context, units, work_charges(batch, ledger, units, now_ns))
    return None


def check_work(
    batch: CheckedBatch, context: GateContext, units: int, charges: Charges
) -> list[Refusal] | None:
    """Return a refusal if the work exceeds `batch_work_max` or a quota of work; else None.

    Args:
        batch: The batch.
        context: The world.
        units: Units of work that are known by now.
        charges: Their charges, from `work_charges`.
    """
    ledger, now_ns = context.ledger, context.now_ns
    limit = ledger.policy.limits.batch_work_max
    if units > limit:
        message = (
            f"the batch needs {units} units of work, at most {limit} are allowed "
            "(batch_work_max); split it"
        )
        return [refuse_batch(RefusalCode.WORK_EXCEEDED, message, value=units, limit=limit)]
    if batch.due_of is None:  # else it was answered when it was scheduled
        for agent, _, _, quota, _, tat_ns in charges:
            over_ns = tat_ns - quota.burst * quota.interval_ns - now_ns
            if over_ns > 0:
                return [_work_over(agent, quota, units, now_ns, _latest_ns(charges, now_ns))]
    return None


def _latest_ns(charges: Charges, now_ns: int) -> int | None:
    """Return when all buckets pass their charges; None where waiting does not help."""
    if any(units > quota.burst for _, _, _, quota, units, _ in charges):
        return None
    return max(now_ns, *[tat - q.burst * q.interval_ns for _, _, _, q, _, tat in charges])


def _work_over(
    agent: Agent | None, quota: Quota, units: int, now_ns: int, passes_ns: int | None
) -> Refusal:
    who = "all agents together" if agent is None else f"agent {agent.agent_id!r}"
    rule = f"{who} may use {quota.rate:g} units of work/s (burst {quota.burst})"
    refused = partial(refuse_batch, RefusalCode.WORK_EXCEEDED, value=units, limit=quota.burst)
    if agent is not None:
        refused = partial(refused, agent_id=agent.agent_id)
    if passes_ns is None:
        return refused(f"{rule}; the batch needs {units} at once and can never pass; split it")
    retry_after = seconds_until(passes_ns, now_ns)
    message = f"{rule}; the batch needs {units}; retry in {retry_after:.2f} s"
    return refused(message, retry_after=retry_after)


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
    prefix = f"{kind} " if kind else ""
    rule = f"{who} may propose {prefix}{_how_often(quota)}"
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


def _how_often(quota: Quota) -> str:
    """Return a quota as a person reads it: `once in 12 s, 5 at once`."""
    seconds = quota.interval_ns / SECOND_NS
    often = f"once in {seconds:.6g} s" if seconds >= 1 else f"{quota.rate:g} times a second"
    return f"{often}, {quota.burst} at once"
