"""`placet gate`: the gate for any language, by JSON lines.

Input is read in bounded memory, until a signal or the time of a due batch. All available input is
taken at once: a peer that waits for each answer gets it after its line, and one that sends ahead
shares a durable write among many lines.
"""

import os
import select
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, BinaryIO, Final

import typer

from placet.cli.commands.gate_session import GateSession
from placet.cli.progress import with_bar
from placet.cli.signals import StopSignals
from placet.cli.stores import TakeOver
from placet.cli.terminal import CommandError, notify
from placet.cli.world_options import (
    DomainOption,
    SetOption,
    StoreOption,
    list_overrides,
    world_settings,
)
from placet.runtime.recorded_world import RECORDED
from placet.schemas.printable import escaped_json
from placet.stores.gc_tuning import tune_gc
from placet.stores.url import open_event_log

if TYPE_CHECKING:
    from placet.server.settings import ServerSettings

READ_BYTES: Final = 1 << 20
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"

_KEYS: Final = frozenset({"domain", "store", "settings", "limits", *RECORDED})
_EXAMPLE: Final = '{"register": "ann", "position": [0, 0]}'
_SHOWN_BYTES_MAX: Final = 1 << 22
"""Answers that may wait for one durable write; a flood of tiny lines fills it before its read."""


def gate(
    domain: DomainOption = None,
    store: StoreOption = None,
    assignments: SetOption = None,
    *,
    take_over: TakeOver = False,
) -> int:
    """Read batches as JSON lines, write verdicts.

    A line is an intent, an array of them, {"intents": [...], "sim_time": t, "dry_run": false}, or
    {"register": "agent_1", "permissions": ["Move"], "position": [0, 0]}. Each line
    gets one line of output, in order, when its result is durable; blank lines are skipped. The
    exit code at the end of the input is 0, also after refusals; it is 2 if there was neither a line
    nor a domain nor a log. Time follows the machine's clock, also where a log was written in steps;
    the domain's on_tick does not run.
    """
    if sys.stdin is None:
        raise CommandError("there is no standard input to read; give a pipe or a file")
    with StopSignals() as stop, ExitStack() as stack:
        settings = world_settings(domain, store, assignments)
        _require_decisive(settings)
        domains, log = settings.make_domains(), None  # before a file is made for them
        list_overrides(settings, domains, "gate")
        if store is not None:
            log = stack.enter_context(closing(with_bar(open_event_log(store), "gate")))
        session = GateSession(
            domains, log, config=settings.world.kernel_config(), take_over=take_over
        )
        if sys.stdin.isatty():
            notify("placet gate: type JSON lines; Ctrl-D ends the input")
        tune_gc()
        _converse(session, InputStream(sys.stdin.fileno(), stop), sys.stdout.buffer)
        if session.lines_count == 0 and domain is None and store is None and not stop.is_set():
            raise typer.BadParameter(
                "no line came, and there is neither a domain nor a log; type for example "
                f"`echo '{_EXAMPLE}' | placet gate --domain world`"
            )
    return stop.exit_code


def _require_decisive(settings: "ServerSettings") -> None:
    """Check that every key set is one by which the kernel decides.

    Raises:
        CommandError: A key needs an event loop, such as `clock`.
    """
    for key, source in settings.sources.items():
        name = key.partition(".")[0]
        if name not in _KEYS:
            raise CommandError(f"{source}: `placet gate` has no {key!r}: it only decides and logs")


class LineSplitter:
    """A buffer that divides a stream of bytes into lines, without line ends.

    Args:
        bytes_max: Maximum bytes of one line. A longer line is dropped while it is read, and is None
            in the result.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._parts: list[bytes] = []
        self._size = 0
        self._is_first = True

    def feed(self, data: bytes) -> list[bytes | None]:
        """Add bytes of the stream, and return the lines that are complete now; None if too long."""
        pieces = data.split(b"\n")
        last = pieces.pop()
        lines: list[bytes | None] = []
        for piece in pieces:
            if self._size:
                self._keep(piece)
                lines.append(self._take())
            else:
                lines.append(piece if len(piece) <= self._bytes_max else None)
        self._keep(last)
        if lines and self._is_first:
            self._is_first = False
            lines[0] = _without_mark(lines[0])
        return lines

    def end(self) -> list[bytes | None]:
        """Return the last line, if it has no line end, as a list of at most one."""
        if not self._size:
            return []
        line = self._take()
        return [_without_mark(line) if self._is_first else line]

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._bytes_max:
            self._parts.clear()
        elif piece:
            self._parts.append(piece)

    def _take(self) -> bytes | None:
        line = b"".join(self._parts) if self._size <= self._bytes_max else None
        self._parts.clear()
        self._size = 0
        return line


def _without_mark(line: bytes | None) -> bytes | None:
    return None if line is None else line.removeprefix(_BYTE_ORDER_MARK)


class InputStream:
    """An input file descriptor, whose read ends early when a stop signal comes.

    Args:
        descriptor: File descriptor of a pipe, a file, a terminal or a socket.
        stop: Records stop signals; after one, nothing more is read.
    """

    def __init__(self, descriptor: int, stop: StopSignals) -> None:
        self._descriptor = descriptor
        self._stop = stop

    @property
    def is_stopped(self) -> bool:
        """Whether a stop signal came, so that nothing more is read."""
        return self._stop.is_set()

    def read(self, seconds_max: float | None) -> bytes | None:
        """Wait for input and return the available bytes, a megabyte at most.

        Returns:
            The bytes, empty at the end of the stream; None if none have arrived, because
            the time is over or a signal came.
        """
        with _woken_by_signals() as woken:
            if self._stop.is_set():
                return None
            ready, _, _ = select.select([self._descriptor, woken], [], [], seconds_max)
        if self._stop.is_set() or self._descriptor not in ready:
            return None
        return os.read(self._descriptor, READ_BYTES)


@contextmanager
def _woken_by_signals() -> Iterator[int]:
    """Return a descriptor that becomes readable at a signal. No moment in between is missed."""
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    before = signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    try:
        yield woken
    finally:
        signal.set_wakeup_fd(before)
        os.close(woken)
        os.close(waking)


def _converse(session: GateSession, stream: InputStream, out: BinaryIO) -> None:
    splitter = LineSplitter(session.line_bytes_max)
    while True:
        data = stream.read(session.seconds_until_due())
        if data is None and not stream.is_stopped:
            session.decide_due()
            session.commit()
        elif not data:
            break
        else:
            _answer(session, splitter.feed(data), out)
    if not stream.is_stopped:
        _answer(session, splitter.end(), out)


def _answer(session: GateSession, lines: Iterable[bytes | None], out: BinaryIO) -> None:
    """Answer lines, in order, each once its answer is durable."""
    answers: list[bytes] = []
    size = 0
    for line in lines:
        if line is not None and not line.strip():
            continue
        answers.append(_printable_line(session.answer(line)))
        size += len(answers[-1])
        if size >= _SHOWN_BYTES_MAX:
            _show(session, answers, out)
            size = 0
    _show(session, answers, out)


def _printable_line(answer: bytes) -> bytes:
    """Return a line of JSON in which unseen characters, such as those of agents, are escaped."""
    if answer.isascii() and b"\x7f" not in answer:
        return answer
    return escaped_json(answer.decode()).encode()


def _show(session: GateSession, answers: list[bytes], out: BinaryIO) -> None:
    session.commit()
    if answers:
        answers.append(b"")
        out.write(b"\n".join(answers))
        out.flush()
        answers.clear()
