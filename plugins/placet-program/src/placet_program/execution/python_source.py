"""The parts of an artifact: its header, and the Python form of each operation.

The prelude repeats the semantics of `arithmetic` for readers that have only Python; tests compare
both, operation by operation.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

PRELUDE: Final = '''\
"""Compiled from a graph. Call entry(...); it returns a value or raises Trap."""

import math

DEPTH_MAX = 200


class Trap(Exception):
    """The program ends without a value; the first argument is the code."""


def checked(value):
    if type(value) is int and value.bit_length() > 256:
        raise Trap("program.int_overflow")
    if type(value) is float and not math.isfinite(value):
        raise Trap("program.float_not_finite")
    if type(value) is str and len(value) > 65536:
        raise Trap("program.str_too_long")
    return value


def divide(a, b):
    if b == 0:
        raise Trap("program.divide_by_zero")
    if type(a) is float:
        return checked(a / b)
    return abs(a) // abs(b) if (a < 0) == (b < 0) else -(abs(a) // abs(b))


def remainder(a, b):
    if b == 0:
        raise Trap("program.divide_by_zero")
    if type(a) is float:
        return math.fmod(a, b)
    return abs(a) % abs(b) if a >= 0 else -(abs(a) % abs(b))


def to_text(value):
    if type(value) is bool:
        return "true" if value else "false"
    return value if type(value) is str else repr(value)


def deepen(depth):
    if depth > DEPTH_MAX:
        raise Trap("program.depth_exceeded")


def once(compute):
    values = []

    def value():
        if not values:
            values.append(compute())
        return values[0]

    return value'''

TEMPLATES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "add": "checked({} + {})",
        "sub": "checked({} - {})",
        "mul": "checked({} * {})",
        "div": "divide({}, {})",
        "mod": "remainder({}, {})",
        "min": "min({}, {})",
        "max": "max({}, {})",
        "neg": "-{}",
        "abs": "abs({})",
        "eq": "{} == {}",
        "ne": "{} != {}",
        "lt": "{} < {}",
        "le": "{} <= {}",
        "gt": "{} > {}",
        "ge": "{} >= {}",
        "and": "{} and {}",
        "or": "{} or {}",
        "not": "not {}",
        "to_int": "checked(math.trunc({}))",
        "to_float": "float({})",
        "to_str": "to_text({})",
        "concat": "checked({} + {})",
        "len": "len({})",
    }
)
"""Operation -> expression over the names of its inputs, or over literals."""
