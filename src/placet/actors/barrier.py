"""Before a step: wait until everybody has submitted or passed, or the deadline is over.

A stepped world holds what is posted; the host decides when to step. Where agents think for as long
as they need, it steps when the last of them is done, or goes without those who take too long.
"""

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from placet.actors.admission.ingress import Ingress
from placet.schemas.batch import CheckedBatch

_LISTED_MAX = 1_000


class Arrivals(NamedTuple):
    """Who was there when a barrier opened.

    Attributes:
        expected: How many were waited for.
        passed: Those of them who passed, by name, the first thousand.
        late: Those of them who had done neither by the deadline; all, by name.
        waited_s: How long it took, real seconds.
    """

    expected: int
    passed: tuple[str, ...]
    late: tuple[str, ...]
    waited_s: float


class Barrier:
    """The barrier of one stepped world. O(agents) to wait; a batch costs O(1) while it does.

    Args:
        ingress: Where batches come in, and where those are that came before.

    Attributes:
        lates: How often an agent was late, so far.
    """

    def __init__(self, ingress: Ingress) -> None:
        self._ingress = ingress
        self._missing: dict[str, None] = {}
        self._passed: dict[str, None] = {}
        self._opened: asyncio.Event | None = None
        self.lates = 0

    async def wait(self, agents: Iterable[str], seconds_max: float) -> Arrivals:
        """Wait until each of the agents has a batch that is held, or has passed.

        Args:
            agents: By name.
            seconds_max: The deadline, in real seconds from now.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
            ValueError: Somebody waits here already.
        """
        if self._opened is not None:
            raise ValueError("a barrier of this world is waited at already; one host steps it")
        self._ingress.check_open()
        expected = dict.fromkeys(agents)
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._missing = {agent: None for agent in expected if agent not in self._passed}
        for batch in self._ingress.held.batches():
            self._arrived(batch)
        self._opened = asyncio.Event()
        self._ingress.on_held = self._arrived
        try:
            if self._missing:
                async with asyncio.timeout(seconds_max):
                    await self._opened.wait()
                self._ingress.check_open()
        except TimeoutError:
            pass  # who is missing is told as late
        finally:
            self._ingress.on_held = self._opened = None
        late, self._missing = tuple(self._missing), {}
        passed = tuple(agent for agent in self._passed if agent in expected)[:_LISTED_MAX]
        self._passed.clear()
        self.lates += len(late)
        return Arrivals(len(expected), passed, late, loop.time() - began)

    def note_pass(self, agent_id: str) -> None:
        """Note that an agent has nothing to propose before the next step."""
        self._passed[agent_id] = None
        self._missing.pop(agent_id, None)
        self._perhaps_open()

    def note_step(self) -> None:
        """Note that a step was taken; who passed before it has not passed before the next."""
        self._passed.clear()

    def end(self) -> None:
        """Keep nobody waiting: the world is closed, or has failed."""
        if self._opened is not None:
            self._opened.set()

    def _arrived(self, batch: CheckedBatch) -> None:
        for agent_id in (batch.submitter, *batch.agents):
            self._missing.pop(agent_id, None)
        self._perhaps_open()

    def _perhaps_open(self) -> None:
        if not self._missing and self._opened is not None:
            self._opened.set()
