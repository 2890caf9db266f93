"""Outcomes of the effects of a batch, as a submitter waits for them without reading the log."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placet.actors.effects import outcomes as outcomes_module
from placet.runtime.api.gateway import AgentGateway
from placet.runtime.world import WorldRuntime
from placet.schemas.effect import DoNotRetry, OutcomeUnknown, Settlement
from placet.schemas.errors import ClosedError, StoreError
from placet.schemas.identity import OPERATOR
from tests.actors.effects.test_executor import Post, mail
from tests.actors.fake_logs import SlowLog
from tests.actors.parts import MAIL, effects_of, intent, open_world, register_executor
from tests.actors.virtual_time import in_virtual_time, turns
from tests.kernel.domains import Lab


def never_read(world: WorldRuntime) -> None:
    """Fail a wait that reads the log."""

    def events(**_: int) -> None:
        raise AssertionError("the log was read")

    world.publisher.events = events  # type: ignore[assignment, method-assign]


@in_virtual_time
async def test_the_outcomes_of_a_batch_are_in_the_order_of_its_effects():
    async with open_world() as world:
        await register_executor(world, Post(1.0, [DoNotRetry("none there")]), concurrency=1)
        never_read(world)
        batch = [intent("Mail", {"count": n}, f"r{n}") for n in (2, 0, 1)]
        verdict = await world.actor.post_batch(batch, OPERATOR)
        first, second, third = await effects_of(world).outcomes(verdict)
        assert (first.succeeded, first.output) == (False, "DoNotRetry: none there")
        assert (second.succeeded, second.output) == (True, "sent 1")
        assert (third.succeeded, third.output) == (True, "sent 0")
        assert [one.seq for one in (first, second, third)] == [
            *(verdict.results[n].seq for n in (0, 0, 2)),
        ]
        assert first.kind == MAIL


@in_virtual_time
async def test_outcomes_are_known_after_the_effects_were_settled():
    async with open_world() as world:
        await register_executor(world, Post())
        verdict = await mail(world, 2)
        await world.executors.settled()
        never_read(world)
        assert [one.output for one in await effects_of(world).outcomes(verdict)] == [
            *("sent 0", "sent 1"),
        ]


@in_virtual_time
async def test_an_outcome_is_returned_once_it_is_durable():
    log, post = SlowLog(), Post()
    async with open_world(log=log) as world:
        await register_executor(world, post)
        log.hold()
        submitted = asyncio.ensure_future(mail(world))
        await log.began()
        log.let_go()
        verdict = await submitted
        await log.began()  # the settlement, which is decided
        assert not world.kernel.ledger.outbox
        waits = asyncio.ensure_future(effects_of(world).outcomes(verdict))
        await turns()
        assert not waits.done()
        log.release()
        assert [one.succeeded for one in await waits] == [True]


@in_virtual_time
async def test_an_outcome_that_is_no_longer_kept_is_read_from_the_log(monkeypatch):
    monkeypatch.setattr(outcomes_module, "KEPT_MAX", 2)
    async with open_world() as world:
        await register_executor(world, Post())
        verdicts = [await mail(world, 1, f"r{n}") for n in range(4)]
        await world.executors.settled()
        for verdict in verdicts:
            (outcome,) = await effects_of(world).outcomes(verdict)
            assert (outcome.seq, outcome.succeeded) == (verdict.seq, True)
        never_read(world)
        with pytest.raises(AssertionError, match="the log was read"):
            await effects_of(world).outcomes(verdicts[0])
        assert await effects_of(world).outcomes(verdicts[3])


@in_virtual_time
async def test_a_wait_ends_at_its_limit_with_the_outcomes_so_far():
    async with open_world() as world:
        await register_executor(world, Post(seconds=4), concurrency=1)
        verdict = await mail(world, 3)
        outcomes = await effects_of(world).outcomes(verdict, seconds_max=10)
        assert [one.succeeded for one in outcomes] == [True, True, None]
        assert world.executors._outcomes._waiters == {}
        assert all(one.succeeded for one in await effects_of(world).outcomes(verdict))


@in_virtual_time
async def test_a_doubt_is_returned_once_the_hook_does_not_know_either():
    async def settle(effect):
        await asyncio.sleep(1)
        return Settlement(effect.key, True, "found") if effect.key.effect_index else None

    async with open_world() as world:
        post = Post(outcomes=[OutcomeUnknown("?"), OutcomeUnknown("?")])
        await register_executor(world, post, delivery="at_most_once", on_in_doubt=settle)
        never_read(world)
        verdict = await mail(world, 2)
        first, second = await effects_of(world).outcomes(verdict)
        assert (first.is_in_doubt, first.succeeded) == (True, None)
        assert (second.is_in_doubt, second.output) == (False, "found")
        (doubtful,) = await effects_of(world).effects("in_doubt")
        assert await effects_of(world).resolve_effect(doubtful.key, succeeded=True, output="seen")
        first, _ = await effects_of(world).outcomes(verdict)
        assert (first.is_in_doubt, first.output) == (False, "seen")


@in_virtual_time
async def test_an_operator_settles_for_the_tasks_that_wait():
    async with open_world() as world:
        await register_executor(world, Post(seconds=10), concurrency=1)
        verdict = await mail(world, 2)
        waits = asyncio.ensure_future(effects_of(world).outcomes(verdict))
        await turns()
        waiting = (await effects_of(world).effects("open"))[1]
        await effects_of(world).resolve_effect(waiting.key, succeeded=False, output="not needed")
        assert [one.output for one in await waits] == ["sent 0", "not needed"]


@in_virtual_time
async def test_an_outcome_that_on_settle_refused_is_returned():
    async with open_world(domain=Lab("on_settle")) as world:
        world.executors._on_fault = lambda where, error: None
        await register_executor(world, Post())
        never_read(world)
        verdict = await mail(world)
        (outcome,) = await effects_of(world).outcomes(verdict)
        assert (outcome.succeeded, outcome.output) == (True, "sent 0")


@pytest.mark.parametrize("end", [ClosedError, StoreError])
@in_virtual_time
async def test_a_wait_raises_when_the_world_ends(end):
    log = SlowLog()
    async with open_world(log=log, limits={"shutdown_seconds_max": 1}) as world:
        await register_executor(world, Post(seconds=3600))
        verdict = await mail(world, 2)
        waits = asyncio.ensure_future(effects_of(world).outcomes(verdict, seconds_max=1e6))
        await turns()
        if end is StoreError:
            log.failure = StoreError("the disk is full")
            with pytest.raises(StoreError):
                await mail(world, 1, "other")
        else:
            await world.stop()
        with pytest.raises(end):
            await waits


@settings(max_examples=40, deadline=None)
@given(
    counts=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3), min_size=1, max_size=4),
    kept_max=st.integers(1, 6),
    asks_late=st.booleans(),
)
def test_the_outcomes_are_those_that_the_log_has(counts, kept_max, asks_late):
    """Law: an answer from memory equals the answer from the log."""

    async def scenario() -> None:
        async with open_world(limits={"outbox_depth_max": 64}) as world:
            await register_executor(world, Post(seconds=1), concurrency=2)
            waits = []
            verdicts = []
            for number, batch in enumerate(counts):
                intents = [
                    intent("Mail", {"count": count}, f"r{number}:{place}")
                    for place, count in enumerate(batch)
                ]
                verdicts.append(await world.actor.post_batch(intents, OPERATOR))
                if not asks_late:
                    waits.append(asyncio.ensure_future(effects_of(world).outcomes(verdicts[-1])))
            if asks_late:
                await world.executors.settled()
                waits = [asyncio.ensure_future(effects_of(world).outcomes(v)) for v in verdicts]
            answers = await asyncio.gather(*waits)
            gateway = AgentGateway(world)
            for verdict, answer in zip(verdicts, answers, strict=True):
                seqs = [result.seq for result in verdict.results if result.seq is not None]
                assert answer == await gateway._logged(verdict, seqs, 60.0)

    kept = outcomes_module.KEPT_MAX
    vars(outcomes_module)["KEPT_MAX"] = kept_max
    try:
        in_virtual_time(scenario)()
    finally:
        vars(outcomes_module)["KEPT_MAX"] = kept
