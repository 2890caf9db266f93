"""The calls of an open world: their records, their requests, and the wait for their end."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from placet.kernel.kernel import Kernel
from placet.kernel.plugin.approved import INTENTS, REQUESTS
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.codec import Json
from placet.schemas.effect import EffectStatus
from placet_tools.domain import ToolsDomain
from placet_tools.frontend.calls import IN_DOUBT, NOT_ENDED, ToolCall, of_record
from placet_tools.frontend.requests import OPEN, ApprovalUnknown
from placet_tools.outcome import Outcome

HELD: Final = "a person decides; do not repeat the call"
EXPIRED: Final = "it was not decided in time"


class CallRecords:
    """Reads the calls of a world of tools.

    Args:
        world: The world.
        domain: The domain of the tools.
        wait_s: Real seconds to wait for a call that runs.
    """

    def __init__(self, world: Orchestrator, domain: ToolsDomain, wait_s: float) -> None:
        self._world = world
        self._domain = domain
        self._wait_s = wait_s

    async def known(self, calls: Sequence[ToolCall], agent: str) -> list[Outcome] | None:
        """Return the outcomes of calls whose keys are known; None if none of them is."""
        keys = [call.key for call in calls]
        collections = (INTENTS, self._domain.records.calls)

        def read(kernel: Kernel) -> dict[str, dict[str, Json]]:
            rows = [kernel.state.get(collection, {}) for collection in collections]
            return {key: dict(row[key]) for row in rows for key in keys if key in row}

        fields = await self._world.query(read)
        if not fields:
            return None
        tools = [call for call in calls if self._domain.tool_of(call.kind) is not None]
        is_same = all(
            call.key in fields
            and fields[call.key]["digest"] == call.digest(agent)
            and fields[call.key].get("agent", agent) == agent  # it was not removed since
            for call in calls
            if call in tools or call.key in fields  # intents of other domains have no record
        )
        if not is_same:
            message = "the key is of another call; use a new key for another call"
            codes = ("key_reused",)
            return [Outcome("refused", message=message, codes=codes, key=key) for key in keys]
        return [
            await self.outcome(call.key) if call in tools else Outcome("done", key=call.key)
            for call in calls
        ]

    async def outcome(self, key: str) -> Outcome:
        """Return the outcome of a call by its key; wait for one that runs, not for a person.

        Raises:
            LookupError: There is no such call.
        """
        record = await self.record(key)
        if record is not None:
            return await self.ended(key, record)
        asked = (await self._world.gateway.entities(INTENTS, [key])).get(key)
        if asked is None:
            raise LookupError(f"there is no call {key!r}; it was refused, or is in the log alone")
        return await self._of_request(key, asked["request"])

    async def _of_request(self, key: str, request: str) -> Outcome:
        """Return the outcome of a call that waits for a person, or was not approved."""
        fields = await self.request(request)
        if fields["state"] == "approved":  # since the record was read
            return await self.outcome(key)
        if fields["state"] != OPEN:
            message = f"{fields['by']}: {fields['reason'] or fields['state']}"
            return Outcome(fields["state"], message=message, approval=request, key=key)
        if fields["expires"] < self._world.sim_time:
            return Outcome("expired", message=EXPIRED, approval=request, key=key)
        return Outcome("held", message=HELD, approval=request, key=key)

    async def request(self, request: str) -> Mapping[str, Json]:
        """Return the fields of a request for approval.

        Raises:
            ApprovalUnknown: The state does not have it.
        """
        rows = await self._world.gateway.entities(REQUESTS, [request])
        if request not in rows:
            raise ApprovalUnknown(f"there is no request {request!r}; look at gate.approvals()")
        return rows[request]

    async def record(self, key: str) -> Mapping[str, Json] | None:
        """Return the record of an admitted call; None if there is none."""
        rows = await self._world.gateway.entities(self._domain.records.calls, [key])
        return rows.get(key)

    async def effect(self, key: str) -> EffectStatus | None:
        """Return the effect of a call that has not ended; None if there is none."""
        for effect in await self._world.effects():
            is_call = self._domain.tool_of(effect.kind) is not None
            if is_call and effect.payload["key"] == key:
                return effect
        return None

    async def ended(self, key: str, record: Mapping[str, Json] | None) -> Outcome:
        """Wait until a call has ended or is in doubt, within the limit; return its outcome."""
        try:
            async with asyncio.timeout(self._wait_s):
                while record is not None and record["state"] == "running":
                    position = self._world.records
                    effect = await self.effect(key)
                    if effect is not None and effect.state in {"in_doubt", "dead"}:
                        return Outcome("doubt", message=f"{IN_DOUBT} ({effect.why})", key=key)
                    record = await self.record(key)
                    if record is not None and record["state"] == "running":
                        await self.next_record(position)
        except TimeoutError:
            return Outcome("running", message=NOT_ENDED, key=key)
        assert record is not None, "a call that has just ended has a record"
        return of_record(key, record)

    async def next_record(self, position: int) -> None:
        """Wait until the log has a record at a position.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        async for _ in self._world.event_pages(from_record=position):
            return
        await self._world.digest()  # a stopped world raises the reason
