"""`placet sweep`: run scenarios under many settings and seeds, into a folder."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

import typer
from msgspec import Raw

from placet.cli import completion
from placet.cli.progress import progress_bar
from placet.cli.signals import Terminated, terminated_as_interrupted
from placet.cli.terminal import Line, Output, TextTable, complain, pluralize, shorten, with_json
from placet.schemas.codec import Json
from placet.schemas.printable import printable

if TYPE_CHECKING:
    from placet.scenarios import Scenario
    from placet.sweeps.results import Results

_Scenarios: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="SCENARIO",
        help="A bundled scenario such as town, or a TOML file.",
        autocompletion=completion.scenarios,
    ),
]
_Axes: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUES",
        help="Values of a key, such as settings.max_step=0.5,1,2 or agents.folk.count=50..200:50. "
        "Repeatable: all combinations are run.",
    ),
]
_Seeds: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="SEEDS", help="Seeds of each combination, such as 1..20 or 1,2,5."),
]
_Agents: TypeAlias = Annotated[
    int | None, typer.Option(min=0, metavar="N", help="Number of agents, divided in proportion.")
]
_Ticks: TypeAlias = Annotated[int | None, typer.Option(min=0, metavar="N", help="Number of ticks.")]
_Jobs: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Worker processes; 1: this process. Default: a worker; on Ray all slots.",
    ),
]
_To: TypeAlias = Annotated[
    Path,
    typer.Option(
        metavar="FOLDER",
        help="Folder of the study. Runs that are finished in it are not repeated.",
    ),
]
_Outcomes: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--outcome",
        metavar="MODULE:FUNCTION",
        help="Function of the final state, for a column of the results. Repeatable.",
    ),
]
_LogsKept: TypeAlias = Annotated[
    Literal["all", "failed", "none"], typer.Option(help="Runs that keep their logs.")
]
_Retry: TypeAlias = Annotated[bool, typer.Option("--retry", help="Run the failed runs alone.")]
_Anyway: TypeAlias = Annotated[
    bool,
    typer.Option("--anyway", help="Go on in a study of other code; rows get a column `code`."),
]
_Timeout: TypeAlias = Annotated[
    float | None, typer.Option(min=0.1, metavar="S", help="Longest time of a run, seconds.")
]
_On: TypeAlias = Annotated[
    Literal["here", "ray"], typer.Option(help="Run in processes of this machine, or on Ray.")
]
_RayAddress: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Head of a Ray cluster. Default: a Ray of this sweep alone, on this machine.",
    ),
]
_Ship: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="PATH",
        help="File or folder below the current folder that the scenario reads on Ray. Repeatable.",
    ),
]


_SETTINGS_SHOWN: Final = 20
_LONG: Final = 1e4


@with_json
def sweep(
    scenario: _Scenarios,
    *,
    to: _To,
    axes: _Axes = None,
    seeds: _Seeds = None,
    agents: _Agents = None,
    ticks: _Ticks = None,
    jobs: _Jobs = None,
    outcomes: _Outcomes = None,
    logs: _LogsKept = "none",
    retry: _Retry = False,
    anyway: _Anyway = False,
    timeout: _Timeout = None,
    on: _On = "here",
    ray_address: _RayAddress = None,
    ship: _Ship = None,
) -> Output:
    """Run scenarios under many settings and seeds.

    All combinations are run into a folder, which gets a row for each finished run. Killed anywhere
    and started again, a sweep repeats no finished run. A run that fails is a row with its error.
    """
    if on != "ray" and (ray_address is not None or ship):
        raise typer.BadParameter("--ray-address and --ship belong to --on ray")
    # Here, because scenarios and what checks them are 60 ms that the help need not pay.
    from placet.sweeps.axes import read_seeds  # noqa: PLC0415  # see above
    from placet.sweeps.sweep import run_scenarios  # noqa: PLC0415  # see above

    scenarios, columns = _scenarios(scenario, axes or [], agents, ticks)
    chosen = None if seeds is None else read_seeds(seeds)
    total = len(scenarios) * (1 if chosen is None else len(chosen))
    try:
        with terminated_as_interrupted(), progress_bar(scenario, total, "runs") as update:
            results = run_scenarios(
                scenarios,
                seeds=chosen,
                outcome=outcomes or [],
                jobs=jobs,
                to=to,
                logs=logs,
                retry=retry,
                anyway=anyway,
                timeout_s=timeout,
                columns=columns,
                on=on,
                ray_address=ray_address,
                ship=ship or (),
                on_progress=lambda progress: update(progress.finished),
                on_notice=complain,
            )
    except KeyboardInterrupt as stop:
        complain(f"stopped; finished runs are kept in {to}. Run the same command to continue")
        raise typer.Exit(Terminated.exit_code if isinstance(stop, Terminated) else 130) from None
    return _result(results, to)


def _result(results: "Results", to: Path) -> Output:
    value = {"study": str(to), "runs": len(results), "rows": results.rows}
    # By `json`, which writes the NaN of an outcome: JSON lacks it, and another writes null.
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Output(Raw(text.encode()), _lines(results, to), not results.failed)


def _cell(value: Json) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < _LONG else f"{value:.0f}"
    return "" if value is None else str(value)


def _scenarios(
    name: str, axes: Sequence[str], agents: int | None, ticks: int | None
) -> tuple[list["Scenario"], list[str]]:
    """Return the scenarios of the command's options, and the keys that they set."""
    from placet.scenarios import Scenario  # noqa: PLC0415  # as above
    from placet.scenarios.loader import split_override  # noqa: PLC0415  # as above
    from placet.sweeps.axes import read_axis  # noqa: PLC0415  # as above

    base = Scenario.load(name, overrides=[] if ticks is None else [f"ticks={ticks}"])
    if agents is not None:
        base = base.with_agents(agents)
    values = {}
    for axis in axes:
        path, text = split_override(axis)
        values[".".join(path)] = read_axis(base, ".".join(path), text)
    return base.product(values), list(values)


def _lines(results: "Results", to: Path) -> Iterator[Line]:
    means = results.by_scenario()
    if len(means) in {1, len(results)}:
        head, *rows = results.first_cells()
        failed = f", {len(results.failed)} failed" if results.failed else ""
        yield f"Results of {pluralize(len(results), 'run')}{failed}"
        yield TextTable(rows, head)
        if len(rows) < len(results):
            yield f"  ... and {len(results) - len(rows)} more"
    else:
        yield f"{pluralize(len(results), 'run')}, means over the seeds of each setting:"
        shown = [[_cell(value) for value in row.values()] for row in means[:_SETTINGS_SHOWN]]
        yield TextTable(shown, list(means[0]))
        if len(means) > _SETTINGS_SHOWN:
            yield f"  ... and {len(means) - _SETTINGS_SHOWN} more settings"
    for row in results.failed[:3]:
        yield f"  failed, seed {row['seed']}: {shorten(printable(row['error']), 300)}"
    yield ""
    if results.failed:
        yield f"  Run the {pluralize(len(results.failed), 'failed run')} again: --retry"
    yield f"  The rows are in {quote(str(to))}. In Python:"
    yield f"    from placet.lab import Results; Results.load({str(to)!r}).to_pandas()"
