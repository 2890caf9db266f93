"""A thread that names the rule of a domain that holds the orchestrator while it still runs.

Work is bounded in units that a domain declares and charges. A rule that loops without charging
cannot be interrupted in Python; but another thread can see it, because the interpreter switches
threads within milliseconds. It costs nothing on the path of a batch: the rule is read from the
frames of the thread that runs it.
"""

import gc
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import NamedTuple

from placet.actors.metrics import Counters
from placet.kernel.gate.domain_rules import DomainRules

_CHECKS_PER_LIMIT = 4
_MS_NS = 1_000_000
_PROJECT = "placet"
_KERNEL = "placet.kernel"
_NO_PLUGINS = frozenset(
    (
        *(f"{_PROJECT}.{layer}" for layer in ("schemas", "kernel", "actors", "runtime")),
        *("msgspec", "pydantic", "pydantic_core", "typing_extensions"),
        *sys.stdlib_module_names - {"__main__"},  # a script may define a domain
    )
)


class RunningRule(NamedTuple):
    """The plug-in code that a thread runs at present.

    Attributes:
        name: `rule of <kind>`, or the qualified name of a hook.
        place: `<file>:<line>` of the rule or hook.
    """

    name: str
    place: str


class RuleWatchdog:
    """A thread that reports domain rules which block the orchestrator for too long.

    Args:
        busy_since_ns: Returns the monotonic time at which the present cycle of the orchestrator
            began; 0 between cycles. Called from the watching thread.
        limit_ms: Milliseconds of a cycle after which it is reported.
        counters: Metrics; the gauge `rule_running_seconds` is set while a rule exceeds the limit.
        on_runaway: Called in the watching thread with the rule and the seconds that it has run:
            once at the limit, then each time that the duration has doubled.
        now_ns: Monotonic clock, nanoseconds.
    """

    def __init__(
        self,
        busy_since_ns: Callable[[], int],
        limit_ms: int,
        counters: Counters,
        on_runaway: Callable[[RunningRule, float], None],
        *,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._busy_since_ns = busy_since_ns
        self._limit_ns = limit_ms * _MS_NS
        self._gauges = counters.gauges.setdefault("rule_running_seconds", {})
        self._on_runaway = on_runaway
        self._now_ns = now_ns
        self._watched = 0
        self._seen: FrameType | None = None  # of the rule that ran at the last check
        self._cycle_ns = 0  # beginning of the cycle seen at the last check; 0: none
        self._report_at_ns = 0  # duration of that cycle at which it is reported next
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="placet-watchdog", daemon=True)

    def watch(self, thread_id: int) -> None:
        """Set the thread in which the orchestrator runs.

        Args:
            thread_id: Its `threading.get_ident()`.
        """
        self._watched = thread_id

    def start(self) -> None:
        """Start watching the calling thread, in which the orchestrator runs."""
        self.watch(threading.get_ident())
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; returns once the thread has ended."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def check(self) -> None:
        """Report the rule that runs, if it ran at the last check too and its cycle is too long."""
        since_ns = self._busy_since_ns()
        if since_ns != self._cycle_ns:  # another cycle, or none
            self._gauges.clear()
            self._cycle_ns, self._report_at_ns = since_ns, self._limit_ns
        lasted_ns = self._now_ns() - since_ns
        if not since_ns or lasted_ns <= self._limit_ns // _CHECKS_PER_LIMIT:
            # Frames of a thread that runs are read at a risk: not where the cycle has just begun.
            self._seen = None
            return
        rule = self._lasting_rule()
        if (
            lasted_ns > self._report_at_ns
            and rule is not None
            and self._busy_since_ns() == since_ns
        ):
            self._report_at_ns = 2 * lasted_ns
            self._report(rule, since_ns, lasted_ns / 1e9)

    def _run(self) -> None:
        pause_s = self._limit_ns / 1e9 / _CHECKS_PER_LIMIT
        while not self._ended.wait(pause_s):
            self.check()
        self._seen = None
        self._gauges.clear()

    def _lasting_rule(self) -> RunningRule | None:
        """Return the rule that runs and ran at the last check too; None if there is none.

        A long cycle of many short rules is no runaway of the rule that a check happens to see.
        """
        found = self._running_rule()
        before, self._seen = self._seen, None if found is None else found[1]
        if found is None or found[1] is not before:
            return None
        name, frame = found
        return RunningRule(name, f"{frame.f_code.co_filename}:{frame.f_lineno}")

    def _running_rule(self) -> tuple[str, FrameType] | None:
        """Return the rule that the watched thread runs, and its frame.

        Without a garbage collection meanwhile. CPython 3.11 makes frame objects as `f_back` is
        read; a collection that this triggers runs Python code, the watched thread continues, and
        the new object points at a frame that has ended: the process then crashes.
        """
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            frame = sys._current_frames().get(self._watched)  # noqa: SLF001  # the documented way
            return None if frame is None else running_rule(frame)
        finally:
            if was_enabled:
                gc.enable()

    def _report(self, rule: RunningRule, since_ns: int, seconds: float) -> None:
        self._gauges.clear()
        self._gauges[rule.name] = lambda: (self._now_ns() - since_ns) / 1e9
        self._on_runaway(rule, seconds)


def running_rule(frame: FrameType) -> tuple[str, FrameType] | None:
    """Return the name of the plug-in code that a thread runs, and its outermost frame.

    None if the thread runs no plug-in code. Frames of this package's own layers and of libraries
    are no plug-in code: a rule that calls them is found further out.

    Args:
        frame: The innermost frame of the thread.
    """
    inner, outer = frame, frame.f_back
    while outer is not None:
        if not _is_plugin(inner):
            pass
        elif outer.f_code is DomainRules.check.__code__ and "intent" in outer.f_locals:
            return f"rule of {outer.f_locals['intent']['kind']}", inner
        elif _package(outer) == _KERNEL:
            return inner.f_code.co_qualname, inner
        inner, outer = outer, outer.f_back
    return None


def _package(frame: FrameType) -> str:
    """Return the first package of a frame's module; for this project's own, the first two."""
    first, _, rest = str(frame.f_globals.get("__name__", "")).partition(".")
    return f"{first}.{rest.partition('.')[0]}" if first == _PROJECT else first


def _is_plugin(frame: FrameType) -> bool:
    package = _package(frame)
    return not (package in _NO_PLUGINS or package.startswith("namedtuple_"))
