"""More than it can take: an open-loop load at multiples of the capacity, for each policy.

Batches arrive when they arrive, answered or not (Poisson, seeded), each of them new, from a
generator in the same process and event loop, which writes the priority into each intent as it
offers it. Beside it one client tells how long a control message takes from when it was due.

Time is CPU time of the process, which never idles: arrivals, length and rates are counted in it.
By the wall's clock a process that is given half a core is offered ten times what it can take
when five times is meant; so other programs on the machine stretch load and capacity alike.

The capacity is what a closed loop with 64 batches outstanding gets; one runs before and after each
load, and a load is compared with the mean of the two. What the generator costs is taken from the
world that it loads, and at five times the capacity it costs five times as much: so it is measured
in the same run (the same loop, where `post` returns at once), and the comparison is given twice,
as it is (`raw`) and with the generator's own time taken out of both (`net`).
"""

import asyncio
import gc
import time
from array import array
from collections import Counter, deque
from collections.abc import Callable, Sequence
from itertools import islice, pairwise
from pathlib import Path
from random import Random
from statistics import mean, median
from typing import Final, NamedTuple

from placet.actors.queue import Backpressure
from placet.actors.ticket import Ticket
from placet.bench.measure import percentiles_ms
from placet.bench.workloads import PERMISSIONS, SEED, Load, Scale, Shape, make_config, make_domain
from placet.runtime.config import BACKPRESSURE, OrchestratorConfig
from placet.runtime.facade import Orchestrator
from placet.schemas.codec import Json
from placet.schemas.intent import Intent

LOADS: Final = (0.5, 1.0, 2.0, 5.0)
"""What is offered, in multiples of the measured capacity."""

QUEUE_BATCHES: Final = 100
"""Places in the queue, and as many in the line before it."""

_OUTSTANDING: Final = 64
_TURNS_MIN, _TURN_SECONDS_MAX = 1, 0.3
"""Loads and closed loops alternate as often as that: what else the machine does falls on both."""
_WARM_SHARE: Final = 0.3
"""Of a trial's time, before it is counted."""

_SATURATED: Final = 2.0
"""From so many times the capacity on, the generator never waits for its next arrival."""

_SLICES, _SLICE = 10, 500
_PROBE_PAUSE_NS: Final = 5_000_000
_PRIORITIES: Final = (10, 30, 50, 70)


class _Offer(NamedTuple):
    """A batch, its priority, which agent offers it, and that agent's way to hand it in."""

    post: Callable[[object], Ticket]
    batch: list[Intent]
    priority: int
    agent: int


class _Pending(NamedTuple):
    ticket: Ticket
    posted_ns: int


class _Client:
    """What one agent has outstanding, in the order in which it is decided."""

    __slots__ = ("news", "pending")

    def __init__(self) -> None:
        self.pending: deque[_Pending] = deque()
        self.news = asyncio.Event()


class Stand:
    """A world to be loaded, and the batches to load it with.

    Attributes:
        orchestrator: The world.
        pool: What is offered next.
    """

    def __init__(self, shape: Shape, backpressure: Backpressure) -> None:
        self._load = Load(shape)
        self._random = Random(SEED)
        self._posts: dict[str, Callable[[object], Ticket]] = {}
        self.orchestrator = Orchestrator(make_domain(), _config(shape, backpressure))
        self.pool: deque[_Offer] = deque()

    async def register(self) -> None:
        """Register the agents of the load."""
        for agent_id in self._load.agent_ids:
            handle = await self.orchestrator.register_agent(agent_id, permissions=PERMISSIONS)
            self._posts[agent_id] = handle.post

    def trial(self) -> "Trial":
        """Begin a trial of this world."""
        return Trial(self.orchestrator, self.pool, len(self._posts))

    def stock(self, batches: int) -> None:
        """Fill the pool up to so many batches; not timed."""
        rounds = max(1, (batches - len(self.pool)) // len(self._posts) + 1)
        chunk = self._load.chunk(self.orchestrator.seq, rounds)
        for row in zip(*[lane.batches for lane in chunk.lanes], strict=True):
            for agent, (lane, batch) in enumerate(zip(chunk.lanes, row, strict=True)):
                priority = self._random.choice(_PRIORITIES)
                self.pool.append(_Offer(self._posts[lane.agent_id], batch, priority, agent))
        gc.collect()  # else more of what is only in stock is walked the more there is of it


def _config(shape: Shape, backpressure: Backpressure) -> OrchestratorConfig:
    """Configure as the other workloads are, but with a queue that this load fills."""
    config = make_config(shape)
    unbounded = {name: getattr(config.limits, name) for name in type(config.limits).__slots__}
    bounds = {"mailbox_age_ms_max": 5_000, "loop_lag_ms_max": 1_000}
    bounds |= {"mailbox_batches_max": QUEUE_BATCHES, "line_batches_max": QUEUE_BATCHES}
    return OrchestratorConfig(
        seed=SEED,
        staleness_threshold=config.staleness_threshold,
        quotas=config.quotas,
        backpressure=backpressure,
        limits=type(config.limits)(**{**unbounded, **bounds}),
    )


class Trial:
    """One load for one stretch of time, counted once the queue is as full as it will be.

    Attributes:
        offered: Batches offered.
        admitted: Batches admitted.
        refused: Batches refused, by code.
        latencies_ns: From offer to verdict, of the admitted, wall time.
        control_ns: What a control message took from when it was due, wall time.
        wall_seconds: How long it was by the wall's clock.
        cpu_seconds: How long it was: CPU time of the process.
        rss_growth: Resident bytes more than before: the log in memory, and whatever else stays.
    """

    def __init__(self, orchestrator: Orchestrator, pool: deque[_Offer], agents: int) -> None:
        self._orchestrator = orchestrator
        self._pool = pool
        self._spent: list[_Offer] = []  # freed when nothing is timed
        self._clients = [_Client() for _ in range(agents)]
        self._outstanding = 0
        self._is_over = False
        self._begin()

    def _begin(self) -> None:
        self.offered = self.admitted = 0
        self.refused: Counter[str] = Counter()
        self.latencies_ns, self.control_ns = array("q"), array("q")
        self.wall_seconds = time.perf_counter_ns() / -1e9
        self.cpu_seconds = time.process_time_ns() / -1e9
        self.rss_growth = -_rss_bytes()

    def _end(self) -> None:
        self.wall_seconds += time.perf_counter_ns() / 1e9
        self.cpu_seconds += time.process_time_ns() / 1e9
        self.rss_growth += _rss_bytes()
        self._is_over = True

    async def run(self, arrivals: Sequence[float], seconds: float) -> None:
        """Offer batches at the given seconds; where there are none, so that 64 wait always."""
        tasks = [asyncio.create_task(self._collect(client)) for client in self._clients]
        tasks.append(asyncio.create_task(self._probe()))
        started_ns = time.process_time_ns()
        arrivals_ns = deque(started_ns + round(at * 1e9) for at in arrivals)
        ends_ns = started_ns + round(seconds * 1e9)
        for until_ns in (started_ns + round(seconds * _WARM_SHARE * 1e9), ends_ns):
            self._begin()
            while (now_ns := time.process_time_ns()) < until_ns:
                if arrivals:
                    self.offer_due(arrivals_ns, now_ns)
                else:
                    self._offer_some(_OUTSTANDING - self._outstanding)
                await asyncio.sleep(0)
        self._end()
        await self._orchestrator.drain()
        await self._orchestrator.resume()
        for task in tasks:
            task.cancel()
        self._spent.clear()

    @property
    def goodput(self) -> float:
        """Batches admitted per second."""
        return self.admitted / self.cpu_seconds

    def goodput_net(self, generator_us: float) -> float:
        """Batches admitted per second that the generator did not use."""
        return self.admitted / (self.cpu_seconds - self.offered * generator_us / 1e6)

    def offer_due(self, arrivals_ns: deque[int], now_ns: int) -> None:
        """Offer what is due."""
        count = 0
        while arrivals_ns and arrivals_ns[0] <= now_ns:
            arrivals_ns.popleft()
            count += 1
        self._offer_some(count)

    def _offer_some(self, count: int) -> None:
        posted_ns = time.perf_counter_ns()
        for _ in range(count):
            offer = self._pool.popleft()
            post, batch, priority, agent = offer
            for intent in batch:
                intent["priority"] = priority
            ticket = post(batch)
            self._spent.append(offer)
            self.offered += 1
            verdict = ticket.verdict
            if verdict is None:
                client = self._clients[agent]
                client.pending.append(_Pending(ticket, posted_ns))
                client.news.set()
                self._outstanding += 1
            else:
                self.refused[verdict.refusals[0].code] += 1

    async def _collect(self, client: _Client) -> None:
        """Await the verdicts of one agent, as clients of their own would."""
        pending, clock = client.pending, time.perf_counter_ns
        while True:
            if not pending:
                client.news.clear()
                await client.news.wait()
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
        clock, orchestrator = time.perf_counter_ns, self._orchestrator
        while not self._is_over:
            due_ns = clock() + _PROBE_PAUSE_NS
            await asyncio.sleep(_PROBE_PAUSE_NS / 1e9)
            await orchestrator.verdict_of("nobody", "nothing")
            self.control_ns.append(clock() - due_ns)


async def overload(scale: Scale, seconds: float) -> dict[str, Json]:
    """Overload: an open-loop load at 0.5 to 5 times the capacity, for each policy."""
    shape = Shape(agents=scale.agents, window_ids=scale.window_ids)
    # All but `dilate`: there is no end to a load that does not come in simulated time.
    names = [policy for policy in BACKPRESSURE if policy != "dilate"]
    policies = {policy: await _policy(shape, policy, seconds) for policy in names}
    last = {policy: points[-1] for policy, points in policies.items()}
    first = last[names[0]]
    return {
        "intents_per_second": first["goodput"],
        "goodput_at_5x": min(point["goodput_to_peak"] for point in last.values()),
        "goodput_at_5x_raw": min(point["goodput_to_peak_raw"] for point in last.values()),
        "verdict_ms": first["verdict_ms"],
        "control_p99_ms_at_5x": max(_p99_ms(point) for point in last.values()),
        "policies": policies,
        "notes": [
            "the row is of `reject` at 5 times the capacity; goodput_at_5x is of the worst policy",
            "goodput is per CPU second of the process; goodput_wall by the wall's clock",
            "goodput_to_peak is without the generator's own time; goodput_to_peak_raw is with it",
        ],
    }


async def _policy(shape: Shape, policy: Backpressure, seconds: float) -> list[dict[str, Json]]:
    stand, chance = Stand(shape, policy), Random(SEED)
    turns = max(_TURNS_MIN, round(seconds / _TURN_SECONDS_MAX))
    turn_s = seconds / turns
    async with stand.orchestrator:
        await stand.register()
        idle = stand.trial()
        await idle.run([2 * seconds], turn_s)
        while stand.orchestrator.statistics()["batches"] < shape.filling_rounds * shape.agents:
            await _closed_loop(stand, turn_s)
        refusing_us = await _refusing_us(stand)
        peaks = [await _closed_loop(stand, turn_s)]
        points = [_point("idle", [idle], shape), _point("closed loop", peaks, shape)]
        for load in LOADS:
            trials, peaks = list[Trial](), peaks[-1:]
            generator = await _generator_us(stand)
            for _ in range(turns):
                arrivals = _arrivals(chance, load * (peaks[-1].goodput or 1.0), turn_s)
                stand.stock(len(arrivals) + _OUTSTANDING)
                trial = stand.trial()
                await trial.run(arrivals, turn_s)
                trials.append(trial)
                peaks.append(await _closed_loop(stand, turn_s))
                generator += await _generator_us(stand)
            point = _point(f"{load:g}x", trials, shape)
            point["generator_us"] = generator_us = median(generator)
            point["refusing_us"] = max(0.0, refusing_us - generator_us)
            point["goodput_to_peak_raw"] = _to_peak(trials, peaks, 0.0)
            if load >= _SATURATED:  # below it the generator idles too, which nobody can account for
                point["goodput_to_peak"] = _to_peak(trials, peaks, generator_us)
            points.append(point)
    return points


async def _closed_loop(stand: Stand, seconds: float) -> Trial:
    stand.stock(round(20_000 * seconds))
    trial = stand.trial()
    await trial.run((), seconds)
    return trial


def _to_peak(trials: Sequence[Trial], peaks: Sequence[Trial], generator_us: float) -> float:
    """Compare each with the mean of the closed loops before and after it; the median of that."""
    peak = [one.goodput_net(generator_us) for one in peaks]
    means = [mean(pair) for pair in pairwise(peak)]
    ratios = [t.goodput_net(generator_us) / m for t, m in zip(trials, means, strict=True) if m]
    return median(ratios) if ratios else 0.0


async def _generator_us(stand: Stand) -> list[float]:
    """Measure what the generator spends on an offer, where `post` returns at once; by slices."""
    await stand.orchestrator.drain()
    refused = stand.orchestrator.post([])
    await stand.orchestrator.resume()
    stand.stock(_SLICES * _SLICE)
    offers = islice(stand.pool, _SLICES * _SLICE)
    pool = deque(offer._replace(post=lambda _batch: refused) for offer in offers)
    return _slices_us(Trial(stand.orchestrator, pool, 0))


async def _refusing_us(stand: Stand) -> float:
    """Measure an offer that a full queue refuses, generator included; nothing is decided then."""
    stand.stock(_SLICES * _SLICE + 4 * QUEUE_BATCHES)
    await stand.orchestrator.pause()
    trial = stand.trial()
    trial.offer_due(deque([0] * 4 * QUEUE_BATCHES), 0)
    slices = _slices_us(trial)
    await stand.orchestrator.drain()
    await stand.orchestrator.resume()
    return median(slices)


def _slices_us(trial: Trial) -> list[float]:
    """Give the CPU time of one offer, for each of some slices."""
    spent_us = []
    for _ in range(_SLICES):
        arrivals, started_ns = deque([0] * _SLICE), time.process_time_ns()
        trial.offer_due(arrivals, 0)
        spent_us.append((time.process_time_ns() - started_ns) / 1e3 / _SLICE)
    return spent_us


def _arrivals(chance: Random, per_second: float, seconds: float) -> list[float]:
    """Draw the times of a Poisson process."""
    times, at = [], chance.expovariate(per_second)
    while at < seconds:
        times.append(at)
        at += chance.expovariate(per_second)
    return times


def _point(name: str, trials: Sequence[Trial], shape: Shape) -> dict[str, Json]:
    """Sum up the trials of one load."""
    seconds = sum(trial.cpu_seconds for trial in trials)
    wall_seconds = sum(trial.wall_seconds for trial in trials)
    intents = sum(trial.admitted for trial in trials) * shape.batch_intents
    return {
        "load": name,
        "offered": sum(trial.offered for trial in trials) * shape.batch_intents / seconds,
        "goodput": intents / seconds,
        "goodput_wall": intents / wall_seconds,
        "goodput_to_peak": None,
        "goodput_to_peak_raw": None,
        "verdict_ms": percentiles_ms([ns for trial in trials for ns in trial.latencies_ns]),
        "control_ms": percentiles_ms([ns for trial in trials for ns in trial.control_ns]),
        "refused": dict(sorted(sum((t.refused for t in trials), Counter[str]()).items())),
        "generator_us": None,
        "refusing_us": None,
        "rss_growth_mb": sum(trial.rss_growth for trial in trials) / 1e6,
    }


def _p99_ms(point: dict[str, Json]) -> float:
    times: dict[str, float] | None = point["control_ms"]
    return times["p99"] if times else 0.0


def _rss_bytes() -> int:
    status = Path("/proc/self/statm")
    return int(status.read_text(encoding="ascii").split()[1]) * 4096 if status.exists() else 0
