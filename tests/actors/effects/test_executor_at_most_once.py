"""At-most-once effects: marked before the start, never started twice, in doubt if cut off."""

import asyncio
from typing import Any

import pytest

from placet.runtime.executors import DoNotRetry, Effect, OutcomeUnknown, Settlement
from placet.runtime.world import WorldRuntime
from placet.schemas.log.record import EffectChanged, decode_record
from placet.stores.memory import MemoryEventLog
from placet.stores.sqlite.log import SqliteEventLog
from tests.actors.effects.test_executor import Panic, Post, mail, settled
from tests.actors.fake_logs import SlowLog
from tests.actors.parts import MAIL, effects_of, open_world, register_executor
from tests.actors.real_time import until
from tests.actors.virtual_time import in_virtual_time, turns

ONCE: dict[str, Any] = {"delivery": "at_most_once"}


def marks(world: WorldRuntime) -> list[tuple[int, str, str]]:
    records = [decode_record(data) for _, data in world.log.read()]
    return [(r.effect_index, r.what, r.why) for r in records if isinstance(r, EffectChanged)]


async def states(world: WorldRuntime) -> list[str]:
    return [one.state for one in await effects_of(world).effects()]


@in_virtual_time
async def test_a_start_is_durable_before_the_handler_is_called():
    log, post = SlowLog(), Post()
    async with open_world(log=log) as world:
        await register_executor(world, post, **ONCE)
        log.hold()
        batch = asyncio.ensure_future(mail(world))
        await log.began()
        log.let_go()
        await batch
        await log.began()  # the mark, on its way
        await turns()
        assert post.began == []
        log.release()
        await world.executors.settled()
        assert len(post.began) == 1
        assert marks(world) == [(0, "started", "")]
        assert [record.succeeded for record in settled(world)] == [True]
        assert world.kernel.ledger.marks == {}


@in_virtual_time
async def test_only_at_most_once_effects_are_marked():
    async with open_world() as world:
        await register_executor(world, Post())
        await mail(world, 3)
        await world.executors.settled()
        assert marks(world) == []


@pytest.mark.parametrize("error", [OSError("no route"), DoNotRetry("no such address")])
@in_virtual_time
async def test_a_final_failure_is_settled_and_not_retried(error):
    post = Post(outcomes=[error])
    async with open_world() as world:
        await register_executor(world, post, **ONCE)
        await mail(world)
        await world.executors.settled()
        assert len(post.began) == 1
        assert [record.succeeded for record in settled(world)] == [False]


@pytest.mark.parametrize(
    ("post", "why"),
    [
        (Post(seconds=3600), "the handler took longer than 5 s"),
        (Post(outcomes=[OutcomeUnknown("connection lost")]), "OutcomeUnknown: connection lost"),
        (Post(outcomes=[asyncio.CancelledError("a pool")]), "CancelledError: a pool"),
        (Post(outcomes=[Panic("out of bounds")]), "Panic: out of bounds"),
    ],
    ids=["timeout", "unknown", "canceled", "panic"],
)
@in_virtual_time
async def test_an_attempt_with_unknown_outcome_is_in_doubt_and_not_retried(post, why):
    async with open_world() as world:
        await register_executor(world, post, seconds_max=5, **ONCE)
        await mail(world)
        await world.executors.settled()  # which does not wait for what only an operator can settle
        assert len(post.began) == 1
        assert settled(world) == []
        assert marks(world) == [(0, "started", ""), (0, "in_doubt", why)]
        assert await states(world) == ["in_doubt"]
        assert world.counters.effect_counts[MAIL, "in_doubt"] == 1
        assert world.statistics()["effects"]["unresolved"] == 1


@in_virtual_time
async def test_a_running_effect_has_the_status_started():
    async with open_world() as world:
        await register_executor(world, Post(seconds=10), concurrency=1, **ONCE)
        await mail(world, 2)
        await turns()
        assert await states(world) == ["started", "open"]
        assert [one.key.effect_index for one in await effects_of(world).effects("open")] == [1]
        with pytest.raises(ValueError, match="declares the effect 'other'"):
            await effects_of(world).effects(kind="other")
        with pytest.raises(ValueError, match="state must be one of"):
            await effects_of(world).effects("lost")  # type: ignore[arg-type]  # it is the point


@pytest.mark.parametrize("later", ["at_most_once", "keyed"])
@in_virtual_time
async def test_an_effect_started_in_an_earlier_process_is_in_doubt(later):
    """Also if the next process declares another delivery: the effect was started as this one."""
    log, stuck, post = MemoryEventLog(), Post(seconds=3600), Post()
    async with open_world(log=log, limits={"shutdown_seconds_max": 1}) as world:
        await register_executor(world, stuck, concurrency=1, **ONCE)
        await mail(world, 2)
        await turns()
    async with open_world(log=log, agents=()) as world:
        assert await states(world) == ["started", "open"]
        await register_executor(world, post, delivery=later)
        await world.executors.settled()
        assert [effect.key.effect_index for effect in post.began] == [1]
        assert (0, "in_doubt", "the world ended while it ran") in marks(world)
        assert await states(world) == ["in_doubt"]
    async with open_world(log=log, agents=()) as world:
        await register_executor(world, post, **ONCE)
        await world.executors.settled()
        assert len(post.began) == 1
        assert await states(world) == ["in_doubt"]


@pytest.mark.parametrize("succeeded", [True, False])
@in_virtual_time
async def test_a_hook_may_settle_an_effect_in_doubt(succeeded):
    asked: list[Effect] = []

    async def find_out(effect: Effect) -> Settlement:
        asked.append(effect)
        return Settlement(effect.key, succeeded, "so says the post office")

    async with open_world() as world:
        await register_executor(
            world, Post(seconds=3600), seconds_max=5, on_in_doubt=find_out, **ONCE
        )
        await mail(world)
        await world.executors.settled()
        assert len(asked) == 1
        (record,) = settled(world)
        assert (record.succeeded, record.output) == (succeeded, "so says the post office")


@in_virtual_time
async def test_a_hook_is_called_again_after_reopening_the_world():
    log = MemoryEventLog()
    async with open_world(log=log) as world:
        post = Post(outcomes=[OutcomeUnknown("?")])
        await register_executor(world, post, on_in_doubt=Answer(None), **ONCE)
        await mail(world)
        await world.executors.settled()
        assert await states(world) == ["in_doubt"]
    async with open_world(log=log, agents=()) as world:
        await register_executor(world, post, on_in_doubt=Answer(True), **ONCE)
        await world.executors.settled()
        assert len(settled(world)) == 1
        assert await states(world) == []


class Answer:
    """A hook that returns a fixed answer, or misbehaves."""

    def __init__(self, says: object) -> None:
        self._says = says

    async def __call__(self, effect: Effect) -> Any:
        if isinstance(self._says, BaseException):
            raise self._says
        return Settlement(effect.key, True) if self._says is True else self._says


@pytest.mark.parametrize("says", [OSError("no line"), "yes", asyncio.CancelledError("a pool")])
@in_virtual_time
async def test_a_hook_that_misbehaves_is_reported_and_leaves_the_doubt(says):
    faults: list[str] = []
    async with open_world() as world:
        world.executors._on_fault = lambda where, error: faults.append(f"{where}: {error}")
        post = Post(outcomes=[OutcomeUnknown("?")])
        await register_executor(world, post, on_in_doubt=Answer(says), **ONCE)
        await mail(world)
        await world.executors.settled()
        assert await states(world) == ["in_doubt"]
    assert len(faults) == 2  # what was not known, and then the hook
    assert faults[1].startswith("executor mail: ")


@in_virtual_time
async def test_an_operator_may_settle_an_effect_in_doubt_once():
    async with open_world() as world:
        await register_executor(world, Post(outcomes=[OutcomeUnknown("?")]), **ONCE)
        await mail(world)
        await world.executors.settled()
        face = effects_of(world)
        (doubtful,) = await face.effects("in_doubt")
        assert await face.resolve_effect(doubtful.key, succeeded=True, output="I saw it")
        assert not await face.resolve_effect(doubtful.key, succeeded=False)
        assert [record.output for record in settled(world)] == ["I saw it"]
        assert world.kernel.state["lab.letters"][str(doubtful.key)] == {"output": "I saw it"}


@pytest.mark.parametrize(
    ("output", "why"),
    [("x" * 70_000, "output is larger than 65536 bytes"), ({1}, "output is not JSON: JSON has no")],
)
@in_virtual_time
async def test_an_invalid_settlement_of_the_operator_is_an_error(output, why):
    async with open_world() as world:
        await register_executor(world, Post(outcomes=[OutcomeUnknown("?")]), **ONCE)
        await mail(world)
        await world.executors.settled()
        (doubtful,) = await effects_of(world).effects("in_doubt")
        with pytest.raises(ValueError, match=why):
            await effects_of(world).resolve_effect(doubtful.key, succeeded=True, output=output)
        assert await states(world) == ["in_doubt"]
        assert settled(world) == []


@in_virtual_time
async def test_an_effect_settled_by_an_operator_is_not_started():
    post = Post(seconds=1)
    async with open_world() as world:
        await register_executor(world, post, concurrency=1, **ONCE)
        await mail(world, 2)
        await turns()
        waiting = (await effects_of(world).effects("open"))[0]
        await effects_of(world).resolve_effect(waiting.key, succeeded=False, output="not needed")
        await world.executors.settled()
        assert [effect.key.effect_index for effect in post.began] == [0]
        assert len(settled(world)) == 2


def test_a_fenced_executor_neither_starts_nor_settles(tmp_path):
    """A second world has taken the fence: the executor of the first can no longer write (G18)."""
    path = tmp_path / "world.db"
    zombie, heir = Post(), Post()

    async def scenario() -> tuple[int, int]:
        begun, goes = asyncio.Event(), asyncio.Event()

        async def slow(effect: Effect) -> str:
            begun.set()
            await goes.wait()
            return str(await zombie(effect))

        async with open_world(log=SqliteEventLog(path)) as first:
            await register_executor(first, slow, concurrency=1, **ONCE)
            await mail(first, 2)
            await begun.wait()
            async with open_world(log=SqliteEventLog(path), agents=(), take_over=True) as second:
                await register_executor(second, heir, **ONCE)
                await second.executors.settled()
                goes.set()
                await until(lambda: first.committer.failure is not None)
                assert await states(second) == ["in_doubt"]
                return len(zombie.began), len(settled(second))

    # One finished at the zombie, which could not say so; the other one it was not let begin.
    assert asyncio.run(scenario()) == (1, 1)
    assert [effect.key.effect_index for effect in heir.began] == [1]
