"""The intents in the record of a batch, as they are written there.

Code that rebuilds a batch from its record relies on these checks: a hash proves that the bytes are
as written, not that a gate wrote them.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from placet.schemas.codec import Json
from placet.schemas.intent import SCHEMA_VERSION, Intent
from placet.schemas.limits import SECOND_NS

Proposed: TypeAlias = tuple[str, str, str, dict[str, Json], int]
"""agent_id, req_id, kind, payload, priority."""

_DECODER: Final = msgspec.msgpack.Decoder(list[Proposed])


def batch_in(encoded: bytes) -> list[Proposed]:
    """Read the batch in a record.

    Raises:
        ValueError: The bytes are no batch.
    """
    try:
        return _DECODER.decode(encoded)
    except RecursionError as error:
        raise ValueError("it is nested too deeply to be read") from error


def checked_intents(
    encoded: bytes, contexts: Sequence[int], until: Sequence[int | None] | None
) -> list[Intent]:
    """Rebuild the intents of a batch as a gate has them, in the submitted order.

    Args:
        encoded: The batch.
        contexts: `context_seq` of each.
        until: Latest time of each in nanoseconds, or None; None where no intent names one.

    Raises:
        ValueError: The bytes are no batch, or one of as many intents.
    """
    intents: list[Intent] = [
        {
            "kind": kind,
            "payload": payload,
            "agent_id": agent_id,
            "req_id": req_id,
            "context_seq": context_seq,
            "priority": priority,
            "schema_version": SCHEMA_VERSION,
        }
        for (agent_id, req_id, kind, payload, priority), context_seq in zip(
            batch_in(encoded), contexts, strict=True
        )
    ]
    if until is not None:
        show_until(intents, until)
    return intents


def show_until(intents: Sequence[Intent], until: Sequence[int | None]) -> None:
    """Write into intents until when they are valid, in the seconds that a record can tell.

    Times are in nanoseconds, and a None is left out: so rules see the same for a submitted batch
    and for one read back.
    """
    for intent, until_ns in zip(intents, until, strict=True):
        if until_ns is not None:
            intent["valid_until"] = until_ns / SECOND_NS
        elif "valid_until" in intent:
            del intent["valid_until"]
