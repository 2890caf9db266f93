"""The error of a key that a read-only mapping does not have."""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final

from placet.schemas.name_suggestions import nearest
from placet.schemas.portable_error import PortableError
from placet.schemas.printable import printable

_COMPARED_MAX: Final = 1_000
_LISTED_MAX: Final = 8


class MissingKeyError(PortableError, KeyError):
    """A mapping has no such key; the text suggests a key that it has.

    The text is composed when it is first read, because `Mapping.get` catches this error. A pickled
    error has the names that the text needs, and not the mapping.

    Args:
        key: The key.
        noun: The sort of the key, such as `collection`.
        known: The keys of the mapping.
    """

    def __init__(self, key: object, noun: str, known: Iterable[str]) -> None:
        super().__init__(key)
        self._key = key
        self._noun = noun
        self._known = known

    def __str__(self) -> str:
        return printable(f"there is no {self._noun} {self._key!r}; {self._hint()}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[Callable[..., object], tuple[Any, ...], dict[str, object]]:
        self._names()
        return super().__reduce__()

    def _names(self) -> tuple[str, ...]:
        """Return the keys that the text compares, from here on the same."""
        if not isinstance(self._known, tuple):
            self._known = tuple(islice(self._known, _COMPARED_MAX))
        return self._known

    def _hint(self) -> str:
        names = self._names()
        near = nearest(self._key, names, 1) if isinstance(self._key, str) else ()
        if near:
            return f"did you mean {near[0]!r}?"
        more = ", ..." if len(names) > _LISTED_MAX else ""
        return f"there are {', '.join(names[:_LISTED_MAX])}{more}" if names else "there is none"
