"""Numbered crash points: every step of a child between deciding and answering, and in the store.

The points lie around the ports (`EventLog`, effect handlers, replies, file operations), and before
each statement that the store passes to SQLite, so that a crash also falls inside a transaction.
The package contains no code for them.
"""

import os
import signal
import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from tests.crash.process_forker import Report

_WORDS: Final = 3
_READING: Final = frozenset(
    {"SELECT", "count", "find_seq", "list", "read", "size_bytes", "start", "is_in_use"}
)
"""What changes nothing: a crash there is the crash at the point before it."""


class CrashPoints:
    """Counts the points that a child passes, and kills it at one of them.

    Args:
        crash_at: Number of that point, from 1; None is at none.
        report: Message of the place before the end.

    Attributes:
        reached: How many were passed.
        is_counting: Points that are passed while it is false do not count.
    """

    def __init__(self, crash_at: int | None, report: Report) -> None:
        self.reached = 0
        self.is_counting = True
        self._crash_at = crash_at
        self._report = report

    def reach(self, place: str) -> None:
        if not self.is_counting:
            return
        self.reached += 1
        if self.reached == self._crash_at:
            self._report.send("crash", place=place)
            os.kill(os.getpid(), signal.SIGKILL)

    def watch_sqlite(self) -> None:
        """Make each SQLite statement a crash point. Only for a child: it is never undone."""
        connect: Callable[..., sqlite3.Connection] = sqlite3.connect

        def connect_watched(*arguments: Any, **options: Any) -> sqlite3.Connection:
            connection = connect(*arguments, **options)
            connection.set_trace_callback(self._reach_statement)
            return connection

        sqlite3.connect = connect_watched  # type: ignore[assignment]  # the same, and watched

    def _reach_statement(self, statement: str) -> None:
        if statement.split(None, 1)[0] not in _READING:
            self.reach(" ".join(["before", *statement.split()[:_WORDS]]))


class Pointed:
    """A port with a crash point before and after each call."""

    def __init__(self, port: Any, points: CrashPoints) -> None:
        self._port = port
        self._points = points

    def __getattr__(self, name: str) -> Any:
        there = getattr(self._port, name)
        if name in _READING or not callable(there):
            return there
        return partial(self._pass, name, there)

    def _pass(self, name: str, act: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        self._points.reach(f"before {name}")
        result = act(*arguments, **options)
        self._points.reach(f"after {name}")
        return result
