"""Waits for simulated time end in order, or with an error if the time never comes."""

import asyncio

import pytest

from placet.actors.timers.timer_queue import TimerQueue
from placet.runtime.clock import SteppedClock
from placet.schemas.errors import ClosedError, StoreError
from placet.schemas.limits import SECOND_NS
from tests.actors.virtual_time import LoopClock, in_virtual_time, iterations, turns


@in_virtual_time
async def test_sleeping_tasks_wake_in_order_of_due_time():
    loop, sleepers, woken = asyncio.get_running_loop(), TimerQueue(LoopClock()), []

    async def sleep(name: str, due_s: float) -> None:
        await sleepers.sleep_until(round(due_s * SECOND_NS))
        woken.append((name, round(loop.time(), 2)))

    wakes = [("c", 3.0), ("a", 1.0), ("b1", 2.0), ("b2", 2.0), ("past", -1.0)]
    await asyncio.gather(*(sleep(name, due_s) for name, due_s in wakes))
    assert woken == [("past", 0.0), ("a", 1.0), ("b1", 2.0), ("b2", 2.0), ("c", 3.0)]
    assert len(sleepers) == 0


@in_virtual_time
async def test_a_host_clock_sets_no_timer_and_wakes_on_request():
    clock = SteppedClock()
    sleepers = TimerQueue(clock)
    tasks = [asyncio.create_task(sleepers.sleep_until(due)) for due in (5, 9)]
    await turns()
    assert (len(sleepers), sleepers.next_ns) == (2, 5)
    before = iterations()
    await asyncio.sleep(3600)
    assert iterations() - before < 5
    clock.advance(8)
    sleepers.wake()
    await turns()
    assert [task.done() for task in tasks] == [True, False]
    clock.advance(1)
    sleepers.wake()
    await tasks[1]
    assert sleepers.next_ns is None


@in_virtual_time
async def test_canceled_entries_are_dropped():
    sleepers = TimerQueue(SteppedClock())
    stays = asyncio.create_task(sleepers.sleep_until(10**9))
    for number in range(1000):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await sleepers.sleep_until(10**6 + number)
    assert len(sleepers) == 1
    assert len(sleepers._heap) < 200
    assert sleepers.next_ns == 10**9
    sleepers.end()
    with pytest.raises(ClosedError):
        await stays


@in_virtual_time
async def test_the_end_raises_in_all_sleeping_tasks():
    for failure, kind in ((None, ClosedError), (StoreError("disk full"), StoreError)):
        sleepers = TimerQueue(LoopClock())
        task = asyncio.create_task(sleepers.sleep_until(10**18))
        await turns()
        sleepers.end(failure)
        with pytest.raises(kind):
            await task
        with pytest.raises(kind):
            await sleepers.sleep_until(0)
