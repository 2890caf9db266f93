"""The gate of a server's tools: it pins the tools that it has not seen before."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, Self

from placet.schemas.approval import Approval
from placet.schemas.codec import Json
from placet.schemas.errors import PlacetError
from placet_tools.frontend.call_records import CallRecords
from placet_tools.frontend.gate import Gate
from placet_tools.outcome import Outcome
from placet_tools.pinned import PIN, PinnedToolsDomain

_AT_ONCE: Final = 256
_LOOK_S: Final = 0.25
"""Seconds in which the state of a call is read, where nothing is to be waited for."""


class PinnedGate(Gate):
    """A gate before `PinnedTools`, made with the arguments of `Gate`."""

    _domain: PinnedToolsDomain

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        try:
            await self._pin_new()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def pinned(self) -> dict[str, str]:
        """Return the pinned declarations by tool.

        Raises:
            ClosedError, StoreError: The world is closed, or its store has failed.
        """
        rows = await self.world.gateway.entities(self._domain.pins)
        return {row["tool"]: row["definition"] for row in rows.values()}

    def tool_name(self, kind: str) -> str:
        """Return the name of the tool of a kind; the kind if it is none."""
        tool = self._domain.tool_of(kind)
        return kind if tool is None else tool.name

    def is_of(self, approval: Approval, calls: Sequence[tuple[str, Mapping[str, Json]]]) -> bool:
        """Return whether a request is of exactly these calls."""
        made = [self._made("", one) for one in calls]
        return approval.calls == tuple((one.kind, one.payload) for one in made)

    async def outcome_within(self, key: str, wait_s: float) -> Outcome:
        """Return the outcome of a call by its key; wait for its end, or for a person.

        Args:
            key: Key of the call.
            wait_s: Real seconds to wait.

        Raises:
            LookupError: There is no such call.
            ClosedError, StoreError: The world is closed, or its store has failed.
        """
        records = CallRecords(
            self.world, self._domain, self._inbox, max(wait_s, _LOOK_S), self._values
        )
        outcome = await records.outcome(key)
        if outcome.status == "held" and wait_s > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self.decision(outcome.approval)
            return await records.outcome(key)
        return outcome

    async def _pin_new(self) -> None:
        pinned = await self.pinned()
        new = [name for name in self.tools if name not in pinned]
        for begin in range(0, len(new), _AT_ONCE):
            intent = await self._recorder.own(PIN, tools=new[begin : begin + _AT_ONCE])
            verdict = await self.world.submit([intent])
            if not verdict.admitted:
                raise PlacetError("; ".join(one.message for one in verdict.refusals))
