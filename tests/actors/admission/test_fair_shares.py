"""Under a flood, agents within their share are served, and refused agents age (G13)."""

from collections import Counter, deque
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final, get_args

import pytest

from placet.actors.admission.queue import Backpressure
from placet.runtime.world import WorldRuntime
from tests.actors.parts import add, open_world
from tests.actors.virtual_time import HandClock, in_virtual_time, turns

if TYPE_CHECKING:
    import asyncio

    from placet.schemas.verdict import Verdict

POLICIES: Final = get_args(Backpressure)
GROUP: Final = 8
MODEST: Final = tuple(f"modest_{number}" for number in range(4))
FLOODS: Final = ("flood_0", "flood_1")
LIMITS: Final = {
    "group_batches_max": GROUP,
    "mailbox_batches_max": 400,
    "wait_queue_batches_max": 400,
    "ingress_burst_max": 10**9,
    "dedup_entries_max": 10**6,
}


class Crowd:
    """Agents that submit a number of batches per group, and the outcomes of these."""

    def __init__(self, world: WorldRuntime) -> None:
        self._world = world
        self._posted: dict[str, deque[tuple[int, asyncio.Future[Verdict]]]] = {}
        self._turn = 0
        self.offered: Counter[str] = Counter()
        self.admitted: Counter[str] = Counter()
        self.waited: dict[str, list[int]] = {}

    def post(self, agent_id: str, count: int, priority: int = 10) -> None:
        for _ in range(count):
            batch = [add(f"{self.offered[agent_id]}", agent_id=agent_id, priority=priority)]
            answer = self._world.actor.post_batch(batch, agent_id)
            self.offered[agent_id] += 1
            self._posted.setdefault(agent_id, deque()).append((self._turn, answer))

    async def turn(self) -> None:
        """Decide one group and count the admitted batches."""
        await turns(1)
        self._turn += 1
        for agent_id, posted in self._posted.items():
            still = deque[Any]()
            for turn, answer in posted:
                if not answer.done():
                    still.append((turn, answer))
                elif answer.result().admitted:
                    self.admitted[agent_id] += 1
                    self.waited.setdefault(agent_id, []).append(self._turn - turn)
            self._posted[agent_id] = still

    def part(self, agent_id: str) -> float:
        """Return the fraction of an agent's batches that was admitted."""
        return self.admitted[agent_id] / self.offered[agent_id]


def crowded_world(policy: Backpressure, agents: tuple[str, ...], **limits: int) -> Any:
    return open_world(
        backpressure=policy, agents=agents, limits={**LIMITS, **limits}, time=HandClock(1)
    )


@pytest.mark.parametrize("floods", [1, 2], ids="floods of {}".format)
@pytest.mark.parametrize("policy", POLICIES)
@in_virtual_time
async def test_an_agent_within_its_share_gets_it_during_a_fiftyfold_flood(policy, floods):
    """Four agents offer one batch a turn; a flood offers fifty times a turn's capacity."""
    flooders = FLOODS[:floods]
    async with crowded_world(policy, (*MODEST, *flooders)) as world:
        crowd = Crowd(world)
        for _ in range(60):
            for name in flooders:
                crowd.post(name, 50 * GROUP // floods, priority=90)  # nor does priority help
            for name in MODEST:
                crowd.post(name, 1)
            await crowd.turn()
        await crowd.turn()
        await crowd.turn()
        for name in MODEST:
            assert crowd.part(name) >= 0.95
            assert max(crowd.waited[name]) <= 4  # turns
        rest = [crowd.admitted[name] for name in flooders]
        assert sum(rest) >= 0.9 * (60 * GROUP - 60 * len(MODEST))  # nothing is left unused
        assert min(rest) >= 0.8 * max(rest)


@pytest.mark.parametrize("policy", POLICIES)
@in_virtual_time
async def test_shares_of_random_offers_are_even_however_uneven_the_offers(policy):
    """Ten agents offer at random, the tenth ten times as much as the first: no share is doubled.

    Their expected offers are 1 to 10 a turn; a turn decides 8 of 55. Jain's index of what they get
    is 1 for even parts, and 0.77 for parts like the offers.
    """
    names = tuple(f"agent_{number}" for number in range(10))
    indices = []
    for seed in range(3):
        async with crowded_world(policy, names, mailbox_batches_max=80) as world:
            crowd, chance = Crowd(world), Random(seed)
            for _ in range(150):
                offers = [name for rate, name in enumerate(names, 1) for _ in range(2 * rate)]
                chance.shuffle(offers)
                for name in offers:
                    if chance.random() < 0.5:
                        crowd.post(name, 1)
                await crowd.turn()
            got = [crowd.admitted[name] for name in names]
            indices.append(sum(got) ** 2 / len(got) / sum(one * one for one in got))
            assert min(got) > 0.5 * max(got)
    assert fmean(indices) > 0.97


@in_virtual_time
async def test_old_batches_of_a_flood_do_not_raise_the_age_signal_of_others():
    """The age of a flood's batches counts only for the flooding agent."""
    clock = HandClock(1)
    limits = {**LIMITS, "mailbox_age_ms_max": 100}
    async with open_world(agents=("flood", "ann"), limits=limits, time=clock) as world:
        crowd = Crowd(world)
        crowd.post("flood", 300)
        for _ in range(20):
            clock.forward(20_000_000)
            crowd.post("ann", 1)
            crowd.post("flood", 5)
            await crowd.turn()
        await crowd.turn()
        assert crowd.part("ann") == 1.0
        assert world.counters.refusals["admission", "overloaded"] > 0  # the flood's
