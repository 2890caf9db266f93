"""`placet report`: a page about a run or a study, in one file."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from placet.cli.progress import read_log
from placet.cli.terminal import Output, with_json


@with_json
def report(
    source: Annotated[str, typer.Argument(metavar="STORE", help="A log, or a study's folder.")],
    to: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Path of the page. Default: NAME-report.html here."),
    ] = None,
    *,
    collected: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Collected rows. Default: STORE.collected, if any."),
    ] = None,
    portrayal: Annotated[
        str | None,
        typer.Option(
            metavar="SCENARIO",
            help="Name the values of fields by the [portrayal] of a scenario: a name, or a TOML "
            "file. Default: the bundled one that the log names.",
        ),
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> Output:
    """Write a page about a run or a study.

    Rates, refusals by code, fairness, state, effects and cost of a run; the outcomes of a study
    over its options, and paired differences. Each figure has its data. The page is one file, and
    opens without a network.
    """
    from placet.lab.reporting.report import report as written  # noqa: PLC0415  # scenarios with it

    is_study = Path(source).is_dir()
    chosen = source if is_study else read_log(source, "report")
    path = written(chosen, to, collected=collected, portrayal=portrayal)
    size = path.stat().st_size
    if open_it:
        webbrowser.open(Path(path).resolve().as_uri())
    return Output({"path": str(path), "bytes": size}, [f"{path}: {size / 1000:.0f} kB"])
