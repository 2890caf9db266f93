"""`placet bench`: how fast is it, on this machine?"""

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
) -> Output:
    """Measure workloads beside a hand-written loop."""
    # Here, because no other command needs the benchmarks and their imports.
    from placet_bench import WORKLOADS, notes_of, run, tables_of  # noqa: PLC0415  # see above

    names = [name.lower() for name in workloads or ()]
    for name in names:
        if name not in WORKLOADS:
            raise CommandError(
                f"unknown workload {name!r}; the workloads are {', '.join(WORKLOADS)}"
            )
    with progress_bar("bench", None, "workloads") as on_progress:
        results = run(names, seconds, on_progress=on_progress)
    lines: list[Line] = []
    for table in tables_of(results):
        lines += [table, ""]
    lines += notes_of(results)
    lines.append(f"{results[0]['python']}; {results[0]['machine']}; {seconds:g} s each")
    return Output(results, lines)
