"""A lease that an agent holds in a block of its program."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Protocol, Self

import anyio

from placet.kernel.ledger.leases import LEASE, RELEASE
from placet.schemas.codec import Json
from placet.schemas.condition import steps_of
from placet.schemas.errors import ClosedError, PlacetError, StoreError, error_of
from placet.schemas.intent import Intent
from placet.schemas.verdict import Verdict

_ENTITY_STEPS = 2


class LeaseHandle(Protocol):
    """The parts of an agent's handle that a lease uses."""

    @property
    def agent_id(self) -> str:
        """Name of the agent."""

    def intent(self, kind: str, mapping: dict[str, Json], /) -> Intent:
        """Build an intent of the agent."""

    async def submit(self, batch: object) -> Verdict:
        """Submit a batch of the agent."""


class AgentLease:
    """An async context manager: inside its block, the agent alone changes some entities.

        async with alice.lease("world.objects/lamp", seconds=5) as lease:
            view = await alice.refresh_view()  # look again: the entities may have changed before
            await alice.submit([act(view), lease.release()])

    It waits for the agent's turn. At the end of the block the lease is released, if the agent has
    it still; a `release` in the last batch saves a record. A lease that has run out is not renewed.
    A nested block may lease only the same entities, and its end does not release the outer lease.

    Attributes:
        refs: The entities, as `[collection, entity]`.
        seconds: Requested simulated seconds.
        until: Simulated time of its latest end, seconds; None before it runs.

    Args:
        handle: Handle of the agent.
        refs: The entities, as `collection/entity` or as pairs.
        seconds: Simulated seconds that the agent needs at most.
        wait: Waits until the agent's ticket is called, or gone.
        ticket: Returns the number of the agent's ticket; None if it has none.

    Raises:
        ValueError: A ref is no entity, there is none, or the seconds are no positive number.
    """

    def __init__(
        self,
        handle: LeaseHandle,
        refs: Sequence[str | Sequence[str]],
        seconds: float,
        wait: Callable[[], Awaitable[None]],
        ticket: Callable[[], Awaitable[int | None]],
    ) -> None:
        if not refs:
            raise ValueError("a lease needs an entity, such as lease('world.objects/lamp', ...)")
        given: object = seconds
        if type(given) not in {int, float} or not seconds > 0:
            raise ValueError(f"seconds of a lease must be a number above 0, got {seconds!r}")
        self.refs = [_entity(ref) for ref in refs]
        self.seconds = seconds
        self.until: float | None = None
        self._handle = handle
        self._wait, self._ticket = wait, ticket
        self._outer: int | None = None  # number of the ticket of a block around this one
        self._number: int | None = None  # number of this block's ticket, once it runs

    def release(self) -> Intent:
        """Return the intent that releases the lease; put it last into a batch of the agent."""
        return self._handle.intent(RELEASE, {})

    async def __aenter__(self) -> Self:
        self._outer = await self._ticket()
        try:
            while self.until is None:
                await self._request()
                if self.until is None:
                    await self._wait()
            self._number = await self._ticket()
        except BaseException:
            await self._give_back()
            raise
        return self

    async def _request(self) -> None:
        """Request the lease, or start it once the agent is called.

        Raises:
            PlacetError: The request was refused.
        """
        request = {"refs": self.refs, "seconds": self.seconds}
        verdict = await self._handle.submit(self._handle.intent(LEASE, request))
        if not verdict.admitted:
            raise error_of(verdict)
        self.until = verdict.results[0].output["until"]

    async def __aexit__(self, *_: object) -> None:
        await self._give_back()

    async def _give_back(self) -> None:
        """Release the ticket of this block, also when its task is canceled.

        The agent's ticket may be that of an outer block, which releases it, or of a later one.
        """
        with anyio.CancelScope(shield=True), suppress(ClosedError, StoreError, PlacetError):
            number = await self._ticket()
            is_own = self._number is None or number == self._number
            if number is not None and number != self._outer and is_own:
                await self._handle.submit(self.release())

    def __repr__(self) -> str:
        names = ", ".join("/".join(ref) for ref in self.refs)
        state = "not running" if self.until is None else f"until {self.until:g} s"
        return f"<AgentLease of {names} for {self._handle.agent_id!r}: {state}>"


def _entity(ref: str | Sequence[str]) -> list[str]:
    steps = steps_of(ref)
    if len(steps) != _ENTITY_STEPS:
        raise ValueError(f"a lease is of entities, collection/entity, got {ref!r}")
    return steps
