"""Texts in files: whatever writes them, every reader finds the texts that were there."""

import csv
import json
import tempfile
from contextlib import closing
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from placet import Log, Simulation
from placet.domains.world import World
from placet.lab import Collector, Results
from placet.schemas.printable import defused
from placet.stores.reading import log_to_read
from placet.sweeps.errors import LabError
from placet.tables.arrow import TableSchema
from placet.tables.definitions import Column
from placet.tables.export import export
from placet.tables.files import CsvFile, ExportError
from placet.tables.plan import TableOptions
from tests.cli.command_line import CommandLine
from tests.levels import examples

HARD = [
    *(
        "",
        " ",
        " a ",
        "\n",
        "\r",
        "\r\n",
        "a\nb",
        "a\\nb",
        "\t=1",
        "\x00",
        "a\x00b",
        "\x1a",
        "\x1b",
    ),
    *(
        "=1",
        "+49",
        "-1",
        "@ann",
        "'=1",
        "'",
        "#",
        '"',
        '""',
        'a"b',
        "a,b",
        ";",
        "\\",
        "\\N",
        "[",
        "{",
    ),
    *("NA", "NaN", "null", "None", "true", "1", "1.0", "007", "1e5", "2026-01-01", "\ufeff"),
    *("\x85", "\u2028", "\u202e", "\u0645\u200c\u062e", "\U0001f469\u200d\U0001f467", "e\u0301"),
]
"""Texts that some writer or reader of tables changes."""

TEXTS = st.lists(st.sampled_from(HARD) | st.text(max_size=6), min_size=1, max_size=8)


def from_csv(path, column):
    with path.open(newline="", encoding="utf-8") as file:
        return [row[column] for row in csv.DictReader(file)]


def from_csv_by_pandas(path, column):
    return pd.read_csv(path, dtype=str, keep_default_na=False)[column].tolist()


def from_csv_by_polars(path, column):
    return pl.read_csv(path, infer_schema=False)[column].to_list()


def from_csv_by_duckdb(path, column):
    options = "all_varchar = true, quote = '\"', escape = '\"', allow_quoted_nulls = false"
    rows = duckdb.sql(f"select \"{column}\" from read_csv('{path}', header = true, {options})")
    assert rows is not None
    return [cell for (cell,) in rows.fetchall()]


def from_json_lines_by_duckdb(path, column):
    rows = duckdb.sql(
        f"select \"{column}\" from read_json('{path}', columns = {{'{column}': 'varchar'}})"
    )
    assert rows is not None
    return [cell for (cell,) in rows.fetchall()]


READERS = {
    ".csv": [from_csv, from_csv_by_pandas, from_csv_by_polars, from_csv_by_duckdb],
    ".jsonl": [
        lambda path, column: [json.loads(line)[column] for line in path.read_text().splitlines()],
        lambda path, column: pd.read_json(path, lines=True, dtype=False)[column].tolist(),
        lambda path, column: pl.read_ndjson(path, infer_schema_length=None)[column].to_list(),
        from_json_lines_by_duckdb,
    ],
    ".parquet": [
        lambda path, column: pd.read_parquet(path)[column].tolist(),
        lambda path, column: pl.read_parquet(path)[column].to_list(),
        lambda path, column: duckdb.read_parquet(str(path)).df()[column].tolist(),
    ],
    ".arrow": [
        lambda path, column: pl.read_ipc(path)[column].to_list(),
        lambda path, column: pa.ipc.open_file(path).read_all()[column].to_pylist(),
    ],
}
"""Ending of a file -> functions that return the texts of a column."""

TELL_NULL = {from_csv_by_polars, from_csv_by_duckdb}
"""Readers of CSV to which an empty text differs from null."""


def assert_read(path, column, texts):
    for reader in READERS[path.suffix]:
        assert reader(path, column) == texts, path.suffix


@settings(max_examples=examples(20), deadline=None)
@given(TEXTS)
@example(HARD)
def test_results_of_a_sweep_keep_texts_in_every_format(texts):
    # The reader that infers types from JSON lines reads dates; a letter keeps the column a text.
    texts = [*texts, "x"]
    some = [text if place % 2 else None for place, text in enumerate(texts)]
    rows = [{"text": text, "maybe": one} for text, one in zip(texts, some, strict=True)]
    results = Results(rows, ["text", "maybe"])
    with tempfile.TemporaryDirectory() as folder:
        for ending, readers in READERS.items():
            path = results.write(Path(folder) / f"rows{ending}")
            assert_read(path, "text", texts)
            for reader in readers if ending != ".csv" else TELL_NULL:
                assert [None if pd.isna(t) else t for t in reader(path, "maybe")] == some


def said(texts, folder):
    """Write a log in which texts are said, one a tick; return its path, and the collected rows."""

    def talk(view, intent):
        return [intent("Speak", text=texts[int(view.sim_time)])]

    collected = Path(folder) / "rows"
    ticks = iter(texts)
    store = f"sqlite:///{folder}/talk.db"
    with (
        closing(Collector(world={"text": lambda _: next(ticks)}, to=collected)) as collector,
        Simulation(
            World(), agents={"folk": (1, talk)}, store=store, collector=collector
        ) as simulation,
    ):
        simulation.run(ticks=len(texts))
    return Path(folder) / "talk.db", collected / "world.parquet"


@settings(max_examples=10, deadline=None)
@given(TEXTS.map(lambda texts: [text or "0" for text in texts]))
@example(HARD[1:])
def test_an_export_and_collected_rows_keep_the_texts_of_a_log(texts):
    with tempfile.TemporaryDirectory() as folder:
        path, collected = said(texts, folder)
        assert [row["payload"]["text"] for row in Log(path).intents] == texts
        assert_read(collected, "text", texts)
        for ending in (".csv", ".parquet", ".arrow"):
            target = path.with_suffix(ending)
            with closing(log_to_read(str(path))) as log:
                export(log, target, TableOptions())
            assert_read(target, "Speak.text", texts)


NAMES = st.lists(st.sampled_from(HARD) | st.text(max_size=6), min_size=2, unique=True)


@settings(max_examples=examples(20), deadline=None)
@given(NAMES)
def test_names_of_columns_and_cells_of_json_stand_in_csv_as_they_are(names):
    schema = TableSchema([Column(name, "json", "") for name in names], {}, {})
    cells = [json.dumps([name, -1]) for name in names]
    arrays = [
        pa.ExtensionArray.from_storage(kind, pa.array([cell]))
        for kind, cell in zip(schema.arrow().types, cells, strict=True)
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        with closing(CsvFile(path, schema)) as file:
            file.write_batch(pa.record_batch(arrays, schema=schema.arrow()))
        with path.open(newline="", encoding="utf-8") as lines:
            assert [*csv.reader(lines)] == [names, cells]
        results = Results([dict(zip(names, cells, strict=True))], names)
        assert results.write(Path(folder) / "r.csv").read_bytes() == path.read_bytes()


def test_defused_texts_of_a_csv_file_are_found_again(tmp_path, capsys):
    path, _ = said(HARD[1:], tmp_path)
    call = CommandLine(capsys, tmp_path)
    call("export", str(path), "--to", f"{tmp_path}/x.csv", "--defuse-formulas")
    rows = [{"=name": text} for text in HARD[1:]]
    results = Results(rows, ["=name"])
    written = results.write(tmp_path / "rows.csv", defuses_formulas=True)
    for file, column in ((tmp_path / "x.csv", "Speak.text"), (written, "'=name")):
        shown = from_csv(file, column)
        assert shown == [defused(text) for text in HARD[1:]]
        assert [text.removeprefix("'") for text in shown] == HARD[1:]
    with closing(log_to_read(str(path))) as log, pytest.raises(ExportError, match=r"CSV alone"):
        export(log, tmp_path / "x.parquet", TableOptions(), defuses_formulas=True)
    with pytest.raises(LabError, match=r"expected \.csv"):
        results.write(tmp_path / "x.parquet", defuses_formulas=True)


def test_values_of_several_types_stay_apart_in_csv_as_in_parquet(tmp_path):
    values = ["1", 1, "a", None, True, "true", ["1"]]
    results = Results([{"n": n, "v": value} for n, value in enumerate(values)], ["n", "v"])
    cells = from_csv(results.write(tmp_path / "v.csv"), "v")
    stored = pq.read_table(results.write(tmp_path / "v.parquet"))["v"].to_pylist()
    assert [None if cell is None else json.loads(cell) for cell in stored] == values
    assert cells == ["" if cell is None else cell for cell in stored]
