"""Suggest known names for a misspelled name, at a bounded cost.

Refusals of the gate and errors of settings have one measure of similarity. The gate suggests names
in the single writer: `difflib` takes up to 10 ms for 64 names of 48 characters, because its worst
case is cubic in their length; here a comparison is one operation on sets of bounded size.
"""

from bisect import bisect_left
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

_CHARS_MAX: Final = 32
"""Names are compared up to here."""

_COMPARED_MAX: Final = 24
"""Known names that are compared by the single writer."""

SETTINGS_MAX: Final = 4_096
"""Known names of a setting that are compared: its error is made once, and not by the writer."""

_LISTED_MAX: Final = 16

_SIMILAR: Final = 0.53


def nearest(
    name: str,
    known: Iterable[str],
    count: int = 3,
    *,
    similar: float = _SIMILAR,
    compared_max: int = _COMPARED_MAX,
) -> tuple[str, ...]:
    """Return the known names most similar to a name, best first; equal ones in their order.

    The similarity is that of the sets of letters and of pairs of neighboring letters, from 0 to 1
    (Dice's coefficient), without regard to case; names of at most `similar` are left out. Of more
    than `compared_max` names, those beside the name in their order are compared.
    """
    rated = _rated(name, _beside(name, list(known), compared_max))
    return tuple([candidate for rating, candidate in rated if -rating > similar][:count])


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return a clause for the error of an unknown name: the nearest name, or else the known ones.

    Of many known names that are unlike the name, the 16 least unlike ones are listed.
    """
    text, names = str(name), list(known)
    rated = _rated(text, _beside(text, names, SETTINGS_MAX))
    if rated and -rated[0][0] > _SIMILAR:
        return f"did you mean {rated[0][1]!r}?"
    if not names:
        return "there are none"
    if len(names) <= _LISTED_MAX:
        return f"there are {', '.join(names)}"
    return f"there are {', '.join([listed for _, listed in rated[:_LISTED_MAX]])}, ..."


def require_known(name: object, known: Iterable[str], what: str) -> None:
    """Check that a name is one of the known ones.

    Args:
        name: The name.
        known: The known names.
        what: Noun for a known name, with its place: `quotas: there is no kind`.

    Raises:
        ValueError: It is unknown; the message ends with the nearest known name.
    """
    names = list(known)
    if name not in names:
        raise ValueError(f"{what} {name!r}; {did_you_mean(name, names)}")


def _beside(name: str, names: list[str], count: int) -> list[str]:
    """Return at most `count` names: of more, the neighbors of a name in alphabetical order."""
    if len(names) <= count:
        return names
    names.sort()
    first = max(0, bisect_left(names, name) - count // 2)
    return names[first : first + count]


def _rated(name: str, names: list[str]) -> list[tuple[float, str]]:
    """Return each name with its negative similarity to a name, the most similar first."""
    wanted = _features(name)
    rated = []
    for candidate in names:
        features = _features(candidate)
        similarity = 2 * len(wanted & features) / (len(wanted) + len(features) or 1)
        rated.append((-similarity, candidate))
    rated.sort(key=_rating)
    return rated


def _features(name: str) -> set[str]:
    text = name[:_CHARS_MAX].lower()
    # Pairs in either order, so that two letters that changed places are one fault and not three.
    return {*text, *[a + b if a < b else b + a for a, b in pairwise(text)]}


def _rating(rated: tuple[float, str]) -> float:
    return rated[0]
