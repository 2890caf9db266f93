"""Logs for the tests of the lab: a small town, and a domain with effects and mixed values."""

import asyncio

from placet import Domain, Kind, Orchestrator, OrchestratorConfig
from placet.scenarios import load
from tests.scenarios.actors import by_actors

TOWN = (
    "agents.folk.count=12",
    "agents.merchant.count=4",
    "agents.child.count=4",
    "objects.lamp.count=1",
)


def run_town(store, *, ticks=12, seed=1, more=(), **options):
    """Run a small town into a store, and return its report."""
    overrides = [*TOWN, "agents.crier.count=1", f"ticks={ticks}", f"seed={seed}", *more]
    scenario = load("town", overrides=overrides)
    return asyncio.run(by_actors(scenario, store=str(store), **options).run())


def put(draft, intent):
    payload = intent["payload"]
    if not draft.exists("notes.notes", payload["id"]):
        draft.create("notes.notes", payload["id"], {"value": payload["value"], "by": "x"})
    else:
        draft.put("notes.notes", payload["id"], "value", payload["value"])
    if payload.get("mail"):
        draft.emit("mail", {"to": payload["mail"]})


def drop(draft, intent):
    draft.delete("notes.notes", intent["payload"]["id"])


class Notes(Domain):
    """Keeps one value of any type for each note."""

    name, version = "notes", "1"
    kinds = (
        Kind("Put", dict[str, object], put, effects=("mail",)),
        Kind("Drop", dict[str, object], drop),
    )


async def mail(effect):
    if effect.payload["to"] == "nobody":
        raise ValueError("no such address")
    return {"sent": effect.payload["to"]}


def write_notes(store, batches, *, ticks_after=()):
    """Submit batches of `(kind, payload)` as agent `ann`, each its own step of time."""

    async def run():
        config = OrchestratorConfig(store=str(store), clock="stepped")
        async with Orchestrator(Notes(), config) as world:
            await world.register_executor("mail", mail, delivery="idempotent", attempts_max=1)
            ann = await world.register_agent("ann")
            verdicts = []
            for batch in batches:
                pending = ann.submit_nowait([ann.intent(kind, **p) for kind, p in batch])
                await world.step(1.0)
                verdicts.append(await pending)
                await world.wait_effects()
            return verdicts

    return asyncio.run(run())
