"""The handlers of a domain: their concurrency, and the outcomes of their effects."""

import asyncio

import pytest

from placet import Domain, Kind, Orchestrator
from placet.kernel import EffectHandler, refuse


class Bakery(Domain):
    """A domain whose one kind bakes a loaf outside."""

    name = "bakery"
    version = "1"
    executors = f"{__name__}:executors_of"

    def __init__(self, concurrency=None):
        def bake(draft, intent):
            if intent["payload"]["loaf"] < 0:
                return refuse("no_loaf", "bake a loaf")
            return draft.emit("bakery.bake", intent["payload"])

        self.concurrency = concurrency
        self.running, self.most = 0, 0
        self.goes_on = asyncio.Event()
        self.kinds = (Kind("bakery.bake", dict, bake, effects=("bakery.bake",)),)

    async def bake(self, effect):
        self.running += 1
        self.most = max(self.most, self.running)
        if self.concurrency in {None, self.running}:
            self.goes_on.set()
        await self.goes_on.wait()
        await asyncio.sleep(0)
        self.running -= 1
        return effect.payload["loaf"]


def executors_of(domain):
    handler = EffectHandler(
        handler=domain.bake, delivery="pure", concurrency=domain.concurrency, attempts_max=1
    )
    return {"bakery.bake": handler}


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_a_handler_runs_as_many_attempts_at_a_time_as_it_names(concurrency):
    bakery = Bakery(concurrency)
    async with Orchestrator(bakery) as world:
        ann = await world.register_agent("ann")
        verdict = await ann.submit([ann.intent("bakery.bake", loaf=n) for n in range(6)])
        outcomes = await world.outcomes(verdict)
    assert [(one.succeeded, one.output) for one in outcomes] == [(True, n) for n in range(6)]
    assert bakery.most == concurrency


async def test_a_refused_batch_and_a_dry_run_have_no_outcomes():
    async with Orchestrator(Bakery()) as world:
        ann = await world.register_agent("ann")
        refused = await ann.submit([ann.intent("bakery.bake", loaf=-1)])
        previewed = await ann.submit([ann.intent("bakery.bake", loaf=1)], dry_run=True)
        assert [await world.outcomes(one) for one in (refused, previewed)] == [[], []]
