"""The benchmarks as plain values and as tables: what `placet bench` prints."""

import asyncio
import os
import platform
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple

from placet.cli.terminal import TextTable
from placet.schemas.codec import Json
from placet.stores.gc_tuning import tuned_gc
from placet_bench.suite import SUITE
from placet_bench.workloads import SEED, Scale

WORKLOADS: Final = tuple(SUITE)
"""Every workload by name, in the order in which they run."""

DEFAULT: Final = ("w1", "w1s", "w3", "w4", "w5", "replay")
_LIBRARIES: Final = ("placet", "pydantic", "pydantic-core", "msgspec", "anyio")


class Bar(NamedTuple):
    """A performance target: one row of the specification's table of speed.

    Attributes:
        label: Name of the figure in the table.
        workload: Workload whose result has the figure.
        path: Path of the figure in the result, names joined by dots.
        is_at_least: True if more is better.
        must: Bound that every release keeps.
        aim: Bound that is aimed at; None if there is only one.
        scale: Factor that converts the figure to the unit of the label.
    """

    label: str
    workload: str
    path: str
    is_at_least: bool
    must: float
    aim: float | None
    scale: float = 1.0


BARS: Final = (
    Bar("W1, intents/s ÷ reference loop", "w1", "ratio_to_reference", True, 0.5, 0.7),
    Bar("W1, k intents/s", "w1", "intents_per_second", True, 100, 150, 1e-3),
    Bar("W1s, k intents/s", "w1s", "intents_per_second", True, 35, 60, 1e-3),
    Bar("W2, moves shown to 8 neighbors ÷ W1", "w2", "ratio_to_w1", True, 0.4, 0.6),
    Bar("W3 ÷ the same in memory", "w3", "ratio_to_memory", True, 0.6, 0.9),
    Bar("W3 commit p50, ms (the bar holds up to 4)", "w3", "commit_ms.p50", False, 4, None),
    Bar("W4 p50, µs", "w4", "verdict_ms.p50", False, 100, 60, 1e3),
    Bar("W4 p99, µs", "w4", "verdict_ms.p99", False, 300, 150, 1e3),
    Bar("W5 cost, largest ÷ smallest", "w5", "cost_largest_to_smallest", False, 1.3, 1.1),
    Bar("replay, intents folded ÷ W1", "replay", "ratio_to_w1", True, 2, 4),
    Bar("recovery from a disk, intents ÷ W1", "recovery", "ratio_to_w1", True, 2, None),
    Bar(
        "overload, goodput at 5 times capacity ÷ peak", "overload", "goodput_at_5x", True, 0.9, None
    ),
    Bar("L1 (batches of 1), CPU a step ÷ Mesa's", "step", "l1_to_mesa", False, 10, 6),
    Bar(
        "environment, CPU an act, most agents ÷ fewest",
        "step",
        "environment_growth",
        False,
        1.5,
        None,
    ),
    Bar("a look at 10 000 entities, ms", "step", "look_ms", False, 0.1, None),
    Bar("columns: W1 ÷ a row that moves", "columns", "w1_to_move", True, 80, None),
    Bar("the same, the digest each tick", "columns", "w1_to_move_with_digest", True, 50, None),
    Bar("the same, permuted and refused", "columns", "w1_to_permuted_move", True, 25, None),
    Bar("columns: W1 ÷ a row that claims", "columns", "w1_to_claim", True, 40, None),
    Bar("columns: W1 ÷ a row that adds", "columns", "w1_to_add", True, 40, None),
    Bar("columns: Mesa ÷ a row that moves", "columns", "mesa_to_move", True, 10, None),
    Bar("columns: deciding ÷ folding", "columns", "decide_to_fold", True, 1.5, None),
    Bar("memory per member, B besides fields", "columns", "bytes_per_member", False, 60, None),
    Bar("registering the members, CPU s", "columns", "register_cpu_seconds", False, 1, None),
    Bar("memory per idle agent, B", "memory", "bytes_per_agent", False, 2_000, 1_000),
    Bar("memory per remembered req_id, B", "memory", "bytes_per_req_id", False, 300, 130),
    Bar("the same, free-form, B", "memory", "bytes_per_free_form_req_id", False, 300, 130),
    Bar("import placet, ms", "import", "import_seconds", False, 300, None, 1e3),
)


def run(
    workloads: Sequence[str] = (),
    seconds: float = 5.0,
    *,
    scale: Scale | None = None,
    on_progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> list[dict[str, Json]]:
    """Run workloads one after another, and return their results as plain JSON.

    Takes the given seconds, and some for preparation.

    Args:
        workloads: Names of `WORKLOADS`; if empty, the six of throughput and latency.
        seconds: Timed work of each contender of each workload.
        scale: Sizes of the workloads; None for the specification's.
        on_progress: Called with the number of workloads that are measured, and of all.

    Returns:
        For each workload at least `workload`, `intents_per_second`, `ratio_to_reference`,
        `verdict_ms` (both None where it measures something else), `python` and `machine`.

    Raises:
        ValueError: A workload is unknown, or the time is not positive.
    """
    names = list(workloads) or list(DEFAULT)
    unknown = [name for name in names if name not in SUITE]
    if unknown:
        raise ValueError(f"no workload is called {unknown[0]!r}; there are {', '.join(WORKLOADS)}")
    if not 0 < seconds < float("inf"):
        raise ValueError(f"seconds must be a finite number > 0, got {seconds!r}")
    results: list[dict[str, Json]] = []
    with tuned_gc():
        for name in names:
            on_progress(len(results), len(names))
            results.append(asyncio.run(_result(name, seconds, scale or Scale())))
    return results


async def _result(name: str, seconds: float, scale: Scale) -> dict[str, Json]:
    return described(name, await SUITE[name](scale, seconds), seconds)


def described(name: str, figures: dict[str, Json], seconds: float) -> dict[str, Json]:
    """Return figures as a result: with the workload, and where and when they were measured."""
    blank = {"intents_per_second": None, "ratio_to_reference": None, "verdict_ms": None}
    return {
        "workload": name,
        **blank,
        **figures,
        "seconds": seconds,
        "seed": SEED,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "load": round(os.getloadavg()[0], 2),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "machine": machine(),
        "versions": {library: version(library) for library in _LIBRARIES},
    }


def machine() -> str:
    """Return a description of processor, number of cores, and system."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    models = (line.partition(": ")[2] for line in lines if line.startswith("model name"))
    processor = next(models, platform.processor() or platform.machine())
    return f"{processor}, {os.cpu_count()} cores, {platform.system()} {platform.release()}"


def figure(result: dict[str, Json], path: str) -> float | None:
    """Return the number at a dotted path in a result, such as `commit_ms.p50`; None if missing."""
    part: Json = result
    for name in path.split("."):
        part = part.get(name) if isinstance(part, dict) else None
    return None if part is None else float(part)


def as_table(results: Sequence[dict[str, Json]]) -> str:
    """Return results as text: a table with a line per workload, tables of rows, and notes."""
    parts = [table.lines() for table in tables_of(results)]
    return "\n\n".join(map("\n".join, filter(None, [*parts, notes_of(results)])))


def tables_of(results: Sequence[dict[str, Json]]) -> list[TextTable]:
    """Return tables: one with a row per workload, then those of workloads that have rows."""
    head = (
        "workload",
        "intents/s",
        "÷ reference",
        "(min-max)",
        "p50 ms",
        "p99 ms",
        "other figures",
    )
    table = TextTable([_row(result) for result in results], head, indent="")
    return [table, *(_rows_table(result) for result in results if "rows" in result)]


def notes_of(results: Iterable[dict[str, Json]]) -> list[str]:
    """Return the notes on results, each with the name of its workload."""
    return [
        f"{result['workload']}: {note}" for result in results for note in result.get("notes", ())
    ]


def _rows_table(result: dict[str, Json]) -> TextTable:
    return _column_table(result) if result["workload"] == "columns" else _step_table(result)


def _column_table(result: dict[str, Json]) -> TextTable:
    """Return the table of workload `columns`, in which every figure is per row of a batch."""
    head = ("column batches", "agents", "CPU µs a row (p25-p75)", "W1 ÷ it", "Mesa ÷ it", "bar")
    rows = [
        (
            row["name"],
            f"{row['agents']:,}",
            _quartiles(row["cpu_us"]),
            *(_quartiles(row[key]) if key in row else "" for key in ("w1_factor", "mesa_factor")),
            row["bar"],
        )
        for row in result["rows"]
    ]
    return TextTable(rows, head, indent="")


def _step_table(result: dict[str, Json]) -> TextTable:
    """Return the table of workload `step`, in which every figure is per act of one agent."""
    head = ("what", "agents", "CPU µs an act (p25-p75)", "÷ (p25-p75)", "compared with")
    rows = [
        (
            row["name"],
            f"{row['agents']:,}",
            _quartiles(row["cpu_us"]),
            _quartiles(row["ratio"]) if "ratio" in row else "",
            row.get("compared_with", ""),
            row["bar"],
        )
        for row in result["rows"]
    ]
    return TextTable(rows, (*head, "bar"), indent="")


def _quartiles(values: dict[str, float]) -> str:
    low, middle, high = (_short(values[name]) for name in ("p25", "median", "p75"))
    return f"{middle} ({low}-{high})"


def _row(result: dict[str, Json]) -> tuple[str, ...]:
    low = figure(result, "spread.ratio_to_reference.min")
    high = figure(result, "spread.ratio_to_reference.max")
    rate = result["intents_per_second"]
    named = [bar for bar in BARS if bar.workload == result["workload"] and "." not in bar.path]
    others = [
        f"{bar.path} {_short(figure(result, bar.path))}"
        for bar in named
        if bar.path not in {"intents_per_second", "ratio_to_reference"}
    ]
    if "commit_ms" in result:
        others.append(f"commit_ms p50 {_short(figure(result, 'commit_ms.p50'))}")
    rates = result.get("per_cpu_second", {})
    others += [f"{name} {_short(value)}/CPU s" for name, value in rates.items()]
    return (
        result["workload"],
        "" if rate is None else f"{rate:,.0f}",
        _short(result["ratio_to_reference"]),
        "" if low is None else f"{_short(low)}-{_short(high)}",
        _short(figure(result, "verdict_ms.p50")),
        _short(figure(result, "verdict_ms.p99")),
        ", ".join(others),
    )


def as_markdown(results: Sequence[dict[str, Json]]) -> str:
    """Return the specification's table with the measurements (`docs/reference/benchmarks.md`)."""
    by_name = {result["workload"]: result for result in results}
    lines = ["| | must | aim | measured |", "|---|---|---|---|"]
    for bar in BARS:
        result = by_name.get(bar.workload)
        value = None if result is None else figure(result, bar.path)
        sign = "≥" if bar.is_at_least else "≤"
        aim = "" if bar.aim is None else f"{sign} {bar.aim:,g}"
        measured = "not run" if value is None else _short(value * bar.scale)
        lines.append(f"| {bar.label} | {sign} {bar.must:,g} | {aim} | {measured} |")
    if results:
        first = results[0]
        lines += ["", f"{first['python']}; {first['machine']}; {first['seconds']:g} s each."]
    return "\n".join(lines)


def _short(value: float | None) -> str:
    """Write a figure with three digits that matter."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004  # three digits
