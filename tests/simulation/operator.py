"""The simulated operator: commands by the control lane while the clients submit."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import Any, TypeVar

from placet.runtime.agent_handle import AgentHandle
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.errors import AgentError
from tests.simulation.clients import Client, ClientPool
from tests.simulation.server import ProcessGone, ServedWorld

T = TypeVar("T")


class Operator(Client):
    """Operates the world while there are clients; its commands are answered under any load."""

    def __init__(self, client_pool: ClientPool) -> None:
        super().__init__(client_pool, 0)
        self.behavior, self.name = "steady", "op"
        self.rng = Random(f"operator {client_pool.seed}")
        self.seconds_max = 6 * client_pool.server.disk.seconds_max + 0.1

    async def run(self) -> None:
        swarm, rng = self.client_pool.swarm, self.rng
        looks: list[Callable[[ServedWorld], Awaitable[object]]] = [
            self._ask_for, self._dry_run, self._nonsense
        ]  # fmt: skip
        if swarm.pair:
            looks.append(self._pair)
        if swarm.is_halting:
            looks += [self._halt] * 3
        if swarm.is_windy:
            looks += [self._suspend, self._permit, self._replace]
        while True:
            await asyncio.sleep(rng.random() * 0.4)
            try:
                await rng.choice(looks)(await self.server.served())
            except ProcessGone:
                continue

    def _handle_of(self, served: ServedWorld) -> AgentHandle | Orchestrator | None:
        return served.orchestrator

    async def probe(self) -> None:
        """Send small commands all the time, which must be answered under load."""
        rng = Random(f"probes {self.client_pool.seed}")
        while True:
            await asyncio.sleep(rng.random() * 0.5)
            try:
                await self._digest(await self.server.served())
            except ProcessGone:
                continue

    async def step(self) -> None:
        """Step a stepped world while there are clients."""
        rng = Random(f"steps {self.client_pool.seed}")
        while True:
            await asyncio.sleep(rng.random() * 0.3)
            dt = rng.choice([0.0, 0.2, 0.7])
            try:
                served = await self.server.served()
                await self.server.ask(served, partial(served.orchestrator.step, dt))
            except ProcessGone:
                continue
            except ValueError as refused:  # a paused world is not stepped
                if "paused" not in str(refused):
                    raise

    async def _promptly(self, served: ServedWorld, call: Callable[[], Awaitable[T]]) -> T:
        """Ask by the control lane: no load makes it slow (G24)."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        answer = await self.server.ask(served, call)
        seconds = loop.time() - started
        text = f"a command took {seconds:.3f} s, at most {self.seconds_max:.3f} are due"
        self.client_pool.findings.expect(seconds <= self.seconds_max, "G24", text)
        return answer

    async def _digest(self, served: ServedWorld) -> None:
        digest = await self._promptly(served, served.orchestrator.digest)
        known = self.server.archive.digests
        text = f"digest {digest} is of no record of the log"
        self.client_pool.findings.expect(digest in known, "G10 G15", text)

    async def _ask_for(self, served: ServedWorld) -> None:
        request = self.rng.choice(self.memory.requests) if self.memory.requests else None
        if request is not None:
            await self._inquire(request)

    async def _dry_run(self, served: ServedWorld) -> None:
        request = self.request(dry_run=True)
        await self.answer(served, request, self.post(served, request))

    async def _nonsense(self, served: ServedWorld) -> None:
        """Submit invalid batches, which are refused and change nothing (G23)."""
        raw: Any = self.rng.choice([None, [], [{}], object(), {"intents": [{"kind": "Fly"}]}, "no"])
        verdict = await self.server.ask(served, lambda: served.orchestrator.submit(raw))
        self.client_pool.findings.expect(not verdict.admitted, "G23", f"{raw!r} was admitted")

    async def _pair(self, served: ServedWorld) -> None:
        """Send for two agents at once, as only the operator may."""
        request = self.request()
        other = self.rng.choice(self.client_pool.agents)
        request.intents = [
            {**intent, "agent_id": other} if place % 2 else intent
            for place, intent in enumerate(request.intents)
        ]
        request.is_own = False
        await self.answer(served, request, self.post(served, request))

    async def _halt(self, served: ServedWorld) -> None:
        """Pause or drain: no batch is decided until it is undone, and control continues."""
        world, archive, rng = served.orchestrator, self.server.archive, self.rng
        is_pause = rng.random() < 0.5
        if is_pause:
            await self._promptly(served, world.pause)
        else:
            await self.server.ask(served, world.drain)
        before = archive.batches
        await asyncio.sleep(rng.random() * 0.4)
        await self._promptly(served, world.digest)
        # Drained, the world goes on with what is due, and with what its steps are given.
        goes_on = not is_pause and (
            self.client_pool.swarm.is_stepped or self.client_pool.swarm.later
        )
        if served.process.epoch == self.server.disk.epoch and not goes_on:
            how = "paused" if is_pause else "drained"
            text = f"{archive.batches - before} batches were decided while the world was {how}"
            self.client_pool.findings.expect(archive.batches == before, "G24", text)
        await self._promptly(served, world.resume)

    async def _suspend(self, served: ServedWorld) -> None:
        agent, world = self.rng.choice(self.client_pool.agents), served.orchestrator
        try:
            await self._promptly(served, lambda: world.suspend_agent(agent))
            await asyncio.sleep(self.rng.random() * 0.2)
            await self._promptly(served, lambda: world.resume_agent(agent))
        except AgentError:
            return

    async def _permit(self, served: ServedWorld) -> None:
        agent, world = self.rng.choice(self.client_pool.agents), served.orchestrator
        kinds = self.rng.choice([None, None, {"Earn", "Pay", "Take"}])
        await self._promptly(served, lambda: world.set_agent_permissions(agent, kinds))

    async def _replace(self, served: ServedWorld) -> None:
        """Remove an agent, and register its name for another: all that was known of it is void."""
        if self.rng.random() < 0.7:
            return
        agent, world = self.rng.choice(self.client_pool.agents), served.orchestrator
        self.memory.forget(agent)
        try:
            await self._promptly(served, lambda: world.remove_agent(agent))
            handle = await self._promptly(served, lambda: world.register_agent(agent))
        except AgentError:
            return
        finally:
            self.memory.forget(agent)
        served.handles[agent] = handle
