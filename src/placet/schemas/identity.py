"""Identities: agent ids, request ids, kinds and references to entities.

Users choose agent and request ids, so the structure stage (`kernel/gate/structure.py`) checks them;
later stages trust them.
"""

import re
from typing import Final, NamedTuple, NewType

AgentId = NewType("AgentId", str)

ID_CHARS_MAX: Final = 128
KIND_CHARS_MAX: Final = 64

ID_PATTERN: Final = r"^[^\x00-\x1f\x7f-\x9f]+$"
"""An identity holds no control characters (C0, DEL, C1)."""

_SEGMENT: Final = r"[A-Za-z](?:_?[A-Za-z0-9])*"
KIND_PATTERN: Final = re.compile(rf"{_SEGMENT}(?:\.{_SEGMENT})*")
"""Segments neither end with `_` nor contain `__`, so that `.` and `__` can replace each other."""

SYSTEM: Final = AgentId("system")
"""The reserved agent that settles effects and owns changes that no agent made."""

OPERATOR: Final = "operator"
"""The host program as submitter; it may submit for every agent."""

RESERVED_IDS: Final = frozenset({SYSTEM, OPERATOR})


class Ref(NamedTuple):
    """A reference to an entity, or to a whole collection (`entity` None).

    A collection counts as changed when an entity in it is created or deleted.
    """

    collection: str
    entity: str | None = None


def is_kind_name(name: str) -> bool:
    """Return whether a string may name a kind."""
    return len(name) <= KIND_CHARS_MAX and KIND_PATTERN.fullmatch(name) is not None


def is_identity(value: object) -> bool:
    """Return whether a value may be an agent or request id: 1..128 characters, none a control."""
    return (
        isinstance(value, str)
        and len(value) <= ID_CHARS_MAX
        and re.fullmatch(ID_PATTERN, value) is not None
        and _is_encodable(value)
    )


def _is_encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return True
