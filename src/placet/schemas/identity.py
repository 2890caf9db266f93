"""Identities: agent ids, request ids, batch ids, kinds and references to entities.

Users choose agent and request ids, so the structure stage (`kernel/gate/structure.py`) checks them;
later stages trust them.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple, NewType

AgentId = NewType("AgentId", str)
ReqId = NewType("ReqId", str)
BatchId = NewType("BatchId", str)

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


SEQUENCE_DIGITS_MAX: Final = 18
"""A sequence number fits 63 bits."""


class Span(NamedTuple):
    """A summary of req_ids of one sequence.

    Attributes:
        name: Name of the sequence.
        lowest: Lowest number.
        highest: Highest number.
        is_run: The req_ids are known to be all numbers from lowest to highest, in this order.
    """

    name: str
    lowest: int
    highest: int
    is_run: bool


_COUNTS_MAX: Final = 32
"""Number of cached sequences from 0, by length: at most 3 KB each."""


def sequence_form(req_id: str) -> tuple[str, int] | None:
    """Split `name:<n>` into name and number; None for a free-form id.

    Only the canonical spelling is accepted: at most `SEQUENCE_DIGITS_MAX` ASCII digits without a
    leading zero.
    """
    name, colon, digits = req_id.rpartition(":")
    if not colon or not digits.isdecimal() or not digits.isascii():
        return None
    if len(digits) > SEQUENCE_DIGITS_MAX or (digits[0] == "0" and digits != "0"):
        return None
    return name, int(digits)


def sequences_of(req_ids: Sequence[str]) -> list[Span]:
    """Return the sequences among req_ids, each name once.

    The usual batch, all of one sequence, is recognized without parsing each id.
    """
    only = only_sequence(req_ids)
    if only is not None:
        return [only]
    spans: dict[str, tuple[int, int]] = {}
    for req_id in req_ids:
        sequence = sequence_form(req_id)
        if sequence is not None:
            name, number = sequence
            lowest, highest = spans.get(name, (number, number))
            spans[name] = (min(lowest, number), max(highest, number))
    return [Span(name, *bounds, False) for name, bounds in spans.items()]


def only_sequence(req_ids: Sequence[str]) -> Span | None:
    """Return the span of ids that are all of one sequence.

    None if the ids must be parsed one by one: several sequences, free-form ids, or an unusual
    spelling.
    """
    sequence = sequence_form(req_ids[0])
    if sequence is None:
        return None
    name, first = sequence
    last = first + len(req_ids) - 1
    if len(req_ids) == 1:
        return Span(name, first, last, True)
    joined = "\0".join(req_ids)  # an id holds neither NUL nor SOH
    if first == 0 and joined == _from_zero(len(req_ids)).replace("\1", name):
        return Span(name, first, last, True)  # the ids of one plan
    if (  # the ids of an agent handle: consecutive
        last < 10**SEQUENCE_DIGITS_MAX
        and req_ids == [f"{name}:{number}" for number in range(first, last + 1)]
    ):
        return Span(name, first, last, True)
    # Split all ids at once; an id of another name leaves a wrong number of parts.
    before, *digits = ("\0" + joined).split(f"\0{name}:")
    if before or len(digits) != len(req_ids):
        return None
    joined = "".join(digits)
    if not (joined.isdecimal() and joined.isascii()):
        return None
    if min(digits) < "1" or max(map(len, digits)) > SEQUENCE_DIGITS_MAX:
        return None
    numbers = list(map(int, digits))
    return Span(name, min(numbers), max(numbers), False)


@lru_cache(maxsize=_COUNTS_MAX)
def _from_zero(count: int) -> str:
    """Return the joined ids of a sequence from 0, with SOH in place of its name."""
    return "\0".join([f"\1:{number}" for number in range(count)])
