"""SIGINT and SIGTERM as a request: the current work is finished, then the command ends."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Final, Self

_ASKED_BY: Final = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """A context manager that records the first stop signal; a second one ends the process.

    Args:
        on_first: Called at the first signal.

    Attributes:
        number: Number of the first signal; None if none came.
    """

    def __init__(self, on_first: Callable[[], object] = lambda: None) -> None:
        self.number: int | None = None
        self._on_first = on_first
        # One that was ignored from the start, as `nohup` and `&` do, stays ignored.
        self._taken = [
            number for number in _ASKED_BY if signal.getsignal(number) is not signal.SIG_IGN
        ]
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._note) for number in self._taken}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]  # what signal() gave

    def is_set(self) -> bool:
        """Return whether a signal came."""
        return self.number is not None

    @property
    def exit_code(self) -> int:
        """Exit code for the signal: 130 for SIGINT, 143 for SIGTERM, 0 if none came."""
        return 0 if self.number is None else 128 + self.number

    @property
    def name(self) -> str:
        """Name of the signal, such as `SIGINT`."""
        return "" if self.number is None else signal.Signals(self.number).name

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.number = number
        for taken in self._taken:
            signal.signal(taken, signal.SIG_DFL)
        self._on_first()


class Terminated(KeyboardInterrupt):
    """The exception that SIGTERM raises; handled like Ctrl-C."""

    exit_code: Final = 128 + signal.SIGTERM


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Return a context in which the first SIGTERM raises `Terminated`.

    A second one ends the process. An error that follows Ctrl-C, such as that of a library which was
    interrupted within, ends as `KeyboardInterrupt` too.

    For code that waits in the main thread, where only an exception reaches it.
    """
    taken: dict[signal.Signals, Callable[[int, FrameType | None], None]] = {
        signal.SIGTERM: _terminate
    }
    is_interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal is_interrupted
        is_interrupted = True
        signal.default_int_handler(number, frame)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        taken[signal.SIGINT] = interrupt
    before = {
        number: signal.signal(number, handler)
        for number, handler in taken.items()
        if signal.getsignal(number) is not signal.SIG_IGN  # from the start: it stays ignored
    }
    try:
        yield
    except Exception as error:
        if is_interrupted:
            raise KeyboardInterrupt from error
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _terminate(number: int, _frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)
    raise Terminated
