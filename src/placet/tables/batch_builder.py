"""Collect rows into Arrow record batches.

Rows come in as Python values, or as blocks of arrays, and leave in batches of a few thousand, or of
one block. So memory is bounded by the batch and not by the log.
"""

from typing import TYPE_CHECKING, Final

from placet.tables.arrow import TableSchema, arrow_array, pyarrow
from placet.tables.row import Row

if TYPE_CHECKING:
    import pyarrow as pa

    from placet.schemas.codec import Json
    from placet.tables.row_block import Cells, RowBlock

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
        self._batches: list[pa.RecordBatch] = []
        self._count = 0

    @property
    def is_full(self) -> bool:
        """Return whether `take` should be called before another row is added."""
        return self._count + len(self._cells) >= BATCH_ROWS

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

    def add_block(self, block: "RowBlock") -> None:
        """Add the rows of a block, a column at a time. Small blocks are collected, as rows are."""
        if not block.count:
            return
        self._close_rows()
        fixed = zip(block.cells, self.schema.columns, strict=True)
        arrays = [cells.arrow(column.type, block.count) for cells, column in fixed]
        for (kind, name), column in self.schema.open_columns.items():
            cells = block.open_cells.get(name) if kind == block.prefix else None
            arrays.append(_open_array(cells, column.type, block.count))
        self._add_batch(pyarrow().record_batch(arrays, schema=self._arrow))

    @property
    def has_rows(self) -> bool:
        """Return whether rows were added since the last `take`."""
        return bool(self._cells or self._batches)

    def take(self) -> "pa.RecordBatch":
        """Return the rows added since the last call, at least one."""
        self._close_rows()
        batches, self._batches, self._count = self._batches, [], 0
        return batches[0] if len(batches) == 1 else pyarrow().concat_batches(batches)

    def _add_batch(self, batch: "pa.RecordBatch") -> None:
        self._batches.append(batch)
        self._count += batch.num_rows

    def _close_rows(self) -> None:
        """Make a batch of the single rows that were added, so that blocks follow them in order."""
        count = len(self._cells)
        if not count:
            return
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
        self._add_batch(pyarrow().record_batch(arrays, schema=self._arrow))


def _open_array(cells: "Cells | None", type_name: str, count: int) -> "pa.Array":
    """Return the cells of an open column; nulls where the block is of another kind."""
    from placet.tables.row_block import Same  # noqa: PLC0415  # numpy is an extra

    return (Same(None) if cells is None else cells).arrow(type_name, count)
