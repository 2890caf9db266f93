"""Find refusals that a domain's code makes and does not return: they would refuse nothing.

`refuse(...)` is a value, and a statement that is nothing but its call drops it, so the intent would
pass. The bytecode of the domain's functions shows such statements when a world is opened, so that
a rule costs nothing more when it runs.
"""

import opcode
from collections.abc import Iterator, Mapping
from functools import lru_cache
from inspect import unwrap
from types import CodeType, FunctionType, MethodType
from typing import Final

from placet.kernel.domain import Domain, conflict, refuse
from placet.schemas.errors import DomainError

_CALLS: Final = frozenset(
    code for name, code in opcode.opmap.items() if name.startswith("CALL") and "INTR" not in name
)
_POP_TOP: Final = opcode.opmap["POP_TOP"]
_LOAD_GLOBAL: Final = opcode.opmap["LOAD_GLOBAL"]
_CACHE: Final = opcode.opmap["CACHE"]
_VISITED_MAX: Final = 2_048
"""Number of functions whose answers are kept."""


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
    if isinstance(value, MethodType | staticmethod | classmethod):
        value = value.__func__
    if isinstance(value, FunctionType):
        value = unwrap(value)
    return value if isinstance(value, FunctionType) else None


@lru_cache(maxsize=_VISITED_MAX)
def _look_at(function: FunctionType) -> tuple[tuple[str, int] | None, tuple[FunctionType, ...]]:
    """Return name and line of a dropped refusal, and the functions that a function names."""
    names = function.__globals__
    named = []
    for code in _codes(function.__code__):
        dropped = _dropped(code, names)
        if dropped is not None:
            return dropped, ()
        named += [names[name] for name in code.co_names if name in names]
    module = function.__module__
    return None, tuple(
        each for each in named if isinstance(each, FunctionType) and each.__module__ == module
    )


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a function's code, and those of the functions inside."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _dropped(code: CodeType, names: Mapping[str, object]) -> tuple[str, int] | None:
    """Return the name and the line of the first call whose refusal is dropped; None if none is.

    A call begins where its function is named, so the place of a call tells which name is called.
    """
    makers = [n for n, name in enumerate(code.co_names) if _is_maker(names.get(name))]
    if not makers:
        return None
    steps, arguments = code.co_code[::2], code.co_code[1::2]
    places = [(line, column) for line, _, column, _ in code.co_positions()]
    loaded = {
        places[at]: code.co_names[arguments[at] >> 1]
        for at, step in enumerate(steps)
        if step == _LOAD_GLOBAL and arguments[at] >> 1 in makers
    }
    call: tuple[int | None, int | None] = (None, None)
    for at, step in enumerate(steps):
        if step in _CALLS:
            call = places[at]
        elif step == _POP_TOP and None not in call and call in loaded:
            return loaded[call], call[0] or code.co_firstlineno
        elif step != _CACHE:
            call = (None, None)
    return None


def _is_maker(value: object) -> bool:
    return value is refuse or value is conflict
