"""The query of the list of runs: words and conditions, all of which a run must meet.

town                 a text in the name, scenario, domain, tags or note
"two words"          a text with spaces
tag:good status:failed scenario:sir domain: name: note:
beta=0.3 beta!=0.3 beta<0.3 beta<=0.3 beta>0.3 beta>=0.3
                     a setting by its dotted key or the end of it; also seed, ticks, agents,
                     admitted, refused and records
-tag:bad             the opposite of a term
"""

import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from placet.schemas.codec import Json
from placet.schemas.documents import DocumentError, parse_json
from placet.schemas.errors import PlacetError
from placet.schemas.name_suggestions import did_you_mean

QUERY_CHARS_MAX: Final = 500
STATUSES: Final = (
    *("failed", "damaged", "killed", "stopped", "running"),
    *("empty", "closed", "ended", "finished"),
)
"""The status of a run, the worst first: see `listing.py`."""

_TERM: Final = re.compile(
    r"""\s*(?P<minus>-?)
        (?:(?P<key>[A-Za-z_][\w./-]*)(?P<sign>:|!=|<=|>=|=|<|>))?
        (?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s"]*))
        (?=\s|$)""",
    re.VERBOSE,
)
_TEXTS: Final = ("name", "scenario", "domain", "tag", "status", "note", "parent")
NUMBERS: Final = ("seed", "ticks", "agents", "admitted", "refused", "records")

_ORDERED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class FilterError(PlacetError, ValueError):
    """The error of a query that is none; the message names the term."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filtered:
    """The part of a run that a query looks at.

    Attributes:
        texts: Texts by name: `name`, `scenario`, `domain`, `tag`, `status`, `note` and `parent`.
        numbers: Numbers by name, such as `seed`; None is not known yet.
        settings: Values of the scenario by dotted key.
    """

    texts: Mapping[str, Sequence[str]]
    numbers: Mapping[str, int | None]
    settings: Mapping[str, Json]


Filter: TypeAlias = Callable[[Filtered], bool]


def filter_of(query: str, settings: Collection[str], *, is_complete: bool = True) -> Filter:
    """Return the filter that a query describes.

    Args:
        query: The query; an empty one admits every run.
        settings: The dotted keys that any run has.
        is_complete: `settings` has those of all runs; otherwise a key may be unknown.

    Raises:
        FilterError: A term has an unknown key, no value, or a value of another type.
    """
    if len(query) > QUERY_CHARS_MAX:
        raise FilterError(f"expected at most {QUERY_CHARS_MAX} characters, got {len(query)}")
    terms: list[Filter] = []
    place = 0
    while query[place:].strip():
        found = _TERM.match(query, place)
        if found is None or found.end() == place:
            raise FilterError(f"a quotation mark is open or out of place in {query[place:]!r:.80}")
        terms.append(_term(found, settings if is_complete else None))
        place = found.end()
    return lambda run: all(term(run) for term in terms)


def _term(found: re.Match[str], settings: Collection[str] | None) -> Filter:
    key, sign, quoted = found["key"], found["sign"], found["quoted"]
    value = found["plain"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
    if not value:
        raise FilterError(f"{found[0].strip()!r:.80} has no value; write it after the sign")
    if key is None:
        term = _has_text(value)
    elif sign == ":":
        term = _text_term(key, value)
    else:
        term = _value_term(key, sign, value, is_text=quoted is not None, settings=settings)
    return (lambda run: not term(run)) if found["minus"] else term


def _has_text(value: str) -> Filter:
    wanted = value.lower()
    return lambda run: any(wanted in text.lower() for one in run.texts.values() for text in one)


def _text_term(key: str, value: str) -> Filter:
    if key not in _TEXTS:
        raise FilterError(
            f"there is no {key!r:.80} to filter by with a colon; {did_you_mean(key, _TEXTS)} "
            "A setting is written as key=value, and a text with a colon in quotation marks"
        )
    wanted = value.lower()
    if key == "status":
        if wanted not in STATUSES:
            raise FilterError(f"there is no status {value!r:.80}; {did_you_mean(value, STATUSES)}")
        return lambda run: wanted in run.texts[key]
    if key == "tag":
        return lambda run: any(wanted == tag.lower() for tag in run.texts[key])
    return lambda run: any(wanted in text.lower() for text in run.texts[key])


def _value_term(
    key: str, sign: str, text: str, *, is_text: bool, settings: Collection[str] | None
) -> Filter:
    if key in _TEXTS:
        raise FilterError(f"{key!r} has a text: write {key}:{text}")
    if settings is not None and key not in NUMBERS and not _keys(key, settings):
        known = [*NUMBERS, *settings, *(one.rpartition(".")[2] for one in settings)]
        raise FilterError(f"no run has a setting {key!r:.80}; {did_you_mean(key, known)}")
    wanted = text if is_text else _value(text)
    if sign in _ORDERED:
        if not _is_number(wanted):
            raise FilterError(f"expected a number after {key}{sign}, got {text!r:.80}")
        compare = _ORDERED[sign]
        return lambda run: any(
            _is_number(one) and compare(one, wanted) for one in _values(key, run)
        )
    if sign == "!=":
        return lambda run: (
            bool(found := _values(key, run)) and not any(_equals(one, wanted) for one in found)
        )
    return lambda run: any(_equals(one, wanted) for one in _values(key, run))


def _keys(key: str, settings: Collection[str]) -> list[str]:
    """Return the dotted keys that a key names: whole, or by their end."""
    return [one for one in settings if one == key or one.endswith(f".{key}")]


def _values(key: str, run: Filtered) -> list[Json]:
    if key in run.numbers:
        number = run.numbers[key]
        return [] if number is None else [number]
    return [run.settings[one] for one in _keys(key, run.settings)]


def _value(text: str) -> Json:
    try:
        value = parse_json(text)
    except DocumentError:
        return text
    return value if isinstance(value, bool) or _is_number(value) else text


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _equals(value: Json, wanted: Json) -> bool:
    if isinstance(value, str):
        return value.lower() == str(wanted).lower()
    return (type(value) is bool and value is wanted) or (
        _is_number(value) and _is_number(wanted) and value == wanted
    )
