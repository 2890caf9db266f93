"""Eyes to which all comes late: they look at every commit, and show it when its time has come.

    ObserverHub.publish > take_in: a look, and into the line > simulated time passes > next

So what is shown is what was to be seen so long ago: a cut at one seq, however slow or quick the
agent is. Where the latency is by distance, each entity is shown as it was its own time ago. What
the line has no room for stays in the inbox and is conflated there: it comes later, and never early.
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
    """Some of what one look saw, to be shown together.

    Attributes:
        due_ns: From when on, in simulated nanoseconds.
        changes: Of entities.
        events: What was heard.
    """

    due_ns: int
    changes: tuple[Change, ...]
    events: tuple[DeliveredEvent, ...]


class _Look:
    """What is left of one look."""

    __slots__ = ("before_seq", "changes", "observation", "parts")

    def __init__(self, observation: Observation, before_seq: int, parts: int) -> None:
        self.observation = observation
        self.before_seq = before_seq
        self.parts = parts
        self.changes = len(observation.changes)


class DelayQueue:
    """The line of one observer.

    Attributes:
        held: How many changes and events are in it.
    """

    __slots__ = ("_due", "_looks", "_numbers", "_shown_at", "_upto_seq", "_waiting", "held")

    def __init__(self) -> None:
        self._numbers = count()
        self._looks: dict[int, _Look] = {}
        self._waiting: list[tuple[int, int, int, Part]] = []
        self._due: list[tuple[int, int, Part]] = []
        self._upto_seq = -1
        self._shown_at = 0.0
        self.held = 0

    @property
    def due_ns(self) -> int | None:
        """When the next part is to be shown; None if none waits."""
        return self._waiting[0][0] if self._waiting else None

    def put(self, observation: Observation, before_seq: int, parts: Iterable[Part]) -> None:
        """Put in what one look saw, in parts; they are all of it.

        Args:
            observation: What it saw.
            before_seq: `view_seq` of the look before it.
            parts: When each part of it is to be shown.
        """
        number, together = next(self._numbers), list(parts)
        self._looks[number] = _Look(observation, before_seq, len(together))
        self._upto_seq = observation.view_seq
        for part in together:
            heappush(self._waiting, (part.due_ns, number, next(self._numbers), part))
            self.held += len(part.changes) + len(part.events)

    def take(self, now_ns: int) -> Observation | None:
        """Take out what is due of the oldest look of which anything is; None if nothing is."""
        while self._waiting and self._waiting[0][0] <= now_ns:
            _, number, order, part = heappop(self._waiting)
            heappush(self._due, (number, order, part))
        if not self._due:
            return None
        number, parts = self._due[0][0], []
        while self._due and self._due[0][0] == number:
            parts.append(heappop(self._due)[2])
        look = self._looks[number]
        changes = tuple([change for part in parts for change in part.changes])
        events = tuple([event for part in parts for event in part.events])
        look.parts -= len(parts)
        look.changes -= len(changes)
        self.held -= len(changes) + len(events)
        if not look.parts:
            del self._looks[number]
        self._shown_at = max(self._shown_at, look.observation.sim_time)
        return msgspec.structs.replace(
            look.observation,
            view_seq=self._shown_seq,
            sim_time=self._shown_at,
            changes=changes,
            events=events,
            deferred_count=look.observation.deferred_count + self._late(number),
        )

    @property
    def _shown_seq(self) -> int:
        """Up to where everything was shown: before the oldest look that is not wholly out."""
        oldest = next(iter(self._looks.values()), None)
        return self._upto_seq if oldest is None else oldest.before_seq

    def _late(self, number: int) -> int:
        """Count the changes that are not shown though they are no younger than what is."""
        late = 0
        for other, look in self._looks.items():
            if other > number:
                break
            late += look.changes
        return late


_GONE_MAX: Final = 64


class Time(NamedTuple):
    """Simulated time, as observers need it.

    Attributes:
        now_ns: Gives it.
        sleep_until: Waits for a moment of it.
        rest: Around a wait for something to see, which holds up nobody's time.
        seed: Of the world, for what is drawn.
    """

    now_ns: Callable[[], int]
    sleep_until: Callable[[int], Awaitable[None]]
    rest: Callable[[], AbstractContextManager[None]]
    seed: int


class DelayedObserver(Observer):
    """One agent's eyes, behind a latency. Made by `ObserverHub.observer`."""

    __slots__ = (
        "_distances",
        "_due_max_ns",
        "_dues",
        "_event_due_ns",
        "_failure",
        "_floor_ns",
        "_held_max",
        "_latency",
        "_line",
        "_time",
    )

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
        self._line = DelayQueue()
        self._held_max = limits.marks_max
        self._failure: BaseException | None = None
        # Where it is by distance: how far a thing was when it was last seen, and when what was last
        # seen of it is due, which nothing newer of it may overtake.
        self._distances: dict[str, float] = {}
        self._dues: dict[str, int] = {}
        self._event_due_ns = 0
        self._floor_ns = 0  # nothing is due before the last snapshot is
        self._due_max_ns = 0

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.take_in()  # the latency counts from here, whenever it is asked first
        return self

    def take_in(self) -> None:
        """See what is to be seen, and put it in line. Costs what was marked; called every commit.

        A domain's judgement that raises is raised where the agent asks, and stops nobody else.
        """
        if self._open_scene is None:
            return
        try:
            while not (self.dirty_set.is_empty or self._line.held >= self._held_max):
                before_seq = self._seen_seq
                observation = self._see()
                if observation is not None:
                    self._line.put(observation, before_seq, self._parts(observation))
        except INTERRUPTS:
            raise
        except BaseException as error:  # noqa: BLE001  # a domain's judgement, raised out of `next`
            self._failure = error

    async def next(self) -> Observation | None:
        """Wait until something has come through, and give it; the first is a snapshot."""
        while not self.end:
            observation = self.look()
            if observation is not None:
                return observation
            await self.news()
        return None

    def look(self) -> Observation | None:
        """Take what has come through; None if nothing has."""
        self.take_in()  # what the line had no room for
        observation = self._line.take(self._time.now_ns())
        if observation is not None:
            self.view_seq = observation.view_seq
        elif self._failure is not None:
            raise self._failure
        return observation

    async def news(self) -> None:
        """Wait until more is in line, or the next of it is due, or it is over."""
        due_ns = self._line.due_ns
        if due_ns is None:
            await super().news()
            return
        async with anyio.create_task_group() as group:
            group.start_soon(self._wake_at, due_ns)
            await super().news()
            group.cancel_scope.cancel()

    async def _wake_at(self, due_ns: int) -> None:
        try:
            await self._time.sleep_until(due_ns)
        except (ClosedError, StoreError):
            return  # the world has ended, and has said so
        except TimeStalledError as stalled:
            self._failure = stalled
        self.wake()

    # when what was seen is shown

    def _parts(self, observation: Observation) -> list[Part]:
        now_ns = self._visible.published.now_ns
        if isinstance(self._latency, ByDistance) and observation.kind == "delta":
            parts = self._parts_by_distance(observation, now_ns)
            self._due_max_ns = max(self._due_max_ns, *[part.due_ns for part in parts])
            return parts
        delay = self._delay_of_all(observation)
        self._due_max_ns = self._floor_ns = max(self._due_max_ns, now_ns + delay)
        return [Part(self._floor_ns, observation.changes, observation.events)]

    def _delay_of_all(self, observation: Observation) -> int:
        """Return how late it all is. A snapshot by distance comes when the farthest of it does."""
        if isinstance(self._latency, ByDistance):
            self._distances.clear()
            far = max((self._distance_of(change) for change in observation.changes), default=0.0)
            return delay_ns(self._latency, 0.0, far)
        seq = self._visible.published.seq
        chance = random_unit(self._time.seed, seq, self.agent_id, "latency")
        return delay_ns(self._latency, chance, 0.0)

    def _parts_by_distance(self, observation: Observation, now_ns: int) -> list[Part]:
        """Let each change come at its own time, and none before an older one of its entity."""
        together: dict[int, tuple[list[Change], list[DeliveredEvent]]] = {}
        for change in observation.changes:
            delay = delay_ns(self._latency, 0.0, self._distance_of(change))
            before_ns = max(self._floor_ns, self._dues.get(change.entity, 0))
            due_ns = self._dues[change.entity] = max(before_ns, now_ns + delay)
            together.setdefault(due_ns, ([], []))[0].append(change)
        for event in observation.events:
            delay = delay_ns(self._latency, 0.0, self._distance_to(event.agent_id))
            before_ns = max(self._floor_ns, self._event_due_ns)
            due_ns = self._event_due_ns = max(before_ns, now_ns + delay)
            together.setdefault(due_ns, ([], []))[1].append(event)
        if len(self._dues) > self._line.held + _GONE_MAX:
            self._dues = {name: due for name, due in self._dues.items() if due > now_ns}
        return [Part(due, tuple(changes), tuple(e)) for due, (changes, e) in together.items()]

    def _distance_of(self, change: Change) -> float:
        """Return how far a thing is; of one that leaves, how far it was when it was last seen."""
        if change.what == "leave":
            return self._distances.pop(change.entity, 0.0)
        collection, _, entity = change.entity.partition("/")
        distance = self._visible.distance(self.agent_id, Ref(collection, entity)) or 0.0
        self._distances[change.entity] = distance
        return distance

    def _distance_to(self, agent_id: str) -> float:
        """Return how far an agent is that was heard."""
        body = self._visible.body_of(agent_id)
        if body is None:
            return 0.0
        distance = self._visible.distance(self.agent_id, body)
        if distance is None:  # it is gone
            return self._distances.get(f"{body.collection}/{body.entity}", 0.0)
        return distance
