"""An observer with simulated latency, and its delay queue.

    ObserverHub.publish > sample, into the delay queue > simulated time passes > next

The observer samples every commit and delivers the sample after the configured delay. So an
observation shows the state at one seq as it was that long ago, however often the agent asks. Where
the latency depends on distance, each entity is shown with the delay of its distance. When the
queue is full, changes stay in the dirty set and are conflated there: they are delivered later than
configured, never earlier.
"""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager
from heapq import heappop, heappush
from itertools import count
from typing import Final, NamedTuple, Self

import anyio
import msgspec

from placet.actors.observation.observer import Begin, Host, Observer
from placet.kernel.prng import random_unit
from placet.schemas.errors import INTERRUPTS, ClosedError, StoreError, TimeStalledError
from placet.schemas.identity import Ref
from placet.schemas.latency import ByDistance, Latency, delay_ns
from placet.schemas.limits import ObserverLimits
from placet.schemas.view import Change, DeliveredEvent, Observation


class Part(NamedTuple):
    """A part of the state sampled at one commit: changes and events with the same delay.

    Attributes:
        due_ns: When to deliver them, in simulated nanoseconds.
        changes: Changes of entities.
        events: Events delivered to the agent.
    """

    due_ns: int
    changes: tuple[Change, ...]
    events: tuple[DeliveredEvent, ...]


class _Sample:
    """The undelivered parts of one sample."""

    __slots__ = ("before_seq", "changes", "observation", "parts")

    def __init__(self, observation: Observation, before_seq: int, parts: int) -> None:
        self.observation = observation
        self.before_seq = before_seq
        self.parts = parts
        self.changes = len(observation.changes)


class DelayQueue:
    """A queue of one observer's samples that are not yet due; the caller passes the time.

    A sample is put in as parts, each with its own due time; the parts of one sample that are due
    at the same time become one observation. A part is never delivered before its due time. The
    caller keeps the parts of one entity in order: the queue orders by due time only.

    Attributes:
        size: Number of changes and events in the queue.
    """

    __slots__ = ("_delivered_at", "_due", "_numbers", "_samples", "_upto_seq", "_waiting", "size")

    def __init__(self) -> None:
        self._numbers = count()
        self._samples: dict[int, _Sample] = {}
        self._waiting: list[tuple[int, int, int, Part]] = []
        self._due: list[tuple[int, int, Part]] = []
        self._upto_seq = -1
        self._delivered_at = 0.0
        self.size = 0

    @property
    def due_ns(self) -> int | None:
        """When the next part is due, in simulated nanoseconds; None if the queue is empty."""
        return self._waiting[0][0] if self._waiting else None

    def put(self, observation: Observation, before_seq: int, parts: Iterable[Part]) -> None:
        """Add one sample, divided into parts that cover all of it.

        Args:
            observation: The sample.
            before_seq: `view_seq` of the sample before it.
            parts: The parts, each with its due time.
        """
        number, parts = next(self._numbers), tuple(parts)
        self._samples[number] = _Sample(observation, before_seq, len(parts))
        self._upto_seq = observation.view_seq
        for part in parts:
            heappush(self._waiting, (part.due_ns, number, next(self._numbers), part))
            self.size += len(part.changes) + len(part.events)

    def take(self, now_ns: int) -> Observation | None:
        """Remove the due parts of the oldest sample that has any; return them as one observation.

        None if nothing is due at `now_ns`, simulated nanoseconds.
        """
        while self._waiting and self._waiting[0][0] <= now_ns:
            _, number, order, part = heappop(self._waiting)
            heappush(self._due, (number, order, part))
        if not self._due:
            return None
        number, parts = self._due[0][0], []
        while self._due and self._due[0][0] == number:
            parts.append(heappop(self._due)[2])
        sample = self._samples[number]
        changes = tuple([change for part in parts for change in part.changes])
        events = tuple([event for part in parts for event in part.events])
        sample.parts -= len(parts)
        sample.changes -= len(changes)
        self.size -= len(changes) + len(events)
        if not sample.parts:
            del self._samples[number]
        self._delivered_at = max(self._delivered_at, sample.observation.sim_time)
        return msgspec.structs.replace(
            sample.observation,
            view_seq=self._delivered_seq,
            sim_time=self._delivered_at,
            changes=changes,
            events=events,
            deferred_count=sample.observation.deferred_count + self._undelivered_changes(number),
        )

    @property
    def _delivered_seq(self) -> int:
        """Return the seq before the oldest incomplete sample: all up to it was delivered."""
        oldest = next(iter(self._samples.values()), None)
        return self._upto_seq if oldest is None else oldest.before_seq

    def _undelivered_changes(self, number: int) -> int:
        """Count the undelivered changes of the samples up to and including a number."""
        count_before = 0
        for other, sample in self._samples.items():
            if other > number:
                break
            count_before += sample.changes
        return count_before


_GONE_MAX: Final = 64


class Time(NamedTuple):
    """The simulated time of a world, as observers use it.

    Attributes:
        now_ns: Returns the present time in simulated nanoseconds.
        sleep_until: Waits until a simulated time in nanoseconds.
        idle: Context of a wait for observations; simulated time may advance meanwhile.
        seed: The world's seed, for random delays.
    """

    now_ns: Callable[[], int]
    sleep_until: Callable[[int], Awaitable[None]]
    idle: Callable[[], AbstractContextManager[None]]
    seed: int


class DelayedObserver(Observer):
    """The observer of one agent with delayed observations. Created by `ObserverHub.observer`."""

    def __init__(
        self,
        host: Host,
        agent_id: str,
        begin: Begin,
        limits: ObserverLimits,
        bytes_max: int | None,
        *,
        latency: Latency,
        time: Time,
    ) -> None:
        super().__init__(host, agent_id, begin, limits, bytes_max)
        self._latency = latency
        self._time = time
        self._queue = DelayQueue()
        self._held_max = limits.marks_max
        self._failure: BaseException | None = None
        # Latency by distance: the last known distance of each entity, and the due time of its
        # latest change. A newer change of an entity must not be delivered before an older one.
        self._distances: dict[str, float] = {}
        self._dues: dict[str, int] = {}
        self._event_due_ns = 0
        self._floor_ns = 0  # nothing is due before the last snapshot
        self._due_max_ns = 0

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.sample()  # the latency counts from here, not from the first read
        return self

    def sample(self) -> None:
        """Compare the marked entities with the last sample, and queue the differences.

        Called after every commit; costs O(marked entities). An exception of a domain's visibility
        rule is raised by the agent's next call of `look`; other observers are not affected.
        """
        if self._open_state is None:
            return
        try:
            while not (self.dirty_set.is_empty or self._queue.size >= self._held_max):
                before_seq = self._seen_seq
                observation = self._observe()
                if observation is not None:
                    self._queue.put(observation, before_seq, self._parts(observation))
        except INTERRUPTS:
            raise
        except BaseException as error:  # noqa: BLE001  # a domain's rule, raised by `look`
            self._failure = error

    async def next(self) -> Observation | None:
        """Wait for a due observation and return it; the first is a snapshot.

        None once it has ended.
        """
        while not self.end:
            self._host.require_home()
            observation = self.look()
            if observation is not None:
                return observation
            await self.wait_changed()
        return None

    def look(self) -> Observation | None:
        """Return the due observation without waiting; None if none is due."""
        self.sample()  # changes the queue had no room for
        observation = self._queue.take(self._time.now_ns())
        if observation is not None:
            self.view_seq = observation.view_seq
        elif self._failure is not None:
            raise self._failure
        return observation

    async def wait_changed(self) -> None:
        """Wait until more is queued, the next part is due, or the observer has ended."""
        self._host.require_home()
        due_ns = self._queue.due_ns
        if due_ns is None:
            await super().wait_changed()
            return
        async with anyio.create_task_group() as group:
            group.start_soon(self._wake_at, due_ns)
            await super().wait_changed()
            group.cancel_scope.cancel()

    async def _wake_at(self, due_ns: int) -> None:
        try:
            await self._time.sleep_until(due_ns)
        except (ClosedError, StoreError):
            return  # the world has ended and finishes its observers
        except TimeStalledError as stalled:
            self._failure = stalled
        self.wake()

    # due times

    def _parts(self, observation: Observation) -> list[Part]:
        now_ns = self._visible.published.now_ns
        if isinstance(self._latency, ByDistance) and observation.kind == "delta":
            parts = self._parts_by_distance(observation, now_ns)
            self._due_max_ns = max(self._due_max_ns, *[part.due_ns for part in parts])
            return parts
        delay = self._delay_of_sample(observation)
        self._due_max_ns = self._floor_ns = max(self._due_max_ns, now_ns + delay)
        return [Part(self._floor_ns, observation.changes, observation.events)]

    def _delay_of_sample(self, observation: Observation) -> int:
        """Return the delay of a whole sample, in nanoseconds.

        With `ByDistance`, a snapshot has the delay of its farthest entity.
        """
        if isinstance(self._latency, ByDistance):
            self._distances.clear()
            far = max((self._distance_of(change) for change in observation.changes), default=0.0)
            return delay_ns(self._latency, 0.0, far)
        seq = self._visible.published.seq
        chance = random_unit(self._time.seed, 0, 0, seq, "latency", self.agent_id)
        return delay_ns(self._latency, chance, 0.0)

    def _parts_by_distance(self, observation: Observation, now_ns: int) -> list[Part]:
        """Divide a sample by due time: each change has the delay of its entity's distance.

        A change is never due before an older change of the same entity, nor before the snapshot.
        """
        parts_by_due: dict[int, tuple[list[Change], list[DeliveredEvent]]] = {}
        for change in observation.changes:
            delay = delay_ns(self._latency, 0.0, self._distance_of(change))
            before_ns = max(self._floor_ns, self._dues.get(change.entity, 0))
            due_ns = self._dues[change.entity] = max(before_ns, now_ns + delay)
            parts_by_due.setdefault(due_ns, ([], []))[0].append(change)
        for event in observation.events:
            delay = delay_ns(self._latency, 0.0, self._distance_to(event.agent_id))
            before_ns = max(self._floor_ns, self._event_due_ns)
            due_ns = self._event_due_ns = max(before_ns, now_ns + delay)
            parts_by_due.setdefault(due_ns, ([], []))[1].append(event)
        if len(self._dues) > self._queue.size + _GONE_MAX:
            self._dues = {name: due for name, due in self._dues.items() if due > now_ns}
        return [Part(due, tuple(changes), tuple(e)) for due, (changes, e) in parts_by_due.items()]

    def _distance_of(self, change: Change) -> float:
        """Return the distance of a changed entity; of a removed one, its last known distance."""
        if change.op == "removed":
            return self._distances.pop(change.entity, 0.0)
        collection, _, entity = change.entity.partition("/")
        distance = self._visible.distance(self.agent_id, Ref(collection, entity)) or 0.0
        self._distances[change.entity] = distance
        return distance

    def _distance_to(self, agent_id: str) -> float:
        """Return the distance of the agent that caused an event."""
        entity = self._visible.own_entity(agent_id)
        if entity is None:
            return 0.0
        distance = self._visible.distance(self.agent_id, entity)
        if distance is None:  # the entity was removed
            return self._distances.get(f"{entity.collection}/{entity.entity}", 0.0)
        return distance
