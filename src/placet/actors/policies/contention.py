"""Decides when an agent leases contested entities before its policy is called.

A loss is a refusal that changes or a lease of other agents caused. After `lease_after` losses in a
row, the agent leases the lost entities before its policy is called, for a number of turns. Then it
tries once without a lease: a loss doubles the number, an admitted batch resets it.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Final, Protocol

from placet.schemas.config import Leases
from placet.schemas.errors import ClosedError, PlacetError, StoreError
from placet.schemas.intent import Intent
from placet.schemas.limits import LEASE_REFS_MAX
from placet.schemas.refusal import Refusal, RefusalCode

THOUGHT_SECONDS_MIN: Final = 0.02
"""Shortest thought (call of a policy or of a proposer) after which an agent leases, in seconds. A
faster agent is admitted without a lease, and its lease would only delay slow agents.
"""

_TURNS_MAX: Final = 16

LOST: Final = frozenset(
    {
        RefusalCode.STALE_CONTEXT.value,
        RefusalCode.CONDITION_FAILED.value,
        RefusalCode.CONFLICT.value,
        RefusalCode.LEASED.value,
    }
)
"""Codes of refusals that were caused by the changes or the lease of another agent."""


class RunningLease(Protocol):
    """A lease that an agent holds."""

    def release(self) -> Intent:
        """Return the intent that releases it."""


class LeasingPort(Protocol):
    """The part of an agent handle that takes leases."""

    @property
    def leases(self) -> Leases | None:
        """The bounds of the world's leases; None if it has none."""

    def lease(
        self, *refs: str | Sequence[str], seconds: float
    ) -> AbstractAsyncContextManager[RunningLease]:
        """Return an async context manager in whose block the agent alone changes entities.

        It waits for the agent's turn. Entering raises `PlacetError` if the request is refused.
        """


async def enter_lease(
    stack: AsyncExitStack, port: LeasingPort, names: Sequence[str], seconds: float
) -> RunningLease | None:
    """Enter a lease of entities on a stack; return None if its request is refused.

    Args:
        stack: The stack, which ends the lease.
        port: Handle of the agent.
        names: The entities, `collection/entity`.
        seconds: Simulated seconds.

    Raises:
        ClosedError, StoreError: The world was closed, or failed.
    """
    lease = port.lease(*[name.split("/", 1) for name in names], seconds=seconds)
    try:
        return await stack.enter_async_context(lease)
    except (ClosedError, StoreError):
        raise
    except PlacetError:  # gone, hidden by now, not permitted, or beyond a quota
        return None


def check_lease_after(losses: object) -> None:
    """Check a number of losses after which an agent leases.

    Raises:
        ValueError: It is neither None nor an int of at least 1.
    """
    if losses is not None and (type(losses) is not int or losses < 1):
        raise ValueError(f"lease_after must be an int of at least 1 or None, got {losses!r}")


def is_loss(refusal: Refusal) -> bool:
    """Return whether a batch was refused because of other agents."""
    return refusal.code in LOST or bool(refusal.changed)


def lost_refs(refusal: Refusal) -> list[str]:
    """Return the entities that a refusal names as changed or leased, `collection/entity`."""
    names = [change["entity"] for change in refusal.changed]
    path, entity = refusal.details.get("path"), refusal.details.get("entity")
    if refusal.code == RefusalCode.CONDITION_FAILED and path:
        names.append("/".join(path[:2]))
    if refusal.code == RefusalCode.LEASED and entity:
        names.append(entity)
    return [name for name in names if isinstance(name, str) and "/" in name]


class Contention:
    """The losses of one agent.

    Args:
        lease_after: Losses in a row after which the agent leases; None never leases.

    Attributes:
        thought_s: Seconds of its latest thought.
    """

    __slots__ = ("_asks_left", "_lease_after", "_losses", "_refs", "_turns", "thought_s")

    def __init__(self, lease_after: int | None) -> None:
        check_lease_after(lease_after)
        self._lease_after = lease_after
        self._refs: dict[str, None] = {}
        self._losses = self._turns = self._asks_left = 0
        self.thought_s = 0.0

    def wanted(self, leases: Leases | None) -> tuple[list[str], float] | None:
        """Return the entities to lease before the next thought, and the seconds; None for none.

        Args:
            leases: Bounds of the world's leases; None if it has none.
        """
        if leases is None or self._lease_after is None or not self._refs:
            return None
        if self.thought_s < THOUGHT_SECONDS_MIN:
            return None
        if not self._asks_left and self._losses < self._lease_after:
            return None
        seconds = min(leases.seconds_max, 2 * self.thought_s)
        return list(self._refs)[-leases.refs_max :], seconds

    def note(self, refusal: Refusal | None, *, was_leased: bool) -> None:
        """Note the answer to a batch: a refusal, or None if it was admitted."""
        if refusal is None and was_leased:
            self._losses = 0
            self._asks_left = max(0, self._asks_left - 1) if self._turns else 0
            if not self._turns:
                self._turns = self._asks_left = 1
        elif refusal is None:
            self._losses = self._turns = self._asks_left = 0
            self._refs.clear()
        elif is_loss(refusal):
            self._losses += 1
            for name in lost_refs(refusal):
                self._refs.pop(name, None)
                self._refs[name] = None  # the latest last
            while len(self._refs) > LEASE_REFS_MAX:
                del self._refs[next(iter(self._refs))]
            if not was_leased and self._turns:  # tried without, and lost again
                self._turns = self._asks_left = min(2 * self._turns, _TURNS_MAX)
