"""Nothing is visible before it is durable (G2), for every way in which a world shows state."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from placet.runtime.world import WorldRuntime
from placet.schemas.effect import Effect
from placet.schemas.identity import OPERATOR
from placet.schemas.verdict import Verdict
from tests.actors.fake_logs import SlowLog
from tests.actors.parts import COUNTS, Named, add, intent, open_world, register_executor
from tests.actors.virtual_time import in_virtual_time, turns, until


async def submit(world: WorldRuntime, *intents: object, dry_run: bool = False) -> Verdict:
    return await world.actor.post_batch(list(intents), OPERATOR, dry_run=dry_run)


# Asked for while a write is under way.


async def a_verdict(world: WorldRuntime) -> object:
    return await submit(world, add("second"))


async def a_refusal_of_the_core(world: WorldRuntime) -> object:
    return (await submit(world, add("from the future", context_seq=10**6))).refusals


async def a_refusal_of_structure(world: WorldRuntime) -> object:
    return (await submit(world)).refusals


async def a_refused_handle(world: WorldRuntime) -> object:
    return (
        await world.actor.post_batch([add("old")], "alice", identity=Named("alice", 9))
    ).refusals


async def a_replayed_answer(world: WorldRuntime) -> object:
    return await submit(world, add("first"))


async def a_dry_run(world: WorldRuntime) -> object:
    return await submit(world, add("dry"), dry_run=True)


async def a_state_read(world: WorldRuntime) -> object:
    return await world.actor.command(lambda kernel: kernel.state[COUNTS]["alice"]["count"])


async def a_digest(world: WorldRuntime) -> object:
    return await world.actor.command(lambda kernel: kernel.digest())


async def a_view(world: WorldRuntime) -> object:
    return await world.actor.command(lambda kernel: world.viewer.view(kernel, "alice"))


async def a_remembered_verdict(world: WorldRuntime) -> object:
    return await world.actor.command(lambda kernel: kernel.verdict_of("alice", "first"))


async def a_registration(world: WorldRuntime) -> object:
    return await world.actor.command(lambda kernel: kernel.register_agent("carol"))


async def an_event(world: WorldRuntime) -> object:
    async for event in world.publisher.events(world.committer.durable_seq):
        return event
    return None


LOOKS: list[Callable[[WorldRuntime], Awaitable[object]]] = [
    a_verdict,
    a_refusal_of_the_core,
    a_refusal_of_structure,
    a_refused_handle,
    a_replayed_answer,
    a_dry_run,
    a_state_read,
    a_digest,
    a_view,
    a_remembered_verdict,
    a_registration,
    an_event,
]


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.__name__)
@in_virtual_time
async def test_nothing_becomes_visible_before_it_is_durable(look):
    log = SlowLog()
    async with open_world(log=log) as world:
        log.hold()
        durable_seq = world.committer.durable_seq
        first = asyncio.ensure_future(submit(world, add("first")))
        await log.began()
        seen = asyncio.ensure_future(look(world))
        await turns()
        assert world.kernel.seq > durable_seq  # it is decided
        assert world.committer.durable_seq == durable_seq
        assert not first.done()
        assert not seen.done()
        log.release()
        assert (await first).admitted
        assert await seen
        assert world.committer.durable_seq > durable_seq


@pytest.mark.parametrize(
    "look", [look for look in LOOKS if look is not an_event], ids=lambda f: f.__name__
)
@in_virtual_time
async def test_an_answer_is_released_at_once_while_no_write_is_in_progress(look):
    """The control: the test above waits for the write, and not for a number of loop iterations."""
    async with open_world() as world:
        await submit(world, add("first"))
        seen = asyncio.ensure_future(look(world))
        await turns()
        assert seen.done()


@in_virtual_time
async def test_an_effect_is_not_started_before_its_batch_is_durable():
    log, started = SlowLog(), []

    async def post_letter(effect: Effect) -> str:
        started.append(effect.key.seq)
        return "posted"

    async with open_world(log=log) as world:
        await register_executor(world, post_letter)
        log.hold()
        batch = asyncio.ensure_future(submit(world, intent("Mail", {"count": 1})))
        await log.began()
        await turns()
        assert len(world.kernel.open_effects()) == 1
        assert started == []
        log.release()
        verdict = await batch
        await world.executors.settled()
        assert started == [verdict.seq]


@in_virtual_time
async def test_settle_returns_when_the_settlements_are_durable():
    """Also if another group becomes durable after the settlement was decided."""
    log, goes = SlowLog(), asyncio.Event()

    async def post_letter(effect: Effect) -> str:
        await goes.wait()
        return "posted"

    async with open_world(log=log) as world:
        await register_executor(world, post_letter)
        await submit(world, intent("Mail", {"count": 1}))
        settled = asyncio.ensure_future(world.executors.settled())
        await turns()
        log.hold()
        other = asyncio.ensure_future(submit(world, add("other")))
        await log.began()
        goes.set()
        await until(lambda: not world.kernel.open_effects())
        await turns()  # it is decided, and waits behind the other
        assert not settled.done()
        log.let_go()
        await other
        await log.began()
        await turns()
        assert not settled.done()
        log.release()
        await settled
