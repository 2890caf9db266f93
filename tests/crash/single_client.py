"""One client of one world that submits until the store fails, and reports its answers.

For the tests in which the disk is full, a folder is closed, or a second writer opens the store.
"""

import asyncio
import os
import resource
import signal
from typing import Any, Final

from placet import Orchestrator, OrchestratorConfig
from placet.schemas.errors import StoreError
from placet.schemas.limits import Limits
from tests.crash import planted_bugs
from tests.crash.compiled import use_compiled_lab
from tests.crash.fixed_scenario import answer_of, ids_of
from tests.crash.process_forker import Report
from tests.kernel.builders import add, intent
from tests.kernel.domains import Lab

PAUSE_SECONDS: Final = 0.002
LIFE_SECONDS_MAX: Final = 60


def config_of(store: str) -> OrchestratorConfig:
    # No answer is forgotten, and a machine that stands still is no overload.
    limits = Limits(window_ids_max=1_000_000, loop_lag_ms_max=600_000)
    return OrchestratorConfig(store=store, limits=limits, log_level="critical", take_over=True)


class SingleClient:
    """Submits one batch after another to a world, each with a new id.

    Attributes:
        last: Number of the batch that was submitted last.
    """

    def __init__(self, world: Orchestrator, report: Report, name: str) -> None:
        self._world = world
        self._report = report
        self._name = name
        self.last = 0

    async def work(self, *, batches: int | None = None, bytes_each: int = 0) -> None:
        """Submit so many batches, or until the store fails.

        Raises:
            StoreError: It has.
        """
        while batches is None or self.last < batches:
            self.last += 1
            batch = self.batch_of(self.last, bytes_each)
            try:
                await self.submit(batch)
            except StoreError:
                self._report.send("unanswered", ids=ids_of(batch))
                raise
            await asyncio.sleep(PAUSE_SECONDS)

    def batch_of(self, number: int, bytes_each: int = 0) -> list[dict[str, Any]]:
        batch = [add(f"{self._name}:{number}", number)]
        if bytes_each:
            padding = {"thing": "t", "field": "f", "value": "x" * bytes_each}
            batch.append(intent("Put", padding, f"{self._name}-padding:{number}"))
        return batch

    async def submit(self, batch: list[dict[str, Any]]) -> None:
        verdict = await self._world.submit(batch)
        is_kept = verdict.durability != "none"
        self._report.send("answer", ids=ids_of(batch), answer=answer_of(verdict), is_kept=is_kept)


def run(
    report: Report,
    *,
    store: str,
    name: str,
    plant: str | None = None,
    file_bytes_max: int | None = None,
    user: int | None = None,
    bytes_each: int = 0,
    batches: int | None = None,
) -> None:
    """Submit in a child until it is killed or the store fails; then read the known answers."""
    use_compiled_lab()
    if plant is not None:
        planted_bugs.PLANTED_BUGS[plant]()
    if file_bytes_max is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes_max, file_bytes_max))
    if user is not None:
        os.setuid(user)
    try:
        asyncio.run(_live(report, store, name, bytes_each, batches))
    except StoreError as error:
        report.send("failed", message=str(error), store=error.store)


async def _live(
    report: Report, store: str, name: str, bytes_each: int, batches: int | None
) -> None:
    async with Orchestrator(Lab(), config_of(store)) as world:
        await world.register_agent("alice")
        client = SingleClient(world, report, name)
        report.send("opened")
        try:
            await client.work(batches=batches, bytes_each=bytes_each)
            await asyncio.sleep(LIFE_SECONDS_MAX)
        except StoreError as first:
            # Nothing is answered any more, not even what was answered before.
            for again in (client.last, 1, client.last + 1):
                try:
                    await client.submit(client.batch_of(again))
                except StoreError as error:
                    assert str(error) == str(first)  # noqa: PT017  # in a child
                else:
                    report.send("answered after the failure")
            raise
    raise AssertionError("a client works until it is killed, or the store fails")
