"""A world whose effects are workflows of three steps, run in a process that dies at a given point.

The outside world is a file: each step appends one line, in one write, which survives the process.
"""

import asyncio
import os
import signal
from contextlib import aclosing
from typing import Any

from dbos import DBOS
from typing_extensions import TypedDict

from placet import Domain, Kind, Orchestrator, OrchestratorConfig
from placet.kernel import Draft
from placet.runtime.executors import Backoff, DbosWorkflow, Effect, Settlement
from placet.runtime.executors import dbos as executor_dbos
from tests.crash.process_forker import Report

POINTS = ("started", "after first", "within second", "after second", "done", "settling")
"""Points at which a child may be killed, in order."""


class Outside:
    """The outside world, and the point at which the process dies."""

    path = ""
    crash_at: str | None = None

    @classmethod
    def note(cls, key: str, step: str) -> None:
        file = os.open(cls.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{key} {step}\n".encode())
        os.close(file)

    @classmethod
    def reach(cls, point: str) -> None:
        if point == cls.crash_at:
            os.kill(os.getpid(), signal.SIGKILL)


def steps_noted(path: object) -> list[str]:
    with open(str(path), encoding="utf-8") as lines:  # noqa: PTH123  # the path as the child gets it
        return [line.strip() for line in lines]


@DBOS.step()
def do(key: str, step: str) -> str:
    Outside.note(key, step)
    Outside.reach(f"within {step}")
    return step


@DBOS.workflow()
def ship(effect: dict[str, Any]) -> dict[str, Any]:
    Outside.reach("started")
    results = []
    for step in ("first", "second", "third"):
        results.append(do(effect["key"], step))
        Outside.reach(f"after {step}")
    Outside.reach("done")
    return {"article": effect["payload"]["article"], "steps": results}


@DBOS.workflow()
async def ship_waiting(effect: dict[str, Any]) -> dict[str, Any]:
    await DBOS.sleep_async(0.05)
    return {"article": effect["payload"]["article"]}


@DBOS.workflow()
def ship_slowly(effect: dict[str, Any]) -> str:
    Outside.note(effect["key"], "started")
    DBOS.sleep(0.5)
    return "slowly"


@DBOS.workflow()
def ship_until_stopped(effect: dict[str, Any]) -> str:
    Outside.note(effect["key"], "started")
    for _ in range(1_000):
        DBOS.sleep(0.05)
    return "nobody stopped it"


@DBOS.workflow()
def ship_and_fail(effect: dict[str, Any]) -> None:
    Outside.note(effect["key"], "tried")
    raise LookupError(f"no {effect['payload']['article']} is left")


class Order(TypedDict):
    article: str


def order(draft: Draft, intent: Any) -> None:
    draft.emit("ship", {"article": intent["payload"]["article"], "sizes": [1, 2]})


class Shop(Domain):
    name, version = "shop", "1"
    kinds = (Kind("Order", Order, order, effects=("ship",)),)

    def on_settle(self, draft: Draft, effect: Effect, settlement: Settlement) -> None:
        Outside.reach("settling")
        draft.create("shop.orders", str(effect.key), {"said": settlement.output})


def launch(engine: str) -> None:
    """Launch DBOS on its own database, with a short polling interval."""
    DBOS(
        config={
            "name": "shop",
            "system_database_url": engine,
            "application_version": "1",
            "log_level": "CRITICAL",
            "notification_listener_polling_interval_sec": 0.05,
        }
    )
    DBOS.launch()


def run(
    report: Report,
    *,
    store: str,
    engine: str,
    outside: str,
    crash_at: str | None = None,
    has_new_ids: bool = False,
) -> None:
    """Order once, in the first child; wait until the effect is settled and report the result.

    Args:
        report: Sends the result to the test.
        store: Store of the world.
        engine: Database of DBOS.
        outside: File that stands for the outside world.
        crash_at: One of `POINTS`; None runs to the end.
        has_new_ids: The planted bug: each process starts a workflow with an id of its own.
    """
    Outside.path, Outside.crash_at = outside, crash_at
    if has_new_ids:
        executor_dbos.workflow_id_of = lambda effect: f"{effect.key} {os.getpid()}"
    launch(engine)
    asyncio.run(_serve(report, store))
    DBOS.destroy()


async def _serve(report: Report, store: str) -> None:
    config = OrchestratorConfig(store=store, log_level="critical")
    async with Orchestrator(Shop(), config) as shop:
        is_first = shop.seq <= 1  # its log holds only the settings
        await shop.register_executor(
            "ship", DbosWorkflow(ship), backoff=Backoff(first_s=0.01), seconds_max=60
        )
        if is_first:
            ann = await shop.register_agent("ann")
            verdict = await ann.submit([ann.intent("Order", article="lamp")])
            assert verdict.admitted, verdict
        await asyncio.wait_for(shop.wait_effects(), 30)
        report.send("end", orders=await shop.state("shop.orders"), settled=await settlements(shop))


async def settlements(world: Orchestrator) -> int:
    """Count the settlements in the log."""
    count = 0
    async with aclosing(world.event_pages(0)) as pages:
        async for page in pages:
            count += sum(event.type == "settled" for event in page)
            if page[-1].seq == world.seq:
                break
    return count
