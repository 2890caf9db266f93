"""Failed effects are retried with the same key after pauses, and in the end given up (G17)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from placet.runtime.executors import Backoff, DoNotRetry, Effect, OutcomeUnknown, RetryAfter
from placet.runtime.telemetry.prometheus import create_registry
from placet.schemas.errors import StoreError
from placet.schemas.log.record import LogAppend
from placet.stores.memory import MemoryEventLog
from tests.actors.effects.test_executor import Post, mail, settled
from tests.actors.fake_logs import SlowLog
from tests.actors.parts import MAIL, effects_of, open_world, register_executor
from tests.actors.virtual_time import in_virtual_time, turns

STEADY = Backoff(first_s=1.0, factor=2.0, max_s=8.0, jitter=0.0)


class Times(Post):
    """A handler that also records when it was called."""

    def __init__(self, *outcomes: Any, seconds: float = 0.0) -> None:
        super().__init__(seconds, outcomes)
        self.at: list[float] = []

    async def __call__(self, effect: Effect) -> Any:
        self.at.append(round(asyncio.get_running_loop().time(), 4))
        return await super().__call__(effect)


@in_virtual_time
async def test_a_failed_effect_is_retried_with_its_key_after_growing_pauses():
    post = Times(*[OSError("no route")] * 4)
    async with open_world() as world:
        await register_executor(world, post, backoff=STEADY)
        await mail(world)
        await world.executors.settled()
        assert [effect.attempt for effect in post.began] == [1, 2, 3, 4, 5]
        assert len({effect.key for effect in post.began}) == 1
        assert post.at == [0, 1, 3, 7, 15]
        (record,) = settled(world)
        assert (record.succeeded, record.output) == (True, "sent 0")
        assert world.counters.effect_counts == {(MAIL, "attempts"): 5, (MAIL, "retries"): 4}


@in_virtual_time
async def test_after_the_last_attempt_an_effect_is_a_dead_letter():
    async with open_world() as world:
        await register_executor(
            world, Post(outcomes=[OSError("no route")] * 9), attempts_max=3, backoff=STEADY
        )
        await mail(world)
        await world.executors.settled()
        why = "given up after 3 attempts: OSError: no route"
        assert [(r.succeeded, r.output) for r in settled(world)] == [(False, why)]
        (dead,) = await effects_of(world).effects("dead")
        assert (dead.state, dead.kind, dead.why) == ("dead", MAIL, why)
        assert dead.payload == {"number": 0, "to": "alice"}
        assert await effects_of(world).effects() == []
        assert world.counters.effect_counts[MAIL, "dead_letters"] == 1


@in_virtual_time
async def test_a_handler_may_forbid_a_retry_or_set_its_pause():
    post = Times(RetryAfter(42), DoNotRetry("no such address"))
    async with open_world() as world:
        await register_executor(world, post, backoff=STEADY)
        await mail(world)
        await turns()
        (waiting,) = await effects_of(world).effects("open")
        assert waiting.why == "attempt 1: RetryAfter: asked to come again in 42 s"
        await world.executors.settled()
        assert post.at == [0, 42]
        assert settled(world)[0].output == (
            "given up after 2 attempts: DoNotRetry: no such address"
        )


@pytest.mark.parametrize("error", [OutcomeUnknown("lost"), asyncio.CancelledError("a pool")])
@in_virtual_time
async def test_an_unknown_outcome_is_retried_unless_at_most_once(error):
    post = Times(error)
    async with open_world() as world:
        await register_executor(world, post, delivery="idempotent", backoff=STEADY)
        await mail(world)
        await world.executors.settled()
        assert len(post.began) == 2
        assert settled(world)[0].succeeded


@in_virtual_time
async def test_an_attempt_that_exceeds_its_time_is_retried():
    post = Times(seconds=3)
    async with open_world() as world:
        await register_executor(world, post, seconds_max=2, attempts_max=2, backoff=STEADY)
        await mail(world)
        await world.executors.settled()
        assert post.at == [0, 3]
        assert settled(world)[0].output == (
            "given up after 2 attempts: the handler took longer than 2 s"
        )


@in_virtual_time
async def test_a_pause_holds_no_credit():
    """One effect that fails again and again does not delay the others."""
    post = Times(OSError(), OSError(), seconds=0.1)
    async with open_world() as world:
        await register_executor(world, post, concurrency=1, backoff=STEADY)
        await mail(world, 5)
        await world.executors.settled()
        assert [(e.key.effect_index, e.attempt) for e in post.began] == [
            (0, 1), (1, 1), (2, 1), (3, 1), (4, 1), (0, 2), (1, 2),
        ]  # fmt: skip


@in_virtual_time
async def test_retry_pauses_are_spread_and_reproducible():
    async def pauses() -> list[float]:
        post = Times(*[OSError()] * 8)
        async with open_world() as world:
            await register_executor(world, post, backoff=Backoff(first_s=10, jitter=0.5))
            began = asyncio.get_running_loop().time()
            await mail(world, 8)
            await world.executors.settled()
            return [round(at - began, 1) for at in post.at[8:]]

    first = await pauses()
    assert len(set(first)) > 4
    assert all(5 <= pause <= 10 for pause in first)
    assert await pauses() == first  # drawn from the world's seed and the key


@in_virtual_time
async def test_a_waiting_attempt_at_close_stays_open_in_the_log():
    post = Times(OSError())
    async with open_world() as world:
        await register_executor(world, post, backoff=Backoff(first_s=3600, max_s=3600))
        await mail(world)
        await turns()
        await world.stop()
        assert asyncio.get_running_loop().time() < 1
        assert len(world.kernel.open_effects()) == 1


@in_virtual_time
async def test_a_handler_that_never_awaits_does_not_block_the_world():
    async def at_once(effect: Effect) -> None:
        pass

    async with open_world() as world:
        await register_executor(world, at_once, concurrency=1)
        assert (await mail(world, 500)).admitted
        before = len(world.kernel.open_effects())
        await mail(world, 1, "meanwhile")
        assert len(world.kernel.open_effects()) > before - 100
        await world.executors.settled()


class Failing(MemoryEventLog):
    """A log that fails on request and never blocks.

    Attributes:
        failure: What an append raises from now on.
    """

    failure: StoreError | None = None

    def append(self, append: LogAppend, epoch: int) -> None:
        if self.failure is not None:
            raise self.failure
        super().append(append, epoch)


@in_virtual_time
async def test_an_executor_of_a_failed_world_starts_no_effects():
    log, post = Failing(), Post(seconds=1)
    async with open_world(log=log) as world:
        await register_executor(world, post, concurrency=1)
        await mail(world, 5)
        await turns()
        log.failure = StoreError("the disk is full")
        await asyncio.sleep(60)
        assert len(post.began) == 2  # the second was begun as the first could not be settled
        assert settled(world) == []


@in_virtual_time
async def test_many_outcomes_are_settled_together():
    seen: list[int] = []
    log = SlowLog()
    async with open_world(log=log) as world:
        await register_executor(world, Post())
        executor = world.executors.by_kind[MAIL]
        inner = executor._settle

        async def counted(settlements: Any) -> object:
            seen.append(len(settlements))
            return await inner(settlements)

        executor._settle = counted
        await mail(world, 100)
        await world.executors.settled()
    assert sum(seen) == 100
    assert max(seen) <= 32
    assert len(seen) < 100


OPTIONS: list[dict[str, Any]] = [
    {"concurrency": 0}, {"concurrency": -1}, {"concurrency": True}, {"attempts_max": 0},
    {"attempts_max": 1.5}, {"seconds_max": 0}, {"seconds_max": -1.0}, {"seconds_max": float("inf")},
    {"seconds_max": "1"}, {"outbox_max": 0}, {"outbox_max": -5}, {"delivery": "exactly_once"},
    {"delivery": "at_most_once", "attempts_max": 2}, {"on_in_doubt": Post()}, {"handler": 7},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids="-".join)
@in_virtual_time
async def test_an_invalid_option_is_an_error_and_registers_no_executor(options):
    options = {"handler": Post(), **options}
    async with open_world() as world:
        with pytest.raises(ValueError, match=r"must be|one attempt|never in doubt|a handler is"):
            await register_executor(world, options.pop("handler"), **options)
        assert world.executors.by_kind == {}
        assert (await mail(world)).codes == ("tool_unregistered",)


@in_virtual_time
async def test_an_executor_that_the_gate_refuses_is_not_kept():
    async with open_world() as world:
        with pytest.raises(ValueError, match="an effect kind must be"):
            await effects_of(world).register_executor("", Post())
        assert world.executors.by_kind == {}


@in_virtual_time
async def test_an_unregistered_executor_finishes_and_leaves_queued_effects_in_the_log():
    post, later = Post(seconds=2), Post()
    async with open_world() as world:
        await register_executor(world, post, concurrency=1)
        await mail(world, 3)
        await turns()
        await effects_of(world).unregister_executor(MAIL)
        assert len(post.began) == len(settled(world)) == 1
        assert (await mail(world, 1, "b")).codes == ("tool_unregistered",)
        await register_executor(world, later)
        await world.executors.settled()
        assert [effect.key.effect_index for effect in later.began] == [1, 2]
        await effects_of(world).unregister_executor(MAIL)
        with pytest.raises(ValueError, match="have no executor"):
            await effects_of(world).unregister_executor(MAIL)


@in_virtual_time
async def test_effect_events_are_counted_and_exported():
    async with open_world() as world:
        outcomes = [OSError(), OSError(), OSError()]
        await register_executor(world, Post(outcomes=outcomes), attempts_max=2, backoff=STEADY)
        await mail(world, 2)
        await world.executors.settled()
        registry = create_registry(world.counters)
        for name, value in (("attempts", 4), ("retries", 2), ("dead_letters", 1)):
            sample = registry.get_sample_value(f"placet_effect_{name}_total", {"executor": MAIL})
            assert sample == value, name
        assert world.statistics()["effects"] == {
            "unresolved": 0,
            "by_kind": {MAIL: {"attempts": 4, "retries": 2, "dead_letters": 1, "in_doubt": 0}},
        }


def test_pauses_grow_to_their_bound_and_never_overflow():
    backoff = Backoff(first_s=0.5, factor=3, max_s=10, jitter=0.4)
    assert [backoff.pause_s(attempt, 0.0) for attempt in (1, 2, 3, 4, 10**6)] == [
        0.5, 1.5, 4.5, 10, 10,
    ]  # fmt: skip
    assert backoff.pause_s(1, 0.5) == pytest.approx(0.4)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Backoff(first_s=-1),
        lambda: Backoff(first_s=9, max_s=1),
        lambda: Backoff(max_s=float("inf")),
        lambda: Backoff(factor=0.5),
        lambda: Backoff(factor=float("nan")),
        lambda: Backoff(jitter=1.5),
        lambda: RetryAfter(-1),
        lambda: RetryAfter(1e308),
        lambda: RetryAfter(float("nan")),
    ],
)
def test_an_invalid_pause_is_an_error(make: Callable[[], object]):
    with pytest.raises(ValueError, match=r"must be|has 0 <="):
        make()
