"""The face by which an open world is forked, and by which parts of it are put back."""

from functools import partial
from typing import TYPE_CHECKING

from placet.kernel.gate.domain_rules import EffectValidator
from placet.kernel.kernel import Kernel
from placet.runtime.world import WorldRuntime, in_thread_if

if TYPE_CHECKING:
    from placet.runtime.history.fork import Fork, ForkOptions


class BranchesWorlds:
    """`fork` and `restore`, for the holder of an open world."""

    __slots__ = ()
    _validator: EffectValidator | None

    @property
    def _open(self) -> WorldRuntime:
        """The world, if it is open."""
        raise NotImplementedError

    async def fork(
        self, to: str, options: "ForkOptions | None" = None, *, at: int | None = None
    ) -> "Fork":
        """Fork this world, and go on. O(log up to there).

        Args:
            to: A path at which nothing is yet.
            options: What is to be otherwise in the fork; None is nothing.
            at: At which seq, the end of a batch; None is the durable seq.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed; or it cannot be forked
                there, or into that.
            ValidationError, AgentError: A change is invalid.
            ValueError: The fork's name is none.
        """
        # Few programs ask, and each pays for what is loaded before its first batch.
        from placet.runtime.history.fork import fork  # noqa: PLC0415

        world = self._open
        domains = await world.actor.operate(lambda kernel: kernel.registry.domains)
        seq = world.committer.durable_seq if at is None else at
        validator = self._validator
        act = partial(fork, world.log, to, options, at=seq, domains=domains, validator=validator)
        return await in_thread_if(world.log.is_blocking, act)

    async def restore(self, path: str, to_seq: int) -> int:
        """Set a part of the state back to an earlier value, by a new record: nothing is rewound.

        Decisions made since then stay; agents, quotas and effects are unchanged. The domains'
        invariants are checked, as for a batch.

        Args:
            path: `collection` or `collection/entity`.
            to_seq: When it was so: the end of a batch that the log still has.

        Returns:
            The seq of the world after it; the present one where nothing differs.

        Raises:
            ClosedError, StoreError: The world is closed, has failed, or never was at that seq.
            ValidationError: There is nothing at the path, or an invariant would not hold; nothing
                was changed.
        """
        from placet.runtime.history.fork import replay_to  # noqa: PLC0415  # as above
        from placet.runtime.history.patch import inverse_patch  # noqa: PLC0415

        world = self._open
        act = partial(replay_to, world.log, to_seq)
        then = (await in_thread_if(world.log.is_blocking, act)).state

        def put_back(kernel: Kernel) -> int:
            given = inverse_patch(then, kernel.tree, path)
            if given:
                kernel.patch(given, f"restore {path.strip('/')} to {to_seq}")
            return kernel.seq

        return await world.actor.operate(put_back)
