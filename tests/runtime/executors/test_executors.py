"""Handlers in threads and in separate processes. Both are real, so these tests use real time."""

import asyncio
import os
import pickle
import signal
import threading
import time
from functools import partial
from typing import Any

import pytest

from placet.runtime.executors import (
    Backoff,
    DoNotRetry,
    Effect,
    EffectKey,
    InProcess,
    OutcomeUnknown,
    RetryAfter,
    Settlement,
)
from placet.runtime.executors.thread import ThreadHandler, ThreadsBusy
from placet.runtime.world import WorldRuntime
from placet.schemas.codec import Json
from tests.actors.effects.test_executor import mail, settled
from tests.actors.parts import effects_of, open_world, register_executor
from tests.actors.real_time import until

SOON = Backoff(first_s=0.001)
EFFECT = Effect(EffectKey("world", 1, 0), "mail", {}, "alice")


async def outcomes(world: WorldRuntime) -> list[tuple[bool, Any]]:
    await asyncio.wait_for(world.executors.settled(), 20)
    return [(record.succeeded, record.output) for record in settled(world)]


def where_it_runs(effect: Effect) -> Json:
    return [os.getpid(), threading.get_ident(), str(effect.key), effect.attempt]


def end_the_process(effect: Effect) -> Json:
    if effect.attempt == 1 and effect.payload["number"] == 0:
        os._exit(7)
    return "survived"


def never_return(effect: Effect) -> Json:
    time.sleep(600)
    return None


def return_a_lock(effect: Effect) -> Json:
    if effect.attempt > 1:
        os._exit(7)
    return threading.Lock()


def refuse_for_good(effect: Effect) -> Json:
    raise DoNotRetry("no such address")


async def test_plain_function_runs_in_a_thread_while_the_world_decides():
    goes, began = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(effect: Effect) -> Json:
        loop.call_soon_threadsafe(began.set)
        assert goes.wait(60)
        return where_it_runs(effect)

    async with open_world() as world:
        await register_executor(world, slow, concurrency=1)
        verdict = await mail(world)
        await began.wait()
        assert (await mail(world, 1, "b")).admitted  # the slow handler delays no commit
        goes.set()
        (succeeded, (pid, thread, key, attempt)), _ = await outcomes(world)
        assert (succeeded, pid, attempt) == (True, os.getpid(), 1)
        assert thread != threading.get_ident()
        assert key == f"world/{verdict.seq}/0"


async def test_awaitable_result_of_a_plain_function_is_awaited():
    async def inner(effect: Effect) -> str:
        return f"later {effect.payload['number']}"

    async with open_world() as world:
        await register_executor(world, lambda effect: inner(effect))  # noqa: PLW0108  # a plain function
        await mail(world)
        assert await outcomes(world) == [(True, "later 0")]


async def test_partial_of_an_async_function_runs_in_the_event_loop():
    async def inner(_greeting: str, effect: Effect) -> int:
        return threading.get_ident()

    async with open_world() as world:
        await register_executor(world, partial(inner, "good day"))
        await mail(world)
        assert await outcomes(world) == [(True, threading.get_ident())]


async def test_number_of_abandoned_threads_is_bounded():
    goes, begun = threading.Event(), asyncio.Semaphore(0)
    loop = asyncio.get_running_loop()

    def hang(_: Effect) -> bool:
        loop.call_soon_threadsafe(begun.release)
        return goes.wait(60)

    handler = ThreadHandler(hang, 1)
    try:
        for _ in range(2):
            attempt = asyncio.ensure_future(handler(EFFECT))
            await begun.acquire()
            attempt.cancel()
            await asyncio.wait([attempt])
            assert attempt.cancelled()
        with pytest.raises(ThreadsBusy, match="2 calls take too long"):
            await handler(EFFECT)
    finally:
        goes.set()
    await until(lambda: handler._calls == 0)
    assert await handler(EFFECT) is True


async def test_plain_function_may_resolve_an_effect_in_doubt():
    async with open_world() as world:
        await register_executor(
            world,
            InProcess(end_the_process),
            delivery="at_most_once",
            on_in_doubt=lambda effect: Settlement(effect.key, False, "it never arrived"),
        )
        await mail(world)
        assert await outcomes(world) == [(False, "it never arrived")]


@pytest.mark.slow
async def test_function_runs_in_another_process():
    async with open_world() as world:
        await register_executor(world, InProcess(where_it_runs), concurrency=1)
        await mail(world, 2)
        (_, (pid, _, first, _)), (_, (again, _, second, _)) = await outcomes(world)
        assert pid == again != os.getpid()  # the process is reused
        assert first != second


async def test_dead_process_fails_only_its_own_attempt():
    async with open_world() as world:
        await register_executor(world, InProcess(end_the_process), backoff=SOON, concurrency=2)
        await mail(world, 3)
        assert sorted(await outcomes(world)) == [(True, "survived")] * 3
        assert world.counters.effect_counts["mail", "retries"] == 1


async def test_output_that_cannot_leave_its_process_is_no_failed_attempt():
    async with open_world() as world:
        await register_executor(world, InProcess(return_a_lock), backoff=SOON)
        await mail(world)
        ((succeeded, output),) = await outcomes(world)
        assert succeeded
        assert output["not_recorded"].startswith("output cannot leave its process: TypeError")
        assert world.counters.effect_counts["mail", "attempts"] == 1


@pytest.mark.slow
async def test_dead_process_leaves_an_at_most_once_effect_in_doubt():
    async with open_world() as world:
        await register_executor(world, InProcess(end_the_process), delivery="at_most_once")
        await mail(world)
        assert await outcomes(world) == []
        assert [one.state for one in await effects_of(world).effects()] == ["in_doubt"]


async def test_process_that_exceeds_its_time_limit_is_killed():
    async with open_world() as world:
        await register_executor(world, InProcess(never_return), attempts_max=1, seconds_max=0.5)
        await mail(world)
        why = "the handler took longer than 0.5 s"
        assert await outcomes(world) == [(False, why)]  # the call would return much later


@pytest.mark.parametrize(
    "said",
    [RetryAfter(0.5), RetryAfter(2, "slow down"), DoNotRetry("gone"), OutcomeUnknown("lost")],
    ids=repr,
)
def test_handler_exceptions_survive_pickling(said):
    heard = pickle.loads(pickle.dumps(said))
    assert (type(heard), str(heard), vars(heard)) == (type(said), str(said), vars(said))


@pytest.mark.slow
async def test_handler_exceptions_reach_the_executor_from_another_process():
    async with open_world() as world:
        await register_executor(world, InProcess(refuse_for_good))
        await mail(world)
        assert await outcomes(world) == [(False, "DoNotRetry: no such address")]


def test_effect_key_is_parsed_from_its_text():
    key = EffectKey("a world", 17, 3)
    assert EffectKey.parse(str(key)) == key
    for text in ("", "a", "a/1", "a/1/", "/1/2", "a/b/1", "a/1/2/3", "a/-1/0"):
        with pytest.raises(ValueError, match="WORLD/SEQ/INDEX"):
            EffectKey.parse(text)


def leave(effect: Effect) -> Json:
    if effect.attempt == 1:
        raise SystemExit(3)
    return "survived"


def be_interrupted(effect: Effect) -> Json:
    if effect.attempt == 1:
        raise KeyboardInterrupt
    return "survived"


@pytest.mark.parametrize(
    "handler",
    [leave, InProcess(leave), InProcess(be_interrupted)],
    ids=["thread", "process", "interrupted"],
)
async def test_handler_that_exits_ends_its_attempt_and_not_the_world(handler):
    async with open_world() as world:
        await register_executor(world, handler, backoff=SOON)
        await mail(world)
        assert await outcomes(world) == [(True, "survived")]


async def test_interrupt_does_not_reach_handler_processes():
    """A terminal sends SIGINT to every process, even if the program handles it and continues."""
    async with open_world() as world:
        await register_executor(world, InProcess(where_it_runs))
        await mail(world, 1, "a")
        ((_, (pid, *_)),) = await outcomes(world)
        os.kill(pid, signal.SIGINT)
        await mail(world, 1, "b")
        _, (succeeded, (same, *_)) = await outcomes(world)
        assert (succeeded, same) == (True, pid)
        assert pid != os.getpid()


async def test_attempt_canceled_before_a_thread_took_it_frees_its_place():
    handler = ThreadHandler(where_it_runs, concurrency=1)
    for _ in range(5):
        task = asyncio.ensure_future(handler(EFFECT))
        asyncio.get_running_loop().call_soon(task.cancel)
        assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], BaseException)
    await until(lambda: handler._calls == 0)  # a started thread ends by itself
    assert (await handler(EFFECT))[2] == "world/1/0"
