"""How each record changes the ledger: the one place, shared by live decisions and replay.

A live decision makes a record and applies it; a replay reads a record and applies it. So a
replay ends with the same ledger. Live code calls the function of its record; a replay calls
`apply_record`.
"""

from collections.abc import Sequence

from placet.kernel.arrays.extra import require_numpy
from placet.kernel.ledger import dedup_window, stored_verdict
from placet.kernel.ledger.agent import Agent
from placet.kernel.ledger.leases import has_lease_kinds
from placet.kernel.ledger.ledger import GateSettings, Ledger, Mark, Pending
from placet.kernel.ledger.ordinals import PENDING_MAX
from placet.kernel.ledger.stored_verdict import StoredRefusal
from placet.kernel.ledger.token_buckets import Charges, charge, charges_on, work_charges
from placet.schemas.batch import CheckedBatch
from placet.schemas.codec import FrozenDict, freeze, from_canonical
from placet.schemas.config import Quota
from placet.schemas.identity import OPERATOR, SYSTEM
from placet.schemas.limits import Limits
from placet.schemas.log.record import (
    Admitted,
    AdmittedWithAgents,
    AdmittedWithWork,
    AgentChange,
    AgentChanged,
    Configured,
    EffectChanged,
    ExecutorChanged,
    ForkAdopted,
    Header,
    Patched,
    Record,
    Refused,
    Registered,
    Scheduled,
    Settled,
    SettlementFailed,
    TableMade,
    Tick,
    TickWithAgents,
)


def apply_record(  # noqa: C901, PLR0912  # a branch for each type
    ledger: Ledger, record: Record, batch: CheckedBatch | None = None
) -> None:
    """Apply a record of any type to the ledger.

    Live decisions on batches call the function of their record's type, such as `apply_admitted`.
    The caller sets `seq` and `now_ns` of the ledger afterwards.

    Args:
        ledger: The ledger as it was before the record.
        record: The record; types that change only the state are passed over.
        batch: The batch of an `Admitted`, `Refused` or `Scheduled` record, rebuilt from it.
    """
    match record:
        case Admitted():  # nearly every record of a log
            apply_admitted(ledger, record, _required(batch))
            return
        case Refused():
            apply_refused(ledger, record, _required(batch))
            return
        case Scheduled():
            apply_scheduled(ledger, record, _required(batch))
            return
        case Configured():
            apply_configured(ledger, record)
        case Registered():
            _apply_registered(ledger, record)
        case AgentChanged():
            _apply_agent_changed(ledger, record)
        case ExecutorChanged():
            ledger.set_executor(record.kind, record.depth_max)
        case EffectChanged():
            mark = Mark(record.what, record.why)
            ledger.mark_effect(record.effect_seq, record.effect_index, mark)
        case Settled():
            _apply_settled(ledger, record)
        case ForkAdopted():
            _apply_fork_adopted(ledger, record)
        case TickWithAgents():
            _apply_agents(ledger, record.agents, record.now_ns)
        case TableMade():
            _apply_table_made(ledger, record)
        case _:
            pass  # Header, RulesChanged, Tick, Patched and Checkpoint change nothing else
    _count_hooks(ledger, record)


def _required(batch: CheckedBatch | None) -> CheckedBatch:
    assert batch is not None, "the record of a batch is applied with its batch"
    return batch


def _count_hooks(ledger: Ledger, record: Record) -> None:
    """Count a record whose hooks draw random numbers, and end the tick at a `Tick`.

    So the hooks of two records at one moment, such as two settlements, do not draw alike. An
    `on_register` draws in the name of its agent and is not counted: ordinals count intents.
    """
    if isinstance(record, Tick):
        ledger.end_tick()
    elif isinstance(record, Header | Settled):
        ledger.ordinals.add_hook(SYSTEM, record.now_ns)
    # A fork that differs from its parent in nothing must draw as its parent does.
    elif isinstance(record, Patched) or (
        isinstance(record, ForkAdopted) and (record.given or record.dropped)
    ):
        ledger.ordinals.add_hook(OPERATOR, record.now_ns)
    elif isinstance(record, AgentChanged) and record.what == "removed":
        ledger.ordinals.add_hook(record.agent_id, record.now_ns)


def _apply_table_made(ledger: Ledger, record: TableMade) -> None:
    """Add the population of a table; a table without agents is no part of the ledger."""
    require_numpy("the log")
    from placet.kernel.commit.table_made import add_members  # noqa: PLC0415  # numpy is an extra

    add_members(ledger, record)


def apply_configured(ledger: Ledger, record: Configured) -> None:
    """Apply a record of gate settings; limits that this release does not know are dropped."""
    settings = GateSettings(
        record.staleness_threshold,
        {kind: Quota(*quota) for kind, quota in record.quotas.items()},
        None if record.world_quota is None else Quota(*record.world_quota),
        _frozen(record.default_permissions),
        Limits.of_record(record.limits),
        record.lease_settings,
    )
    ledger.set_policy(settings)


def _apply_registered(ledger: Ledger, record: Registered) -> None:
    """Apply the record of a registration: add the agent to the ledger."""
    agent = ledger.add_agent(record.agent_id, record.owner)
    agent.permissions = _frozen(record.permissions)
    agent.priority_max = record.priority_max
    if record.quotas:
        ledger.set_quotas(agent, {kind: Quota(*quota) for kind, quota in record.quotas.items()})


def _apply_agent_changed(ledger: Ledger, record: AgentChanged) -> None:
    """Apply the record of a change of an agent: removal, suspension, resumption, permissions."""
    agent = ledger.agents[record.agent_id]
    if record.what in {"removed", "suspended"}:
        ledger.drop_ticket(record.agent_id, record.now_ns)
    if record.what == "removed":
        ledger.remove_agent(record.agent_id)
    elif record.what == "permissions":
        ledger.change_agent(agent, "permissions", _frozen(record.permissions))
    else:
        ledger.change_agent(agent, "is_suspended", record.what == "suspended")


def _apply_agents(ledger: Ledger, agents: Sequence[AgentChange], now_ns: int) -> None:
    """Register and remove the agents that rules registered and removed, in order."""
    for change in agents:
        if change.is_removed:
            ledger.drop_ticket(change.agent_id, now_ns)
            ledger.remove_agent(change.agent_id)
        else:
            agent = ledger.add_agent(change.agent_id, change.agent_id)
            agent.permissions = _frozen(change.permissions)
            agent.cohort = change.cohort


def _frozen(permissions: Sequence[str] | None) -> frozenset[str] | None:
    return None if permissions is None else frozenset(permissions)


def _apply_fork_adopted(ledger: Ledger, record: ForkAdopted) -> None:
    """Apply the record of a fork: remove dropped agents and their scheduled batches.

    A member of a population is suspended instead, for rows are never deleted. All executors are
    removed too if the fork refuses effects.
    """
    for agent_id in record.dropped:
        for number, scheduled in list(ledger.scheduled.items()):
            if any(item[0] == agent_id for item in from_canonical(scheduled.encoded)):
                ledger.pop_scheduled(number)
        ledger.drop_ticket(agent_id, record.now_ns)
        agent = ledger.agents[agent_id]
        if agent.is_member:
            ledger.change_agent(agent, "is_suspended", True)
        else:
            ledger.remove_agent(agent_id)
    if record.effects == "refuse":
        ledger.executors.clear()


def apply_admitted(
    ledger: Ledger, record: Admitted, batch: CheckedBatch, charges: Charges | None = None
) -> None:
    """Count and charge an admitted batch, remember its verdict and keep its effects.

    Args:
        ledger: The ledger.
        record: The record of the batch.
        batch: The batch.
        charges: As the quota stage returned them; None computes them, as a replay does. A batch
            that was scheduled was charged then, but for its work.
    """
    first_seq = ledger.seq + 1
    ledger.seq = record.seq
    ledger.group = record.group + 1
    ordinals = ledger.ordinals
    if record.now_ns != ordinals.now_ns:  # `begin`, for a call would cost as much as the rest
        ordinals.now_ns, ordinals.pending, ordinals.sums = record.now_ns, [], {}
        ordinals.names.clear()
    ordinals.pending.append(batch.counts)
    if len(ordinals.pending) > PENDING_MAX:
        ordinals.sum_up()
    if charges is None:
        charges = charges_on(batch, ledger, record.now_ns) if record.due_of is None else ()
        if type(record) is not Admitted and isinstance(record, AdmittedWithWork):
            charges += work_charges(batch, ledger, record.work, record.now_ns)
    if charges:
        charge(ledger, charges)
    if record.due_of is not None:
        ledger.pop_scheduled(record.due_of)
    if batch.order is None and len(batch.agents) == 1:
        entry = dedup_window.admitted(
            batch.fingerprint, record.now_ns, first_seq, batch.req_ids, batch.span
        )
        ledger.dedup.remember(ledger.agents[batch.agents[0]], entry, ledger.policy.limits)
    else:
        _remember_scattered(ledger, batch, record.now_ns, first_seq)
    if record.effects:
        for k, (seq, kind, payload, agent_id) in enumerate(record.effects):
            is_emitted = type(payload) is FrozenDict  # else it was read back
            frozen = payload if is_emitted else freeze(payload)
            ledger.add_effect(seq, k, Pending(kind, frozen, agent_id))
    if ledger.leases is not None and has_lease_kinds(batch.counts):
        ledger.apply_leases(batch.intents, record.now_ns)
    # By `type`: `isinstance` of a struct that is another one takes ten times as long.
    if type(record) is AdmittedWithAgents:  # last: a removed agent may be of the batch
        _apply_agents(ledger, record.agents, record.now_ns)


def apply_refused(ledger: Ledger, record: Refused, batch: CheckedBatch) -> None:
    """Remember a final refusal in the dedup window of each agent of the batch."""
    ledger.group = record.group + 1
    if record.due_of is not None:
        ledger.pop_scheduled(record.due_of)
    agent_ids, req_ids = batch.agent_ids(), batch.req_ids
    refusals = [
        StoredRefusal(None, None, None, stage, code)
        if index is None
        else StoredRefusal(index, agent_ids[index], req_ids[index], stage, code)
        for index, stage, code, _ in record.refusals
    ]
    for agent, positions in _by_agent(ledger, agent_ids):
        requests = [(req_ids[p], batch.contexts[p]) for p in positions]
        entry = stored_verdict.refused(
            batch.fingerprint, record.now_ns, ledger.seq, requests, refusals
        )
        ledger.dedup.remember(agent, entry, ledger.policy.limits)


def apply_scheduled(
    ledger: Ledger, record: Scheduled, batch: CheckedBatch, charges: Charges | None = None
) -> None:
    """Charge a batch and add it to the schedule.

    Args:
        ledger: The ledger.
        record: The record of the batch.
        batch: The batch.
        charges: As the quota stage returned them; None computes them, as a replay does.
    """
    ledger.seq = record.seq
    ledger.group = record.group + 1
    charge(ledger, charges_on(batch, ledger, record.now_ns) if charges is None else charges)
    ledger.add_scheduled(record)
    for agent, positions in _by_agent(ledger, batch.agent_ids()):
        ids = [batch.req_ids[position] for position in positions]
        entry = stored_verdict.scheduled(batch.fingerprint, record.now_ns, ledger.seq, ids)
        ledger.dedup.remember(agent, entry, ledger.policy.limits)


def _apply_settled(ledger: Ledger, record: Settled) -> None:
    """Remove a settled effect from the outbox; a dead letter stays there with its outcome."""
    place = (record.effect_seq, record.effect_index)
    if isinstance(record, SettlementFailed):
        output = freeze(record.output)
        ledger.mark_effect(*place, Mark("dead", record.error, record.succeeded, output))
    else:
        ledger.settle_effect(*place)


def _remember_scattered(ledger: Ledger, batch: CheckedBatch, now_ns: int, first_seq: int) -> None:
    """Remember an admitted batch of several agents, or one that ran in another order."""
    req_ids, order = batch.req_ids, batch.order
    offset_of = {position: offset for offset, position in enumerate(order or range(len(req_ids)))}
    seqs = range(first_seq, first_seq + len(req_ids))
    for agent, positions in _by_agent(ledger, batch.agent_ids()):
        ids = [req_ids[position] for position in positions]
        offsets = [offset_of[position] for position in positions]
        entry = stored_verdict.admitted_in_part(batch.fingerprint, now_ns, seqs, ids, offsets)
        ledger.dedup.remember(agent, entry, ledger.policy.limits)


def _by_agent(ledger: Ledger, agent_ids: Sequence[str]) -> list[tuple[Agent, list[int]]]:
    """Group the positions of a batch by agent; skips agents that were removed meanwhile."""
    positions: dict[str, list[int]] = {}
    for position, agent_id in enumerate(agent_ids):
        positions.setdefault(agent_id, []).append(position)
    return [
        (ledger.agents[agent_id], indexes)
        for agent_id, indexes in positions.items()
        if agent_id in ledger.agents
    ]
