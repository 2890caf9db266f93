"""Nothing is told before it is durable (G2), groups share a write, and a failed write ends it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from placet.actors.committer import Commit, Committer
from placet.actors.counters import Counters
from placet.runtime.open_world import OpenWorld
from placet.schemas.effect import Effect
from placet.schemas.errors import ClosedError, StoreError
from placet.schemas.identity import OPERATOR
from placet.schemas.record import LogGroup
from placet.schemas.verdict import Verdict
from tests.actors.fake_logs import SlowLog
from tests.actors.parts import COUNTS, MAIL, add, intent, open_world
from tests.actors.virtual_time import HandClock, LoopClock, in_virtual_time, turns
from tests.kernel.domains import Lab

DISK_FULL = StoreError("the disk is full", store="slow://")


async def submit(world: OpenWorld, *intents: object, dry_run: bool = False) -> Verdict:
    return await world.actor.post(list(intents), OPERATOR, dry_run=dry_run)


# G2: each way in which the world can show something, asked for while a write is under way.


async def a_verdict(world: OpenWorld) -> object:
    return await submit(world, add("second"))


async def a_refusal_of_the_core(world: OpenWorld) -> object:
    return (await submit(world, add("from the future", context_seq=10**6))).refusals


async def a_refusal_of_structure(world: OpenWorld) -> object:
    return (await submit(world)).refusals


async def a_refused_handle(world: OpenWorld) -> object:
    return (await world.actor.post([add("old")], "alice", incarnation=9)).refusals


async def a_replayed_answer(world: OpenWorld) -> object:
    return await submit(world, add("first"))


async def a_dry_run(world: OpenWorld) -> object:
    return await submit(world, add("dry"), dry_run=True)


async def a_state_read(world: OpenWorld) -> object:
    return await world.actor.command(lambda kernel: kernel.state[COUNTS]["alice"]["count"])


async def a_digest(world: OpenWorld) -> object:
    return await world.actor.command(lambda kernel: kernel.digest())


async def a_view(world: OpenWorld) -> object:
    return await world.actor.command(lambda kernel: world.viewer.view(kernel, "alice"))


async def a_remembered_verdict(world: OpenWorld) -> object:
    return await world.actor.command(lambda kernel: kernel.verdict_of("alice", "first"))


async def a_registration(world: OpenWorld) -> object:
    return await world.actor.command(lambda kernel: kernel.register_agent("carol"))


async def an_event(world: OpenWorld) -> object:
    async for event in world.publisher.events(world.committer.durable_seq):
        return event
    return None


LOOKS: list[Callable[[OpenWorld], Awaitable[object]]] = [
    a_verdict,
    a_refusal_of_the_core,
    a_refusal_of_structure,
    a_refused_handle,
    a_replayed_answer,
    a_dry_run,
    a_state_read,
    a_digest,
    a_view,
    a_remembered_verdict,
    a_registration,
    an_event,
]


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.__name__)
@in_virtual_time
async def test_nothing_becomes_visible_before_it_is_durable(look):
    log = SlowLog()
    async with open_world(log=log) as world:
        log.hold()
        durable_seq = world.committer.durable_seq
        first = asyncio.ensure_future(submit(world, add("first")))
        await log.began()
        seen = asyncio.ensure_future(look(world))
        await turns()
        assert world.kernel.seq > durable_seq  # it is decided
        assert world.committer.durable_seq == durable_seq
        assert not first.done()
        assert not seen.done()
        log.release()
        assert (await first).admitted
        assert await seen
        assert world.committer.durable_seq > durable_seq


@pytest.mark.parametrize(
    "look", [look for look in LOOKS if look is not an_event], ids=lambda f: f.__name__
)
@in_virtual_time
async def test_the_same_is_visible_at_once_where_nothing_is_being_written(look):
    """The control: it is the write that the test above waits for, and not the number of turns."""
    async with open_world() as world:
        await submit(world, add("first"))
        seen = asyncio.ensure_future(look(world))
        await turns()
        assert seen.done()


@in_virtual_time
async def test_an_effect_is_not_started_before_its_batch_is_durable():
    log, started = SlowLog(), []

    async def post_letter(effect: Effect) -> str:
        started.append(effect.key.seq)
        return "posted"

    async with open_world(log=log) as world:
        await world.register_executor(MAIL, post_letter, None, None)
        log.hold()
        batch = asyncio.ensure_future(submit(world, intent("Mail", {"count": 1})))
        await log.began()
        await turns()
        assert len(world.kernel.open_effects()) == 1
        assert started == []
        log.release()
        verdict = await batch
        await world.settle()
        assert started == [verdict.seq]


@in_virtual_time
async def test_settle_returns_when_the_settlements_are_durable():
    """Also where something else becomes durable after the settlement was decided."""
    log, goes = SlowLog(), asyncio.Event()

    async def post_letter(effect: Effect) -> str:
        await goes.wait()
        return "posted"

    async with open_world(log=log) as world:
        await world.register_executor(MAIL, post_letter, None, None)
        await submit(world, intent("Mail", {"count": 1}))
        settled = asyncio.ensure_future(world.settle())
        await turns()
        log.hold()
        other = asyncio.ensure_future(submit(world, add("other")))
        await log.began()
        goes.set()
        await turns()
        assert world.kernel.open_effects() == []  # it is decided, and waits behind the other
        log.let_go()
        await other
        await log.began()
        await turns()
        assert not settled.done()
        log.release()
        await settled


# Group commit


@in_virtual_time
async def test_groups_that_wait_share_one_write_in_order():
    log = SlowLog()
    async with open_world(log=log, limits={"group_batches_max": 1}) as world:
        log.hold()
        told: list[int | None] = []
        tasks = []
        for number in range(6):
            tasks.append(asyncio.ensure_future(submit(world, add(f"r{number}"))))
            tasks[-1].add_done_callback(lambda done: told.append(done.result().seq))
            if number == 0:
                await log.began()
        await turns()
        assert world.kernel.seq == world.committer.durable_seq + 6  # decided while it is writing
        before = len(log.appended)
        log.release()
        await asyncio.gather(*tasks)
        assert len(log.appended) == before + 1  # five groups, one write
        merged = log.appended[-1]
        assert told == list(range(merged.seq - 5, merged.seq + 1))
        assert merged.seq - merged.seq_before == len(merged.records) == 5


@in_virtual_time
async def test_deciding_pauses_where_too_many_groups_wait_to_be_written():
    log = SlowLog()
    limits = {"group_batches_max": 1, "groups_in_flight_max": 3}
    async with open_world(log=log, limits=limits) as world:
        log.hold()
        tasks = [asyncio.ensure_future(submit(world, add(f"r{n}"))) for n in range(20)]
        await log.began()
        await turns()
        assert world.committer.waiting == 3
        assert world.kernel.seq == world.committer.durable_seq + 4  # three wait, one is written
        assert len(world.actor) == 16
        log.release()
        assert all(verdict.admitted for verdict in await asyncio.gather(*tasks))
        assert world.counters.refusals[("door", "overloaded")] == 0


@in_virtual_time
async def test_answers_that_wait_for_a_write_are_bounded_too():
    log = SlowLog()
    async with open_world(log=log, limits={"mailbox_batches_max": 5}) as world:
        log.hold()
        first = asyncio.ensure_future(submit(world, add("first")))
        await log.began()
        malformed = [world.actor.post([], OPERATOR) for _ in range(8)]
        refused_at_once = [answer.result() for answer in malformed if answer.done()]
        assert [verdict.codes for verdict in refused_at_once] == [("queue_full",)] * 3
        assert refused_at_once[0].refusals[0].details["signal"] == "answers_waiting"
        log.release()
        await first
        assert [(await answer).codes for answer in malformed[:5]] == [("batch_empty",)] * 5


@in_virtual_time
async def test_a_write_and_the_wait_for_it_are_measured():
    log, clock = SlowLog(), HandClock(1)
    async with open_world(log=log, time=clock) as world:
        writes = world.counters.commit_seconds.count
        log.hold()
        first = asyncio.ensure_future(submit(world, add("first")))
        await log.began()
        clock.forward(3_000_000_000)
        log.release()
        await first
        assert world.counters.commit_seconds.count == writes + 1
        assert world.counters.verdict_seconds.quantile(0.5) == pytest.approx(3.0, rel=0.5)


# Failure


@asynccontextmanager
async def failed_world(
    log: SlowLog,
) -> AsyncIterator[tuple[OpenWorld, list["asyncio.Future[Verdict]"]]]:
    """A world in which some wait for the write, some for the queue, and the write fails."""
    async with open_world(
        log=log, limits={"group_batches_max": 1, "groups_in_flight_max": 1}
    ) as world:
        if log.is_blocking:
            log.hold()
        else:
            log.failure = DISK_FULL
        waiters = [world.actor.post([add(f"r{number}")], OPERATOR) for number in range(5)]
        if log.is_blocking:
            await log.began()
        await turns()
        log.failure = log.failure or DISK_FULL
        log.release()
        yield world, waiters


@pytest.mark.parametrize("is_blocking", [True, False], ids=["in a thread", "in the loop"])
@in_virtual_time
async def test_a_failed_write_stops_the_world_and_everybody_is_told(is_blocking):
    log = SlowLog(is_blocking=is_blocking)
    async with failed_world(log) as (world, waiters):
        seq = world.committer.durable_seq
        for waiter in waiters:
            with pytest.raises(StoreError, match="the disk is full"):
                await waiter
        with pytest.raises(StoreError, match="the disk is full"):
            await submit(world, add("later"))
        with pytest.raises(StoreError, match="the disk is full"):
            await world.actor.command(lambda kernel: kernel.digest())
        with pytest.raises(StoreError, match="the disk is full"):
            await world.settle()
        assert world.committer.durable_seq == seq
    assert log.calls.count("append") == 4  # two of the start, one registration each, the failed one
    assert log.calls[-1] == "close"  # and nothing was written after the failure


@pytest.mark.parametrize("is_blocking", [True, False], ids=["in a thread", "in the loop"])
@in_virtual_time
async def test_what_is_no_store_error_stops_the_world_as_well(is_blocking):
    log = SlowLog(is_blocking=is_blocking)
    log_failure = OSError(28, "No space left on device")
    async with open_world(log=log) as world:
        log.failure = log_failure
        with pytest.raises(StoreError, match="No space left"):
            await submit(world, add("first"))
        with pytest.raises(StoreError, match="No space left"):
            await submit(world, add("second"))
    assert log.calls[-1] == "close"


@in_virtual_time
async def test_a_failing_world_closes_and_says_so_afterwards():
    log = SlowLog()
    async with open_world(log=log) as world:
        log.failure = DISK_FULL
        with pytest.raises(StoreError):
            await submit(world, add("first"))
    await world.stop()
    with pytest.raises(StoreError):
        await submit(world, add("second"))


@in_virtual_time
async def test_a_world_that_cannot_write_its_first_record_does_not_open():
    log = SlowLog()
    log.failure = DISK_FULL
    with pytest.raises(StoreError, match="the disk is full"):
        async with open_world(log=log):
            raise AssertionError("it opened")


# Cancellation


@in_virtual_time
async def test_a_submit_canceled_before_the_drain_is_withdrawn():
    async with open_world() as world:
        seq = world.kernel.seq
        submitter = asyncio.ensure_future(submit(world, add("withdrawn")))
        await turns(1)
        submitter.cancel()
        await turns()
        assert submitter.cancelled()
        assert world.kernel.seq == seq
        assert world.kernel.verdict_of("alice", "withdrawn") is None


@in_virtual_time
async def test_a_submit_canceled_after_the_decision_keeps_its_answer():
    log = SlowLog()
    async with open_world(log=log) as world:
        log.hold()
        submitter = asyncio.ensure_future(submit(world, add("decided")))
        await log.began()
        submitter.cancel()
        await turns()
        assert submitter.cancelled()
        log.release()
        answer = await world.actor.command(lambda kernel: kernel.verdict_of("alice", "decided"))
        assert answer is not None
        assert answer.admitted
        assert answer.seq == world.committer.durable_seq


# The committer by itself


def committer_of(log: SlowLog, released: list[Commit]) -> Committer:
    counters = Counters(kind.name for kind in Lab().kinds)
    return Committer(log, log.open(), LoopClock(), counters, 4, released.append)


def commit_of(first: int, reply: "asyncio.Future[int] | None" = None) -> Commit:
    return Commit(
        LogGroup(first, first, first + 1, [b"x"]), [] if reply is None else [(reply, first)]
    )


@in_virtual_time
async def test_what_is_still_waiting_at_the_end_of_a_shutdown_is_told():
    log = SlowLog()
    committer = committer_of(log, [])
    reply: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    committer.offer(commit_of(0, reply))
    committer.close()
    with pytest.raises(StoreError, match="ask `verdict_of`"):
        await reply
    assert committer.waiting == 0
    assert log.calls == []


@in_virtual_time
async def test_closing_with_nothing_waiting_fails_nobody():
    committer = committer_of(SlowLog(), [])
    committer.close()
    assert committer.failure is None


@in_virtual_time
async def test_a_write_that_is_canceled_before_it_began_is_told_as_unknown():
    log = SlowLog()
    committer = committer_of(log, [])
    reply: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    run = asyncio.ensure_future(committer.run())
    committer.offer(commit_of(0, reply))
    run.cancel()
    await asyncio.wait([run])
    committer.close()
    with pytest.raises(StoreError):
        await reply


@in_virtual_time
async def test_flush_waits_for_what_was_offered_and_no_longer_than_a_failure():
    log = SlowLog()
    released: list[Commit] = []
    committer = committer_of(log, released)
    run = asyncio.ensure_future(committer.run())
    log.hold()
    committer.offer(commit_of(0))
    flushed = asyncio.ensure_future(committer.flush())
    await log.began()
    await turns()
    assert not flushed.done()
    log.let_go()
    await flushed
    assert released[0].group is not None
    log.failure = DISK_FULL
    committer.offer(commit_of(1))
    flushed = asyncio.ensure_future(committer.flush())
    await log.began()
    log.let_go()
    await flushed
    with pytest.raises(StoreError):
        await run


@in_virtual_time
async def test_durability_is_said_of_what_is_kept_and_only_of_that():
    async with open_world(log=SlowLog(), quotas={"Take": {"rate": 1, "burst": 1}}) as world:
        admitted = await submit(world, add("first"))
        again = await submit(world, add("first"))
        refused = await submit(world, intent("Drop", {"thing": "no"}, "kept"))
        not_kept = await submit(world, intent("Drop", {"thing": "no"}, "zoe", agent_id="zoe"))
        dry = await submit(world, add("dry"), dry_run=True)
    told = [(v.codes, v.durability) for v in (admitted, again, refused, not_kept, dry)]
    assert told == [
        ((), "full"),
        ((), "full"),
        (("lab.missing",), "full"),
        (("agent_unknown",), "none"),
        ((), "none"),
    ]


@in_virtual_time
async def test_close_makes_durable_what_was_decided():
    log = SlowLog()
    async with open_world(log=log) as world:
        log.hold()
        tickets = [world.actor.post([add(f"r{number}")], OPERATOR) for number in range(3)]
        await log.began()
        stopping = asyncio.ensure_future(world.stop())
        await turns()
        with pytest.raises(ClosedError):
            await submit(world, add("too late"))
        assert not stopping.done()
        log.release()
        await stopping
        assert [(await ticket).admitted for ticket in tickets] == [True] * 3
    assert log.count() == world.committer.durable_records
