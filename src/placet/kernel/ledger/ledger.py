"""The ledger: agents, dedup windows, quotas, schedule and outbox, beside the domains' state.

It changes only by a record that is final, so a refused batch needs no undo here; a rollback to a
mark does (`kernel/rollback.py`). `kernel/commit/apply_record.py` is its only writer, for live
decisions and for replay.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from placet.kernel.ledger.agent import Agent
from placet.kernel.ledger.dedup_window import DedupWindows, WindowOwner
from placet.kernel.ledger.leases import LeaseTable, apply_intents
from placet.kernel.ledger.ordinals import Ordinals
from placet.kernel.ledger.undo import Undo, restore_item
from placet.schemas.codec import Json
from placet.schemas.config import (
    AGENT_WORK,
    WORLD_WORK,
    KernelConfig,
    LeaseSettings,
    Quota,
    permitted_kinds,
)
from placet.schemas.effect import EffectMark
from placet.schemas.intent import Intent
from placet.schemas.limits import Limits, base_work
from placet.schemas.log.record import GENESIS, Scheduled

if TYPE_CHECKING:
    from placet.kernel.ledger.members import Members, MembersVersion

_GONE_MAX: Final = 64
"""Number of entries of removed batches that the schedule's heap may hold, besides one per waiting
batch.
"""

_SCHEDULED_BYTES: Final = 1_024
"""Bytes of the record, the heap entries and the remembered verdict of a scheduled batch."""

_SCALARS: Final = (
    *("policy", "seq", "now_ns", "tick", "group", "has_quotas", "generation_floor"),
    *("scheduled_seen", "world_tat", "world_work_tat"),
)
"""Attributes of a ledger that a mark holds whole."""

_SCALARS_OF: Final = attrgetter(*_SCALARS)


class ScheduleShare:
    """The scheduled batches of one submitter.

    Attributes:
        heap: Heap of `(due_ns, number)`; below its top may be entries of removed batches.
        count: Number of batches.
        size: Bytes of the batches, as `scheduled_bytes` counts them.
    """

    __slots__ = ("count", "heap", "size")

    def __init__(self) -> None:
        self.heap: list[tuple[int, int]] = []
        self.count = 0
        self.size = 0


def scheduled_bytes(encoded: bytes) -> int:
    """Return the bytes that a scheduled batch takes, from its encoded intents."""
    return len(encoded) + _SCHEDULED_BYTES


class Pending(NamedTuple):
    """An effect that is not settled: `(seq, effect_index)` is its place in the world."""

    kind: str
    payload: dict[str, Json]
    agent_id: str


class Mark(NamedTuple):
    """The mark of an effect in the outbox: it was started, is in doubt, or is a dead letter.

    Attributes:
        what: The mark.
        why: Reason of the doubt, or what `on_settle` raised; empty for a start.
        succeeded: Outcome of a dead letter; None of other effects.
        output: Its output.
    """

    what: EffectMark
    why: str
    succeeded: bool | None = None
    output: Json = None


@dataclass(frozen=True, slots=True)
class GateSettings:
    """The settings by which the gate decides; recorded in the log, so that a replay uses the same.

    A dataclass, because a field of a tuple is read at seven times the cost and a batch reads five.
    """

    staleness_threshold: int | None
    quotas: dict[str, Quota]
    world_quota: Quota | None
    default_permissions: frozenset[str] | None
    limits: Limits
    leases: LeaseSettings | None = None
    checks_work: bool = field(init=False, compare=False)
    """Every batch is checked for work: it has a quota, or intents and bytes alone may exceed it."""

    def __post_init__(self) -> None:
        limits = self.limits
        ordinary_max = base_work(limits.batch_intents_max, limits.batch_bytes_max)
        has_quota = AGENT_WORK in self.quotas or WORLD_WORK in self.quotas
        object.__setattr__(self, "checks_work", has_quota or ordinary_max > limits.batch_work_max)

    @classmethod
    def of(cls, config: KernelConfig) -> "GateSettings":
        """Read the gate settings from a configuration."""
        return cls(
            config.staleness_threshold,
            {kind: Quota.of(spec) for kind, spec in sorted(config.quotas.items())},
            None if config.world_quota is None else Quota.of(config.world_quota),
            permitted_kinds(config.default_permissions),
            config.limits,
            None if config.leases is None else config.leases.settings(),
        )


class Ledger:
    """The ledger of one world, changed by `kernel/commit/apply_record.py` alone.

    Attributes:
        policy: The gate settings in force.
        seq: Sequence number of the world.
        now_ns: Simulated time of the latest record, nanoseconds; never goes back.
        tick: Number of `Tick` records; 0 in a world without ticks.
        group: Number of groups of batches within the tick that left a record.
        ordinals: Number of admitted intents of each agent at this tick and time.
        agents: Registered agents by name; a member of a population is made when it is asked for.
        populations: Populations by name.
        removals: Number of removals of agents, and of registrations and removals undone, since this
            object was made; never goes back.
        gone: Generation of each removed name, as long as it is remembered.
        generation_floor: No forgotten name had a higher generation.
        dedup: The dedup windows of all agents, bounded together.
        leases: The tickets of leases; None in a world without.
        has_quotas: The world has a quota, or an agent has had one for itself.
        executors: Effect kind -> bound of its outbox.
        outbox: Effects that are not settled, by (seq, effect_index), oldest first.
        outbox_depth: Number of effects in the outbox, by kind.
        outbox_shares: The same number by kind and agent; has no agent without effects.
        owned: Number of agents whose id differs from the id of their owner, by owner.
        marks: Marks of at-most-once effects that were started, and of dead letters.
        schedule: Heap of `(due_ns, number)`; below its top may be entries of removed batches.
        scheduled: Scheduled batches by number, in this order.
        schedule_shares: The same batches by submitter; has no submitter without batches.
        schedule_size: Bytes of the scheduled batches, as `scheduled_bytes` counts them.
        scheduled_seen: Number of the latest scheduled batch.
        world_tat: Theoretical arrival time of the world's quota, nanoseconds.
        world_work_tat: That of the world's quota of work.
        undo: Receives how each change is undone, but for numbers; None keeps nothing.
    """

    __slots__ = (
        "_is_order_kept",
        "_is_outbox_sorted",
        "_is_schedule_sorted",
        "agents",
        "dedup",
        "executors",
        "generation_floor",
        "gone",
        "group",
        "has_quotas",
        "leases",
        "marks",
        "now_ns",
        "ordinals",
        "outbox",
        "outbox_depth",
        "outbox_shares",
        "owned",
        "policy",
        "populations",
        "removals",
        "schedule",
        "schedule_shares",
        "schedule_size",
        "scheduled",
        "scheduled_seen",
        "seq",
        "tick",
        "undo",
        "world_tat",
        "world_work_tat",
    )

    def __init__(self, policy: GateSettings) -> None:
        self.agents: dict[str, Agent] = {}
        self.populations: dict[str, Members] = {}
        self.removals = 0
        self.owned: dict[str, int] = {}
        self.leases: LeaseTable | None = None
        self.set_policy(policy)
        self.seq = 0
        self.now_ns = 0
        self.tick = 0
        self.group = 0
        self.ordinals = Ordinals()
        self.gone: dict[str, int] = {}
        self.generation_floor = 0
        self.dedup = DedupWindows()
        self.executors: dict[str, int] = {}
        self.outbox: dict[tuple[int, int], Pending] = {}
        self.outbox_depth: dict[str, int] = {}
        self.outbox_shares: dict[tuple[str, str], int] = {}
        self.marks: dict[tuple[int, int], Mark] = {}
        self.schedule: list[tuple[int, int]] = []
        self.scheduled: dict[int, Scheduled] = {}
        self.schedule_shares: dict[str, ScheduleShare] = {}
        self.schedule_size = 0
        self.scheduled_seen = 0
        self.world_tat = 0
        self.world_work_tat = 0
        self.undo: list[Undo | WindowOwner] | None = None
        self._is_order_kept = False
        self._is_outbox_sorted = True
        self._is_schedule_sorted = True

    def set_policy(self, policy: GateSettings) -> None:
        """Replace the gate settings in force."""
        self.policy = policy
        if policy.leases is None:
            self.leases = None
        elif self.leases is None:
            self.leases = LeaseTable(policy.leases)
        else:
            self.leases.set_settings(policy.leases)
        own = any(agent.quotas for agent in self.agents.values())
        own = own or any(members.quotas for members in self.populations.values())
        self.has_quotas = own or bool(policy.quotas) or policy.world_quota is not None

    # agents

    def set_quotas(self, agent: Agent, quotas: dict[str, Quota]) -> None:
        """Set the quotas of an agent, which apply in addition to those of the world."""
        agent.quotas = quotas
        self.has_quotas = True

    def add_agent(self, agent_id: str, owner: str) -> Agent:
        """Add a new agent of this name and owner, and return it."""
        generation = self.gone.get(agent_id, self.generation_floor) + 1
        agent = Agent(agent_id, owner, generation)
        if self.undo is not None:
            self.undo.append((self._restore_agent, agent_id, None))
        self.agents[agent_id] = agent
        if owner != agent_id:
            self._count_owned(owner, 1)
        return agent

    @property
    def agent_count(self) -> int:
        """Number of agents, with the members of populations."""
        return len(self.agents) + sum(members.count for members in self.populations.values())

    def add_population(self, members: "Members", agents: dict[str, Agent]) -> None:
        """Add a population.

        Args:
            members: Its members.
            agents: The registered agents, and the members of all populations when asked for.
        """
        self.populations[members.name] = members
        self.agents = agents
        self.ordinals.populations = self.populations
        self.has_quotas = self.has_quotas or bool(members.quotas)

    def _count_owned(self, owner: str, change: int) -> None:
        before = self.owned.get(owner)
        if self.undo is not None:
            self.undo.append((restore_item, self.owned, owner, before))
        restore_item(self.owned, owner, (before or 0) + change or None)

    def remove_agent(self, agent_id: str) -> None:
        """Remove an agent and all that is stored of it but its generation.

        When too many removed names are stored, one generation floor stands for all forgotten
        ones: an agent registered under a forgotten name starts above it, so that no old handle
        is valid for it.
        """
        undo = self.undo
        if undo is not None:
            if not self._is_order_kept:  # the order of registration, which a snapshot has
                self._is_order_kept = True
                undo.append((self._reorder_agents, tuple(self.agents)))
            undo.append((restore_item, self.gone, agent_id, self.gone.get(agent_id)))
            undo.append((self._restore_agent, agent_id, self.agents[agent_id]))
        agent = self.agents.pop(agent_id)
        self.removals += 1
        if agent.owner != agent_id:
            self._count_owned(agent.owner, -1)
        self.gone[agent_id] = agent.generation
        if len(self.gone) > self.policy.limits.removed_agents_max:
            self.generation_floor = max(self.generation_floor, *self.gone.values())
            if undo is not None:
                undo.append((setattr, self, "gone", self.gone))
            self.gone = {}
            self.ordinals.retain(self.agents)
        if agent.window is not None:
            self.dedup.remove(agent_id, agent.window)

    def change_agent(self, agent: Agent, attribute: str, value: object) -> None:
        """Set an attribute of an agent, such as its permissions."""
        if self.undo is not None:
            self.undo.append((setattr, agent, attribute, getattr(agent, attribute)))
        setattr(agent, attribute, value)

    # leases

    def apply_leases(self, intents: Sequence[Intent], now_ns: int) -> None:
        """Apply the lease intents of an admitted batch."""
        apply_intents(self._own_leases(), intents, self.agents, now_ns)

    def drop_ticket(self, agent_id: str, now_ns: int) -> None:
        """Remove the ticket of an agent that is suspended or removed, if it has one."""
        if self.leases is not None and agent_id in self.leases.tickets:
            self._own_leases().release(agent_id, now_ns)

    def _own_leases(self) -> LeaseTable:
        """Return the tickets to change them; a rollback puts the present ones back."""
        assert self.leases is not None, "only a world with leases changes them"
        if self.undo is not None:
            self.undo.append((setattr, self, "leases", self.leases))
            self.leases = self.leases.copy()
        return self.leases

    # executors

    def set_executor(self, kind: str, depth_max: int | None) -> None:
        """Set the bound of the outbox of an effect kind; None removes its executor."""
        if self.undo is not None:
            self.undo.append((restore_item, self.executors, kind, self.executors.get(kind)))
        restore_item(self.executors, kind, depth_max)

    # time

    def end_tick(self) -> None:
        """Begin the next tick."""
        self.tick += 1
        self.group = 0
        self.ordinals.clear()
        for members in self.populations.values():
            members.end_tick()

    # outbox

    def add_effect(self, seq: int, effect_index: int, effect: Pending) -> None:
        """Add an effect to the outbox."""
        if self.undo is not None:
            self.undo.append((self._remove_effect, (seq, effect_index)))
        self._put_effect((seq, effect_index), effect)

    def settle_effect(self, seq: int, effect_index: int) -> None:
        """Remove an effect from the outbox.

        Raises:
            KeyError: The effect is not in the outbox.
        """
        effect = self._remove_effect((seq, effect_index))
        if self.undo is not None:
            self.undo.append((self._put_effect_back, (seq, effect_index), effect))
        if self.marks:
            self._note_marks()
            self.marks.pop((seq, effect_index), None)

    def _remove_effect(self, place: tuple[int, int]) -> Pending:
        effect = self.outbox.pop(place)
        self.outbox_depth[effect.kind] -= 1
        share = (effect.kind, effect.agent_id)
        self.outbox_shares[share] -= 1
        if not self.outbox_shares[share]:
            del self.outbox_shares[share]
        return effect

    def _put_effect_back(self, place: tuple[int, int], effect: Pending) -> None:
        self._put_effect(place, effect)
        self._is_outbox_sorted = False

    def _put_effect(self, place: tuple[int, int], effect: Pending) -> None:
        self.outbox[place] = effect
        self.outbox_depth[effect.kind] = self.outbox_depth.get(effect.kind, 0) + 1
        share = (effect.kind, effect.agent_id)
        self.outbox_shares[share] = self.outbox_shares.get(share, 0) + 1

    def _note_marks(self) -> None:
        """Keep all marks of effects, which are few, in their order."""
        if self.undo is not None:
            self.undo.append((setattr, self, "marks", dict(self.marks)))

    def mark_of(self, seq: int, effect_index: int) -> EffectMark | None:
        """Return the mark of an effect; None if it has none."""
        mark = self.marks.get((seq, effect_index))
        return None if mark is None else mark.what

    def mark_effect(self, seq: int, effect_index: int, mark: Mark) -> None:
        """Mark an effect as started, in doubt or dead.

        Raises:
            KeyError: The effect is not in the outbox.
        """
        self.outbox[seq, effect_index]
        self._note_marks()
        self.marks[seq, effect_index] = mark

    # schedule

    def add_scheduled(self, record: Scheduled) -> None:
        """Add a batch to the schedule.

        Its record is kept without its place in the chain, which is no part of a world.
        """
        if self.undo is not None:
            self.undo.append((self._undo_scheduled, self._remove_scheduled, record.number))
        self.scheduled_seen = record.number
        self._put_scheduled(msgspec.structs.replace(record, prev=GENESIS))

    def _put_scheduled(self, record: Scheduled) -> None:
        """Put a batch into the schedule."""
        self.scheduled[record.number] = record
        share = self.schedule_shares.setdefault(record.submitter, ScheduleShare())
        share.count += 1
        size = scheduled_bytes(record.encoded)
        share.size += size
        self.schedule_size += size
        for heap in (self.schedule, share.heap):
            heappush(heap, (record.due_ns, record.number))

    def pop_scheduled(self, number: int) -> None:
        """Remove a batch from the schedule, usually the first. O(log n), amortized."""
        if self.undo is not None:
            self.undo.append((self._undo_scheduled, self._put_scheduled, self.scheduled[number]))
        self._remove_scheduled(number)

    def _remove_scheduled(self, number: int) -> None:
        record = self.scheduled.pop(number)
        size = scheduled_bytes(record.encoded)
        self.schedule_size -= size
        self._drop_removed(self.schedule, len(self.scheduled))
        share = self.schedule_shares[record.submitter]
        share.count -= 1
        share.size -= size
        if share.count:
            self._drop_removed(share.heap, share.count)
        else:
            del self.schedule_shares[record.submitter]

    def _drop_removed(self, heap: list[tuple[int, int]], count: int) -> None:
        """Drop the entries of removed batches from a heap.

        An entry below the top stays until it is at the top, or until most entries are of removed
        batches.
        """
        while heap and heap[0][1] not in self.scheduled:
            heappop(heap)
        if len(heap) > 2 * count + _GONE_MAX:
            heap[:] = [entry for entry in heap if entry[1] in self.scheduled]
            heapify(heap)

    @property
    def next_due_ns(self) -> int | None:
        """Simulated time of the next scheduled batch, nanoseconds; None if there is none."""
        return self.schedule[0][0] if self.schedule else None

    # undo

    def keep_undo(self, undo: list[Undo | WindowOwner] | None) -> None:
        """Keep how the changes from now on are undone, in a list; None keeps nothing."""
        self.undo = self.dedup.undo = undo
        self._is_order_kept = False

    def scalars(self) -> tuple[object, ...]:
        """Return the attributes that `rewind` sets."""
        scalars: tuple[object, ...] = _SCALARS_OF(self)
        return scalars

    def share_members(self) -> "dict[str, MembersVersion]":
        """Return the present version of each population, copied before its next change."""
        return {name: members.share() for name, members in self.populations.items()}

    def rewind(
        self,
        newest_first: Iterable[list[Undo | WindowOwner]],
        scalars: tuple[object, ...],
        members: "Mapping[str, MembersVersion]",
    ) -> None:
        """Undo changes, and set the scalars. O(changes).

        Where a batch of an agent that was idle for long is undone, also O(agents); O(outbox) where
        a settlement is, and O(n log n) in the schedule where a change of the schedule is.

        Args:
            newest_first: Lists of how changes are undone, each in the order of the changes.
            scalars: Result of `scalars` before the changes.
            members: Result of `share_members` before the changes.
        """
        for undo in newest_first:
            for change in reversed(undo):
                if isinstance(change, tuple):
                    change[0](*change[1:])
                else:
                    self.dedup.take_back(change)
        for name in [*self.populations]:
            if name in members:
                self.populations[name].go_back(members[name])
            else:
                del self.populations[name]
                self.removals += 1
        for name, value in zip(_SCALARS, scalars, strict=True):
            setattr(self, name, value)
        self.dedup.sort_recency()
        if not self._is_outbox_sorted:
            self._is_outbox_sorted = True
            oldest_first = sorted(self.outbox.items())
            self.outbox.clear()
            self.outbox.update(oldest_first)
        if not self._is_schedule_sorted:
            self._is_schedule_sorted = True
            self._rebuild_schedule()

    def _restore_agent(self, agent_id: str, agent: Agent | None) -> None:
        """Undo the registration or the removal of an agent."""
        restore_item(self.agents, agent_id, agent)
        self.removals += 1

    def _undo_scheduled(self, undo: Callable[..., None], *arguments: object) -> None:
        """Undo a change of the schedule; `_rebuild_schedule` puts it in order."""
        undo(*arguments)
        self._is_schedule_sorted = False

    def _rebuild_schedule(self) -> None:
        """Make the heaps anew, without entries of batches that were undone.

        Their numbers are used again, so such an entry would name another batch, due at another
        time.
        """
        by_number = sorted(self.scheduled.items())
        self.scheduled.clear()
        self.scheduled.update(by_number)
        self.schedule[:] = sorted((record.due_ns, number) for number, record in by_number)
        for share in self.schedule_shares.values():
            share.heap.clear()
        for entry in self.schedule:  # a sorted list is a heap
            self.schedule_shares[self.scheduled[entry[1]].submitter].heap.append(entry)

    def _reorder_agents(self, names: tuple[str, ...]) -> None:
        """Put the agents into an earlier order of theirs."""
        agents = [(name, self.agents[name]) for name in names]
        self.agents.clear()
        self.agents.update(agents)
