"""A progress bar on a terminal, and nothing anywhere else."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(description: str, total: int | None, unit: str) -> Iterator[Callable[..., None]]:
    """Show a bar with rate and time left while the block runs; it is removed at the end.

    Args:
        description: Text before the bar.
        total: Number of units at the end; None if it is known only later.
        unit: Plural noun of the units, such as `ticks`.

    Yields:
        A function to call with the number of completed units, and optionally with their total.
    """
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    # Here, because it costs a sixth of a second.
    from rich.console import Console  # noqa: PLC0415  # see above
    from rich.progress import (  # noqa: PLC0415  # see above
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text  # noqa: PLC0415  # see above

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text("" if task.speed is None else f"{task.speed:,.3g} {unit}/s")

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        Rate(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(description, total=total)
        yield lambda completed, total=total: progress.update(task, completed=completed, total=total)
