"""The token buckets of the ledger: the charges of a batch, computed, and applied once it passes.

Each bucket is a theoretical arrival time (TAT) in nanoseconds of simulated time (`Quota`). Quotas
of work are the same with units of work in the place of intents; a batch's work is charged to the
agent of its first intent.
"""

from typing import Final, TypeAlias

from placet.kernel.ledger.agent import Agent
from placet.kernel.ledger.leases import RELEASE
from placet.kernel.ledger.ledger import Ledger
from placet.kernel.ledger.undo import restore_item
from placet.schemas.batch import CheckedBatch
from placet.schemas.config import AGENT_WORK, ALL_KINDS, WORLD_WORK, Quota

OWN: Final = "\x00"
"""Prefix of the bucket of a quota that an agent has besides the world's; no kind begins with it."""

Charge: TypeAlias = tuple[Agent | None, str, str | None, Quota, int, int]
"""`(agent, bucket, kind, quota, count, tat_ns)`: the intents or units of work charged to one
bucket, and the bucket's TAT after the charge. Agent None is a bucket of the world; kind None is
shared by all kinds.
"""

Charges: TypeAlias = tuple[Charge, ...]
"""The charges of one batch, each bucket once."""


def charges_on(batch: CheckedBatch, ledger: Ledger, now_ns: int) -> Charges:
    """Return the charge of a batch to each token bucket that limits it; changes nothing."""
    settings, agents = ledger.policy, ledger.agents
    if _is_exempt_release(batch, ledger, now_ns):
        return ()
    quotas = settings.quotas
    charges: list[Charge] = []
    is_shared = ALL_KINDS in quotas
    for agent_id, kind, count in batch.counts:
        agent = agents[agent_id]
        quota = quotas.get(kind)
        if quota is not None:
            charges.append(charge_of(agent, kind, kind, quota, count, now_ns))
        if agent.quotas is not None:
            is_shared = is_shared or ALL_KINDS in agent.quotas
            quota = agent.quotas.get(kind)
            if quota is not None:
                charges.append(charge_of(agent, OWN + kind, kind, quota, count, now_ns))
    if is_shared:
        charges += _shared_charges(batch, ledger, now_ns)
    # The world's bucket counts the whole batch once, whatever its agents and kinds.
    if settings.world_quota is not None:
        quota, count = settings.world_quota, len(batch)
        tat_ns = quota.charged(ledger.world_tat, count, now_ns)
        charges.append((None, ALL_KINDS, None, quota, count, tat_ns))
    return tuple(charges)


def _is_exempt_release(batch: CheckedBatch, ledger: Ledger, now_ns: int) -> bool:
    """Return whether a batch only releases a ticket that its agent has: no quota holds that up."""
    if ledger.leases is None or len(batch.counts) != 1:
        return False
    agent_id, kind, count = batch.counts[0]
    is_release = kind == RELEASE and count == 1
    return is_release and agent_id in ledger.leases.at(now_ns).tickets


def work_charges(batch: CheckedBatch, ledger: Ledger, units: int, now_ns: int) -> Charges:
    """Return the charge of a batch's work to each token bucket of work; changes nothing."""
    agent = ledger.agents.get(batch.agents[0])
    quotas = ledger.policy.quotas
    charges: list[Charge] = []
    if agent is not None and AGENT_WORK in quotas:
        quota = quotas[AGENT_WORK]
        charges.append(charge_of(agent, AGENT_WORK, None, quota, units, now_ns))
    if WORLD_WORK in quotas:
        quota = quotas[WORLD_WORK]
        tat_ns = quota.charged(ledger.world_work_tat, units, now_ns)
        charges.append((None, WORLD_WORK, None, quota, units, tat_ns))
    return tuple(charges)


def charge(ledger: Ledger, charges: Charges) -> None:
    """Apply charges to the token buckets, which must not have changed since `charges_on`."""
    undo = ledger.undo
    for agent, bucket, _, _, _, tat_ns in charges:
        if agent is None:
            if bucket == WORLD_WORK:
                ledger.world_work_tat = tat_ns
            else:
                ledger.world_tat = tat_ns
        elif agent.tats is None:
            if undo is not None:
                undo.append((setattr, agent, "tats", None))
            agent.tats = {bucket: tat_ns}
        else:
            if undo is not None:
                undo.append((restore_item, agent.tats, bucket, agent.tats.get(bucket)))
            agent.tats[bucket] = tat_ns


def charge_of(  # positional arguments: this is on the path of every batch
    agent: Agent, bucket: str, kind: str | None, quota: Quota, count: int, now_ns: int
) -> Charge:
    """Return the charge of a number of intents, or units, to one bucket of an agent."""
    tat_ns = 0 if agent.tats is None else agent.tats.get(bucket, 0)
    # `Quota.charged`, inlined: a call for each kind of a batch costs as much as the rest.
    if tat_ns < now_ns:  # noqa: PLR1730
        tat_ns = now_ns
    return agent, bucket, kind, quota, count, tat_ns + count * quota[0]


def is_exceeded(charge: Charge, now_ns: int) -> bool:
    """Return whether a charge leaves its bucket further ahead of now than its burst allows."""
    # `Quota.over_ns`, inlined: this is asked about each single batch.
    _, _, _, (interval_ns, burst), _, tat_ns = charge
    return tat_ns - burst * interval_ns > now_ns


def _shared_charges(batch: CheckedBatch, ledger: Ledger, now_ns: int) -> list[Charge]:
    """Compute the charges to the buckets that all kinds of an agent share."""
    quotas = ledger.policy.quotas
    totals: dict[str, int] = {}
    for agent_id, _, count in batch.counts:
        totals[agent_id] = totals.get(agent_id, 0) + count
    charges: list[Charge] = []
    for agent_id, count in totals.items():
        agent = ledger.agents[agent_id]
        if ALL_KINDS in quotas:
            charges.append(charge_of(agent, ALL_KINDS, None, quotas[ALL_KINDS], count, now_ns))
        if agent.quotas is not None and ALL_KINDS in agent.quotas:
            own = agent.quotas[ALL_KINDS]
            charges.append(charge_of(agent, OWN + ALL_KINDS, None, own, count, now_ns))
    return charges
