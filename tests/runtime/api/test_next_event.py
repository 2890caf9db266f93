"""The `next_event` clock: time jumps when every agent waits, and runs are repeatable."""

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
async def test_time_jumps_between_events_and_costs_no_real_time():
    loop = asyncio.get_running_loop()
    async with world_of() as world:
        woken: list[tuple[str, float]] = []

        async def act(agent: AgentHandle, pause: float) -> None:
            for _ in range(3):
                await agent.sleep(pause)
                verdict = await agent.submit([agent.intent("Move", to=[world.sim_time, 0])])
                assert verdict.admitted
                assert verdict.sim_time == world.sim_time
                woken.append((agent.agent_id, world.sim_time))

        handles = [await world.register_agent(name) for name in ("ann", "bob")]
        await asyncio.gather(act(handles[0], 1000.0), act(handles[1], 1500.0))
        assert sorted(woken, key=lambda wake: (wake[1], wake[0])) == [
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
    """Run ten agents that compete for two objects and think for random real time."""
    chance = Random(seed)
    async with world_of(store=store, seed=7) as world:
        handles = [await world.register_agent(f"agent_{n}", position=[0, 0]) for n in range(10)]

        async def act(agent: AgentHandle) -> None:
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
        await asyncio.gather(*map(act, handles))
        records = [record for _, record in world._open.log.read()]
        assert world.sim_time == 6.0
        return await world.digest(), records


@in_virtual_time
async def test_digest_does_not_depend_on_how_long_agents_think():
    first, log = await contested(1)
    assert len(log) > 15  # a record of each group
    for seed in (2, 3, 4):
        digest, _ = await contested(seed)
        assert digest == first


@in_virtual_time
async def test_same_run_writes_the_same_log():
    assert await contested(5) == await contested(5)


async def test_time_waits_for_the_disk_and_for_registrations(tmp_path):
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
async def test_time_moves_to_scheduled_batches_and_stands_still_without_any():
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
async def test_ticks_run_on_the_way_and_do_not_move_time():
    async with world_of(tick_s=1.0) as world:
        ann = await world.register_agent("ann", position=[0, 0])
        await world.wait_until(3.5)
        assert (
            await ann.submit([ann.intent("Move", to=[1, 0])])
        ).admitted  # decided without a tick
        await turns(200)
        assert world.sim_time == 3.5
        await world.wait_until(4.0)
        records = [decode_record(data) for _, data in world._open.log.read()]
        ticks = [record.now_ns / 1e9 for record in records if isinstance(record, Tick)]
        assert ticks == [1.0, 2.0, 3.0, 4.0]


@in_virtual_time
async def test_batches_of_callers_outside_simulated_time_are_decided():
    async with world_of() as world:
        ann = await world.register_agent("ann", position=[0, 0])
        assert (await ann.submit([ann.intent("Move", to=[1, 0])])).admitted
        assert (await world.submit([ann.intent("Move", to=[2, 0])])).admitted
        assert world.sim_time == 0.0


@in_virtual_time
async def test_time_waits_for_running_effects():
    async with world_of(Lab()) as world:
        ran: list[float] = []

        async def handler(effect: Effect) -> None:
            await asyncio.sleep(30)
            ran.append(world.sim_time)

        await world.register_executor(MAIL, handler)
        ann = await world.register_agent("alice")
        pending = ann.submit_nowait([ann.intent("Mail", count=2)])
        await ann.sleep_until(10.0)
        assert pending.verdict is not None
        assert ran == [0.0, 0.0]
        assert world.statistics()["outbox"] == 0


@in_virtual_time
async def test_time_does_not_wait_for_effects_without_an_executor():
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
        assert [sleeping.done(), leaving.done()] == [False, False]  # one effect still runs
        may_end.set()
        await asyncio.wait_for(sleeping, 60)
        await leaving
        assert world.statistics()["outbox"] == 1


async def wait_forever(agent: AgentHandle) -> None:
    await agent.sleep(1.0)
    await asyncio.Event().wait()


async def submit_forever(agent: AgentHandle) -> None:
    await agent.sleep(1.0)
    while True:
        await agent.submit([agent.intent("Speak", text="me!")])


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (wait_forever, "stopped at 1 s: 'bob' has not slept, submitted or ended for 60 s"),
        (
            submit_forever,
            "stopped at 1 s: 50 groups were decided at this time and 'bob' still submit",
        ),
    ],
)
@in_virtual_time
async def test_agent_that_holds_up_time_is_named(
    policy: Callable[[AgentHandle], Awaitable[None]], message: str
) -> None:
    async with world_of(instant_groups_max=50, agent_think_seconds_max=60) as world:
        ann, bob = [await world.register_agent(name, position=[0, 0]) for name in ("ann", "bob")]
        holding = asyncio.ensure_future(policy(bob))
        with pytest.raises(TimeStalledError, match=message):
            await ann.sleep_until(2.0)
        with pytest.raises(TimeStalledError):
            await ann.sleep_until(3.0)
        assert world.sim_time == 1.0
        holding.cancel()
        await asyncio.wait([holding])


@in_virtual_time
async def test_callers_waiting_for_a_verdict_get_time_stalled_error():
    async with world_of(agent_think_seconds_max=60) as world:
        ann, bob, cy = [await world.register_agent(n, position=[0, 0]) for n in ("a", "b", "c")]
        holding = asyncio.ensure_future(wait_forever(bob))
        sleeping = asyncio.ensure_future(ann.sleep_until(2.0))
        waiting = asyncio.ensure_future(cy.sleep(1.0))
        await waiting
        pending = cy.submit_nowait([cy.intent("Move", to=[1, 0])])
        with pytest.raises(TimeStalledError):
            await pending
        with pytest.raises(TimeStalledError):
            await cy.submit([cy.intent("Move", to=[1, 0])])
        assert (await cy.submit([cy.intent("Move", to=[1, 0])], dry_run=True)).admitted
        with pytest.raises(TimeStalledError):
            await sleeping
        holding.cancel()


@in_virtual_time
async def test_stalled_time_ends_policies_without_suspending_their_agents():
    async with world_of(agent_think_seconds_max=60) as world:
        ann, bob = [await world.register_agent(name, position=[0, 0]) for name in ("ann", "bob")]
        holding = asyncio.ensure_future(wait_forever(bob))
        act = AgentActor(ann, lambda view: [ann.intent("Move", to=[1, 0])], pause_sim_s=1.0)
        world.run_agent(act)
        with pytest.raises(TimeStalledError, match="'bob' has not slept"):
            await world.wait_until(2.0)
        await asyncio.sleep(1000)
        status = world.agent_status("ann")
        assert (status.state, status.failures) == ("idle", 0)
        holding.cancel()


@in_virtual_time
async def test_think_time_limit_runs_while_other_agents_act():
    async with world_of(agent_think_seconds_max=60) as world:
        ann, bob = [await world.register_agent(name, position=[0, 0]) for name in ("ann", "bob")]

        async def register_more() -> None:
            for number in range(100):
                await asyncio.sleep(10)
                await world.register_agent(f"newcomer {number}", position=[0, 0])

        others = [asyncio.ensure_future(act) for act in (wait_forever(bob), register_more())]
        with pytest.raises(
            TimeStalledError, match="'bob' has not slept, submitted or ended for 60 s"
        ):
            await ann.sleep_until(2.0)
        assert asyncio.get_running_loop().time() == pytest.approx(60)
        for other in others:
            other.cancel()


@in_virtual_time
async def test_agent_that_thinks_exactly_the_limit_does_not_stall_time():
    async with world_of(agent_think_seconds_max=60) as world:
        ann, bob = [await world.register_agent(name, position=[0, 0]) for name in ("ann", "bob")]

        async def think() -> None:
            await bob.sleep_until(1.0)
            await asyncio.sleep(60)
            await bob.sleep_until(2.0)

        await asyncio.gather(think(), ann.sleep_until(3.0))
        assert world.sim_time == 3.0


@in_virtual_time
async def test_think_time_limit_applies_to_each_decision_separately():
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
async def test_group_limit_is_counted_anew_at_each_instant():
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
async def test_think_time_limit_applies_only_while_another_task_waits():
    async with world_of(agent_think_seconds_max=1) as world:
        ann = await world.register_agent("ann", position=[0, 0])
        await ann.sleep(1.0)
        await asyncio.sleep(100)  # longer than the think limit, but no other agent waits
        await ann.sleep(1.0)
        assert world.sim_time == 2.0


@in_virtual_time
async def test_pause_stops_time_and_resume_continues_it():
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
async def test_pause_stops_time_at_any_iteration_of_the_event_loop():
    moments = set()
    for number in range(40):  # before, during and after the jump
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
async def test_closing_raises_closed_error_in_sleeping_tasks():
    async with world_of() as world:
        await world.pause()
        sleeping = asyncio.create_task(world.wait_until(1e6))
        await turns()
    with pytest.raises(ClosedError):
        await sleeping
    assert len(asyncio.all_tasks()) == 1


@in_virtual_time
async def test_policies_run_in_simulated_time():
    loop = asyncio.get_running_loop()
    quotas = {"Speak": {"rate": 0.5, "burst": 1}}
    async with world_of(quotas=quotas) as world:
        spoken_at: list[float] = []

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
            spoken_at += [event.sim_time] if event.type == "batch" else []
            if spoken_at and spoken_at[-1] >= 8:
                break
        assert spoken_at == [0.0, 2.0, 4.0, 6.0, 8.0]
        assert loop.time() < 1


@pytest.mark.parametrize("latency", [None, Constant(0.5)])
@in_virtual_time
async def test_agent_waiting_for_an_observation_does_not_stall_time(latency):
    async with world_of(agent_think_seconds_max=60) as world:
        ann, bob = [await world.register_agent(name, position=[0, 0]) for name in ("ann", "bob")]
        seen: list[tuple[str, float]] = []

        async def watch() -> None:
            await ann.sleep_until(0)
            async for observation in ann.observe(latency=latency):
                seen.append((observation.kind, world.sim_time))
                await asyncio.sleep(10)  # thinking, for which time waits
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
async def test_observing_policy_runs_in_simulated_time():
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
async def test_step_is_refused_with_the_next_event_clock():
    async with world_of() as world:
        with pytest.raises(ValueError, match="only a stepped world is stepped"):
            await world.step(1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clock": "stepped", "tick_s": 1.0}, "tick_s is of a world with clock='next_event'"),
        ({"clock": "next_event", "tick_s": 0.0}, "tick_s must be None or seconds above 0"),
        ({"instant_groups_max": 0}, "instant_groups_max must be an int >= 1"),
        ({"agent_think_seconds_max": 1.5}, "agent_think_seconds_max must be an int >= 1"),
    ],
)
def test_limits_of_the_next_event_clock_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OrchestratorConfig(**options)
