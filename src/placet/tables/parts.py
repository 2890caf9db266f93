"""The files of a collector: Arrow IPC parts while it collects, one Parquet file each at the end.

A Parquet file without its footer is lost, so a killed run would lose everything; a part is closed
every few seconds. The parts of one span of ticks count once their marker is there, which is written
last. Types are joined over all parts when they are sealed.

    town.db.collected/parts/000001.agents.arrow, 000001.world.arrow, 000001.ticks
    town.db.collected/agents.parquet, world.parquet, _schema.json
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import TypedDict

from placet.schemas.documents import parse_json, typed
from placet.schemas.errors import PlacetError
from placet.stores.documents import read_json
from placet.stores.files import make_folder, opened_regular, whole_file, write_whole
from placet.tables.arrow import TableSchema, arrow_array, arrow_type, pyarrow
from placet.tables.column_types import JSON, ColumnType
from placet.tables.definitions import REFUSALS, SEQ, SIM_TIME, TICK, Column
from placet.tables.files import SCHEMA_FILE, parquet_file
from placet.tables.mappings import KeyColumns, gathered, with_key_columns
from placet.tables.table import ArrowTable, Tables

if TYPE_CHECKING:
    import pyarrow as pa

    from placet.schemas.codec import Json
    from placet.tables.row_block import Cells, RowBlock

_PLACE: Final = (TICK, SEQ, SIM_TIME)
_NOT_COLLECTED: Final = frozenset({"seq", "batch", "context_seq"})
FIXED: Final[Mapping[str, tuple[Column, ...]]] = {
    "agents": (*_PLACE, Column("agent", "string", "Agent.")),
    "world": _PLACE,
    REFUSALS.name: tuple(c for c in REFUSALS.columns if c.name not in _NOT_COLLECTED),
}
"""Fixed columns of each table of a collector; the collected columns follow."""

_PARTS: Final = "parts"
_MARKER: Final = ".ticks"
TYPES: Final = b"placet.types"
"""Key of a schema's metadata: the types of open columns, as JSON."""

_DAMAGE: Final = (OSError, ValueError, TypeError, LookupError, ArithmeticError, MemoryError)
"""Errors of readers of a damaged file, besides those of pyarrow."""


class CollectError(PlacetError):
    """The error of a collector: its function raised, or its files cannot be written."""


def collected_beside(log: Path) -> Path:
    """Return the folder in which a run collects rows beside its log."""
    return log.with_name(f"{log.name}.collected")


class _Sealed(TypedDict):
    """The description of sealed tables."""

    tables: dict[str, Any]
    ticks: int


class CollectedTable:
    """The rows of one table since the last part, and the types of their columns.

    Args:
        name: Name of the table.
        columns: Its columns; the type of an open one is `""`.

    Attributes:
        rows: Rows since the last part or the last block.
    """

    def __init__(self, name: str, columns: Sequence[Column]) -> None:
        self.name = name
        self.columns = tuple(columns)
        self.rows: list[tuple[Json, ...]] = []
        self._closed: list[list[tuple[Json, ...]] | RowBlock] = []

    def __len__(self) -> int:
        closed = (part if isinstance(part, list) else range(part.count) for part in self._closed)
        return len(self.rows) + sum(map(len, closed))

    def add_block(self, block: "RowBlock") -> None:
        """Add rows as arrays, a column at a time; the arrays are kept, so they must not change."""
        if self.rows:
            self._closed.append(self.rows)
            self.rows = []
        self._closed.append(block)

    def take(self) -> "pa.Table":
        """Return the rows since the last call as an Arrow table of the types of these rows."""
        table = self.peek()
        self.rows, self._closed = [], []
        return table

    def peek(self) -> "pa.Table":
        """Return the rows since the last `take` as an Arrow table, and keep them."""
        parts = [*self._closed, *([self.rows] if self.rows else [])]
        cells = [_columns_of(part, len(self.columns)) for part in parts]
        types: dict[str, str] = {}
        columns = []
        for place, column in enumerate(self.columns):
            described = column
            if not column.type:
                known = ColumnType()
                for part in cells:
                    _join(known, part[place])
                types[column.name] = known.as_text()
                described = column._replace(type=known.name)
            columns.append(described)
        schema = TableSchema(columns, {}, {TYPES.decode(): json.dumps(types)})
        arrow, pa = schema.arrow(), pyarrow()
        batches = [
            pa.record_batch(
                [
                    arrow_array(list(values), column.type)
                    if isinstance(values, tuple)
                    else values.arrow(column.type, count)
                    for values, column in zip(part, columns, strict=True)
                ],
                schema=arrow,
            )
            for part, count in zip(cells, map(_count_of, parts), strict=True)
        ]
        return pa.Table.from_batches(batches, schema=arrow)


def _count_of(part: "list[tuple[Json, ...]] | RowBlock") -> int:
    return len(part) if isinstance(part, list) else part.count


def _columns_of(
    part: "list[tuple[Json, ...]] | RowBlock", count: int
) -> "Sequence[tuple[Json, ...] | Cells]":
    """Return the cells of each column of some rows: values, or cells of a block."""
    if not isinstance(part, list):
        return part.cells
    return list(zip(*part, strict=True)) if part else [()] * count


def _join(known: ColumnType, cells: "tuple[Json, ...] | Cells") -> None:
    """Join the types of the cells of one column."""
    if isinstance(cells, tuple):
        known.add_all(cells)
    else:
        cells.join(known)


class PartFolder:
    """A folder of collected tables.

    Args:
        folder: The folder.
        tables: The tables that are collected.

    Attributes:
        folder: The folder.
        last_tick: Last tick whose rows are in a part.
    """

    def __init__(self, folder: Path, tables: Sequence[CollectedTable]) -> None:
        self.folder = folder
        self.last_tick = 0
        self._tables = {table.name: table for table in tables}
        self._parts = folder / _PARTS
        self._number = 0

    def begin(self) -> None:
        """Make the folder.

        Raises:
            CollectError: It is there already, or cannot be made.
        """
        with _writing(self.folder):
            if os.path.lexists(self.folder) and not self._is_unbegun():
                raise CollectError(
                    f"{self.folder} is there already; name another folder, or remove it first"
                )
            make_folder(self.folder)
            make_folder(self._parts)
            self._remove_unmarked()

    def _is_unbegun(self) -> bool:
        """Return whether the folder holds no row: a process was killed before its first part."""
        if self.folder.is_symlink() or not self.folder.is_dir():
            return False
        names = {path.name for path in self.folder.iterdir()}
        return names <= {_PARTS} and not self._marked()

    def remove(self) -> None:
        """Remove the folder and everything in it."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def continue_from(self, tick: int) -> None:
        """Drop the rows after a tick, and continue to collect. Sealed tables become a part again.

        Args:
            tick: Last tick that is durable in the log.

        Raises:
            CollectError: The folder cannot be read or written, or is of other tables.
        """
        kept: int | None = None
        with _writing(self.folder):
            make_folder(self.folder)
            make_folder(self._parts)
            self._unseal()
            for number, (first, last) in self._marked():
                self._require_own(number)
                if first > tick:
                    (self._parts / f"{number:06}{_MARKER}").unlink()
                    continue
                self._number, self.last_tick, kept = number, min(last, tick), first
            if kept is not None:
                # Also where its last tick is not cut: refusals after that are collected again.
                self._cut(self._number, kept, self.last_tick)
            self._remove_unmarked()

    def write(self, last_tick: int) -> None:
        """Close a part with the rows since the last one; nothing if there is none.

        Raises:
            CollectError: It cannot be written.
        """
        has_rows = any(map(len, self._tables.values()))  # refusals after a tick
        if last_tick <= self.last_tick and not has_rows:
            return
        self._number += 1
        with _writing(self.folder):
            for table in self._tables.values():
                self._write_part(self._path(self._number, table.name), table.take())
            self._mark(self._number, self.last_tick + 1, last_tick)
        self.last_tick = last_tick

    def seal(self) -> None:
        """Make a Parquet file of the parts of each table.

        Raises:
            CollectError: It cannot be written; the parts are left.
        """
        with _writing(self.folder):
            described = {}
            for name in self._tables:
                columns, types = self._joined(name)
                keys = self._key_columns(name)
                metadata = {"placet.table": name, TYPES.decode(): types}
                schema = TableSchema(keys.columns(columns), {}, metadata | keys.metadata(columns))
                count = self._write_parquet(name, schema, columns, keys)
                described[name] = {"rows": count, **schema.as_dict()}
            text = json.dumps({"tables": described, "ticks": self.last_tick}, indent=2)
            write_whole(self.folder / SCHEMA_FILE, f"{text}\n".encode())
            shutil.rmtree(self._parts)

    def written(self) -> Tables:
        """Return the rows of the closed parts; without any, no table.

        Raises:
            CollectError: They cannot be read, or a column has numbers in one and texts in another.
        """
        numbers = [number for number, _ in self._marked()]
        names = [name for name in FIXED if numbers and self._path(numbers[0], name).exists()]
        with reading(self.folder):
            joined = {
                name: pyarrow().concat_tables(
                    list(self._read_parts(name)), promote_options="permissive"
                )
                for name in names
            }
            if "world" in joined:
                joined["world"] = with_key_columns(joined["world"], types_of(joined["world"]))
        return Tables({name: ArrowTable(name, table) for name, table in joined.items()})

    def has_values(self, name: str, column: str) -> bool:
        """Return whether a column of a table has a value in a part."""
        parts = self._read_parts(name)
        return any(part.column(column).null_count < part.num_rows for part in parts)

    # parts

    def _path(self, number: int, name: str) -> Path:
        return self._parts / f"{number:06}.{name}.arrow"

    def _marked(self) -> list[tuple[int, tuple[int, int]]]:
        """Return the number and the ticks of each part that was closed, in order."""
        marked = []
        with reading(self.folder):
            for path in sorted(self._parts.glob(f"*{_MARKER}")):
                first_and_last = typed(read_json(path), tuple[int, int])
                marked.append((int(path.name.partition(".")[0]), first_and_last))
        return marked

    def _mark(self, number: int, first: int, last: int) -> None:
        write_whole(self._parts / f"{number:06}{_MARKER}", json.dumps([first, last]).encode())

    def _require_own(self, number: int) -> None:
        """Raise if a part is of a collector of other tables or columns.

        Raises:
            CollectError: It is.
        """
        for name, table in self._tables.items():
            path = self._path(number, name)
            expected = [column.name for column in table.columns]
            found = self._read_part(number, name).schema.names if path.exists() else []
            if found != expected:
                raise CollectError(
                    f"{self.folder} has rows with the columns {', '.join(found) or 'none'} in the "
                    f"table {name}, and {', '.join(expected)} are collected; name another folder, "
                    "or remove it"
                )

    def _remove_unmarked(self) -> None:
        """Remove the unfinished files of a killed process."""
        marked = {f"{number:06}" for number, _ in self._marked()}
        for path in self._parts.iterdir():
            if path.name.partition(".")[0] not in marked or path.suffix == ".tmp":
                path.unlink()

    def _cut(self, number: int, first: int, tick: int) -> None:
        """Drop the rows of a part after a tick."""
        from pyarrow import compute  # noqa: PLC0415  # an extra

        for name in self._tables:
            part = self._read_part(number, name)
            # A refusal has the number of ticks before it: it belongs to the tick after that.
            is_kept = compute.less if name == REFUSALS.name else compute.less_equal
            kept = part.filter(is_kept(part["tick"], tick))
            self._write_part(self._path(number, name), kept)
        self._mark(number, first, tick)

    def _write_part(self, path: Path, part: "pa.Table") -> None:
        ipc = pyarrow().ipc
        with (
            whole_file(path) as draft,
            ipc.new_file(str(draft), part.schema) as writer,
        ):
            writer.write_table(part)

    def _read_parts(self, name: str) -> Iterator["pa.Table"]:
        for number, _ in self._marked():
            yield self._read_part(number, name)

    def _read_part(self, number: int, name: str) -> "pa.Table":
        with (
            reading(self.folder),
            opened_regular(self._path(number, name)) as file,
            pyarrow().ipc.open_file(file) as reader,
        ):
            return checked(name, reader.read_all())

    # sealing

    def _joined(self, name: str) -> tuple[list[Column], str]:
        """Return the columns that hold the rows of all parts of a table, and their joined types."""
        table = self._tables[name]
        known = {column.name: ColumnType() for column in table.columns if not column.type}
        with reading(self.folder):
            for part in self._read_parts(name):
                for column, text in types_of(part).items():
                    known[column].join_text(text)
        columns = [
            column if column.type else column._replace(type=known[column.name].name)
            for column in table.columns
        ]
        types = {column: joined.as_text() for column, joined in known.items()}
        return columns, json.dumps(types)

    def _key_columns(self, name: str) -> KeyColumns:
        """Return the columns of mappings of a table, with the keys of all parts."""
        is_world = name == "world"
        keys = KeyColumns(c.name for c in self._tables[name].columns if is_world and not c.type)
        for part in self._read_parts(name) if is_world else ():
            with reading(self.folder):
                keys.read(part)
        return keys

    def _write_parquet(
        self, name: str, schema: TableSchema, columns: Sequence[Column], keys: KeyColumns
    ) -> int:
        count = 0
        with (
            whole_file(self.folder / f"{name}.parquet") as draft,
            closing(parquet_file(draft, schema)) as file,
        ):
            for table in self._converted_parts(name, schema, columns, keys):
                for batch in table.to_batches():
                    file.write_batch(batch)
                count += table.num_rows
        return count

    def _converted_parts(
        self, name: str, schema: TableSchema, columns: Sequence[Column], keys: KeyColumns
    ) -> Iterator["pa.Table"]:
        arrow = schema.arrow()
        for part in self._read_parts(name):
            with reading(self.folder):
                spread = [a for c in columns for a in keys.spread(part, c.name, columns)]
                arrays = [
                    converted(array, column.type)
                    for array, column in zip(spread, schema.all_columns, strict=True)
                ]
                table = pyarrow().Table.from_arrays(arrays, schema=arrow)
            yield table

    def _unseal(self) -> None:
        """Make the first part of sealed tables, so that a stopped run can be continued."""
        schema = self.folder / SCHEMA_FILE
        if not schema.exists():
            return
        with reading(self.folder):
            described = typed(read_json(schema), _Sealed)
        if set(described["tables"]) != set(self._tables):
            raise CollectError(
                f"{self.folder} has the tables {', '.join(described['tables'])}, and "
                f"{', '.join(self._tables)} are collected; name another folder, or remove it"
            )
        for path in self._parts.iterdir():  # a kill while it was sealed may have left some
            path.unlink()
        for name in self._tables:
            with reading(self.folder):
                table = gathered(_read_sealed(self.folder, name))
            self._write_part(self._path(0, name), table)
        self._mark(0, 1, described["ticks"])
        schema.unlink()  # last: until then it is done again


def read_collected(folder: Path) -> Tables:
    """Return the sealed tables of a folder.

    Raises:
        CollectError: The folder has no sealed tables, or they cannot be read.
    """
    schema = folder / SCHEMA_FILE
    if not schema.exists():
        raise CollectError(f"{folder} has no collected tables: there is no {SCHEMA_FILE} in it")
    with reading(folder):
        names = list(typed(read_json(schema), _Sealed)["tables"])
        if not FIXED.keys() >= set(names):  # a name of another's folder must not lead out of it
            raise CollectError(
                f"{schema} is of no collector: expected the tables {', '.join(sorted(FIXED))}, "
                f"got {', '.join(map(repr, names))}"
            )
        return Tables({name: ArrowTable(name, _read_sealed(folder, name)) for name in names})


def read_written(folder: Path) -> Tables:
    """Return the sealed tables of a folder, or the closed parts of a run in progress.

    Raises:
        CollectError: They cannot be read.
    """
    if (folder / SCHEMA_FILE).exists():
        return read_collected(folder)
    return PartFolder(folder, []).written()


def _read_sealed(folder: Path, name: str) -> "pa.Table":
    from pyarrow import parquet  # noqa: PLC0415  # an extra

    with opened_regular(folder / f"{name}.parquet") as file:
        return checked(name, parquet.read_table(file))


def checked(name: str, table: "pa.Table") -> "pa.Table":
    """Return a table from a file, after a check of its bytes, its fixed columns and their types.

    Raises:
        ValueError: The bytes are damaged, or a fixed column is missing or of another type.
    """
    table.validate(full=True)  # a damaged offset would let a reader out of its buffer
    for column in FIXED[name]:
        fields = table.schema.get_all_field_indices(column.name)
        if [table.schema.field(i).type for i in fields] != [arrow_type(column.type)]:
            raise ValueError(f"the table {name!r} has no column {column.name!r} of {column.type}")
    for place in _PLACE if name != REFUSALS.name else ():
        if table.column(place.name).null_count:
            raise ValueError(f"the column {place.name!r} of the table {name!r} lacks a value")
    return table


def types_of(part: "pa.Table") -> dict[str, str]:
    """Return the types of a part's open columns, for `ColumnType.join_text`.

    Raises:
        ValueError: It has no types, or they are damaged.
    """
    return typed(parse_json((part.schema.metadata or {}).get(TYPES, b"")), dict[str, str])


@contextmanager
def reading(folder: Path, error_type: type[PlacetError] = CollectError) -> Iterator[None]:
    """Convert the errors of damaged rows inside a `with` block to one of a line.

    Raises:
        PlacetError: Of the given type: a file cannot be read, or is damaged.
    """
    try:
        yield
    except (*_DAMAGE, pyarrow().ArrowException) as error:
        reason = " ".join(str(error).split())
        raise error_type(
            f"cannot read the collected rows in {folder}: {reason}; collect them again into "
            "another folder"
        ) from error


def converted(column: "pa.ChunkedArray", type_name: str) -> "pa.ChunkedArray":
    """Return a column in a joined type: a cast between numbers, else JSON text."""
    target = arrow_type(type_name)
    if column.type == target:
        return column
    if type_name == JSON:
        return pyarrow().chunked_array([arrow_array(column.to_pylist(), JSON)])
    try:
        return column.cast(target)
    except pyarrow().ArrowInvalid:  # an integer beyond 2**53, which has an exact double
        return pyarrow().chunked_array([arrow_array(column.to_pylist(), type_name)])


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise CollectError(f"cannot write collected rows to {folder}: {why}") from error
