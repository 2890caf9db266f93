"""Stage 5: does the agent propose faster than it may?

GCRA in integer nanoseconds on the logged clock. A bucket is one integer, the theoretical arrival
time; n intents move it by n intervals and pass if it stays within `burst` intervals of now.

Source: ITU-T I.371 (Generic Cell Rate Algorithm, virtual scheduling).
"""

from typing import TypeAlias

from placet.kernel.gate.context import GateContext, positions_of, refuse_intent
from placet.kernel.ledger import Agent, Ledger
from placet.schemas.batch import CheckedBatch
from placet.schemas.config import Quota
from placet.schemas.limits import SECOND_NS
from placet.schemas.refusal import Refusal, RefusalCode

ALL_KINDS = "*"
"""The bucket that all kinds of one agent share."""

_OWN = "\x00"
"""Prefix of the bucket of a quota that an agent has for itself."""


_Charge: TypeAlias = tuple[Agent | None, str, str | None, Quota, int]
"""`(agent, bucket, kind, quota, intents)`: so many intents against one bucket.

Agent None is the world's bucket, kind None one that kinds share.
"""


def check(batch: CheckedBatch, context: GateContext) -> list[Refusal] | None:
    """Refuse what is beyond a quota; charges nothing."""
    ledger, now_ns = context.ledger, context.now_ns
    exceeded: list[tuple[_Charge, int | None]] | None = None
    for charge in charges_on(batch, ledger):
        quota, intents = charge[3], charge[4]
        if intents > quota.burst:
            exceeded = exceeded or []
            exceeded.append((charge, None))
            continue
        over_ns = tat_after(charge, ledger, now_ns) - quota.burst * quota.interval_ns - now_ns
        if over_ns > 0:
            exceeded = exceeded or []
            exceeded.append((charge, over_ns))
    return None if exceeded is None else _refusals(batch, exceeded)


def charge(batch: CheckedBatch, ledger: Ledger, now_ns: int) -> None:
    """Charge an admitted batch to every quota that binds it."""
    for one in charges_on(batch, ledger):
        tat_ns = tat_after(one, ledger, now_ns)
        agent, bucket = one[0], one[1]
        if agent is None:
            ledger.world_tat = tat_ns
        elif agent.tats is None:
            agent.tats = {bucket: tat_ns}
        else:
            agent.tats[bucket] = tat_ns


def tat_after(charge: _Charge, ledger: Ledger, now_ns: int) -> int:
    """Give the theoretical arrival time of a bucket once the charge is on it."""
    agent, bucket, _, quota, intents = charge
    if agent is None:
        tat_ns = ledger.world_tat
    else:
        tat_ns = 0 if agent.tats is None else agent.tats.get(bucket, 0)
    return max(tat_ns, now_ns) + intents * quota.interval_ns


def charges_on(batch: CheckedBatch, ledger: Ledger) -> list[_Charge]:
    """List the buckets that a batch draws on, each once, with its sum."""
    quotas, world_quota = ledger.policy.quotas, ledger.policy.world_quota
    charges: list[_Charge] = []
    is_shared = ALL_KINDS in quotas
    for agent_id, kind, count in batch.counts:
        agent = ledger.agents[agent_id]
        if kind in quotas:
            charges.append((agent, kind, kind, quotas[kind], count))
        if agent.quotas is not None:
            is_shared = is_shared or ALL_KINDS in agent.quotas
            if kind in agent.quotas:
                charges.append((agent, _OWN + kind, kind, agent.quotas[kind], count))
    if is_shared:
        charges += _shared_charges(batch, ledger)
    if world_quota is not None:
        charges.append((None, ALL_KINDS, None, world_quota, len(batch)))
    return charges


def _shared_charges(batch: CheckedBatch, ledger: Ledger) -> list[_Charge]:
    """List the buckets that all kinds of an agent share."""
    quotas = ledger.policy.quotas
    totals: dict[str, int] = {}
    for agent_id, _, count in batch.counts:
        totals[agent_id] = totals.get(agent_id, 0) + count
    charges: list[_Charge] = []
    for agent_id, count in totals.items():
        agent = ledger.agents[agent_id]
        if ALL_KINDS in quotas:
            charges.append((agent, ALL_KINDS, None, quotas[ALL_KINDS], count))
        if agent.quotas is not None and ALL_KINDS in agent.quotas:
            charges.append((agent, _OWN + ALL_KINDS, None, agent.quotas[ALL_KINDS], count))
    return charges


def _refusals(batch: CheckedBatch, exceeded: list[tuple[_Charge, int | None]]) -> list[Refusal]:
    """Refuse for every bucket; after `retry_after` the batch passes all of them."""
    waits = [over_ns for _, over_ns in exceeded if over_ns is not None]
    retry_after = max(waits) / SECOND_NS if len(waits) == len(exceeded) else None
    return [
        refusal
        for charge, over_ns in exceeded
        for refusal in _refuse(batch, charge, over_ns, retry_after)
    ]


def _refuse(
    batch: CheckedBatch, charge: _Charge, over_ns: int | None, retry_after: float | None
) -> list[Refusal]:
    agent, _, kind, quota, intents = charge
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
