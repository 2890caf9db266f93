"""A progress bar on a terminal, and nothing anywhere else."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic
from typing import Final

from placet.actors.ports import EventLog
from placet.schemas.printable import printable

_QUICK_S: Final = 1.0
"""A read that takes less time shows no bar, and does not load rich."""

_REPORTED_RECORDS: Final = 512
_WHOLE_RATE_MIN: Final = 10


def with_bar(log: EventLog, description: str) -> EventLog:
    """Return a log whose long reads show a bar on a terminal; it is the same object."""
    if not sys.stderr.isatty():
        return log
    read = log.read
    is_shown = False

    def read_with_bar(from_record: int = 0) -> Iterator[tuple[int, bytes]]:
        nonlocal is_shown
        began, total = monotonic(), log.count()
        on_record: Callable[..., None] | None = None
        with ExitStack() as stack:
            for ordinal, data in read(from_record):
                if ordinal % _REPORTED_RECORDS == 0:
                    if on_record is not None:
                        on_record(ordinal)
                    elif not is_shown and monotonic() - began > _QUICK_S:
                        bar = progress_bar(description, total, "records")
                        on_record, is_shown = stack.enter_context(bar), True
                yield ordinal, data
        if on_record is not None:
            is_shown = False

    log.read = read_with_bar  # type: ignore[method-assign]  # of this object alone
    return log


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
            speed = task.speed or 0.0
            rate = f"{speed:.2g}" if speed < _WHOLE_RATE_MIN else f"{speed:,.0f}"
            return Text(f"{rate} {unit}/s".replace(",", " ") if speed else "")

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        Rate(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(printable(description), total=total)
        yield lambda completed, total=total: progress.update(task, completed=completed, total=total)
