"""Table files: Parquet, Arrow IPC and CSV, each written in batches.

A failed or killed export leaves nothing under the name of its target.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from placet.schemas.errors import PlacetError
from placet.schemas.printable import defused
from placet.stores.files import whole_file, whole_folder
from placet.tables.arrow import TableSchema, arrow_array, pyarrow
from placet.tables.column_types import JSON

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_FILE: Final = "_schema.json"
_COMPRESSION: Final = "zstd"


class ExportError(PlacetError):
    """The error of an export that cannot be written; nothing is left under its name."""


class TableFile(Protocol):
    """A file of one table that is being written; the writers of pyarrow fit."""

    def write_batch(self, batch: "pa.RecordBatch") -> None:
        """Append rows."""

    def close(self) -> None:
        """Finish the file; without it, the file cannot be read."""


def parquet_file(path: Path, schema: TableSchema) -> TableFile:
    """Return a new Parquet file, in which a batch is a row group.

    Columns of floats get no dictionary: it would have an entry for nearly every row, and its making
    cost a third of an export of 10 million rows.
    """
    from pyarrow import parquet  # noqa: PLC0415  # an extra

    named = [column.name for column in schema.all_columns if "float64" not in column.type]
    made: TableFile = parquet.ParquetWriter(
        path, schema.arrow(), compression=_COMPRESSION, use_dictionary=named
    )
    return made


def arrow_file(path: Path, schema: TableSchema) -> TableFile:
    """Return a new Arrow IPC file, which pandas and polars also call Feather."""
    ipc = pyarrow().ipc
    options = ipc.IpcWriteOptions(compression=_COMPRESSION)
    made: TableFile = ipc.new_file(str(path), schema.arrow(), options=options)
    return made


class CsvFile:
    """A CSV file in UTF-8, quoted as in RFC 4180; a line ends with a line feed.

    Every text is quoted and stands as it is, so an empty text is `""`; nothing stands for null.
    A list is JSON text.

    Args:
        path: Path of the file.
        schema: Columns of the table.
        defuses_formulas: Put a `'` before texts and names of columns that a spreadsheet may run,
            as `placet.schemas.printable.defused` does.
    """

    def __init__(self, path: Path, schema: TableSchema, *, defuses_formulas: bool = False) -> None:
        from pyarrow import csv  # noqa: PLC0415  # an extra

        self._escape = defused if defuses_formulas else None
        names = [column.name for column in schema.all_columns]
        shown = map(defused, names) if defuses_formulas else names
        self._types = [column.type for column in schema.all_columns]
        self._plain = pyarrow().schema(list(zip(shown, map(_csv_type, self._types), strict=True)))
        self._writer: Any = csv.CSVWriter(str(path), self._plain)

    def write_batch(self, batch: "pa.RecordBatch") -> None:
        """Append rows."""
        arrays = [
            _csv_array(array, type_name, self._escape)
            for array, type_name in zip(batch.columns, self._types, strict=True)
        ]
        self._writer.write_batch(pyarrow().record_batch(arrays, schema=self._plain))

    def close(self) -> None:
        """Write the buffered rows."""
        self._writer.close()


def _csv_type(type_name: str) -> "pa.DataType":
    pa = pyarrow()
    texts = type_name == JSON or type_name.startswith("list<")
    plain = {"bool": pa.bool_(), "int64": pa.int64(), "float64": pa.float64()}
    return pa.string() if texts else plain.get(type_name, pa.string())


def _csv_array(
    array: "pa.Array", type_name: str, escape: Callable[[str], str] | None
) -> "pa.Array":
    """Return a column as plain values; JSON text is no formula, and is not escaped."""
    if type_name == JSON:
        return array.storage
    if type_name.startswith("list<"):
        return arrow_array(array.to_pylist(), JSON).storage
    plain = array.cast(_csv_type(type_name))
    if escape is None or plain.type != pyarrow().string():
        return plain
    shown = [None if text is None else escape(text) for text in plain.to_pylist()]
    return pyarrow().array(shown, plain.type)


FORMATS: Final[Mapping[str, Callable[[Path, TableSchema], TableFile]]] = {
    ".parquet": parquet_file,
    ".arrow": arrow_file,
    ".csv": CsvFile,
}
"""Ending of a file -> how it is written."""


@contextmanager
def written_whole(target: Path, *, is_folder: bool) -> Iterator[Path]:
    """Return a path to write to, which becomes `target` when the block ends without an error.

    Args:
        target: The path to make; it must not exist.
        is_folder: A folder is made, and not a file.

    Raises:
        ExportError: The target exists, its folder does not, or the disk failed. Nothing is left.
    """
    if target.exists() or target.is_symlink():
        raise ExportError(f"{target} is there already; name another target, or remove it first")
    if not target.parent.is_dir():
        raise ExportError(f"cannot write {target}: there is no folder {target.parent}")
    try:
        with whole_folder(target) if is_folder else whole_file(target, is_new=True) as draft:
            yield draft
    except OSError as error:
        raise ExportError(f"cannot write {target}: {error.strerror or error}") from error
