"""The semantics of the operations. An operation without a result within the bounds traps.

Ints have at most 256 bits and divide toward zero; floats are finite; texts have at most 65 536
characters. Nothing wraps around, and nothing is rounded but floats.
"""

import math
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from placet.schemas.codec import Json

INT_BITS_MAX: Final = 256
STR_CHARS_MAX: Final = 65_536


class Trap(Exception):  # noqa: N818  # a run's outcome, not a fault of ours
    """Raised when a run cannot produce a value; `code` is the reason."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def checked(value: Json) -> Json:
    """Return the value if it is within the bounds.

    Raises:
        Trap: The value is out of bounds.
    """
    kind = type(value)
    if kind is int and value.bit_length() > INT_BITS_MAX:
        raise Trap("int_overflow")
    if kind is float and not math.isfinite(value):
        raise Trap("float_not_finite")
    if kind is str and len(value) > STR_CHARS_MAX:
        raise Trap("str_too_long")
    return value


def divide(a: float, b: float) -> float:
    """Return `a / b`; the quotient of ints is rounded toward zero."""
    if b == 0:
        raise Trap("divide_by_zero")
    if isinstance(a, int):
        quotient = abs(a) // abs(b)
        return quotient if (a < 0) == (b < 0) else -quotient
    ratio: float = checked(a / b)
    return ratio


def remainder(a: float, b: float) -> float:
    """Return the remainder of `divide`; it has the sign of `a`."""
    if b == 0:
        raise Trap("divide_by_zero")
    if isinstance(a, int):
        left = abs(a) % abs(b)
        return left if a >= 0 else -left
    return math.fmod(a, b)


def to_text(value: bool | float | str) -> str:
    """Return a value as text; a float in the shortest form that reads back as the same value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)


MEANING: Final[Mapping[str, Callable[..., Json]]] = MappingProxyType(
    {
        "add": lambda a, b: checked(a + b),
        "sub": lambda a, b: checked(a - b),
        "mul": lambda a, b: checked(a * b),
        "div": divide,
        "mod": remainder,
        "min": min,
        "max": max,
        "neg": operator.neg,
        "abs": abs,
        "eq": operator.eq,
        "ne": operator.ne,
        "lt": operator.lt,
        "le": operator.le,
        "gt": operator.gt,
        "ge": operator.ge,
        "and": lambda a, b: a and b,
        "or": lambda a, b: a or b,
        "not": operator.not_,
        "to_int": lambda a: checked(math.trunc(a)),
        "to_float": float,
        "to_str": to_text,
        "concat": lambda a, b: checked(a + b),
        "len": len,
    }
)
"""The operations whose inputs are all there when they begin: all but const, param, call, select."""
