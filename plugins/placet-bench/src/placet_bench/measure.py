"""How it is measured: subjects take turns, so that a slow minute of the machine hits them all.

The garbage collector is set as placet's own processes set it (`stores/gc_tuning.py`), for
the reference too, in preparation and in timed work alike; it is asked to collect before a turn. A
ratio is of one turn to the mean of the two turns of the reference around it, and the report gives
the median of the ratios.
"""

import gc
import time
from collections.abc import Sequence
from statistics import mean, median
from typing import NamedTuple

from placet_bench.subjects import Contender

TURN_SECONDS = 0.4
"""Length of a turn where the time given allows for it."""

TURNS_MIN, TURNS_MAX = 3, 15


class Sample(NamedTuple):
    """One measurement of one contender: intents, wall time and CPU time of the whole process."""

    intents: int
    wall_ns: int
    cpu_ns: int

    @property
    def per_second(self) -> float:
        """Intents per second of wall time."""
        return self.intents * 1e9 / self.wall_ns

    @property
    def cpu_us(self) -> float:
        """CPU time of one intent, microseconds."""
        return self.cpu_ns / 1e3 / self.intents


class Spread(NamedTuple):
    """Minimum, median and maximum of a figure over the turns of a benchmark."""

    least: float
    middle: float
    most: float

    def as_dict(self) -> dict[str, float]:
        """Return the three values as plain JSON."""
        return {"min": self.least, "median": self.middle, "max": self.most}


def spread(values: Sequence[float]) -> Spread:
    """Return minimum, median and maximum of values."""
    return Spread(min(values), median(values), max(values))


async def interleave(
    subjects: Sequence[Contender], seconds: float
) -> dict[Contender, list[Sample]]:
    """Run contenders in turns, so that a slow phase of the machine affects all.

    Return their samples.

    Args:
        subjects: The contenders, in order; the others are compared with the first, which gets one
            turn more.
        seconds: Timed seconds of each contender, over all turns.
    """
    count = max(TURNS_MIN, min(TURNS_MAX, round(seconds / TURN_SECONDS)))
    turns: dict[Contender, list[Sample]] = {contender: [] for contender in subjects}
    for contender in [*list(subjects) * count, subjects[0]]:
        turns[contender].append(await _turn(contender, seconds / count))
    return turns


async def _turn(contender: Contender, seconds: float) -> Sample:
    gc.collect()
    intents = wall_ns = cpu_ns = 0
    while wall_ns < seconds * 1e9:
        chunk = contender.next_chunk()
        wall_before, cpu_before = time.perf_counter_ns(), time.process_time_ns()
        await contender.run(chunk)
        cpu_ns += time.process_time_ns() - cpu_before
        wall_ns += time.perf_counter_ns() - wall_before
        intents += chunk.intents
    return Sample(intents, wall_ns, cpu_ns)


def ratios(turns: Sequence[Sample], others: Sequence[Sample]) -> list[float]:
    """Return the throughput of each turn, relative to the mean of the two nearest of `others`."""
    pairs = zip(others, [*others[1:], others[-1]], strict=True)
    return [
        turn.per_second / mean((before.per_second, after.per_second))
        for turn, (before, after) in zip(turns, pairs, strict=False)
    ]


def cpu_ratios(turns: Sequence[Sample], others: Sequence[Sample]) -> list[float]:
    """Return the ratios of `ratios` by CPU time, which other programs disturb less."""
    pairs = zip(others, [*others[1:], others[-1]], strict=True)
    return [
        mean((before.cpu_us, after.cpu_us)) / turn.cpu_us
        for turn, (before, after) in zip(turns, pairs, strict=False)
    ]


def percentiles_ms(latencies_ns: Sequence[int]) -> dict[str, float] | None:
    """Return the median and the 99th percentile in milliseconds; None if there are no values."""
    if not latencies_ns:
        return None
    ordered = sorted(latencies_ns)
    last = len(ordered) - 1
    return {"p50": ordered[last // 2] / 1e6, "p99": ordered[int(last * 0.99)] / 1e6}
