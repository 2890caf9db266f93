"""A world that follows the machine's clock goes on by a time that passed while it was closed."""

import asyncio
from contextlib import closing

import pytest

from placet import Orchestrator, OrchestratorConfig
from placet.domains.world import World
from placet.history.verify_log import verify_log
from placet.stores.url import open_event_log


@pytest.mark.parametrize("backpressure", ["reject", "dilate"])
async def test_skipped_time_wakes_tasks_and_scheduled_batches_and_replays(tmp_path, backpressure):
    store = f"sqlite:///{tmp_path}/world.db"
    config = OrchestratorConfig(store=store, log_level="critical", backpressure=backpressure)
    async with Orchestrator(World(), config) as world:
        ann = await world.register_agent("ann", position=[0, 0])
        moving = {"intents": [ann.intent("Move", to=[1, 0])], "sim_time": 500.0}
        scheduled = asyncio.create_task(ann.submit(moving))
        waiting = asyncio.create_task(world.wait_until(900.0))
        await asyncio.sleep(0)
        before = world.sim_time
        await world.skip_time(1_000)
        await waiting
        assert (await scheduled).admitted
        async for event in world.events():
            if event.type == "batch":  # the move was due
                break
        assert await world.state("world.agents/ann/position") == [1.0, 0.0, 0.0]
        assert 1_000 <= world.sim_time - before < 1_600
    with closing(open_event_log(store)) as log:
        verify_log(log, [World()])


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf"), 1e30])
async def test_time_goes_neither_back_nor_beyond_its_range(seconds):
    async with Orchestrator(World(), OrchestratorConfig(log_level="critical")) as world:
        with pytest.raises(ValueError, match="seconds"):
            await world.skip_time(seconds)


async def test_the_time_of_the_host_is_not_skipped():
    async with Orchestrator(World(), OrchestratorConfig(clock="stepped")) as world:
        with pytest.raises(ValueError, match="use step"):
            await world.skip_time(1.0)
