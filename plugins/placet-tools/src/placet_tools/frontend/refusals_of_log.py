"""Finds the refusal of a call in the log: the state has no record of a refused call."""

from collections.abc import Mapping
from typing import Final

from placet.kernel.plugin.approved import APPROVAL_REQUIRED, key_of
from placet.kernel.plugin.noted_refusals import noted_refusals
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.codec import Json
from placet.schemas.event import Event
from placet_tools.outcome import Outcome

RECORDS_MAX: Final = 20_000
"""The latest records of the log in which a refusal is looked for; `placet explain` reads all."""


async def latest_refusal(world: Orchestrator, key: str) -> Outcome | None:
    """Return the latest refusal of a call by its key; None if the latest records have none.

    Args:
        world: The open world.
        key: Key of the call.
    """
    end, found = world.records, None
    if not end:
        return None
    async for page in world.event_pages(from_record=max(0, end - RECORDS_MAX)):
        for event in page:
            found = _refusal_of(event, key) or found
        if page[-1].record + 1 >= end:
            break
    return found


def _refusal_of(event: Event, key: str) -> Outcome | None:
    if event.type == "batch":
        for _, call in noted_refusals(event.data["intents"]):
            if call["key"] == key:
                return _outcome(key, dict.fromkeys(call["codes"], call["message"]))
    if event.type != "refused":
        return None
    places = [n for n, one in enumerate(event.data["intents"]) if key_of(one["req_id"]) == key]
    own = {
        code: message
        for index, _, code, message in event.data["refusals"]
        if index is None or index in places
    }
    if not places or all(code.rpartition(".")[2] == APPROVAL_REQUIRED for code in own):
        return None  # another call of the plan was refused, or it was held
    return _outcome(key, own)


def _outcome(key: str, faults: Mapping[str, Json]) -> Outcome:
    message = "; ".join(dict.fromkeys(str(one) for one in faults.values()))
    return Outcome("refused", message=message, codes=tuple(faults), key=key)
