"""Reads the log of an open world: explanations, forks, restored state."""

from functools import partial
from typing import TYPE_CHECKING

from placet.kernel.gate.domain_rules import EffectValidator
from placet.kernel.kernel import Kernel
from placet.runtime.world import WorldRuntime, in_thread_if

if TYPE_CHECKING:
    from placet.history.fork import Fork, ForkOptions
    from placet.history.position import Position
    from placet.schemas.explanation import Explanation

# The modules of `history` are imported when they are called: few programs need them, and
# every program would pay for the import before its first batch.


async def explain(
    world: WorldRuntime, agent_id: str, req_id: str, validator: EffectValidator | None
) -> "Explanation":
    """Return an explanation of the verdict on a request: each stage of the gate, from the log.

    O(log).
    """
    from placet.history.explain import explain  # noqa: PLC0415

    domains = await world.actor.operate(lambda kernel: kernel.registry.domains)
    read = partial(explain, world.log, agent_id, req_id, domains, validator=validator)
    return await in_thread_if(world.log.is_blocking, read)


async def fork(
    world: WorldRuntime,
    to: str,
    options: "ForkOptions | None",
    at: "int | Position | None",
    validator: EffectValidator | None,
) -> "Fork":
    """Copy a world's log up to a position into a new store, as a world with another name.

    O(log).
    """
    from placet.history.fork import fork  # noqa: PLC0415
    from placet.history.position import Position  # noqa: PLC0415

    domains = await world.actor.operate(lambda kernel: kernel.registry.domains)
    if at is None:
        at = Position(record=world.committer.durable_records - 1)
    copy = partial(fork, world.log, to, options, at=at, domains=domains, validator=validator)
    return await in_thread_if(world.log.is_blocking, copy)


async def restore(world: WorldRuntime, path: str, to_seq: int) -> int:
    """Set a part of the state back to its value at `to_seq`; return the seq after the change."""
    from placet.history.fork import replay_to  # noqa: PLC0415
    from placet.history.patch import inverse_patch  # noqa: PLC0415

    read = partial(replay_to, world.log, to_seq)
    earlier = (await in_thread_if(world.log.is_blocking, read)).state

    def put_back(kernel: Kernel) -> int:
        patch = inverse_patch(earlier, kernel.tree, path)
        if patch:
            kernel.patch(patch, f"restore {path.strip('/')} to {to_seq}")
        return kernel.seq

    return await world.actor.operate(put_back)
