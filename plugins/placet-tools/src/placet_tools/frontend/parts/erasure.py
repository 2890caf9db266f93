"""Erases personal data beside an open log, and deletes the parts that the log does not use."""

from collections.abc import Sequence
from functools import partial

from anyio import to_thread

from placet.kernel.kernel import Kernel
from placet.kernel.plugin.approved import INTENTS
from placet.runtime.orchestrator import Orchestrator
from placet_tools.domain import ToolsDomain
from placet_tools.frontend.parts.part_store import OUTPUT, PartStore, Use
from placet_tools.frontend.recorder import Recorder
from placet_tools.parts.erasure import ERASE


class Erasure:
    """Keeps the part store of an open world in step with its log.

    Args:
        store: The part store; None for a log that has none beside it.
        world: The world.
        domain: The domain of the tools.
        recorder: Makes intents.
    """

    def __init__(
        self,
        store: PartStore | None,
        world: Orchestrator,
        domain: ToolsDomain,
        recorder: Recorder,
    ) -> None:
        self._store = store
        self._world = world
        self._domain = domain
        self._recorder = recorder

    async def resume(self) -> None:
        """Delete the parts of calls that are not in the log; finish the erasures of before.

        Raises:
            StoreError: The part store or the log cannot be read or written.
        """
        if self._store is None or not self._store.exists:
            return
        pending = await to_thread.run_sync(self._store.pending)
        if pending:
            doubts = [str(effect.why) for effect in await self._world.effects()]
            kept = await self._world.query(partial(_used, self._domain, pending, doubts))
            dropped = [use for use in pending if use not in kept]
            await to_thread.run_sync(self._store.resolve, kept, dropped)
        for subject in await to_thread.run_sync(self._store.unrecorded):
            await self._record(self._store, subject)

    async def erase(self, subject: str) -> bool:
        """Destroy the key of a data subject, and record that; return False if it is unknown.

        Raises:
            ValueError: The subject is no text.
            ClosedError, StoreError: The part store or the log cannot be written.
        """
        if not isinstance(subject, str):
            raise ValueError(f"a data subject is a text, such as 'A7', got {subject!r:.120}")
        if self._store is None:
            return False
        erased = await to_thread.run_sync(self._store.erase, subject)
        if erased is not None:
            await self._record(self._store, erased)
        return erased is not None

    async def _record(self, store: PartStore, subject: str) -> None:
        await self._world.submit([await self._recorder.own(ERASE, subject=subject)])
        await to_thread.run_sync(store.recorded, subject)


def _used(
    domain: ToolsDomain, pending: Sequence[Use], doubts: Sequence[str], kernel: Kernel
) -> set[Use]:
    """Return the uses that the log has: by its calls and requests, or as the output of a call."""
    calls, requested = kernel.state.get(domain.records.calls, {}), kernel.state.get(INTENTS, {})
    used = set()
    for use in pending:
        record = calls.get(use.call)
        if use.batch != OUTPUT:
            is_used = record is not None or use.call in requested
        elif record is None:  # the log has the call, the state no longer
            is_used = True
        else:
            is_used = any(use.digest in text for text in (str(record["output"]), *doubts))
        if is_used:
            used.add(use)
    return used
