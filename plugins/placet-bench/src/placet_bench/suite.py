"""The workloads: subjects, durations, and the figures made from the samples.

Every figure of a workload comes from the same run as the reference loop that it is compared with.
"""

import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Final, TypeAlias

from placet.kernel.arrays.extra import require_numpy
from placet.schemas.codec import Json
from placet_bench.delivery import ObservedWorld, Walking, reach_for
from placet_bench.footprint import (
    FIRST_WORLD_PROGRAM,
    IMPORT_PROGRAM,
    bytes_per_agent,
    bytes_per_req_id,
    seconds_of,
)
from placet_bench.http import http
from placet_bench.measure import Sample, cpu_ratios, interleave, percentiles_ms, ratios, spread
from placet_bench.overload import overload
from placet_bench.recovery import DiskLog, Recovering, opening
from placet_bench.step import step
from placet_bench.subjects import (
    Contender,
    Fold,
    KernelAlone,
    Reference,
    Verified,
    WholeWorld,
)
from placet_bench.workloads import Load, Scale, Shape

Figures: TypeAlias = dict[str, Json]
Workload: TypeAlias = Callable[[Scale, float], Awaitable[Figures]]

_LANES_DURABLE: Final = 4
_RECORDS_PER_SECOND: Final = 200_000
"""W5's log has as many records per second of the time given, up to `Scale.log_records`."""


async def _compete(subjects: Sequence[Contender], seconds: float) -> dict[Contender, list[Sample]]:
    async with AsyncExitStack() as stack:
        for contender in subjects:
            await stack.enter_async_context(contender)
        return await interleave(subjects, seconds)


def _figures(turns: Sequence[Sample], reference: Sequence[Sample]) -> Figures:
    """Sum up one contender against the reference."""
    rates = spread([turn.per_second for turn in turns])
    wall, cpu = spread(ratios(turns, reference)), spread(cpu_ratios(turns, reference))
    return {
        "intents_per_second": rates.middle,
        "ratio_to_reference": wall.middle,
        "verdict_ms": None,
        "spread": {
            "intents_per_second": rates.as_dict(),
            "ratio_to_reference": wall.as_dict(),
            "cpu_ratio_to_reference": cpu.as_dict(),
            "cpu_us_per_intent": spread([turn.cpu_us for turn in turns]).as_dict(),
            "reference_intents_per_second": spread(
                [turn.per_second for turn in reference]
            ).as_dict(),
        },
        "turns": len(turns),
    }


def _compare(
    figures: Figures, name: str, turns: Sequence[Sample], others: Sequence[Sample]
) -> None:
    """Add the ratio of one contender's throughput to another's, and its spread."""
    ratio = spread(ratios(turns, others))
    figures[name] = ratio.middle
    figures["spread"][name] = ratio.as_dict()


async def _in_memory(shape: Shape, scale: Scale, seconds: float) -> Figures:
    reference = Reference(scale.load(shape))
    world = WholeWorld(scale.load(shape))
    turns = await _compete([reference, world], seconds)
    figures = _figures(turns[world], turns[reference])
    figures["verdict_ms"] = percentiles_ms(world.latencies_ns)
    return figures


async def w1(scale: Scale, seconds: float) -> Figures:
    """Measure workload W1, throughput: batches of 10 intents, one outstanding per agent."""
    return await _in_memory(scale.shape, scale, seconds)


async def w1s(scale: Scale, seconds: float) -> Figures:
    """Measure workload W1s, throughput: batches of 1 intent, one outstanding per agent."""
    shape = Shape(agents=scale.agents, window_ids=scale.window_ids, batch_intents=1)
    return await _in_memory(shape, scale, seconds)


async def w2(scale: Scale, seconds: float) -> Figures:
    """Measure workload W2, delivery: as W1, and about 8 neighbors observe every move."""
    shape = scale.shape
    reference, world, observed = subjects = (
        Reference(scale.load(shape)),
        WholeWorld(scale.load(shape)),
        ObservedWorld(Walking(shape, chunk_intents=scale.chunk_intents), reach_for(scale.agents)),
    )
    turns = await _compete(subjects, seconds)
    intents = sum(turn.intents for turn in turns[observed])
    figures = _figures(turns[observed], turns[reference])
    figures["verdict_ms"] = percentiles_ms(observed.latencies_ns)
    _compare(figures, "ratio_to_w1", turns[observed], turns[world])
    figures["changes_per_batch"] = observed.changes * shape.batch_intents / intents
    figures["observations_per_second"] = observed.observations / sum(
        turn.wall_ns / 1e9 for turn in turns[observed]
    )
    figures["notes"] = [
        "agents walk about a place of their own; W1's leap anywhere, which is the same work for it",
        "what one group did to a mover is one change for each neighbor",
    ]
    return figures


async def w3(scale: Scale, seconds: float) -> Figures:
    """Measure workload W3, durability: SQLite FULL compared with memory, 4 batches per agent."""
    shape = Shape(agents=scale.agents, window_ids=scale.window_ids, lanes=_LANES_DURABLE)
    with tempfile.TemporaryDirectory(prefix="placet-bench-") as folder:
        store = f"sqlite:///{Path(folder) / 'w3.db'}?synchronous=full"
        reference, memory, durable = subjects = (
            Reference(scale.load(shape)),
            WholeWorld(scale.load(shape)),
            WholeWorld(scale.load(shape), store),
        )
        turns = await _compete(subjects, seconds)
        commit_ms = durable.statistics()["commit_ms"]
    figures = _figures(turns[durable], turns[reference])
    figures["verdict_ms"] = percentiles_ms(durable.latencies_ns)
    figures["commit_ms"] = commit_ms
    _compare(figures, "ratio_to_memory", turns[durable], turns[memory])
    figures["memory"] = _figures(turns[memory], turns[reference])
    figures["memory"]["verdict_ms"] = percentiles_ms(memory.latencies_ns)
    figures["notes"] = [
        "commit_ms is of the whole life of the store, the filling of the windows included",
        f"the store was in {Path(folder).parent}",
    ]
    return figures


async def w4(scale: Scale, seconds: float) -> Figures:
    """Measure workload W4, latency: one agent, one batch of 10 intents after another."""
    return await _in_memory(Shape(agents=1, window_ids=scale.window_ids), scale, seconds)


async def w5(scale: Scale, seconds: float) -> Figures:
    """Measure workload W5, scaling: 1 to 100 times as many agents, and a long log."""
    log_records = min(scale.log_records, round(seconds * _RECORDS_PER_SECOND))
    shapes = [
        Shape(agents=scale.agents * factor, window_ids=scale.crowd_window_ids)
        for factor in scale.crowds
    ]
    # As much prepared work for each, so that it is as cold in the caches when its turn comes.
    prepared = max(scale.chunk_intents, *(shape.round_intents for shape in shapes))
    references = [Reference(Load(shape, chunk_intents=prepared)) for shape in shapes]
    worlds = [WholeWorld(Load(shape, chunk_intents=prepared)) for shape in shapes]
    old = WholeWorld(Load(shapes[0], chunk_intents=prepared))
    subjects = [references[0], *worlds, old, *references[1:]]
    async with AsyncExitStack() as stack:
        for contender in subjects:
            await stack.enter_async_context(contender)
        await old.grow(log_records)
        turns = await interleave(subjects, seconds)
        records = [world.statistics()["records"] for world in [*worlds, old]]
    costs = [median(turn.cpu_us for turn in turns[world]) for world in [*worlds, old]]
    own_costs = [median(turn.cpu_us for turn in turns[reference]) for reference in references]
    figures = _figures(turns[worlds[-1]], turns[references[0]])
    figures["cost_largest_to_smallest"] = max(costs) / min(costs)
    figures["reference_cost_largest_to_smallest"] = max(own_costs) / min(own_costs)
    figures["sizes"] = [
        {"agents": shape.agents, "log_records": count, "cpu_us_per_intent": cost}
        for shape, count, cost in zip([*shapes, shapes[0]], records, costs, strict=True)
    ]
    figures["notes"] = [
        "costs are medians of CPU time; the other figures are of the largest crowd",
        f"dedup windows of {scale.crowd_window_ids} req_ids per agent",
        f"{prepared} intents made ahead of each stretch",
        "the reference's own cost grows with its agents too: the caches of the machine",
    ]
    return figures


async def replay(scale: Scale, seconds: float) -> Figures:
    """Measure workload `replay`: replay and verification of a log, compared with W1."""
    shape = scale.shape
    reference = Reference(scale.load(shape))
    world = WholeWorld(scale.load(shape))
    fold = Fold(scale.load(shape), scale.replay_intents)
    again = Verified(scale.load(shape), scale.replay_intents)
    turns = await _compete([reference, world, fold, again], seconds)
    figures = _figures(turns[fold], turns[reference])
    _compare(figures, "ratio_to_w1", turns[fold], turns[world])
    _compare(figures, "verify_to_w1", turns[again], turns[world])
    return figures


async def recovery(scale: Scale, seconds: float) -> Figures:
    """Measure workload `recovery`: opening a log on disk, without and with a snapshot."""
    shape = scale.shape
    first, *longer = scale.recovery_intents
    with tempfile.TemporaryDirectory(prefix="placet-bench-") as folder:
        disk = DiskLog(Path(folder) / "log.db", scale.load(shape))
        reference, world, whole = subjects = (
            Reference(scale.load(shape)),
            WholeWorld(scale.load(shape)),
            Recovering(disk, first),
        )
        turns = await _compete(subjects, seconds)
        openings = [
            await opening(disk, intents + scale.recovery_tail_intents, scale.recovery_tail_intents)
            for intents in (first, *longer)
        ]
    figures = _figures(turns[whole], turns[reference])
    _compare(figures, "ratio_to_w1", turns[whole], turns[world])
    figures["openings"] = [opening._asdict() for opening in openings]
    figures["notes"] = [
        *(
            f"a log of {opening.intents:,} intents with a snapshot opens in "
            f"{opening.seconds:.2f} s: {opening.folded:,} of {opening.records:,} records folded"
            for opening in openings
        ),
        "the file is in the system's cache; fetching it from a cold disk comes on top",
    ]
    return figures


async def kernel(scale: Scale, seconds: float) -> Figures:
    """Measure workload `kernel`: the kernel without actors, on the load of W1."""
    shape = scale.shape
    reference = Reference(scale.load(shape))
    alone = KernelAlone(scale.load(shape))
    turns = await _compete([reference, alone], seconds)
    return _figures(turns[alone], turns[reference])


async def memory(scale: Scale, _seconds: float) -> Figures:
    """Measure workload `memory`: bytes of an idle agent and of a req_id in a dedup window."""
    return {
        "bytes_per_agent": await bytes_per_agent(scale),
        "bytes_per_req_id": await bytes_per_req_id(scale),
        "bytes_per_free_form_req_id": await bytes_per_req_id(scale, are_free_form=True),
        "notes": ["requested bytes by tracemalloc; the allocator adds its own"],
    }


async def importing(scale: Scale, _seconds: float) -> Figures:
    """Measure workload `import`: seconds to import placet, without and with a first world."""
    times = spread(seconds_of(IMPORT_PROGRAM, scale.import_repeats))
    with_world = spread(seconds_of(FIRST_WORLD_PROGRAM, scale.import_repeats))
    return {
        "import_seconds": times.middle,
        "first_world_seconds": with_world.middle,
        "spread": {
            "import_seconds": times.as_dict(),
            "first_world_seconds": with_world.as_dict(),
        },
        "notes": ["less the start of an interpreter that imports nothing"],
    }


async def columns(scale: Scale, seconds: float) -> Figures:
    """Measure workload `columns`: column batches of whole populations beside W1 and Mesa."""
    require_numpy("workload columns")
    from placet_bench.columns import columns as measure  # noqa: PLC0415  # numpy is an extra

    return await measure(scale, seconds)


SUITE: Final[Mapping[str, Workload]] = {
    "w1": w1,
    "w1s": w1s,
    "w2": w2,
    "w3": w3,
    "w4": w4,
    "w5": w5,
    "replay": replay,
    "recovery": recovery,
    "kernel": kernel,
    "step": step,
    "columns": columns,
    "overload": overload,
    "http": http,
    "memory": memory,
    "import": importing,
}
