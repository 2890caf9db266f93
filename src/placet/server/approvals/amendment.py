"""The intents of an amendment: the calls that a person approves in place of those of a request.

They have new keys. Intents of other agents in a request are records of the program that asked, such
as the plan of several calls; they name calls by their keys, so they are repeated with the new keys.
"""

from collections.abc import Mapping, Sequence
from uuid import uuid4

from placet.runtime.api.approval_requests import intent_of
from placet.schemas.approval import Approval, HeldIntent
from placet.schemas.codec import Json
from placet.schemas.intent import Intent


class AmendmentError(ValueError):
    """The error of calls that cannot take the place of those of a request."""


def amended(
    request: Approval, calls: Sequence[tuple[str, dict[str, Json]]], seq: int
) -> Sequence[Intent]:
    """Return the intents of an amendment, in the order of the request.

    Args:
        request: The request that is amended.
        calls: Kind and payload of each call.
        seq: Seq of the world.

    Raises:
        AmendmentError: The request has records of several calls, and the amendment another number
            of calls.
    """
    own = request.own_intents
    has_records = len(own) < len(request.intents)
    if has_records and len(calls) != len(own):
        raise AmendmentError(
            f"the calls of this request are one plan, so an amendment has {len(own)} calls too, "
            f"got {len(calls)}; deny it to ask for another plan"
        )
    prefix = uuid4().hex
    keys = [f"{prefix}.{number}" for number in range(len(calls))]
    made: list[HeldIntent] = [
        {"agent": request.agent, "key": key, "kind": kind, "payload": payload}
        for key, (kind, payload) in zip(keys, calls, strict=True)
    ]
    if has_records:
        new_keys = {one["key"]: key for one, key in zip(own, keys, strict=True)}
        calls_in_order = iter(made)
        made = [
            next(calls_in_order) if one["agent"] == request.agent else _renamed(one, new_keys)
            for one in request.intents
        ]
    suffix = uuid4().hex[:12]
    return [intent_of(one, f"{one['key']}/{suffix}", seq) for one in made]


def _renamed(intent: HeldIntent, new_keys: Mapping[str, str]) -> HeldIntent:
    """Return a record with a new key, and with the new keys of the calls."""
    payload = {name: _with_keys(value, new_keys) for name, value in intent["payload"].items()}
    return {**intent, "key": uuid4().hex, "payload": payload}


def _with_keys(value: Json, new_keys: Mapping[str, str]) -> Json:
    if isinstance(value, str):
        return new_keys.get(value, value)
    if isinstance(value, list):
        return [_with_keys(one, new_keys) for one in value]
    if isinstance(value, dict):
        return {name: _with_keys(one, new_keys) for name, one in value.items()}
    return value
