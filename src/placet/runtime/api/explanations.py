"""The face by which an open world explains itself."""

from functools import partial
from typing import TYPE_CHECKING

from placet.kernel.gate.domain_rules import EffectValidator
from placet.runtime.world import WorldRuntime, in_thread_if

if TYPE_CHECKING:
    from placet.schemas.explanation import Explanation


class ExplainsAnswers:
    """Explanations, for the holder of an open world."""

    __slots__ = ()
    _validator: EffectValidator | None

    @property
    def _open(self) -> WorldRuntime:
        """The world, if it is open."""
        raise NotImplementedError

    async def explain(self, agent_id: str, req_id: str) -> "Explanation":
        """Explain from the log what each stage of the gate compared for a request. O(log).

        Of a request that has no answer in the log, it says where it may have been turned away. A
        log in memory is read in the event loop's own turn; one on a disk, in a thread.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        # Few programs ask, and each pays for what is loaded before its first batch.
        from placet.runtime.history.explain import explain  # noqa: PLC0415

        world = self._open
        domains = await world.actor.operate(lambda kernel: kernel.registry.domains)
        act = partial(explain, world.log, agent_id, req_id, domains, validator=self._validator)
        return await in_thread_if(world.log.is_blocking, act)
