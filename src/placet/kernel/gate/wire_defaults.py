"""Defaults of fields that an intent from outside may leave out: agent, context, priority, version.

A whole number written as 3.0 is an int where an int is expected: to JSON they are one number.
Both are filled in at the edges (HTTP, `placet gate`, agent handles), once the structure stage has
refused a batch: a complete batch pays nothing for them. A null is a value, and stays refused.
"""

from collections.abc import Callable, Collection, Iterable
from operator import is_
from typing import Any, Final, TypeAlias

from placet.schemas.identity import OPERATOR
from placet.schemas.intent import DEFAULT_PRIORITY, SCHEMA_VERSION

_INT_MAX: Final = 2.0**63
"""A larger int is none that JSON must carry, and is refused as such."""

_INT_FIELDS: Final = frozenset({("context_seq",), ("priority",)})
"""The paths of the fields of any intent that are ints."""

_Complete: TypeAlias = Callable[[int, dict[str, Any]], dict[str, Any]]
"""Returns an intent with more fields, or the same object; its first argument is the position."""


def with_defaults(raw: object, submitter: str, context_seq: int, intents_max: int) -> object:
    """Return a batch with defaults for the missing fields of its intents.

    Args:
        raw: The batch as submitted; not changed. Anything that is no plain batch is returned as is,
            and so is a batch of which nothing is missing.
        submitter: The agent of an intent that names none; the operator has no agent.
        context_seq: The present sequence number: the intent is about the world as it is now.
        intents_max: A longer batch is returned as is, because it is refused for its length.
    """
    defaults: dict[str, Any] = {
        "context_seq": context_seq,
        "priority": DEFAULT_PRIORITY,
        "schema_version": SCHEMA_VERSION,
    }
    if submitter != OPERATOR:
        defaults["agent_id"] = submitter
    names = defaults.keys()
    return _completed(
        raw,
        lambda _, intent: intent if names <= intent.keys() else {**defaults, **intent},
        intents_max,
    )


def with_req_ids(raw: object, key: str, intents_max: int) -> object:
    """Return a batch whose intents without a req_id have one made of an idempotency key.

    It is the key itself if the batch is one intent, else `key:0`, `key:1` and so on, by position.

    Args:
        raw: The batch as submitted; not changed.
        key: The key, which the structure stage checks as it checks any req_id.
        intents_max: A longer batch is returned as is.
    """
    listed = raw.get("intents", raw) if type(raw) is dict else raw
    is_single = type(listed) is not list or len(listed) == 1

    def with_req_id(index: int, intent: dict[str, Any]) -> dict[str, Any]:
        if "req_id" in intent:
            return intent
        return {**intent, "req_id": key if is_single else f"{key}:{index}"}

    return _completed(raw, with_req_id, intents_max)


def with_ints(raw: object, at: Iterable[str]) -> object:
    """Return a batch with ints in place of whole floats. O(size of the batch).

    Not all refusals of a batch are listed, so the place of one counts for all intents of its kind,
    and for all items of a list.

    Args:
        raw: The batch as submitted; not changed. It is returned as is if it has no such float.
        at: JSON pointers to the values that were refused, each below `/intents/0` and so on.
    """
    listed = raw.get("intents", [raw]) if type(raw) is dict else raw
    if type(listed) is not list:
        return raw
    places: dict[object, set[tuple[str, ...]]] = {}
    for pointer in at:
        index, *path = pointer.split("/")[2:] or [""]
        if index.isdecimal() and int(index) < len(listed):
            kind = _kind_of(listed[int(index)])
            places.setdefault(kind, set(_INT_FIELDS)).add(tuple(map(_any_item, path)))
    whole = [_with_ints(one, places.get(_kind_of(one), _INT_FIELDS)) for one in listed]
    if all(map(is_, whole, listed)):
        return raw
    if type(raw) is not dict:
        return whole
    return {**raw, "intents": whole} if "intents" in raw else whole[0]


def _kind_of(intent: object) -> str | None:
    kind = intent.get("kind") if isinstance(intent, dict) else None
    return kind if isinstance(kind, str) else None


def _any_item(step: object) -> str:
    """Return a step of a path, with one name for all items of a list."""
    text = str(step)
    return "*" if text.isdecimal() else text


def _with_ints(value: object, places: Collection[tuple[str, ...]]) -> object:
    if type(value) is float:
        return int(value) if value.is_integer() and abs(value) < _INT_MAX else value
    if not isinstance(value, dict | list):
        return value
    below: dict[str, set[tuple[str, ...]]] = {}
    for place in filter(None, places):
        below.setdefault(place[0], set()).add(place[1:])
    items = value.items() if isinstance(value, dict) else enumerate(value)
    changed = {
        key: new
        for key, old in items
        if (name := _any_item(key)) in below and (new := _with_ints(old, below[name])) is not old
    }
    if not changed:
        return value
    if isinstance(value, dict):
        return {**value, **changed}
    return [changed.get(index, item) for index, item in enumerate(value)]


def _completed(raw: object, complete: _Complete, intents_max: int) -> object:
    if type(raw) is dict and "intents" in raw:
        intents = _completed_list(raw["intents"], complete, intents_max)
        return raw if intents is raw["intents"] else {**raw, "intents": intents}
    if type(raw) is dict:
        return complete(0, raw)
    return _completed_list(raw, complete, intents_max)


def _completed_list(intents: object, complete: _Complete, intents_max: int) -> object:
    if type(intents) is not list or len(intents) > intents_max:
        return intents
    completed = [
        complete(index, intent) if type(intent) is dict else intent
        for index, intent in enumerate(intents)
    ]
    is_same = all(map(is_, completed, intents))
    return intents if is_same else completed
