"""An opened fork: which effects run with which handlers; and `Orchestrator.restore`."""

import asyncio
from typing import Any

import pytest

from placet import Orchestrator, OrchestratorConfig
from placet.domains.world import World
from placet.history.fork import ForkOptions
from placet.history.verify_log import verify_log
from placet.runtime.executors import DoNotRetry, LiveHandler, SimulatedHandler
from placet.schemas.effect import Effect
from placet.schemas.errors import StoreError, ValidationError
from placet.schemas.limits import Limits
from placet.stores.url import open_event_log
from tests.history.forks import DOMAINS
from tests.kernel.builders import intent
from tests.kernel.domains import MAIL


class Outside:
    """The outside world: records the keys of the effects that reached it."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    async def mail(self, effect: Effect) -> str:
        self.keys.append(str(effect.key))
        return "sent"

    async def never(self, effect: Effect) -> None:
        self.keys.append(str(effect.key))
        await asyncio.Event().wait()


async def forked(tmp_path: Any, outside: Outside) -> OrchestratorConfig:
    """Fork a world in which one mail was sent and one is on its way."""
    config = OrchestratorConfig(
        store=f"sqlite:///{tmp_path / 'p.db'}",
        log_level="critical",
        limits=Limits(shutdown_seconds_max=1),  # its last mail never finishes
    )
    async with Orchestrator(DOMAINS, config) as parent:
        await parent.register_executor(MAIL, outside.mail)
        await parent.register_agent("alice")
        await parent.submit([intent("Mail", {"count": 1}, "m:0")])
        await parent.wait_effects()
        await parent.unregister_executor(MAIL)
        await parent.register_executor(MAIL, outside.never)
        await parent.submit([intent("Mail", {"count": 1}, "m:1")])
        made = await parent.fork(
            str(tmp_path / "f.db"), ForkOptions(world="fork", effects="simulate")
        )
    assert made.open_effects == 1
    return OrchestratorConfig(store=made.store, world="fork", log_level="critical")


async def test_unmarked_handler_is_refused_in_a_fork(tmp_path):
    config = await forked(tmp_path, Outside())
    here = Outside()
    async with Orchestrator(DOMAINS, config) as fork:
        with pytest.raises(
            ValueError, match=r"SimulatedHandler\(handler\), or, .* LiveHandler\(handler\)"
        ):
            await fork.register_executor(MAIL, here.mail)
        assert (await fork.submit([intent("Mail", {"count": 1}, "m:2")])).admitted
    assert here.keys == []


async def test_simulated_handler_runs_effects_open_in_the_parent(tmp_path):
    config = await forked(tmp_path, Outside())
    here = Outside()
    async with Orchestrator(DOMAINS, config) as fork:
        await fork.register_executor(MAIL, SimulatedHandler(here.mail))
        await fork.submit([intent("Mail", {"count": 1}, "m:2")])
        await fork.wait_effects()
        assert await fork.effects() == []
    assert len(here.keys) == 2
    assert all(key.startswith("fork/") for key in here.keys)


async def test_live_handler_does_not_run_effects_of_the_parent(tmp_path):
    outside = Outside()
    config = await forked(tmp_path, outside)
    here = Outside()
    async with Orchestrator(DOMAINS, config) as fork:
        await fork.register_executor(MAIL, LiveHandler(here.mail))
        await fork.submit([intent("Mail", {"count": 1}, "m:2")])
        await fork.wait_effects()
        dead = await fork.effects("dead")
    assert len(here.keys) == 1  # the fork's own effect
    assert not set(here.keys) & set(outside.keys)
    assert [str(effect.key) for effect in dead if str(effect.key) not in here.keys]
    assert "from which this world was forked" in str(dead[0].why)


async def test_marked_handler_runs_everything_in_a_world_that_is_no_fork():
    here = Outside()
    async with Orchestrator(DOMAINS) as world:
        await world.register_executor(MAIL, LiveHandler(here.mail))
        await world.register_agent("alice")
        await world.submit([intent("Mail", {"count": 1}, "m:0")])
        await world.wait_effects()
    assert len(here.keys) == 1
    assert issubclass(DoNotRetry, Exception)


# Orchestrator.restore


async def move_twice(world: Orchestrator) -> int:
    """Move ann twice and return the seq after the first move."""
    ann = await world.register_agent("ann", position=[0, 0])
    first = await ann.submit([ann.intent("Move", to=[1, 0])])
    await ann.submit([ann.intent("Move", to=[2, 0])])
    assert first.seq is not None
    return first.seq


async def test_entity_is_restored_by_a_new_record(tmp_path):
    config = OrchestratorConfig(store=f"sqlite:///{tmp_path / 'w.db'}")
    async with Orchestrator(World(), config) as world:
        seq = await move_twice(world)
        before = world.seq
        assert await world.restore("world.agents/ann", seq) == before + 1
        assert await world.state("world.agents/ann/position") == [1, 0, 0]
        assert await world.restore("world.agents/ann", seq) == before + 1  # already restored
        assert (
            await world.restore("world.agents/ann", before) == before + 2
        )  # the restore is undone
        assert await world.state("world.agents/ann/position") == [2, 0, 0]
    decided = verify_log(open_event_log(config.store))
    assert decided.integrity.is_ok
    assert decided.unverified == ()


async def test_collection_is_restored_with_added_and_removed_entities():
    async with Orchestrator(DOMAINS) as world:
        alice = await world.register_agent("alice")
        seq, then = world.seq, await world.state("lab.things")
        await alice.submit([alice.intent("Drop", thing="a")])
        await alice.submit([alice.intent("Put", thing="b", field="value", value=7)])
        await alice.submit([alice.intent("Put", thing="c", field="value", value=8)])
        assert sorted(await world.state("lab.things")) == ["b", "c"]
        await world.restore("lab.things", seq)
        assert await world.state("lab.things") == then


async def test_value_that_differs_only_in_type_is_restored():
    async with Orchestrator(DOMAINS) as world:
        alice = await world.register_agent("alice")
        await alice.submit([alice.intent("Put", thing="a", field="x", value=1)])
        seq, digest = world.seq, await world.digest()
        await alice.submit([alice.intent("Put", thing="a", field="x", value=True)])
        assert await world.digest() != digest
        await world.restore("lab.things/a", seq)
        assert await world.digest() == digest


async def test_restore_that_breaks_an_invariant_is_refused():
    async with Orchestrator(DOMAINS) as world:
        alice = await world.register_agent("alice", count=50)
        seq = world.seq
        await alice.submit([alice.intent("Add", amount=5)])
        DOMAINS[0].ceiling, ceiling = 49, DOMAINS[0].ceiling  # type: ignore[attr-defined]  # the lab's
        try:
            with pytest.raises(ValidationError, match="more than 49"):
                await world.restore("lab.counts/alice", seq)
        finally:
            DOMAINS[0].ceiling = ceiling  # type: ignore[attr-defined]  # the lab's
        assert await world.state("lab.counts/alice/count") == 55


async def test_restore_of_an_unknown_path_or_seq_is_refused():
    async with Orchestrator(World()) as world:
        seq = await move_twice(world)
        with pytest.raises(ValidationError, match=r"there is nothing at 'world\.agents/bob'"):
            await world.restore("world.agents/bob", seq)
        with pytest.raises(ValidationError, match="there is nothing at 'nothing'"):
            await world.restore("nothing", seq)
        with pytest.raises(StoreError, match="it ends at seq"):
            await world.restore("world.agents", 99)
