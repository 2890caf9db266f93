"""The two encodings: strict JSON on the wire, canonical msgpack in the log.

JSON is decoded to plain objects and validated afterwards, so a batch means the same as text and as
Python objects. Canonical is msgpack with sorted keys: records, fingerprints and digests are made of
it, so the same value has the same bytes on every machine (`docs/decisions/0003`).
"""

import json
from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from operator import is_
from typing import Any, Final, NoReturn, TypeAlias

import msgspec

Json: TypeAlias = Any
"""A JSON value: None, bool, int, float, str, a sequence of them, or a mapping from str to them."""

_JSON_ENCODER: Final = msgspec.json.Encoder(order=None)
_JSON_DECODER: Final = msgspec.json.Decoder()
_CANONICAL: Final = msgspec.msgpack.Encoder(order="deterministic")
_CANONICAL_DECODER: Final = msgspec.msgpack.Decoder()

canonical = _CANONICAL.encode
"""Encode plain values to canonical bytes. Raises TypeError, ValueError or OverflowError."""

from_canonical = _CANONICAL_DECODER.decode
"""Decode canonical bytes to plain values; arrays come back as lists."""

_SHORT: Final = 6
_EXACT: Final = frozenset({int, str})
_FLOATS: Final = frozenset({float})

ENCODE_ERRORS: Final = (TypeError, ValueError, OverflowError, RecursionError)
"""Errors of `canonical` for a value without an encoding: an object, a lone surrogate, a cycle."""


class FrozenDict(dict[str, Json]):
    """An immutable dict: the form of a JSON object in the state tree."""

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("state values are immutable; put a new value through the draft")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]  # dict sets it to None
        raise TypeError("a mapping has no hash")

    def __reduce__(self) -> tuple[type["FrozenDict"], tuple[dict[str, Json]]]:
        return FrozenDict, (dict(self),)


KeysOf: TypeAlias = Callable[[Mapping[str, Json]], Iterable[str]]


def freeze(value: Json, keys_of: KeysOf = sorted) -> Json:
    """Return an immutable copy of a plain value: arrays become tuples, objects FrozenDict.

    Cost is O(size of the value), and a sort for each object.

    Args:
        value: A plain value.
        keys_of: Returns the keys of an object in the order of the copy. A log is read back with
            sorted keys, so the default lets a rule see the same order before and after a restart.

    Raises:
        TypeError: The value is not plain (a set, an object, a non-string key).
        ValueError: A number is not finite.
    """
    kind = type(value)
    if kind is float:
        if value - value != 0.0:
            raise ValueError(f"a number must be finite, got {value!r}")
        return value
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if kind is tuple and is_flat(value):
        return value
    if kind is tuple or kind is list:
        return tuple([freeze(item, keys_of) for item in value])
    if isinstance(value, Mapping):
        for key in value:
            if type(key) is not str:
                raise TypeError(f"an object's keys must be str, got {key!r}")
        return FrozenDict({key: freeze(value[key], keys_of) for key in keys_of(value)})
    plain = from_numpy(value)
    if plain is value:
        raise TypeError(
            f"a state value must be plain JSON, got {kind.__name__}: {value!r}; convert it to "
            "numbers, texts, lists or mappings"
        )
    return freeze(plain, keys_of)


def from_numpy(value: object) -> object:
    """Return a scalar or an array of numpy as Python values; return other values unchanged.

    numpy is known by the name of its module, and not imported. A value that Python has no type for,
    such as a `longdouble`, is unchanged too.
    """
    kind = type(value)
    if not hasattr(kind, "tolist") or not any(map(_is_of_numpy, kind.__mro__)):
        return value
    plain: object = value.tolist()  # type: ignore[attr-defined]  # numpy is no dependency
    return value if type(plain) is kind else plain


def without_numpy(value: Json, depth_max: int = 64) -> Json:
    """Return a value in which numbers and arrays of numpy are Python's, inside of lists and dicts.

    The same object if there is none. Cost is O(size of the value).

    Args:
        value: Any object.
        depth_max: Maximum nesting; deeper parts are unchanged.
    """
    kind = type(value)
    if depth_max and (kind is list or kind is tuple):
        items = [without_numpy(item, depth_max - 1) for item in value]
        return value if all(map(is_, items, value)) else kind(items)
    if depth_max and kind is dict:
        fields = {name: without_numpy(item, depth_max - 1) for name, item in value.items()}
        return value if all(map(is_, fields.values(), value.values())) else fields
    return value if kind in PLAIN_TYPES else from_numpy(value)


PLAIN_TYPES: Final = frozenset({int, float, str, bool, type(None)})


def _is_of_numpy(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "numpy"


def is_flat(value: tuple[Json, ...]) -> bool:
    """Return whether a tuple holds only finite floats, ints and strings, as positions do.

    Strings are checked last, because positions are put most often. The types of a long value are
    checked all at once, in half the time.
    """
    if len(value) == 3:  # noqa: PLR2004  # a position
        x, y, z = value
        if type(x) is float and type(y) is float and type(z) is float:
            return x - x == y - y == z - z == 0.0
    elif len(value) > _SHORT:
        kinds = set(map(type, value))
        if kinds <= _EXACT:
            return True
        if kinds == _FLOATS:
            return all(map(isfinite, value))
    for item in value:
        kind = type(item)
        if kind is float:
            if item - item != 0.0:
                return False
        elif kind is not int and kind is not str:
            return False
    return True


def sort_last(fields: dict[str, Json]) -> None:
    """Sort a dict in place by name, if only its last field is out of order."""
    names = reversed(fields)
    name = next(names)
    if name < next(names, name):
        ordered = sorted(fields.items())
        fields.clear()
        fields.update(ordered)


def joined(fields: dict[str, Json], put: Mapping[str, Json]) -> dict[str, Json]:
    """Return an entity's fields merged with `put`, whose values win; sorted if a name is new."""
    both = {**fields, **put}
    return both if len(both) == len(fields) else dict(sorted(both.items()))


def thaw(value: Json) -> Json:
    """Copy a frozen value into new lists and dicts that the caller owns."""
    if isinstance(value, tuple):
        return [thaw(item) for item in value]
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    return value


def to_json(value: Json) -> bytes:
    """Encode plain values as JSON. Key order is the value's own.

    Raises:
        ValueError: A string cannot be written as UTF-8.
    """
    return _JSON_ENCODER.encode(value)


def from_json(text: bytes | str) -> Json:
    """Decode strict JSON: UTF-8, finite numbers, every key once, no trailing text.

    Raises:
        ValueError: The text is not JSON; the message says where it stops being JSON.
    """
    try:
        value = _JSON_DECODER.decode(text)
        if not _has_every_colon(text, value):
            json.loads(text, object_pairs_hook=_unique)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    return value


def _has_every_colon(text: bytes | str, value: Json) -> bool:
    """Return whether no key was lost for sure; False is "look".

    Every pair has a colon, and so may strings: who writes them out again, and has as many, has
    lost none. Only an escaped colon in a string could make up for a lost one.
    """
    if isinstance(text, str):
        text = text.encode()
    return rb"\u003" not in text and _JSON_ENCODER.encode(value).count(b":") == text.count(b":")


def _unique(pairs: list[tuple[str, Json]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise ValueError(f"the JSON has the key {key!r} twice in one object")
        seen.add(key)


_FIXARRAYS: Final = tuple([bytes((0x90 | count,)) for count in range(16)])


def array_header(count: int) -> bytes:
    """Return the msgpack header of an array; `count` encoded items can follow it."""
    if count < len(_FIXARRAYS):
        return _FIXARRAYS[count]
    if count < 1 << 16:
        return b"\xdc" + count.to_bytes(2, "big")
    return b"\xdd" + count.to_bytes(4, "big")
