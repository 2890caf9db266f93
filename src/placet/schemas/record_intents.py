"""The intents in the record of a batch, as they are written there.

What is checked here is taken for granted by all who rebuild a batch from its record: a hash says
that the bytes are as they were written, not that a gate wrote them.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from placet.schemas.codec import Json
from placet.schemas.intent import SCHEMA_VERSION, Intent

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


def checked_intents(encoded: bytes, contexts: Sequence[int]) -> list[Intent]:
    """Rebuild the intents of a batch as a gate has them, but for until when they are valid.

    Raises:
        ValueError: The bytes are no batch, or one of as many intents.
    """
    return [
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


def intents_in(
    encoded: bytes, contexts: Sequence[int], until: Sequence[int | None]
) -> list[dict[str, Json]]:
    """Rebuild the intents of a batch for whoever reads a log, in the submitted order.

    Args:
        encoded: The batch.
        contexts: `context_seq` of each.
        until: Latest time of each in nanoseconds, or None.

    Raises:
        ValueError: The bytes are no batch, or one of as many intents.
    """
    intents = []
    for (agent_id, req_id, kind, payload, priority), context_seq, until_ns in zip(
        batch_in(encoded), contexts, until, strict=True
    ):
        intent = {
            "kind": kind,
            "payload": payload,
            "agent_id": agent_id,
            "req_id": req_id,
            "context_seq": context_seq,
            "priority": priority,
        }
        if until_ns is not None:
            intent["valid_until"] = until_ns / 1e9
        intents.append(intent)
    return intents
