"""Intent: one proposal of an agent.

Inside the gate an intent is a plain dict that the structure stage validated; a dict is the cheapest
representation (decision 0003).
"""

from collections.abc import Mapping
from typing import Final, NotRequired

from typing_extensions import TypedDict

from placet.schemas.codec import Json
from placet.schemas.condition import Condition

SCHEMA_VERSION: Final = "1.0.0"
SCHEMA_MAJOR: Final = "1"

DEFAULT_PRIORITY: Final = 10


class Intent(TypedDict):
    """One intent on the wire. Every field but `valid_until` and `expect` is required.

    Attributes:
        kind: Registered name of the kind, such as `Move`.
        payload: Data in the schema of the kind.
        agent_id: The proposing agent.
        req_id: The submitter's idempotency key, unique per agent.
        context_seq: Sequence number of the view on which the agent decided.
        priority: 0..100, higher runs first.
        schema_version: Semantic version of this schema, now `1.0.0`.
        valid_until: Simulated time in seconds after which the intent must not run.
        expect: 1 to 16 conditions; with them the intent is stale if one does not hold, and depends
            on nothing else.
    """

    kind: str
    payload: dict[str, Json]
    agent_id: str
    req_id: str
    context_seq: int
    priority: int
    schema_version: str
    valid_until: NotRequired[float]
    expect: NotRequired[list[Condition]]


REQUIRED_FIELDS: Final = 7
"""Number of required fields of an intent."""


def joined_payload(
    kind: str, mapping: Mapping[str, Json], payload: Mapping[str, Json]
) -> dict[str, Json]:
    """Return a payload that is given as a mapping and as keywords; these win.

    Raises:
        TypeError: It is no mapping.
    """
    given: object = mapping
    if not isinstance(given, Mapping):
        raise TypeError(
            f"the payload of {kind} must be keywords or a mapping, such as "
            f"intent({kind!r}, name=value), got {given!r}"
        )
    return {**given, **payload}


def new_intent(
    kind: str, payload: dict[str, Json], agent_id: str, req_id: str, context_seq: int
) -> Intent:
    """Build an intent of the default priority and the present schema.

    Args:
        kind: Name of the kind.
        payload: Payload; the intent keeps it, and does not copy it.
        agent_id: The proposing agent.
        req_id: The submitter's idempotency key.
        context_seq: Sequence number of the view on which the agent decided.
    """
    return {
        "kind": kind,
        "payload": payload,
        "agent_id": agent_id,
        "req_id": req_id,
        "context_seq": context_seq,
        "priority": DEFAULT_PRIORITY,
        "schema_version": SCHEMA_VERSION,
    }
