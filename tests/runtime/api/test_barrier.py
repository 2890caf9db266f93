"""`Orchestrator.barrier`: returns when every agent submitted or skipped, or at its deadline."""

import asyncio

import pytest

from placet import ClosedError, Limits, Orchestrator, OrchestratorConfig
from placet.runtime.agent_handle import AgentHandle
from tests.actors.virtual_time import in_virtual_time, turns


def world_of(clock: str = "stepped", **config: object) -> Orchestrator:
    settings = OrchestratorConfig(clock=clock, log_level="critical", **config)  # type: ignore[arg-type]  # any of its own
    return Orchestrator(config=settings)


async def registered(world: Orchestrator, *names: str) -> list[AgentHandle]:
    return [await world.register_agent(name, position=[0, 0]) for name in names]


async def submit_after(agent: AgentHandle, seconds: float) -> None:
    await asyncio.sleep(seconds)
    agent.submit_nowait([agent.intent("Move", to=[1, 0])])


@in_virtual_time
async def test_barrier_opens_when_every_agent_submitted_or_skipped():
    async with world_of() as world:
        ann, bob, cy = await registered(world, "ann", "bob", "cy")
        ann.submit_nowait([ann.intent("Move", to=[1, 0])])  # before the barrier is called
        submissions = [asyncio.create_task(submit_after(bob, 3.0))]
        asyncio.get_running_loop().call_later(1.0, cy.skip_step)
        arrivals = await world.barrier()
        assert arrivals[:3] == (3, ("cy",), ())
        assert arrivals.waited_s == pytest.approx(3.0)
        verdicts = await world.step(1.0)
        assert [verdict.admitted for verdict in verdicts] == [True, True]
        await asyncio.gather(*submissions)


@in_virtual_time
async def test_late_agents_are_listed_and_counted_and_the_step_runs_without_them():
    async with world_of() as world:
        _, bob, _ = await registered(world, "ann", "bob", "cy")
        submission = asyncio.create_task(submit_after(bob, 1.0))
        arrivals = await world.barrier(["ann", "bob"], deadline_s=2.0)
        assert arrivals == (2, (), ("ann",), 2.0)
        assert len(await world.step(1.0)) == 1
        arrivals = await world.barrier(deadline_s=0.5)  # submissions before the step do not count
        assert arrivals.late == ("ann", "bob", "cy")
        assert world.statistics()["time"]["late"] == 4
        assert world.metrics_registry.get_sample_value("placet_barrier_late_total") == 4
        await submission


@in_virtual_time
async def test_skip_before_the_barrier_counts_once():
    async with world_of() as world:
        ann, _ = await registered(world, "ann", "bob")
        ann.skip_step()
        assert await world.barrier(["ann"]) == (1, ("ann",), (), 0.0)
        assert (await world.barrier(["ann"], deadline_s=1.0)).late == ("ann",)


@in_virtual_time
async def test_skip_ends_with_its_step():
    async with world_of() as world:
        (ann,) = await registered(world, "ann")
        assert (await world.barrier(deadline_s=1.0)).late == ("ann",)
        ann.skip_step()  # after the deadline, before the step
        await world.step(1.0)
        assert (await world.barrier(deadline_s=1.0)).late == ("ann",)


@pytest.mark.parametrize("places", [1, 10])
@in_virtual_time
async def test_withdrawn_batch_does_not_count_as_submitted(places: int) -> None:
    async with world_of(backpressure="wait", mailbox_batches_max=places) as world:
        ann, bob = await registered(world, "ann", "bob")
        ann.submit_nowait([ann.intent("Move", to=[1, 0])])
        assert bob.submit_nowait([bob.intent("Move", to=[1, 0])]).cancel()
        assert (await world.barrier(["ann", "bob"], deadline_s=1.0)).late == ("bob",)


@pytest.mark.parametrize("backpressure", ["reject", "wait"])
@in_virtual_time
async def test_batch_refused_by_a_full_queue_does_not_count_as_submitted(backpressure: str) -> None:
    limits = Limits(mailbox_bytes_max=1_000, wait_queue_bytes_max=1_000)
    async with world_of(backpressure=backpressure, limits=limits) as world:
        ann, bob = await registered(world, "ann", "bob")
        ann.submit_nowait([ann.intent("Speak", text="a" * 900)])
        waiting = asyncio.ensure_future(world.barrier(deadline_s=1.0))
        await turns()
        pending = [bob.submit_nowait([bob.intent("Speak", text="b" * 900)]) for _ in range(2)]
        await turns()
        answers = [None if p.verdict is None else p.verdict.codes for p in pending]
        if backpressure == "wait":  # in the wait queue, decided in the next step
            assert answers == [None, ("queue_full",)]
            assert (await waiting).late == ()
        else:
            assert answers == [("queue_full",)] * 2
            assert (await waiting).late == ("bob",)


@in_virtual_time
async def test_malformed_dry_run_and_scheduled_batches_do_not_count_as_submitted():
    async with world_of() as world:
        (ann,) = await registered(world, "ann")
        move = ann.intent("Move", to=[1, 0])

        async def submit_uncounted() -> None:
            await asyncio.sleep(0.1)
            ann.submit_nowait([{**move, "kind": "Mvoe"}])
            ann.submit_nowait([move], dry_run=True)
            ann.submit_nowait({"intents": [move], "sim_time": 5.0})

        submitting = asyncio.create_task(submit_uncounted())
        assert (await world.barrier(deadline_s=1.0)).late == ("ann",)
        await submitting


@in_virtual_time
async def test_barrier_does_not_wait_for_suspended_agents():
    async with world_of() as world:
        await registered(world, "ann", "bob")
        await world.suspend_agent("ann")
        assert (await world.barrier(deadline_s=0.0)).late == ("bob",)


@pytest.mark.parametrize("backpressure", ["reject", "wait", "shed_lowest"])
@in_virtual_time
async def test_batches_in_the_wait_queue_count_as_submitted(backpressure: str) -> None:
    async with world_of(backpressure=backpressure, mailbox_batches_max=4) as world:
        agents = await registered(world, *(f"agent_{n}" for n in range(4)))
        for number in range(3):
            agents[0].submit_nowait([agents[0].intent("Move", to=[number, 0])])
        for agent in agents[1:]:
            agent.submit_nowait([agent.intent("Speak", text="here")])
        arrivals = await world.barrier(deadline_s=0.0)
        assert arrivals.late == (() if backpressure == "wait" else ("agent_2", "agent_3"))


@in_virtual_time
async def test_second_waiter_is_refused_until_the_first_is_canceled():
    async with world_of() as world:
        await registered(world, "ann")
        first = asyncio.create_task(world.barrier())
        await turns()
        with pytest.raises(ValueError, match="another task waits"):
            await world.barrier()
        first.cancel()
        await turns()
        assert (await world.barrier(deadline_s=0.1)).late == ("ann",)


@in_virtual_time
async def test_closing_the_world_ends_the_barrier():
    async with world_of() as world:
        await registered(world, "ann")
        waiting = asyncio.create_task(world.barrier(deadline_s=1e6))
        await turns()
    with pytest.raises(ClosedError):
        await waiting


@in_virtual_time
async def test_barrier_is_refused_outside_a_stepped_world():
    async with world_of("realtime") as world:
        (ann,) = await registered(world, "ann")
        with pytest.raises(ValueError, match="only a stepped world has barriers"):
            await world.barrier()
        with pytest.raises(ValueError, match="only a stepped world"):
            ann.skip_step()
    async with world_of() as world:
        with pytest.raises(ValueError, match="deadline_s must be a finite number"):
            await world.barrier(deadline_s=-1.0)
