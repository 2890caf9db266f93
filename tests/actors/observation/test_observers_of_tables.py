"""Observers of worlds with tables: their snapshots and deltas add up to the views."""

import numpy as np
import pytest

from placet import Orchestrator, OrchestratorConfig
from placet.kernel import ColumnBatch
from placet.kernel.visibility.policy import AllOf, AnyOf
from tests.actors.observation.flock import SIDE, Flock, near_birds, near_walkers
from tests.actors.observation.observing_clients import Client
from tests.actors.virtual_time import in_virtual_time, turns

N = 40
SIGHTS = {
    "none": lambda: None,
    "birds": near_birds,
    "walkers": near_walkers,
    "both": lambda: AllOf(near_birds(30.0), near_birds(50.0)),
    "either": lambda: AnyOf(near_birds(), near_birds(20.0)),
}
"""The parts of a composed policy have one collection of agents, as its observers need."""


class Sky:
    """An open world of birds and walkers, and clients that observe it."""

    def __init__(self, world, seed=1):
        self.world = world
        self.rng = np.random.default_rng(seed)
        self.number = 0
        self.handles = {}
        self.clients = {}

    async def fill(self):
        place = self.rng.uniform(0, SIDE, (N, 2))
        self.birds = await self.world.register_population(
            "birds", N, table="flock.birds", position=place
        )
        for number in range(3):
            at = self.rng.uniform(0, SIDE, 2).tolist()
            self.handles[f"w{number}"] = await self.world.register_agent(f"w{number}", position=at)
        for name in ("birds:0", "birds:5"):
            self.handles[name] = await self.world.register_agent(name)

    def observe(self, **how):
        self.clients = {name: Client(handle, **how) for name, handle in self.handles.items()}

    async def fly(self, some=None):
        self.number += 1
        who = None if some is None else self.rng.permutation(N)[:some]
        to = self.rng.uniform(0, SIDE, (N if some is None else some, 2))
        batch = ColumnBatch("Fly", "birds", {"to": to}, f"m:{self.number}", agents=who)
        await self.world.submit(batch)

    async def walk(self, name):
        handle = self.handles[name]
        await handle.refresh_view()
        to = self.rng.uniform(0, SIDE, 2).tolist()
        await handle.submit([handle.intent("Fly" if "birds" in name else "Walk", to=to)])

    async def agree(self):
        await turns()
        for client in self.clients.values():
            await client.agrees()


@pytest.mark.parametrize("sight", SIGHTS)
@in_virtual_time
async def test_snapshots_and_deltas_add_up_to_the_views(sight):
    config = OrchestratorConfig(log_level="critical")
    async with Orchestrator(Flock(sight=SIGHTS[sight]()), config) as world:
        sky = Sky(world)
        await sky.fill()
        sky.observe()
        await sky.agree()
        for some in (None, 3, 1, None):
            await sky.fly(some)
            await sky.agree()
            await sky.walk("w0")
            await sky.agree()
            await sky.walk("birds:5")
            await sky.agree()
        seen = sky.clients["birds:0"].seen
        assert seen[0].kind == "snapshot"
        assert {observation.kind for observation in seen[1:]} <= {"delta"}


@in_virtual_time
async def test_deltas_of_a_byte_budget_reach_the_view():
    config = OrchestratorConfig(log_level="critical")
    async with Orchestrator(Flock(sight=near_birds(60.0)), config) as world:
        sky = Sky(world)
        await sky.fill()
        sky.observe(bytes_max=400)
        await turns()
        for _ in range(3):
            await sky.fly()
        for _ in range(60):
            await sky.walk("w1")
        await sky.agree()


@in_virtual_time
async def test_a_delta_holds_the_changed_rows_alone():
    async with Orchestrator(Flock(), OrchestratorConfig(log_level="critical")) as world:
        sky = Sky(world)
        await sky.fill()
        sky.observe()
        await sky.agree()
        await sky.fly(2)
        await sky.agree()
        last = sky.clients["w0"].seen[-1]
        assert last.kind == "delta"
        assert len(last.changes) == 2
        assert all(change.by == change.entity.partition("/")[2] for change in last.changes)
