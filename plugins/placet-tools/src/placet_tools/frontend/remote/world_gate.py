"""The gate of a world that a server has opened, for the calls of workers."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from placet.runtime.orchestrator import Orchestrator
from placet.schemas.codec import Json, to_json
from placet_tools.domain import ToolsDomain, undo_key
from placet_tools.frontend.calls import new_key
from placet_tools.frontend.claims import Claim, Claims, claims_of
from placet_tools.frontend.gate import HOLD_S, WAIT_S, Gate
from placet_tools.frontend.parts.opening import values_beside
from placet_tools.outcome import Outcome


class Answer(NamedTuple):
    """The answer to a request of a worker: calls to run, or outcomes; neither if it took too long.

    Attributes:
        claims: Calls that the worker must run.
        outcomes: Outcomes of the calls; None if they have none yet.
    """

    claims: Sequence[Claim] = ()
    outcomes: Sequence[Outcome] | None = None


class WorldGate(Gate):
    """The gate over a world that a server has opened, whose tools run on workers.

    Args:
        world: The world; the server closes it.
        domain: The domain of its tools.

    Raises:
        ToolError: The store of the world cannot hold secrets and personal data.
    """

    def __init__(self, world: Orchestrator, domain: ToolsDomain) -> None:
        values = values_beside(domain, world.config.store)
        self._prepare(world, domain, values, HOLD_S, WAIT_S)
        self.claims: Claims = claims_of(domain)
        self._decisions: dict[bytes, asyncio.Task[list[Outcome]]] = {}

    async def resume(self) -> None:
        """Continue the work that an earlier process left."""
        await self._resume()

    async def submit(
        self,
        calls: Sequence[tuple[str, str, dict[str, Json]]],
        *,
        agent: str,
        is_new: bool,
        runs: bool,
        wait_s: float,
    ) -> Answer:
        """Decide calls; an equal request joins the one that is being decided.

        Args:
            calls: Key, tool and arguments of each.
            agent: Name of the agent.
            is_new: The keys are certainly new.
            runs: The calls run; else they are only tried, and an approval is requested.
            wait_s: Real seconds to wait for something to answer.

        Raises:
            KeyInvalid, ValueError, ClosedError, StoreError: As for `Gate.plan`.
        """
        made = [self._made(new_key(key), (tool, args)) for key, tool, args in calls]
        request = to_json([agent, runs, *calls])
        task = self._decisions.get(request)
        if task is None:
            decided = self._decide(made, agent, is_new=is_new, runs=runs)
            task = asyncio.create_task(self._tasks.shielded(decided))
            self._decisions[request] = task
            task.add_done_callback(partial(self._forget, request))
        keys = [call.key for call in made]
        return await self._first(task, [*keys, *map(undo_key, keys)], wait_s)

    def _forget(self, request: bytes, task: "asyncio.Task[list[Outcome]]") -> None:
        del self._decisions[request]
        if not task.cancelled():
            task.exception()  # its caller may be gone

    async def look(self, key: str, *, claims: bool, wait_s: float) -> Answer:
        """Return the outcome of a call, or the call itself if it waits for a worker.

        Raises:
            LookupError, ClosedError, StoreError: As for `Gate.outcome`.
        """

        async def outcome() -> list[Outcome]:
            return [await self.outcome(key)]

        keys = [key, undo_key(key)] if claims else []
        task = asyncio.create_task(outcome())
        try:
            return await self._first(task, keys, wait_s)
        finally:
            task.cancel()

    async def _first(
        self, task: "asyncio.Task[list[Outcome]]", keys: Sequence[str], wait_s: float
    ) -> Answer:
        """Return the claims of calls, or the outcomes, whichever come first."""
        claims = asyncio.create_task(self.claims.wait(keys))
        try:
            await asyncio.wait([task, claims], timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
            if claims.done():
                return Answer(claims.result())
            return Answer(outcomes=task.result() if task.done() else None)
        finally:
            claims.cancel()
