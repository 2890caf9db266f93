"""Effects run after their batch is durable, and each is settled once, through the gate (G17)."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from placet.runtime.world import WorldRuntime
from placet.schemas.effect import Effect
from placet.schemas.errors import ClosedError, StoreError
from placet.schemas.identity import OPERATOR
from placet.schemas.log.record import Settled, decode_record
from placet.schemas.verdict import Verdict
from placet.stores.memory import MemoryEventLog
from placet.stores.sqlite.log import SqliteEventLog
from tests.actors.fake_logs import SlowLog
from tests.actors.parts import MAIL, intent, open_world, register_executor
from tests.actors.virtual_time import in_virtual_time, turns
from tests.kernel.domains import Lab


class Post:
    """A handler that records its effects, and returns or raises the outcomes set by the test.

    Attributes:
        began: The effects that it was called with, in order.
        most: How many ran at a time, at most.
    """

    def __init__(self, seconds: float = 0.0, outcomes: Sequence[Any] = ()) -> None:
        self.began: list[Effect] = []
        self.most = 0
        self._running = 0
        self._seconds = seconds
        self._outcomes = list(outcomes)

    async def __call__(self, effect: Effect) -> Any:
        self.began.append(effect)
        self._running += 1
        self.most = max(self.most, self._running)
        try:
            await asyncio.sleep(self._seconds)
        finally:
            self._running -= 1
        outcome = self._outcomes.pop(0) if self._outcomes else f"sent {effect.payload['number']}"
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


async def mail(world: WorldRuntime, count: int = 1, req_id: str = "r") -> Verdict:
    return await world.actor.post_batch([intent("Mail", {"count": count}, req_id)], OPERATOR)


def settled(world: WorldRuntime) -> list[Settled]:
    records = [decode_record(data) for _, data in world.log.read()]
    return [record for record in records if isinstance(record, Settled)]


@in_virtual_time
async def test_an_effect_runs_after_its_batch_and_its_outcome_is_a_record_and_state():
    post = Post()
    async with open_world() as world:
        await register_executor(world, post)
        verdict = await mail(world, 2)
        await world.executors.settled()
        assert [str(effect.key) for effect in post.began] == [
            f"world/{verdict.seq}/0",
            f"world/{verdict.seq}/1",
        ]
        assert {effect.agent_id for effect in post.began} == {"alice"}
        assert [
            (record.effect_index, record.succeeded, record.output) for record in settled(world)
        ] == [
            (0, True, "sent 0"),
            (1, True, "sent 1"),
        ]
        letters = world.kernel.state["lab.letters"]
        assert letters[f"world/{verdict.seq}/1"] == {"output": "sent 1"}
        assert world.counters.effect_seconds["mail", "settled"].count == 2


UNTOLD = object()


class Panic(BaseException):
    """A panic as Rust extensions raise it; not an `Exception`."""


@pytest.mark.parametrize(
    ("outcome", "succeeded", "output"),
    [
        ({"id": 7, "tags": ["a"]}, True, {"id": 7, "tags": ["a"]}),
        (None, True, None),
        (OSError("no route to host"), False, "OSError: no route to host"),
        (TimeoutError("the server's own"), False, "TimeoutError: the server's own"),
        (asyncio.CancelledError("a pool was closed"), False, "CancelledError: a pool was closed"),
        (Panic("index out of bounds"), False, "Panic: index out of bounds"),
        (BaseExceptionGroup("of a group", [Panic()]), False, UNTOLD),
        (ValueError("no " * 100_000), False, "ValueError: " + ("no " * 400)[:988]),
        (OSError("no file 'a\udc80'"), False, "OSError: no file 'a?'"),
        ({1, 2}, True, [1, 2]),
        (float("nan"), True, UNTOLD),
        (UNTOLD, True, UNTOLD),
    ],
    ids=lambda value: type(value).__name__,
)
@in_virtual_time
async def test_every_handler_outcome_settles_once(outcome, succeeded, output):
    async with open_world() as world:
        await register_executor(world, Post(outcomes=[outcome]), attempts_max=1)
        await mail(world, 2)
        await world.executors.settled()
        first, second = settled(world)
        assert first.succeeded == succeeded
        assert first.output == output or output is UNTOLD
        assert (second.succeeded, second.output) == (True, "sent 1")  # the executor goes on
        assert succeeded or isinstance(first.output, str)


@in_virtual_time
async def test_a_handler_that_takes_too_long_is_stopped_and_settled_as_failed():
    async with open_world(limits={"effect_seconds_max": 5}) as world:
        await register_executor(world, Post(seconds=3600), attempts_max=1)
        await mail(world)
        await world.executors.settled()
        assert asyncio.get_running_loop().time() == pytest.approx(5, abs=0.1)
        assert settled(world)[0].output == "the handler took longer than 5 s"
        assert world.counters.effect_seconds["mail", "failed"].count == 1


@in_virtual_time
async def test_concurrency_is_bounded_and_the_oldest_effect_runs_first():
    post = Post(seconds=1)
    async with open_world() as world:
        await register_executor(world, post, concurrency=3)
        await mail(world, 10)
        await world.executors.settled()
        assert post.most == 3
        assert [effect.key.effect_index for effect in post.began] == list(range(10))
        assert asyncio.get_running_loop().time() == pytest.approx(4, abs=0.1)


@in_virtual_time
async def test_the_gate_refuses_while_the_outbox_is_full_and_passes_once_it_is_not():
    async with open_world() as world:
        await register_executor(world, Post(seconds=1), concurrency=1, outbox_max=2)
        assert (await mail(world, 2, "a")).admitted
        busy = await mail(world, 1, "b")
        assert busy.codes == ("executor_busy",)
        assert "executor 'mail' has 2 effects waiting, its limit is 2" in busy.refusals[0].message
        assert world.counters.gauges["outbox_depth"][MAIL]() == 2
        await world.executors.settled()
        again = await mail(world, 1, "b")
        assert (again.admitted, again.replayed) == (True, False)
        await world.executors.settled()


@in_virtual_time
async def test_an_effect_without_an_executor_is_refused_at_the_gate():
    async with open_world() as world:
        verdict = await mail(world)
        assert verdict.codes == ("tool_unregistered",)
        assert world.kernel.open_effects() == []
        await world.executors.settled()


@in_virtual_time
async def test_a_kind_has_one_executor():
    async with open_world() as world:
        await register_executor(world, Post())
        with pytest.raises(ValueError, match="'mail' have an executor already"):
            await register_executor(world, Post())


@in_virtual_time
async def test_an_outcome_is_recorded_once():
    post = Post()
    async with open_world() as world:
        await register_executor(world, post)
        await mail(world)
        await world.executors.settled()
        executor, effect = world.executors.by_kind[MAIL], post.began[0]
        executor.take(effect)  # once more, as after a confusion
        await turns()
        assert len(post.began) == 2  # at least once...
        assert len(settled(world)) == 1  # ...and settled exactly once


@in_virtual_time
async def test_an_effect_taken_twice_runs_once():
    post = Post(seconds=1)
    async with open_world() as world:
        await register_executor(world, post, concurrency=1)
        await mail(world, 2)
        for effect in world.kernel.open_effects():
            world.executors.by_kind[MAIL].take(effect)
        await asyncio.sleep(10)
        assert len(post.began) == len(settled(world)) == 2


@in_virtual_time
async def test_a_hook_that_raises_at_a_settlement_does_not_keep_it_open():
    async with open_world(domain=Lab("on_settle")) as world:
        await register_executor(world, Post())
        await mail(world)
        await world.executors.settled()
        assert len(settled(world)) == 1
        assert "lab.letters" not in world.kernel.state


def test_an_effect_not_started_runs_after_reopening_the_store(tmp_path):
    """With a disk and its threads, so in real time; nothing here waits for a clock."""
    path = tmp_path / "world.db"

    async def first_run() -> tuple[list[str], list[str]]:
        begun, goes = asyncio.Event(), asyncio.Event()

        async def send(effect: Effect) -> None:
            begun.set()
            await goes.wait()

        async with open_world(log=SqliteEventLog(path)) as world:
            await register_executor(world, send, concurrency=1)
            await mail(world, 2)
            await begun.wait()
            keys = [str(effect.key) for effect in world.kernel.open_effects()]
            stopping = asyncio.ensure_future(world.stop())
            await turns()
            goes.set()
            await stopping
            return keys, [str(effect.key) for effect in world.kernel.open_effects()]

    async def later_run() -> list[str]:
        post = Post()
        async with open_world(log=SqliteEventLog(path), agents=()) as world:
            await register_executor(world, post)
            await world.executors.settled()
        return [str(effect.key) for effect in post.began]

    declared, left = asyncio.run(first_run())
    assert left == declared[1:]
    assert asyncio.run(later_run()) == left  # the other one was settled, and runs never again
    assert asyncio.run(later_run()) == []


@in_virtual_time
async def test_an_unsettled_effect_runs_again_with_its_key():
    log, stuck, post = MemoryEventLog(), Post(seconds=3600), Post()
    async with open_world(log=log, limits={"shutdown_seconds_max": 1}) as world:
        await register_executor(world, stuck)
        await mail(world)
        await turns()
    async with open_world(log=log, agents=()) as world:
        await register_executor(world, post)
        await world.executors.settled()
        assert len(settled(world)) == 1
    assert [effect.key for effect in stuck.began] == [effect.key for effect in post.began]


@in_virtual_time
async def test_close_finishes_running_attempts_and_starts_none():
    post = Post(seconds=2)
    async with open_world() as world:
        await register_executor(world, post, concurrency=1)
        await mail(world, 3)
        await turns()
        await world.stop()
        assert len(post.began) == len(settled(world)) == 1
        assert len(world.kernel.open_effects()) == 2


@in_virtual_time
async def test_close_waits_for_a_handler_up_to_the_shutdown_deadline():
    async with open_world(limits={"shutdown_seconds_max": 3}) as world:
        await register_executor(world, Post(seconds=3600))
        await mail(world)
        await turns()
        await world.stop()
        assert asyncio.get_running_loop().time() == pytest.approx(3, abs=0.1)
        assert settled(world) == []
        assert len(world.kernel.open_effects()) == 1


@in_virtual_time
async def test_waiting_for_a_settlement_raises_when_the_world_closes():
    async with open_world(limits={"shutdown_seconds_max": 1}) as world:
        await register_executor(world, Post(seconds=3600))
        await mail(world)
        waiting = asyncio.ensure_future(world.executors.settled())
        await turns()
        await world.stop()
        with pytest.raises(ClosedError, match="before all effects were settled"):
            await waiting


@in_virtual_time
async def test_an_outcome_that_cannot_be_written_leaves_its_effect_open():
    """The world failed meanwhile: the effect runs again after reopening the log."""
    log = SlowLog()
    faults: list[object] = []
    async with open_world(log=log) as world:
        await register_executor(world, Post(seconds=5))
        await mail(world)
        log.failure = StoreError("the disk is full")
        with pytest.raises(StoreError):
            await mail(world, 1, "b")
        world.supervisor._on_fault = faults.append
        await asyncio.sleep(10)
        assert world.supervisor.restarts == 0
    assert faults == []
    assert settled(world) == []


@in_virtual_time
async def test_settle_waits_for_the_effects_so_far_and_not_for_later_ones():
    async with open_world() as world:
        await register_executor(world, Post(seconds=1), concurrency=1)
        await mail(world, 1, "a")
        waiting = asyncio.ensure_future(world.executors.settled())
        await turns()
        await mail(world, 5, "b")
        await waiting
        assert asyncio.get_running_loop().time() == pytest.approx(1, abs=0.1)
        await world.executors.settled()
        assert asyncio.get_running_loop().time() == pytest.approx(6, abs=0.1)
