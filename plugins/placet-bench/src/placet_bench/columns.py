"""Workload `columns`: CPU time of a row of a column batch, beside W1 and Mesa in one run.

The steppers of one size alternate, as those of workload `step` do; a factor is of two turns in one
round.
"""

import gc
import time
import tracemalloc
from typing import Final

from placet.schemas.codec import Json
from placet_bench.column_steps import (
    PEOPLE,
    POPULATION,
    ColumnStep,
    FoldStep,
    ThroughputStep,
    crowd_kernel,
)
from placet_bench.step import Costs, Quartiles, if_installed, measured
from placet_bench.stepping import Stepper
from placet_bench.workloads import Scale

W1, MESA = "W1: a whole world", "Mesa: one attribute drawn"
MOVE, MOVE_DIGEST, PERMUTED, CLAIM, GIVE, BOUND, FOLD = (
    "move, the whole population",
    "… with the state digest each tick",
    "… permuted, 5 % suspended, 5 % refused",
    "one claim each, 37 % lose",
    "give to another, no bound in danger",
    "… bounds bind",
    "fold of the moves",
)
BARS_OF: Final = {
    MOVE: ("w1_to_move", "≥ 80 times W1, ≥ 10 times Mesa"),
    MOVE_DIGEST: ("w1_to_move_with_digest", "≥ 50 times W1"),
    PERMUTED: ("w1_to_permuted_move", "≥ 25 times W1"),
    CLAIM: ("w1_to_claim", "≥ 40 times W1"),
    GIVE: ("w1_to_add", "≥ 40 times W1"),
}
"""Name of the figure, and the bar, of each row of the table that has one."""

BARS_FROM: Final = 10_000
"""The bars hold from so many agents on: a batch of fewer has too few rows for its fixed cost."""

MESA_AGENTS_MAX: Final = 100_000
ACTS_MIN, ACTS_MAX = 20_000, 100_000
"""Bounds of the acts in a turn; a step of more agents is one turn."""

NOTES: Final = (
    "CPU time of a row: median of the rounds and quartiles; factors are of turns in the same round",
    "every stage of the gate, the log and its chain are on; targets are made outside of the time",
    "Mesa checks nothing, decides no conflict and keeps no log",
)


def _steppers(agents: int, scale: Scale, notes: list[str]) -> list[Stepper]:
    """Return W1, the column batches of a size, their fold, and Mesa if it is installed."""
    steppers: list[Stepper] = [
        ThroughputStep(W1, scale.shape, scale.chunk_intents),
        ColumnStep(MOVE, agents),
        ColumnStep(MOVE_DIGEST, agents, has_digest=True),
        ColumnStep(PERMUTED, agents, is_permuted=True),
        ColumnStep(CLAIM, agents, "Take"),
        ColumnStep(GIVE, agents, "Give"),
        ColumnStep(BOUND, agents, "Give", wealth=1),
        FoldStep(FOLD, agents),
    ]
    if agents > MESA_AGENTS_MAX:
        return steppers
    return steppers + if_installed(lambda: _mesa(agents), notes)


def _mesa(agents: int) -> list[Stepper]:
    from placet_bench.mesa_steps import MesaStep  # noqa: PLC0415  # optional

    return [MesaStep(MESA, agents)]


def _rows(costs: dict[str, Costs]) -> list[dict[str, Json]]:
    """Return the rows of one size: cost, and factors of W1 and of Mesa."""
    rows: list[dict[str, Json]] = []
    for name, cost in costs.items():
        row: dict[str, Json] = {
            "name": name,
            "agents": cost.stepper.agents,
            "rounds": len(cost.rounds),
            "cpu_us": Quartiles.of(cost.rounds).as_dict(),
            "bar": BARS_OF.get(name, ("", ""))[1],
        }
        for base, key in ((W1, "w1_factor"), (MESA, "mesa_factor")):
            if base in costs and name not in {W1, MESA}:
                row[key] = costs[base].ratios_to(cost).as_dict()
        rows.append(row)
    return rows


def _population(members: int) -> dict[str, Json]:
    """Return the CPU seconds in which a population is registered, and its bytes an agent.

    Bytes besides those of the fields, by tracemalloc, after a collection.
    """
    gc.collect()
    tracemalloc.start()
    try:
        started, before = time.process_time(), tracemalloc.get_traced_memory()[0]
        kernel = crowd_kernel("Move", members)
        seconds = time.process_time() - started
        kernel.step(1.0)
        gc.collect()
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    fields = kernel.population(POPULATION)
    own = sum(fields[name].nbytes for name in kernel.tree.tables[PEOPLE].fields)
    others = sum(
        column.nbytes + table.seqs.nbytes + table.bys.nbytes + table.foreign.nbytes
        for name, table in kernel.tree.tables.items()
        if name != PEOPLE
        for column in table.columns.values()
    )
    return {
        "members": members,
        "register_cpu_seconds": seconds,
        "bytes_per_member": (after - before - own - others) / members,
    }


async def columns(scale: Scale, seconds: float) -> dict[str, Json]:
    """Measure workload `columns`: batches of whole populations beside W1 and Mesa, by size."""
    notes = list(NOTES)
    rows: list[dict[str, Json]] = []
    by_size: dict[int, dict[str, Costs]] = {}
    for agents in scale.column_agents:
        steppers = _steppers(agents, scale, notes)
        acts = max(min(agents, ACTS_MAX), min(ACTS_MIN, scale.chunk_intents))
        costs = by_size[agents] = {
            cost.stepper.name: cost for cost in await measured(steppers, acts, seconds)
        }
        rows += _rows(costs)
    figures: dict[str, Json] = {"rows": rows, **_figures(by_size), **_population(scale.members)}
    figures["notes"] = list(dict.fromkeys(notes))
    return figures


def _figures(by_size: dict[int, dict[str, Costs]]) -> dict[str, Json]:
    """Return the factors of the bars: the least of the sizes that they hold for."""
    sizes = [size for size in by_size if BARS_FROM <= size <= MESA_AGENTS_MAX] or list(by_size)

    def least(base: str, name: str) -> float:
        return min(by_size[size][base].ratios_to(by_size[size][name]).middle for size in sizes)

    figures: dict[str, Json] = {figure: least(W1, name) for name, (figure, _) in BARS_OF.items()}
    figures["decide_to_fold"] = least(MOVE, FOLD)
    if all(MESA in by_size[size] for size in sizes):
        figures["mesa_to_move"] = least(MESA, MOVE)
    cost = {size: Quartiles.of(costs[MOVE].rounds).middle for size, costs in by_size.items()}
    smallest, largest = min(sizes), max(by_size)
    figures["growth"] = cost[largest] / cost[smallest]
    return figures
