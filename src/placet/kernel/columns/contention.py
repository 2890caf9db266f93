"""Which rows get what several want: claims of rows, and sums against bounds, in the fair order.

Source: deterministic reservations, Blelloch, Fineman, Gibbons, Shun, PPoPP 2012. In each round a
row wins that is the first on all of its keys; a row loses that meets a taken key. The result is
that of the rows one after another in the fair order, which `row_by_row.py` does.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placet.kernel.arrays.values import Mask
from placet.kernel.arrays.words import U64, Array, Words
from placet.kernel.plugin.rows import RowCall, Rows64
from placet.kernel.state.table import TableData

FREE: Final = -1
Target: TypeAlias = tuple[str, str]
"""Table and field that a rule adds to."""

_LAST: Final = U64(2**64 - 1)
_FAR: Final = 2**62
_MARGIN: Final = 2.0**-30


class Additions(NamedTuple):
    """The additions to one field: numbers of the changed rows, and the amounts, of each call."""

    calls: list[tuple[Rows64, NDArray[np.int64]]]
    column: Array
    low: int
    high: int

    def is_exact(self) -> bool:
        """Return whether the additions, and the bounds moved by them, fit into 64 bits."""
        if self.column.dtype == np.uint64 or self.low > _FAR or self.high < -_FAR:
            return False
        most = sum(len(by) * max(-int(by.min()), int(by.max())) for _, by in self.calls if len(by))
        return most < _FAR

    def is_bounded(self) -> bool:
        """Return whether any value with any of the additions fits into 64 bits."""
        return self.is_exact() and self.low >= -_FAR and self.high <= _FAR


def additions_of(
    calls: Sequence[RowCall], tables: Mapping[str, TableData], numbers: Rows64
) -> dict[Target, Additions]:
    """Return the additions of a rule by field."""
    found: dict[Target, Additions] = {}
    for call in calls:
        if call.op != "add":
            continue
        table = tables[call.table]
        low, high = map(int, table.fields[call.field].limits)
        key = (call.table, call.field)
        adds = found.setdefault(key, Additions([], table.columns[call.field], low, high))
        at = numbers if call.at is None else call.at
        adds.calls.append((at, call.values.astype(np.int64, copy=False)))
    return found


def in_danger(additions: Mapping[Target, Additions], living: Rows64 | None) -> dict[Target, Mask]:
    """Return the rows of each field that could leave its bounds in some order of the additions.

    A field without such rows is left out: then all additions to it pass, in any order.

    Args:
        additions: The additions.
        living: Places of the rows that add; None is all.
    """
    found: dict[Target, Mask] = {}
    for target, adds in additions.items():
        is_exact = adds.is_exact()
        down: Array | None = None
        up: Array | None = None
        for keys, amounts in adds.calls:
            at, by = keys, amounts
            if living is not None:
                at, by = keys.take(living), amounts.take(living)
            if int(at.min(initial=0)) < 0:
                is_row = at >= 0
                at, by = at[is_row], by[is_row]
            if not len(by):
                continue
            least, most = by.min(), by.max()
            if least < 0:
                down = _summed(down, at, by if most <= 0 else np.minimum(by, 0), adds, is_exact)
            if most > 0:
                up = _summed(up, at, by if least >= 0 else np.maximum(by, 0), adds, is_exact)
        danger = _beyond(adds, down, up, is_exact)
        if danger is not None and danger.any():
            found[target] = danger
    return found


def _summed(
    sums: Array | None, at: Rows64, by: NDArray[np.int64], adds: Additions, is_exact: bool
) -> Array:
    """Add amounts to the sums of the rows of a field."""
    if sums is None:
        sums = np.zeros(len(adds.column), np.int64 if is_exact else np.float64)
    np.add.at(sums, at, by if is_exact else by.astype(np.float64))
    return sums


def _beyond(adds: Additions, down: Array | None, up: Array | None, is_exact: bool) -> Mask | None:
    """Return the rows that the decreases alone, or the increases, would take out of bounds."""
    value: Array = adds.column
    margin: Any = 0
    danger: Mask | None = None
    if not is_exact:
        # Doubles lose digits, so the bounds get a margin: a row in danger that is none is only
        # decided more slowly.
        value = value.astype(np.float64)
        margin = np.abs(value) * _MARGIN
        for sums in (down, up):
            margin += 0 if sums is None else np.abs(sums) * _MARGIN
    if down is not None:
        danger = (down < 0) & (value < adds.low - down + margin)
    if up is not None:
        over = (up > 0) & (value > adds.high - up - margin)
        danger = over if danger is None else danger | over
    return danger


def slots_of(
    claims: Sequence[tuple[str, Rows64]], tables: Mapping[str, TableData]
) -> tuple[list[Rows64], int]:
    """Return the claims as numbers of rows of all claimed tables, -1 none, and their count."""
    first_of: dict[str, int] = {}
    size = 0
    slots: list[Rows64] = []
    for table, keys in claims:
        if table not in first_of:
            first_of[table] = size
            size += tables[table].count
        first = first_of[table]
        slots.append(keys if not first else np.where(keys < 0, FREE, keys + first))
    return slots, size


def contending(
    count: int,
    living: Rows64 | None,
    slots: Sequence[Rows64],
    size: int,
    additions: Mapping[Target, Additions],
    danger: Mapping[Target, Mask],
) -> Rows64:
    """Return the places of the rows whose turn counts; the others get all that they ask for.

    A turn counts where another row claims the same slot, or adds to a row in danger.

    Args:
        count: Number of rows.
        living: Places of the rows that are not refused; None is all.
        slots: Claimed slot of each row, below `size` or -1, of each claim.
        size: Number of slots.
        additions: The additions.
        danger: As `in_danger` returned it.
    """
    claimed = [slot if living is None else slot.take(living) for slot in slots]
    counts = np.zeros(size + 1, np.int64)  # the last slot stands for -1, which is no claim
    for keys in claimed:
        is_slot = keys >= 0
        counts[:size] += np.bincount(keys if is_slot.all() else keys[is_slot], minlength=size)
    is_contended = counts > 1
    is_contending = np.zeros(count if living is None else len(living), np.bool_)
    for keys in claimed:
        is_contending |= is_contended.take(keys)
    for target, mask in danger.items():
        for at, _ in additions[target].calls:
            keys = at if living is None else at.take(living)
            is_contending |= mask.take(keys) & (keys >= 0)
    places = np.flatnonzero(is_contending)
    return places if living is None else living.take(places)


def grant_one(places: Rows64, slot: Rows64, size: int, words: Words, lost_to: Rows64) -> None:
    """Grant one claim a row, each to the row with the least word.

    Args:
        places: Places of the rows that claim.
        slot: Claimed slot of each row.
        size: Number of slots.
        words: Fair order of the places: 64 bits each, no two of them equal.
        lost_to: Gets the place of the winner for each row that loses.
    """
    keys = slot.take(places)
    least = np.full(size, _LAST)
    np.minimum.at(least, keys, words)
    is_first = least.take(keys) == words
    owner = np.empty(size, np.int64)
    owner[keys[is_first]] = places[is_first]
    is_lost = ~is_first
    lost_to[places[is_lost]] = owner.take(keys[is_lost])


def grant_several(order: Rows64, slots: Sequence[Rows64], size: int, lost_to: Rows64) -> None:
    """Grant several claims a row, all of them or none, in rounds.

    Args:
        order: Places of the rows that claim, in the fair order.
        slots: Claimed slot of each row, below `size` or -1, of each claim.
        size: Number of slots.
        lost_to: Gets, for each row that loses, the place of the row that took the first of its
            claims which was taken at its turn.
    """
    owner = np.full(size + 1, FREE, np.int64)  # the last slot stands for -1, which is no claim
    ranks = np.full(size + 1, len(order), np.int64)
    losers: list[Rows64] = []
    waiting = order
    while len(waiting):
        keys = [slot.take(waiting) for slot in slots]
        lost = np.zeros(len(waiting), np.bool_)
        for each in keys:
            lost |= owner.take(each) != FREE
        if lost.any():
            losers.append(waiting[lost])
            waiting = waiting[~lost]
            keys = [each[~lost] for each in keys]
        won = firsts(keys, ranks)
        for each in keys:
            owner[each[won]] = waiting[won]
        owner[size] = FREE
        waiting = waiting[~won]
    if losers:
        _name_winners(np.concatenate(losers), order, slots, owner, lost_to)


def firsts(keys: Sequence[Rows64], ranks: Rows64) -> Mask:
    """Return the rows that are the first on each of their keys.

    Args:
        keys: Key of each row, -1 none, for each of several; the rows are in the fair order.
        ranks: A number beyond all ranks for each key and one for none; used, and restored.
    """
    at = np.arange(len(keys[0]))
    for each in keys:
        np.minimum.at(ranks, each, at)
    won = np.ones(len(at), np.bool_)
    for each in keys:
        won &= (ranks.take(each) == at) | (each < 0)
    for each in keys:
        ranks[each] = len(ranks) + len(at)
    return won


def _name_winners(
    lost: Rows64, order: Rows64, slots: Sequence[Rows64], owner: Rows64, lost_to: Rows64
) -> None:
    """Name, for each row that lost, the winner of its first claim that was taken at its turn.

    The rounds may have found another of its claims taken first.
    """
    rank = np.empty(len(slots[0]), np.int64)
    rank[order] = np.arange(len(order))
    for slot in reversed(slots):
        keys = slot[lost]
        holder = owner[keys]
        taken = (keys >= 0) & (holder >= 0)
        taken[taken] = rank[holder[taken]] < rank[lost[taken]]
        lost_to[lost[taken]] = holder[taken]
