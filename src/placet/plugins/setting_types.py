"""Settings of a domain take the types of its keywords: a mistyped number is refused, and no text.

A setting comes from a file, the command line, the environment or a sampler, which know no types:
`beta=0.1:0.3` is a text, and the count of a sampler is 3.0. The annotation of the keyword has the
type, else its default.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from inspect import Parameter, signature
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from placet.schemas.codec import Json
from placet.schemas.errors import PlacetError
from placet.schemas.json_value import format_value

_WORDS: Final[Mapping[type, str]] = MappingProxyType(
    {
        bool: "true or false",
        int: "an integer",
        float: "a number",
        str: "a text",
        list: "a list",
        dict: "a table",
        NoneType: "none",
    }
)
_SCALARS: Final = frozenset({bool, int, float, str, NoneType})
_CONTAINERS: Final[Mapping[type, type]] = MappingProxyType({list: list, tuple: list, dict: dict})


class SettingTypeError(PlacetError, ValueError):
    """A setting has another type than its default.

    Attributes:
        name: Name of the setting.
    """

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(problem)
        self.name = name


def typed_settings(factory: Callable[..., object], settings: Mapping[str, Json]) -> dict[str, Json]:
    """Return settings in the types of a domain's keywords: 1 for 1.0 where an integer is expected.

    Args:
        factory: Class or function that makes the domain.
        settings: Its keywords. Unknown ones are unchanged.

    Raises:
        SettingTypeError: A value has another type.
    """
    types = _types_of(factory)
    return {name: _typed(name, value, types.get(name)) for name, value in settings.items()}


def choices_of(factory: Callable[..., object]) -> dict[str, tuple[str, ...]]:
    """Return the texts that a keyword of a domain takes, of keywords annotated `Literal[...]`."""
    choices = {
        name: get_args(hint)
        for name, hint in _hints_of(factory).items()
        if get_origin(hint) is Literal
    }
    return {name: texts for name, texts in choices.items() if all(type(t) is str for t in texts)}


@lru_cache(maxsize=64)  # a worker makes the domain for each of its runs
def _types_of(factory: Callable[..., object]) -> Mapping[str, tuple[frozenset[type], Json]]:
    """Return the types and the default of each keyword with a known type."""
    hints = _hints_of(factory)
    found: dict[str, tuple[frozenset[type], Json]] = {}
    try:
        parameters = signature(factory).parameters
    except (TypeError, ValueError):  # a builtin without a signature
        return found
    for name, parameter in parameters.items():
        types = _expected(parameter.default, hints.get(name, parameter.annotation))
        if types:
            found[name] = types, parameter.default
    return found


def _hints_of(factory: Callable[..., object]) -> Mapping[str, Any]:
    try:
        made_by = factory.__init__ if isinstance(factory, type) else factory  # type: ignore[misc]  # its own
        return get_type_hints(made_by)
    except (NameError, TypeError, AttributeError):  # an annotation that only its author resolves
        return {}


def _expected(default: object, hint: object) -> frozenset[type]:
    """Return the types that a keyword takes; empty if any."""
    if hint is Parameter.empty or isinstance(hint, str):
        kind = type(default)
        own = _CONTAINERS.get(kind, kind)
        return frozenset({own}) if own in _WORDS and kind is not NoneType else frozenset()
    options = get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)
    types = frozenset(NoneType if option is None else option for option in options)
    return types if types <= _SCALARS else frozenset()


def _typed(name: str, value: Json, expected: tuple[frozenset[type], Json] | None) -> Json:
    if expected is None:
        return value
    types, default = expected
    kind = _CONTAINERS.get(type(value), type(value))
    if kind in types:
        return value
    is_exact = kind in {int, float} and value - value == 0 and _is_double(value)
    if is_exact and kind is int and float in types:
        return float(value)
    if is_exact and kind is float and int in types and value.is_integer():
        return int(value)
    words = " or ".join(words for known, words in _WORDS.items() if known in types)
    shown = "" if default is Parameter.empty else f", as its default {format_value(default)}"
    raise SettingTypeError(
        name, f"expected {words}{shown}, got {format_value(value)}{_remedy(value, types)}"
    )


def _is_double(value: float) -> bool:
    try:
        return float(value) == value
    except OverflowError:
        return False


def _remedy(value: Json, types: frozenset[type]) -> str:
    if isinstance(value, str) and ":" in value and types & {int, float}:
        return "; a range of a sweep is first..last or first..last:step"
    if isinstance(value, bool | int | float) and str in types:
        return f"; write a text in quotes: '\"{value}\"'"
    return ""
