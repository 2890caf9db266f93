"""The turns of rows that add to fields in danger of their bounds, and of rows that claim.

A row is decided when every row before it that wants one of its keys is decided. So all rows that
are first on each of their keys are decided at once, in a round.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from placet.kernel.arrays.values import Mask
from placet.kernel.columns.contention import FREE, Additions, Target, firsts
from placet.kernel.plugin.rows import Rows64

if TYPE_CHECKING:
    from placet.kernel.arrays.words import Array

ROUND_MIN: Final = 64
"""Rows that are decided in rounds; fewer are decided one after another in the same time."""

_SHARE_MIN: Final = 16
"""Rounds end when fewer than one of so many rows are decided in one."""


class _Adding(NamedTuple):
    """The additions of one call: keys of values, -1 none, amounts, and the bounds of the field."""

    keys: Rows64
    by: NDArray[np.int64]
    low: int
    high: int

    def of(self, rows: Rows64) -> "_Adding":
        """Return the additions of some rows."""
        return self._replace(keys=self.keys.take(rows), by=self.by.take(rows))


class Turns:
    """The turns of rows, in the fair order, of which some add to fields in danger.

    Each round decides the rows that are the first on all of their keys, over the values and owners
    that the rows before them left. Where many rows want one key, a round decides few, and the rest
    is decided one after another.

    Attributes:
        lost_to: Place of the row that took the first claim which was taken, for each row; -1 none.
        is_beyond: Whether the addition of each row would leave the bounds of a field.
    """

    def __init__(
        self,
        order: Rows64,
        slots: Sequence[Rows64],
        size: int,
        additions: Mapping[Target, Additions],
        danger: Mapping[Target, Mask],
    ) -> None:
        self._order = order
        self._claims = [slot.take(order) for slot in slots]
        self._owner = np.full(size + 1, FREE, np.int64)  # the last slot stands for -1: no claim
        self._adds: list[_Adding] = []
        columns: list[Array] = []
        first = 0
        self._is_exact = all(additions[target].is_bounded() for target in danger)
        for target, mask in danger.items():
            adds = additions[target]
            columns.append(adds.column.astype(np.int64 if self._is_exact else object))
            for at, by in adds.calls:
                keys = at.take(order)
                keys = np.where((keys >= 0) & mask.take(keys), keys + first, -1)
                self._adds.append(_Adding(keys, by.take(order), adds.low, adds.high))
            first += len(adds.column)
        self._values = np.append(np.concatenate(columns), 0)  # the last is of -1: no addition
        self.lost_to = np.full(len(order), FREE, np.int64)
        self.is_beyond = np.zeros(len(order), np.bool_)

    def pass_all(self) -> None:
        """Decide all rows."""
        waiting = np.arange(len(self._order))
        claimed, added = len(self._owner), len(self._values)
        ranks = np.full(claimed + added, len(waiting), np.int64)
        while len(waiting) >= ROUND_MIN and self._is_exact:
            claims = [keys.take(waiting) for keys in self._claims]
            adds = [keys.take(waiting) for keys, *_ in self._adds]
            shifted = [np.where(keys < 0, -1, keys + claimed) for keys in adds]
            is_first = firsts([*claims, *shifted], ranks)
            self._pass_first(waiting[is_first])
            rest = waiting[~is_first]
            if _SHARE_MIN * (len(waiting) - len(rest)) < len(waiting):
                waiting = rest
                break
            waiting = rest
        self._pass_one_by_one(waiting)

    def _pass_first(self, rows: Rows64) -> None:
        """Decide rows of which no two have a key in common."""
        for keys in reversed(self._claims):
            holder = self._owner.take(keys.take(rows))
            self.lost_to[rows] = np.where(holder == FREE, self.lost_to.take(rows), holder)
        rows = rows[self.lost_to.take(rows) == FREE]
        parts = [adding.of(rows) for adding in self._adds]
        is_beyond = np.zeros(len(rows), np.bool_)
        totals = []
        for keys, _, low, high in parts:
            total = self._values.take(keys)
            for others, by, *_ in parts:
                total += np.where(others == keys, by, 0)  # a row may add to one row twice
            is_beyond |= (keys >= 0) & ((total < low) | (total > high))
            totals.append(total)
        self.is_beyond[rows[is_beyond]] = True
        passed = ~is_beyond
        for (keys, *_), total in zip(parts, totals, strict=True):
            self._values[keys[passed]] = total[passed]
        self._values[-1] = 0
        rows = rows[passed]
        for keys in self._claims:
            self._owner[keys.take(rows)] = self._order.take(rows)
        self._owner[-1] = FREE

    def _pass_one_by_one(self, rows: Rows64) -> None:
        claims = [keys.take(rows).tolist() for keys in self._claims]
        adds = [
            (part.keys.tolist(), part.by.tolist(), part.low, part.high)
            for part in (adding.of(rows) for adding in self._adds)
        ]
        owner: dict[int, int] = {}
        for each in claims:
            owner.update(zip(each, self._owner[each].tolist(), strict=True))
        value: dict[int, int] = {}
        for each, *_ in adds:
            value.update(zip(each, self._values[each].tolist(), strict=True))
        for at, (row, place) in enumerate(
            zip(rows.tolist(), self._order.take(rows).tolist(), strict=True)
        ):
            wanted = [keys[at] for keys in claims if keys[at] >= 0]
            winner = next((owner[key] for key in wanted if owner[key] != FREE), FREE)
            if winner != FREE:
                self.lost_to[row] = winner
                continue
            after: dict[int, int] = {}
            bounds: dict[int, tuple[int, int]] = {}
            for keys, by, low, high in adds:
                key = keys[at]
                if key >= 0:
                    after[key] = after.get(key, value[key]) + by[at]
                    bounds[key] = (low, high)
            if any(not bounds[key][0] <= total <= bounds[key][1] for key, total in after.items()):
                self.is_beyond[row] = True
                continue
            value.update(after)
            owner.update(dict.fromkeys(wanted, place))
