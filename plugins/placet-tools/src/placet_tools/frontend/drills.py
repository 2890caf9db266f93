"""Drills of tools: the end of a call whose function raises, hangs, or is killed.

The functions of the tools do not run: stubs of the same declaration fail in their place, in gates
on a scratch store. The calls are those of the policy's examples; the policy itself is not applied.
"""

import asyncio
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias

from placet.runtime.config import OrchestratorConfig
from placet.schemas.codec import Json
from placet_tools.frontend.gate import Gate
from placet_tools.policy.rules import Example
from placet_tools.tool import Function
from placet_tools.tools import Tools

_HANG_S: Final = 0.2
"""Time limit of a function that hangs, seconds."""

_WAIT_S: Final = 10.0
"""Wait for a call that is tried again, seconds."""

_QUIET: Final = OrchestratorConfig(log_level="critical")

_Calls: TypeAlias = Mapping[str, Mapping[str, Json]]


@dataclass(frozen=True, slots=True)
class DrilledTool:
    """The status of a call of a tool in each drill.

    Attributes:
        tool: Name of the tool.
        delivery: Its delivery.
        raises: Status of the call after its function raised an exception.
        again: Status of an equal call with a new key after that.
        hangs: Status after the function exceeded its time limit.
        killed: Status after the process was killed in the function, and the log was opened again.
        runs: Times that the function was started in the drill `killed`.
    """

    tool: str
    delivery: str
    raises: str
    again: str
    hangs: str
    killed: str
    runs: int

    def as_dict(self) -> dict[str, Json]:
        """Return the result as plain JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


def run_drills(tools: Tools, examples: Sequence[Example]) -> list[DrilledTool]:
    """Drill each tool of which an example has a call; the first one is used.

    Args:
        tools: The tools.
        examples: The examples of a policy.
    """
    calls: dict[str, Mapping[str, Json]] = {}
    for example in examples:
        for call in (*example.given, example.call):
            calls.setdefault(call.tool, call.arguments)
    return asyncio.run(_drilled(tools, calls)) if calls else []


async def _drilled(tools: Tools, calls: _Calls) -> list[DrilledTool]:
    raises, again = await _raised(tools, calls)
    hangs = await _hung(tools, calls)
    with TemporaryDirectory() as folder:
        killed, runs = await _killed(tools, calls, Path(folder))
    return [
        DrilledTool(
            name,
            tools.by_name[name].delivery,
            raises[name],
            again[name],
            hangs[name],
            killed[name],
            runs[name],
        )
        for name in calls
    ]


class _Stubs:
    """Stubs of tools: the first run of each fails, a later one returns.

    Attributes:
        tools: The tools with stubs as functions.
        runs: Name of a tool -> times that its stub was started.
        started: Name of a tool -> set once its stub was started.
    """

    def __init__(
        self,
        tools: Tools,
        fail: Callable[[], Awaitable[object]],
        seconds_max: float | None = None,
    ) -> None:
        self.tools = Tools(tools.name)
        self.runs = Counter[str]()
        self.started = {name: asyncio.Event() for name in tools.by_name}
        self.tools.by_name |= {
            name: replace(tool, function=self._stub(name, fail), seconds_max=seconds_max)
            for name, tool in tools.by_name.items()
        }

    def _stub(self, name: str, fail: Callable[[], Awaitable[object]]) -> Function:
        async def stub(*_: object, **__: object) -> None:
            self.runs[name] += 1
            self.started[name].set()
            if self.runs[name] == 1:
                await fail()

        return stub

    def gate(self, store: str = "memory://") -> Gate:
        return Gate(self.tools, store=store, approve_from="never", wait_s=_WAIT_S, config=_QUIET)


async def _raised(tools: Tools, calls: _Calls) -> tuple[dict[str, str], dict[str, str]]:
    async def fail() -> None:
        raise RuntimeError("a drill")

    async with _Stubs(tools, fail).gate() as gate:
        return await _called(gate, calls, "first"), await _called(gate, calls, "second")


async def _hung(tools: Tools, calls: _Calls) -> dict[str, str]:
    async with _Stubs(tools, asyncio.Event().wait, seconds_max=_HANG_S).gate() as gate:
        return await _called(gate, calls, "hangs")


async def _killed(tools: Tools, calls: _Calls, folder: Path) -> tuple[dict[str, str], Counter[str]]:
    """Copy the files of a gate while its functions run, as a killed process leaves them."""
    live, left = folder / "live", folder / "left"
    live.mkdir()
    is_over = asyncio.Event()
    before, after = _Stubs(tools, is_over.wait), _Stubs(tools, _nothing)
    async with before.gate(f"sqlite:///{live}/log.db") as gate:
        running = {
            name: asyncio.create_task(_call(gate, name, arguments, "killed"))
            for name, arguments in calls.items()
        }
        for name, call in running.items():
            started = asyncio.create_task(before.started[name].wait())
            await asyncio.wait([started, call], return_when=asyncio.FIRST_COMPLETED)
            started.cancel()
        shutil.copytree(live, left)
        is_over.set()
        statuses = {name: await call for name, call in running.items()}
    async with after.gate(f"sqlite:///{left}/log.db") as gate:
        ended = {name: (await gate.outcome(f"killed-{name}.0")).status for name in before.runs}
    return {**statuses, **ended}, before.runs + after.runs


async def _nothing() -> None:
    pass


async def _called(gate: Gate, calls: _Calls, key: str) -> dict[str, str]:
    """Call each tool once, all at a time; return the statuses."""
    made = [_call(gate, name, arguments, key) for name, arguments in calls.items()]
    return dict(zip(calls, await asyncio.gather(*made), strict=True))


async def _call(gate: Gate, tool: str, arguments: Mapping[str, Json], key: str) -> str:
    (outcome,) = await gate.plan([(tool, arguments)], agent="drill", key=f"{key}-{tool}")
    return outcome.status
