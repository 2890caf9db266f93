"""Groups share a write, a failed write stops the world, and a shutdown loses nothing."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from placet.actors import committer
from placet.actors.committer import Committer, CycleOutput
from placet.actors.metrics import Counters
from placet.runtime.world import WorldRuntime
from placet.schemas.errors import ClosedError, StoreError
from placet.schemas.identity import OPERATOR
from placet.schemas.log.record import LogAppend
from placet.schemas.verdict import Verdict
from tests.actors.fake_logs import SlowLog
from tests.actors.parts import add, intent, open_world
from tests.actors.virtual_time import HandClock, LoopClock, in_virtual_time, turns
from tests.kernel.domains import Lab

DISK_FULL = StoreError("the disk is full", store="slow://")


async def submit(world: WorldRuntime, *intents: object, dry_run: bool = False) -> Verdict:
    return await world.actor.post_batch(list(intents), OPERATOR, dry_run=dry_run)


# Group commit


@in_virtual_time
async def test_queued_groups_share_one_write_in_order():
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


@pytest.mark.parametrize("bound", ["groups", "bytes"])
@in_virtual_time
async def test_deciding_pauses_while_too_many_groups_are_unwritten(bound, monkeypatch):
    log = SlowLog()
    limits = {"group_batches_max": 1, "groups_in_flight_max": 3 if bound == "groups" else 99}
    if bound == "bytes":
        monkeypatch.setattr(committer, "IN_FLIGHT_BYTES_MAX", 250)  # a record has about 100
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
        assert world.counters.refusals[("admission", "overloaded")] == 0


@in_virtual_time
async def test_answers_behind_a_write_are_bounded():
    log = SlowLog()
    async with open_world(log=log, limits={"mailbox_batches_max": 5}) as world:
        log.hold()
        first = asyncio.ensure_future(submit(world, add("first")))
        await log.began()
        malformed = [world.actor.post_batch([], OPERATOR) for _ in range(8)]
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
) -> AsyncIterator[tuple[WorldRuntime, list["asyncio.Future[Any]"]]]:
    """The write fails while some batches wait for it and others are queued."""
    async with open_world(
        log=log, limits={"group_batches_max": 1, "groups_in_flight_max": 1}
    ) as world:
        if log.is_blocking:
            log.hold()
        else:
            log.failure = DISK_FULL
        waiters: list[asyncio.Future[Any]] = [
            world.actor.post_batch([add(f"r{number}")], OPERATOR) for number in range(5)
        ]
        if log.is_blocking:
            await log.began()
            await turns()
            waiters.append(asyncio.ensure_future(world.actor.command(lambda kernel: kernel.seq)))
        await turns()
        log.failure = log.failure or DISK_FULL
        log.release()
        yield world, waiters


@pytest.mark.parametrize("is_blocking", [True, False], ids=["in a thread", "in the loop"])
@in_virtual_time
async def test_a_failed_write_stops_the_world_and_fails_every_pending_answer(is_blocking):
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
            await world.executors.settled()
        assert world.committer.durable_seq == seq
    assert log.calls.count("append") == 4  # two of the start, one registration each, the failed one
    assert log.calls[-1] == "close"  # and nothing was written after the failure


@pytest.mark.parametrize("is_blocking", [True, False], ids=["in a thread", "in the loop"])
@in_virtual_time
async def test_a_failure_is_reported_once_and_not_per_unawaited_reply(is_blocking):
    said: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, what: said.append(what))
    log = SlowLog(is_blocking=is_blocking)
    async with open_world(log=log, limits={"group_batches_max": 1}) as world:
        faults: list[object] = []
        world.supervisor._on_fault = faults.append
        log.failure = DISK_FULL
        for number in range(20):
            world.actor.post_batch([add(f"r{number}")], OPERATOR)
        await turns()
        with pytest.raises(StoreError):
            await submit(world, add("later"))
    gc.collect()
    assert said == []
    assert len(faults) == 1


@pytest.mark.parametrize("is_blocking", [True, False], ids=["in a thread", "in the loop"])
@in_virtual_time
async def test_any_exception_of_a_write_stops_the_world(is_blocking):
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
async def test_a_failed_world_closes_and_reports_its_failure():
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


def committer_of(log: SlowLog, released: list[CycleOutput]) -> Committer:
    counters = Counters(kind.name for kind in Lab().kinds)
    return Committer(log, log.open(), LoopClock(), counters, 4, released.append)


def output_of(first: int, reply: "asyncio.Future[int] | None" = None) -> CycleOutput:
    return CycleOutput(
        LogAppend(first, first, first + 1, [b"x"]), [] if reply is None else [(reply, first)]
    )


@in_virtual_time
async def test_pending_answers_fail_at_the_end_of_the_shutdown_deadline():
    log = SlowLog()
    committer = committer_of(log, [])
    reply: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    committer.offer(output_of(0, reply))
    committer.close()
    with pytest.raises(StoreError, match="ask `verdict_of`"):
        await reply
    assert committer.waiting == 0
    assert log.calls == []


@in_virtual_time
async def test_closing_without_pending_answers_is_not_a_failure():
    committer = committer_of(SlowLog(), [])
    committer.close()
    assert committer.failure is None


@in_virtual_time
async def test_a_write_canceled_before_it_began_is_reported_as_unknown():
    log = SlowLog()
    committer = committer_of(log, [])
    reply: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    run = asyncio.ensure_future(committer.run())
    committer.offer(output_of(0, reply))
    run.cancel()
    await asyncio.wait([run])
    committer.close()
    with pytest.raises(StoreError):
        await reply


@in_virtual_time
async def test_a_commit_offered_after_a_failure_gets_the_failure():
    log = SlowLog()
    committer = committer_of(log, [])
    committer.fail(DISK_FULL)
    reply: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    committer.offer(output_of(0, reply))
    with pytest.raises(StoreError, match="the disk is full"):
        await reply
    assert log.calls == []


@in_virtual_time
async def test_flush_waits_for_offered_commits_or_a_failure():
    log = SlowLog()
    released: list[CycleOutput] = []
    committer = committer_of(log, released)
    run = asyncio.ensure_future(committer.run())
    log.hold()
    committer.offer(output_of(0))
    flushed = asyncio.ensure_future(committer.flush())
    await log.began()
    await turns()
    assert not flushed.done()
    log.let_go()
    await flushed
    assert released[0].append is not None
    log.failure = DISK_FULL
    committer.offer(output_of(1))
    flushed = asyncio.ensure_future(committer.flush())
    await log.began()
    log.let_go()
    await flushed
    with pytest.raises(StoreError):
        await run


@in_virtual_time
async def test_only_recorded_answers_name_the_durability_of_the_store():
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
async def test_close_makes_decided_batches_durable():
    log = SlowLog()
    async with open_world(log=log) as world:
        log.hold()
        tickets = [world.actor.post_batch([add(f"r{number}")], OPERATOR) for number in range(3)]
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
