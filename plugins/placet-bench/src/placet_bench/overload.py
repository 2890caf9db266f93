"""More than it can take: an open-loop load at multiples of the capacity, for each policy.

Batches arrive when they arrive, answered or not (Poisson, seeded), from a generator in the same
process and event loop. As clients do, it makes a batch when it offers it and drops it when it is
refused; a burst is small, so that the next one is made where it was. Beside it one client tells how
long a control message takes from when it was due.

Time is the world's: CPU time of the process, which never idles, less the time that the generator
spends on making a burst and on its bookkeeping, measured where it happens. Arrivals, duration and
rates are measured in it (`raw` includes the generator's time). By wall-clock time a process that is
given half a core would be offered ten times its capacity when five times is meant; and with the
generator's time five times would be seven, because then a third of all time is the generator's.

The capacity is the throughput of a closed loop with 64 outstanding batches. One runs before and
after each round of loads, and each load is compared with the mean of the two; the figure is the
median over the rounds. The peak is the best of the open loads.

No more batches may be queued than the closed loop has outstanding: queued batches are cold in the
cache when they are decided, so a world with deeper queues decides less, overloaded or not
(docs/concepts/backpressure.md).
"""

import asyncio
import gc
import time
from array import array
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import cycle, islice, pairwise
from pathlib import Path
from random import Random
from statistics import mean, median
from typing import Final, NamedTuple

from placet.actors.admission.queue import Backpressure
from placet.runtime.config import BACKPRESSURE, OrchestratorConfig
from placet.runtime.orchestrator import Orchestrator
from placet.runtime.pending_verdict import PendingVerdict
from placet.schemas.codec import Json
from placet.schemas.intent import Intent
from placet_bench.measure import percentiles_ms
from placet_bench.workloads import PERMISSIONS, SEED, Load, Scale, Shape, make_config, make_domain

LOADS: Final = (0.5, 1.0, 2.0, 5.0)
"""Offered load, in multiples of the measured capacity."""

OUTSTANDING: Final = 64
"""Of the closed loop, always."""

_BURST: Final = 16
"""Batches made at a time: they stay in the processor's caches until they are posted."""

_COUNTED_SECONDS: Final = 0.12
"""Of a trial: so short that a slow moment of the machine hits a whole round."""

_WARM_SHARE: Final = 0.4
"""Of a trial, before it is counted: the queue fills up, and the estimates of the pace settle."""

_PROBE_PAUSE_NS: Final = 5_000_000
_PRIORITIES: Final = (10, 30, 50, 70)


class _Offer(NamedTuple):
    """A batch, which agent offers it, and that agent's way to hand it in."""

    post: Callable[[object], PendingVerdict]
    batch: list[Intent]
    agent: int


class _Pending(NamedTuple):
    ticket: PendingVerdict
    posted_ns: int


class _Client:
    """The outstanding batches of one agent, in the order of their decision."""

    __slots__ = ("changed", "pending")

    def __init__(self) -> None:
        self.pending: deque[_Pending] = deque()
        self.changed = asyncio.Event()


class Harness:
    """A world to be overloaded by a benchmark, and the generator of its batches.

    Attributes:
        orchestrator: The world.
        agents: Number of agents, which submit in turn.

    Args:
        shape: Shape of the load.
        backpressure: Overflow policy of the queue.
        places: Maximum number of queued batches, wait queue included.
    """

    def __init__(self, shape: Shape, backpressure: Backpressure, places: int = OUTSTANDING) -> None:
        self._load = Load(shape)
        self._random = Random(SEED)
        self._posts: list[Callable[[object], PendingVerdict]] = []
        self._next_agents = cycle(range(shape.agents))
        self.agents = shape.agents
        self.orchestrator = Orchestrator(make_domain(), _config(shape, backpressure, places))

    async def register(self) -> None:
        """Register the agents of the load."""
        for agent_id in self._load.agent_ids:
            handle = await self.orchestrator.register_agent(agent_id, permissions=PERMISSIONS)
            self._posts.append(handle.submit_nowait)

    def burst(self, batches: int) -> list[_Offer]:
        """Generate new batches for the next agents, at the world's present seq."""
        make, choose, posts = self._load.batch, self._random.choice, self._posts
        seq = self.orchestrator.seq
        return [
            _Offer(posts[agent], make(agent, seq, choose(_PRIORITIES)), agent)
            for agent in islice(self._next_agents, batches)
        ]

    async def trial(self, arrivals: Sequence[float] | None, seconds: float) -> "Trial":
        """Run one trial with this world (`Trial.run`), and return it."""
        gc.collect()
        trial = Trial(self)
        await trial.run(arrivals, seconds)
        return trial


def _config(shape: Shape, backpressure: Backpressure, places: int) -> OrchestratorConfig:
    """Configure as the other workloads are, but with a queue that this load fills.

    Under `wait` half of the places are in the line before it.
    """
    in_line = places // 2 if backpressure == "wait" else 0
    config = make_config(shape)
    limits = replace(
        config.limits,
        mailbox_age_ms_max=5_000,
        loop_lag_ms_max=1_000,
        mailbox_batches_max=places - in_line,
        wait_queue_batches_max=in_line or 1,
    )
    return replace(config, backpressure=backpressure, limits=limits)


class Trial:
    """One run of an overload benchmark: a load for some time, and the counts of its batches.

    Counting starts after a warm-up, when the queue is as full as it will be.

    Attributes:
        offered: Number of submitted batches.
        admitted: Number of admitted batches.
        refused: Number of refused batches, by code.
        latencies_ns: Wall time from submission to verdict of each admitted batch, nanoseconds.
        control_ns: Latency of a control message from its due time, wall-clock nanoseconds.
        wall_seconds: Counted wall time.
        cpu_seconds: Counted CPU time of the process.
        generator_seconds: Part of the CPU time that the generator of batches used.
        rss_growth: Growth of resident memory, bytes: the log in memory, and other objects.
    """

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._clients = [_Client() for _ in range(harness.agents)]
        self._outstanding = 0
        self._generator_ns = 0
        self._is_over = False
        self._begin()

    def _begin(self) -> None:
        self.offered = self.admitted = 0
        self.refused: Counter[str] = Counter()
        self.latencies_ns, self.control_ns = array("q"), array("q")
        self.wall_seconds = time.perf_counter_ns() / -1e9
        self.cpu_seconds = time.process_time_ns() / -1e9
        self.generator_seconds = self._generator_ns / -1e9
        self.rss_growth = -_rss_bytes()

    def _end(self) -> None:
        self.wall_seconds += time.perf_counter_ns() / 1e9
        self.cpu_seconds += time.process_time_ns() / 1e9
        self.generator_seconds += self._generator_ns / 1e9
        self.rss_growth += _rss_bytes()
        self._is_over = True

    @property
    def world_seconds(self) -> float:
        """Counted CPU time without that of the generator, seconds."""
        return self.cpu_seconds - self.generator_seconds

    @property
    def goodput(self) -> float:
        """Admitted batches per second of `world_seconds`."""
        return self.admitted / self.world_seconds

    @property
    def goodput_raw(self) -> float:
        """Admitted batches per second of `cpu_seconds`."""
        return self.admitted / self.cpu_seconds

    async def run(self, arrivals: Sequence[float] | None, seconds: float) -> None:
        """Submit batches at given times; None submits so that 64 are always outstanding.

        Args:
            arrivals: Submission times, ascending, in CPU seconds without the generator.
            seconds: Duration in the same time, including the warm-up.
        """
        tasks = [asyncio.create_task(self._collect(client)) for client in self._clients]
        tasks.append(asyncio.create_task(self._probe()))
        started_ns, arrived = time.process_time_ns(), 0
        for until in (seconds * _WARM_SHARE, seconds):
            self._begin()
            while (now := self._elapsed(started_ns)) < until:
                if arrivals is None:
                    self._offer(OUTSTANDING - self._outstanding)
                else:
                    due = bisect_right(arrivals, now)
                    self._offer(due - arrived)
                    arrived = due
                await asyncio.sleep(0)
        self._end()
        await self._harness.orchestrator.drain()
        await self._harness.orchestrator.resume()
        for task in tasks:
            task.cancel()

    def _elapsed(self, started_ns: int) -> float:
        return (time.process_time_ns() - started_ns - self._generator_ns) / 1e9

    def _offer(self, count: int) -> None:
        """Make, submit, record and drop a burst; only the submission is not the benchmark's."""
        clock = time.thread_time_ns  # else what another thread of the world does were ours
        for left in range(count, 0, -_BURST):
            making_ns = clock()
            burst = self._harness.burst(min(left, _BURST))
            posted_ns, posting_ns = time.perf_counter_ns(), clock()
            tickets = [post(batch) for post, batch, _ in burst]
            booking_ns = clock()
            self._book(burst, tickets, posted_ns)
            del burst, tickets
            self._generator_ns += posting_ns - making_ns + clock() - booking_ns

    def _book(self, burst: list[_Offer], tickets: list[PendingVerdict], posted_ns: int) -> None:
        self.offered += len(burst)
        for offer, ticket in zip(burst, tickets, strict=True):
            verdict = ticket.verdict
            if verdict is None:
                client = self._clients[offer.agent]
                client.pending.append(_Pending(ticket, posted_ns))
                client.changed.set()
                self._outstanding += 1
            else:
                self.refused[verdict.refusals[0].code] += 1

    async def _collect(self, client: _Client) -> None:
        """Await the verdicts of one agent, as a separate client would."""
        pending, clock = client.pending, time.perf_counter_ns
        while True:
            if not pending:
                client.changed.clear()
                await client.changed.wait()
            ticket, posted_ns = pending.popleft()
            verdict = await ticket
            self._outstanding -= 1
            if self._is_over:
                continue
            if verdict.admitted:
                self.latencies_ns.append(clock() - posted_ns)
                self.admitted += 1
            else:
                self.refused[verdict.refusals[0].code] += 1

    async def _probe(self) -> None:
        """Ask at a steady pace; counted from when it was due, so that the loop's delay shows."""
        clock, orchestrator = time.perf_counter_ns, self._harness.orchestrator
        while not self._is_over:
            due_ns = clock() + _PROBE_PAUSE_NS
            await asyncio.sleep(_PROBE_PAUSE_NS / 1e9)
            await orchestrator.verdict_of("none", "none")
            self.control_ns.append(clock() - due_ns)


async def overload(scale: Scale, seconds: float) -> dict[str, Json]:
    """Measure an open-loop load at 0.5 to 5 times the capacity, for each overflow policy.

    Return the figures of the workload as plain JSON.
    """
    shape = scale.shape
    # All but `dilate`: there is no end to a load that does not come in simulated time.
    names = [policy for policy in BACKPRESSURE if policy != "dilate"]
    places = scale.overload_places
    policies = {policy: await _policy(shape, policy, places, seconds) for policy in names}
    last = {policy: points[-1] for policy, points in policies.items()}
    first = last[names[0]]
    return {
        "intents_per_second": first["goodput"],
        "goodput_at_5x": min(point["goodput_to_peak"] for point in last.values()),
        "verdict_ms": first["verdict_ms"],
        "control_p99_ms_at_5x": max(_p99_ms(point) for point in last.values()),
        "policies": policies,
        "notes": [
            f"{places} batches may wait in all; {OUTSTANDING} are outstanding in the closed loop",
            "the row is of `reject` at 5 times the capacity; goodput_at_5x is of the worst policy",
            "rates are per CPU second without the generator's; goodput_wall by the wall's clock",
            "goodput_to_peak is to the best of the open loads",
            "goodput_to_closed_loop_raw is with the generator's time",
        ],
    }


async def _policy(
    shape: Shape, policy: Backpressure, places: int, seconds: float
) -> list[dict[str, Json]]:
    harness, chance = Harness(shape, policy, places), Random(SEED)
    rounds = max(1, round(seconds / _COUNTED_SECONDS))
    trial_s = seconds / rounds / (1 - _WARM_SHARE)
    async with harness.orchestrator:
        await harness.register()
        idle = await harness.trial((), trial_s)
        while harness.orchestrator.statistics()["batches"] < shape.filling_rounds * shape.agents:
            await harness.trial(None, trial_s)
        closed = [await harness.trial(None, trial_s)]
        trials: dict[float, list[Trial]] = {load: [] for load in LOADS}
        for _ in range(rounds):
            capacity = closed[-1].goodput or 1.0
            for load in LOADS:
                arrivals = _arrivals(chance, load * capacity, trial_s)
                trials[load].append(await harness.trial(arrivals, trial_s))
            closed.append(await harness.trial(None, trial_s))
    points = [_point("idle", [idle], shape), _point("closed loop", closed, shape)]
    return points + _open_points(trials, closed, shape)


def _open_points(
    trials: dict[float, list[Trial]], closed: Sequence[Trial], shape: Shape
) -> list[dict[str, Json]]:
    """Sum up the loads, and compare each with the closed loops and with the best of them."""
    points = []
    for load, own in trials.items():
        point = _point(f"{load:g}x", own, shape)
        point["goodput_to_closed_loop"] = to_closed_loop(
            [trial.goodput for trial in own], [trial.goodput for trial in closed]
        )
        point["goodput_to_closed_loop_raw"] = to_closed_loop(
            [trial.goodput_raw for trial in own], [trial.goodput_raw for trial in closed]
        )
        points.append(point)
    peak = max(point["goodput_to_closed_loop"] for point in points)
    for point in points:
        point["goodput_to_peak"] = point["goodput_to_closed_loop"] / (peak or 1.0)
    return points


def to_closed_loop(goodputs: Sequence[float], closed: Sequence[float]) -> float:
    """Return the median ratio of each round's goodput to the closed loops before and after it."""
    means = [mean(pair) for pair in pairwise(closed)]
    ratios = [own / around for own, around in zip(goodputs, means, strict=True) if around]
    return median(ratios) if ratios else 0.0


def _arrivals(chance: Random, per_second: float, seconds: float) -> list[float]:
    """Draw the times of a Poisson process."""
    times, at = [], chance.expovariate(per_second)
    while at < seconds:
        times.append(at)
        at += chance.expovariate(per_second)
    return times


def _point(name: str, trials: Sequence[Trial], shape: Shape) -> dict[str, Json]:
    """Sum up the trials of one load."""
    seconds = sum(trial.world_seconds for trial in trials)
    wall_seconds = sum(trial.wall_seconds for trial in trials)
    intents = sum(trial.admitted for trial in trials) * shape.batch_intents
    offered = sum(trial.offered for trial in trials)
    generator_us = sum(trial.generator_seconds for trial in trials) * 1e6
    return {
        "load": name,
        "offered": offered * shape.batch_intents / seconds,
        "goodput": intents / seconds,
        "goodput_wall": intents / wall_seconds,
        "goodput_to_peak": None,
        "goodput_to_closed_loop": None,
        "goodput_to_closed_loop_raw": None,
        "verdict_ms": percentiles_ms([ns for trial in trials for ns in trial.latencies_ns]),
        "control_ms": percentiles_ms([ns for trial in trials for ns in trial.control_ns]),
        "refused": dict(sorted(sum((t.refused for t in trials), Counter[str]()).items())),
        "generator_us": generator_us / offered if offered else None,
        "rss_growth_mb": sum(trial.rss_growth for trial in trials) / 1e6,
    }


def _p99_ms(point: dict[str, Json]) -> float:
    times: dict[str, float] | None = point["control_ms"]
    return times["p99"] if times else 0.0


def _rss_bytes() -> int:
    status = Path("/proc/self/statm")
    return int(status.read_text(encoding="ascii").split()[1]) * 4096 if status.exists() else 0
