"""Virtual time advances when no task is runnable, and stands still while a thread works."""

import asyncio
import threading

import anyio
from anyio import to_thread

from placet.actors.policies.agent import PolicyThread
from tests.actors.virtual_time import Gate, in_virtual_time


def now() -> float:
    return asyncio.get_running_loop().time()


def work() -> None:
    threading.Event().wait(0.02)


@in_virtual_time
async def test_time_stands_still_while_a_thread_works():
    with anyio.fail_after(1):
        await to_thread.run_sync(work)
    assert now() == 0


@in_virtual_time
async def test_time_advances_only_while_a_thread_waits_at_a_gate():
    gate, ended = Gate(), []

    def stand_and_work() -> None:
        gate.stand()
        work()

    async def call() -> None:
        await to_thread.run_sync(stand_and_work)
        ended.append(now())

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await asyncio.sleep(3600)
        assert len(gate.standing) == 1
        gate.let_go(1)
        await asyncio.sleep(1)
    assert ended == [3600]


@in_virtual_time
async def test_an_abandoned_gate_call_does_not_count_for_another():
    gate = Gate()
    with anyio.move_on_after(5):
        await to_thread.run_sync(gate.stand, abandon_on_cancel=True)
    assert now() == 5
    with anyio.fail_after(1):
        await to_thread.run_sync(work)
    with anyio.fail_after(1):
        await PolicyThread("t").call(work)
    assert now() == 5
    gate.let_go(1)
