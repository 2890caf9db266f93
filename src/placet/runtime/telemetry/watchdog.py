"""A thread that names the rule of a domain that holds the orchestrator while it still runs.

Work is bounded in units that a domain declares and charges. A rule that loops without charging
cannot be interrupted in Python; but another thread can see it, because the interpreter switches
threads within milliseconds. It costs nothing on the path of a batch: the rule is read from the
frames of the thread that runs it.
"""

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
_KERNEL = "placet.kernel"


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
    """

    def __init__(
        self,
        busy_since_ns: Callable[[], int],
        limit_ms: int,
        counters: Counters,
        on_runaway: Callable[[RunningRule, float], None],
    ) -> None:
        self._busy_since_ns = busy_since_ns
        self._limit_ns = limit_ms * _MS_NS
        self._gauges = counters.gauges.setdefault("rule_running_seconds", {})
        self._on_runaway = on_runaway
        self._watched = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="placet-watchdog", daemon=True)

    def start(self) -> None:
        """Start watching the calling thread, in which the orchestrator runs."""
        self._watched = threading.get_ident()
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; returns once the thread has ended."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        pause_s = self._limit_ns / 1e9 / _CHECKS_PER_LIMIT
        reported_ns = report_at_ns = 0
        while not self._ended.wait(pause_s):
            since_ns = self._busy_since_ns()
            if since_ns != reported_ns:  # another cycle, or none
                self._gauges.clear()
                reported_ns, report_at_ns = since_ns, self._limit_ns
            lasted_ns = time.monotonic_ns() - since_ns
            if since_ns and lasted_ns > report_at_ns:
                report_at_ns = 2 * lasted_ns
                self._report(since_ns, lasted_ns / 1e9)
        self._gauges.clear()

    def _report(self, since_ns: int, seconds: float) -> None:
        frame = sys._current_frames().get(self._watched)  # noqa: SLF001  # the documented way
        rule = None if frame is None else running_rule(frame)
        if rule is None or self._busy_since_ns() != since_ns:
            return
        self._gauges.clear()
        self._gauges[rule.name] = lambda: (time.monotonic_ns() - since_ns) / 1e9
        self._on_runaway(rule, seconds)


def running_rule(frame: FrameType) -> RunningRule | None:
    """Return the plug-in code that a thread runs, found in its stack; None if it runs none.

    Args:
        frame: The innermost frame of the thread.
    """
    inner, outer = frame, frame.f_back
    while outer is not None:
        place = f"{inner.f_code.co_filename}:{inner.f_lineno}"
        if outer.f_code is DomainRules.check.__code__ and "intent" in outer.f_locals:
            return RunningRule(f"rule of {outer.f_locals['intent']['kind']}", place)
        module: str = outer.f_globals.get("__name__", "")
        caller: str = inner.f_globals.get("__name__", "")
        if module.startswith(_KERNEL) and not caller.startswith(_KERNEL):
            return RunningRule(inner.f_code.co_qualname, place)
        inner, outer = outer, outer.f_back
    return None
