"""The two ways to submit that an operator and an agent's handle share."""

import asyncio
from collections.abc import Iterable, Mapping

from placet.actors.ports import AgentIdentity
from placet.runtime.world import WorldRuntime
from placet.schemas.codec import Json
from placet.schemas.errors import error_of
from placet.schemas.verdict import Verdict


async def submit(
    world: WorldRuntime,
    batch: object,
    submitter: str,
    *,
    dry_run: bool = False,
    identity: AgentIdentity | None = None,
) -> Verdict:
    """Submit a batch, and wait for its verdict; never raises for a refusal."""
    reply = world.actor.post(batch, submitter, dry_run, identity)
    if reply.done():  # refused at admission: a submitter that retries in a loop yields to others
        await asyncio.sleep(0)
    return await reply


def batch_of(intents: Iterable[Mapping[str, Json]], sim_time: float | None) -> object:
    """Return the batch object of intents; any other value is left for the structure stage."""
    value: object = intents
    if isinstance(value, Iterable) and not isinstance(value, Mapping | str | bytes):
        value = list(value)
    return {"intents": value, "sim_time": sim_time}


def admitted_ids(verdict: Verdict) -> list[str]:
    """Return the req_ids of an admitted batch, in the submitter's order.

    Raises:
        PlacetError: The batch was refused; the subclass stands for the first refusal.
    """
    if not verdict.admitted:
        raise error_of(verdict)
    return verdict.req_ids
