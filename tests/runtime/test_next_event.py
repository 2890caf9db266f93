"""`next_event`: time jumps when nobody has anything to do, and to the same end each time."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from placet import ClosedError, Orchestrator, OrchestratorConfig
from placet.actors.policies.agent import AgentActor
from placet.domains.world import World
from placet.errors import TimeStalledError
from placet.runtime.agent_handle import AgentHandle
from placet.schemas.effect import Effect
from placet.schemas.intent import Intent
from placet.schemas.latency import Constant
from placet.schemas.log.record import Tick, decode_record
from placet.schemas.view import Observation, View
from tests.actors.virtual_time import in_virtual_time, iterations, turns
from tests.kernel.domains import MAIL, Lab

OBJECTS = {"apple": {"position": [0, 0]}, "pear": {"position": [0, 0]}}


def world_of(domain: Any = None, **config: Any) -> Orchestrator:
    settings = OrchestratorConfig(clock="next_event", log_level="critical", **config)
    return Orchestrator(domain or World(objects=OBJECTS), settings)


@in_virtual_time
async def test_time_jumps_from_moment_to_moment_and_costs_no_real_time():
    loop = asyncio.get_running_loop()
    async with world_of() as world:
        woken: list[tuple[str, float]] = []

        async def live(agent: AgentHandle, pause: float) -> None:
            for _ in range(3):
                await agent.sleep(pause)
                verdict = await agent.submit([agent.intent("Move", to=[world.sim_time, 0])])
                assert verdict.admitted
                assert verdict.sim_time == world.sim_time
                woken.append((agent.agent_id, world.sim_time))

        handles = [await world.register_agent(name) for name in ("ann", "bob")]
        await asyncio.gather(live(handles[0], 1000.0), live(handles[1], 1500.0))
        assert sorted(woken, key=lambda one: (one[1], one[0])) == [
            ("ann", 1000.0),
            ("bob", 1500.0),
            ("ann", 2000.0),
            ("ann", 3000.0),
            ("bob", 3000.0),
            ("bob", 4500.0),
        ]
        await turns()
        assert world.sim_time == 4500.0
        assert loop.time() < 1.0


async def contested(seed: int, store: str = "memory://") -> tuple[str, list[bytes]]:
    """Let ten agents want two things; how long each thinks is drawn, and real."""
    chance = Random(seed)
    async with world_of(store=store, seed=7) as world:
        handles = [await world.register_agent(f"agent_{n}", position=[0, 0]) for n in range(10)]

        async def live(agent: AgentHandle) -> None:
            await agent.sleep_until(0)
            for _ in range(6):
                view = await agent.refresh_view()
                await asyncio.sleep(chance.random())
                held = view.state["world.agents"][agent.agent_id]["inventory"]
                target = held[0] if held else ("apple", "pear")[len(agent.agent_id) % 2]
                act = "drop" if held else "pickup"
                await agent.submit(
                    [agent.intent("Interact", target_id=target, interaction_type=act)]
                )
                await asyncio.sleep(chance.random())
                await agent.sleep(1.0)

        chance.shuffle(handles)
        await asyncio.gather(*map(live, handles))
        records = [record for _, record in world._open.log.read()]
        assert world.sim_time == 6.0
        return await world.digest(), records


@in_virtual_time
async def test_the_same_seed_gives_the_same_digest_however_long_each_thought_took():
    first, log = await contested(1)
    assert len(log) > 40
    for seed in (2, 3, 4):
        digest, _ = await contested(seed)
        assert digest == first


@in_virtual_time
async def test_the_same_run_twice_writes_the_same_bytes():
    assert await contested(5) == await contested(5)


async def test_a_store_on_a_disk_is_waited_for_and_set_up_is_not_overtaken(tmp_path):
    store = f"sqlite:///{tmp_path}/town.db"
    async with world_of(store=store) as world:
        first = await world.register_agent("first", position=[0, 0])
        sleeping = asyncio.create_task(first.sleep(5.0))
        for number in range(10):
            await world.register_agent(f"agent_{number}", position=[0, 0])
            assert world.sim_time == 0.0
        await sleeping
        assert world.sim_time == 5.0


@in_virtual_time
async def test_what_is_scheduled_moves_time_and_without_anything_due_it_stands_still():
    async with world_of() as world:
        ann = await world.register_agent("ann", position=[0, 0])
        batch = {"intents": [ann.intent("Move", to=[1, 0])], "sim_time": 60.0}
        assert (await ann.submit(batch)).scheduled
        await turns(200)
        assert world.sim_time == 60.0
        assert await world.state("world.agents/ann/position") == [1.0, 0.0, 0.0]
        await turns(200)
        before = iterations()
        await asyncio.sleep(3600)
        assert iterations() - before < 10
        assert world.sim_time == 60.0


@in_virtual_time
async def test_ticks_fall_on_the_way_and_move_time_for_nobody():
    async with world_of(tick_s=1.0) as world:
        ann = await world.register_agent("ann", position=[0, 0])
        await world.wait_until(3.5)
        assert (await ann.submit([ann.intent("Move", to=[1, 0])])).admitted  # no tick for that
        await turns(200)
        assert world.sim_time == 3.5
        await world.wait_until(4.0)
        records = [decode_record(data) for _, data in world._open.log.read()]
        ticks = [one.now_ns / 1e9 for one in records if isinstance(one, Tick)]
        assert ticks == [1.0, 2.0, 3.0, 4.0]


@in_virtual_time
async def test_who_submits_without_living_in_time_is_decided_all_the_same():
    async with world_of() as world:
        ann = await world.register_agent("ann", position=[0, 0])
        assert (await ann.submit([ann.intent("Move", to=[1, 0])])).admitted
        assert (await world.submit([ann.intent("Move", to=[2, 0])])).admitted
        assert world.sim_time == 0.0


@in_virtual_time
async def test_time_waits_for_effects_that_run():
    async with world_of(Lab()) as world:
        ran: list[float] = []

        async def handler(effect: Effect) -> None:
            await asyncio.sleep(30)
            ran.append(world.sim_time)

        await world.register_executor(MAIL, handler)
        ann = await world.register_agent("alice")
        ticket = ann.submit_nowait([ann.intent("Mail", count=2)])
        await ann.sleep_until(10.0)
        assert ticket.verdict is not None
        assert ran == [0.0, 0.0]
        assert world.statistics()["outbox"] == 0


@in_virtual_time
async def test_time_does_not_wait_for_effects_that_nobody_runs():
    async with world_of(Lab()) as world:
        may_end = asyncio.Event()

        async def handler(effect: Effect) -> None:
            await may_end.wait()

        await world.register_executor(MAIL, handler, concurrency=1)
        ann = await world.register_agent("alice")
        assert (await ann.submit([ann.intent("Mail", count=2)])).admitted
        sleeping = asyncio.create_task(ann.sleep_until(10.0))
        leaving = asyncio.create_task(world.unregister_executor(MAIL))
        await turns()
        assert [sleeping.done(), leaving.done()] == [False, False]  # one of them runs
        may_end.set()
        await asyncio.wait_for(sleeping, 60)
        await leaving
        assert world.statistics()["outbox"] == 1


async def hanging(agent: AgentHandle) -> None:
    await agent.sleep(1.0)
    await asyncio.Event().wait()


async def busy(agent: AgentHandle) -> None:
    await agent.sleep(1.0)
    while True:
        await agent.submit([agent.intent("Speak", text="me!")])


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (hanging, "stopped at 1 s: 'bob' has not slept, submitted or ended for 60 s"),
        (busy, "stopped at 1 s: 50 groups were decided at this time and 'bob' still submit"),
    ],
)
@in_virtual_time
async def test_who_never_yields_to_time_is_found_out_and_named(
    policy: Callable[[AgentHandle], Awaitable[None]], said: str
) -> None:
    async with world_of(instant_groups_max=50, agent_think_seconds_max=60) as world:
        ann, bob = [await world.register_agent(name, position=[0, 0]) for name in ("ann", "bob")]
        holding = asyncio.ensure_future(policy(bob))
        with pytest.raises(TimeStalledError, match=said):
            await ann.sleep_until(2.0)
        with pytest.raises(TimeStalledError):
            await ann.sleep_until(3.0)
        assert world.sim_time == 1.0
        holding.cancel()
        await asyncio.wait([holding])


@in_virtual_time
async def test_where_time_has_stalled_whoever_waits_for_a_decision_is_told():
    async with world_of(agent_think_seconds_max=60) as world:
        ann, bob, cy = [await world.register_agent(n, position=[0, 0]) for n in ("a", "b", "c")]
        holding = asyncio.ensure_future(hanging(bob))
        sleeping = asyncio.ensure_future(ann.sleep_until(2.0))
        waiting = asyncio.ensure_future(cy.sleep(1.0))
        await waiting
        ticket = cy.submit_nowait([cy.intent("Move", to=[1, 0])])
        with pytest.raises(TimeStalledError):
            await ticket
        with pytest.raises(TimeStalledError):
            await cy.submit([cy.intent("Move", to=[1, 0])])
        assert (await cy.submit([cy.intent("Move", to=[1, 0])], dry_run=True)).admitted
        with pytest.raises(TimeStalledError):
            await sleeping
        holding.cancel()


@in_virtual_time
async def test_where_time_has_stalled_policies_end_and_nobody_is_suspended_for_it():
    async with world_of(agent_think_seconds_max=60) as world:
        ann, bob = [await world.register_agent(name, position=[0, 0]) for name in ("ann", "bob")]
        holding = asyncio.ensure_future(hanging(bob))
        act = AgentActor(ann, lambda view: [ann.intent("Move", to=[1, 0])], pause_sim_s=1.0)
        world.run_agent(act)
        with pytest.raises(TimeStalledError, match="'bob' has not slept"):
            await world.wait_until(2.0)
        await asyncio.sleep(1000)
        status = world.agent_status("ann")
        assert (status.state, status.failures) == ("idle", 0)
        holding.cancel()


@in_virtual_time
async def test_a_thought_is_not_forgotten_over_what_others_do_meanwhile():
    async with world_of(agent_think_seconds_max=60) as world:
        ann, bob = [await world.register_agent(name, position=[0, 0]) for name in ("ann", "bob")]

        async def come_and_go() -> None:
            for number in range(100):
                await asyncio.sleep(10)
                await world.register_agent(f"guest {number}", position=[0, 0])

        others = [asyncio.ensure_future(act) for act in (hanging(bob), come_and_go())]
        with pytest.raises(
            TimeStalledError, match="'bob' has not slept, submitted or ended for 60 s"
        ):
            await ann.sleep_until(2.0)
        assert asyncio.get_running_loop().time() == pytest.approx(60)
        for other in others:
            other.cancel()


@in_virtual_time
async def test_a_thought_that_ends_just_as_its_time_is_over_holds_up_nobody():
    async with world_of(agent_think_seconds_max=60) as world:
        ann, bob = [await world.register_agent(name, position=[0, 0]) for name in ("ann", "bob")]

        async def think() -> None:
            await bob.sleep_until(1.0)
            await asyncio.sleep(60)
            await bob.sleep_until(2.0)

        await asyncio.gather(think(), ann.sleep_until(3.0))
        assert world.sim_time == 3.0


@in_virtual_time
async def test_thoughts_one_after_the_other_may_take_longer_than_one_of_them():
    async with world_of(agent_think_seconds_max=60) as world:
        ann, bob = [await world.register_agent(name, position=[0, 0]) for name in ("ann", "bob")]

        async def think(agent: AgentHandle, seconds: float) -> None:
            await agent.sleep_until(1.0)
            for x in range(3):
                await asyncio.sleep(seconds)
                assert (await agent.submit([agent.intent("Move", to=[x, 0])])).admitted

        await asyncio.gather(think(ann, 50), think(bob, 40), world.wait_until(2.0))
        assert world.sim_time == 2.0


@in_virtual_time
async def test_rounds_are_counted_at_each_moment_anew():
    async with world_of(instant_groups_max=2) as world:
        ann = await world.register_agent("ann", position=[0, 0])
        waiting = asyncio.create_task(world.wait_until(20.0))
        for x in range(10):
            await ann.sleep(1.0)
            assert (await ann.submit([ann.intent("Move", to=[x, 0])])).admitted
        assert world.sim_time == 10.0
        await ann.sleep_until(20.0)
        await waiting


@in_virtual_time
async def test_a_long_thought_holds_up_nobody_who_does_not_wait():
    async with world_of(agent_think_seconds_max=1) as world:
        ann = await world.register_agent("ann", position=[0, 0])
        await ann.sleep(1.0)
        await asyncio.sleep(100)  # longer than a moment may last, and nobody minds
        await ann.sleep(1.0)
        assert world.sim_time == 2.0


@in_virtual_time
async def test_a_pause_holds_time_and_a_resume_lets_it_go_on():
    async with world_of() as world:
        await world.pause()
        waiting = asyncio.create_task(world.wait_until(5.0))
        before = iterations()
        await asyncio.sleep(3600)
        assert iterations() - before < 50
        assert world.sim_time == 0.0
        await world.resume()
        await waiting
        assert world.sim_time == 5.0


@in_virtual_time
async def test_a_pause_at_any_turn_of_the_loop_holds_time():
    moments = set()
    for number in range(40):  # before, while, and after time jumps
        async with world_of() as world:
            waiting = asyncio.create_task(world.wait_until(5.0))
            await turns(number)
            await world.pause()
            moment = world.sim_time
            moments.add(moment)
            await turns(100)
            assert world.sim_time == moment
            await world.resume()
            await waiting
    assert moments == {0.0, 5.0}


@in_virtual_time
async def test_closing_ends_time_and_who_sleeps_is_told():
    async with world_of() as world:
        await world.pause()
        sleeping = asyncio.create_task(world.wait_until(1e6))
        await turns()
    with pytest.raises(ClosedError):
        await sleeping
    assert len(asyncio.all_tasks()) == 1


@in_virtual_time
async def test_policies_that_are_run_live_in_simulated_time():
    loop = asyncio.get_running_loop()
    quotas = {"Speak": {"rate": 0.5, "burst": 1}}
    async with world_of(quotas=quotas) as world:
        said: list[float] = []

        class Chatter:
            def __init__(self, agent: AgentHandle) -> None:
                self._agent = agent

            def propose(self, view: View) -> list[Intent] | None:
                if view.sim_time >= 10:
                    return None
                return [self._agent.intent("Speak", text=f"it is {view.sim_time}")]

        ann = await world.register_agent("ann", position=[0, 0])
        world.run_agent(AgentActor(ann, Chatter(ann), pause_sim_s=1.0))
        await world.wait_until(12.0)
        async for event in world.events():
            said += [event.sim_time] if event.type == "batch" else []
            if said and said[-1] >= 8:
                break
        assert said == [0.0, 2.0, 4.0, 6.0, 8.0]
        assert loop.time() < 1


@pytest.mark.parametrize("latency", [None, Constant(0.5)])
@in_virtual_time
async def test_one_who_waits_for_something_to_see_does_not_hold_up_time(latency):
    async with world_of(agent_think_seconds_max=60) as world:
        ann, bob = [await world.register_agent(name, position=[0, 0]) for name in ("ann", "bob")]
        seen: list[tuple[str, float]] = []

        async def watch() -> None:
            await ann.sleep_until(0)
            async for observation in ann.observe(latency=latency):
                seen.append((observation.kind, world.sim_time))
                await asyncio.sleep(10)  # a thought, for which time waits
                assert world.sim_time == seen[-1][1]
                await ann.sleep(0.25)

        watching = asyncio.ensure_future(watch())
        for x in (1, 2, 3):
            await bob.sleep_until(float(x))
            await bob.submit([bob.intent("Move", to=[x, 0])])
        await bob.sleep_until(5.0)
        late = 0.0 if latency is None else 0.5
        deltas = [("delta", x + late) for x in (1.0, 2.0, 3.0)]
        assert seen == [("snapshot", late), *deltas]
        watching.cancel()


@in_virtual_time
async def test_a_policy_that_observes_lives_in_simulated_time():
    async with world_of() as world:
        ann, bob = [await world.register_agent(name, position=[0, 0]) for name in ("ann", "bob")]

        class Follow:
            def observe(self, observation: Observation) -> list[Intent]:
                places = {one.entity: (one.fields or {}) for one in observation.changes}
                place = places.get("world.agents/bob", {}).get("position")
                return [] if place is None else [ann.intent("Move", to=[*place])]

        world.run_agent(AgentActor(ann, Follow(), pause_sim_s=1.0))
        for x in (1, 2, 3):
            await bob.sleep(2.0)
            await bob.submit([bob.intent("Move", to=[x, 0])])
        await bob.sleep(2.0)
        assert await world.state("world.agents/ann/position") == [3.0, 0.0, 0.0]


@in_virtual_time
async def test_it_is_not_stepped_by_hand():
    async with world_of() as world:
        with pytest.raises(ValueError, match="only a stepped world is stepped"):
            await world.step(1.0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"clock": "stepped", "tick_s": 1.0}, "tick_s is of a world with clock='next_event'"),
        ({"clock": "next_event", "tick_s": 0.0}, "tick_s must be None or seconds above 0"),
        ({"instant_groups_max": 0}, "instant_groups_max must be an int >= 1"),
        ({"agent_think_seconds_max": 1.5}, "agent_think_seconds_max must be an int >= 1"),
    ],
)
def test_settings_of_moments_are_checked(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        OrchestratorConfig(**options)
