"""More than it can take: an open-loop load at multiples of the capacity, for each policy.

Batches arrive when they arrive, answered or not (Poisson, seeded), from a generator in the same
process and event loop: what it costs is taken from the world that it loads. A batch that is refused
goes back to the generator, which offers it again later, with the same req_ids. Beside it one client
sends a control message after another, and tells how long each took.

The capacity is what a closed loop with 64 batches outstanding gets; one runs before and after each
load, and a load is compared with the mean of the two. Compared is by CPU time of the process where
it is saturated, so that other programs on the machine disturb less.
"""

import asyncio
import time
from array import array
from collections import Counter, deque
from collections.abc import Callable, Sequence
from itertools import pairwise
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
_TURNS_MIN, _TURN_SECONDS_MAX = 1, 0.5
_WARM_SHARE: Final = 0.3
"""Of a trial's time, before it is counted."""

_SLEEP_NS_MIN: Final = 1_000_000
_PROBE_PAUSE_S: Final = 0.005
_PRIORITIES: Final = (10, 30, 50, 70)


class _Offer(NamedTuple):
    """A batch, and the handle's method that hands it in."""

    post: Callable[[object], Ticket]
    batch: list[Intent]


class _Pending(NamedTuple):
    ticket: Ticket
    offer: _Offer
    posted_ns: int


class Stand:
    """A world to be loaded, and the batches to load it with.

    Attributes:
        orchestrator: The world.
        pool: What is offered next; what was refused is in front.
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
        return Trial(self.orchestrator, self.pool)

    def stock(self, batches: int) -> None:
        """Fill the pool up to so many batches; not timed."""
        rounds = max(1, (batches - len(self.pool)) // len(self._posts) + 1)
        chunk = self._load.chunk(self.orchestrator.seq, rounds)
        for row in zip(*[lane.batches for lane in chunk.lanes], strict=True):
            for lane, batch in zip(chunk.lanes, row, strict=True):
                priority = self._random.choice(_PRIORITIES)
                for intent in batch:
                    intent["priority"] = priority
                self.pool.append(_Offer(self._posts[lane.agent_id], batch))


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
        latencies_ns: From offer to verdict, of the admitted.
        control_ns: What a control message took.
        refusing_ns: Time spent on offers that were refused at once, together.
        seconds: How long it was.
        cpu_seconds: CPU time of the process meanwhile.
        rss_growth: Resident bytes more than before: the log in memory, and whatever else stays.
    """

    def __init__(self, orchestrator: Orchestrator, pool: deque[_Offer]) -> None:
        self._orchestrator = orchestrator
        self._pool = pool
        self._pending: deque[_Pending] = deque()
        self._news = asyncio.Event()
        self._ends_ns = 0
        self._begin()

    def _begin(self) -> None:
        self.offered = self.admitted = self.refusing_ns = 0
        self.refused: Counter[str] = Counter()
        self.latencies_ns, self.control_ns = array("q"), array("q")
        self.seconds = time.perf_counter_ns() / -1e9
        self.cpu_seconds = time.process_time_ns() / -1e9
        self.rss_growth = -_rss_bytes()

    def _end(self) -> None:
        self.seconds += time.perf_counter_ns() / 1e9
        self.cpu_seconds += time.process_time_ns() / 1e9
        self.rss_growth += _rss_bytes()

    async def run(self, arrivals: Sequence[float], seconds: float) -> None:
        """Offer batches at the given seconds; where there are none, so that 64 wait always."""
        started_ns = time.perf_counter_ns()
        self._ends_ns = started_ns + round(seconds * 1e9)
        collecting = asyncio.create_task(self._collect())
        probing = asyncio.create_task(self._probe())
        offering = asyncio.create_task(
            self._offer_at([started_ns + round(at * 1e9) for at in arrivals])
            if arrivals
            else self._offer_steadily()
        )
        await asyncio.sleep(seconds * _WARM_SHARE)
        self._begin()
        await offering
        await asyncio.sleep(max(0, self._ends_ns - time.perf_counter_ns()) / 1e9)
        self._end()
        await probing
        await self._orchestrator.drain()
        await self._orchestrator.resume()
        collecting.cancel()

    @property
    def goodput(self) -> float:
        """Batches admitted per second."""
        return self.admitted / self.seconds

    def efficiency(self, generator_us: float) -> float:
        """Batches admitted per CPU second that the generator did not use."""
        return self.admitted / (self.cpu_seconds - self.offered * generator_us / 1e6)

    def offer_due(self, arrivals_ns: Sequence[int], place: int = 0) -> int:
        """Offer what is due from a place on, and give the place of what is not."""
        clock = time.perf_counter_ns
        for index in range(place, len(arrivals_ns)):
            now_ns = clock()
            if now_ns < arrivals_ns[index]:
                return index
            self._offer(now_ns)
        return len(arrivals_ns)

    async def _offer_at(self, arrivals_ns: Sequence[int]) -> None:
        place, count = 0, len(arrivals_ns)
        while place < count and time.perf_counter_ns() < self._ends_ns:
            place = self.offer_due(arrivals_ns, place)
            left_ns = arrivals_ns[place] - time.perf_counter_ns() if place < count else 0
            await asyncio.sleep(left_ns / 2e9 if left_ns > _SLEEP_NS_MIN else 0)

    async def _offer_steadily(self) -> None:
        clock = time.perf_counter_ns
        while (now_ns := clock()) < self._ends_ns:
            if len(self._pending) < _OUTSTANDING:
                self._offer(now_ns)
            else:
                await asyncio.sleep(0)

    def _offer(self, now_ns: int) -> None:
        offer = self._pool.popleft()
        ticket = offer.post(offer.batch)
        self.offered += 1
        verdict = ticket.verdict
        if verdict is None:
            self._pending.append(_Pending(ticket, offer, now_ns))
            self._news.set()
            return
        self.refusing_ns += time.perf_counter_ns() - now_ns
        self._note_refusal(offer, verdict.refusals[0].code)

    async def _collect(self) -> None:
        """Await the verdicts in the order of offering, which is nearly that of deciding."""
        pending, clock = self._pending, time.perf_counter_ns
        while True:
            if not pending:
                self._news.clear()
                await self._news.wait()
            ticket, offer, posted_ns = pending[0]
            verdict = await ticket
            pending.popleft()
            if verdict.admitted:
                self.latencies_ns.append(clock() - posted_ns)
                self.admitted += clock() <= self._ends_ns
            else:
                self._note_refusal(offer, verdict.refusals[0].code)

    def _note_refusal(self, offer: _Offer, code: str) -> None:
        self.refused[code] += 1
        self._pool.appendleft(offer)

    async def _probe(self) -> None:
        clock, orchestrator = time.perf_counter_ns, self._orchestrator
        while clock() < self._ends_ns:
            started_ns = clock()
            await orchestrator.verdict_of("nobody", "nothing")
            self.control_ns.append(clock() - started_ns)
            await asyncio.sleep(_PROBE_PAUSE_S)


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
        "verdict_ms": first["verdict_ms"],
        "control_p99_ms_at_5x": max(_p99_ms(point) for point in last.values()),
        "policies": policies,
        "notes": [
            "the row is of `reject` at 5 times the capacity; goodput_at_5x is of the worst policy",
            "goodput_to_peak is per CPU second that the generator did not use; goodput is not",
        ],
    }


async def _policy(shape: Shape, policy: Backpressure, seconds: float) -> list[dict[str, Json]]:
    stand, chance = Stand(shape, policy), Random(SEED)
    turns = max(_TURNS_MIN, round(seconds / _TURN_SECONDS_MAX))
    turn_s = seconds / turns
    async with stand.orchestrator:
        await stand.register()
        idle = stand.trial()
        await idle.run([2 * seconds], seconds)
        while stand.orchestrator.statistics()["batches"] < shape.filling_rounds * shape.agents:
            await _closed_loop(stand, turn_s)
        generator_us = await _generator_us(stand)
        peaks = [await _closed_loop(stand, turn_s)]
        points = [_point("idle", [idle], shape), _point("closed loop", peaks, shape)]
        for load in LOADS:
            trials: list[Trial] = []
            peaks = peaks[-1:]
            for _ in range(turns):
                per_second = peaks[-1].goodput or 1.0
                stand.stock(round(per_second * turn_s * 2) + 4 * QUEUE_BATCHES)
                trial = stand.trial()
                await trial.run(_arrivals(chance, load * per_second, turn_s), turn_s)
                trials.append(trial)
                peaks.append(await _closed_loop(stand, turn_s))
            point = _point(f"{load:g}x", trials, shape)
            point["generator_us"] = generator_us
            if load == LOADS[-1]:  # below it the generator idles too, which nobody can account for
                point["goodput_to_peak"] = _to_peak(trials, peaks, generator_us)
            points.append(point)
    return points


async def _closed_loop(stand: Stand, seconds: float) -> Trial:
    stand.stock(round(20_000 * seconds) + 4 * QUEUE_BATCHES)
    trial = stand.trial()
    await trial.run((), seconds)
    return trial


def _to_peak(trials: Sequence[Trial], peaks: Sequence[Trial], generator_us: float) -> float:
    """Compare each with the mean of the closed loops before and after it; the median of that."""
    peak = [one.efficiency(generator_us) for one in peaks]
    means = [mean(pair) for pair in pairwise(peak)]
    ratios = [t.efficiency(generator_us) / m for t, m in zip(trials, means, strict=True) if m]
    return median(ratios) if ratios else 0.0


async def _generator_us(stand: Stand, count: int = 20_000) -> float:
    """Measure what the generator spends on an offer that is refused, where refusing is free."""
    await stand.orchestrator.drain()
    refused = stand.orchestrator.post([])
    await stand.orchestrator.resume()
    trial = Trial(stand.orchestrator, deque([_Offer(lambda _batch: refused, [])]))
    started_ns = time.process_time_ns()
    trial.offer_due([0] * count)
    return (time.process_time_ns() - started_ns) / 1e3 / count


def _arrivals(chance: Random, per_second: float, seconds: float) -> list[float]:
    """Draw the times of a Poisson process."""
    times, at = [], chance.expovariate(per_second)
    while at < seconds:
        times.append(at)
        at += chance.expovariate(per_second)
    return times


def _point(name: str, trials: Sequence[Trial], shape: Shape) -> dict[str, Json]:
    """Sum up the trials of one load."""
    seconds = sum(trial.seconds for trial in trials)
    refused = sum((trial.refused for trial in trials), Counter[str]())
    refusing_ns = sum(trial.refusing_ns for trial in trials)
    return {
        "load": name,
        "offered": sum(trial.offered for trial in trials) * shape.batch_intents / seconds,
        "goodput": sum(trial.admitted for trial in trials) * shape.batch_intents / seconds,
        "goodput_to_peak": None,
        "verdict_ms": percentiles_ms([ns for trial in trials for ns in trial.latencies_ns]),
        "control_ms": percentiles_ms([ns for trial in trials for ns in trial.control_ns]),
        "refused": dict(sorted(refused.items())),
        "refusing_us": refusing_ns / 1e3 / refused.total() if refused else None,
        "rss_growth_mb": sum(trial.rss_growth for trial in trials) / 1e6,
    }


def _p99_ms(point: dict[str, Json]) -> float:
    times: dict[str, float] | None = point["control_ms"]
    return times["p99"] if times else 0.0


def _rss_bytes() -> int:
    status = Path("/proc/self/statm")
    return int(status.read_text(encoding="ascii").split()[1]) * 4096 if status.exists() else 0
