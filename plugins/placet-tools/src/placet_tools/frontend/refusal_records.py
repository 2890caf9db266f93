"""Records the refusals that the log would not have: by structure, by permission, by quota."""

import asyncio
from collections.abc import Sequence

from placet.kernel.plugin.noted_refusals import REFUSE
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.codec import ENCODE_ERRORS, Json, canonical
from placet.schemas.intent import Intent
from placet.schemas.refusal import RefusalCode
from placet_tools.domain import ToolsDomain
from placet_tools.frontend.calls import ToolCall
from placet_tools.frontend.recorder import Recorder
from placet_tools.outcome import Outcome
from placet_tools.refused_calls import (
    ARGUMENTS_BYTES_MAX,
    CALLS_MAX,
    CODES_MAX,
    TEXT_CHARS_MAX,
    RefusedCall,
)


class RefusalRecords:
    """Records refused calls, at most so many a second as the quota of their kind permits.

    Args:
        world: The world.
        domain: The domain of the tools.
        recorder: Makes intents.
    """

    def __init__(self, world: Orchestrator, domain: ToolsDomain, recorder: Recorder) -> None:
        self._world = world
        self._domain = domain
        self._recorder = recorder
        self._left_out = 0
        self._waiting = set[asyncio.Task[None]]()

    async def record(
        self, agent: str, calls: Sequence[ToolCall], outcomes: Sequence[Outcome]
    ) -> None:
        """Record the refused calls of a batch of which the kernel has no record.

        Raises:
            ClosedError, StoreError: The world is closed, or its store has failed.
        """
        refused = [
            self._refused(call, outcome)
            for call, outcome in zip(calls, outcomes, strict=True)
            if outcome.status == "refused"
        ]
        left_out, self._left_out = self._left_out, 0
        intent = await self._recorder.own(
            REFUSE, agent=agent, calls=refused[:CALLS_MAX], left_out=left_out
        )
        recorded = asyncio.create_task(self._record(intent))
        if self._world.config.clock == "stepped":  # it waits for a step, the refused call does not
            self._waiting.add(recorded)
            recorded.add_done_callback(self._waiting.discard)
        else:
            await recorded

    async def _record(self, intent: Intent) -> None:
        verdict = await self._world.submit([intent])
        if RefusalCode.QUOTA_EXCEEDED in verdict.codes:
            self._left_out += intent["payload"]["left_out"] + 1

    def _refused(self, call: ToolCall, outcome: Outcome) -> RefusedCall:
        prefix = f"{self._domain.name}."
        # The other domains of a plan do not know marks, and their refusals repeat values.
        has_values = self._domain.has_marks and not call.kind.startswith(prefix)
        return RefusedCall(
            key=_text(call.key),
            tool=_text(call.kind.removeprefix(prefix)),
            arguments=None if has_values else _plain(call.payload),
            codes=list(outcome.codes[:CODES_MAX]),
            message="" if has_values else _text(outcome.message),
        )


def _text(text: str) -> str:
    """Return a text that a record may hold: of a model, which may have half of a character."""
    return text[:TEXT_CHARS_MAX].encode("utf-8", "replace").decode()


def _plain(arguments: Json) -> Json:
    """Return arguments that a record may hold; None for others."""
    try:
        content = canonical(arguments)
    except ENCODE_ERRORS:
        return None
    return arguments if len(content) <= ARGUMENTS_BYTES_MAX else None
