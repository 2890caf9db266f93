"""Export the tables of a log to a folder of Parquet files, or one table to a file."""

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from placet.actors.ports import EventLog
from placet.schemas.printable import escaped_json
from placet.stores.files import write_whole
from placet.tables.arrow import TableSchema, pyarrow
from placet.tables.definitions import DEFINITIONS, INTENTS, REFUSALS
from placet.tables.files import (
    FORMATS,
    SCHEMA_FILE,
    CsvFile,
    ExportError,
    TableFile,
    parquet_file,
    written_whole,
)
from placet.tables.plan import TableOptions, TablePlan

if TYPE_CHECKING:
    from placet.schemas.codec import Json

_UNKNOWN_FORMATS: Final = frozenset(
    {".xlsx", ".xls", ".json", ".jsonl", ".feather", ".ipc", ".tsv", ".db"}
)
"""Endings by which a target is meant as a file."""


class ExportReport(NamedTuple):
    """The result of an export.

    Attributes:
        target: The folder or the file.
        rows: Number of rows of each table.
    """

    target: Path
    rows: Mapping[str, int]


def export(
    log: EventLog,
    target: Path,
    options: TableOptions,
    *,
    defuses_formulas: bool = False,
    on_record: Callable[[int, int], None] = lambda _done, _total: None,
) -> ExportReport:
    """Write tables of a log. O(log); memory is bounded, but for the state where `old` needs it.

    Args:
        log: The log; it is only read, and may be written meanwhile.
        target: A folder to make, with a Parquet file for each table; or a file that ends in
            `.parquet`, `.csv` or `.arrow`, with one table. `_schema.json` is in the folder, or
            beside the file as `<name>_schema.json`.
        options: The tables.
        defuses_formulas: As in `CsvFile`; for a target that ends in `.csv` alone.
        on_record: Called now and then with the records read and their number, over all passes.

    Raises:
        ExportError: The target exists, cannot be written, or holds no formulas to defuse. Nothing
            is left under its name.
        MissingExtraError: pyarrow is not installed.
        StoreError: The log cannot be read, has no records, or is damaged.
    """
    pyarrow()
    ending = target.suffix
    if defuses_formulas and ending != ".csv":
        raise ExportError(
            f"cannot write {target}: a spreadsheet runs formulas of CSV alone; leave out "
            "--defuse-formulas, or give a file that ends in .csv"
        )
    if ending not in FORMATS:
        if ending.lower() in _UNKNOWN_FORMATS and not target.is_dir():
            raise ExportError(
                f"cannot write {target}: {ending} is no known format; give a folder, or a file "
                f"that ends in {', '.join(FORMATS)}"
            )
        with written_whole(target, is_folder=True) as draft:
            plan = TablePlan(log, options, on_record=on_record)
            names = {table: f"{table}.parquet" for table in plan.schemas}
            rows = _write(plan, {table: draft / name for table, name in names.items()})
            _write_schema(draft / SCHEMA_FILE, plan.schemas, rows, names)
        return ExportReport(target, rows)
    name = _only_table(target, options)
    beside = target.with_name(f"{target.stem}{SCHEMA_FILE}")
    with written_whole(target, is_folder=False) as draft:
        chosen = TableOptions(options.selection, (name,), options.every)
        plan = TablePlan(log, chosen, on_record=on_record)
        make = partial(CsvFile, defuses_formulas=True) if defuses_formulas else FORMATS[ending]
        rows = _write(plan, {name: draft}, make)
        # An older one is of the file that was here before.
        _write_schema(beside, plan.schemas, rows, {name: target.name})
    return ExportReport(target, rows)


def _only_table(target: Path, options: TableOptions) -> str:
    """Return the name of the table for a file: by default the intents, or the refusals alone."""
    names = options.names or ((REFUSALS if options.selection.refused else INTENTS).name,)
    if len(names) > 1:
        raise ExportError(
            f"cannot write {target}: a file holds one table, got {', '.join(names)}; give a folder"
        )
    return names[0]


def _write(
    plan: TablePlan,
    paths: Mapping[str, Path],
    make: Callable[[Path, TableSchema], TableFile] = parquet_file,
) -> dict[str, int]:
    """Write all tables in one pass over the log, and return the number of rows of each."""
    with ExitStack() as stack:
        files = {}
        for name, schema in plan.schemas.items():
            files[name] = make(paths[name], schema)
            stack.callback(files[name].close)
        counts = dict.fromkeys(files, 0)
        for name, batch in plan.batches():
            files[name].write_batch(batch)
            counts[name] += batch.num_rows
        return counts


def _write_schema(
    path: Path,
    schemas: Mapping[str, TableSchema],
    rows: Mapping[str, int],
    files: Mapping[str, str],
) -> None:
    described: dict[str, Json] = {
        name: {
            "doc": DEFINITIONS[name].doc,
            "file": files[name],
            "rows": rows[name],
            **schema.as_dict(),
        }
        for name, schema in schemas.items()
    }
    lines = json.dumps({"tables": described}, indent=2, ensure_ascii=False).split("\n")
    write_whole(path, ("\n".join(map(escaped_json, lines)) + "\n").encode())
