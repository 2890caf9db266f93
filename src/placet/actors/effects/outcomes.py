"""Outcomes of effects in memory, so that a task that waits for one does not read the log.

An outcome is noted when the kernel has decided it, and returned to the waiting tasks once it is
durable. The latest `KEPT_MAX` outcomes are kept, because an effect may settle before its submitter
receives the verdict of the batch.
"""

import asyncio
from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from placet.schemas.codec import Json

KEPT_MAX: Final = 256
"""Number of durable outcomes that are kept."""

Place: TypeAlias = tuple[int, int]
"""Seq of the intent that emitted an effect, and the effect's index in its batch."""


class EffectOutcome(NamedTuple):
    """The outcome of one effect of a batch.

    Attributes:
        seq: Seq of the intent that emitted the effect.
        kind: Kind of the effect.
        succeeded: Whether the effect succeeded; None while it is not settled.
        output: The handler's return value, or the reason of the failure.
        is_in_doubt: The outcome is unknown, also to the executor's hook.
    """

    seq: int
    kind: str
    succeeded: bool | None
    output: Json
    is_in_doubt: bool = False


class Outcomes:
    """The outcomes of the effects that settle while a world is open.

    Args:
        seq: Seq of the world when it was opened.

    Attributes:
        forgotten_seq: No outcome of an effect of a later intent was dropped.
    """

    def __init__(self, seq: int) -> None:
        self.forgotten_seq = seq
        self._decided: dict[Place, EffectOutcome] = {}  # not durable yet
        self._durable: dict[Place, EffectOutcome] = {}
        self._waiters: dict[Place, list[asyncio.Future[EffectOutcome]]] = {}

    def note(self, place: Place, outcome: EffectOutcome) -> None:
        """Note an outcome that is not durable yet."""
        self._decided[place] = outcome

    def release(self, places: Iterable[Place]) -> None:
        """Mark noted outcomes as durable, and return them to the tasks that wait for them."""
        for place in places:
            outcome = self._decided.pop(place, None)
            if outcome is not None:
                self._durable[place] = outcome
                self.resolve(place, outcome)
        while len(self._durable) > KEPT_MAX:
            oldest = next(iter(self._durable))
            del self._durable[oldest]
            self.forgotten_seq = max(self.forgotten_seq, oldest[0])

    def resolve(self, place: Place, outcome: EffectOutcome) -> None:
        """Return an outcome to the tasks that wait for it."""
        for waiter in self._waiters.pop(place, ()):
            if not waiter.done():
                waiter.set_result(outcome)

    def kind(self, place: Place) -> str | None:
        """Return the kind of an effect whose outcome is decided; None for others."""
        outcome = self._durable.get(place) or self._decided.get(place)
        return None if outcome is None else outcome.kind

    def durable(self, place: Place) -> EffectOutcome | None:
        """Return an outcome that is durable; None if it is not, or is not kept."""
        return self._durable.get(place)

    def is_decided(self, place: Place) -> bool:
        """Return whether an outcome is decided, and not durable yet."""
        return place in self._decided

    def expect(self, place: Place) -> "asyncio.Future[EffectOutcome]":
        """Return a future of an outcome that is not durable yet; end the wait by `dismiss`."""
        waiter: asyncio.Future[EffectOutcome] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(place, []).append(waiter)
        return waiter

    def dismiss(self, place: Place, waiter: "asyncio.Future[EffectOutcome]") -> None:
        """Remove a future for which no task waits any more."""
        if waiter.done() and not waiter.cancelled():
            waiter.exception()  # else it is reported as never retrieved
            return
        waiters = self._waiters.get(place, [])
        if waiter in waiters:
            waiters.remove(waiter)
        if not waiters:
            self._waiters.pop(place, None)

    def end(self, failure: Exception) -> None:
        """Raise an exception in all waiting tasks, because the world has ended."""
        for waiters in self._waiters.values():
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_exception(failure)
        self._waiters.clear()
