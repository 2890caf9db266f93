"""Observers: each agent's picture of the world, kept true by snapshots and deltas.

    committer > ObserverHub.publish > marks in each observer's inbox > Observer.next, at its own pace

What an observer is told is worked out when it looks, against what it was told before, on the
published copy of the state. So it is a cut at one seq, holds nothing that is hidden, and a slow
observer costs the others nothing: of it there are only marks. The copy is kept while somebody
observes, and a world in which nobody does pays one comparison per commit.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from placet.actors.observation.delayed_observer import DelayedObserver, Time
from placet.actors.observation.interest import VisibleState
from placet.actors.observation.observer import Begin, Observer
from placet.actors.observation.replica import ReadReplica
from placet.kernel.kernel import Kernel
from placet.kernel.registry import Registry
from placet.kernel.state.tree import State
from placet.schemas.batch import recorded_batch
from placet.schemas.errors import INTERRUPTS
from placet.schemas.identity import Ref
from placet.schemas.intent import Intent
from placet.schemas.latency import Latency
from placet.schemas.limits import ObserverLimits
from placet.schemas.log.record import Admitted, AgentChanged, LogGroup, decode_record
from placet.schemas.view import DeliveredEvent


class ObserverHub:
    """The observers of one world.

    Args:
        registry: Whose domains say who may see what.
        on_fault: Told of a domain whose judgement raised as a group was published; all observers
            are then asked about everything.
        time: For observers behind a latency; told of all who wait for something to see.

    Attributes:
        overflows: How often an inbox overflowed, of all observers that ever were.
        rest: Around a wait for something to see.
    """

    def __init__(
        self, registry: Registry, on_fault: Callable[[str, BaseException], None], time: Time
    ) -> None:
        self._registry = registry
        self._on_fault = on_fault
        self._time = time
        self.rest = time.rest
        self._late: dict[DelayedObserver, None] = {}
        self._observers: dict[str, list[Observer]] = {}
        self._count = 0
        self._visible: VisibleState | None = None
        self._event_kinds = tuple(kind.name.encode() for kind in registry if kind.broadcast)
        self._is_closed = False
        self._overflows_before = 0

    @property
    def is_watched(self) -> bool:
        """There is a copy to be kept true."""
        return self._visible is not None

    @property
    def count(self) -> int:
        """How many observers there are."""
        return self._count

    @property
    def lag_seqs(self) -> int:
        """How far the slowest observer is behind, in seqs."""
        if self._visible is None:
            return 0
        seq = self._visible.published.seq
        waiting = (o for o in self._all_observers() if not o.dirty_set.is_empty and o.view_seq >= 0)
        return max((seq - observer.view_seq for observer in waiting), default=0)

    @property
    def overflows(self) -> int:
        """How often an inbox overflowed."""
        now = sum(observer.dirty_set.overflows for observer in self._all_observers())
        return self._overflows_before + now

    @property
    def state(self) -> State | None:
        """The published state; None while nobody observes."""
        return None if self._visible is None else self._visible.published.state

    def observer(
        self,
        agent_id: str,
        begin: Begin,
        limits: ObserverLimits | None = None,
        bytes_max: int | None = None,
        latency: Latency | None = None,
    ) -> Observer:
        """Make an observer for an agent, to be opened as an async context manager.

        Args:
            agent_id: As whom; `begin` checks that it may.
            begin: Carries out something in the orchestrator's turn, and returns once all that it
                could see is durable.
            limits: How much may wait.
            bytes_max: Budget of one observation; None is no budget.
            latency: How late all comes; None is as soon as it is durable.
        """
        limits = limits or ObserverLimits()
        if latency is None:
            return Observer(self, agent_id, begin, limits, bytes_max)
        time = self._time
        return DelayedObserver(self, agent_id, begin, limits, bytes_max, latency=latency, time=time)

    def publish(self, group: LogGroup) -> None:
        """Take in a durable group. Costs what it changed, and who is near that."""
        published = self._watched().published
        seq_before = published.seq
        skip = published.record - group.first_record
        changed: dict[Ref, None] = {}
        removed: list[str] = []
        heard: list[tuple[Intent, int]] = []
        for data in group.records[max(0, skip) :]:
            record = decode_record(data)
            changed.update(dict.fromkeys(published.fold(record)))
            if isinstance(record, AgentChanged) and record.what == "removed":
                removed.append(record.agent_id)
            elif self._event_kinds and isinstance(record, Admitted):
                heard += self._events_of(record)
        if changed:
            self._mark(list(changed), seq_before)
        for intent, seq in heard:
            self._tell(intent, seq)
        for agent_id in removed:
            for observer in self._observers.get(agent_id, ()):
                observer.finish("removed")
        for late in self._late:  # when all of the group is marked: a look is a cut
            late.take_in()

    def close(self) -> None:
        """Let every observer stop."""
        self._is_closed = True
        for observer in self._all_observers():
            observer.finish("closed")

    # who observes

    async def admit(self, observer: Observer, begin: Begin) -> VisibleState:
        """Take an observer in, and make the copy in the orchestrator's turn if there is none.

        It is counted before that turn, so that the copy is kept from when it is made.
        """
        self._observers.setdefault(observer.agent_id, []).append(observer)
        self._count += 1
        if isinstance(observer, DelayedObserver):
            self._late[observer] = None
        try:
            await begin(self._copy)
        except BaseException:
            self.dismiss(observer)
            raise
        if self._is_closed:
            observer.finish("closed")
        visible = self._watched()
        visible.interest.join(visible.published.state, observer.agent_id)
        return visible

    def dismiss(self, observer: Observer) -> None:
        """Let an observer go, and with the last the copy."""
        mine = self._observers[observer.agent_id]
        mine.remove(observer)
        self._count -= 1
        if isinstance(observer, DelayedObserver):
            del self._late[observer]
        self._overflows_before += observer.dirty_set.overflows
        if not mine:
            del self._observers[observer.agent_id]
            if self._visible is not None:
                self._visible.interest.leave(observer.agent_id)
        if not self._observers:
            self._visible = None

    def _copy(self, kernel: Kernel) -> None:
        if self._visible is None:
            self._visible = VisibleState(self._registry, ReadReplica(kernel))

    def _watched(self) -> VisibleState:
        assert self._visible is not None, "there is a copy while somebody observes"
        return self._visible

    # publishing

    def _mark(self, changed: Sequence[Ref], seq: int) -> None:
        """Mark what changed after a seq for those whom it may concern."""
        visible = self._watched()
        try:
            for agent_ids, refs in visible.interest.concerns(visible.published.state, changed):
                self._mark_for(agent_ids, refs, seq)
        except INTERRUPTS:
            raise
        except BaseException as error:  # noqa: BLE001  # a domain's judgement, reported; the world lives
            self._on_fault("sight", error)
            visible.judge_all_anew()
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
            return []  # most batches tell of nothing, and are not looked into
        kinds = self._registry.kinds
        intents, applied = recorded_batch(record).intents, dict(record.normalized or ())
        return [
            ({**intents[n], "payload": applied.get(n, intents[n]["payload"])}, record.seq)
            for n in record.order or range(len(intents))  # as they took effect
            if kinds[intents[n]["kind"]].broadcast
        ]

    def _tell(self, intent: Intent, seq: int) -> None:
        """Tell of an intent those who hear it."""
        visible, speaker = self._watched(), intent["agent_id"]
        domain = self._registry.domain_of[intent["kind"]]
        heard = DeliveredEvent(seq, speaker, intent["kind"], intent["payload"])
        listeners = visible.interest.listeners(speaker)
        try:
            for agent_id in self._observers if listeners is None else listeners:
                observers = self._observers.get(agent_id)
                if observers and domain.should_deliver(visible.published.state, agent_id, intent):
                    for observer in observers:
                        observer.dirty_set.tell(heard)
                        observer.wake()
        except INTERRUPTS:
            raise
        except BaseException as error:  # noqa: BLE001  # likewise
            self._on_fault(f"hears of {domain.name}", error)

    def _all_observers(self) -> list[Observer]:
        return [observer for several in self._observers.values() for observer in several]
