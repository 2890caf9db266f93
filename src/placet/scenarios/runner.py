"""Runs a scenario: once per tick every agent looks, proposes and posts; then time takes one step.

Where time runs by itself (`clock = "realtime"`), agents act once per tick each for itself, and what
follows is not said of them.

All agents of a tick look at one cut, and all proposals are posted before the step, so who is
called first gains nothing and a tick costs what its agents look at. A run is a function of the
scenario alone: the same seed gives the same digest, whatever the store. All of a tick is one group
of the log, so a run that was killed goes on at the tick that the log has not, and ends as it would
have: what it proposes is a function of the tick, its req_ids too.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from time import perf_counter
from typing import Final

from placet.kernel.domain import Domain
from placet.kernel.ledger.ledger import Ledger
from placet.runtime.agent_handle import AgentHandle
from placet.runtime.config import OrchestratorConfig
from placet.runtime.orchestrator import Orchestrator
from placet.runtime.plugins import DomainNotFound, find_domain
from placet.runtime.snapshots.writer import EVERY_SEQS
from placet.scenarios.fairness import FairnessStats
from placet.scenarios.loader import as_text, open_domain
from placet.scenarios.policies import ScriptedPolicy, make_policy
from placet.scenarios.scenario import Member, Scenario, ScenarioError
from placet.schemas.codec import Json
from placet.schemas.errors import PlacetError
from placet.schemas.intent import Intent
from placet.schemas.limits import SECOND_NS, Limits
from placet.schemas.verdict import Verdict
from placet.schemas.view import View

ORIGIN: Final = "scenario"
"""Under this key the header of a run's log keeps the scenario."""

_REGISTERED_TOGETHER: Final = 512
_TICK_REQ_IDS: Final = 4_096
"""Room for the req_ids of one agent in one tick; a batch has 512 intents at most."""

_BATCH_BYTES: Final = 4_096
"""Room in the queue for each agent's batch of a tick; what a larger one takes, others leave."""


@dataclass(slots=True)
class RunReport:
    """What became of a run.

    Attributes:
        ticks: How many the world has lived through; fewer than the scenario's if it was stopped.
        resumed_at: How many of them before this run, which went on with it; None if it began it.
        sim_time: Simulated time at the end, seconds.
        submitted: Intents; all of a refused batch are refused.
        refusals: Count for each `stage/code`.
        examples: The first message of each `stage/code`.
        seconds: From opening the world to the last verdict.
        contests: How evenly it dealt with its agents.
        verdict_ms: `p50` and `p99` from post to decision; None where nothing was proposed.
        time: How simulated time ran: `clock`, and of a dilated one how slowly.
        is_stopped: Somebody asked the run to stop before its last tick.
    """

    scenario: Scenario
    ticks: int = 0
    resumed_at: int | None = None
    sim_time: float = 0.0
    submitted: int = 0
    admitted: int = 0
    batches: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    contests: FairnessStats = field(default_factory=FairnessStats)
    seq: int = 0
    digest: str = ""
    seconds: float = 0.0
    verdict_ms: dict[str, float | None] = field(default_factory=dict)
    store: str = ""
    time: dict[str, Json] = field(default_factory=dict)
    is_stopped: bool = False

    @property
    def intents_per_second(self) -> float:
        """Intents submitted, per second of the whole run."""
        return self.submitted / self.seconds if self.seconds else 0.0

    def count(self, batch: Sequence[Intent], verdict: Verdict) -> None:
        """Count one answer."""
        self.batches += 1
        self.submitted += len(batch)
        if verdict.admitted:
            self.admitted += len(batch)
        for refusal in verdict.refusals:
            key = f"{refusal.stage}/{refusal.code}"
            self.refusals[key] += 1
            self.examples.setdefault(key, refusal.message)
        self.contests.count(batch, verdict)

    def as_dict(self) -> dict[str, Json]:
        """Return the report as the command line prints it with `--json`."""
        return {
            "scenario": self.scenario.name,
            "seed": self.scenario.seed,
            "agents": self.scenario.agents_count,
            "ticks": self.ticks,
            "resumed_at": self.resumed_at,
            "sim_time": self.sim_time,
            "intents": {
                "submitted": self.submitted,
                "admitted": self.admitted,
                "refused": self.submitted - self.admitted,
            },
            "refusals": dict(sorted(self.refusals.items())),
            "fairness": self.contests.as_dict(self.scenario.agents_count),
            "batches": self.batches,
            "seq": self.seq,
            "digest": self.digest,
            "seconds": round(self.seconds, 6),
            "intents_per_second": round(self.intents_per_second, 1),
            "verdict_ms": self.verdict_ms,
            "time": self.time,
            "store": self.store,
        }


class ScenarioRunner:
    """Drives one world through a scenario.

    Args:
        scenario: What to run.
        store: Where the log goes. One that is not empty must hold a run of this very scenario,
            which is gone on with.
        is_resumed: Whether it does.
        world: Its name; None is the scenario's.
        metrics_port: As in the configuration of a world; likewise the next two.
        snapshot_every_seqs: Likewise.
        compact_log: Likewise.
        on_open: Told of the open world, before the first tick.
        on_tick: Told how many ticks are done.
        is_stopped: Asked before every tick; a tick in flight is always finished.

    Raises:
        ScenarioError: The domain does not exist, or does not take the scenario's settings.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        store: str = "memory://",
        is_resumed: bool = False,
        world: str | None = None,
        metrics_port: int | None = None,
        snapshot_every_seqs: int | None = EVERY_SEQS,
        compact_log: bool = False,
        on_open: Callable[[Orchestrator], None] = lambda _: None,
        on_tick: Callable[[int], None] = lambda _: None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._report = RunReport(scenario)
        self._scenario = scenario
        self._domain = _domain_of(scenario)
        self._is_resumed = is_resumed
        self._config = replace(
            _config_of(scenario, store, world or scenario.name),
            metrics_port=metrics_port,
            snapshot_every_seqs=snapshot_every_seqs,
            compact_log=compact_log,
        )
        self._on_open = on_open
        self._on_tick = on_tick
        self._is_stopped = is_stopped
        self._people: list[_Person] = []
        self._acts = 0
        self._begun = 0

    async def run(self) -> RunReport:
        """Live through the scenario; the log is closed when this returns.

        Raises:
            ScenarioError: An agent cannot be registered, or a policy raised.
            StoreError: The log cannot be written.
        """
        report, scenario = self._report, self._scenario
        started = perf_counter()
        async with Orchestrator(self._domain, self._config) as world:
            self._on_open(world)
            if self._is_resumed or scenario.clock == "stepped":
                lived = await world.query(lambda kernel: ticks_lived(scenario, kernel.ledger))
                report.ticks = min(lived, scenario.ticks)
            report.resumed_at = report.ticks if self._is_resumed else None
            await self._register(world)
            if scenario.clock == "stepped":
                while report.ticks < scenario.ticks and not self._is_stopped():
                    await self._tick(world)
                    report.ticks += 1
                    self._on_tick(report.ticks)
            else:
                await self._live(world)
            report.is_stopped = report.ticks < scenario.ticks
            report.seconds = perf_counter() - started
            report.sim_time, report.seq = world.sim_time, world.seq
            report.digest = await world.digest()
            statistics = world.statistics()
            report.verdict_ms, report.store = dict(statistics["verdict_ms"]), statistics["store"]
            report.time = statistics["time"]
        return report

    async def _register(self, world: Orchestrator) -> None:
        """Register all agents, many to one durable write, in the scenario's order.

        Who was dropped, as the world was forked, stays away.
        """
        gone = await world.query(lambda kernel: frozenset(kernel.ledger.gone))
        members = (one for one in self._scenario.members() if one.agent_id not in gone)
        while chunk := list(islice(members, _REGISTERED_TOGETHER)):
            if self._is_stopped():
                return
            self._people += await asyncio.gather(*(self._welcome(world, one) for one in chunk))

    async def _welcome(self, world: Orchestrator, member: Member) -> "_Person":
        try:
            handle = await world.register_agent(
                member.agent_id, permissions=member.permissions, **member.placing
            )
        except (PlacetError, TypeError) as error:
            key = f"agents.{member.group}"
            problem = f"{member.agent_id} cannot be registered: {error}"
            raise ScenarioError(self._scenario.name, key, problem) from error
        return _Person(handle, member, self._scenario)

    async def _tick(self, world: Orchestrator) -> None:
        people, number = self._people, self._report.ticks
        views = await world.views_for([one.handle.agent_id for one in people])
        proposed = [
            (one, batch)
            for one, view in zip(people, views, strict=True)
            if (batch := one.propose(view, number))
        ]
        tickets = [one.handle.submit_nowait(batch) for one, batch in proposed]
        await world.step(self._scenario.tick_s)
        self._report.contests.begin_group()
        for (_, batch), ticket in zip(proposed, tickets, strict=True):
            self._report.count(batch, await ticket)

    async def _live(self, world: Orchestrator) -> None:
        """Let all act once per tick of a time that runs by itself, each in a task of its own."""
        began, acting = world.sim_time, self._people
        if self._is_resumed and self._report.ticks > ticks_at(self._scenario, began):
            began += self._scenario.tick_s  # all have acted at the moment at which the log ends
        tasks = [asyncio.create_task(self._act(one, began)) for one in acting]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _act(self, one: "_Person", began: float) -> None:
        """Act at each tick that is left; who is late for one acts at once."""
        report, scenario = self._report, self._scenario
        first = report.ticks
        for number in range(first, scenario.ticks):
            await one.handle.sleep_until(began + (number - first) * scenario.tick_s)
            if not self._begins(number):
                return
            if batch := one.propose(await one.handle.refresh_view(), number):
                report.count(batch, await one.handle.submit(batch))
            self._acts += 1
            if self._acts % len(self._people) == 0:  # as many as one tick has
                report.ticks += 1
                report.contests.begin_group()
                self._on_tick(report.ticks)

    def _begins(self, number: int) -> bool:
        """Return whether a tick is lived: by all, where the first of them was not told to stop."""
        if number >= self._begun:
            if self._is_stopped():
                return False
            self._begun = number + 1
        return True


class _Person:
    """An agent of the scenario: its handle, and the policy that moves it."""

    __slots__ = ("_member", "_next", "_policy", "_scenario", "handle")

    def __init__(self, handle: AgentHandle, member: Member, scenario: Scenario) -> None:
        self.handle = handle
        self._member = member
        self._scenario = scenario
        self._next = 0
        try:
            self._policy: ScriptedPolicy = make_policy(member, scenario, self._intent)
        except ScenarioError:
            raise
        except Exception as error:
            problem = f"raised {error!r} as it was made for {member.agent_id}"
            raise self._fault(problem) from error

    def _intent(self, kind: str, /, **payload: Json) -> Intent:
        """Make an intent; its req_id says at which tick, not in which process, it was made."""
        intent = self.handle.intent(kind, **payload)
        intent["req_id"] = _req_id(self._next)
        self._next += 1
        return intent

    def propose(self, view: View, tick: int) -> list[Intent]:
        """Look, and propose."""
        self.handle.view_seq = view.view_seq
        self._next = tick * _TICK_REQ_IDS
        try:
            return list(self._policy.propose(view))
        except Exception as error:
            # The policy may be the user's own; one that goes on without an agent is no run of it.
            problem = f"raised {error!r} for {view.agent_id} at {view.sim_time} s"
            raise self._fault(problem) from error

    def _fault(self, problem: str) -> ScenarioError:
        return ScenarioError(self._scenario.name, f"agents.{self._member.group}.policy", problem)


def _domain_of(scenario: Scenario) -> Domain:
    try:
        return open_domain(scenario, find_domain(scenario.domain))
    except DomainNotFound as error:
        raise ScenarioError(scenario.name, "domain", str(error)) from None
    except TypeError as error:
        raise ScenarioError(scenario.name, "settings", str(error)) from error


def ticks_at(scenario: Scenario, sim_time: float) -> int:
    """Return how many ticks of a scenario have passed at a simulated time."""
    return round(sim_time * SECOND_NS / round(scenario.tick_s * SECOND_NS))


def ticks_lived(scenario: Scenario, ledger: Ledger) -> int:
    """Return how many ticks of a scenario a log has. O(agents).

    A step ends a tick. Where time is not stepped nothing does, and the log ends at the moment at
    which the last tick began: somebody was answered in it, or it is still to be lived.
    """
    passed = ticks_at(scenario, ledger.now_ns / SECOND_NS)
    req_id = _req_id(passed * _TICK_REQ_IDS)
    windows = (agent.window for agent in ledger.agents.values())
    return passed + any(window is not None and window.find(req_id) for window in windows)


def _req_id(number: int) -> str:
    return f"run:{number}"


def _config_of(scenario: Scenario, store: str, world: str) -> OrchestratorConfig:
    """Configure the world; its queue holds a batch of every agent: a tick posts them all."""
    limits, agents = Limits(), scenario.agents_count
    try:
        return OrchestratorConfig(
            store=store,
            seed=scenario.seed,
            clock=scenario.clock,
            backpressure=scenario.backpressure,
            dilation_wait_ms=scenario.dilation_wait_ms,
            dilation_factor_min=scenario.dilation_factor_min,
            staleness_threshold=scenario.staleness_threshold,
            quotas=scenario.quotas,
            mailbox_batches_max=max(limits.mailbox_batches_max, agents),
            mailbox_bytes_max=max(limits.mailbox_bytes_max, agents * _BATCH_BYTES),
            world=world,
            origin={ORIGIN: as_text(scenario)},
        )
    except ValueError as error:
        raise ScenarioError(scenario.name, "", str(error)) from error
