"""The simulated clients: agents that behave as real programs do, well and badly."""

import asyncio
from functools import partial
from random import Random
from typing import Any, TypeVar

from placet.runtime.agent_handle import AgentHandle
from placet.runtime.orchestrator import Orchestrator
from placet.runtime.pending_verdict import PendingVerdict
from placet.schemas.errors import ClosedError, PlacetError, StoreError
from placet.schemas.verdict import Verdict
from tests.kernel.reference.fairground import COINS, PURSES
from tests.simulation.client_history import Memory, Request, is_kept
from tests.simulation.durable_log import Findings
from tests.simulation.server import ProcessGone, ServedWorld, Server
from tests.simulation.swarm import Swarm

T = TypeVar("T")

ATTEMPTS_MAX = 6
KINDS = (
    ["Earn"] * 5 + ["Pay"] * 3 + ["Take"] * 3 + ["Look", "Look", "Tend", "Glance", "Send", "Drop"]
)


class ClientPool:
    """State shared by all clients."""

    def __init__(
        self, swarm: Swarm, server: Server, memory: Memory, findings: Findings, seed: int
    ) -> None:
        self.swarm = swarm
        self.server = server
        self.memory = memory
        self.findings = findings
        self.seed = seed
        self.agents = [f"a{number}" for number in range(len(swarm.behaviors))]
        server.registered_agents += self.agents


class Client:
    """One agent's program."""

    def __init__(self, client_pool: ClientPool, number: int) -> None:
        self.client_pool = client_pool
        self.server = client_pool.server
        self.memory = client_pool.memory
        self.agent = client_pool.agents[number]
        self.behavior = client_pool.swarm.behaviors[number]
        self.rng = Random(f"client {client_pool.seed} {number}")
        self.name = self.agent
        self.count = 0

    async def run(self) -> None:
        act = getattr(self, f"_be_{self.behavior}")
        for _ in range(self.client_pool.swarm.batches):
            await asyncio.sleep(self.rng.choice([0.0, 0.01, 0.3]) * self.rng.random())
            await act()
            if self.rng.random() < self.client_pool.swarm.repeats:
                await self._repeat()
            if self.rng.random() < 0.2:
                await self._look()

    # what it says

    def request(self, **options: Any) -> Request:
        """Generate a batch of one to four intents, based on the client's latest view."""
        rng, swarm = self.rng, self.client_pool.swarm
        intents = []
        for _ in range(rng.choice([1, 1, 2, 4])):
            kind = "Burst" if rng.random() < swarm.poison else rng.choice(KINDS)
            self.count += 1
            intents.append(
                {
                    "kind": kind,
                    "payload": payload_of(rng, kind, self.client_pool.agents),
                    "agent_id": self.agent,
                    "req_id": f"{self.name}:{self.count}",
                    "context_seq": self._context(),
                    "priority": rng.choice([10, 10, 50]),
                    "schema_version": "1.0.0",
                }
            )
        if rng.random() < swarm.later:
            options["sim_time"] = rng.choice([1.0, 4.0, 9.0, 50.0])
        return self.memory.ask(intents, **options)

    def _context(self) -> int:
        served = self.server.current
        seen = 0 if served is None else served.views.get(self.agent, 0)
        if self.behavior == "delayer" or self.rng.random() < 0.2:
            return seen
        return max(seen, self.server.archive.seq)

    def post(self, served: ServedWorld, request: Request) -> PendingVerdict:
        """Submit a batch without waiting for its verdict."""
        door = self._handle_of(served)
        if door is None or served.process.is_dead:
            raise ProcessGone
        self.memory.post(request)
        try:
            return door.submit_nowait(request.batch)
        except (StoreError, ClosedError):
            self.server.abandon(served)
            raise ProcessGone from None

    def _handle_of(self, served: ServedWorld) -> AgentHandle | Orchestrator | None:
        return served.handles.get(self.agent)

    async def answer(
        self, served: ServedWorld, request: Request, ticket: PendingVerdict
    ) -> Verdict:
        verdict = await self.server.ask(served, lambda: _wait(ticket))
        self.memory.note(request, verdict)
        if verdict.seq is not None and not verdict.dry_run:  # you read your own writes
            served.views[self.agent] = max(verdict.seq, served.views.get(self.agent, 0))
        return verdict

    async def submit_until_answered(self, request: Request) -> None:
        """Submit until there is a final answer or the number of attempts is used up."""
        for _ in range(ATTEMPTS_MAX):
            try:
                served = await self.server.served()
                verdict = await self.answer(served, request, self.post(served, request))
            except ProcessGone:
                await asyncio.sleep(self.rng.random() * 0.2)
                continue
            if is_kept(verdict):
                return
            retry_after = verdict.refusals[0].retry_after
            if retry_after is None or self.rng.random() < 0.3:
                return
            await asyncio.sleep(retry_after)

    # how it behaves

    async def _be_steady(self) -> None:
        await self.submit_until_answered(self.request())

    async def _be_delayer(self) -> None:
        request = self.request()
        await asyncio.sleep(self.rng.random())
        await self.submit_until_answered(request)

    async def _be_doubler(self) -> None:
        """Submit the same batch twice at the same time."""
        request = self.request()
        try:
            served = await self.server.served()
            tickets = [self.post(served, request), self.post(served, request)]
            self.rng.shuffle(tickets)
            for ticket in tickets:
                await self.answer(served, request, ticket)
        except ProcessGone:
            await self.submit_until_answered(request)

    async def _be_reorderer(self) -> None:
        """Wait for the last answer first."""
        await self._post_many(self.rng.randint(2, 3))

    async def _be_flooder(self) -> None:
        await self._post_many(self.rng.randint(4, 12))

    async def _post_many(self, count: int) -> None:
        requests = [self.request() for _ in range(count)]
        try:
            served = await self.server.served()
            posted = [(request, self.post(served, request)) for request in requests]
            for request, ticket in reversed(posted):
                await self.answer(served, request, ticket)
        except ProcessGone:
            await self.submit_until_answered(requests[0])

    async def _be_retrier(self) -> None:
        """Submit a batch with a short time limit; ask for its verdict, and submit it again."""
        request = self.request(valid_for_s=self.rng.choice([0.0, 0.01, 0.5]))
        try:
            served = await self.server.served()
            await self.answer(served, request, self.post(served, request))
        except ProcessGone:
            await self._inquire(request)
        await self.submit_until_answered(request)

    async def _be_canceler(self) -> None:
        """Withdraw a batch that may be decided already."""
        request = self.request()
        try:
            served = await self.server.served()
            ticket = self.post(served, request)
            if self.rng.random() < 0.5:
                await asyncio.sleep(self.rng.random() * 0.05)
            if ticket.cancel():
                for _ in range(self.rng.randrange(3)):
                    await asyncio.sleep(0)
                await self._inquire(request)
            else:
                await self.answer(served, request, ticket)
        except ProcessGone:
            pass
        if self.rng.random() < 0.5:
            await self.submit_until_answered(request)

    async def _inquire(self, request: Request) -> None:
        """Ask for the verdict of a request and check that it is durable."""
        try:
            served = await self.server.served()
            agent, req_id = request.keys[0]
            ask = partial(served.orchestrator.verdict_of, agent, req_id)
            verdict = await self.server.ask(served, ask)
        except ProcessGone:
            return
        if verdict is not None and not request.is_void:
            self.memory.check_asked(request.keys[0], verdict)

    async def _repeat(self) -> None:
        """Submit an earlier batch again, or other content under its ids."""
        mine = [r for r in self.memory.requests if r.keys[0][0] == self.agent and not r.is_void]
        if not mine:
            return
        request = self.rng.choice(mine)
        if request.kept is None or self.rng.random() < 0.7:
            await self.submit_until_answered(request)
            return
        altered = {**request.batch, "intents": [{**request.intents[0], "priority": 77}]}
        try:
            served = await self.server.served()
            handle = served.handles.get(self.agent)
            if handle is None:
                return
            verdict = await self.server.ask(served, lambda: handle.submit(altered))
        except ProcessGone:
            return
        if not request.is_void:
            self.memory.note_altered(request, verdict)

    async def _look(self) -> None:
        """Read a view and check it: durable, not older than the last one, with all coins."""
        expect, archive = self.client_pool.findings.expect, self.server.archive
        try:
            served = await self.server.served()
            handle = served.handles.get(self.agent)
            if handle is None:
                return
            view = await self.server.ask(served, handle.refresh_view)
        except (ProcessGone, PlacetError):
            return
        seq = view.view_seq
        expect(seq <= archive.seq, "G2", f"view {seq} was shown before it was durable")
        before = served.views.get(self.agent, 0)
        expect(seq >= before, "G20", f"{self.agent} saw {before}, and then {seq}")
        served.views[self.agent] = seq
        coins = {agent: purse["coins"] for agent, purse in view.state[PURSES].items()}
        expect(coins == archive.balances.get(seq), "G20", f"view {seq} is of no moment: {coins}")
        expect(sum(coins.values()) == COINS, "G3", f"view {seq} holds {sum(coins.values())} coins")


def payload_of(rng: Random, kind: str, agents: list[str]) -> dict[str, Any]:
    """Generate a valid payload, which the rules may refuse."""
    match kind:
        case "Earn":
            return {"amount": rng.choice([1, 3, 20])}
        case "Pay":
            return {"to": rng.choice(agents), "amount": rng.choice([0, 1, 4])}
        case "Take" | "Drop":
            return {"stall": rng.choice("pqr")}
        case "Look" | "Glance":
            return {"stall": rng.choice(["p", "q", None])}
        case "Send":
            return {"count": rng.choice([1, 2])}
        case _:
            return {}


async def _wait(ticket: PendingVerdict) -> Verdict:
    return await ticket
