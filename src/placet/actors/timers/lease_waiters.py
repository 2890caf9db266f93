"""Wakes agents that wait until their ticket for leased entities is called.

The orchestrator checks the tickets after each cycle, and sets its timer to the next simulated time
at which a ticket may be called without a new record. A wait writes no record.
"""

import asyncio
from collections.abc import Callable

from placet.kernel.ledger.ledger import Ledger
from placet.schemas.errors import ClosedError


class LeaseWaiters:
    """The waits of one world, at most one for each agent.

    Attributes:
        waiting: The wait of each agent that waits.

    Args:
        ledger: The ledger with the tickets.
        set_timer: Sets the timer of the orchestrator anew; called when a wait begins, which may be
            after the orchestrator became idle.
    """

    __slots__ = ("_end", "_ledger", "_set_timer", "waiting")

    def __init__(self, ledger: Ledger, set_timer: Callable[[], None]) -> None:
        self._ledger = ledger
        self._set_timer = set_timer
        self.waiting: dict[str, asyncio.Future[None]] = {}
        self._end: BaseException | None = None

    async def wait(self, agent_id: str, now_ns: int) -> None:
        """Wait until the ticket of an agent is called, or gone.

        Args:
            agent_id: The agent; an earlier wait of it ends.
            now_ns: The present simulated time.

        Raises:
            ClosedError, StoreError: The world was closed, or failed.
        """
        if self._end is not None:
            raise self._end
        self._release(agent_id)
        woken = self.waiting[agent_id] = asyncio.get_running_loop().create_future()
        self.wake(now_ns)  # it may have been called since it was requested
        self._set_timer()
        try:
            await woken
        finally:
            if self.waiting.get(agent_id) is woken:
                del self.waiting[agent_id]

    def wake(self, now_ns: int) -> None:
        """End the waits of the agents whose tickets are called, or gone, at a time."""
        leases = self._ledger.leases
        tickets = {} if leases is None else leases.at(now_ns).tickets
        for agent_id in list(self.waiting):
            ticket = tickets.get(agent_id)
            if ticket is None or ticket.called_ns is not None:
                self._release(agent_id)

    def next_ns(self, now_ns: int) -> int | None:
        """Return the next time at which a waiting agent may be called without a record."""
        leases = self._ledger.leases
        return None if leases is None else leases.at(now_ns).next_event_ns()

    def end(self, failure: BaseException | None) -> None:
        """End all waits with an error: `failure`, or `ClosedError` if it is None."""
        self._end = failure or ClosedError("the world is closed, and its leases have ended")
        for woken in self.waiting.values():
            if not woken.done():
                woken.set_exception(self._end)
        self.waiting.clear()

    def _release(self, agent_id: str) -> None:
        woken = self.waiting.pop(agent_id, None)
        if woken is not None and not woken.done():
            woken.set_result(None)
