"""Find refusals that a domain's code makes and does not return: they would refuse nothing.

`refuse(...)` is a value, and a statement that is nothing but its call drops it, so the intent would
pass. The bytecode of the domain's functions shows such statements when a world is opened, so that
a rule costs nothing more when it runs.

Only calls of a global name are found. These are not: `domain.refuse(...)`, the attribute of a
module; `found = refuse(...)` with a name that is never read; and a function that is reached through
a closure, such as a rule inside a decorator without `functools.wraps`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from dis import get_instructions
from inspect import unwrap
from types import CodeType, FunctionType, MethodType
from typing import Final
from weakref import WeakKeyDictionary

from placet.kernel.plugin.domain import Domain, budget_exceeded, conflict, refuse
from placet.schemas.errors import DomainError

_MAKERS: Final[tuple[object, ...]] = (refuse, conflict, budget_exceeded)
"""The functions that make a refusal."""

_METHODS: Final = (MethodType, staticmethod, classmethod)
_CALLS: Final = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX"})
_PARTS: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD", "BINARY_SUBSCR"})


@dataclass(slots=True)
class _Reading:
    """The part of an answer that a code has by itself, without the values of its names.

    Attributes:
        names: The names of globals and attributes.
        drops: Names and lines of the global calls whose results are dropped; None until needed.
    """

    names: tuple[str, ...]
    drops: tuple[tuple[str, int], ...] | None = None


_OF_CODE: Final[WeakKeyDictionary[CodeType, _Reading]] = WeakKeyDictionary()
"""Kept as long as the code: worlds of the same domain make new functions of it."""

_OF_FUNCTION: Final[WeakKeyDictionary[FunctionType, _Reading]] = WeakKeyDictionary()
"""The same, found at a tenth of the cost: the hash of a code reads all of its constants."""


def require_returned(domain: Domain) -> None:
    """Check that a domain's functions drop no refusal that they make.

    The functions are the rules of its kinds, its methods, and the functions of the same modules
    that these name.

    Raises:
        DomainError: One does; the message has its place.
    """
    methods = [each for made in type(domain).__mro__ for each in vars(made).values()]
    waiting = [_function_of(each) for each in [*(kind.rule for kind in domain.kinds), *methods]]
    visited: set[FunctionType] = set()
    while waiting:
        function = waiting.pop()
        if function is None or function in visited:
            continue
        visited.add(function)
        dropped, named = _look_at(function)
        if dropped is not None:
            name, line = dropped
            raise DomainError(
                f"{function.__qualname__} calls {name}(...) and drops the refusal, which refuses "
                f"nothing; write `return {name}(...)` ({function.__code__.co_filename}:{line})"
            )
        waiting.extend(named)


def _function_of(value: object) -> FunctionType | None:
    if isinstance(value, _METHODS):
        value = value.__func__
    if not isinstance(value, FunctionType):
        return None
    function = unwrap(value) if hasattr(value, "__wrapped__") else value
    return function if isinstance(function, FunctionType) else None


def _look_at(function: FunctionType) -> tuple[tuple[str, int] | None, list[FunctionType]]:
    """Return name and line of a dropped refusal, and the functions that a function names."""
    reading = _OF_FUNCTION.get(function) or _read(function)
    known, module = function.__globals__, function.__module__
    named, is_making = [], False
    for name in reading.names:
        value = known.get(name)
        if _is_maker(value):
            is_making = True
        elif isinstance(value, FunctionType) and value.__module__ == module:
            named.append(value)
    if is_making:
        if reading.drops is None:
            codes = _codes(function.__code__)
            reading.drops = tuple(drop for code in codes for drop in _drops(code))
        for name, line in reading.drops:
            value = known.get(name)
            if _is_maker(value):
                return (name, line), []
    return None, named


def _is_maker(value: object) -> bool:
    return any(value is maker for maker in _MAKERS)  # a user's value may have an own `==`


def _read(function: FunctionType) -> _Reading:
    code = function.__code__
    reading = _OF_CODE.get(code)
    if reading is None:
        names = {name: None for each in _codes(code) for name in each.co_names}
        reading = _OF_CODE[code] = _Reading(tuple(names))
    _OF_FUNCTION[function] = reading
    return reading


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a function's code, and those of the functions inside."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _drops(code: CodeType) -> Iterator[tuple[str, int]]:
    """Yield name and line of each call of a global whose result is dropped.

    A call begins where its function is named, so the place of a call tells which name is called.
    """
    loaded: dict[tuple[int, int], str] = {}
    called: tuple[int, int] | None = None
    for step in get_instructions(code):
        before, called = called, None
        place = step.positions
        if place is None or place.lineno is None or place.col_offset is None:
            continue
        at = place.lineno, place.col_offset
        if step.opname == "LOAD_GLOBAL":
            loaded[at] = step.argval
        elif step.opname in _PARTS:
            loaded.pop(at, None)
        elif step.opname in _CALLS:
            called = at
        elif step.opname == "POP_TOP" and before in loaded:
            yield loaded[before], before[0]
