"""Reads the values of a sweep's options: `0.5,1,2`, `50..200:50`, `1..20`."""

from collections.abc import Iterator, Sequence
from decimal import Decimal, DecimalException, localcontext
from math import isfinite
from re import compile as pattern
from typing import Final

from placet.scenarios.loader import parse_value
from placet.scenarios.scenario import Scenario, full_key, leaves_of
from placet.schemas.codec import Json
from placet.schemas.limits import SWEEP_RUNS_MAX
from placet.sweeps.errors import LabError

_NUMBER: Final = r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_RANGE: Final = pattern(rf"({_NUMBER})\.\.({_NUMBER})(?::({_NUMBER}))?")
_DIGITS: Final = 700
"""Digits to reckon with: a double has up to 309 before the point, and steps are counted exactly."""

_PAIRS: Final = {"[": "]", "{": "}", "(": ")", '"': '"', "'": "'"}


def read_axis(scenario: Scenario, key: str, text: str) -> list[Json]:
    """Return the values of a key: TOML values and ranges, separated by commas.

    A range is `first..last` or `first..last:step`, with its last value.

    Args:
        scenario: The scenario; where it has text at the key, values are text.
        key: Dotted key.
        text: The values.

    Raises:
        LabError: There is no value, or a range is empty, has too many values, or one that is no
            finite number.
        ScenarioError: A value is a text, and the scenario has a number.
    """
    before = leaves_of(scenario).get(full_key(key))
    values: list[Json] = []
    for part in _split(text):
        if not part:
            raise LabError(f"{key}={text}: expected values between the commas, such as 0.5,1,2")
        numbers = _range_of(part, f"{key}={text}")
        _require_last(part, numbers, f"{key}={text}")
        values += [parse_value(part, before, f"--set {key}")] if numbers is None else numbers
    return values


def read_seeds(text: str) -> list[int]:
    """Return the seeds of `1..20` or `1,2,5..7`.

    Raises:
        LabError: It is something else.
    """
    seeds: list[int] = []
    for part in _split(text):
        numbers = _range_of(part, text)
        if numbers is None and part.isdecimal():
            numbers = _range_of(f"{part}..{part}", text)
        if numbers is None or not all(type(number) is int for number in numbers):
            raise LabError(f"{text!r} names no seeds; expected numbers such as 1..20 or 1,2,5..7")
        seeds += map(int, numbers)
    return seeds


def _range_of(text: str, whole: str) -> list[int | float] | None:
    """Return the numbers of a range, ints if all three are; None if the text is no range."""
    match = _RANGE.fullmatch(text)
    if match is None:
        return None
    with localcontext(prec=_DIGITS):
        try:
            first, last, step = (Decimal(part or 1) for part in match.groups())
            if not all(isfinite(float(number)) for number in (first, last, step)):
                raise LabError(f"{whole}: {text} has a number beyond the largest, 1.8e308")
            if step <= 0 or last < first:
                problem = f"{text} is empty; expected first..last:step with a step above 0"
                raise LabError(f"{whole}: {problem}")
            count = (last - first) // step + 1
        except DecimalException:  # an endless exponent, or more values than there are digits for
            raise _too_many(text, whole) from None
        if count > SWEEP_RUNS_MAX:
            raise _too_many(text, whole)
        is_whole = "." not in text.replace("..", "", 1) and "e" not in text.lower()
        values = (first + number * step for number in range(int(count)))
        return [int(value) if is_whole else float(value) for value in values]


def _require_last(text: str, numbers: Sequence[int | float] | None, whole: str) -> None:
    """Check that a range without a step has its last number.

    Raises:
        LabError: Steps of 1 do not reach it, as in `0.1..0.3`.
    """
    last = text.partition("..")[2]
    if numbers and ":" not in text and type(numbers[-1])(Decimal(last)) != numbers[-1]:
        problem = f"{text} has no step, and steps of 1 do not reach {last}"
        raise LabError(f"{whole}: {problem}; expected first..last:step, as 0.1..0.3:0.1")


def _too_many(text: str, whole: str) -> LabError:
    return LabError(f"{whole}: {text} has too many values; at most {SWEEP_RUNS_MAX}")


def _split(text: str) -> Iterator[str]:
    """Yield the parts between the commas that stand in no brackets and no quotes."""
    part, closing = "", ""
    for character in text:
        if character == "," and not closing:
            yield part.strip()
            part = ""
            continue
        part += character
        if closing and character == closing[-1]:
            closing = closing[:-1]
        elif character in _PAIRS and (not closing or closing[-1] not in "\"'"):
            closing += _PAIRS[character]
    yield part.strip()
