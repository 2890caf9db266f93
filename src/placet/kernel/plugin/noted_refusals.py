"""Refused requests that a program notes in the log, because the kernel has no record of them.

A refusal by structure, permission or quota has no record: the request may be admitted later. A
program whose log must have it submits an intent of a kind `<domain>.refuse_calls`. Its payload has
the `agent` and the `calls`, each with `key`, `tool`, `arguments`, `codes` and `message`. The log
commands find such intents by the name of the kind.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from placet.schemas.codec import Json

REFUSE: Final = "refuse_calls"
"""Name of the kind, without the prefix of its domain."""


class NotedRefusal(NamedTuple):
    """A refused request, as an intent notes it.

    Attributes:
        agent: Agent of the request.
        call: The request: `key`, `tool`, `arguments`, `codes` and `message`.
    """

    agent: str
    call: Mapping[str, Json]


def notes_refusals(kind: str) -> bool:
    """Return whether intents of a kind note refused requests."""
    return kind.endswith(f".{REFUSE}")


def noted_refusals(intents: Iterable[Mapping[str, Json]]) -> Iterator[NotedRefusal]:
    """Yield the refused requests that the intents of a batch note."""
    for intent in intents:
        if notes_refusals(intent["kind"]):
            for call in intent["payload"]["calls"]:
                yield NotedRefusal(intent["payload"]["agent"], call)
