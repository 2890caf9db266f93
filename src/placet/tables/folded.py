"""The tables and populations of a log, folded beside a walk as arrays."""

from typing import TYPE_CHECKING

from placet.kernel.columns.recorded import RecordedColumns, sizes_of
from placet.kernel.columns.settle import fold
from placet.kernel.commit.table_made import add_members, make_table
from placet.kernel.ledger.ledger import GateSettings, Ledger
from placet.kernel.log.replay import Replayer, fold_changes
from placet.kernel.state.draft_columns import fold_written
from placet.kernel.state.tree import State
from placet.schemas.config import KernelConfig
from placet.schemas.log.changes import Changes
from placet.schemas.log.column_records import Columns, TableMade
from placet.schemas.log.record import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from placet.schemas.log.column_records import ColumnWrite


class FoldedTables:
    """The tables before the current record of a walk, and the sizes of the populations.

    Args:
        past: The world at the beginning of the walk; None is the beginning of the log.
        has_values: Fold the values of the tables too. O(changes).

    Attributes:
        tables: The tables by name.
        sizes: Shapes of the fields of each table.
    """

    def __init__(self, past: Replayer | None = None, *, has_values: bool) -> None:
        self._has_values = has_values
        self._state = State() if past is None else past.state
        self._ledger = Ledger(GateSettings.of(KernelConfig())) if past is None else past.ledger
        self.tables = self._state.tables
        self.sizes = sizes_of(self.tables)

    def read(self, record: Columns) -> RecordedColumns:
        """Return the arrays of a column batch."""
        return RecordedColumns(record, self._ledger.populations[record.population].count)

    def apply(self, record: Record) -> None:
        """Fold a record."""
        if isinstance(record, TableMade):
            add_members(self._ledger, record)
            self.sizes[record.table] = {name: shape for name, _, shape, *_ in record.fields}
            if self._has_values:
                make_table(self._state, record)
        elif isinstance(record, Columns) and self._has_values:
            fold(self._state, self._ledger, record)
        if self._has_values:
            written: Sequence[ColumnWrite] = getattr(record, "written", ())
            fold_written(self._state, written, record.seq)
            self._apply_changes(getattr(record, "changes", None))

    def _apply_changes(self, changes: object) -> None:
        """Write the changes that an ordinary record made in rows of tables."""
        if isinstance(changes, Changes):
            own = [change for change in changes.entities if change.collection in self.tables]
            fold_changes(self._state, Changes(own))
