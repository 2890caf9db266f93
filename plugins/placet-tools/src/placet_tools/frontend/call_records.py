"""The calls of an open world: their records, their requests, and the wait for their end."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from placet.kernel.kernel import Kernel
from placet.kernel.plugin.approved import INTENTS
from placet.runtime.inbox import Inbox, next_record
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.codec import Json
from placet.schemas.effect import EffectStatus
from placet_tools.domain import ToolsDomain
from placet_tools.frontend.calls import IN_DOUBT, NOT_ENDED, ToolCall, of_record
from placet_tools.frontend.parts.sealed_values import SealedValues
from placet_tools.frontend.refusals_of_log import latest_refusal
from placet_tools.outcome import Outcome

HELD: Final = "a person decides; do not repeat the call"
EXPIRED: Final = "it was not decided in time"


class CallRecords:
    """Reads the calls of a world of tools.

    Args:
        world: The world.
        domain: The domain of the tools.
        inbox: The inbox of the world.
        wait_s: Real seconds to wait for a call that runs.
        values: The values that the log does not hold.
    """

    def __init__(
        self,
        world: Orchestrator,
        domain: ToolsDomain,
        inbox: Inbox,
        wait_s: float,
        values: SealedValues,
    ) -> None:
        self._world = world
        self._inbox = inbox
        self._domain = domain
        self._wait_s = wait_s
        self.values = values

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
            erased = self.values.may_be_erased(calls)
            message = f"the key is of another call{erased}; use a new key for another call"
            codes = ("key_reused",)
            return [Outcome("refused", message=message, codes=codes, key=key) for key in keys]
        return [
            await self.outcome(call.key) if call in tools else Outcome("done", key=call.key)
            for call in calls
        ]

    async def outcome(self, key: str) -> Outcome:
        """Return the outcome of a call by its key; wait for one that runs, not for a person.

        Of a refused call the outcome has the refusal, if it is among the latest records of the log.

        Raises:
            LookupError: There is no such call.
        """
        record = await self.record(key)
        if record is not None:
            return await self.ended(key, record)
        asked = (await self._world.gateway.entities(INTENTS, [key])).get(key)
        if asked is None:
            refusal = await latest_refusal(self._world, key)
            if refusal is None:
                raise LookupError(
                    f"there is no call {key!r}, or it is so old that the log alone has it: "
                    "`placet explain` reads all of the log"
                )
            return refusal
        return await self._of_request(key, asked["request"])

    async def _of_request(self, key: str, request: str) -> Outcome:
        """Return the outcome of a call that waits for a person, or was not approved."""
        approval = await self._inbox.get(request)
        if approval.state == "approved":  # it was approved after the record was read
            return await self.outcome(key)
        if approval.state == "open":
            return Outcome("held", message=HELD, approval=request, key=key)
        if not approval.by:  # it has expired, which is not recorded yet
            return Outcome("expired", message=EXPIRED, approval=request, key=key)
        codes = approval.codes
        message = f"{approval.by}: {approval.reason or approval.state}"
        output: Json = None
        if approval.state == "amended":
            message = f"{message}; this call did not run: `output` has the calls that ran instead"
            output = await self._ran_instead(approval.amended_by)
        return Outcome(approval.state, output, message, codes, approval=request, key=key)

    async def _ran_instead(self, request: str) -> list[Json]:
        """Return the calls of an approved request with their outcomes, in the form for a model."""
        ran: list[Json] = []
        for asked in (await self._inbox.get(request)).own_intents:
            tool = self._domain.tool_of(asked["kind"])
            outcome = Outcome("done") if tool is None else await self.outcome(asked["key"])
            name = asked["kind"] if tool is None else tool.name
            row: dict[str, Json] = {"tool": name, "arguments": asked["payload"]}
            answer = {"output": outcome.output} if outcome.status == "done" else outcome.for_model
            ran.append({**row, "status": outcome.status, **answer})
        return ran

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
                    effect = await self.effect(key)
                    if effect is not None and effect.state in {"in_doubt", "dead"}:
                        message = f"{IN_DOUBT} ({effect.why})"
                        return await self.values.opened(Outcome("doubt", message=message, key=key))
                    if effect is not None:
                        await self._settled(effect)
                    record = await self.record(key)
        except TimeoutError:
            return Outcome("running", message=NOT_ENDED, key=key)
        assert record is not None, "a call that has just ended has a record"
        return await self.values.opened(of_record(key, record))

    async def wait(self, keys: Sequence[str], position: int) -> None:
        """Wait until the calls that are running have ended or are in doubt.

        If no call is running, wait until the log has a record at a position: a person may have
        settled a call that is in doubt.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        running = [
            effect
            for effect in await self._world.effects()
            if self._domain.tool_of(effect.kind) is not None
            and effect.payload["key"] in keys
            and effect.state in {"open", "started"}
        ]
        for effect in running:
            await self._settled(effect)
        if not running:
            await next_record(self._world, position)

    async def _settled(self, effect: EffectStatus) -> None:
        """Wait until an effect is settled or in doubt."""
        with suppress(LookupError):  # it was settled after it was listed
            await self._world.gateway.outcome(effect.key)
