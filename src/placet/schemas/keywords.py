"""The door of public functions and classes: keywords are explained, and numbers are Python's.

Python's own text names the keyword and `__init__`. Here it names the class whose `__init__` it is,
and the parameter that was meant. A call that succeeds is not looked at, and an error from inside of
the call stays as it is. Numbers and arrays of numpy among the arguments become Python's, so that a
seed or a count may come from a generator or a data frame.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from types import FunctionType
from typing import TypeVar, cast

from placet.schemas.codec import without_numpy
from placet.schemas.name_suggestions import did_you_mean

_Called = TypeVar("_Called", bound=Callable[..., object])


def explain_keywords(called: _Called) -> _Called:
    """Decorate a function or a class so that an unknown keyword is a `TypeError` with a suggestion.

    Its arguments are passed by `without_numpy`.

    Of a class it replaces the `__init__` that the class itself defines, if it does. The signature
    stays as it is.
    """
    return _decorated(called, without_numpy)


def explain_array_keywords(called: _Called) -> _Called:
    """Decorate as `explain_keywords` does, and pass the arguments as they are.

    Of a class whose arguments are arrays: as lists they would cost 0.2 us a number.
    """
    return _decorated(called, lambda value: value)


def _decorated(called: _Called, plain: Callable[[object], object]) -> _Called:
    if not isinstance(called, type):
        return cast("_Called", _explained(called, called.__name__, plain))
    init = called.__dict__.get("__init__")
    # A protocol has an initializer of `typing`, which is compared by identity.
    if isinstance(init, FunctionType) and init.__name__ == "__init__":
        explained = _explained(init, called.__name__, plain)
        setattr(called, "__init__", explained)  # noqa: B010  # it cannot be assigned by type
    return called


def unknown_keyword(
    function: Callable[..., object], name: str, keywords: Mapping[str, object]
) -> str | None:
    """Return a sentence about the first keyword that a function does not take, or None.

    Args:
        function: The function.
        name: Its name in the sentence.
        keywords: The keywords of a call.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of a compiled function, which shows no signature
        return None
    kinds = {parameter.kind for parameter in parameters}
    if inspect.Parameter.VAR_KEYWORD in kinds:
        return None
    known = [p.name for p in parameters if p.kind in _BY_KEYWORD and p.name != "self"]
    for keyword in keywords:
        if keyword not in known:
            return f"{name} has no parameter {keyword!r}; {did_you_mean(keyword, known)}"
    return None


def require_a(value: object, made: type, parameter: str) -> None:
    """Check that an argument is an object of a class.

    Raises:
        TypeError: It is not; if it is the class itself, the message says to call it.
    """
    if not isinstance(value, made):
        name = made.__name__
        hint = f"; write {name}()" if value is made else ""
        raise TypeError(f"{parameter} must be of class {name}, got {value!r:.{_SHOWN_MAX}}{hint}")


_SHOWN_MAX = 80
_BY_KEYWORD = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _explained(
    function: Callable[..., object], name: str, plain: Callable[[object], object]
) -> Callable[..., object]:
    @wraps(function)
    def call(*args: object, **keywords: object) -> object:
        try:
            given = {keyword: plain(value) for keyword, value in keywords.items()}
            return function(*map(plain, args), **given)
        except TypeError as error:
            is_inside = error.__traceback__ is not None and error.__traceback__.tb_next is not None
            message = None if is_inside else unknown_keyword(function, name, keywords)
            if message is None:
                raise
            raise TypeError(message) from error

    return call
