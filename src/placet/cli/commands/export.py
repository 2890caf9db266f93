"""`placet export`: tables of a log as Parquet, Arrow or CSV files."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import perf_counter
from typing import Annotated, TypeAlias

import typer

from placet.cli import completion
from placet.cli.progress import progress_bar
from placet.cli.selection import (
    AgentOption,
    FromOption,
    GrepOption,
    KindOption,
    RefusedOption,
    selection_of,
)
from placet.cli.terminal import Line, Output, StoreArgument, TextTable, notify, number, with_json
from placet.stores.gc_tuning import tuned_gc
from placet.stores.reading import log_to_read

_Targets: TypeAlias = Annotated[
    list[str],
    typer.Option(
        "--to",
        metavar="DIR|FILE|SEQ",
        help="A folder to make, or a file that ends in .parquet, .csv or .arrow. Given once more "
        "with a number: the last seq.",
    ),
]
_TableNames: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--table",
        metavar="NAME",
        help="Only this table: intents, refusals, changes, entities, effects, agents, ticks or "
        "model_calls. Repeatable. Default: all in a folder; in a file intents, or refusals with "
        "--refused.",
        autocompletion=completion.tables,
    ),
]
_Every: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="TICKS",
        help="Rows of entities after every so many ticks. Default: only at the end.",
    ),
]
_DefuseFormulas: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--defuse-formulas",
        help="In a .csv file, put a ' before texts that a spreadsheet would run as formulas.",
    ),
]


@with_json
def export(
    store: StoreArgument,
    to: _Targets,
    *,
    tables: _TableNames = None,
    every: _Every = None,
    defuse_formulas: _DefuseFormulas = False,
    agent: AgentOption = None,
    kind: KindOption = None,
    refused: RefusedOption = False,
    from_seq: FromOption = 0,
    grep: GrepOption = None,
) -> Output:
    """Export tables of a log as Parquet, Arrow or CSV files.

    The log may be written meanwhile: it is exported up to its present end. Exported again, the rows
    are the same. Needs `pip install '.[lab]'` in a clone of placet.
    """
    # Here, because the tables need domains and pyarrow, which the help need not load.
    from placet.tables.export import export as export_tables  # noqa: PLC0415  # see above
    from placet.tables.plan import TableOptions  # noqa: PLC0415  # see above

    target, to_seq = _target_and_seq(to)
    selection = selection_of(from_seq, to_seq, agent, kind, refused=refused, grep=grep)
    options = TableOptions(selection, tuple(tables or ()), every)
    log, started = log_to_read(store), perf_counter()
    with progress_bar(f"export {store}", None, "records") as on_record, tuned_gc():
        report = export_tables(
            log, target, options, defuses_formulas=defuse_formulas, on_record=on_record
        )
    seconds = perf_counter() - started
    rows = dict(report.rows)
    value = {"target": str(report.target), "rows": rows, "seconds": round(seconds, 3)}
    return Output(value, _lines(str(report.target), rows, seconds))


def _lines(target: str, rows: Mapping[str, int], seconds: float) -> Iterator[Line]:
    yield target
    yield TextTable([(name, f"{number(count):>12} rows") for name, count in rows.items()])
    if sys.stderr.isatty():
        total = sum(rows.values())
        rate = number(total / max(seconds, 1e-9))
        notify(f"{number(total)} rows in {seconds:.1f} s, {rate} rows/s")


def _target_and_seq(values: list[str]) -> tuple[Path, int | None]:
    """Separate the two meanings of --to: where the tables go, and up to which seq.

    Raises:
        BadParameter: There is no target, or there are several of one meaning.
    """
    seqs = [int(value) for value in values if value.isdecimal()]
    targets = [Path(value) for value in values if not value.isdecimal()]
    if len(targets) != 1 or len(seqs) > 1:
        raise typer.BadParameter(
            "give --to once with a folder or a file, and at most once more with a seq; a folder "
            f"named by a number is ./NUMBER. Got {', '.join(values)}",
            param_hint="--to",
        )
    return targets[0], seqs[0] if seqs else None
