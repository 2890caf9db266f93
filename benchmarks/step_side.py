"""One side of `step_beside_7935bd8.py`: runs in the environment of either version.

    python benchmarks/step_side.py          reads commands from standard input
    python benchmarks/step_side.py town     `placet run town` without its verification

The commands are `l1`, `l2`, `w1` and `w1s`, one a line; each runs one turn and answers, in a line
of JSON, with the CPU microseconds of one intent. `bench/stepping.py` is loaded by its path, because
the older version has none.
"""

import asyncio
import gc
import importlib
import importlib.util
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

_BENCH: Final = Path(__file__).parents[1] / "plugins" / "placet-bench" / "src" / "placet_bench"
STEPPING: Final = _BENCH / "stepping.py"
AGENTS: Final = 1_000
RunTicks: TypeAlias = Callable[[Callable[[int], None]], None]
"""Runs ticks without end; calls its argument after each."""
INTENTS: Final = {"w1": 10_000, "w1s": 4_000}
"""Intents in a turn of the orchestrator's workloads."""

OLD_NAMES: Final = {
    "placet_bench.subjects": "placet.bench.contenders",
    "placet_bench.workloads": "placet.bench.workloads",
    "placet.scenarios.loader": "placet.runtime.scenarios.loading",
    "placet.scenarios.runner": "placet.runtime.scenarios.runner",
    "placet.cli": "placet.runtime.cli",
    "placet.cli.run_session": "placet.runtime.cli.run_session",
}
"""Modules of today under the names that they had at 7935bd8."""

IS_OLD: Final = importlib.util.find_spec("placet.scenarios") is None
THRESHOLDS: Final = (50_000, 20, 50)
"""Garbage collector settings of placet's own processes, of both versions."""


def module(name: str) -> Any:  # noqa: ANN401  # of two versions
    """Import a module of today, or what it was in the older version."""
    return importlib.import_module(OLD_NAMES[name] if IS_OLD else name)


def stepping() -> Any:  # noqa: ANN401  # loaded by path
    """Load the contenders of today on top of whichever version is installed."""
    spec = importlib.util.spec_from_file_location("stepping", STEPPING)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules["stepping"] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def scenario() -> Any:  # noqa: ANN401  # of two versions
    """Load the scenario of L2."""
    text = stepping().scenario_text(AGENTS, "stepping:Mover")
    with tempfile.TemporaryDirectory(prefix="placet-bench-") as folder:
        file = Path(folder) / "step.toml"
        file.write_text(text, encoding="utf-8")
        return module("placet.scenarios.loader" if IS_OLD else "placet.scenarios").load(file)


def run_scenario(on_tick: Callable[[int], None]) -> None:
    """Run the scenario of L2 in memory, as the older version does; its runner does not return."""
    runner = module("placet.scenarios.runner").ScenarioRunner(scenario(), on_tick=on_tick)
    asyncio.run(runner.run())


class TicksInThread:
    """A program whose ticks are run by a function that does not return between them.

    The function runs in a thread that is halted after each tick: never do two threads run at once,
    so the CPU time of the process during `step` is that of one tick.
    """

    def __init__(self, run_ticks: RunTicks) -> None:
        self._run_ticks = run_ticks
        self._go = threading.Semaphore(0)
        self._done = threading.Semaphore(0)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    async def __aenter__(self) -> None:
        """Start the run; it is halted after its first tick."""
        self._thread.start()
        self._await_tick()

    async def prepare(self) -> None:
        """Prepare nothing: the policies propose."""

    async def step(self, inputs: None) -> None:
        """Run one tick."""
        self._go.release()
        self._await_tick()

    def _await_tick(self) -> None:
        self._done.acquire()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._run_ticks(self._halt)
        except BaseException as error:  # noqa: BLE001  # raised again where it is awaited
            self._error = error
        finally:
            self._done.release()

    def _halt(self, _tick: int) -> None:
        self._done.release()
        self._go.acquire()


class Steps:
    """A turn of L1 or L2: one step of all agents."""

    def __init__(self, contender: Any) -> None:  # noqa: ANN401  # loaded by path
        self._contender = contender

    async def open(self) -> None:
        """Set the program up; a run of ticks is halted after its first."""
        await self._contender.__aenter__()

    async def turn(self) -> float:
        """Return the CPU microseconds of one intent."""
        inputs = await self._contender.prepare()
        before = time.process_time_ns()
        await self._contender.step(inputs)
        cpu_ns = time.process_time_ns() - before
        return cpu_ns / 1e3 / AGENTS


class Lanes:
    """A turn of W1 or W1s: lanes that await their verdicts, through the orchestrator."""

    def __init__(self, batch_intents: int, intents: int) -> None:
        workloads = module("placet_bench.workloads")
        shape = workloads.Shape(agents=100, batch_intents=batch_intents)
        load = workloads.Load(shape, chunk_intents=intents)
        self._world = module("placet_bench.subjects").WholeWorld(load)

    async def open(self) -> None:
        """Open the world, and fill the dedup windows."""
        await self._world.__aenter__()

    async def turn(self) -> float:
        """Return the CPU microseconds of one intent."""
        chunk = self._world.next_chunk()
        before = time.process_time_ns()
        await self._world.run(chunk)
        cpu_ns, intents = time.process_time_ns() - before, int(chunk.intents)
        return cpu_ns / 1e3 / intents


def make(name: str) -> Steps | Lanes:
    """Create the contender of a command."""
    if name == "l1":
        return Steps(stepping().KernelStep("L1", AGENTS))
    if name == "l2" and IS_OLD:
        return Steps(TicksInThread(run_scenario))
    if name == "l2":
        simulation = importlib.import_module("placet.scenarios.simulation").Simulation
        return Steps(stepping().SimulationStep("L2", AGENTS, simulation(scenario())))
    return Lanes(10 if name == "w1" else 1, INTENTS[name])


async def answer_commands() -> None:
    """Run a turn for every line of standard input, until it ends."""
    contenders: dict[str, Steps | Lanes] = {}
    gc.set_threshold(*THRESHOLDS)
    while name := (await asyncio.to_thread(sys.stdin.readline)).strip():
        if name not in contenders:
            contenders[name] = make(name)
            await contenders[name].open()
        gc.collect(1)
        print(json.dumps({"cpu_us": await contenders[name].turn()}), flush=True)


def run_town() -> None:
    """Run `placet run town` without the verification that follows it."""
    if IS_OLD:  # it has no option for it
        module("placet.cli.run_session")._verified = lambda *_: None  # noqa: SLF001
    option = [] if IS_OLD else ["--no-verify"]
    sys.argv = ["placet", "run", "town", *option]
    module("placet.cli").main()


if __name__ == "__main__":
    if sys.argv[1:] == ["town"]:
        run_town()
    else:
        asyncio.run(answer_commands())
