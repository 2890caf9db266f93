"""Collect rows into Arrow record batches.

Rows come in as Python values and leave in batches of a few thousand, so memory is bounded by the
batch and not by the log.
"""

from typing import TYPE_CHECKING, Final

from placet.schemas.codec import Json
from placet.tables.arrow import TableSchema, arrow_array, pyarrow
from placet.tables.row import Row

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS: Final = 8_192


class BatchBuilder:
    """Collects rows, and returns them as Arrow record batches.

    Args:
        schema: The columns.
    """

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema
        self._arrow = schema.arrow()
        self._cells: list[tuple[Json, ...]] = []
        self._open: dict[tuple[str, str], tuple[list[int], list[Json]]] = {
            key: ([], []) for key in schema.open_columns
        }

    @property
    def is_full(self) -> bool:
        """Return whether `take` should be called before another row is added."""
        return len(self._cells) >= BATCH_ROWS

    def add(self, row: Row) -> None:
        """Add a row."""
        cells, prefix, open_cells = row
        if open_cells:
            place = len(self._cells)
            columns = self._open
            for name, value in open_cells.items():
                places, values = columns[prefix, name]
                places.append(place)
                values.append(value)
        self._cells.append(cells)

    @property
    def has_rows(self) -> bool:
        """Return whether rows were added since the last `take`."""
        return bool(self._cells)

    def take(self) -> "pa.RecordBatch":
        """Return the rows added since the last call, at least one."""
        count = len(self._cells)
        columns: list[list[Json]] = [list(cells) for cells in zip(*self._cells, strict=True)]
        for places, values in self._open.values():
            column: list[Json] = [None] * count
            for place, value in zip(places, values, strict=True):
                column[place] = value
            places.clear()
            values.clear()
            columns.append(column)
        self._cells = []
        arrays = [
            arrow_array(column, described.type)
            for column, described in zip(columns, self.schema.all_columns, strict=True)
        ]
        return pyarrow().record_batch(arrays, schema=self._arrow)
