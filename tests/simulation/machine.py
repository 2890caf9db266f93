"""The machine that a simulated world runs on: its time, its threads, and its disk.

Only the code under test is real. Time jumps when no task is runnable, a thread is a pause, and the
disk is a log in memory with seeded delays that remembers which process wrote what.
"""

import asyncio
import functools
import selectors
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

import anyio

from placet.actors.ports import EventLog
from placet.kernel.gate.shape import intents_adapter
from placet.kernel.plugin.domain import Domain
from placet.kernel.plugin.registry import Registry
from placet.runtime.clock import RealtimeClock, SteppedClock
from placet.schemas.errors import StoreError
from placet.schemas.limits import SECOND_NS, Limits
from placet.schemas.log.record import LogAppend
from placet.stores.memory import MemoryEventLog

ITERATIONS_MAX = 300_000
"""A run takes some ten thousand: what takes more, spins."""


class Stuck(Exception):  # noqa: N818  # what was found, and not how it is handled
    """A deadlock of all tasks, or an event loop that spins."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop without I/O: it advances its time instead of sleeping."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.iterations = 0
        super().__init__(_NoOutside(self))

    def time(self) -> float:
        return self.seconds


class _NoOutside(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        loop = self._loop
        loop.iterations += 1
        if timeout is None:
            raise Stuck("everybody waits for somebody else")
        if loop.iterations > ITERATIONS_MAX:
            raise Stuck("the loop goes round and round")
        loop.seconds += timeout
        return []


def loop_ns() -> int:
    return round(asyncio.get_running_loop().time() * SECOND_NS)


class VirtualSteppedClock(SteppedClock):
    """Simulated time moves by steps; waits are measured in the loop's time."""

    def monotonic_ns(self) -> int:
        return loop_ns()


class ServerProcess:
    """One process of the server. After its kill, its actions are neither visible nor stored.

    Attributes:
        number: From 1.
        is_dead: It was killed.
        epoch: What it holds of the disk's fence.
        calls: What clients wait for; killed with the process.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.is_dead = False
        self.epoch = 0
        self.calls: list[asyncio.Task[Any]] = []
        self.on_kill: Callable[[], None] = _nothing

    def kill(self) -> None:
        """Kill the process: nothing it does afterwards is visible or stored."""
        if self.is_dead:
            return
        self.is_dead = True
        for call in self.calls:
            call.cancel()
        self.on_kill()


def _nothing(*_: object) -> None: ...


class Disk:
    """State that survives a process.

    Attributes:
        log: The bytes, and the store's own fence.
        epoch: The latest that was given out.
        faults: Number of an append -> what happens to it.
        appends: How many were tried.
        on_group: Called with each durable group, its writer and the latest epoch.
    """

    def __init__(self, rng: Random, seconds_max: float, is_blocking: bool) -> None:
        self.log = MemoryEventLog()
        self.rng = rng
        self.seconds_max = seconds_max
        self.is_blocking = is_blocking
        self.epoch = 0
        self.faults: dict[int, str] = {}
        self.appends = 0
        self.on_group: Callable[[LogAppend, int, int], None] = _nothing

    def pause(self) -> float:
        """Return the delay of a thread's start or end."""
        return self.rng.random() * self.seconds_max


class Handle:
    """One process's handle on the disk: an `EventLog`.

    Faults: `fail before` and `fail after` the write, `die before` and `die after` it.
    """

    durability = "full"

    def __init__(self, disk: Disk, process: ServerProcess) -> None:
        self.disk = disk
        self.process = process
        self.is_blocking = disk.is_blocking
        self.url = f"simulated://{process.number}"

    def __getattr__(self, name: str) -> Any:
        return getattr(self.disk.log, name)

    def open(self, *, take_over: bool = False) -> int:
        self._check_alive()
        self.process.epoch = self.disk.epoch = self.disk.log.open()
        return self.disk.epoch

    def append(self, append: LogAppend, epoch: int) -> None:
        self._check_alive()
        disk = self.disk
        disk.appends += 1
        fault = disk.faults.pop(disk.appends, "")
        if fault == "die before":
            self.process.kill()
        if fault.endswith("before"):
            raise StoreError("the disk failed, and wrote nothing")
        disk.log.append(append, epoch)
        disk.on_group(append, epoch, disk.epoch)
        if fault == "die after":
            self.process.kill()
        if fault.endswith("after"):
            raise StoreError("the disk failed, after it had written")

    def close(self) -> None:
        """The disk stays: it is another's, too."""

    def _check_alive(self) -> None:
        if self.process.is_dead:
            raise StoreError("the process is dead")


_REGISTRIES: dict[type, Registry] = {}


def _cached_registry(domains: Sequence[Domain], *, has_leases: bool = False) -> Registry:
    assert not has_leases, "a world with leases has further kinds"
    (domain,) = domains
    if type(domain) not in _REGISTRIES:
        _REGISTRIES[type(domain)] = Registry(domains)
    return _REGISTRIES[type(domain)]


_ADAPTERS: dict[tuple[Registry, int, int], Any] = {}


def _cached_adapter(registry: Registry, limits: Limits) -> Any:
    key = (registry, limits.payload_depth_max, limits.payload_bytes_max)
    if key not in _ADAPTERS:
        _ADAPTERS[key] = intents_adapter(registry, limits)
    return _ADAPTERS[key]


@contextmanager
def running_on(disk: Disk, next_handle: Callable[[], EventLog]) -> Iterator[None]:
    """Replace disk, clocks and threads by the simulated ones.

    Validators are compiled once and used by all processes: they are immutable, and slow to make.
    """

    async def run_sync(func: Callable[..., Any], *args: Any, **_: Any) -> Any:
        with anyio.CancelScope(shield=True):  # a thread cannot be canceled
            await anyio.sleep(disk.pause())
            try:
                return func(*args)
            finally:
                await anyio.sleep(disk.pause())

    clock = functools.partial(RealtimeClock, monotonic_ns=loop_ns)
    with ExitStack() as stack:
        for target, thing in (
            ("anyio.to_thread.run_sync", run_sync),
            ("placet.runtime.world_opener.open_event_log", lambda *_args: next_handle()),
            ("placet.runtime.world_time.RealtimeClock", clock),
            ("placet.runtime.world_time.SteppedClock", VirtualSteppedClock),
            ("placet.kernel.kernel.Registry", _cached_registry),
            ("placet.kernel.log.verify.Registry", _cached_registry),
            ("placet.kernel.gate.structure.intents_adapter", _cached_adapter),
        ):
            stack.enter_context(patch(target, thing))
        yield
