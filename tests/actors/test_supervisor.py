"""A supervisor restarts failed tasks within a budget, then escalates; no task outlives it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import pytest

from placet.actors.supervisor import Supervisor, TaskFailure
from placet.schemas.limits import Limits
from tests.actors.virtual_time import LoopClock, in_virtual_time, turns

LIMITS = Limits(restarts_max=3, restart_window_s=60)


class Watch:
    """A running supervisor, and the faults that it reported."""

    def __init__(self) -> None:
        self.faults: list[TaskFailure] = []
        self.given_up: list[tuple[str, BaseException]] = []
        self.supervisor = Supervisor(LIMITS, LoopClock(), self.faults.append)

    def start(
        self, run: Callable[[], Awaitable[None]], name: str = "task", **options: bool
    ) -> None:
        give_up = lambda name, error: self.given_up.append((name, error))  # noqa: E731
        self.supervisor.start(name, run, give_up, **options)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Watch"]:
        started = anyio.Event()
        root = asyncio.ensure_future(self.supervisor.run(started))
        await started.wait()
        try:
            yield self
        finally:
            self.supervisor.stop()
            await root


class Failing:
    """A task that records its start, runs for some seconds, and fails."""

    def __init__(self, lives_s: float = 0.0, failures: int = 10**9) -> None:
        self.started: list[float] = []
        self._lives_s = lives_s
        self._failures = failures

    async def run(self) -> None:
        self.started.append(round(asyncio.get_running_loop().time(), 3))
        await asyncio.sleep(self._lives_s)
        if len(self.started) <= self._failures:
            raise OSError(f"failure {len(self.started)}")


@in_virtual_time
async def test_a_task_that_fails_is_restarted_until_its_budget_is_spent_then_escalated():
    failing = Failing()
    async with Watch().running() as watch:
        watch.start(failing.run)
        await asyncio.sleep(100)
        assert len(failing.started) == 1 + LIMITS.restarts_max
        assert [fault.is_restarted for fault in watch.faults] == [True, True, True, False]
        assert {fault.name for fault in watch.faults} == {"task"}
        assert [(name, str(error)) for name, error in watch.given_up] == [("task", "failure 4")]
        assert watch.supervisor.restarts == LIMITS.restarts_max


@in_virtual_time
async def test_pauses_between_restarts_double():
    failing = Failing()
    async with Watch().running() as watch:
        watch.start(failing.run)
        await asyncio.sleep(100)
    assert failing.started == [0.0, 0.01, 0.03, 0.07]


@in_virtual_time
async def test_failures_outside_the_window_do_not_count():
    """One failure every 25 s never fills a budget of three in 60 s."""
    failing = Failing(lives_s=25)
    async with Watch().running() as watch:
        watch.start(failing.run)
        await asyncio.sleep(1000)
        assert watch.given_up == []
        assert len(failing.started) == 40


@in_virtual_time
async def test_the_pause_has_a_limit():
    limits = Limits(restarts_max=12, restart_window_s=3600)
    watch, failing = Watch(), Failing()
    watch.supervisor = Supervisor(limits, LoopClock(), watch.faults.append)
    async with watch.running():
        watch.start(failing.run)
        await asyncio.sleep(1000)
    pauses = [
        after - before for before, after in zip(failing.started, failing.started[1:], strict=False)
    ]
    assert max(pauses) == pytest.approx(5.0)
    assert len(failing.started) == 13


@in_virtual_time
async def test_a_task_without_restarts_escalates_its_first_failure():
    failing = Failing()
    async with Watch().running() as watch:
        watch.start(failing.run, restarts=False)
        await turns()
        assert len(failing.started) == len(watch.given_up) == 1
        assert not watch.faults[0].is_restarted


@in_virtual_time
async def test_a_task_that_recovers_or_returns_is_not_restarted():
    failing = Failing(failures=2)
    async with Watch().running() as watch:
        watch.start(failing.run)
        await asyncio.sleep(100)
        assert len(failing.started) == 3
        assert watch.given_up == []


@in_virtual_time
async def test_one_task_that_fails_does_not_disturb_another():
    async with Watch().running() as watch:
        ticks = []

        async def tick() -> None:
            for number in range(20):
                await asyncio.sleep(0.01)
                ticks.append(number)

        watch.start(Failing().run, "bad")
        watch.start(tick, "good")
        await asyncio.sleep(1)
        assert ticks == list(range(20))


@in_virtual_time
async def test_cancel_ends_one_task_also_in_its_pause_and_is_harmless_later():
    failing, patient = Failing(lives_s=1), Failing(lives_s=50)
    async with Watch().running() as watch:
        watch.start(failing.run, "failing")
        watch.start(patient.run, "patient")
        await asyncio.sleep(1.005)  # in the first pause
        watch.supervisor.cancel("failing")
        await asyncio.sleep(10)
        watch.supervisor.cancel("failing")
        watch.supervisor.cancel("never started")
        assert len(failing.started) == len(patient.started) == 1
        assert watch.given_up == []


@in_virtual_time
async def test_no_task_is_left_after_stop():
    before = asyncio.all_tasks()
    ended = []

    async def wait_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(1)

    async with Watch().running() as watch:
        for number in range(5):
            watch.start(wait_for_ever, f"task {number}")
        watch.start(Failing().run, "failing")
        await asyncio.sleep(0.02)  # the failing one is in a pause
        assert len(asyncio.all_tasks()) > len(before)
    assert asyncio.all_tasks() == before
    assert len(ended) == 5


def test_start_needs_a_running_supervisor():
    with pytest.raises(AssertionError, match="while it runs"):
        Watch().start(Failing().run)
