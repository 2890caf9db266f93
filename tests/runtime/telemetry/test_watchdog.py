"""A rule that runs away is named in a log line and a metric while it still runs."""

import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from prometheus_client import generate_latest
from typing_extensions import TypedDict

from placet import Domain, Kind, Limits, Orchestrator, OrchestratorConfig
from placet.actors.metrics import Counters
from placet.kernel.state.draft import Draft
from placet.runtime.telemetry.watchdog import RuleWatchdog, RunningRule, running_rule
from placet.schemas.intent import Intent
from tests.kernel.builders import intent, kernel_of

DEADLINE_S = 60.0
"""Until then a rule waits to be reported, so that a failing test ends."""


class Nothing(TypedDict):
    pass


class Endless(Domain):
    """A rule, and a hook, that run until the test has seen them."""

    name = "endless"
    version = "1"

    def __init__(self, seen: threading.Event) -> None:
        self.seen = seen
        self.holds_tick = False
        self.kinds = (Kind("Spin", Nothing, self.spin), Kind("Rest", Nothing, lambda *_: None))

    def spin(self, _draft: Draft, _intent: Intent | None = None) -> None:
        end = time.monotonic() + DEADLINE_S
        while not self.seen.is_set() and time.monotonic() < end:
            pass

    def on_tick(self, draft: Draft, sim_time: float) -> None:
        if self.holds_tick:
            self.spin(draft)


class Watched:
    """The reports of a world's watchdog, and its metrics at the time of the first."""

    def __init__(self) -> None:
        self.seen = threading.Event()
        self.rules: list[RunningRule] = []
        self.metrics = ""


@contextmanager
def watching(world: Orchestrator, watched: Watched) -> Iterator[None]:
    runtime = world._world
    assert runtime is not None
    report = runtime._watchdog._on_runaway

    def on_runaway(rule: RunningRule, seconds: float) -> None:
        report(rule, seconds)  # the log line
        watched.rules.append(rule)
        watched.metrics = generate_latest(world.metrics_registry).decode()
        watched.seen.set()

    runtime._watchdog._on_runaway = on_runaway
    yield


def config(**more: object) -> OrchestratorConfig:
    limits = Limits(loop_lag_ms_max=20)
    return OrchestratorConfig(limits=limits, log_format="json", log_level="warning", **more)  # type: ignore[arg-type]


async def test_a_rule_that_runs_away_is_named_while_it_runs(capsys: pytest.CaptureFixture[str]):
    watched = Watched()
    domain = Endless(watched.seen)
    async with Orchestrator(domain, config()) as world:
        await world.register_agent("alice")
        with watching(world, watched):
            assert (await world.submit([intent("Spin", {})])).admitted
        assert watched.seen.is_set()
        (rule, *_) = watched.rules
        assert rule.name == "rule of Spin"
        assert "test_watchdog.py" in rule.place
        assert 'placet_rule_running_seconds{rule="rule of Spin"}' in watched.metrics
        line = capsys.readouterr().err
        assert '"rule": "rule of Spin"' in line or '"rule":"rule of Spin"' in line
        assert (await world.submit([intent("Rest", {}, "s")])).admitted


async def test_a_hook_that_runs_away_is_named_too():
    watched = Watched()
    domain = Endless(watched.seen)
    async with Orchestrator(domain, config(clock="stepped")) as world:
        with watching(world, watched):
            domain.holds_tick = True
            await world.step(1)
        domain.holds_tick = False
        assert watched.rules[0].name == "Endless.on_tick"


async def test_an_idle_world_reports_nothing():
    watched = Watched()
    async with Orchestrator(Endless(watched.seen)) as world:
        await world.register_agent("alice")
        with watching(world, watched):
            for number in range(20):
                await world.submit([intent("Rest", {}, f"r:{number}")])
        assert watched.rules == []


def named(module: str, inner: Callable[[], object]) -> Callable[[], object]:
    """Return a function of a module that calls another function."""
    space: dict[str, Any] = {"__name__": module, "inner": inner}
    exec("def work():\n    return inner()", space)
    work: Callable[[], object] = space["work"]
    return work


@pytest.mark.parametrize(
    ("modules", "is_plugin"),
    [
        (("placet.kernel.kernel", "placet.schemas.batch"), False),
        (("placet.kernel.log.record", "msgspec.json"), False),
        (("placet.kernel.decide.order", "random"), False),
        (("placet.kernel.decide.batches", "namedtuple_Answer"), False),
        (("placet.kernel.kernel", "placet.runtime.world"), False),
        (("placet.kernel.control.control", "my_domain"), True),
        (("placet.kernel.control.control", "placet.domains.town"), True),
        (("placet.kernel.control.control", "__main__"), True),
        (("placet.kernel.control.control", "my_domain", "json.decoder"), True),
        (("placet.kernel.a", "my_domain", "placet.kernel.draft", "placet.schemas.codec"), True),
    ],
)
def test_only_code_of_a_plugin_is_reported_as_a_rule(modules, is_plugin):
    def work() -> object:
        return running_rule(sys._getframe(1))

    for module in reversed(modules):
        work = named(module, work)
    found = work()
    assert (found is not None) is is_plugin


def test_frames_of_a_running_thread_are_read_without_a_garbage_collection(monkeypatch):
    """One in the middle of the walk crashed CPython 3.11: 18 million walks without one did not."""
    collecting: list[bool] = []

    def current_frames() -> dict[int, Any]:
        collecting.append(gc.isenabled())
        return {}

    monkeypatch.setattr(sys, "_current_frames", current_frames)
    watchdog = RuleWatchdog(lambda: 1, 1, Counters(()), print, now_ns=lambda: 10**9)
    watchdog.check()
    assert collecting == [False]
    assert gc.isenabled()


LIMIT_MS = 20


class Cycle:
    """A long cycle on a clock that the test moves; its rules are checked while they run."""

    def __init__(self, rule_ms: float, checks: int) -> None:
        self.now_ns = 1
        self.passes = 0
        self.rules: list[RunningRule] = []
        self._rule_ns = round(rule_ms * 1e6)
        self._checks = checks
        self._watchdog = RuleWatchdog(
            lambda: 1,
            LIMIT_MS,
            Counters(()),
            lambda rule, _seconds: self.rules.append(rule),
            now_ns=lambda: self.now_ns,
        )

    def decide(self, batch: list[Any]) -> None:
        """Decide a batch of `Brief`, in whose rule the watchdog checks."""

        def brief(_draft: Draft, _intent: Intent) -> None:
            self.passes += 1
            for _ in range(self._checks):
                self.now_ns += self._rule_ns // self._checks
                self._watchdog.check()

        domain = Endless(threading.Event())
        domain.kinds = (Kind("Brief", Nothing, brief), domain.kinds[1])
        self._watchdog.watch(threading.get_ident())
        assert kernel_of(domain, agents=("alice",)).decide(batch).admitted


@pytest.mark.parametrize(
    ("rule_ms", "checks", "is_runaway"), [(1, 1, False), (9, 1, False), (30, 3, True)]
)
def test_only_a_rule_that_still_runs_at_the_next_check_is_a_runaway(rule_ms, checks, is_runaway):
    """The whole cycle takes several times the limit in each row."""
    cycle = Cycle(rule_ms, checks)
    cycle.decide([intent("Brief", {}, f"r:{number}") for number in range(100)])
    assert cycle.passes == 100
    assert [rule.name for rule in cycle.rules[:1]] == ["rule of Brief"] * is_runaway
