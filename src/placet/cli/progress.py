"""A progress bar on a terminal, and nothing anywhere else."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeVar

from placet.actors.ports import EventLog
from placet.schemas.printable import printable
from placet.stores.reading import log_to_read

if TYPE_CHECKING:
    from rich.progress import Progress

_Log = TypeVar("_Log", bound=EventLog)

_QUICK_S: Final = 1.0
"""A read that takes less time shows no bar, and does not load rich."""

_REPORTED_RECORDS: Final = 512
_WHOLE_RATE_MIN: Final = 10

_shown: "Final[list[Progress]]" = []
"""The bar on the terminal, if there is one: two would draw over each other."""


def read_log(store: str, description: str) -> EventLog:
    """Return the log of a store, to be read alone; its long reads show a bar on a terminal.

    Raises:
        StoreError: The store has no log.
    """
    return with_bar(log_to_read(store), description)


def with_bar(log: _Log, description: str) -> _Log:
    """Return a log whose long reads show a bar on a terminal; it is the same object."""
    if not sys.stderr.isatty():
        return log
    read = log.read

    def read_with_bar(from_record: int = 0) -> Iterator[tuple[int, bytes]]:
        began, total = monotonic(), log.count()
        on_record: Callable[..., None] | None = None
        with ExitStack() as stack:
            for ordinal, data in read(from_record):
                if ordinal % _REPORTED_RECORDS == 0:
                    if on_record is not None:
                        on_record(ordinal)
                    elif not _shown and monotonic() - began > _QUICK_S:
                        bar = progress_bar(description, total, "records")
                        on_record = stack.enter_context(bar)
                yield ordinal, data

    log.read = read_with_bar  # type: ignore[method-assign]  # of this object alone
    return log


@contextmanager
def progress_bar(description: str, total: int | None, unit: str) -> Iterator[Callable[..., None]]:
    """Show a bar with rate and time left while the block runs; it is removed at the end.

    Nothing is shown if stderr is no terminal. A bar that is still there is removed for this one.

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
    for other in _shown:
        other.stop()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        _shown[:] = [progress]
        task = progress.add_task(printable(description), total=total)
        try:
            yield lambda done, total=total: progress.update(task, completed=done, total=total)
        finally:
            if _shown == [progress]:
                _shown.clear()
