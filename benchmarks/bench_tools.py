"""What does the gate of placet-tools add to a call of a function?

    ./dev python benchmarks/bench_tools.py [--calls N] [--turns N] [--json]

One caller makes one call after another of a tool that does nothing. The contenders take turns: the
function alone; one submitted intent without effects, the part of the runtime; gated calls of a tool
that may be repeated and of one that runs at most once, in memory; the latter in SQLite; the same
function under CTRLRun with SQLite, if `ctrlrun` is installed; and under the `govern` of Microsoft's
agent governance toolkit, if `agent-governance-toolkit-core` is installed. Figures are medians over
the turns: microseconds of CPU time and of wall time a call, the ratio of CPU time to the submitted
intent in the same turn, and commits a call.

It does not show: calls that overlap and so share commits, tools that do anything, approvals, plans
and policies. Wall time of SQLite is mostly that of the disk. CTRLRun and the toolkit are
synchronous, and record other facts; `govern` writes nothing to a disk and keeps no call from
running twice, so compare it with the gated calls of repeatable tools in memory.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias

from typing_extensions import TypedDict

from placet import Domain, Kind, Limits, Orchestrator, OrchestratorConfig
from placet.kernel import Draft
from placet.schemas.intent import Intent
from placet.stores.gc_tuning import tuned_gc
from placet_bench.report import machine
from placet_tools import Gate, Tools

Turn: TypeAlias = Callable[[int], Awaitable[None]]
"""Makes a number of calls."""

POLICY: Final = """
schema: ctrlrun.policy/v2
actions:
  refund:
    effect: "refund:{order}"
    rules: [{decision: allow}]
"""

TOOLKIT_POLICY: Final = """
name: shop
version: "1.0"
agents: ["*"]
default_action: deny
rules:
  - {name: small, condition: "euro.value <= 500", action: allow}
"""

_NUMBERS: Final = count()


async def refund(order: str, euro: int) -> dict[str, str]:
    """Pay money back: here, nothing."""
    return {"paid": order, "euro": str(euro)}


class Note(TypedDict):
    """What is noted."""

    order: str
    euro: int


def note(draft: Draft, intent: Intent) -> None:
    """Write one field."""
    draft.put("notes.all", "all", "order", intent["payload"]["order"])


class Notes(Domain):
    """One kind, without effects."""

    name, version, kinds = "notes", "1", (Kind("Note", Note, note),)

    def on_open(self, draft: Draft) -> None:
        """Make what `Note` writes."""
        draft.create("notes.all", "all", {"order": ""})


def orders(calls: int) -> Iterator[str]:
    """Return as many names of orders, none of which was used."""
    return (f"A{next(_NUMBERS)}" for _ in range(calls))


def config() -> OrchestratorConfig:
    """Return the configuration of all worlds."""
    return OrchestratorConfig(log_level="critical", limits=Limits(log_bytes_max=2**33))


async def function(calls: int) -> None:
    """Call the function."""
    for order in orders(calls):
        await refund(order, 42)


async def submitting(stack: AsyncExitStack) -> Turn:
    """Return a turn of submitted intents."""
    world = await stack.enter_async_context(Orchestrator(Notes(), config()))
    agent = await world.register_agent("agent")

    async def turn(calls: int) -> None:
        for order in orders(calls):
            verdict = await agent.submit([agent.intent("Note", order=order, euro=42)])
            assert verdict.admitted, verdict

    return turn


async def gated(stack: AsyncExitStack, store: str, *, is_once: bool) -> tuple[Turn, Gate]:
    """Return a turn of gated calls."""
    tools = Tools("shop")
    tools.tool(delivery="at_most_once" if is_once else "pure")(refund)
    gate = await stack.enter_async_context(Gate(tools, store=store, config=config()))

    async def turn(calls: int) -> None:
        for order in orders(calls):
            outcome = await gate.call("refund", order=order, euro=42)
            assert outcome.status == "done", outcome

    return turn, gate


def commits_of(gate: Gate) -> float:
    """Return the number of durable writes of a gate so far."""
    return gate.world.metrics_registry.get_sample_value("placet_commit_seconds_count") or 0.0


def ctrlrun_turn(folder: str) -> Turn | None:
    """Return a turn of calls under CTRLRun; None if it is not installed."""
    try:
        import ctrlrun  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415  # optional
    except ImportError:
        return None
    store = ctrlrun.SQLiteStateStore(Path(folder) / "ctrlrun.db")
    control = ctrlrun.Control(ctrlrun.Policy.from_yaml(POLICY), store)

    def pay(order: str, euro: int) -> dict[str, str]:
        return {"paid": order, "euro": str(euro)}

    protected = ctrlrun.protect("refund", effect="refund:{order}", control=control)(pay)

    async def turn(calls: int) -> None:
        with ctrlrun.context(agent="agent"):
            for order in orders(calls):
                protected(order=order, euro=42)

    return turn


def toolkit_turn() -> Turn | None:
    """Return a turn of calls under the agent governance toolkit; None if it is not installed."""
    try:
        from agentmesh import governance  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415  # optional
    except ImportError:
        return None

    def pay(order: str, euro: int) -> dict[str, str]:
        return {"paid": order, "euro": str(euro)}

    governed = governance.govern(pay, policy=TOOLKIT_POLICY, agent_id="agent")

    async def turn(calls: int) -> None:
        for order in orders(calls):
            governed(order=order, euro=42)

    return turn


async def timed(turn: Turn, calls: int) -> tuple[float, float]:
    """Return microseconds of CPU time and of wall time a call."""
    cpu, wall = time.process_time(), time.perf_counter()
    await turn(calls)
    each = 1e6 / calls
    return (time.process_time() - cpu) * each, (time.perf_counter() - wall) * each


async def measure(calls: int, turns: int) -> dict[str, dict[str, float]]:
    """Let the contenders take turns."""
    with TemporaryDirectory(prefix="placet-", dir="/var/tmp") as folder:
        async with AsyncExitStack() as stack:
            once, gate = await gated(stack, f"sqlite:///{folder}/shop.db", is_once=True)
            contenders: dict[str, Turn] = {
                "function": function,
                "submitted intent": await submitting(stack),
                "gated, repeatable": (await gated(stack, "memory://", is_once=False))[0],
                "gated, once": (await gated(stack, "memory://", is_once=True))[0],
                "gated, once, SQLite": once,
            }
            others = {"CTRLRun, SQLite": ctrlrun_turn(folder), "govern, memory": toolkit_turn()}
            contenders |= {name: turn for name, turn in others.items() if turn is not None}
            for turn in contenders.values():
                await turn(100)
            before = commits_of(gate)
            times: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
            for _ in range(turns):
                for name, turn in contenders.items():
                    times[name].append(await timed(turn, calls))
            commits = commits_of(gate) - before
    base = [cpu for cpu, _ in times["submitted intent"]]
    figures = {
        name: {
            "cpu_us": median(cpu for cpu, _ in found),
            "cpu_us_min": min(cpu for cpu, _ in found),
            "wall_us": median(wall for _, wall in found),
            "ratio": median(cpu / own for (cpu, _), own in zip(found, base, strict=True)),
        }
        for name, found in times.items()
    }
    figures["gated, once, SQLite"]["commits"] = commits / (calls * turns)
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calls", type=int, default=300, help="calls of each contender in a turn")
    parser.add_argument("--turns", type=int, default=7, help="turns of each contender")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    with tuned_gc():
        found = asyncio.run(measure(options.calls, options.turns))
    if options.json:
        print(json.dumps({"figures": found, "machine": machine()}, indent=2))
    else:
        for name, figure in found.items():
            shown = f"{figure['cpu_us']:8,.1f} µs CPU (from {figure['cpu_us_min']:,.1f})"
            commits = f"  {figure['commits']:.2f} commits" if "commits" in figure else ""
            print(
                f"{name:20} {shown}  {figure['wall_us']:9,.1f} µs wall  "
                f"{figure['ratio']:.2f} of an intent{commits}"
            )
        print(machine())
