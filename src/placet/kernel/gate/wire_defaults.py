"""Defaults of fields that an intent from outside may leave out: agent, context, priority, version.

They are filled in at the edges (HTTP, `placet gate`, agent handles), once the structure stage has
refused a batch: a complete batch pays nothing for them. A null is a value, and stays refused.
"""

from collections.abc import Callable
from operator import is_
from typing import Any, TypeAlias

from placet.schemas.identity import OPERATOR
from placet.schemas.intent import DEFAULT_PRIORITY, SCHEMA_VERSION

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
