"""Effects emitted with `started=True`: the start is in the commit of the batch (G17)."""

import asyncio
from typing import Any

import pytest

from placet.history.verify_log import verify_log
from placet.kernel.kernel import Kernel
from placet.runtime.world import WorldRuntime
from placet.schemas.config import KernelConfig
from placet.schemas.errors import StoreError
from placet.schemas.identity import OPERATOR
from placet.schemas.log.record import EffectChanged, LogAppend, decode_record, record_type
from placet.schemas.verdict import Verdict
from placet.stores.memory import MemoryEventLog
from tests.actors.effects.test_executor import Post, settled
from tests.actors.fake_logs import SlowLog
from tests.actors.parts import MAIL, effects_of, intent, open_world, register_executor
from tests.actors.real_time import until
from tests.actors.virtual_time import in_virtual_time, turns
from tests.kernel.domains import Lab

ONCE: dict[str, Any] = {"delivery": "at_most_once"}


class AppendsLog(MemoryEventLog):
    """A log in memory that notes the types of the records of each append."""

    def __init__(self) -> None:
        super().__init__()
        self.appends: list[list[str]] = []

    def append(self, new: LogAppend, epoch: int) -> None:
        self.appends.append([record_type(decode_record(data)) for data in new.records])
        super().append(new, epoch)


async def mail(world: WorldRuntime, count: int = 1, req_id: str = "r") -> Verdict:
    letters = {"count": count, "started": True}
    return await world.actor.post_batch([intent("Mail", letters, req_id)], OPERATOR)


def marks(world: WorldRuntime) -> list[tuple[int, str]]:
    records = [decode_record(data) for _, data in world.log.read()]
    return [(r.effect_index, r.what) for r in records if isinstance(r, EffectChanged)]


@pytest.mark.parametrize(
    ("options", "appends"),
    [
        (ONCE, [["batch", "effect_changed"], ["settled"]]),
        ({"delivery": "keyed"}, [["batch"], ["settled"]]),
    ],
    ids=["at_most_once", "keyed"],
)
@in_virtual_time
async def test_a_call_is_two_commits(options, appends):
    log, post = AppendsLog(), Post()
    async with open_world(log=log) as world:
        await register_executor(world, post, **options)
        del log.appends[:]
        await mail(world)
        await world.executors.settled()
        assert log.appends == appends
        assert len(post.began) == 1
        assert world.kernel.ledger.marks == {}


@in_virtual_time
async def test_a_handler_is_called_once_the_commit_is_durable():
    log, post = SlowLog(), Post()
    async with open_world(log=log) as world:
        await register_executor(world, post, **ONCE)
        log.hold()
        batch = asyncio.ensure_future(mail(world))
        await log.began()
        await turns()
        assert post.began == []
        log.release()
        await batch
        await world.executors.settled()
        assert len(post.began) == 1


@in_virtual_time
async def test_an_effect_that_waits_for_others_is_started_at_its_turn():
    async with open_world() as world:
        await register_executor(world, Post(seconds=10), concurrency=2, **ONCE)
        await mail(world, 3)
        assert marks(world) == [(0, "started"), (1, "started")]
        await mail(world, 1, "other")  # nor does a later one pass it
        assert len(marks(world)) == 2
        assert [one.state for one in await effects_of(world).effects()] == [
            *("started", "started", "open", "open"),
        ]
        await world.executors.settled()
        assert len(settled(world)) == 4
        assert len(marks(world)) == 4


@in_virtual_time
async def test_a_refused_batch_and_an_undone_intent_start_nothing():
    async with open_world() as world:
        await register_executor(world, Post(), **ONCE)
        letters = {"count": 1, "started": True}
        batch = [intent("Mail", letters, "a"), intent("Fail", {"how": "refuse"}, "b")]
        assert not (await world.actor.post_batch(batch, OPERATOR)).admitted
        dry = [intent("Mail", letters, "dry")]
        assert (await world.actor.post_batch(dry, OPERATOR, dry_run=True)).admitted
        assert marks(world) == []
        plain = [intent("Mail", {"count": 1}, "c"), intent("Mail", letters, "d")]
        await world.actor.post_batch(plain, OPERATOR)
        assert marks(world)[0] == (1, "started")


@in_virtual_time
async def test_an_effect_of_an_ended_process_is_in_doubt():
    """Also if its handler was never called: a mark does not say whether it was."""
    log, post = MemoryEventLog(), Post()
    async with open_world(log=log) as world:
        await register_executor(world, post, **ONCE)
        world.executors.take = lambda effects: None  # type: ignore[method-assign]
        await mail(world)
        world.executors.end(None)
    async with open_world(log=log, agents=()) as world:
        await register_executor(world, post, **ONCE)
        await world.executors.settled()
        assert [one.state for one in await effects_of(world).effects()] == ["in_doubt"]
    assert post.began == []


@in_virtual_time
async def test_a_closing_world_runs_what_it_has_started_and_starts_nothing_more():
    log, post = SlowLog(), Post()
    async with open_world(log=log) as world:
        await register_executor(world, post, concurrency=2, **ONCE)
        log.hold()
        batch = asyncio.ensure_future(mail(world, 3))
        await log.began()
        closing = asyncio.ensure_future(world.executors.finish())
        await turns()
        assert not closing.done()
        log.release()
        await batch
        await closing
        await mail(world, 1, "late")
    assert sorted(effect.key.effect_index for effect in post.began) == [0, 1]
    assert marks(world) == [(0, "started"), (1, "started")]
    assert sorted(one.effect_index for one in settled(world)) == [0, 1]


async def test_a_world_that_fails_at_the_commit_runs_nothing_and_closes():
    log, post = SlowLog(), Post()
    async with open_world(log=log) as world:
        await register_executor(world, post, **ONCE)
        log.failure = StoreError("the disk is full")
        with pytest.raises(StoreError):
            await mail(world)
        await until(lambda: not world.executors.by_kind[MAIL]._started)
    assert post.began == []


@in_virtual_time
async def test_the_log_verifies_and_replays_with_the_start():
    log = MemoryEventLog()
    async with open_world(log=log) as world:
        await register_executor(world, Post(seconds=3600), **ONCE)
        await mail(world)
        ledger = world.kernel.ledger
        again = Kernel(Lab(), KernelConfig(), history=[data for _, data in log.read()])
        assert again.ledger.marks == ledger.marks
        assert [mark.what for mark in ledger.marks.values()] == ["started"]
        world.executors.by_kind[MAIL]._running = 0  # nobody waits for the hour
    assert verify_log(log, [Lab()]).integrity.first_divergence is None
