"""Which rows get what several want: claims of rows, and sums against bounds, in the fair order.

Source: deterministic reservations, Blelloch, Fineman, Gibbons, Shun, PPoPP 2012. In each round a
row wins that is the first on all of its keys; a row loses that meets a taken key. The result is
that of the rows one after another in the fair order, which `row_by_row.py` does.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placet.kernel.arrays.values import Mask
from placet.kernel.plugin.rows import RowCall, Rows64
from placet.kernel.state.table import TableData

FREE: Final = -1
Target: TypeAlias = tuple[str, str]
"""Table and field that a rule adds to."""

_EXACT: Final = 2.0**52
_MARGIN: Final = 2.0**-30


class Additions(NamedTuple):
    """The additions to one field: numbers of the changed rows, and the amounts, of each call."""

    calls: list[tuple[Rows64, NDArray[np.int64]]]
    column: NDArray[np.generic]
    low: int
    high: int


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
        count = len(adds.column)
        down, up = np.zeros(count, np.float64), np.zeros(count, np.float64)
        for keys, amounts in adds.calls:
            at, by = (keys, amounts) if living is None else (keys[living], amounts[living])
            is_row = at >= 0
            if not is_row.all():
                at, by = at[is_row], by[is_row]
            if not len(by):
                continue
            if by.min() < 0:
                down += np.bincount(at, np.minimum(by, 0), count)
            if by.max() > 0:
                up += np.bincount(at, np.maximum(by, 0), count)
        value = adds.column.astype(np.float64)
        # Doubles add integers below 2**53 exactly; beyond, the bounds get a margin: a row in danger
        # that is none is only decided more slowly.
        reach = np.abs(value) + (up - down)
        margin = np.where(reach < _EXACT, 0.0, reach * _MARGIN)
        danger = (down < 0) & (value + down < adds.low + margin)
        danger |= (up > 0) & (value + up > adds.high - margin)
        if danger.any():
            found[target] = danger
    return found


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


def granted(order: Rows64, slots: Sequence[Rows64], size: int) -> Rows64:
    """Grant claims in the fair order.

    Args:
        order: Places of the rows that claim, in the fair order.
        slots: Claimed slot of each row, below `size` or -1, of each claim.
        size: Number of slots.

    Returns:
        Place of the row that took the first of its claims which was taken at its turn, for each
        row that loses; -1 of the others.
    """
    if len(slots) == 1:
        return _granted_one(order, slots[0], size)
    lost_to = np.full(len(slots[0]), FREE, np.int64)
    owner = np.full(size + 1, FREE, np.int64)  # the last slot stands for -1, which is no claim
    ranks = np.full(size + 1, len(order), np.int64)
    losers: list[Rows64] = []
    waiting = order
    while len(waiting):
        keys = [slot[waiting] for slot in slots]
        lost = np.zeros(len(waiting), np.bool_)
        for each in keys:
            lost |= (owner[each] != FREE) & (each >= 0)
        if lost.any():
            losers.append(waiting[lost])
            waiting = waiting[~lost]
            keys = [each[~lost] for each in keys]
        ranks.fill(len(order))
        at = np.arange(len(waiting))
        for each in keys:
            np.minimum.at(ranks, each, at)
        won = np.ones(len(waiting), np.bool_)
        for each in keys:
            won &= (ranks[each] == at) | (each < 0)
        for each in keys:
            owner[each[won]] = waiting[won]
        owner[size] = FREE
        waiting = waiting[~won]
    if losers:
        _name_winners(np.concatenate(losers), order, slots, owner, lost_to)
    return lost_to


def _granted_one(order: Rows64, slot: Rows64, size: int) -> Rows64:
    """Grant one claim a row: the first of each slot has it."""
    lost_to = np.full(len(slot), FREE, np.int64)
    keys = slot[order]
    if keys.min(initial=0) < 0:
        order = order[keys >= 0]
        keys = slot[order]
    owner = np.full(size, FREE, np.int64)
    owner[keys[::-1]] = order[::-1]  # the last assignment to an index counts
    winner = owner[keys]
    lost = winner != order
    lost_to[order[lost]] = winner[lost]
    return lost_to


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


def one_after_another(
    order: Rows64,
    slots: Sequence[Rows64],
    additions: Mapping[Target, Additions],
    danger: Mapping[Target, Mask],
) -> tuple[list[tuple[int, int]], list[int]]:
    """Pass rows in the fair order: the rows that claim, and those that add to a field in danger.

    Args:
        order: Places of these rows, in the fair order.
        slots: As of `granted`.
        additions: The additions.
        danger: As `in_danger` returned it.

    Returns:
        `(place, place of the winner)` of the rows that lost a claim, and the places of the rows
        whose addition would leave its bounds.
    """
    owner: dict[int, int] = {}
    value: dict[tuple[Target, int], int] = {}
    claimed = [slot.tolist() for slot in slots]
    risky = [
        (target, at.tolist(), by.tolist())
        for target in danger
        for at, by in additions[target].calls
    ]
    conflicts: list[tuple[int, int]] = []
    beyond: list[int] = []
    for place in order.tolist():
        keys = [slot[place] for slot in claimed if slot[place] >= 0]
        winner = next((owner[key] for key in keys if key in owner), None)
        if winner is not None:
            conflicts.append((place, winner))
            continue
        after: dict[tuple[Target, int], int] = {}
        for target, at, by in risky:
            row = at[place]
            if row >= 0 and danger[target][row]:
                key = (target, row)
                before = after.get(key, value.get(key))
                start = int(additions[target].column[row]) if before is None else before
                after[key] = start + by[place]
        if any(
            not additions[t].low <= total <= additions[t].high for (t, _), total in after.items()
        ):
            beyond.append(place)
            continue
        value.update(after)
        owner.update(dict.fromkeys(keys, place))
    return conflicts, beyond
