"""The totals of `at_most = [{sum = "amount", max = 2000, within = "1d"}]`: marks that add up.

A call adds its value when it begins, and a call that failed or was undone gives it back: a call in
doubt counts until it is settled. The sum is exact: numbers are added as the decimals that JSON
writes, never as binary fractions.

    all time:   {total}
    in a time:  {total, first, next} and the entries first .. next - 1, each [time, value, call]

An entry is dropped once its time is over. A mark has at most `CALLS_MAX` entries.
"""

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from placet.schemas.codec import Json
from placet_tools.policy.rules import Marking

CALLS_MAX: Final = 500
"""Calls within the time of a sum of which a mark keeps the values; another one is refused."""

_OVER: Final = 10**18
"""A value is below it, and has at most 18 decimals."""

_NO_MARK: Final[Mapping[str, Json]] = {"total": "0", "first": 0, "next": 0}


class Reached(NamedTuple):
    """Why a value does not fit under a total.

    Attributes:
        total: The sum so far, as a decimal; empty if the number of calls is the reason.
        left_ns: Nanoseconds until the value fits; None if it never does.
    """

    total: str
    left_ns: int | None


def value_of(value: Json) -> Fraction | None:
    """Return a number as a fraction; None for a value that no total takes.

    Such as a text, a negative number, and one with more digits than money has: it would fill the
    state.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _OVER:
        return None
    number = Fraction(repr(value))
    return number if number.denominator <= _OVER else None


def added(
    marking: Marking, mark: Mapping[str, Json] | None, value: Fraction, call: str, now_ns: int
) -> dict[str, Json]:
    """Return the fields of a mark after a call has begun.

    Args:
        marking: The marking.
        mark: The mark; None before the first call.
        value: The value of the call.
        call: Key of the call.
        now_ns: Simulated time, nanoseconds.
    """
    mark = mark or _NO_MARK
    total = Fraction(mark["total"])
    if not marking.within_ns:
        return {"total": str(total + value)}
    first, end = mark["first"], mark["next"]
    while first < end and (entry := mark[_place(first)])[0] + marking.within_ns <= now_ns:
        total -= Fraction(entry[1])
        first += 1
    if end - first >= CALLS_MAX:  # of a log before the rule: no call fits until they are over
        total -= Fraction(mark[_place(first)][1])
        first += 1
    entry = [now_ns, str(value), _digest(call)]
    return {
        "total": str(total + value),
        "first": first,
        "next": end + 1,
        _place(end): entry,
    }


def given_back(
    marking: Marking, mark: Mapping[str, Json], value: Fraction, call: str
) -> dict[str, Json]:
    """Return the fields of a mark after a call has failed or was undone; empty if none changes."""
    total = Fraction(mark["total"])
    if not marking.within_ns:
        return {"total": str(max(total - value, Fraction(0)))}
    wanted = _digest(call)
    for number in range(mark["first"], mark["next"]):
        time_ns, was, of = mark[_place(number)]
        if of == wanted:
            rest = total - Fraction(was)
            return {"total": str(rest), _place(number): [time_ns, "0", ""]}
    return {}


def reached(
    marking: Marking,
    mark: Mapping[str, Json] | None,
    value: Fraction,
    limit: float,
    now_ns: int,
) -> Reached | None:
    """Return why a call does not fit under a total; None if it does. O(calls within the time)."""
    mark, most = mark or _NO_MARK, Fraction(repr(limit))
    total = Fraction(mark["total"])
    if not marking.within_ns:
        return None if total + value <= most else Reached(shown(total), None)
    entries: list[Any] = [mark[_place(number)] for number in range(mark["first"], mark["next"])]
    over = [entry for entry in entries if entry[0] + marking.within_ns <= now_ns]
    total -= sum((Fraction(entry[1]) for entry in over), Fraction(0))
    entries = entries[len(over) :]
    if len(entries) >= CALLS_MAX:
        return Reached("", entries[0][0] + marking.within_ns - now_ns)
    if total + value <= most:
        return None
    rest = total
    for time_ns, was, _ in entries:
        rest -= Fraction(was)
        if rest + value <= most:
            return Reached(shown(total), time_ns + marking.within_ns - now_ns)
    return Reached(shown(total), None)


def shown(total: Fraction) -> str:
    """Return a total as a person reads it."""
    text = f"{Decimal(total.numerator) / Decimal(total.denominator):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _place(number: int) -> str:
    """Return the field of an entry; the fields of a mark are as many as the entries it may have."""
    return str(number % (CALLS_MAX + 1))


def _digest(call: str) -> str:
    return blake2b(call.encode("utf-8", "replace"), digest_size=8).hexdigest()
