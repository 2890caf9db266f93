"""The error of a key that a read-only mapping does not have."""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from placet.schemas.name_suggestions import nearest
from placet.schemas.printable import printable

_COMPARED_MAX: Final = 1_000
_LISTED_MAX: Final = 8


class MissingKeyError(KeyError):
    """A mapping has no such key; the text suggests a key that it has.

    The text is composed when it is read, because `Mapping.get` catches this error.

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

    def _hint(self) -> str:
        names = list(islice(self._known, _COMPARED_MAX))
        near = nearest(self._key, names, 1) if isinstance(self._key, str) else ()
        if near:
            return f"did you mean {near[0]!r}?"
        more = ", ..." if len(names) > _LISTED_MAX else ""
        return f"there are {', '.join(names[:_LISTED_MAX])}{more}" if names else "there is none"
