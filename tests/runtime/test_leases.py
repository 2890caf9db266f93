"""Leases from the handle of an agent: turns in a block, views, errors, and the end of the world."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from placet import ClosedError, Leases, Orchestrator, OrchestratorConfig, ValidationError
from placet.domains.world import World
from placet.kernel import Kernel
from placet.runtime.agent_handle import AgentHandle
from placet.runtime.world import WorldRuntime
from placet.schemas.limits import SECOND_NS
from tests.actors.parts import open_world
from tests.actors.virtual_time import in_virtual_time

LAMP = "world.objects/lamp"
USE = {"target_id": "lamp", "interaction_type": "use"}


def handle_of(runtime: WorldRuntime, name: str) -> AgentHandle:
    agent = runtime.kernel.ledger.agents[name]
    return AgentHandle(runtime, name, agent.generation, f"test.{name}")


class Opened:
    """A world in virtual time, with the handles of its agents."""

    def __init__(self, runtime: WorldRuntime) -> None:
        self.runtime = runtime

    @property
    def sim_time(self) -> float:
        return self.runtime.clock.now_ns() / SECOND_NS

    async def register_agent(self, name: str, **attributes: Any) -> AgentHandle:
        register = partial(Kernel.register_agent, agent_id=name, **attributes)
        await self.runtime.actor.command(register)
        return handle_of(self.runtime, name)

    async def tickets(self) -> set[str]:
        leases = self.runtime.kernel.ledger.leases
        assert leases is not None
        return set(leases.at(self.runtime.clock.now_ns()).tickets)


@asynccontextmanager
async def world(leases: Leases | None = None, **settings: Any) -> AsyncIterator[Opened]:
    objects = {"lamp": {"position": [0, 0]}, "well": {"position": [0, 0]}}
    domain = World(objects=objects, **settings)
    async with open_world(domain=domain, agents=(), leases=leases or Leases()) as runtime:
        yield Opened(runtime)


@in_virtual_time
async def test_agents_take_turns_at_a_leased_entity():
    order: list[tuple[str, float]] = []

    async def act(opened: Opened, handle: AgentHandle) -> None:
        async with handle.lease(LAMP, seconds=2) as lease:
            order.append((handle.agent_id, round(opened.sim_time, 1)))
            await asyncio.sleep(1)
            assert (await handle.submit([handle.intent("Interact", USE), lease.release()])).admitted

    async with world() as opened:
        handles = [await opened.register_agent(name) for name in ("ann", "bob", "cyd")]
        await asyncio.gather(*(act(opened, handle) for handle in handles))
        assert sorted(name for name, _ in order) == ["ann", "bob", "cyd"]
        starts = [at for _, at in order]
        assert starts[1] - starts[0] >= 2  # a second of the lease, and one of rest
        assert starts[2] - starts[1] >= 2
        assert await opened.tickets() == set()
        assert opened.runtime.kernel.state["world.objects"]["lamp"]["uses"] == 3


@in_virtual_time
async def test_a_lease_is_released_at_the_end_of_its_block_also_of_a_block_that_raises():
    async with world() as opened:
        ann, bob = [await opened.register_agent(name) for name in ("ann", "bob")]

        async def fail() -> None:
            async with ann.lease(LAMP, seconds=5):
                assert (await bob.submit(bob.intent("Interact", USE))).codes == ("leased",)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        assert await opened.tickets() == set()
        assert (await bob.submit(bob.intent("Interact", USE))).admitted


@in_virtual_time
async def test_a_canceled_wait_leaves_no_ticket():
    async with world() as opened:
        ann, bob = [await opened.register_agent(name) for name in ("ann", "bob")]

        async def wait() -> None:
            async with bob.lease(LAMP, seconds=1):
                raise AssertionError("it is not its turn")

        async with ann.lease(LAMP, seconds=5):
            waiting = asyncio.create_task(wait())
            await asyncio.sleep(0.5)
            assert await opened.tickets() == {"ann", "bob"}
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert await opened.tickets() == {"ann"}


@in_virtual_time
async def test_a_waiting_agent_is_called_when_time_alone_ends_a_lease():
    async with world(Leases(share=1.0)) as opened:
        ann, bob = [await opened.register_agent(name) for name in ("ann", "bob")]
        ask = {"refs": [["world.objects", "lamp"]], "seconds": 3}
        assert (await ann.submit(ann.intent("placet.lease", ask))).admitted
        began = opened.sim_time
        async with bob.lease(LAMP, seconds=1):
            assert opened.sim_time - began == pytest.approx(3, abs=0.1)


async def test_a_wait_that_begins_when_the_world_is_idle_is_called_too(tmp_path):
    """A durable store answers after the orchestrator became idle, and set its timer."""
    store = f"sqlite:///{tmp_path / 'world.db'}"
    config = OrchestratorConfig(leases=Leases(share=1.0), store=store)
    objects = {"lamp": {"position": [0, 0]}}
    async with Orchestrator(World(objects=objects), config) as opened:
        ann, bob = [await opened.register_agent(name) for name in ("ann", "bob")]
        ask = {"refs": [["world.objects", "lamp"]], "seconds": 0.3}
        assert (await ann.submit(ann.intent("placet.lease", ask))).admitted
        async with asyncio.timeout(60), bob.lease(LAMP, seconds=1) as lease:
            assert lease.until is not None


@in_virtual_time
async def test_a_view_shows_the_leases_of_what_it_sees():
    async with world(observation={"distance": 5}) as opened:
        ann = await opened.register_agent("ann", position=[0, 0])
        bob = await opened.register_agent("bob", position=[0, 0])
        far = await opened.register_agent("far", position=[50, 0])
        async with ann.lease(LAMP, "world.agents/ann", seconds=2) as lease:
            for handle, is_own in ((ann, True), (bob, False)):
                shown = (await handle.refresh_view()).leases
                assert set(shown) == {LAMP, "world.agents/ann"}
                assert shown[LAMP] == {"until": lease.until, "own": is_own}
            assert (await far.refresh_view()).leases == {}
        assert (await ann.refresh_view()).leases == {}


@in_virtual_time
async def test_a_request_that_is_refused_is_raised():
    async with world(Leases(seconds_max=1)) as opened:
        ann = await opened.register_agent("ann")
        with pytest.raises(ValidationError, match="there is no entity"):
            async with ann.lease("world.objects/ghost", seconds=1):
                pass
        with pytest.raises(ValidationError, match="at most 1 s long"):
            async with ann.lease(LAMP, seconds=2):
                pass


@in_virtual_time
async def test_a_request_that_is_refused_leaves_the_lease_that_the_agent_has():
    async with world() as opened:
        ann, bob = [await opened.register_agent(name) for name in ("ann", "bob")]
        async with ann.lease(LAMP, seconds=5):
            with pytest.raises(ValidationError, match="ticket for other entities"):
                async with ann.lease("world.objects/well", seconds=5):
                    pass
            assert (await bob.submit(bob.intent("Interact", USE))).codes == ("leased",)


@in_virtual_time
async def test_the_end_of_an_inner_block_leaves_the_lease_to_the_outer_one():
    async with world() as opened:
        ann, bob = [await opened.register_agent(name) for name in ("ann", "bob")]
        async with ann.lease(LAMP, seconds=5):
            async with ann.lease(LAMP, seconds=5) as inner:
                assert inner.until is not None
            assert (await bob.submit(bob.intent("Interact", USE))).codes == ("leased",)
        assert (await bob.submit(bob.intent("Interact", USE))).admitted


@in_virtual_time
async def test_the_end_of_a_block_leaves_a_later_lease_to_its_block():
    async with world(Leases(share=1.0)) as opened:
        bob = await opened.register_agent("bob")
        first = await bob.lease(LAMP, seconds=1).__aenter__()
        await asyncio.sleep(1.5)  # it has run out
        async with bob.lease("world.objects/well", seconds=5):
            await first.__aexit__(None, None, None)
            assert await opened.tickets() == {"bob"}
        assert await opened.tickets() == set()


@pytest.mark.parametrize(
    ("refs", "seconds", "message"),
    [
        ((), 1, "a lease needs an entity"),
        (("lamp",), 1, "a path must be collection/entity"),
        (("world.objects/lamp/uses",), 1, "a lease is of entities"),
        ((LAMP,), 0, "seconds of a lease must be a number above 0"),
        ((LAMP,), True, "seconds of a lease must be a number above 0"),
        ((LAMP,), "2", "seconds of a lease must be a number above 0"),
    ],
)
async def test_a_lease_of_another_form_is_refused(refs, seconds, message):
    async with world() as opened:
        ann = await opened.register_agent("ann")
        with pytest.raises(ValueError, match=message):
            ann.lease(*refs, seconds=seconds)


async def test_a_world_without_leases_says_how_to_turn_them_on():
    async with Orchestrator(World()) as opened:
        ann = await opened.register_agent("ann")
        assert ann.leases is None
        with pytest.raises(ValueError, match=r"OrchestratorConfig\(leases=Leases\(\)\)"):
            ann.lease(LAMP, seconds=1)


@pytest.mark.parametrize("clock", ["stepped", "next_event"])
def test_a_world_whose_time_waits_for_agents_has_no_leases(clock):
    with pytest.raises(ValueError, match="leases need clock='realtime'"):
        OrchestratorConfig(clock=clock, leases=Leases())


@in_virtual_time
async def test_a_wait_ends_with_its_world():
    ended = []

    async def wait(bob: AgentHandle) -> None:
        try:
            async with bob.lease(LAMP, seconds=1):
                pass
        except ClosedError as error:
            ended.append(str(error))

    async with world() as opened:
        ann, bob = [await opened.register_agent(name) for name in ("ann", "bob")]
        ask = {"refs": [["world.objects", "lamp"]], "seconds": 9}
        assert (await ann.submit(ann.intent("placet.lease", ask))).admitted
        waiting = asyncio.create_task(wait(bob))
        await asyncio.sleep(0.5)
    await waiting
    assert ended == ["the world is closed, and its leases have ended"]
