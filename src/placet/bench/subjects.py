"""The subjects: the reference loop, the kernel alone, a whole world, and a fold of its log.

Each makes its own chunks, untimed, and runs them, timed. None of them may refuse: a refusal in a
workload is a mistake of the benchmark, and stops it.
"""

import asyncio
import time
from array import array
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

from placet.bench import reference_loop
from placet.bench.reference_loop import ReferenceWorld
from placet.bench.workloads import (
    PERMISSIONS,
    QUOTA,
    SIDE,
    STALENESS_THRESHOLD,
    Chunk,
    ClientLane,
    Load,
    make_config,
    make_domain,
    make_kernel_config,
)
from placet.kernel.domain import Domain
from placet.kernel.kernel import Kernel
from placet.kernel.log.replay import Replayer
from placet.kernel.log.verify import Verifier
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.batch import CheckedBatch
from placet.schemas.codec import Json
from placet.schemas.config import Quota

if TYPE_CHECKING:
    from placet.runtime.agent_handle import AgentHandle

GROUP_BATCHES = 32
"""Batches that the kernel alone is given at a time, as the orchestrator's mailbox would."""


class UnexpectedRefusalError(AssertionError):
    """A workload's batch was refused, so the measurement is not valid."""


class Contender:
    """Performs prepared work. An async context manager, for subjects with a world to close.

    Attributes:
        latencies_ns: Time from submit to verdict of each batch, where there is one.
    """

    def __init__(self) -> None:
        self.latencies_ns = array("q")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing to close."""

    def next_chunk(self) -> Chunk:
        """Prepare work; not timed."""
        raise NotImplementedError

    async def run(self, chunk: Chunk) -> None:
        """Do it; timed."""
        raise NotImplementedError


class Reference(Contender):
    """The reference loop, called in turn for every lane."""

    def __init__(self, load: Load) -> None:
        super().__init__()
        self._load = load
        quota = Quota.of(QUOTA)
        self.world = ReferenceWorld(
            load.agent_ids,
            PERMISSIONS,
            side=SIDE,
            interval_ns=quota.interval_ns,
            burst=quota.burst,
            threshold=STALENESS_THRESHOLD,
            window_ids=load.shape.window_ids,
        )

    async def __aenter__(self) -> Self:
        await self.run(self._load.chunk(self.world.seq, self._load.shape.filling_rounds))
        return self

    def next_chunk(self) -> Chunk:
        """Prepare the next rounds."""
        return self._load.chunk(self.world.seq)

    async def run(self, chunk: Chunk) -> None:
        """Submit them in a straight loop."""
        world, submit, now_ns = self.world, reference_loop.submit, time.monotonic_ns
        submitters = [lane.agent_id for lane in chunk.lanes]
        for batches in zip(*[lane.batches for lane in chunk.lanes], strict=True):
            for agent_id, batch in zip(submitters, batches, strict=True):
                admitted, code = submit(world, batch, agent_id, now_ns())
                if not admitted:
                    raise UnexpectedRefusalError(code)


class KernelAlone(Contender):
    """The kernel without actors: structure and decision, in groups, in a straight loop.

    Attributes:
        kernel: The kernel.
        records: Its log, where one was handed in to be kept.
    """

    def __init__(self, load: Load, records: list[bytes] | None = None) -> None:
        super().__init__()
        self._load = load
        self.records = records
        sink = None if records is None else records.append
        self.kernel = Kernel(make_domain(), make_kernel_config(load.shape), sink=sink)
        for agent_id in load.agent_ids:
            self.kernel.register_agent(agent_id, permissions=PERMISSIONS)

    async def __aenter__(self) -> Self:
        await self.run(self._load.chunk(self.kernel.seq, self._load.shape.filling_rounds))
        return self

    def next_chunk(self) -> Chunk:
        """Prepare the next rounds."""
        return self._load.chunk(self.kernel.seq)

    async def run(self, chunk: Chunk) -> None:
        """Decide them, `GROUP_BATCHES` at a time."""
        kernel, check = self.kernel, self.kernel.check
        submitters = [lane.agent_id for lane in chunk.lanes]
        group: list[CheckedBatch] = []
        for batches in zip(*[lane.batches for lane in chunk.lanes], strict=True):
            for agent_id, batch in zip(submitters, batches, strict=True):
                checked = check(batch, agent_id)
                if not isinstance(checked, CheckedBatch):
                    raise UnexpectedRefusalError(checked)
                group.append(checked)
                if len(group) == GROUP_BATCHES:
                    _decide(kernel, group)
                    group = []
        if group:
            _decide(kernel, group)


def _decide(kernel: Kernel, group: list[CheckedBatch]) -> None:
    for _, verdict in kernel.decide_checked(group, time.monotonic_ns()).answers:
        if not verdict.admitted:
            raise UnexpectedRefusalError(verdict)


class WholeWorld(Contender):
    """An orchestrator with all its actors; every lane is a task that awaits its verdicts.

    Attributes:
        orchestrator: The world.
    """

    def __init__(
        self, load: Load, store: str = "memory://", *, domain: Domain | None = None
    ) -> None:
        super().__init__()
        self._load = load
        self._handles: dict[str, AgentHandle] = {}
        self._exit = AsyncExitStack()
        config = make_config(load.shape, store)
        self.orchestrator = Orchestrator(domain or make_domain(), config)

    async def __aenter__(self) -> Self:
        await self._exit.enter_async_context(self.orchestrator)
        for agent_id in self._load.agent_ids:
            handle = await self.orchestrator.register_agent(agent_id, permissions=PERMISSIONS)
            self._handles[agent_id] = handle
        await self.run(self._load.chunk(self.orchestrator.seq, self._load.shape.filling_rounds))
        self.latencies_ns = array("q")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._exit.aclose()

    def next_chunk(self) -> Chunk:
        """Prepare the next rounds."""
        return self._load.chunk(self.orchestrator.seq)

    async def run(self, chunk: Chunk) -> None:
        """Submit the batches of every lane, one after another."""
        async with asyncio.TaskGroup() as lanes:
            for lane in chunk.lanes:
                lanes.create_task(self._submit(lane))

    async def grow(self, records: int) -> None:
        """Make the log longer by batches of this world's own shape; not timed."""
        while self.statistics()["records"] < records:
            await self.run(self.next_chunk())
        self.latencies_ns = array("q")

    def statistics(self) -> dict[str, Json]:
        """Return the world's own counts."""
        return self.orchestrator.statistics()

    async def _submit(self, lane: ClientLane) -> None:
        submit, clock = self._handles[lane.agent_id].submit, time.perf_counter_ns
        note = self.latencies_ns.append
        for batch in lane.batches:
            started_ns = clock()
            verdict = await submit(batch)
            note(clock() - started_ns)
            if not verdict.admitted:
                raise UnexpectedRefusalError(verdict)


class Fold(Contender):
    """Replays a log, from its first record to its last, into a fresh state.

    Attributes:
        records: The log.
    """

    def __init__(self, load: Load, intents: int) -> None:
        super().__init__()
        self._load = load
        self._intents_min = intents
        self._intents = 0
        self.records: list[bytes] = []

    async def __aenter__(self) -> Self:
        maker = KernelAlone(self._load, self.records)
        while self._intents < self._intents_min:
            chunk = maker.next_chunk()
            await maker.run(chunk)
            self._intents += chunk.intents
        return self

    def next_chunk(self) -> Chunk:
        """The whole log, each time."""
        return Chunk(self._intents, [])

    async def run(self, chunk: Chunk) -> None:
        """Fold it."""
        replayer = Replayer()
        for data in self.records:
            replayer.apply(data)


class Verified(Fold):
    """Verifies a log, as `placet verify` does; compiling the domain's kinds is in it."""

    async def run(self, chunk: Chunk) -> None:
        """Re-execute every record."""
        verifier = Verifier([make_domain()])
        for data in self.records:
            verifier.apply(data)
        assert verifier.intents == chunk.intents, "every intent is re-executed"
