"""Clients that observe a world of randomly moving agents."""

import asyncio
from contextlib import suppress
from random import Random
from typing import Any

from placet import Orchestrator, OrchestratorConfig
from placet.domains.world import World
from placet.errors import PermissionDeniedError
from placet.kernel.state.tree import entity_hash
from placet.schemas.view import LocalView, Observation, apply_observation
from tests.actors.virtual_time import turns


def config(**more: Any) -> OrchestratorConfig:
    return OrchestratorConfig(clock="stepped", log_level="critical", **more)


def digest(shown) -> int:
    """Sum the visible entities as the state digest sums all entities."""
    return sum(
        entity_hash(collection, entity, dict(fields))
        for collection, rows in shown.items()
        for entity, fields in rows.items()
    ) % (1 << 128)


class Client:
    """A client that knows only the observations it receives."""

    def __init__(self, handle, **how: Any) -> None:
        self.handle = handle
        self.how = how
        self.picture: LocalView = {}
        self.seen: list[Observation] = []
        self.task = asyncio.ensure_future(self._follow())

    async def _follow(self) -> None:
        with suppress(PermissionDeniedError):  # of an agent that was removed
            async for observation in self.handle.observe(**self.how):
                apply_observation(self.picture, observation)
                self.seen.append(observation)

    async def agrees(self) -> None:
        await turns()
        view = await self.handle.refresh_view()
        assert digest(self.picture) == digest(view.state)


class Town:
    """Random agents: they register, leave, move, speak, take and drop, and some of them observe."""

    def __init__(self, world: Orchestrator, seed: int) -> None:
        self.world = world
        self.random = Random(seed)
        self.handles: dict[str, Any] = {}
        self.clients: dict[str, Client] = {}

    async def act(self) -> None:
        names = [f"agent{number}" for number in range(8)]
        name, random = self.random.choice(names), self.random
        handle = self.handles.get(name)
        if handle is None:
            team = random.choice([None, "red", "blue"])
            place = [random.randrange(-6, 6), random.randrange(-6, 6), random.randrange(2)]
            handle = await self.world.register_agent(name, position=place, team=team)
            self.handles[name] = handle
            if random.random() < 0.7:
                self.clients[name] = self.client(handle)
        elif random.random() < 0.05:
            del self.handles[name]
            client = self.clients.pop(name, None)
            await self.world.remove_agent(name)
            await turns()
            assert client is None or client.task.done()
        else:
            await self.propose(handle, self._intent(handle, names))

    def client(self, handle) -> Client:
        return Client(handle)

    async def propose(self, handle, intent) -> None:
        await handle.submit([intent])

    def _intent(self, handle, names):
        random = self.random
        match random.choice(["Move", "Move", "Move", "Speak", "Interact", "Custom", "Custom"]):
            case "Move":
                return handle.intent("Move", to=[random.randrange(-6, 6), random.randrange(-6, 6)])
            case "Speak":
                channel = random.choice(["public", "team", "private"])
                target = {"target_id": random.choice(names)} if channel == "private" else {}
                return handle.intent("Speak", text=f"{random.random()}", channel=channel, **target)
            case "Interact":
                what = random.choice(["pickup", "drop", "use"])
                thing = random.choice(["lamp", "rope", "map"])
                return handle.intent("Interact", target_id=thing, interaction_type=what)
            case _:
                to = random.choice([{"team": "red"}, {"team": None}, {"friends": [names[0]]}])
                return handle.intent(
                    "Interact", target_id=handle.agent_id, data=to, interaction_type="become"
                )


def become(draft, intent):
    """Change the agent's own entity, so that visibility changes without a move."""
    for field, value in intent["payload"]["data"].items():
        draft.put("world.agents", intent["agent_id"], field, value)


def town(sight, **more) -> World:
    things = {name: {"position": [place, 0]} for place, name in enumerate(["lamp", "rope", "map"])}
    return World(objects=things, observation=sight, interactions={"become": become}, **more)
