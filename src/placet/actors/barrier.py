"""The barrier of a stepped world: wait until every agent has submitted or passed, or a deadline.

A stepped world holds submitted batches until the host steps it. Where agents compute for as long as
they need, the host steps when the last agent is ready, or without the late ones.
"""

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from placet.actors.admission.ingress import Ingress
from placet.schemas.batch import CheckedBatch

_LISTED_MAX = 1_000


class Arrivals(NamedTuple):
    """The outcome of one wait at the barrier.

    Attributes:
        expected: Number of agents waited for.
        passed: Ids of the agents that skipped the step (`note_pass`), the first thousand.
        late: Ids of all agents that had neither submitted nor passed at the deadline.
        waited_s: Duration of the wait, real seconds.
    """

    expected: int
    passed: tuple[str, ...]
    late: tuple[str, ...]
    waited_s: float


class Barrier:
    """A point at which the host of a stepped world waits until all agents are ready for the step.

    A wait costs O(agents), each batch meanwhile O(1).

    Args:
        ingress: Accepts batches, and holds those submitted before the wait.

    Attributes:
        lates: Number of late agents, summed over all waits.
    """

    def __init__(self, ingress: Ingress) -> None:
        self._ingress = ingress
        self._missing: dict[str, None] = {}
        self._passed: dict[str, None] = {}
        self._opened: asyncio.Event | None = None
        self.lates = 0

    async def wait(self, agents: Iterable[str], seconds_max: float) -> Arrivals:
        """Wait until each agent has a held batch or has skipped the step, or until the deadline.

        Args:
            agents: Ids of the agents.
            seconds_max: The deadline, in real seconds from now.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
            ValueError: Another task waits at this barrier.
        """
        if self._opened is not None:
            raise ValueError("another task waits at this barrier; only one host may step the world")
        self._ingress.check_open()
        expected = dict.fromkeys(agents)
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._missing = {agent: None for agent in expected if agent not in self._passed}
        for batch in self._ingress.held_batches():
            self._note_batch(batch)
        self._opened = asyncio.Event()
        self._ingress.on_held = self._note_batch
        try:
            if self._missing:
                async with asyncio.timeout(seconds_max):
                    await self._opened.wait()
                self._ingress.check_open()
        except TimeoutError:
            pass  # the missing agents are reported as late
        finally:
            self._ingress.on_held = self._opened = None
        late, self._missing = tuple(self._missing), {}
        passed = tuple(agent for agent in self._passed if agent in expected)[:_LISTED_MAX]
        self._passed.clear()
        self.lates += len(late)
        return Arrivals(len(expected), passed, late, loop.time() - began)

    def note_pass(self, agent_id: str) -> None:
        """Record that an agent skips the next step: it submits nothing before it."""
        self._passed[agent_id] = None
        self._missing.pop(agent_id, None)
        self._open_if_complete()

    def note_step(self) -> None:
        """Forget the recorded skips, because a step was taken; a skip counts for one step only."""
        self._passed.clear()

    def end(self) -> None:
        """End a wait at the barrier, because the world is closed or has failed."""
        if self._opened is not None:
            self._opened.set()

    def _note_batch(self, batch: CheckedBatch) -> None:
        for agent_id in (batch.submitter, *batch.agents):
            self._missing.pop(agent_id, None)
        self._open_if_complete()

    def _open_if_complete(self) -> None:
        if not self._missing and self._opened is not None:
            self._opened.set()
