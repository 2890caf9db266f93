"""Tables in memory: rows of a log as Python values, and as Arrow, pandas and polars tables."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from placet.schemas.codec import Json, to_json
from placet.schemas.html_table import html_table
from placet.schemas.printable import printable
from placet.tables.arrow import canonical_rows, pyarrow
from placet.tables.column_types import JSON
from placet.tables.definitions import DEFINITIONS
from placet.tables.plan import TablePlan
from placet.tables.row import JsonCell

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa

_ROWS_SHOWN: Final = 10
_COLUMNS_SHOWN: Final = 16


class ArrowTable:
    """An Arrow table with its name.

    Args:
        name: Name of the table.
        arrow: The Arrow table; units and docs are in its schema's metadata.

    Attributes:
        name: Name of the table.
        arrow: The Arrow table.
    """

    def __init__(self, name: str, arrow: "pa.Table") -> None:
        self.name = name
        self.arrow = arrow

    def __len__(self) -> int:
        return int(self.arrow.num_rows)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the table through Arrow's C interface, by which DuckDB and polars read it."""
        return self.arrow.__arrow_c_stream__(requested_schema)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.arrow.column_names)

    def rows(self) -> Iterator[dict[str, Json]]:
        """Yield the rows as dicts; JSON text is text."""
        for batch in self.arrow.to_batches():
            yield from batch.to_pylist()

    def digest(self) -> str:
        """Return a hash of the rows' values, equal on every machine and in every format."""
        names = [field.name for field in self.arrow.schema if is_json(field.type)]
        return canonical_rows(self.rows(), frozenset(names)).hex()

    def to_pandas(self) -> "pandas.DataFrame":
        """Return a pandas data frame; JSON text is text.

        Raises:
            ImportError: pandas is not installed.
        """
        return self.arrow.to_pandas()

    def to_polars(self) -> "polars.DataFrame":
        """Return a polars data frame; JSON text is text.

        Raises:
            ImportError: polars is not installed.
        """
        import polars as pl  # noqa: PLC0415  # installed by the user

        frame = pl.from_arrow(_with_plain_text(self.arrow))
        assert isinstance(frame, pl.DataFrame), "a table becomes a frame"
        return frame

    def __repr__(self) -> str:
        return printable(f"<ArrowTable {self.name}: {len(self)} rows, {len(self.columns)} columns>")

    def _repr_html_(self) -> str:
        shown = self.columns[:_COLUMNS_SHOWN]
        left = len(self.columns) - len(shown)
        more = f", {left} more columns" if left else ""
        head = self.arrow.slice(0, _ROWS_SHOWN).select(shown).to_pylist()
        return html_rows(f"{self.name}: {len(self)} rows{more}", head)


class Tables(Mapping[str, ArrowTable]):
    """Tables by name.

    Args:
        tables: The tables.
    """

    def __init__(self, tables: Mapping[str, ArrowTable]) -> None:
        self._tables = dict(tables)

    def __getitem__(self, name: str) -> ArrowTable:
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def __repr__(self) -> str:
        counts = ", ".join(f"{name} {len(table)}" for name, table in self.items())
        return printable(f"<Tables: {counts or 'none'}>")

    def _repr_html_(self) -> str:
        rows = [(name, str(len(table)), ", ".join(table.columns)) for name, table in self.items()]
        return html_table("tables", ("table", "rows", "columns"), rows)


def read_tables(plan: TablePlan) -> Tables:
    """Return the tables of a plan in memory, in one pass over the log."""
    batches: dict[str, list[pa.RecordBatch]] = {name: [] for name in plan.schemas}
    for name, batch in plan.batches():
        batches[name].append(batch)
    from_batches = pyarrow().Table.from_batches
    return Tables(
        {
            name: ArrowTable(name, from_batches(batches[name], schema.arrow()))
            for name, schema in plan.schemas.items()
        }
    )


class LogRows:
    """The rows of one table of a log, read from the log each time they are iterated.

    They need no extra. A row is a dict of the table's columns; the payload of an intent is a dict.

    Args:
        name: Name of the table.
        plan: Returns the plan of the table; called for each iteration.
    """

    def __init__(self, name: str, plan: Callable[[], TablePlan]) -> None:
        self.name = name
        self._plan = plan

    def __iter__(self) -> Iterator[dict[str, Json]]:
        plan = self._plan()
        columns = [column.name for column in DEFINITIONS[self.name].columns]
        has_payloads = DEFINITIONS[self.name].has_payloads
        for _, row in plan.rows():
            values = [cell.value if type(cell) is JsonCell else cell for cell in row.cells]
            cells = dict(zip(columns, values, strict=True))
            yield {**cells, "payload": row.open_cells} if has_payloads else cells

    def to_arrow(self) -> "pa.Table":
        """Return an Arrow table of all rows.

        Raises:
            MissingExtraError: pyarrow is not installed.
        """
        return read_tables(self._plan())[self.name].arrow

    def to_pandas(self) -> "pandas.DataFrame":
        """Return a pandas data frame of all rows.

        Raises:
            ImportError: pyarrow or pandas is not installed.
        """
        return read_tables(self._plan())[self.name].to_pandas()

    def to_polars(self) -> "polars.DataFrame":
        """Return a polars data frame of all rows.

        Raises:
            ImportError: pyarrow or polars is not installed.
        """
        return read_tables(self._plan())[self.name].to_polars()

    def __repr__(self) -> str:
        return f"<LogRows of {self.name}: iterate, or call to_arrow(), to_pandas(), to_polars()>"

    def _repr_html_(self) -> str:
        first = list(islice(self, _ROWS_SHOWN))
        return html_rows(f"{self.name}: the first {len(first)} rows", first)


def html_rows(caption: str, rows: Sequence[Mapping[str, Json]]) -> str:
    """Return the first rows of a table as HTML, for a notebook; all have the keys of the first."""
    cells = (map(_shown, row.values()) for row in rows)
    return html_table(caption, list(rows[0]) if rows else (), map(list, cells))


def _shown(value: Json) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else "" if value is None else to_json(value).decode()


def is_json(type_: "pa.DataType") -> bool:
    """Return whether the cells of a type of Arrow are JSON text."""
    return str(type_) == f"extension<arrow.{JSON}>"


def _with_plain_text(table: "pa.Table") -> "pa.Table":
    """Return a table whose JSON columns are plain strings, which every library can compute with."""
    pa = pyarrow()
    for place, field in enumerate(table.schema):
        if is_json(field.type):
            plain = pa.field(field.name, pa.string(), metadata=field.metadata)
            table = table.set_column(place, plain, table.column(place).cast(pa.string()))
    return table
