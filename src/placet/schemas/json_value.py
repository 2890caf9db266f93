"""JSON values: the types of JSON, numbers of 64 bits, bounded depth and size.

The structure stage uses this module to copy payloads and to report errors; the kernel uses it for
values from executors and from the host.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from math import isfinite
from reprlib import Repr
from typing import TYPE_CHECKING, Final

import msgspec

from placet.schemas.codec import Json, from_numpy
from placet.schemas.printable import printable

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails
    from typing_extensions import TypeIs

_SHOWN_CHARS_MAX: Final = 80
_CONTAINER_VALUES: Final = 4
_ITEM_BYTES_MAX: Final = 16
"""Largest item of an array of numbers, bytes; each takes a byte of JSON at least."""


class InvalidJsonValue(ValueError):  # noqa: N818  # names the value
    """A value that JSON cannot represent. `at` is a JSON pointer to the part at fault."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.at = ""


class TooLarge(InvalidJsonValue):
    """A value whose encoding is larger than the limit."""


class TooManyValues(InvalidJsonValue):
    """The values of a batch hold more parts than a batch may."""


class ValueBudget(msgspec.Struct):
    """The number of JSON values that the payloads of one batch may still hold.

    A value takes some 0.3 us to copy and validate, so its bytes alone are a bad bound. An item of
    an array counts as one value, a field of an object as two, an array or object itself as four.

    Attributes:
        left: Number of values left.
        is_exceeded: More were asked for.
        is_failed: A payload is refused already, so that the batch is; the others need no copy.
    """

    left: int
    is_exceeded: bool = False
    is_failed: bool = False

    def take(self, count: int) -> None:
        """Count values.

        Raises:
            TooManyValues: There are more than are left.
        """
        self.left -= count
        if self.left < 0:
            self.is_exceeded = True
            raise TooManyValues("the payloads of the batch hold too many JSON values")


def to_json_value(
    value: object, depth_max: int, bytes_max: int, budget: ValueBudget | None = None
) -> Json:
    """Copy a value into plain lists and dicts. O(size of the value), at most O(bytes_max).

    The keys of objects are sorted, as in a value read back from a log.

    Args:
        value: Any object.
        depth_max: Maximum nesting of arrays and objects.
        bytes_max: Maximum of a lower bound of the encoded size. The copy stops there, so that a
            value that contains one large part many times cannot fill the memory.
        budget: Counts the items of arrays and objects; None counts none.

    Raises:
        InvalidJsonValue: The value is not JSON: a set, an iterator, NaN, a key that is no string,
            a lone surrogate, an int beyond 64 bits, or deeper nesting.
        TooLarge: It is larger than `bytes_max` allows.
        TooManyValues: It has more items than are left in the budget.
    """
    return _Copier(bytes_max, budget).copy(value, depth_max)


class _Copier:
    """Copies one value and counts its bytes down from the limit."""

    __slots__ = ("_budget", "_bytes_left")

    def __init__(self, bytes_max: int, budget: ValueBudget | None = None) -> None:
        self._bytes_left = bytes_max
        self._budget = budget

    def copy(self, value: object, depth_max: int) -> Json:
        if isinstance(value, str):
            return self._text(value)
        self._spend(1)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return _integer(value)
        if isinstance(value, float):
            number = float.__float__(value)
            if isfinite(number):
                return number
            raise InvalidJsonValue(f"a number must be finite, got {number!r}")
        if isinstance(value, list | tuple | Mapping) or _is_model(value):
            if depth_max == 0:
                raise InvalidJsonValue("the value is nested too deeply, or holds itself")
            if isinstance(value, list | tuple):
                return self._array(value, depth_max - 1)
            if type(value) is not dict and _is_model(value):
                return self._object(_fields(value), depth_max - 1)
            return self._object(value.items(), depth_max - 1)
        return self._converted(value, depth_max)

    def _converted(self, value: object, depth_max: int) -> Json:
        """Copy a scalar or an array of numpy, which is bounded before it becomes a list."""
        size = getattr(value, "nbytes", 0)
        self._spend(size // _ITEM_BYTES_MAX if type(size) is int else 0)
        plain = from_numpy(value)
        if plain is value:
            raise InvalidJsonValue(f"JSON has no {type(value).__name__}, got {format_value(value)}")
        return self.copy(plain, depth_max)

    def _array(self, items: Sequence[object], depth_max: int) -> list[Json]:
        copied: list[Json] = []
        if self._budget is not None:
            self._budget.take(len(items) + _CONTAINER_VALUES)
        # Bounded, as a subclass may never end.
        for index, item in enumerate(islice(items, self._bytes_left + 1)):
            try:
                copied.append(self.copy(item, depth_max))
            except InvalidJsonValue as error:
                error.at = f"/{index}{error.at}"
                raise
        return copied

    def _object(self, pairs: Collection[tuple[object, object]], depth_max: int) -> dict[str, Json]:
        copied: dict[str, Json] = {}
        if self._budget is not None:
            self._budget.take(2 * len(pairs) + _CONTAINER_VALUES)
        for key, item in islice(pairs, self._bytes_left + 1):
            if not isinstance(key, str):
                raise InvalidJsonValue(f"an object's keys must be strings, got {format_value(key)}")
            name = self._text(key)
            try:
                copied[name] = self.copy(item, depth_max)
            except InvalidJsonValue as error:
                error.at = pointer([name]) + error.at
                raise
        return copied if len(copied) < 2 else dict(sorted(copied.items()))  # noqa: PLR2004  # one is

    def _text(self, value: str) -> str:
        text = str.__str__(value)  # a subclass may override __str__
        self._spend(1 + str.__len__(value))
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise InvalidJsonValue(
                    f"a string must be valid Unicode, got {format_value(text)}"
                ) from None
        return text

    def _spend(self, count: int) -> None:
        self._bytes_left -= count
        if self._bytes_left < 0:
            raise TooLarge("the value is too large")


def _integer(value: int) -> int:
    number = int.__int__(value)  # a subclass may compare as it likes
    if -(2**63) <= number < 2**64:
        return number
    raise InvalidJsonValue(f"an int must fit 64 bits, got one of {number.bit_length()} bits")


def _is_model(value: object) -> "TypeIs[BaseModel]":
    from pydantic import BaseModel  # noqa: PLC0415  # imported already if a model exists

    return isinstance(value, BaseModel)


def _fields(value: "BaseModel") -> Collection[tuple[str, object]]:
    own = [(name, getattr(value, name)) for name in type(value).model_fields]
    return [*own, *(value.model_extra or {}).items()]


class _ShortRepr(Repr):
    """Formats plain values as JSON, containers shortened, and other objects by their type.

    A string outside a container is quoted by single quotes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = _SHOWN_CHARS_MAX

    def repr_str(self, x: str, level: int) -> str:
        if level == self.maxlevel:
            return super().repr_str(x, level)
        part = x if len(x) <= self.maxstring else x[: self.maxstring] + self.fillvalue
        return json.dumps(str.__str__(part), ensure_ascii=False)

    def repr_tuple(self, x: tuple[object, ...], level: int) -> str:
        return self.repr_list(list(x[: self.maxlist + 1]), level)

    def repr_instance(self, x: object, level: int) -> str:
        if x is None or isinstance(x, bool):
            return json.dumps(x)
        return repr(x) if isinstance(x, float) else f"<{type(x).__name__}>"


_SHORT_REPR: Final = _ShortRepr()


def message_for(detail: "ErrorDetails") -> str:
    """Return a validation error as a message in terms of JSON, with the actual value.

    The value is omitted for a missing field, where it would be the whole object.
    """
    from pydantic_core import PydanticUndefined  # noqa: PLC0415  # imported already by the validator

    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "union_tag_not_found":
        return f"field {context['discriminator']} is required"
    if kind == "union_tag_invalid":
        tags, name = context["expected_tags"], context["discriminator"]
        return f"field {name} must be one of {tags}, got {format_value(context['tag'])}"
    message = _IN_JSON.get(kind, detail["msg"])
    message = message[:1].lower() + message[1:]
    if kind == "missing" or detail["input"] is PydanticUndefined:
        return message
    return f"{message}, got {format_value(detail['input'])}"


_IN_JSON: Final = {
    "dict_type": "input should be an object",
    "list_type": "input should be an array",
    "tuple_type": "input should be an array",
    "model_type": "input should be an object",
    "model_attributes_type": "input should be an object",
}
"""Type of error -> message in terms of JSON, where pydantic names Python types."""


def format_value(value: object) -> str:
    """Return a short text of a value for a message. Never raises."""
    try:
        text = _SHORT_REPR.repr(value)
    except Exception as error:  # noqa: BLE001  # a hostile object's own methods
        return f"<{type(value).__name__} that raises {type(error).__name__}>"
    text = printable(text)
    return text if len(text) <= _SHOWN_CHARS_MAX else text[: _SHOWN_CHARS_MAX - 1] + "…"


def pointer(path: Sequence[object]) -> str:
    """Return a path as a JSON pointer (RFC 6901)."""
    return "".join(["/" + _step(step) for step in path])


def _step(step: object) -> str:
    text = str.encode(str(step), "utf-8", "backslashreplace").decode()
    return text.replace("~", "~0").replace("/", "~1")
