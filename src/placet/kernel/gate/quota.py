"""Stage 5: does the agent propose faster than it may?

GCRA in integer nanoseconds on the logged clock. A bucket is one integer, the theoretical arrival
time; n intents move it by n intervals and pass if it stays within `burst` intervals of now.

Source: ITU-T I.371 (Generic Cell Rate Algorithm, virtual scheduling).
"""

from collections.abc import Iterator
from typing import NamedTuple

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


class _Charge(NamedTuple):
    """So many intents against one bucket. `agent` None is the world's bucket."""

    agent: Agent | None
    bucket: str
    kind: str | None
    quota: Quota
    intents: int


def check(batch: CheckedBatch, context: GateContext) -> list[Refusal] | None:
    """Refuse what is beyond a quota; charges nothing."""
    ledger, now_ns = context.ledger, context.now_ns
    exceeded: list[tuple[_Charge, int | None]] | None = None
    for charge in _charges(batch, ledger):
        quota = charge.quota
        if charge.intents > quota.burst:
            exceeded = exceeded or []
            exceeded.append((charge, None))
            continue
        tat = max(_tat(charge, ledger), now_ns) + charge.intents * quota.interval_ns
        over_ns = tat - now_ns - quota.burst * quota.interval_ns
        if over_ns > 0:
            exceeded = exceeded or []
            exceeded.append((charge, over_ns))
    return None if exceeded is None else _refusals(batch, exceeded)


def charge(batch: CheckedBatch, ledger: Ledger, now_ns: int) -> None:
    """Charge an admitted batch to every quota that binds it."""
    for agent, bucket, _, quota, count in _charges(batch, ledger):
        cost_ns = count * quota.interval_ns
        if agent is None:
            ledger.world_tat = max(ledger.world_tat, now_ns) + cost_ns
            continue
        if agent.tats is None:
            agent.tats = {}
        agent.tats[bucket] = max(agent.tats.get(bucket, 0), now_ns) + cost_ns


def _charges(batch: CheckedBatch, ledger: Ledger) -> Iterator[_Charge]:
    """List the buckets that a batch draws on, each once, with its sum."""
    policy = ledger.policy
    totals: dict[str, int] = {}
    for agent_id, kind, count in batch.counts:
        agent = ledger.agents[agent_id]
        quota = policy.quotas.get(kind)
        if quota is not None:
            yield _Charge(agent, kind, kind, quota, count)
        if agent.quotas is not None and kind in agent.quotas:
            yield _Charge(agent, _OWN + kind, kind, agent.quotas[kind], count)
        totals[agent_id] = totals.get(agent_id, 0) + count
    for agent_id, count in totals.items():
        agent = ledger.agents[agent_id]
        if ALL_KINDS in policy.quotas:
            yield _Charge(agent, ALL_KINDS, None, policy.quotas[ALL_KINDS], count)
        if agent.quotas is not None and ALL_KINDS in agent.quotas:
            yield _Charge(agent, _OWN + ALL_KINDS, None, agent.quotas[ALL_KINDS], count)
    if policy.world_quota is not None:
        yield _Charge(None, ALL_KINDS, None, policy.world_quota, len(batch))


def _tat(charge: _Charge, ledger: Ledger) -> int:
    if charge.agent is None:
        return ledger.world_tat
    return 0 if charge.agent.tats is None else charge.agent.tats.get(charge.bucket, 0)


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
