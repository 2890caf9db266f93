"""Stage 5: does the agent propose faster than it may?

GCRA in integer nanoseconds on the logged clock. A bucket is one integer, the theoretical arrival
time; n intents move it by n intervals and pass if it stays within `burst` intervals of now.

Source: ITU-T I.371 (Generic Cell Rate Algorithm, virtual scheduling).
"""

from placet.kernel.context import GateContext
from placet.kernel.gate.intent_refusals import positions_of, refuse_intent
from placet.kernel.ledger.ledger import Agent, Charge, Ledger
from placet.schemas.batch import CheckedBatch
from placet.schemas.config import Quota
from placet.schemas.refusal import Refusal, RefusalCode, seconds_until

ALL_KINDS = "*"
"""The bucket that all kinds of one agent share."""

_OWN = "\x00"
"""Prefix of the bucket of a quota that an agent has for itself."""


def check(batch: CheckedBatch, context: GateContext) -> list[Refusal] | None:
    """Refuse intents beyond a quota.

    Charges nothing, and keeps the computed charges for `charge`.
    """
    ledger, now_ns = context.ledger, context.now_ns
    charges = charges_on(batch, ledger, now_ns)
    ledger.asked, ledger.charges = batch, charges
    for _, _, _, (interval_ns, burst), _, tat_ns in charges:
        if tat_ns - burst * interval_ns > now_ns:
            return _refusals(batch, charges, now_ns)
    return None


def charge(batch: CheckedBatch, ledger: Ledger, now_ns: int) -> None:
    """Charge an admitted batch to every quota that binds it, as it was asked; a fold asks here."""
    charges = ledger.charges if ledger.asked is batch else charges_on(batch, ledger, now_ns)
    for agent, bucket, _, _, _, tat_ns in charges:
        if agent is None:
            ledger.world_tat = tat_ns
        elif agent.tats is None:
            agent.tats = {bucket: tat_ns}
        else:
            agent.tats[bucket] = tat_ns


def charges_on(batch: CheckedBatch, ledger: Ledger, now_ns: int) -> list[Charge]:
    """List the buckets that a batch draws on, each once, with its sum."""
    policy, agents = ledger.policy, ledger.agents
    quotas = policy.quotas
    charges: list[Charge] = []
    is_shared = ALL_KINDS in quotas
    for agent_id, kind, count in batch.counts:
        agent = agents[agent_id]
        quota = quotas.get(kind)
        if quota is not None:
            charges.append(_charge(agent, kind, kind, quota, count, now_ns))
        if agent.quotas is not None:
            is_shared = is_shared or ALL_KINDS in agent.quotas
            quota = agent.quotas.get(kind)
            if quota is not None:
                charges.append(_charge(agent, _OWN + kind, kind, quota, count, now_ns))
    if is_shared:
        charges += _shared_charges(batch, ledger, now_ns)
    if policy.world_quota is not None:
        quota, count = policy.world_quota, len(batch)
        tat_ns = max(ledger.world_tat, now_ns) + count * quota.interval_ns
        charges.append((None, ALL_KINDS, None, quota, count, tat_ns))
    return charges


def _charge(  # by place: it is on the path of every batch
    agent: Agent, bucket: str, kind: str | None, quota: Quota, count: int, now_ns: int
) -> Charge:
    tat_ns = 0 if agent.tats is None else agent.tats.get(bucket, 0)
    if tat_ns < now_ns:  # noqa: PLR1730  # max() would cost as much as all the rest
        tat_ns = now_ns
    return agent, bucket, kind, quota, count, tat_ns + count * quota[0]


def _shared_charges(batch: CheckedBatch, ledger: Ledger, now_ns: int) -> list[Charge]:
    """List the buckets that all kinds of an agent share."""
    quotas = ledger.policy.quotas
    totals: dict[str, int] = {}
    for agent_id, _, count in batch.counts:
        totals[agent_id] = totals.get(agent_id, 0) + count
    charges: list[Charge] = []
    for agent_id, count in totals.items():
        agent = ledger.agents[agent_id]
        if ALL_KINDS in quotas:
            charges.append(_charge(agent, ALL_KINDS, None, quotas[ALL_KINDS], count, now_ns))
        if agent.quotas is not None and ALL_KINDS in agent.quotas:
            own = agent.quotas[ALL_KINDS]
            charges.append(_charge(agent, _OWN + ALL_KINDS, None, own, count, now_ns))
    return charges


def _refusals(batch: CheckedBatch, charges: list[Charge], now_ns: int) -> list[Refusal]:
    """Refuse for every bucket that is exceeded; after `retry_after` the batch passes all of them.

    What asks for more than a burst exceeds its bucket however long it waits.
    """
    exceeded: list[tuple[Charge, int | None]] = []
    for one in charges:
        _, _, _, (interval_ns, burst), intents, tat_ns = one
        over_ns = tat_ns - burst * interval_ns - now_ns
        if over_ns > 0:
            exceeded.append((one, over_ns if intents <= burst else None))
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
