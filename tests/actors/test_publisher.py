"""Subscribers get every durable event in order, each at its own pace."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from itertools import pairwise

import pytest

from placet.actors import publisher
from placet.actors.publisher import Publisher, events_of
from placet.runtime.world import WorldRuntime
from placet.schemas.event import Event
from placet.schemas.identity import OPERATOR
from placet.schemas.log.record import Record, decode_record
from placet.schemas.verdict import Verdict
from placet.stores.memory import MemoryEventLog
from placet.stores.sqlite.log import SqliteEventLog
from tests.actors.fake_logs import SlowLog
from tests.actors.parts import add, intent, open_world
from tests.actors.virtual_time import in_virtual_time, turns


async def submit(world: WorldRuntime, *intents: object) -> Verdict:
    return await world.actor.post_batch(list(intents), OPERATOR)


async def take(events: AsyncIterator[Event], count: int) -> list[Event]:
    return [await anext(events) for _ in range(count)]


class Subscriber:
    """Collects events in a task until the publisher closes."""

    def __init__(self, world: WorldRuntime, since: int = 0) -> None:
        self.events: list[Event] = []
        self._news = asyncio.Event()
        self.task = asyncio.ensure_future(self._collect(world.publisher.events(since)))

    async def _collect(self, events: AsyncIterator[Event]) -> None:
        async for event in events:
            self.events.append(event)
            self._news.set()

    async def reached(self, count: int) -> None:
        while len(self.events) < count:
            self._news.clear()
            await self._news.wait()

    @property
    def records(self) -> list[int]:
        return [event.record for event in self.events]


@in_virtual_time
async def test_a_subscriber_gets_past_and_future_events():
    async with open_world() as world:
        await submit(world, add("a"))
        subscriber = Subscriber(world)
        await turns()
        assert [event.type for event in subscriber.events] == [
            "configured",
            "registered",
            "registered",
            "batch",
        ]
        verdict = await submit(world, add("b", 7))
        await turns()
        event = subscriber.events[-1]
        assert (event.type, event.seq) == ("batch", verdict.seq)
        assert event.data["intents"][0]["payload"] == {"amount": 7}
        assert event.as_dict()["changes"][0]["entity"] == "lab.counts/alice"


@pytest.mark.parametrize("behind", [0, 1, 2, 3, 10])
@in_virtual_time
async def test_since_selects_exactly_the_events_with_a_greater_seq(behind):
    async with open_world() as world:
        for number in range(6):
            await submit(world, add(f"r{number}.0"), add(f"r{number}.1"))
        since = max(world.committer.durable_seq - behind, 0)
        subscriber = Subscriber(world, since)
        await turns()
        everything = [event.seq for event in all_events(world) if event.seq > since]
        assert [event.seq for event in subscriber.events] == everything


def all_events(world: WorldRuntime) -> list[Event]:
    return [event for record in world.log.read() for event in events_of(*record)]


@in_virtual_time
async def test_a_since_of_the_future_is_waited_for():
    async with open_world() as world:
        since = world.committer.durable_seq + 2
        subscriber = Subscriber(world, since)
        await turns()
        for number in range(4):
            await submit(world, add(f"r{number}"))
        await turns()
        assert [event.seq for event in subscriber.events] == [since + 1, since + 2]


@in_virtual_time
async def test_a_live_refusal_is_delivered_without_a_seq_of_its_own():
    async with open_world() as world:
        seq = world.committer.durable_seq
        subscriber = Subscriber(world, seq)
        await turns()
        refused = await submit(world, intent("Drop", {"thing": "none"}))
        await turns()
        event = subscriber.events[0]
        assert (event.type, event.seq) == ("refused", seq)
        assert event.data["refusals"][0][2] == refused.codes[0] == "lab.missing"


@in_virtual_time
async def test_an_answer_without_a_record_is_no_event():
    async with open_world() as world:
        subscriber = Subscriber(world, world.committer.durable_seq)
        await turns()
        await submit(world)
        await submit(world, add("r", agent_id="nobody"))
        await world.actor.post_batch([add("dry")], OPERATOR, dry_run=True)
        await turns()
        assert subscriber.events == []


@in_virtual_time
async def test_a_slow_subscriber_misses_no_event_and_does_not_delay_others():
    async with open_world(limits={"subscriber_events_max": 4}) as world:
        fast = Subscriber(world)
        slow = world.publisher.events()
        await take(slow, 1)
        for number in range(50):  # far more than the ring holds
            await submit(world, add(f"r{number}"))
        await turns()
        assert len(fast.events) == 3 + 50
        assert world.publisher.lag_seqs == 52
        assert len(world.publisher._recent) == 4
        rest = await take(slow, 52)
        assert [event.record for event in rest] == fast.records[1:]
        assert world.publisher.lag_seqs == 0
        assert world.publisher.observers == 2


@in_virtual_time
async def test_the_ring_is_bounded_in_bytes_and_older_records_are_read_from_the_log(monkeypatch):
    monkeypatch.setattr(publisher, "RECENT_BYTES_MAX", 1_000)
    async with open_world() as world:
        slow = world.publisher.events()
        await take(slow, 1)
        ring: list[bytes] = []
        for number in range(20):
            await submit(world, add(f"r{number}"))
            ring = [data for _, data in world.publisher._recent]
            assert sum(map(len, ring)) == world.publisher._recent_bytes <= 1_000
        await turns()
        assert 0 < len(ring) < 20
        assert len(await take(slow, 22)) == 22
        monkeypatch.setattr(publisher, "RECENT_BYTES_MAX", 1)  # no record fits
        await submit(world, add("last"))
        assert len(world.publisher._recent) == 0
        assert len(await take(slow, 1)) == 1


@in_virtual_time
async def test_closing_ends_subscriptions_after_the_last_event():
    async with open_world() as world:
        live = Subscriber(world)
        slow = world.publisher.events()
        await take(slow, 1)
        await submit(world, add("a"))
    assert live.records[-1] == world.log.count() - 1
    assert [event.record async for event in slow] == live.records[1:]
    await live.task
    assert world.publisher.observers == 0


@in_virtual_time
async def test_the_ring_is_cleared_when_the_last_subscriber_leaves():
    async with open_world() as world:
        events = world.publisher.events(world.committer.durable_seq)
        waiting = asyncio.ensure_future(anext(events))
        await turns()
        await submit(world, add("a"))
        await waiting
        assert (world.publisher.observers, len(world.publisher._recent)) == (1, 1)
        await events.aclose()  # type: ignore[attr-defined]  # an async generator
        await submit(world, add("b"))
        assert (world.publisher.observers, len(world.publisher._recent)) == (0, 0)
        assert world.publisher.lag_seqs == 0


@in_virtual_time
async def test_each_subscription_gets_events_without_gaps():
    async with open_world(limits={"subscriber_events_max": 3}) as world:
        subscribers = []
        for number in range(30):
            if number % 4 == 0:
                subscribers.append(Subscriber(world, since=number % 3 * 5))
            await submit(world, add(f"r{number}"))
            if number % 7 == 6:
                subscribers.pop(0).task.cancel()
        await turns()
        last = world.log.count() - 1
        for subscriber in subscribers:
            assert subscriber.records == list(range(subscriber.records[0], last + 1))


@in_virtual_time
async def test_older_records_of_a_blocking_log_are_read_and_none_before_it_is_durable():
    log = SlowLog()
    async with open_world(log=log) as world:
        await submit(world, add("a"))
        subscriber = Subscriber(world, since=1)
        await subscriber.reached(3)
        log.hold()
        ticket = world.actor.post_batch([add("b")], OPERATOR)
        await log.began()
        await turns()
        assert len(subscriber.events) == 3
        log.release()
        await ticket
        await turns()
        assert len(subscriber.events) == 4


@in_virtual_time
async def test_a_thousand_events_come_in_chunks_from_the_log():
    log = MemoryEventLog()
    async with open_world(log=log) as world:
        world.kernel.joins_batches = False  # a record of each
        for number in range(700):
            world.actor.post_batch([add(f"r{number}")], OPERATOR)
        await submit(world, add("last"))
        subscriber = Subscriber(world)
        await turns(2000)
        assert subscriber.records == list(range(1, log.count()))


def test_a_slow_subscriber_reads_on_from_a_closed_world_on_disk(tmp_path):
    async def live() -> list[int]:
        async with open_world(log=SqliteEventLog(tmp_path / "world.db")) as world:
            slow = world.publisher.events()
            await take(slow, 1)
            await submit(world, add("a"))
        return [event.record async for event in slow]

    assert asyncio.run(live()) == [2, 3, 4]


@in_virtual_time
async def test_an_empty_publisher_has_no_lag():
    publisher = Publisher(MemoryEventLog(), 5, lambda: (0, 0))
    assert (publisher.observers, publisher.lag_seqs) == (0, 0)


def count_decoded(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return a list to which every record that the publisher decodes is added."""
    decoded: list[bytes] = []

    def counted(data: bytes) -> Record:
        decoded.append(data)
        return decode_record(data)

    monkeypatch.setattr(publisher, "decode_record", counted)
    return decoded


@in_virtual_time
async def test_a_page_decodes_the_records_that_it_returns(monkeypatch):
    decoded = count_decoded(monkeypatch)
    async with open_world() as world:
        for number in range(600):
            await submit(world, add(f"r{number}"))
        for since in (0, 1, 250, 599):
            decoded.clear()
            pages = world.publisher.pages(since, page_records_max=1)
            page = await anext(pages)
            await pages.aclose()
            assert [event.seq for event in page] == [since + 1]
            assert len(decoded) <= 1 + 10  # the search in a group of 1 000 decodes 10


@pytest.mark.parametrize("ring", ["recent records", "the log"])
@in_virtual_time
async def test_a_page_is_bounded_in_bytes(ring, monkeypatch):
    async with open_world() as world:
        recent = Subscriber(world) if ring == "recent records" else None
        await turns()
        for number in range(20):
            await submit(world, add(f"r{number}"))
        sizes = {ordinal: len(data) for ordinal, data in world.log.read()}
        bytes_max = sizes[len(sizes) - 1] * 3
        monkeypatch.setattr(publisher, "PAGE_BYTES_MAX", bytes_max)
        async with aclosing(world.publisher.pages(0, 0)) as pages:
            read = [await anext(pages)]
            while read[-1][-1].record + 1 < world.log.count():
                read.append(await anext(pages))
        records = [[event.record for event in page] for page in read]
        assert [record for page in records for record in page] == list(sizes)
        for page, after in pairwise(records):
            in_page = sum(sizes[record] for record in page)
            assert in_page <= bytes_max or len(page) == 1
            assert in_page + sizes[after[0]] > bytes_max, "the page ended too early"
        assert max(map(len, records)) == 3
        assert recent is None or len(recent.events) >= 20


@in_virtual_time
async def test_subscribers_share_the_decoded_events_of_recent_records(monkeypatch):
    decoded = count_decoded(monkeypatch)
    async with open_world() as world:
        subscribers = [Subscriber(world, world.committer.durable_seq) for _ in range(5)]
        await turns()
        await submit(world, add("a"))
        await turns()
        assert [subscriber.events[-1].type for subscriber in subscribers] == ["batch"] * 5
        assert len(decoded) == 1


def test_the_decoded_events_that_are_kept_are_bounded(monkeypatch):
    monkeypatch.setattr(publisher, "_DECODED_BYTES_MAX", 1_000)
    monkeypatch.setattr(publisher, "events_of", lambda ordinal, _data: [ordinal])
    recent = publisher._RecentEvents()
    for ordinal in range(100):
        recent.events_of(ordinal, b"x" * 400)
    recent.events_of(100, b"x" * 4_000)
    recent.events_of(101, b"x" * 400)
    assert list(recent._events) == [101]
    assert recent._bytes == 400
