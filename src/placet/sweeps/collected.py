"""Collected rows of the runs of a sweep: an Arrow stream for each run and table.

A worker appends the streams of its runs to a file for each table, before it writes the row of the
run, which says where they lie. So the rows of a run that was killed are in no result.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from placet.schemas.codec import Json
from placet.stores.files import opened_regular
from placet.sweeps.errors import LabError
from placet.tables.arrow import TableSchema, arrow_array, pyarrow
from placet.tables.collector import Collector
from placet.tables.column_types import JSON, ColumnType
from placet.tables.definitions import Column
from placet.tables.mappings import gathered, with_key_columns
from placet.tables.parts import checked, converted, reading, types_of
from placet.tables.table import ArrowTable

if TYPE_CHECKING:
    import pyarrow as pa


def streams_of(collector: Collector) -> dict[str, bytes]:
    """Return the tables of a collector in memory, each as an Arrow stream."""
    streams = {}
    for name, table in collector.tables().items():
        sink = pyarrow().BufferOutputStream()
        with pyarrow().ipc.new_stream(sink, table.arrow.schema) as writer:
            writer.write_table(table.arrow)
        streams[name] = sink.getvalue().to_pybytes()
    return streams


def joined_table(
    name: str, folder: Path, runs: Sequence[tuple[Mapping[str, Json], Sequence[Json] | None]]
) -> ArrowTable:
    """Return the rows of a table of several runs, with columns that name the run.

    The type of a column is that which holds its values of all runs.

    Args:
        name: Name of the table.
        folder: Folder of the files.
        runs: For each run the columns that name it, and the place of its stream: file, offset and
            size in bytes; None if it collected no such table.

    Raises:
        LabError: The rows of a run cannot be read.
    """
    with reading(folder, LabError):
        return ArrowTable(name, _joined(name, folder, runs))


def _joined(
    name: str, folder: Path, runs: Sequence[tuple[Mapping[str, Json], Sequence[Json] | None]]
) -> "pa.Table":
    parts = [(key, _read(name, folder, place)) for key, place in runs if place is not None]
    known: dict[str, ColumnType] = {}
    for _, part in parts:
        for column, text in types_of(part).items():
            known.setdefault(column, ColumnType()).join_text(text)
    keys = list(parts[0][0]) if parts else []
    key_columns = {key: [values[key] for values, _ in parts] for key in keys}
    key_types = {key: _type_of(values) for key, values in key_columns.items()}
    arrays: dict[str, list[pa.Array]] = {}
    for values, part in parts:
        for key in keys:
            arrays.setdefault(key, []).append(
                arrow_array([values[key]] * part.num_rows, key_types[key])
            )
        for field in part.schema:
            cells = part.column(field.name)
            if field.name in known:
                cells = converted(cells, known[field.name].name)
            arrays.setdefault(field.name, []).extend(cells.chunks)
    own = [Column(key, type_name, "Of the run.") for key, type_name in key_types.items()]
    fields = list(TableSchema(own, {}, {}).arrow())
    for field in parts[0][1].schema if parts else ():
        if field.name in known:
            collected = Column(field.name, known[field.name].name, "Collected.")
            fields.append(next(iter(TableSchema([collected], {}, {}).arrow())))
        else:
            fields.append(field)
    columns = [pyarrow().chunked_array(arrays[field.name], field.type) for field in fields]
    table = pyarrow().Table.from_arrays(columns, schema=pyarrow().schema(fields))
    return with_key_columns(table, known) if name == "world" else table


def _read(name: str, folder: Path, place: Sequence[Json]) -> "pa.Table":
    """Return the table of a stream.

    Raises:
        OSError: The file cannot be read.
        ValueError: The place is not in a file of the folder, or the stream is damaged.
    """
    file_name, offset, size = place
    if Path(file_name).name != file_name:  # a study of another's must not lead out of its folder
        raise ValueError(f"{file_name!r} is no name of a file in it")
    with opened_regular(folder / file_name) as file:
        if offset + size > os.fstat(file.fileno()).st_size:
            raise ValueError(f"{file_name} is shorter than {offset + size} bytes")
        file.seek(offset)
        data = file.read(size)
    with pyarrow().ipc.open_stream(data) as reader:
        return gathered(checked(name, reader.read_all()))


def _type_of(values: Sequence[Json]) -> str:
    known = ColumnType()
    known.add_all(values)
    return known.name or JSON
