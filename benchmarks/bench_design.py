"""How fast is the design domain: plans of 10, conversions, and a long history?

    ./dev python benchmarks/bench_design.py [--seconds S] [--json]

One process, in memory, no event loop. Contenders take turns with the hand-written reference loop of
W1 (batches of 10 moves, no runtime), so that each figure is also a ratio to it in the same minute.
All are measured once their windows are full.
Time is CPU time of the thread, which other programs on the machine disturb less.

    kernel      batches of plans made ahead; structure, gate, rules, version, undo entry, record
    executor    the same through `ActionExecutor.execute`: plans in, `ExecutionResult`s out
    history     the cost of commits 9 500 to 10 000 of one design, to that of another's first 500

It does not show: phases, subscribers, a durable store, or waiting.
"""

import argparse
import asyncio
import gc
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count, islice
from statistics import median
from typing import Any

from bench_design_http import PARAMETERS

from placet.kernel import Kernel
from placet.stores.gc_tuning import tuned_gc
from placet_bench.report import machine
from placet_bench.subjects import Reference
from placet_bench.workloads import Load, Shape
from placet_design import (
    Action,
    ActionExecutor,
    ActionPlan,
    ActionType,
    Design,
    StateManager,
    UnitConverter,
    batch_of,
)

CHUNK_PLANS = 200
WARM_PLANS = 1_200
"""As many fill the rings of answers and of undo entries, and the dedup window."""
HISTORY_COMMITS, HISTORY_WINDOW = 10_000, 500
CONVERSIONS = 200_000


def plans() -> Iterator[ActionPlan]:
    """Make plans of 10 that each change all 10 parameters."""
    for version in count():
        factor = 1 + 0.001 * (version % 50 + 1)
        actions = [
            Action(ActionType.SET, path=path, value=value * factor)
            for path, value in PARAMETERS.items()
        ]
        yield ActionPlan(f"plan-{version}", "intent", "design", actions, version)


def kernel_turn() -> Callable[[], tuple[int, float]]:
    """Return the function that times one chunk of batches."""
    kernel = Kernel(Design())
    kernel.register_agent("planner")
    source = plans()
    for plan in islice(source, WARM_PLANS):
        kernel.decide(batch_of(plan, "planner"))

    def turn() -> tuple[int, float]:
        chunk = [batch_of(next(source), "planner") for _ in range(CHUNK_PLANS)]
        started = time.thread_time()
        verdicts = [kernel.decide(batch) for batch in chunk]
        seconds = time.thread_time() - started
        require(all(verdict.admitted for verdict in verdicts))
        return CHUNK_PLANS * len(PARAMETERS), seconds

    return turn


def executor_turn() -> Callable[[], tuple[int, float]]:
    """Return the function that times one chunk of plans."""
    executor = ActionExecutor(StateManager())
    source = plans()
    for plan in islice(source, WARM_PLANS):
        executor.execute(plan)

    def turn() -> tuple[int, float]:
        chunk = [next(source) for _ in range(CHUNK_PLANS)]
        started = time.thread_time()
        results = [executor.execute(plan) for plan in chunk]
        seconds = time.thread_time() - started
        require(all(result.success for result in results))
        return CHUNK_PLANS * len(PARAMETERS), seconds

    return turn


def reference_turn() -> Callable[[], tuple[int, float]]:
    """Return the function that times one chunk of the hand-written loop."""
    shape = Shape(agents=10, batch_intents=len(PARAMETERS), lanes=1, window_ids=1_024)
    reference = Reference(Load(shape, chunk_intents=CHUNK_PLANS * len(PARAMETERS)))

    def turn() -> tuple[int, float]:
        chunk = reference.next_chunk()
        started = time.thread_time()
        asyncio.run(reference.run(chunk))
        return chunk.intents, time.thread_time() - started

    return turn


def convert_turn() -> tuple[int, float]:
    """Time conversions one by one, by the name a user calls."""
    values = [float(n) for n in range(CONVERSIONS)]
    convert = UnitConverter.convert
    started = time.thread_time()
    for value in values:
        convert(value, "ft", "m")
    return CONVERSIONS, time.thread_time() - started


def convert_list_turn() -> tuple[int, float]:
    """Time conversions of a list, by one factor."""
    values = [float(n) for n in range(CONVERSIONS)]
    started = time.thread_time()
    factor = UnitConverter.factor("ft", "m")
    [value * factor for value in values]
    return CONVERSIONS, time.thread_time() - started


def history() -> dict[str, float]:
    """Measure the cost of a long history: an old design and a young one take turns at commits."""
    old, young = StateManager(), StateManager()
    for version in range(HISTORY_COMMITS - HISTORY_WINDOW):
        commit(old, version)
    costs: dict[StateManager, list[float]] = {old: [], young: []}
    for _ in range(HISTORY_WINDOW):
        for manager, times in costs.items():
            times.append(commit(manager, manager.design_version))
    first, last = median(costs[young]), median(costs[old])
    return {
        "first_us": first * 1e6,
        "last_us": last * 1e6,
        "last_to_first": last / first,
        "log_bytes_per_commit": sum(map(len, old.records)) / HISTORY_COMMITS,
    }


def commit(manager: StateManager, version: int) -> float:
    """Execute a plan of one, and give the seconds it took."""
    action = Action(ActionType.SET, path="hull.loa", value=10.0 + version % 400)
    plan = ActionPlan(f"plan-{version}", "intent", "design", [action], version)
    executor = ActionExecutor(manager)
    started = time.thread_time()
    executor.execute(plan)
    return time.thread_time() - started


def require(condition: bool) -> None:
    """Raise an error if the timed work is not the work that the report names."""
    if not condition:
        raise AssertionError("a plan of the workload was refused")


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="timed work of each contender")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    with tuned_gc():
        turns = {
            "reference loop (W1 moves)": reference_turn(),
            "kernel (actions)": kernel_turn(),
            "executor (actions)": executor_turn(),
            "convert (one by one)": convert_turn,
            "factor (a list)": convert_list_turn,
        }
        rates: dict[str, list[float]] = {name: [] for name in turns}
        deadline = time.perf_counter() + options.seconds * len(turns)
        while time.perf_counter() < deadline or not all(rates.values()):
            for name, turn in turns.items():
                gc.collect()
                work, seconds = turn()
                rates[name].append(work / seconds)
        long = history()
    report(rates, long, is_json=options.json)


def report(rates: dict[str, list[float]], long: dict[str, float], *, is_json: bool) -> None:
    """Print the report."""
    reference = rates["reference loop (W1 moves)"]
    results: dict[str, dict[str, Any]] = {
        name: {
            "per_second": {"min": min(found), "median": median(found), "max": max(found)},
            "to_reference": median(a / b for a, b in zip(found, reference, strict=True)),
        }
        for name, found in rates.items()
    }
    where = f"{platform.python_implementation()} {platform.python_version()}; {machine()}"
    if is_json:
        json.dump({"rates": results, "history": long, "machine": where}, sys.stdout, indent=2)
        print()
        return
    for name, result in results.items():
        spread = result["per_second"]
        print(
            f"{name:28}{spread['median']:>14,.0f} /s  "
            f"({spread['min']:,.0f} to {spread['max']:,.0f}), {result['to_reference']:.2f} of it"
        )
    print(
        f"commits 1 to {HISTORY_WINDOW}: {long['first_us']:.1f} us, up to {HISTORY_COMMITS}: "
        f"{long['last_us']:.1f} us, "
        f"ratio {long['last_to_first']:.2f}; {long['log_bytes_per_commit']:.0f} B of log a commit"
    )
    print(where)


if __name__ == "__main__":
    main()
