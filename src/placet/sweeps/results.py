"""The results of a sweep: a row for each run, as plain values, a data frame or a file."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from placet.scenarios.scenario import full_key, leaves_of
from placet.schemas.codec import Json
from placet.schemas.html_table import html_table
from placet.schemas.name_suggestions import did_you_mean
from placet.schemas.printable import defused, printable
from placet.sweeps.columns import CODE, COUNTS, ENDED_AT, ENDS, RULE_ERRORS, SEED, TABLES
from placet.sweeps.errors import LabError
from placet.sweeps.files import replaced_whole
from placet.sweeps.formats import Row
from placet.sweeps.plan import run_key
from placet.sweeps.study import COLLECTED, LOGS, Study
from placet.tables.arrow import json_text
from placet.tables.column_types import JSON, ColumnType

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from placet.tables.table import ArrowTable


_SHOWN_ROWS: Final = 10
_SHOWN_CHARS: Final = 12


class StudyRun(NamedTuple):
    """A finished run in the folder of its study.

    Attributes:
        key: Its name in the study: of its code, its scenario and its seed.
        code: Hash of its code version: packages, modules, and the rules with their settings.
        log: Path of its log; None if none is kept.
    """

    key: str
    code: str
    log: Path | None


class Results(Sequence[Row]):
    """The rows of a sweep, in the order of its scenarios and seeds.

    A row has the dotted keys in which the scenarios differ, `seed`, the outcomes, the counts of
    intents `submitted`, `admitted` and `refused`, `seq`, `digest`, `status` (`done`, `failed`,
    `died`, `timeout`), `error` (None if done) and `seconds`. If the study has rows of several code
    versions, also `code`; and of scenarios with `on_rule_error = "refuse"`, also `rule_errors`;
    of scenarios with `until`, `ended_at`: the tick after which it was true, None if it never was.

    Args:
        rows: The rows, all with the keys `columns`.
        columns: Names of the columns, in order.
        parameters: The columns that are keys of the scenarios.
        outcomes: The columns of outcome functions.
        groups: Number of the scenario of each row, from 0 on.
        folder: Folder of the study; None if it is not kept.
        places: Where the collected tables of each row lie, by name.
        keys: Key of the run of each row in the study, and the hash of its code version.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        columns: Sequence[str],
        *,
        parameters: Sequence[str] = (),
        outcomes: Sequence[str] = (),
        groups: Sequence[int] = (),
        folder: Path | None = None,
        places: Sequence[Mapping[str, Sequence[Json]]] = (),
        keys: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.rows = list(rows)
        self.columns = list(columns)
        self.parameters = list(parameters)
        self.outcomes = list(outcomes)
        self._groups = list(groups)
        self._folder, self._places, self._keys = folder, list(places), list(keys)

    @classmethod
    def load(cls, folder: str | Path) -> "Results":
        """Return the results of all finished runs of a study.

        A failed run that was run again with other code (`retry` and `anyway`) has its later row.

        Raises:
            LabError: The folder is no study.
        """
        study = Study(folder)
        if not study.manifest["plans"]:
            raise LabError(f"{folder} is no study: it has no manifest")
        study.read_rows()
        study.remove_replaced()
        return results_of(study, _planned_keys(study))

    @property
    def failed(self) -> list[Row]:
        """The rows of runs that ended with an error."""
        return [row for row in self.rows if row["error"] is not None]

    @property
    def runs(self) -> list[StudyRun]:
        """The key, the code version and the log of each row's run; empty for rows of no study."""
        logs = [self._folder / LOGS / f"{key}.db" for key, _ in self._keys if self._folder]
        return [
            StudyRun(key, code, log if log.is_file() else None)
            for (key, code), log in zip(self._keys, logs, strict=True)
        ]

    def column(self, name: str) -> list[Json]:
        """Return the values of a column, one a row.

        Raises:
            LabError: There is no such column.
        """
        if name not in self.columns:
            raise LabError(f"there is no column {name!r}; {did_you_mean(name, self.columns)}")
        return [row[name] for row in self.rows]

    def means(self, name: str) -> list[float]:
        """Return the mean of a numeric column over the seeds of each scenario, in their order.

        Raises:
            LabError: There is no such column, or a scenario has no run with a number in it.
        """
        means: dict[int, list[float]] = {group: [] for group in self._groups}
        for group, value in zip(self._groups, self.column(name), strict=True):
            if isinstance(value, int | float):
                means[group].append(value)
        for group, values in means.items():
            if not values:
                row = self.rows[self._groups.index(group)]
                shown = {key: row[key] for key in self.parameters}
                raise LabError(f"no run of {shown} has a number in {name!r}; see `failed`")
        return [sum(values) / len(values) for values in means.values()]

    def by_scenario(self) -> list[Row]:
        """Return a row for each scenario: its parameters, its runs, and means over their seeds.

        Returns:
            Rows of the parameters, `runs`, `failed`, and the mean of each outcome and count, which
            is None where no run has a number.
        """
        groups: dict[int, list[Row]] = {}
        for group, row in zip(self._groups, self.rows, strict=True):
            groups.setdefault(group, []).append(row)
        measures = [*self.outcomes, *COUNTS, *({RULE_ERRORS, ENDED_AT} & set(self.columns))]
        return [
            {
                **{key: rows[0][key] for key in self.parameters},
                "runs": len(rows),
                "failed": sum(row["error"] is not None for row in rows),
                **{name: _mean(row[name] for row in rows) for name in measures},
            }
            for rows in groups.values()
        ]

    @property
    def tables(self) -> list[str]:
        """The names of the collected tables."""
        return list(dict.fromkeys(table for places in self._places for table in places))

    def collected(self, name: str, *, run: int | None = None) -> "ArrowTable":
        """Return the collected rows of all runs: of `agents`, `world` or `refusals`.

        The columns begin with the keys in which the scenarios differ, and the seed.

        Args:
            name: Name of the table.
            run: Number of the row whose run is read alone, from 0 on; None for all runs. A run that
                failed before its first tick has no rows.

        Raises:
            LabError: No run collected the table, there is no such run, the folder was not kept, or
                it cannot be read.
            MissingExtraError: pyarrow is not installed.
        """
        from placet.sweeps.collected import joined_table  # noqa: PLC0415  # an extra

        if name not in self.tables:
            hint = did_you_mean(name, self.tables)
            raise LabError(f"no run collected a table {name!r} by [collect]; {hint}")
        if run is not None and run not in range(len(self)):
            raise LabError(f"there is no run {run}: the rows are 0 to {len(self) - 1}")
        folder = None if self._folder is None else self._folder / COLLECTED
        if folder is None or not folder.exists():
            raise LabError("collected rows are kept in the folder of a study; name one with `to`")
        keys = (*self.parameters, SEED)
        runs = [
            ({key: row[key] for key in keys}, places.get(name))
            for row, places in zip(self.rows, self._places, strict=True)
        ]
        chosen = runs if run is None else runs[run : run + 1]
        return joined_table(name, folder, chosen)

    def to_arrow(self) -> "pyarrow.Table":
        """Return an Arrow table; values of several types in a column become JSON text.

        Raises:
            LabError: pyarrow is not installed.
        """
        library = _library(
            "pyarrow", "Arrow tables need pyarrow: pip install '.[lab]' in a clone of placet"
        )
        table: pyarrow.Table = library.table(self._typed_columns())
        return table

    def to_pandas(self) -> "pandas.DataFrame":
        """Return a pandas data frame.

        Raises:
            LabError: pandas is not installed.
        """
        library = _library("pandas", "pandas is not installed: pip install pandas")
        frame: pandas.DataFrame = library.DataFrame(self.rows, columns=self.columns)
        return frame

    def to_polars(self) -> "polars.DataFrame":
        """Return a polars data frame.

        Raises:
            LabError: polars is not installed.
        """
        library = _library("polars", "polars is not installed: pip install polars")
        frame: polars.DataFrame = library.DataFrame(self._typed_columns())
        return frame

    def write(self, path: str | Path, *, defuses_formulas: bool = False) -> Path:
        """Write the rows to a file, by its ending: .csv, .jsonl, .parquet or .arrow.

        Args:
            path: Path of the file.
            defuses_formulas: In a .csv file, put a `'` before texts and names of columns that a
                spreadsheet may run, as `placet export --defuse-formulas` does.

        Raises:
            LabError: The ending is another, or not .csv where formulas are defused; the extra
                `lab` is missing for Parquet and Arrow; or the file cannot be written.
        """
        path = Path(path)
        if path.suffix not in {".csv", ".jsonl", ".parquet", ".arrow"}:
            raise LabError(f"{path}: expected an ending .csv, .jsonl, .parquet or .arrow")
        if defuses_formulas and path.suffix != ".csv":
            raise LabError(f"{path}: a spreadsheet runs formulas of CSV alone; expected .csv")
        with replaced_whole(path) as draft:
            if path.suffix == ".jsonl":
                draft.write_text("".join(json.dumps(row) + "\n" for row in self.rows))
            elif path.suffix == ".csv":
                draft.write_text(
                    self._as_csv(defused if defuses_formulas else str), encoding="utf-8", newline=""
                )
            else:
                table = self.to_arrow()
                from pyarrow import feather, parquet  # noqa: PLC0415  # an extra

                if path.suffix == ".parquet":
                    parquet.write_table(table, draft)
                else:
                    feather.write_feather(table, str(draft), compression="uncompressed")
        return path

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401  # an int or a slice
        return self.rows[index]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def first_cells(self) -> list[list[str]]:
        """Return the first rows as text for people, below the names of the columns shown."""
        hidden = {"status", "seq", "seconds", *(() if self.failed else ("error",))}
        shown = [name for name in self.columns if name not in hidden]
        rows = self.rows[:_SHOWN_ROWS]
        return [[*map(_short, shown)], *([_short(row[name]) for name in shown] for row in rows)]

    def __repr__(self) -> str:
        lines = [f"Results of {self._counts()}"]
        cells = self.first_cells()
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for line in cells:
            padded = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
            lines.append("  " + "  ".join(padded))
        if len(self) > _SHOWN_ROWS:
            lines.append(f"  ... and {len(self) - _SHOWN_ROWS} more")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        names, *rows = self.first_cells()
        first = f", the first {_SHOWN_ROWS}" if len(self) > _SHOWN_ROWS else ""
        return html_table(self._counts() + first, names, rows)

    def _counts(self) -> str:
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"{len(self)} run{'' if len(self) == 1 else 's'}{failed}"

    def _typed_columns(self) -> dict[str, list[Json]]:
        return {name: _one_type([row[name] for row in self.rows]) for name in self.columns}

    def _as_csv(self, shown: Callable[[str], str]) -> str:
        """Return the rows as CSV, as `placet.tables.files.CsvFile` writes it."""
        lines = [self.columns, *zip(*self._typed_columns().values(), strict=True)]
        return "".join(",".join(_csv_cell(cell, shown) for cell in line) + "\n" for line in lines)


def _library(name: str, advice: str) -> Any:  # noqa: ANN401  # an extra, or the user's
    try:
        return import_module(name)
    except ImportError:
        raise LabError(advice) from None


def results_of(study: Study, keys: Iterable[Sequence[str]], columns: Iterable[str] = ()) -> Results:
    """Return the results of those runs of a study that are finished.

    Args:
        study: The study, with its rows read.
        keys: Keys of the runs of each scenario, in order.
        columns: Keys of the scenarios to show although all scenarios have one value.
    """
    placed = [
        (group, key, study.rows[key])
        for group, of_scenario in enumerate(keys)
        for key in of_scenario
        if key in study.rows
    ]
    rows = [row for *_, row in placed]
    leaves = {
        digest: leaves_of(study.scenario(digest))
        for digest in dict.fromkeys(row["scenario"] for row in rows)
    }
    parameters = _differing(list(leaves.values()), [full_key(key) for key in columns])
    outcomes = list(dict.fromkeys(name for row in rows for name in row.get("outcomes", ())))
    versions = {(row["scenario"], row["code"]) for row in rows}
    with_code = len(versions) > len(leaves)
    optional = (RULE_ERRORS, ENDED_AT)
    counts = [*COUNTS, *(name for name in optional if any(name in row for row in rows))]
    names = [*parameters, SEED, *outcomes, *counts, *ENDS, *([CODE] if with_code else [])]
    flat = [
        {
            **{key: leaves[row["scenario"]].get(key) for key in parameters},
            **{name: row.get("outcomes", {}).get(name) for name in outcomes},
            **{name: row.get(name) for name in (SEED, *counts, *ENDS)},
            **({CODE: row[CODE]} if with_code else {}),
        }
        for row in rows
    ]
    names = list(dict.fromkeys(names))  # the row of another release may name an outcome alike
    ordered = [{name: row[name] for name in names} for row in flat]
    return Results(
        ordered,
        names,
        parameters=parameters,
        outcomes=outcomes,
        groups=[group for group, *_ in placed],
        folder=study.folder,
        places=[row.get(COLLECTED, {}) for row in rows],
        keys=[(key, row[CODE]) for _, key, row in placed],
    )


def _differing(leaves: Sequence[Mapping[str, Json]], wanted: Iterable[str]) -> list[str]:
    """Return the wanted keys, then the other keys in which scenarios differ."""
    keys = dict.fromkeys(key for values in leaves for key in values if key not in TABLES)
    differing = [key for key in keys if len({json.dumps(values.get(key)) for values in leaves}) > 1]
    return list(dict.fromkeys([*(key for key in wanted if key in keys), *differing]))


def _planned_keys(study: Study) -> Iterator[list[str]]:
    """Yield the keys of the finished runs of each scenario; those of several plans stand once.

    Runs of a scenario with several codes are apart only if a seed was run with several.
    """
    scenarios: dict[str, dict[int, dict[str, str]]] = {}
    for plan in study.manifest["plans"]:
        for (scenario, code), own in zip(plan["scenarios"], plan["own_seeds"], strict=True):
            for seed in plan["seeds"] or [own]:
                of_seed = scenarios.setdefault(scenario, {}).setdefault(seed, {})
                if (key := run_key(code, scenario, seed)) in study.rows:
                    of_seed[code] = key
    for seeds in scenarios.values():
        is_apart = any(len(keys) > 1 for keys in seeds.values())
        groups: dict[str, list[str]] = {}
        for keys in seeds.values():
            for code, key in keys.items():
                groups.setdefault(code if is_apart else "", []).append(key)
        yield from groups.values()


def _mean(values: Iterable[Json]) -> float | None:
    numbers = [value for value in values if isinstance(value, int | float)]
    return sum(numbers) / len(numbers) if numbers else None


def _one_type(values: list[Json]) -> list[Json]:
    """Return values of one type unchanged, numbers as floats, and others as JSON text."""
    known = ColumnType()
    known.add_all(values)
    if known.name == JSON:
        return [None if value is None else json_text(value) for value in values]
    is_float = known.name == "float64"
    return [float(value) if is_float and value is not None else value for value in values]


def _csv_cell(value: Json, shown: Callable[[str], str]) -> str:
    if value is None:
        return ""
    if not isinstance(value, str | list):
        return str(value).lower()
    text = json_text(value) if isinstance(value, list) else shown(value)
    return '"' + text.replace('"', '""') + '"'


def _short(value: Json) -> str:
    if value is None:
        return ""
    text = f"{value:.6g}" if isinstance(value, float) else printable(str(value))
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 1]}…"
