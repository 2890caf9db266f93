"""Delivers durable events to subscribers, each at its own pace.

A subscriber has a position in the log and nothing else. Recent records are kept in a bounded ring;
a subscriber that falls behind the ring reads the log. So a slow subscriber misses no event and does
not delay the others.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing, contextmanager
from functools import partial
from itertools import islice
from typing import TypeVar

import anyio
from anyio import to_thread

from placet.actors.ports import EventLog
from placet.schemas.event import Event
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import LogAppend, decode_record, record_as_dict, record_type

T = TypeVar("T")

PAGE_RECORDS_MAX = 256
PAGE_BYTES_MAX = 1024 * 1024
"""Of the records of a page, as they are encoded; a larger record is a page by itself."""
RECENT_BYTES_MAX = 64 * 1024 * 1024
"""Of the ring of recent records, as they are encoded; older ones are read from the log."""
_DECODED_AT_ONCE_MAX = 64
"""Records that are decoded in one pass of the event loop, about 1 ms."""
_DECODED_BYTES_MAX = 4 * 1024 * 1024
"""Of the records whose events are kept, as they are encoded."""


def events_of(ordinal: int, data: bytes) -> list[Event]:
    """Decode one record of the log into its events: one, or one of each batch of a `SingleBlock`.

    Args:
        ordinal: The record's number.
        data: The record.
    """
    return [
        Event(
            *(record.seq, ordinal, record_type(record), record.now_ns / SECOND_NS),
            record_as_dict(record),
        )
        for record in expanded(decode_record(data))
    ]


class _RecentEvents:
    """Decodes recent records, each once for all subscribers that read it.

    The newest events are kept, within `_DECODED_BYTES_MAX` of encoded records.
    """

    def __init__(self) -> None:
        self._events: dict[int, tuple[list[Event], int]] = {}
        self._bytes = 0

    def events_of(self, ordinal: int, data: bytes) -> list[Event]:
        """Return the events of one record."""
        kept = self._events.get(ordinal)
        if kept is not None:
            return kept[0]
        events = events_of(ordinal, data)
        self._events[ordinal] = events, len(data)
        self._bytes += len(data)
        while self._bytes > _DECODED_BYTES_MAX:
            oldest = next(iter(self._events))
            self._bytes -= self._events.pop(oldest)[1]
        return events


class Publisher:
    """The source of a log's events for subscribers, each at its own pace.

    Args:
        log: Read for records older than the ring.
        recent_max: Number of recent records kept in memory (the ring).
        position: Returns the durable seq and the number of durable records.

    Attributes:
        is_observed: There is a subscriber, and groups are to be published.
    """

    def __init__(
        self, log: EventLog, recent_max: int, position: Callable[[], tuple[int, int]]
    ) -> None:
        self._log = log
        self._position = position
        self.is_observed = False
        self._recent: deque[tuple[int, bytes]] = deque()
        self._recent_max = recent_max
        self._recent_bytes = 0
        self._recent_events = _RecentEvents()
        self._places: dict[int, int] = {}
        self._subscribers = 0
        self._durable_seq, self._durable = 0, 0
        self._published = anyio.Event()
        self._is_closed = False

    def publish(self, append: LogAppend) -> None:
        """Deliver a durable append to the subscribers; needed only while there are some."""
        self._durable = append.first_record + len(append.records)
        self._durable_seq = append.seq
        recent = self._recent
        recent.extend(enumerate(append.records, append.first_record))
        self._recent_bytes += sum(map(len, append.records))
        while len(recent) > self._recent_max or self._recent_bytes > RECENT_BYTES_MAX:
            self._recent_bytes -= len(recent.popleft()[1])
        self._wake()

    def close(self) -> None:
        """End every subscription once its subscriber has read all events."""
        self._is_closed = True
        self._wake()

    @property
    def observers(self) -> int:
        """Number of subscribers."""
        return len(self._places)

    @property
    def lag_seqs(self) -> int:
        """Number of seqs by which the slowest subscriber is behind.

        Safe to read from another thread.
        """
        places = list(self._places.values())  # an atomic copy
        return max((self._durable_seq - seq for seq in places), default=0)

    async def events(self, since: int = 0) -> AsyncIterator[Event]:
        """Yield the events after `since`, past and future, until closed.

        Subscription starts when the first event is requested. A refusal has the seq of the last
        change before it: a subscriber that starts at the present seq receives the refusals that
        follow.

        Args:
            since: Sequence number; events with a greater one are returned.
        """
        with self._subscribed(since) as me:
            async with aclosing(self._follow(since, None)) as pages:
                async for page in pages:
                    for event in page:
                        self._places[me] = event.seq
                        yield event

    async def pages(
        self,
        since: int = 0,
        from_record: int | None = None,
        *,
        page_records_max: int = PAGE_RECORDS_MAX,
    ) -> AsyncGenerator[list[Event]]:
        """Yield the events after `since` in lists, each at most one read of the log, until closed.

        Args:
            since: Sequence number; events with a greater one are returned.
            from_record: Ordinal of the first record to return, instead of `since`. Refusals have
                no seq, so only an ordinal separates read ones from unread ones.
            page_records_max: Largest number of records that are read and decoded for a page; it has
                fewer where they would exceed `PAGE_BYTES_MAX`, but at least one.
        """
        with self._subscribed(since) as me:
            async with aclosing(self._follow(since, from_record, page_records_max)) as pages:
                async for page in pages:
                    self._places[me] = page[-1].seq
                    yield page

    @contextmanager
    def _subscribed(self, since: int) -> Iterator[int]:
        self._subscribers += 1
        me = self._subscribers
        if not self.is_observed:
            self.is_observed = True
            self._durable_seq, self._durable = self._position()
        self._places[me] = min(since, self._durable_seq)
        try:
            yield me
        finally:
            del self._places[me]
            self.is_observed = bool(self._places)
            if not self.is_observed:
                self._recent.clear()
                self._recent_bytes = 0
                self._recent_events = _RecentEvents()

    async def _follow(
        self, since: int, from_record: int | None, count_max: int = PAGE_RECORDS_MAX
    ) -> AsyncGenerator[list[Event]]:
        is_all = from_record is not None or since <= self._durable_seq
        place = self._durable if from_record is None else from_record
        if from_record is None and since < self._durable_seq:
            place = await self._in_thread_if(partial(self._find_record_after, since))
        while True:
            events = await self._read(place, count_max)
            if events:
                place = events[-1].record + 1
            page = events if is_all else [event for event in events if event.seq > since]
            if page:
                yield page
            if place < self._durable:
                continue
            if self._is_closed:
                return
            await self._published.wait()

    def _find_record_after(self, since: int) -> int:
        """Return the ordinal of the first record with a greater seq; O(log n) records are decoded.

        The log finds the group that has it; within a group, seqs do not fall.
        """
        place = self._log.find_seq(since + 1)
        while place < self._durable:
            chunk = self._chunk(place, PAGE_RECORDS_MAX)
            index = bisect_right(chunk, since, key=lambda record: decode_record(record[1]).seq)
            if index < len(chunk):
                return chunk[index][0]
            place = chunk[-1][0] + 1
        return place

    async def _read(self, place: int, count_max: int) -> list[Event]:
        """Read the events of some records from a position, none beyond the durable one."""
        if place >= self._durable:
            return []
        if self._recent and self._recent[0][0] <= place:
            recent = islice(self._recent, place - self._recent[0][0], None)
            decode = self._recent_events.events_of
            page = self._page(recent, count_max)
        else:
            decode = events_of
            page = await self._in_thread_if(partial(self._chunk, place, count_max))
        events: list[Event] = []
        for number, record in enumerate(page, 1):
            events += decode(*record)
            if not number % _DECODED_AT_ONCE_MAX:
                await anyio.lowlevel.checkpoint()
        return events

    async def _in_thread_if(self, read: Callable[[], T]) -> T:
        return await to_thread.run_sync(read) if self._log.is_blocking else read()

    def _chunk(self, place: int, count_max: int) -> list[tuple[int, bytes]]:
        return self._page(self._log.read(place), count_max)

    def _page(
        self, records: Iterable[tuple[int, bytes]], count_max: int
    ) -> list[tuple[int, bytes]]:
        """Return the first of some records, none beyond the durable one."""
        page: list[tuple[int, bytes]] = []
        bytes_left = PAGE_BYTES_MAX
        for ordinal, data in records:
            bytes_left -= len(data)
            if page and bytes_left < 0:
                break
            page.append((ordinal, data))
            if len(page) == count_max or ordinal + 1 >= self._durable:
                break
        return page

    def _wake(self) -> None:
        self._published.set()
        self._published = anyio.Event()
