"""`wait`: submitters are served fairly, each in order; a batch that leaves frees its place."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from placet.actors.admission.fair_queue import owner_of
from placet.runtime.world import WorldRuntime
from placet.schemas.errors import StoreError
from placet.schemas.identity import OPERATOR
from placet.schemas.limits import SECOND_NS
from placet.schemas.verdict import Verdict
from tests.actors.fake_logs import SlowLog
from tests.actors.parts import Named, add, intent, open_world
from tests.actors.virtual_time import HandClock, LoopClock, in_virtual_time, iterations, turns

MS = 1_000_000


def waiting_world(**options: Any) -> Any:
    """Open a world whose queue has two places, unless said otherwise."""
    limits = {"mailbox_batches_max": 2, **options.pop("limits", {})}
    return open_world(backpressure="wait", limits=limits, **options)


def post(
    world: WorldRuntime, req_id: str, agent_id: str = "alice", **options: object
) -> "asyncio.Future[Verdict]":
    batch = {"intents": [add(req_id, agent_id=agent_id)], **options}
    return world.actor.post_batch(batch, agent_id)


def fill(world: WorldRuntime, count: int = 2) -> list["asyncio.Future[Verdict]"]:
    return [post(world, f"fill-{number}") for number in range(count)]


def line_of(world: WorldRuntime) -> tuple[int, int, dict[str, int]]:
    """Return the number of waiters, their bytes, and their owners."""
    queue: Any = world.actor._mailbox
    waiting = queue._waiters, queue._by_reply
    assert (queue._retry_timer is None and queue._deadline_timer is None) or all(waiting)
    assert len(queue._waiters) == len(queue._by_reply) == queue.waiters_count
    return queue.waiters_count, queue._waiters_bytes, dict(Counter(map(owner_of, queue._waiters)))


EMPTY: tuple[int, int, dict[str, int]] = (0, 0, {})


# In turns; each one's own, first come, first in


@in_virtual_time
async def test_batches_submitted_under_load_wait_and_are_decided_in_order_of_arrival():
    async with waiting_world(limits={"group_batches_max": 1}) as world:
        answers: dict[str, list[asyncio.Future[Verdict]]] = {"alice": [], "bob": []}
        for number in range(40):
            name = "alice" if number % 3 else "bob"
            answers[name].append(post(world, f"r{number}", name))
            if number % 4 == 0:
                await turns(1)  # some room, and newcomers for it
        assert world.actor._mailbox.waiters_count > 0
        for own in answers.values():
            seqs = [(await answer).seq for answer in own]
            assert seqs == sorted(seqs, key=lambda seq: seq or 0)
        assert line_of(world) == EMPTY


@in_virtual_time
async def test_the_wait_queue_serves_submitters_fairly_during_a_flood():
    async with waiting_world(limits={"group_batches_max": 1}) as world:
        await world.actor.pause()
        flood = fill(world, 300)
        modest = [post(world, f"b{number}", "bob") for number in range(3)]
        await world.actor.resume()
        seqs = [(await one).seq or 0 for one in flood]
        last = (await modest[-1]).seq or 0
        assert sum(seq < last for seq in seqs) <= 2 + 3 + 2  # in the queue, and turn by turn


@in_virtual_time
async def test_the_earliest_deadline_expires_first_independent_of_arrival():
    async with waiting_world() as world:
        await world.actor.pause()
        fill(world)
        answers = [post(world, f"r{s}", valid_for_s=s) for s in (3.0, 1.0, 2.0)]
        for done in ([False, True, False], [False, True, True], [True, True, True]):
            await asyncio.sleep(1.01)
            assert [answer.done() for answer in answers] == done
        assert line_of(world) == EMPTY


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
@in_virtual_time
async def test_batches_without_a_deadline_expire_among_those_with_one(order):
    waits = (None, 1.0, 2.0)
    async with waiting_world(limits={"wait_queue_ms_max": 1_500}) as world:
        await world.actor.pause()
        fill(world)
        answers = {n: post(world, f"r{n}", valid_for_s=waits[n]) for n in order}
        for seconds, done in (
            (0.99, set()),
            (0.02, {1}),
            (0.48, {1}),
            (0.02, {0, 1}),
            (1.0, {*order}),
        ):
            await asyncio.sleep(seconds)
            assert {n for n, answer in answers.items() if answer.done()} == done
        assert line_of(world) == EMPTY


@in_virtual_time
async def test_deadlines_of_entries_that_left_are_dropped():
    for valid_for_s in (None, 9.0):
        async with waiting_world() as world:
            await world.actor.pause()
            fill(world, 3)
            for number in range(500):
                post(world, f"r{number}", valid_for_s=valid_for_s).cancel()
                await turns(1)
            queue: Any = world.actor._mailbox
            assert line_of(world)[0] == 1
            assert len(queue._deadlines) + len(queue._default_deadlines) < 100
            assert len(queue._waiters._schedule) < 100


@in_virtual_time
async def test_a_new_batch_does_not_overtake_the_wait_queue():
    clock = HandClock(1)
    limits = {"loop_lag_ms_max": 10, "group_batches_max": 1}
    async with waiting_world(time=clock, limits=limits) as world:
        late = post(world, "late")
        clock.forward(20 * MS)  # the loop is busy elsewhere: a lag of 20 ms, believed for as long
        await late
        first = post(world, "first")
        assert world.actor._mailbox.waiters_count == 1
        clock.forward(30 * MS)  # the lag is over, the line's timer has not rung yet
        second = post(world, "second", "bob")
        assert world.actor._mailbox.waiters_count == 2
        assert (await first).seq < (await second).seq  # type: ignore[operator]


@in_virtual_time
async def test_one_timer_admits_waiters_to_an_empty_queue_after_a_lag():
    clock = LoopClock()
    async with waiting_world(time=clock, limits={"loop_lag_ms_max": 10}) as world:
        world.actor._ingress._control.note_lag(3 * SECOND_NS, clock.monotonic_ns())
        answers = fill(world, 5)
        await turns()
        before = iterations()
        await asyncio.sleep(2.9)
        assert iterations() - before < 5  # no polling
        assert not any(answer.done() for answer in answers)
        await asyncio.sleep(0.2)
        assert all(answer.result().admitted for answer in answers)


@in_virtual_time
async def test_time_in_the_wait_queue_does_not_count_for_the_age_signal():
    """Otherwise each batch of a long wait would exceed the age limit, and only one be admitted."""
    clock = HandClock(1)
    limits = {"mailbox_age_ms_max": 100, "mailbox_batches_max": 20, "group_batches_max": 5}
    async with waiting_world(time=clock, limits=limits) as world:
        await world.actor.pause()
        answers = fill(world, 60)
        clock.forward(SECOND_NS)
        await world.actor.resume()
        while sum(answer.done() for answer in answers) < 30:
            await turns(1)
        oldest = world.actor._mailbox.oldest
        assert oldest is not None
        assert (oldest.since_ns, oldest.queued_ns) == (1, clock.monotonic_ns())
        assert len(world.actor._mailbox) == 20  # as many came in as were taken
        await turns(20)
        assert all(answer.done() for answer in answers)


@in_virtual_time
async def test_waiting_needs_no_task_and_no_loop_iterations():
    limits = {"wait_queue_ms_max": 10**8}
    async with waiting_world(time=HandClock(1), limits=limits) as world:
        await world.actor.pause()
        tasks = len(asyncio.all_tasks())
        answers = fill(world, 500)
        await turns()
        assert len(asyncio.all_tasks()) == tasks
        before = iterations()
        await asyncio.sleep(3600)
        assert iterations() - before <= 2
        await world.actor.resume()
        assert all([(await answer).admitted for answer in answers])


# Its bounds


@in_virtual_time
async def test_a_batch_is_refused_at_its_deadline_and_leaves_no_trace():
    async with waiting_world() as world:
        await world.actor.pause()
        fill(world)
        short, long = post(world, "short", valid_for_s=0.25), post(world, "long", valid_for_s=5.0)
        await asyncio.sleep(0.24)
        assert not short.done()
        await asyncio.sleep(0.02)
        refusal = short.result().refusals[0]
        assert refusal.code == "timeout"
        assert refusal.details["signal"] == "waited_s"
        assert (refusal.details["value"], refusal.details["limit"]) == (0.25, 0.25)
        assert not long.done()
        assert line_of(world)[0] == 1
        records = world.log.count()
        await world.actor.resume()
        assert (await long).admitted
        assert world.log.count() == records + 2  # a batch, and the group of those that waited
        assert not any(b"short" in record for _, record in world.log.read())
        again = await post(world, "short")
        assert (again.admitted, again.replayed) == (True, False)


@in_virtual_time
async def test_a_deadline_counts_from_submission_through_both_queues():
    async with waiting_world() as world:
        await world.actor.pause()
        fill(world)
        late = post(world, "late", valid_for_s=2.0)
        await asyncio.sleep(1.5)
        queue = world.actor._mailbox
        queue.is_paused = False
        queue.take(2)
        queue.pause()
        assert (queue.waiters_count, len(queue)) == (0, 1)
        await asyncio.sleep(1.0)
        assert not late.done()  # in the queue, the drain looks at it
        await world.actor.resume()
        refusal = (await late).refusals[0]
        assert (refusal.code, refusal.details["value"]) == ("timeout", 2.5)


@in_virtual_time
async def test_a_batch_without_a_deadline_waits_no_longer_than_the_limit():
    async with waiting_world(limits={"wait_queue_ms_max": 700}) as world:
        await world.actor.pause()
        fill(world)
        patient = post(world, "patient")
        await asyncio.sleep(0.69)
        assert not patient.done()
        await asyncio.sleep(0.02)
        assert patient.result().codes == ("timeout",)
        assert line_of(world) == EMPTY


@in_virtual_time
async def test_the_wait_queue_is_bounded_by_count():
    async with waiting_world(limits={"wait_queue_batches_max": 3}) as world:
        for number in range(5):
            world.actor.post_batch([add(f"r{number}")], OPERATOR)
        refusal = world.actor.post_batch(["not looked at"], OPERATOR).result().refusals[0]
        assert refusal.code == "queue_full"
        assert refusal.details == {"signal": "wait_queue_batches", "value": 3, "limit": 3}
        assert refusal.retry_after is not None
        await turns()
        assert (await post(world, "later")).admitted


@in_virtual_time
async def test_the_wait_queue_is_bounded_by_the_bytes_of_its_batches():
    async with waiting_world(limits={"wait_queue_bytes_max": 450}) as world:
        await world.actor.pause()
        fill(world)
        waits = [post(world, f"{number}" + "x" * 100) for number in range(3)]
        size = line_of(world)[1]
        refusal = post(world, "3" + "x" * 100).result().refusals[0]
        assert refusal.code == "queue_full"
        assert refusal.details == {
            "signal": "wait_queue_bytes",
            "value": size // 3 * 4,
            "limit": 450,
        }
        waits[1].cancel()
        await turns()
        assert line_of(world)[1] == size // 3 * 2
        again = post(world, "3" + "x" * 100)
        assert line_of(world)[1] == size
        await world.actor.resume()
        assert (await again).admitted
        assert line_of(world) == EMPTY


@in_virtual_time
async def test_an_empty_wait_queue_accepts_a_batch_of_any_size():
    async with waiting_world(limits={"wait_queue_bytes_max": 50}) as world:
        await world.actor.pause()
        fill(world)
        large = post(world, "x" * 100)
        await world.actor.resume()
        assert (await large).admitted


@in_virtual_time
async def test_admitted_waiters_keep_the_byte_bound_of_the_queue():
    limits = {"mailbox_batches_max": 40, "group_batches_max": 2}
    names = tuple(f"agent_{number}" for number in range(10))
    async with waiting_world(limits={**limits, "mailbox_bytes_max": 700}, agents=names) as world:
        await world.actor.pause()
        answers = [post(world, f"r{n}", names[n % 10]) for n in range(60)]
        queue = world.actor._mailbox
        assert queue.waiters_count > 20
        await world.actor.resume()
        while not all(answer.done() for answer in answers):
            assert 0 <= queue.statistics().waiting_bytes <= 700
            await asyncio.sleep(0)
        assert all(answer.result().admitted for answer in answers)


@in_virtual_time
async def test_one_submitter_leaves_half_of_the_wait_queue_free():
    async with waiting_world(limits={"wait_queue_batches_max": 8}) as world:
        await world.actor.pause()
        answers = [post(world, f"flood-{number}") for number in range(20)]
        assert line_of(world)[2] == {"alice": 4}
        refusal = answers[-1].result().refusals[0]
        assert refusal.code == "queue_full"
        assert refusal.details == {
            "signal": "wait_queue_batches_of_submitter",
            "value": 4,
            "limit": 4,
        }
        assert not post(world, "bob", "bob").done()
        by_operator = [world.actor.post_batch([add(f"o{n}")], OPERATOR) for n in range(3)]
        assert not any(answer.done() for answer in by_operator)  # it speaks for all


# Leaving it


@in_virtual_time
async def test_a_canceled_waiter_leaves_no_trace_and_the_next_is_admitted():
    """The first waiter is too large for the free bytes of the queue; the next is not."""
    async with waiting_world(limits={"mailbox_bytes_max": 100, "mailbox_batches_max": 9}) as world:
        await world.actor.pause()
        post(world, "fill")
        large = post(world, "x" * 100)
        small = asyncio.ensure_future(world_submit(world, "small"))
        await turns()
        assert line_of(world)[0] == 2
        large.cancel()
        await turns()
        assert line_of(world) == EMPTY
        assert len(world.actor._mailbox) == 2
        await world.actor.resume()
        assert (await small).admitted
        assert not any(b"xxx" in record for _, record in world.log.read())


async def world_submit(world: WorldRuntime, req_id: str) -> Verdict:
    return await post(world, req_id)


@in_virtual_time
async def test_canceling_a_submit_in_the_wait_queue_withdraws_it_at_once():
    async with waiting_world() as world:
        await world.actor.pause()
        fill(world)
        submits = [asyncio.ensure_future(world_submit(world, f"r{n}")) for n in range(50)]
        await turns()
        for submit in submits[::2]:
            submit.cancel()
        await turns()
        assert line_of(world)[0] == 25
        await world.actor.resume()
        await turns()
        assert line_of(world) == EMPTY
        kept = [world.kernel.verdict_of("alice", f"r{n}") is not None for n in range(50)]
        assert kept == [bool(n % 2) for n in range(50)]


@in_virtual_time
async def test_a_waiter_canceled_at_its_deadline_is_not_answered():
    async with waiting_world() as world:
        await world.actor.pause()
        fill(world)
        submitted: list[asyncio.Future[Verdict]] = []
        # Set before the deadline's own timer, so it rings before it.
        asyncio.get_running_loop().call_later(0.5, lambda: [one.cancel() for one in submitted])
        late = post(world, "late", valid_for_s=0.5)
        submitted.append(late)
        await asyncio.sleep(1)
        assert late.cancelled()
        assert world.counters.refusals["admission", "timeout"] == 0
        assert line_of(world) == EMPTY


@in_virtual_time
async def test_a_waiter_canceled_when_admitted_takes_no_place():
    async with waiting_world() as world:
        fill(world)
        gone, next_one = post(world, "gone"), post(world, "next")
        gone.cancel()  # and the queue is drained before the loop tells anybody
        world.actor._mailbox.take(2)
        assert line_of(world) == EMPTY
        assert world.actor._mailbox.oldest.reply is next_one


@in_virtual_time
async def test_closing_decides_the_wait_queue():
    clock = HandClock(1)
    async with waiting_world(time=clock, limits={"loop_lag_ms_max": 10}) as world:
        answers = fill(world, 9)
        world.actor._ingress._control.note_lag(10**12, clock.monotonic_ns())
    assert all(answer.result().admitted for answer in answers)
    assert line_of(world) == EMPTY


@in_virtual_time
async def test_a_failing_world_fails_the_wait_queue_with_its_reason():
    log = SlowLog()
    async with waiting_world(log=log) as world:
        answers = fill(world, 9)
        log.failure = OSError("the disk is full")
        for answer in answers:
            with pytest.raises(StoreError, match="the disk is full"):
                await answer
        assert line_of(world) == EMPTY


# What never waits


@in_virtual_time
async def test_a_batch_that_would_be_refused_anyway_does_not_wait():
    limits = {"ingress_burst_max": 40, "ingress_rate_per_second_max": 1}
    async with waiting_world(limits=limits, time=HandClock(1)) as world:
        await world.actor.pause()
        fill(world, 10)
        unsound = world.actor.post_batch([intent("Unknown", {})], "alice")
        stranger = world.actor.post_batch([add("r")], "alice", identity=Named("alice", 77))
        await turns()
        assert unsound.result().codes == ("kind_unknown",)
        assert stranger.result().codes == ("unauthorized",)
        codes = [answer.result().codes for answer in fill(world, 40) if answer.done()]
        assert codes
        assert set(codes) == {("ingress_rate_exceeded",)}


# The stepped world


@in_virtual_time
async def test_the_wait_queue_of_a_stepped_world_is_decided_in_the_next_step():
    async with waiting_world(clock="stepped") as world:
        answers = fill(world, 5)
        by_step = [[v.results[0].req_id for v in await world.actor.step(1)] for _ in range(4)]
        assert by_step == [["fill-0", "fill-1"], ["fill-2", "fill-3"], ["fill-4"], []]
        assert all(answer.result().admitted for answer in answers)


@in_virtual_time
async def test_a_dry_run_in_a_stepped_world_does_not_wait_behind_held_batches():
    async with waiting_world(clock="stepped") as world:
        fill(world, 5)
        dry = await world.actor.post_batch([add("dry")], "alice", dry_run=True)
        assert dry.admitted
        scheduled = await post(world, "later", sim_time=5.0)
        assert scheduled.scheduled


@in_virtual_time
async def test_an_immediate_batch_in_the_wait_queue_is_answered_before_the_step():
    async with waiting_world(clock="stepped") as world:
        answers = [post(world, f"later {number}", sim_time=0.5) for number in range(7)]
        await world.actor.step(SECOND_NS)
        assert all(answer.result().scheduled for answer in answers)
        assert world.kernel.ledger.scheduled == {}


@in_virtual_time
async def test_gauges_count_the_wait_queue():
    async with waiting_world() as world:
        fill(world, 7)
        assert len(world.actor) == 7
        assert world.counters.gauges["mailbox_depth"]["orchestrator"]() == 7
        assert world.statistics()["waiting"] == 7


@in_virtual_time
async def test_each_batch_is_screened_for_itself():
    async with waiting_world(limits={"wait_queue_batches_max": 2}) as world:
        await world.actor.pause()
        answers = fill(world, 3)
        queue: Any = world.actor._mailbox
        (first,) = queue._waiters
        reason = queue.enqueue_under_load(
            first, queue._full
        )  # as if it had come once more, and was not asked
        assert reason is not None
        assert reason.signal == "wait_queue_batches_of_submitter"
        assert line_of(world)[0] == 1
        await world.actor.resume()
        assert all([(await answer).admitted for answer in answers])
