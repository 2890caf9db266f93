"""The lease of one turn: taken after losses to other agents, released at the end of the turn.

A proposer that thinks for seconds loses again and again where others act many times a second. After
a loss the loop leases the contested entities, so that no other agent changes them during the next
thought. The world's settings of leases bound it. If the request is refused, the turn continues
without a lease.
"""

from contextlib import AsyncExitStack
from typing import Final

import anyio

from placet.actors.policies.contention import THOUGHT_SECONDS_MIN, RunningLease, enter_lease
from placet.agents.ports import Handle
from placet.schemas.intent import Intent

_THOUGHTS: Final = 2
"""Length of a lease, in durations of the latest thought: the next one may take longer."""


class TurnLease:
    """At most one lease at a time; use it as an async context manager around the turn.

    Args:
        handle: Handle of the agent that proposes.
        lease_after: Losses of the turn after which it leases; None never leases.
    """

    def __init__(self, handle: Handle, lease_after: int | None) -> None:
        self._handle = handle
        self._lease_after = lease_after
        # The contested entities of this turn, the latest last: a turn that loses another one needs
        # both.
        self._refs: dict[str, None] = {}
        self._held: RunningLease | None = None
        self._ends_at = 0.0  # of the held lease, in seconds of the event loop
        self._stack = AsyncExitStack()

    def release(self) -> list[Intent]:
        """Return the intent that releases the lease, to be the last of a batch; none without."""
        return [] if self._held is None else [self._held.release()]

    async def take(self, contested: tuple[str, ...], losses: int, thought_s: float) -> bool:
        """Wait for a lease of all contested entities of the turn; return whether it runs.

        Without a running lease that suffices, return False if `contested` is empty, `losses` is
        below `lease_after`, the thought took less than 20 ms, the world has no leases, or the
        request is refused.

        Args:
            contested: Entities of the latest loss, `collection/entity`.
            losses: Losses of the turn, with the latest.
            thought_s: Seconds of the latest thought.
        """
        leases = self._handle.leases
        is_long = anyio.current_time() + thought_s <= self._ends_at  # enough for another thought
        if self._held is not None and is_long and self._refs.keys() >= set(contested):
            return True
        for name in contested:
            self._refs.pop(name, None)
            self._refs[name] = None
        if leases is None or self._lease_after is None or losses < self._lease_after:
            return False
        if not contested or thought_s < THOUGHT_SECONDS_MIN:
            return False
        await self.end()
        names = list(self._refs)[-leases.refs_max :]
        seconds = min(leases.seconds_max, _THOUGHTS * thought_s)
        self._held = await enter_lease(self._stack, self._handle, names, seconds)
        if self._held is None:
            return False
        self._ends_at = anyio.current_time() + seconds
        return True

    async def end(self) -> None:
        """Release the lease if it runs still; also when the task is canceled."""
        self._held = None
        with anyio.CancelScope(shield=True):
            await self._stack.aclose()
