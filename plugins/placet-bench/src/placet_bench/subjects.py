"""The subjects: the reference loop, the kernel alone, a whole world, and a fold of its log.

Each makes its own chunks, untimed, and runs them, timed. None of them may refuse: a refusal in a
workload is a mistake of the benchmark, and stops it.
"""

import asyncio
import time
from array import array
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Self

from placet.kernel.kernel import Kernel
from placet.kernel.log.replay import Replayer
from placet.kernel.log.verify import Verifier
from placet.kernel.plugin.domain import Domain
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.batch import CheckedBatch
from placet.schemas.codec import Json
from placet.schemas.config import Quota
from placet_bench import reference_loop
from placet_bench.reference_loop import ReferenceWorld
from placet_bench.workloads import (
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

if TYPE_CHECKING:
    from placet.runtime.agent_handle import AgentHandle

GROUP_BATCHES = 32
"""Batches that the kernel alone is given at a time, as the orchestrator's mailbox would."""


class UnexpectedRefusalError(AssertionError):
    """The error of a refused batch in a workload, which makes the measurement invalid."""


class Contender:
    """The base of the programs that a benchmark compares; each performs prepared work.

    An async context manager, which sets the program up and closes it.

    Attributes:
        latencies_ns: Time from submit to verdict of each batch, nanoseconds; may stay empty.
    """

    def __init__(self) -> None:
        self.latencies_ns = array("q")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        """Nothing to close."""

    def next_chunk(self) -> Chunk:
        """Return the work of the next timed stretch; not timed."""
        raise NotImplementedError

    async def run(self, chunk: Chunk) -> None:
        """Perform a chunk of work; timed."""
        raise NotImplementedError


class Submitter(Contender):
    """The base of the contenders that submit the batches of a load to a world.

    Args:
        load: The load.
        world: The world; its seq is the context of the batches.
    """

    def __init__(self, load: Load, world: ReferenceWorld | Kernel | Orchestrator) -> None:
        super().__init__()
        self._load = load
        self._world = world

    async def __aenter__(self) -> Self:
        await self.run(self._load.chunk(self._world.seq, self._load.shape.filling_rounds))
        return self

    def next_chunk(self) -> Chunk:
        """Return the next batches of every lane; not timed."""
        return self._load.chunk(self._world.seq)


class Reference(Submitter):
    """The contender that runs the hand-written reference loop, with which others are compared."""

    def __init__(self, load: Load) -> None:
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
        super().__init__(load, self.world)

    async def run(self, chunk: Chunk) -> None:
        """Submit the batches of a chunk in one loop."""
        world, submit, now_ns = self.world, reference_loop.submit, time.monotonic_ns
        submitters = [lane.agent_id for lane in chunk.lanes]
        for batches in zip(*[lane.batches for lane in chunk.lanes], strict=True):
            for agent_id, batch in zip(submitters, batches, strict=True):
                admitted, code = submit(world, batch, agent_id, now_ns())
                if not admitted:
                    raise UnexpectedRefusalError(code)


class KernelAlone(Submitter):
    """The contender that runs the kernel without actors: check and decide, in groups.

    Attributes:
        kernel: The kernel.
        records: The log records, if a list for them was passed; else None.
    """

    def __init__(self, load: Load, records: list[bytes] | None = None) -> None:
        self.records = records
        sink = None if records is None else records.append
        self.kernel = Kernel(make_domain(), make_kernel_config(load.shape), sink=sink)
        super().__init__(load, self.kernel)
        for agent_id in load.agent_ids:
            self.kernel.register_agent(agent_id, permissions=PERMISSIONS)

    async def run(self, chunk: Chunk) -> None:
        """Decide the batches of a chunk, `GROUP_BATCHES` at a time."""
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


class WholeWorld(Submitter):
    """The contender that runs an orchestrator; every lane is a task that awaits its verdicts.

    Attributes:
        orchestrator: The world.
    """

    def __init__(
        self, load: Load, store: str = "memory://", *, domain: Domain | None = None
    ) -> None:
        self._handles: dict[str, AgentHandle] = {}
        self._exit = AsyncExitStack()
        config = make_config(load.shape, store)
        self.orchestrator = Orchestrator(domain or make_domain(), config)
        super().__init__(load, self.orchestrator)

    async def __aenter__(self) -> Self:
        await self._exit.enter_async_context(self.orchestrator)
        for agent_id in self._load.agent_ids:
            handle = await self.orchestrator.register_agent(agent_id, permissions=PERMISSIONS)
            self._handles[agent_id] = handle
        await super().__aenter__()
        self.latencies_ns = array("q")
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._exit.aclose()

    async def run(self, chunk: Chunk) -> None:
        """Submit the batches of a chunk: each lane awaits a verdict before its next batch."""
        async with asyncio.TaskGroup() as lanes:
            for lane in chunk.lanes:
                lanes.create_task(self._submit(lane))

    async def grow(self, records: int) -> None:
        """Submit batches until the log has at least `records` records; not timed."""
        while self.statistics()["records"] < records:
            await self.run(self.next_chunk())
        self.latencies_ns = array("q")

    def statistics(self) -> dict[str, Json]:
        """Return the statistics of the world as plain JSON."""
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
    """The contender that replays a whole log into a fresh state.

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
        """Return the whole log as the work of a turn."""
        return Chunk(self._intents, [])

    async def run(self, chunk: Chunk) -> None:
        """Replay the log once."""
        replayer = Replayer()
        for data in self.records:
            replayer.apply(data)


class Verified(Fold):
    """The contender that verifies a log as `placet verify` does, by re-execution.

    The time includes compiling the domain's kinds.
    """

    async def run(self, chunk: Chunk) -> None:
        """Re-execute every record of the log once."""
        verifier = Verifier([make_domain()])
        for data in self.records:
            verifier.apply(data)
        assert verifier.intents == chunk.intents, "every intent is re-executed"
