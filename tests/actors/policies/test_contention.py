"""An agent actor leases what it lost to others, and asks first while it is contested."""

import asyncio
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from placet import Leases
from placet.actors.policies.agent import AgentActor
from placet.actors.policies.contention import Contention, lost_refs
from placet.domains.world import World
from placet.kernel import Kernel
from placet.runtime.agent_handle import AgentHandle
from placet.schemas.refusal import Refusal, Stage
from tests.actors.parts import open_world
from tests.actors.virtual_time import in_virtual_time

LEASES = Leases(refs_max=2, seconds_max=3)
STALE = Refusal(
    "stale_context", "m", Stage.STALENESS, changed=({"entity": "w/lamp"}, {"entity": "w"})
)


def lost(contention: Contention, *refusals: Refusal, was_leased: bool = False) -> None:
    for refusal in refusals:
        contention.note(refusal, was_leased=was_leased)


def of_slow(lease_after: int | None = 2) -> Contention:
    contention = Contention(lease_after)
    contention.thought_s = 1.0
    return contention


@pytest.mark.parametrize(
    ("refusal", "refs"),
    [
        (STALE, ["w/lamp"]),
        (
            Refusal("condition_failed", "m", details={"path": ["w", "lamp", "uses"], "found": 3}),
            ["w/lamp"],
        ),
        (Refusal("leased", "m", details={"entity": "w/lamp"}), ["w/lamp"]),
        (Refusal("leased", "m", details={"entity": None}), []),
        (Refusal("world.held", "m", changed=({"entity": "w/lamp"},)), ["w/lamp"]),
        (Refusal("world.not_held", "m"), []),
    ],
)
def test_the_lost_entities_of_a_refusal(refusal, refs):
    assert lost_refs(refusal) == refs


def test_an_agent_leases_after_losses_in_a_row():
    contention = of_slow()
    lost(contention, STALE)
    assert contention.wanted(LEASES) is None
    lost(contention, STALE)
    assert contention.wanted(LEASES) == (["w/lamp"], 2.0)
    assert contention.wanted(None) is None


def test_a_refusal_by_the_rules_is_no_loss():
    contention = of_slow(1)
    lost(contention, Refusal("world.not_held", "m"))
    assert contention.wanted(LEASES) is None


def test_the_latest_entities_are_leased_within_the_bounds():
    contention = of_slow(1)
    contention.thought_s = 9.0
    for name in ("a", "b", "c", "a"):
        lost(contention, Refusal("leased", "m", details={"entity": f"w/{name}"}))
    assert contention.wanted(LEASES) == (["w/c", "w/a"], 3)


def test_short_thoughts_and_agents_without_never_lease():
    for contention in (of_slow(None), of_slow(1)):
        contention.thought_s = 0.019 if contention._lease_after else 1.0
        lost(contention, STALE, STALE, STALE)
        assert contention.wanted(LEASES) is None


def test_an_agent_asks_first_for_more_and_more_turns_while_it_loses_without():
    contention = of_slow(2)
    lost(contention, STALE, STALE)
    leased = []
    for _ in range(40):
        is_leased = contention.wanted(LEASES) is not None
        leased.append(is_leased)
        contention.note(None if is_leased else STALE, was_leased=is_leased)
    tries = [place for place, was_leased in enumerate(leased) if not was_leased]
    pauses = [after - before - 1 for before, after in pairwise(tries)]
    assert pauses == sorted(pauses)
    assert pauses[-1] >= 8
    contention.note(None, was_leased=False)  # it won without
    lost(contention, STALE)
    assert contention.wanted(LEASES) is None


@pytest.mark.parametrize("value", [0, -1, 1.5, True])
def test_a_number_of_losses_is_an_int_of_at_least_one(value):
    with pytest.raises(ValueError, match="lease_after must be an int of at least 1"):
        Contention(value)


def poke(draft: Any, intent: Any) -> None:
    """A rule that depends on its target as it was seen."""
    target = intent["payload"]["target_id"]
    draft.put("world.objects", target, "n", draft.get("world.objects", target, "n", 0) + 1)


async def race(
    leases: Leases | None, lease_after: int | None, *, lamp: str = "lamp", **options: Any
) -> tuple[Any, int]:
    """Let an agent that thinks for 50 ms act among three that act 30 times a second, for 8 s.

    Args:
        leases: Settings of the world.
        lease_after: Losses after which the slow agent leases.
        lamp: Name of the object that all of them want.
        options: Of the slow agent.
    """
    domain = World(objects={lamp: {"position": [0, 0]}}, interactions={"poke": poke})
    act = {"target_id": lamp, "interaction_type": "poke"}
    names = ("slow", *(f"fast{number}" for number in range(3)))
    async with open_world(domain=domain, agents=(), leases=leases) as opened:
        for name in names:
            more = options if name == "slow" else {}
            await opened.actor.command(partial(Kernel.register_agent, agent_id=name, **more))
        slow, *handles = [
            AgentHandle(opened, name, opened.kernel.ledger.agents[name].generation, name)
            for name in names
        ]
        admitted = 0

        async def think(_view: Any) -> list[Any]:
            await asyncio.sleep(0.05)
            return [slow.intent("Interact", act)]

        async def hurry(handle: Any) -> None:
            nonlocal admitted
            while True:
                await handle.refresh_view()
                admitted += (await handle.submit(handle.intent("Interact", act))).admitted
                await asyncio.sleep(1 / 30)

        actor = AgentActor(slow, think, lease_after=lease_after)
        opened.policy_supervisor.run(actor)
        tasks = [asyncio.create_task(hurry(handle)) for handle in handles]
        await asyncio.sleep(8)
        for task in tasks:
            task.cancel()
        return actor.statistics(), admitted


@in_virtual_time
async def test_a_slow_agent_that_never_won_wins_with_leases_and_the_fast_keep_their_share():
    starved, all_of_it = await race(None, 2)
    assert starved.admitted == 0
    unwilling, _ = await race(Leases(), None)
    assert unwilling.admitted == 0
    for share, kept in ((0.5, 0.45), (0.1, 0.8)):
        slow, fast = await race(Leases(share=share), 2)
        assert slow.admitted >= 10
        assert slow.proposed <= 1.5 * slow.admitted  # thoughts for an act
        assert fast >= kept * all_of_it


@in_virtual_time
async def test_an_entity_with_a_slash_in_its_name_is_leased_too():
    slow, _ = await race(Leases(), 2, lamp="a/b")
    assert slow.admitted >= 10


@in_virtual_time
@pytest.mark.parametrize(
    "options",
    [{"permissions": ["Interact"]}, {"quotas": {"placet.lease": {"rate": 0.01, "burst": 1}}}],
)
async def test_an_agent_that_is_given_no_lease_goes_on_without(options):
    slow, _ = await race(Leases(), 2, **options)
    assert slow.proposed >= 100
