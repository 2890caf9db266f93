"""The ledger: agents, dedup windows, quotas, schedule and outbox, beside the domains' state.

It changes only by a record that is final, so it needs no undo. `kernel/commit/apply_record.py` is
its only writer, for live decisions and for replay.
"""

from collections import OrderedDict
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from placet.kernel.ledger.dedup_window import DedupEntry, Window
from placet.schemas.codec import Json
from placet.schemas.config import KernelConfig, Quota, permitted_kinds
from placet.schemas.effect import EffectMark
from placet.schemas.limits import Limits
from placet.schemas.log.record import Scheduled

_GONE_MAX: Final = 64
"""So many entries of the heap may be of batches that have left, besides one for each that waits."""


class Agent:
    """An agent's standing.

    Attributes:
        agent_id: Its name.
        index: Dense number given at registration; ties are broken by a mix of it.
        owner: Submitter that may speak for it, besides itself and the operator.
        permissions: Kinds it may use; None is all of them.
        priority_max: Cap on the priority with which its batches are ordered.
        quotas: Its own quotas by kind (`*` = all kinds together), besides the world's.
        tats: GCRA theoretical arrival times in ns, by kind.
        window: Its answered req_ids; None before the first.
        generation: How often the name was registered; more, where that had been forgotten.
    """

    __slots__ = (
        "agent_id",
        "generation",
        "index",
        "is_suspended",
        "owner",
        "permissions",
        "priority_max",
        "quotas",
        "tats",
        "window",
    )

    def __init__(self, agent_id: str, index: int, generation: int = 1) -> None:
        self.agent_id = agent_id
        self.index = index
        self.owner = agent_id
        self.permissions: frozenset[str] | None = None
        self.priority_max = 100
        self.is_suspended = False
        self.quotas: dict[str, Quota] | None = None
        self.tats: dict[str, int] | None = None
        self.window: Window | None = None
        self.generation = generation


class Pending(NamedTuple):
    """An effect that is not settled: `(seq, effect_index)` is its place in the world."""

    kind: str
    payload: dict[str, Json]
    agent_id: str


class Mark(NamedTuple):
    """The mark of an effect that runs at most once, and its reason; empty for a start."""

    what: EffectMark
    why: str


@dataclass(frozen=True, slots=True)
class GateSettings:
    """The settings by which the gate decides; part of the log, so that a replay uses the same.

    A field of a tuple is read at seven times the cost, and a batch reads five.
    """

    staleness_threshold: int | None
    quotas: dict[str, Quota]
    world_quota: Quota | None
    default_permissions: frozenset[str] | None
    limits: Limits

    @classmethod
    def of(cls, config: KernelConfig) -> "GateSettings":
        """Read the policy out of a configuration."""
        return cls(
            config.staleness_threshold,
            {kind: Quota.of(spec) for kind, spec in sorted(config.quotas.items())},
            None if config.world_quota is None else Quota.of(config.world_quota),
            permitted_kinds(config.default_permissions),
            config.limits,
        )


class Ledger:
    """The books of one world.

    Attributes:
        seq: Sequence number of the world.
        now_ns: Latest simulated time seen; never goes back.
        agents: By name.
        agents_seen: How many agents were ever registered: the next index.
        gone: Incarnations of names that were removed, as long as they are remembered.
        generation_floor: No name that is forgotten had a higher generation.
        remembered: req_ids in all windows.
        recency: Agents with a window, least recently used first.
        executors: Effect kind -> bound of its outbox.
        outbox: Effects that are not settled, by (seq, effect_index), oldest first.
        outbox_depth: How many of them by kind.
        marks: Of those that are done at most once and were begun.
        schedule: Heap of `(due_ns, number)`; beneath its top may be some that are gone.
        scheduled: The batches of the schedule, by number.
    """

    __slots__ = (
        "agents",
        "agents_seen",
        "executors",
        "generation_floor",
        "gone",
        "marks",
        "now_ns",
        "outbox",
        "outbox_depth",
        "policy",
        "recency",
        "remembered",
        "schedule",
        "scheduled",
        "scheduled_seen",
        "seq",
        "world_tat",
    )

    def __init__(self, policy: GateSettings) -> None:
        self.policy = policy
        self.seq = 0
        self.now_ns = 0
        self.agents: dict[str, Agent] = {}
        self.agents_seen = 0
        self.gone: dict[str, int] = {}
        self.generation_floor = 0
        self.remembered = 0
        self.recency: OrderedDict[str, None] = OrderedDict()
        self.executors: dict[str, int] = {}
        self.outbox: dict[tuple[int, int], Pending] = {}
        self.outbox_depth: dict[str, int] = {}
        self.marks: dict[tuple[int, int], Mark] = {}
        self.schedule: list[tuple[int, int]] = []
        self.scheduled: dict[int, Scheduled] = {}
        self.scheduled_seen = 0
        self.world_tat = 0

    # agents

    def add_agent(self, agent_id: str) -> Agent:
        """Enter a new agent."""
        generation = self.gone.get(agent_id, self.generation_floor) + 1
        agent = Agent(agent_id, self.agents_seen, generation)
        self.agents[agent_id] = agent
        self.agents_seen += 1
        return agent

    def remove_agent(self, agent_id: str) -> None:
        """Strike an agent out, with all that is remembered of it but its generation.

        When too many removed names are stored, one generation floor stands for all forgotten ones:
        an agent registered under a forgotten name starts above it, so that no old handle is valid
        for it.
        """
        agent = self.agents.pop(agent_id)
        self.gone[agent_id] = agent.generation
        if len(self.gone) > self.policy.limits.removed_agents_max:
            self.generation_floor = max(self.generation_floor, *self.gone.values())
            self.gone.clear()
        if agent.window is not None:
            self.remembered -= agent.window.count
            self.recency.pop(agent_id, None)

    # dedup

    def remember(self, agent: Agent, entry: DedupEntry) -> None:
        """Add an entry to an agent's dedup window, within all bounds."""
        window, limits = agent.window, self.policy.limits
        if window is None:
            window = agent.window = Window()
        self.remembered += window.remember(
            entry, limits.window_ids_max, limits.window_age_ns_max, limits.window_sequences_max
        )
        recency = self.recency
        try:
            recency.move_to_end(agent.agent_id)
        except KeyError:  # its first answer, or its first since it was forgotten
            recency[agent.agent_id] = None
        if self.remembered > limits.dedup_entries_max:
            self._forget(limits)

    def _forget(self, limits: Limits) -> None:
        """Empty the windows of the least recent agents; the most recent keeps its newest answer."""
        while self.remembered > limits.dedup_entries_max:
            agent_id = next(iter(self.recency))
            window = self.agents[agent_id].window
            assert window is not None, "an agent in `recency` has a window"
            is_last = len(self.recency) == 1
            if is_last and len(window.answers) == 1:
                return
            before = window.count
            window.forget_oldest(limits.window_sequences_max)
            self.remembered -= before - window.count
            if not window.answers:
                del self.recency[agent_id]

    # outbox

    def add_effect(self, seq: int, effect_index: int, effect: Pending) -> None:
        """Put an effect into the outbox."""
        self.outbox[seq, effect_index] = effect
        self.outbox_depth[effect.kind] = self.outbox_depth.get(effect.kind, 0) + 1

    def settle_effect(self, seq: int, effect_index: int) -> None:
        """Take an effect out of the outbox.

        Raises:
            KeyError: It is not there (any more).
        """
        effect = self.outbox.pop((seq, effect_index))
        self.outbox_depth[effect.kind] -= 1
        if self.marks:
            self.marks.pop((seq, effect_index), None)

    def mark_of(self, seq: int, effect_index: int) -> EffectMark | None:
        """Return how an effect is marked."""
        mark = self.marks.get((seq, effect_index))
        return None if mark is None else mark.what

    def mark_effect(self, seq: int, effect_index: int, mark: Mark) -> None:
        """Note that an effect was started, or came to be in doubt.

        Raises:
            KeyError: It is not in the outbox (any more).
        """
        self.outbox[seq, effect_index]
        self.marks[seq, effect_index] = mark

    # schedule

    def add_scheduled(self, record: Scheduled) -> None:
        """Put a batch into the schedule."""
        self.scheduled_seen = record.number
        self.scheduled[record.number] = record
        heappush(self.schedule, (record.due_ns, record.number))

    def pop_scheduled(self, number: int) -> None:
        """Take a batch out of the schedule, usually the first. O(log n), amortized.

        The entry of another stays in the heap until it comes to the top, or most are such.
        """
        del self.scheduled[number]
        while self.schedule and self.schedule[0][1] not in self.scheduled:
            heappop(self.schedule)
        if len(self.schedule) > 2 * len(self.scheduled) + _GONE_MAX:
            self.schedule[:] = [entry for entry in self.schedule if entry[1] in self.scheduled]
            heapify(self.schedule)

    @property
    def next_due_ns(self) -> int | None:
        """When the next scheduled batch is due; None if the schedule is empty."""
        return self.schedule[0][0] if self.schedule else None
