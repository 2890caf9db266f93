"""Tables in memory: rows of a log as Python values, and as Arrow, pandas and polars tables."""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from placet.schemas.codec import Json, to_json
from placet.schemas.printable import printable, printable_html
from placet.tables.arrow import BatchBuilder, canonical_rows, pyarrow
from placet.tables.column_types import JSON
from placet.tables.definitions import DEFINITIONS
from placet.tables.plan import TablePlan
from placet.tables.rows import JsonCell

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa

_ROWS_SHOWN: Final = 10
_CELL_CHARACTERS_MAX: Final = 60
_COLUMNS_SHOWN: Final = 16


class Table:
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
        names = [field.name for field in self.arrow.schema if _is_json(field.type)]
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
        import polars as pl  # noqa: PLC0415  # the user's own

        frame = pl.from_arrow(_with_plain_text(self.arrow))
        assert isinstance(frame, pl.DataFrame), "a table becomes a frame"
        return frame

    def __repr__(self) -> str:
        return printable(f"<Table {self.name}: {len(self)} rows, {len(self.columns)} columns>")

    def _repr_html_(self) -> str:
        return html_table(self.name, self.columns, self.arrow.slice(0, _ROWS_SHOWN), len(self))


class Tables(Mapping[str, Table]):
    """Tables by name.

    Args:
        tables: The tables.
    """

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self._tables = dict(tables)

    def __getitem__(self, name: str) -> Table:
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
        return _html("tables", ("table", "rows", "columns"), rows, "")


def read_tables(plan: TablePlan) -> Tables:
    """Return the tables of a plan in memory, in one pass over the log."""
    builders = {name: BatchBuilder(schema) for name, schema in plan.schemas.items()}
    batches: dict[str, list[pa.RecordBatch]] = {name: [] for name in builders}
    for name, row in plan.rows():
        builders[name].add(row)
        if builders[name].is_full:
            batches[name].append(builders[name].take())
    tables = {}
    for name, builder in builders.items():
        last = builder.take()
        if last is not None:
            batches[name].append(last)
        schema = plan.schemas[name].arrow()
        tables[name] = Table(name, pyarrow().Table.from_batches(batches[name], schema))
    return Tables(tables)


class Rows:
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
        return f"<Rows of {self.name}: iterate, or call to_arrow(), to_pandas(), to_polars()>"

    def _repr_html_(self) -> str:
        first = list(islice(self, _ROWS_SHOWN))
        columns = list(first[0]) if first else []
        rows = [[_shown(value) for value in row.values()] for row in first]
        return _html(self.name, columns, rows, f"the first {len(rows)} rows")


def html_table(title: str, columns: list[str], head: "pa.Table", count: int) -> str:
    """Return the first rows of an Arrow table as an HTML table."""
    shown = columns[:_COLUMNS_SHOWN]
    rows = [[_shown(row[name]) for name in shown] for row in head.to_pylist()]
    more = f", {len(columns) - len(shown)} more columns" if len(columns) > len(shown) else ""
    return _html(title, shown, rows, f"{count} rows{more}")


def _html(title: str, columns: Any, rows: Any, note: str) -> str:  # noqa: ANN401  # sequences
    head = "".join(f"<th>{printable_html(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{printable_html(cell)}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    caption = f"{printable_html(title)}: {printable_html(note)}" if note else printable_html(title)
    return (
        f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def _shown(value: Json) -> str:
    text = value if isinstance(value, str) else to_json(value).decode()
    short = len(text) <= _CELL_CHARACTERS_MAX
    return text if short else f"{text[: _CELL_CHARACTERS_MAX - 1]}…"


def _is_json(type_: "pa.DataType") -> bool:
    return str(type_) == f"extension<arrow.{JSON}>"


def _with_plain_text(table: "pa.Table") -> "pa.Table":
    """Return a table whose JSON columns are plain strings, which every library can compute with."""
    pa = pyarrow()
    for place, field in enumerate(table.schema):
        if _is_json(field.type):
            plain = pa.field(field.name, pa.string(), metadata=field.metadata)
            table = table.set_column(place, plain, table.column(place).cast(pa.string()))
    return table
