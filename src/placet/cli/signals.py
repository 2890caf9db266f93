"""SIGINT and SIGTERM as a request: the current work is finished, then the command ends."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Final, Self

_ASKED_BY: Final = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Takes note of the first signal inside its block; a second one ends the process at once.

    Args:
        on_first: Called at the first signal, to wake a waiter.

    Attributes:
        number: The signal that came; None while none has.
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
        """As a shell knows it: 130 for SIGINT, 143 for SIGTERM; 0 while none came."""
        return 0 if self.number is None else 128 + self.number

    @property
    def name(self) -> str:
        """The signal's name, for people."""
        return "" if self.number is None else signal.Signals(self.number).name

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.number = number
        for taken in self._taken:
            signal.signal(taken, signal.SIG_DFL)
        self._on_first()


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived: handled like Ctrl-C, but never resumed."""

    exit_code: Final = 128 + signal.SIGTERM


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Raise `Terminated` at the first SIGTERM; a second one ends the process at once.

    For code that waits in the main thread, where only an exception reaches it.
    """
    before = signal.getsignal(signal.SIGTERM)
    if before is signal.SIG_IGN:  # from the start: it stays ignored
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(number: int, _frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)
    raise Terminated
