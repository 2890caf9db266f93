"""`placet bench`: how fast is it, on this machine?"""

from dataclasses import replace
from typing import Annotated

import typer

from placet.cli.progress import progress_bar
from placet.cli.terminal import CommandError, Line, Output, with_json


@with_json
def bench(
    workloads: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORKLOAD]...", help="Such as w1 w4. Default: the main ones."),
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=0.01, metavar="S", help="Duration of each measurement, seconds.")
    ] = 5.0,
    column_agents: Annotated[
        int | None,
        typer.Option(
            min=2,
            metavar="N",
            help="One more size of the populations of workload columns, such as 1000000.",
        ),
    ] = None,
) -> Output:
    """Measure workloads beside a hand-written loop."""
    # Here, because no other command needs the benchmarks and their imports.
    from placet_bench import WORKLOADS, Scale, notes_of, run, tables_of  # noqa: PLC0415  # see above

    names = [name.lower() for name in workloads or ()]
    for name in names:
        if name not in WORKLOADS:
            raise CommandError(
                f"unknown workload {name!r}; the workloads are {', '.join(WORKLOADS)}"
            )
    scale = Scale()
    if column_agents is not None:
        scale = replace(scale, column_agents=(*scale.column_agents, column_agents))
    with progress_bar("bench", None, "workloads") as on_progress:
        results = run(names, seconds, scale=scale, on_progress=on_progress)
    lines: list[Line] = []
    for table in tables_of(results):
        lines += [table, ""]
    lines += notes_of(results)
    lines.append(f"{results[0]['python']}; {results[0]['machine']}; {seconds:g} s each")
    return Output(results, lines)
