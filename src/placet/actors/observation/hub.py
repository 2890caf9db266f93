"""Observers: each agent's view of the world, kept current by snapshots and deltas.

    committer > ObserverHub.publish > marks in each observer's dirty set > Observer.next

An observation is computed when the observer is read: it compares the previous observation with
the published replica. So it is consistent at one seq, contains nothing hidden, and a slow observer
costs only its marks. The replica exists while there is an observer; a world without observers
pays one comparison per commit.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from placet.actors.observation.delayed_observer import DelayedObserver, Time
from placet.actors.observation.interest import VisibleState
from placet.actors.observation.observer import Begin, Observer
from placet.actors.observation.replica import ReadReplica
from placet.kernel.kernel import Kernel
from placet.kernel.plugin.registry import Registry
from placet.kernel.recorded_batch import recorded_batch
from placet.kernel.state.tree import State
from placet.schemas.errors import INTERRUPTS
from placet.schemas.identity import Ref
from placet.schemas.intent import Intent
from placet.schemas.latency import Latency
from placet.schemas.limits import ObserverLimits
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import Admitted, LogAppend, agents_of, decode_record
from placet.schemas.view import DeliveredEvent


class ObserverHub:
    """All observers of one world, and the state replica that they compare.

    Args:
        registry: The world's domains, with the visibility rules of agents.
        on_fault: Called when a domain's visibility rule raised while a group was published; all
            observers then compare everything.
        time: Simulated time, for delayed observers and for waits.

    Attributes:
        is_observed: There is an observer, and so a replica to update.
        idle: Context of a wait for observations; simulated time may advance meanwhile.
        require_home: Checks that a caller who would wait runs in the world's event loop.
    """

    def __init__(
        self, registry: Registry, on_fault: Callable[[str, BaseException], None], time: Time
    ) -> None:
        self._registry = registry
        self._on_fault = on_fault
        self._time = time
        self.idle = time.idle
        self.require_home: Callable[[], None] = _anywhere
        self._delayed: dict[DelayedObserver, None] = {}
        self._observers: dict[str, list[Observer]] = {}
        self._count = 0
        self._visible: VisibleState | None = None
        self._event_kinds = tuple(kind.name.encode() for kind in registry if kind.broadcast)
        self.is_observed = False
        self._is_closed = False
        self._overflows_before = 0

    @property
    def count(self) -> int:
        """Number of open observers."""
        return self._count

    @property
    def lag_seqs(self) -> int:
        """Number of seqs by which the slowest observer is behind.

        Safe to read from another thread.
        """
        visible = self._visible
        if visible is None:
            return 0
        seq = visible.published.seq
        waiting = (o for o in self._all_observers() if not o.dirty_set.is_empty and o.view_seq >= 0)
        return max((seq - observer.view_seq for observer in waiting), default=0)

    @property
    def overflows(self) -> int:
        """Number of dirty-set overflows, over all observers ever opened."""
        now = sum(observer.dirty_set.overflows for observer in self._all_observers())
        return self._overflows_before + now

    @property
    def state(self) -> State | None:
        """The replica's state; None while there is no observer."""
        return None if self._visible is None else self._visible.published.state

    def observer(
        self,
        agent_id: str,
        begin: Begin,
        limits: ObserverLimits | None = None,
        bytes_max: int | None = None,
        latency: Latency | None = None,
    ) -> Observer:
        """Create an observer for an agent, to be entered as an async context manager.

        Args:
            agent_id: The agent; `begin` checks that it may observe.
            begin: Runs a function in the orchestrator's turn, and returns once everything the
                function could see is durable.
            limits: Bounds of the pending changes and events.
            bytes_max: Byte budget of one observation; None is unlimited.
            latency: Delay of observations; None delivers as soon as a change is durable.
        """
        limits = limits or ObserverLimits()
        if latency is None:
            return Observer(self, agent_id, begin, limits, bytes_max)
        time = self._time
        return DelayedObserver(self, agent_id, begin, limits, bytes_max, latency=latency, time=time)

    def publish(self, append: LogAppend) -> None:
        """Apply a durable append to the replica, and mark its changes for observers.

        Costs O(changed entities and the observers near them).
        """
        published = self._open_visible().published
        seq_before = published.seq
        skip = published.record - append.first_record
        changed: dict[Ref, None] = {}
        removed: list[str] = []
        events: list[tuple[Intent, int]] = []
        for data in append.records[max(0, skip) :]:
            records = expanded(decode_record(data))
            changed.update(dict.fromkeys(published.fold(records)))
            for record in records:
                removed += [one.agent_id for one in agents_of(record) if one.is_removed]
                if self._event_kinds and isinstance(record, Admitted):
                    events += self._events_of(record)
        if changed:
            self._mark(list(changed), seq_before)
        for intent, seq in events:
            self._deliver(intent, seq)
        for agent_id in removed:
            for observer in self._observers.get(agent_id, ()):
                observer.finish("removed")
        for delayed in self._delayed:  # after the whole group is marked: a sample is one seq
            delayed.sample()

    def close(self) -> None:
        """End every observer."""
        self._is_closed = True
        for observer in self._all_observers():
            observer.finish("closed")

    # observers

    async def attach(self, observer: Observer, begin: Begin) -> VisibleState:
        """Register an observer and return the visible state that it reads, once it is durable.

        Creates the replica in the orchestrator's turn if there is none.

        The observer is counted before that turn, so that no commit after it misses the replica.
        """
        self._observers.setdefault(observer.agent_id, []).append(observer)
        self._count += 1
        if isinstance(observer, DelayedObserver):
            self._delayed[observer] = None
        try:
            await begin(self._copy)
        except BaseException:
            self.detach(observer)
            raise
        if self._is_closed:
            observer.finish("closed")
        visible = self._open_visible()
        visible.interest.add_observer(visible.published.state, observer.agent_id)
        return visible

    def detach(self, observer: Observer) -> None:
        """Unregister an observer; the last one drops the replica."""
        observers = self._observers[observer.agent_id]
        observers.remove(observer)
        self._count -= 1
        if isinstance(observer, DelayedObserver):
            del self._delayed[observer]
        self._overflows_before += observer.dirty_set.overflows
        if not observers:
            del self._observers[observer.agent_id]
            if self._visible is not None:
                self._visible.interest.remove_observer(observer.agent_id)
        if not self._observers:
            self._visible = None
            self.is_observed = False

    def _copy(self, kernel: Kernel) -> None:
        if self._visible is None:
            self._visible = VisibleState(self._registry, ReadReplica(kernel))
            self.is_observed = True

    def _open_visible(self) -> VisibleState:
        assert self._visible is not None, "there is a replica while there is an observer"
        return self._visible

    # publishing

    def _mark(self, changed: Sequence[Ref], seq: int) -> None:
        """Mark the entities that changed after a seq, for the observers they may affect."""
        visible = self._open_visible()
        try:
            for agent_ids, refs in visible.interest.affected(visible.published.state, changed):
                self._mark_for(agent_ids, refs, seq)
        except INTERRUPTS:
            raise
        except BaseException as error:  # noqa: BLE001  # a domain's rule, reported; the world continues
            self._on_fault("sight", error)
            visible.disable_indexes()
            self._mark_for(None, None, seq)

    def _mark_for(
        self, agent_ids: Collection[str] | None, refs: Iterable[Ref] | None, seq: int
    ) -> None:
        observers = self._observers
        for agent_id in observers if agent_ids is None else agent_ids:
            for observer in observers.get(agent_id, ()):
                if refs is None:
                    observer.dirty_set.mark_all()
                else:
                    observer.dirty_set.mark(refs, seq)
                if not observer.dirty_set.is_empty:
                    observer.wake()

    def _events_of(self, record: Admitted) -> list[tuple[Intent, int]]:
        encoded = record.encoded
        if not any(kind in encoded for kind in self._event_kinds):
            return []  # cheap test: most batches have no event, and parsing them is costly
        kinds = self._registry.kinds
        intents, payloads = recorded_batch(record).intents, dict(record.normalized or ())
        return [
            ({**intents[n], "payload": payloads.get(n, intents[n]["payload"])}, record.seq)
            for n in record.order or range(len(intents))  # in apply order
            if kinds[intents[n]["kind"]].broadcast
        ]

    def _deliver(self, intent: Intent, seq: int) -> None:
        """Add the event of an applied intent to the dirty sets of the agents that hear it."""
        visible, sender = self._open_visible(), intent["agent_id"]
        domain = self._registry.domain_of[intent["kind"]]
        event = DeliveredEvent(seq, sender, intent["kind"], intent["payload"])
        listeners = visible.interest.listeners(visible.published.state, sender)
        try:
            for agent_id in self._observers if listeners is None else listeners:
                observers = self._observers.get(agent_id)
                if observers and domain.should_deliver(visible.published.state, agent_id, intent):
                    for observer in observers:
                        observer.dirty_set.add_event(event)
                        observer.wake()
        except INTERRUPTS:
            raise
        except BaseException as error:  # noqa: BLE001  # a domain's rule, reported; the world continues
            self._on_fault(f"hears of {domain.name}", error)

    def _all_observers(self) -> list[Observer]:
        # A copy is atomic: another thread may ask for a metric while an observer comes or goes.
        return [observer for observers in list(self._observers.values()) for observer in observers]


def _anywhere() -> None:
    """Check nothing: observers of a world without actors are woken wherever they wait."""
