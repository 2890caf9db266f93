"""The simulated server: one process after the other, as the seed kills and replaces them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from placet.runtime.orchestrator import Orchestrator
from placet.schemas.effect import Delivery, Effect
from placet.schemas.errors import ClosedError, StoreError
from placet.schemas.event import Event
from tests.kernel.reference.fairground import POST, Fairground
from tests.simulation.durable_log import Archive, Findings
from tests.simulation.machine import Disk, Handle, ServerProcess, Stuck
from tests.simulation.swarm import Swarm

if TYPE_CHECKING:
    from placet.runtime.agent_handle import AgentHandle

T = TypeVar("T")

LIVES_MAX = 40
"""A run takes a handful: a world that is opened this often cannot be opened."""


class ProcessGone(Exception):  # noqa: N818  # what a client sees, and not an error of its own
    """No answer came: the process is dead, closed, or has failed."""


class ServedWorld:
    """A world that one process of the process serves.

    Attributes:
        handles: Of the agents that this process registered, or found.
        views: The latest view that each agent had from this process.
    """

    def __init__(self, process: ServerProcess, orchestrator: Orchestrator) -> None:
        self.process = process
        self.orchestrator = orchestrator
        self.handles: dict[str, AgentHandle] = {}
        self.views: dict[str, int] = {}
        self.is_over = False


class Server:
    """Serves a world by successive processes until it is closed.

    Attributes:
        current: The process that serves now; None between two of them.
        attempts: How often each effect was begun, by any process.
        registered_agents: Agents that are registered, or will be by the next process.
        is_reopening: A process whose store has failed reopens its world; else another one follows.
        reopened: How often that was done.
    """

    def __init__(
        self, swarm: Swarm, disk: Disk, archive: Archive, findings: Findings, seed: int
    ) -> None:
        self.swarm = swarm
        self.disk = disk
        self.archive = archive
        self.findings = findings
        self.rng = Random(f"server {seed}")
        self.current: ServedWorld | None = None
        self.attempts: dict[tuple[int, int], int] = {}
        self.registered_agents: list[str] = []
        self.processes = 0
        self.executor = swarm.executor
        self.delivery: Delivery = Random(f"delivery {seed}").choice(["keyed", "at_most_once"])
        self.is_reopening = Random(f"reopening {seed}").random() < 0.5
        self.reopened = 0
        self.trace: list[str] = []
        self._failed: Orchestrator | None = None
        self._opening: Handle | None = None
        self._up = asyncio.Event()
        self._down = asyncio.Event()
        self._stale: list[ServedWorld] = []
        self._all: list[ServedWorld] = []
        self._tasks: asyncio.TaskGroup | None = None

    def next_handle(self) -> Handle:
        assert self._opening is not None, "a log is opened while a process begins"
        return self._opening

    # for clients

    async def served(self) -> ServedWorld:
        """Return the current process, or sometimes a replaced one."""
        if self._stale and self.rng.random() < 0.3:
            return self.rng.choice(self._stale)
        return await self.present()

    async def present(self) -> ServedWorld:
        """Return the process that serves now, or wait for the next one."""
        while self.current is None:
            await self._up.wait()
        return self.current

    async def ask(self, served: ServedWorld, call: Callable[[], Awaitable[T]]) -> T:
        """Wait for an answer of a process.

        Raises:
            ProcessGone: The process was killed, closed, or has failed.
        """
        process = served.process
        if process.is_dead:
            raise ProcessGone
        task = asyncio.ensure_future(_await(call))
        process.calls.append(task)
        try:
            answer = await task
        except asyncio.CancelledError:
            if process.is_dead:
                raise ProcessGone from None
            raise
        except (StoreError, ClosedError):
            self.abandon(served)
            raise ProcessGone from None
        finally:
            process.calls.remove(task)
        if process.is_dead:
            raise ProcessGone
        return answer

    # the processes

    async def run(self, tasks: asyncio.TaskGroup) -> None:
        """Open the world, and open it again whenever it is down."""
        self._tasks = tasks
        while True:
            await self._begin()
            await self._down.wait()
            await asyncio.sleep(self.rng.random() * 0.1)

    async def inject_faults(self) -> None:
        """Apply the faults of the seed to the process at their times."""
        for at, fault in self.swarm.process_faults:
            await asyncio.sleep(max(0.0, at - asyncio.get_running_loop().time()))
            served = self.current
            if served is None:
                continue
            self.trace.append(fault)
            if fault == "kill":
                for _ in range(self.rng.randrange(12)):
                    await asyncio.sleep(0)
                served.process.kill()
            elif fault == "restart":
                self.abandon(served)
            else:
                await self._begin()

    async def _begin(self) -> None:
        """Start a process; if it fails on the way, the next one."""
        while True:
            self._down.clear()
            self.processes += 1
            if self.processes > LIVES_MAX:
                raise Stuck("the world cannot be opened any more")
            process = ServerProcess(self.processes)
            self._opening = Handle(self.disk, process)
            failed, self._failed = self._failed, None
            orchestrator = failed or Orchestrator(Fairground(), self.swarm.config)
            served = ServedWorld(process, orchestrator)
            self._all.append(served)
            process.on_kill = partial(self._cancel_tasks, served)
            try:
                await self.ask(served, partial(self._open, served, is_again=failed is not None))
            except ProcessGone:
                self.abandon(served)
                await asyncio.sleep(0.05)
                continue
            if self.current is not None:
                self._stale.append(self.current)
            self.current = served
            self._up.set()
            self.trace.append(f"process {process.number} serves at seq {self.archive.seq}")
            assert self._tasks is not None
            self._tasks.create_task(self._listen(served))
            return

    async def _open(self, served: ServedWorld, *, is_again: bool) -> None:
        orchestrator = served.orchestrator
        if is_again:
            await orchestrator.store.reopen()
            self.reopened += 1
        else:
            await orchestrator.__aenter__()
        if self.executor != "none":
            await orchestrator.register_executor(
                POST, self._handler(served), delivery=self.delivery, concurrency=2
            )
        for agent in list(self.registered_agents):
            served.handles[agent] = await orchestrator.register_agent(agent)

    def close(self) -> None:
        """Close every process that is left; none follows."""
        self.is_reopening = False
        for served in self._all:
            self.abandon(served)
        if self._failed is not None:
            assert self._tasks is not None
            self._tasks.create_task(self._failed.close())

    def abandon(self, served: ServedWorld) -> None:
        """Close a process or its remaining tasks."""
        if served.is_over:
            return
        served.is_over = True
        self._withdraw(served)
        world = served.orchestrator._world
        has_failed = world is not None and world.committer.failure is not None
        if self.is_reopening and has_failed and not served.process.is_dead and not self._failed:
            self._failed = served.orchestrator
            return
        assert self._tasks is not None
        self._tasks.create_task(served.orchestrator.close())

    def _cancel_tasks(self, served: ServedWorld) -> None:
        """Stop the tasks of a killed process silently."""
        self._withdraw(served)
        world = served.orchestrator._world
        if world is not None and world._root is not None:
            world._root.cancel()

    def _withdraw(self, served: ServedWorld) -> None:
        if served in self._stale:
            self._stale.remove(served)
        if served is self.current:
            self.current = None
            self._up.clear()
            self._down.set()

    # effects and events

    def _handler(self, served: ServedWorld) -> Callable[[Effect], Awaitable[Any]]:
        async def handle(effect: Effect) -> Any:
            if served.process.is_dead:
                raise ProcessGone
            key = (effect.key.seq, effect.key.effect_index)
            self.trace.append(f"effect {key} by process {served.process.number}")
            self.attempts[key] = self.attempts.get(key, 0) + 1
            expect = self.findings.expect
            is_sound = self.delivery == "keyed" or self.attempts[key] == 1
            expect(is_sound, "G17", f"effect {key} is to be done at most once, and began again")
            expect(key in self.archive.effects, "G2", f"effect {key} began before it was durable")
            if served.process.epoch == self.disk.epoch:  # else it cannot know what another settled
                is_open = not self.archive.settled[key]
                expect(is_open, "G17", f"effect {key} ran after it was settled")
            return await self._handle_with_faults()

        return handle

    async def _handle_with_faults(self) -> Any:
        draw = self.rng.random()
        match self.executor:
            case "slow":
                await asyncio.sleep(draw * 3)
            case "failing" if draw < 0.3:
                raise OSError("the outside world said no")
            case "failing" if draw < 0.4:
                raise asyncio.CancelledError
            case "hanging" if draw < 0.4:
                await asyncio.sleep(1e6)
            case "hanging" if draw < 0.5:
                return object()
            case _:
                await asyncio.sleep(draw * 0.01)
        return {"draw": round(draw, 3)}

    async def _listen(self, served: ServedWorld) -> None:
        """Read the events of a process: each once, in order, and none before it is durable."""
        since = self.rng.choice([0, self.archive.seq])
        events = served.orchestrator.events(since)
        latest, batches = None, set[object]()  # the batches of a group share a record
        expect = self.findings.expect
        while True:
            try:
                event = await self.ask(served, lambda: _next(events))
            except ProcessGone:
                return
            if event is None:
                return
            is_durable = event.record < self.archive.count
            expect(is_durable, "G2", f"event {event.record} was delivered before it was durable")
            batch = event.data.get("batch_id")
            is_next = latest is None or event.record == latest + 1
            is_more = event.record == latest and batch is not None and batch not in batches
            expect(is_next or is_more, "G4", f"event {event.record} came after {latest}")
            batches = {batch} if is_next else {*batches, batch}
            latest = event.record


async def _await(call: Callable[[], Awaitable[T]]) -> T:
    return await call()


async def _next(events: AsyncIterator[Event]) -> Event | None:
    return await anext(events, None)
