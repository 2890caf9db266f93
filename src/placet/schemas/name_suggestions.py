"""Suggest known names for a misspelled name, at a bounded cost.

Refusals suggest names for an agent's misspelled one, in the single writer. `difflib` takes up to
10 ms for 64 names of 48 characters, because its worst case is cubic in their length; here a
comparison is one operation on sets of bounded size.
"""

from bisect import bisect_left
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

_CHARS_MAX: Final = 32
"""Names are compared up to here."""

_COMPARED_MAX: Final = 24
"""Of more known names, those that would stand next to the name in their order are compared."""

_SIMILAR: Final = 0.53


def nearest(name: str, known: Iterable[str], count: int = 3) -> tuple[str, ...]:
    """Return the known names most similar to a name, best first; equal ones in their order.

    The similarity is that of the sets of letters and of pairs of neighboring letters, from 0 to 1
    (Dice's coefficient), without regard to case.
    """
    names = list(known)
    if len(names) > _COMPARED_MAX:
        names.sort()
        first = max(0, bisect_left(names, name) - _COMPARED_MAX // 2)
        names = names[first : first + _COMPARED_MAX]
    wanted = _features(name)
    rated = []
    for candidate in names:
        features = _features(candidate)
        similarity = 2 * len(wanted & features) / (len(wanted) + len(features) or 1)
        if similarity > _SIMILAR:
            rated.append((-similarity, candidate))
    rated.sort(key=_rating)
    return tuple([candidate for _, candidate in rated[:count]])


def _features(name: str) -> set[str]:
    text = name[:_CHARS_MAX].lower()
    # Pairs in either order, so that two letters that changed places are one fault and not three.
    return {*text, *[a + b if a < b else b + a for a, b in pairwise(text)]}


def _rating(rated: tuple[float, str]) -> float:
    return rated[0]
