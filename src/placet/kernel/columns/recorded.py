"""Read the record of a column batch as arrays, without the world in which it was decided."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placet.kernel.arrays.row_codes import CONFLICT, OK, RowCode, refusal_of
from placet.kernel.plugin.rows import RowCall, Rows64
from placet.kernel.state.table import TableData
from placet.schemas.log.column_records import Columns, names_all

if TYPE_CHECKING:
    from placet.kernel.arrays.words import Array

Sizes: TypeAlias = Mapping[str, Mapping[str, Sequence[int]]]
"""Table -> field -> shape of the value of one row."""

_EVERY: Final = slice(None)
_NUMBER_BYTES: Final = 4


class RecordedColumns:
    """The arrays of a column batch's record, one item a row; they cannot be written.

    Args:
        record: The record.
        members: Number of members of its population.

    Attributes:
        record: The record.
        codes: Code of each row, u1; None: all are admitted.
        contexts: `context_seq` of all rows, or of each.
    """

    def __init__(self, record: Columns, members: int) -> None:
        self.record = record
        self._count = members if names_all(record) else len(record.agents) // _NUMBER_BYTES
        self.codes: NDArray[np.uint8] | None = (
            np.frombuffer(record.codes, np.uint8) if record.codes else None
        )
        contexts = record.contexts
        self.contexts: int | NDArray[np.int64] = (
            contexts if isinstance(contexts, int) else np.frombuffer(contexts, "<i8")
        )

    def __len__(self) -> int:
        return self._count

    @cached_property
    def numbers(self) -> Rows64:
        """Number of the member of each row."""
        if names_all(self.record):
            return np.arange(self._count)
        return np.frombuffer(self.record.agents, "<u4").astype(np.int64)

    @cached_property
    def payload(self) -> "dict[str, Array]":
        """Array of each field of the payload, `(rows, *shape)`."""
        return {
            name: np.frombuffer(data, dtype).reshape(self._count, *shape)
            for name, dtype, shape, data in self.record.payload
        }

    @cached_property
    def admitted(self) -> Any:  # noqa: ANN401  # an index of numpy: a slice or places
        """The places of the admitted rows, as an index of the arrays: a slice of all, or numbers.

        A slice makes views in place of copies.
        """
        return _EVERY if self.codes is None else np.flatnonzero(self.codes == OK)

    @property
    def refused(self) -> Rows64:
        """The places of the refused rows."""
        return np.zeros(0, np.int64) if self.codes is None else np.flatnonzero(self.codes != OK)

    @property
    def winners(self) -> NDArray[np.int32]:
        """Number of the member that won the claim of each row; -1 where no claim was lost."""
        winners = np.full(len(self), -1, np.int32)
        if self.codes is not None and self.record.winners:
            winners[self.codes == CONFLICT] = np.frombuffer(self.record.winners, "<i4")
        return winners

    def refusals(self) -> list[tuple[RowCode, int]]:
        """Return each refusal in the batch with the number of its rows."""
        if self.codes is None:
            return []
        counts = np.bincount(self.codes)
        return [
            (refusal_of(self.record.reasons, code), int(counts[code]))
            for code in np.flatnonzero(counts).tolist()
            if code != OK
        ]

    def calls(self, sizes: Sizes) -> list[RowCall]:
        """Return the changes, with an item for each admitted row. Equal keys are one array.

        Args:
            sizes: Shapes of the fields of the changed tables.
        """
        count = self._count if self.codes is None else len(self.admitted)
        keys: list[tuple[bytes, Rows64]] = []
        calls = []
        for change in self.record.changes:
            at: Rows64 | None = None
            if change.at:
                at = next((known for data, known in keys if data == change.at), None)
                if at is None:
                    at = np.frombuffer(change.at, "<i4").astype(np.int64)
                    keys.append((change.at, at))
            if change.column:
                values = self._payload_of_admitted(change.column)
            else:
                shape = (count, *sizes[change.table][change.field])
                values = np.frombuffer(change.data, change.dtype).reshape(shape)
            calls.append(RowCall(change.table, change.field, change.op, at, values))
        return calls

    def _payload_of_admitted(self, name: str) -> "Array":
        values = self.payload[name]
        return values if self.codes is None else values.take(self.admitted, axis=0)

    def targets(self, at: Rows64 | None) -> Rows64:
        """Return the number of the row that each admitted row changes by a call, -1 none.

        Args:
            at: `RowCall.at`.
        """
        return self.numbers[self.admitted] if at is None else at

    def changed_rows(self) -> dict[str, Rows64]:
        """Return the numbers of the rows that the batch changed, rising, of each changed table."""
        targets: dict[str, dict[bytes, Rows64]] = {}
        for change in self.record.changes:
            at = np.frombuffer(change.at, "<i4").astype(np.int64) if change.at else None
            # Equal keys, which rules of several fields have, are taken once.
            targets.setdefault(change.table, {})[change.at] = self.targets(at)
        return {table: distinct_rows(list(each.values()))[0] for table, each in targets.items()}


def sizes_of(tables: Mapping[str, TableData]) -> dict[str, dict[str, Sequence[int]]]:
    """Return the shapes of the fields of each table."""
    return {
        name: {field: one.sizes for field, one in table.fields.items()}
        for name, table in tables.items()
    }


def distinct_rows(targets: Sequence[Rows64]) -> tuple[Rows64, list[Rows64]]:
    """Return the numbers in some arrays, rising, and for each array the places of its numbers.

    Args:
        targets: Numbers of rows; -1, which is no row, has place -1.
    """
    first = targets[0]
    if len(targets) == 1 and bool((first[1:] > first[:-1]).all()) and first[:1].tolist() != [-1]:
        return first, [np.arange(len(first))]
    rows, places = np.unique(np.concatenate(targets), return_inverse=True)
    if rows[:1].tolist() == [-1]:
        rows, places = rows[1:], places - 1
    ends = np.cumsum([len(target) for target in targets])[:-1]
    return rows, np.split(places, ends)
