"""Decode the intents in the record of a batch.

Code that rebuilds a batch from its record relies on these checks: the hash of a record proves that
its bytes are unchanged, not that a gate wrote them.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from placet.schemas.codec import Json
from placet.schemas.condition import Condition
from placet.schemas.intent import SCHEMA_VERSION, Intent
from placet.schemas.limits import SECOND_NS

Proposed: TypeAlias = tuple[str, str, str, dict[str, Json], int]
"""agent_id, req_id, kind, payload, priority."""

Conditions: TypeAlias = list[list[Condition] | None]
"""The conditions of each intent, or None where it has none."""


class _Encoded(msgspec.Struct, array_like=True, frozen=True):
    """An encoded intent, with its conditions if it has any."""

    agent_id: str
    req_id: str
    kind: str
    payload: dict[str, Json]
    priority: int
    expect: list[Condition] | None = None


_DECODER: Final = msgspec.msgpack.Decoder(list[Proposed])
_DECODER_OF_CONDITIONS: Final = msgspec.msgpack.Decoder(list[_Encoded])


def decode_intents(encoded: bytes) -> list[Proposed]:
    """Decode the intents of a record, without their conditions.

    Raises:
        ValueError: The bytes are not a batch.
    """
    return _decoded(encoded)[0]


def _decoded(encoded: bytes) -> tuple[list[Proposed], Conditions | None]:
    """Decode the intents of a record, and the conditions if an intent has any.

    Raises:
        ValueError: The bytes are not a batch.
    """
    try:
        try:
            return _DECODER.decode(encoded), None
        except msgspec.ValidationError:  # an intent with conditions has a sixth field
            parts = _DECODER_OF_CONDITIONS.decode(encoded)
    except RecursionError as error:
        raise ValueError("it is nested too deeply to be read") from error
    proposed = [(p.agent_id, p.req_id, p.kind, p.payload, p.priority) for p in parts]
    return proposed, [part.expect for part in parts]


def checked_intents(
    encoded: bytes, contexts: Sequence[int], until: Sequence[int | None] | None
) -> list[Intent]:
    """Rebuild the checked intents of a batch, in the submitted order.

    Args:
        encoded: The encoded batch.
        contexts: `context_seq` of each intent.
        until: Latest simulated time of each intent in nanoseconds, or None; None if no intent has
            one.

    Raises:
        ValueError: The bytes are not a batch, or the number of intents differs from `contexts`.
    """
    parts, conditions = _decoded(encoded)
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
            parts, contexts, strict=True
        )
    ]
    for intent, own in zip(intents, conditions or (), strict=False):
        if own is not None:
            intent["expect"] = own
    if until is not None:
        set_valid_until(intents, until)
    return intents


def set_valid_until(intents: Sequence[Intent], until: Sequence[int | None]) -> None:
    """Set `valid_until` of each intent, in seconds, from the nanoseconds of a record.

    None removes the field. A rule then sees the same intent in a submitted batch and in a batch
    read back from the log.
    """
    for intent, until_ns in zip(intents, until, strict=True):
        if until_ns is not None:
            intent["valid_until"] = until_ns / SECOND_NS
        elif "valid_until" in intent:
            del intent["valid_until"]
