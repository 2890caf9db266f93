"""A barrier opens when all have submitted or passed, or its time is over; who is late is told."""

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


async def think(agent: AgentHandle, seconds: float) -> None:
    await asyncio.sleep(seconds)
    agent.submit_nowait([agent.intent("Move", to=[1, 0])])


@in_virtual_time
async def test_it_opens_with_the_last_who_submits_or_passes():
    async with world_of() as world:
        ann, bob, cy = await registered(world, "ann", "bob", "cy")
        ann.submit_nowait([ann.intent("Move", to=[1, 0])])  # before anybody waits for it
        thoughts = [asyncio.create_task(think(bob, 3.0))]
        asyncio.get_running_loop().call_later(1.0, cy.skip_step)
        arrivals = await world.barrier()
        assert arrivals[:3] == (3, ("cy",), ())
        assert arrivals.waited_s == pytest.approx(3.0)
        verdicts = await world.step(1.0)
        assert [verdict.admitted for verdict in verdicts] == [True, True]
        await asyncio.gather(*thoughts)


@in_virtual_time
async def test_who_is_late_is_told_and_counted_and_the_step_goes_without():
    async with world_of() as world:
        _, bob, _ = await registered(world, "ann", "bob", "cy")
        thought = asyncio.create_task(think(bob, 1.0))
        arrivals = await world.barrier(["ann", "bob"], deadline_s=2.0)
        assert arrivals == (2, (), ("ann",), 2.0)
        assert len(await world.step(1.0)) == 1
        arrivals = await world.barrier(deadline_s=0.5)  # what was submitted before is over
        assert arrivals.late == ("ann", "bob", "cy")
        assert world.statistics()["time"]["late"] == 4
        assert world.metrics_registry.get_sample_value("placet_barrier_late_total") == 4
        await thought


@in_virtual_time
async def test_a_pass_before_it_counts_once():
    async with world_of() as world:
        ann, _ = await registered(world, "ann", "bob")
        ann.skip_step()
        assert await world.barrier(["ann"]) == (1, ("ann",), (), 0.0)
        assert (await world.barrier(["ann"], deadline_s=1.0)).late == ("ann",)


@in_virtual_time
async def test_a_pass_is_over_with_the_step_that_it_was_for():
    async with world_of() as world:
        (ann,) = await registered(world, "ann")
        assert (await world.barrier(deadline_s=1.0)).late == ("ann",)
        ann.skip_step()  # late, and still before the step
        await world.step(1.0)
        assert (await world.barrier(deadline_s=1.0)).late == ("ann",)


@pytest.mark.parametrize("places", [1, 10])
@in_virtual_time
async def test_what_was_withdrawn_is_not_submitted(places: int) -> None:
    async with world_of(backpressure="wait", mailbox_batches_max=places) as world:
        ann, bob = await registered(world, "ann", "bob")
        ann.submit_nowait([ann.intent("Move", to=[1, 0])])
        assert bob.submit_nowait([bob.intent("Move", to=[1, 0])]).cancel()
        assert (await world.barrier(["ann", "bob"], deadline_s=1.0)).late == ("bob",)


@pytest.mark.parametrize("backpressure", ["reject", "wait"])
@in_virtual_time
async def test_what_finds_no_place_is_not_submitted(backpressure: str) -> None:
    limits = Limits(mailbox_bytes_max=1_000, wait_queue_bytes_max=1_000)
    async with world_of(backpressure=backpressure, limits=limits) as world:
        ann, bob = await registered(world, "ann", "bob")
        ann.submit_nowait([ann.intent("Speak", text="a" * 900)])
        waiting = asyncio.ensure_future(world.barrier(deadline_s=1.0))
        await turns()
        tickets = [bob.submit_nowait([bob.intent("Speak", text="b" * 900)]) for _ in range(2)]
        await turns()
        answers = [None if one.verdict is None else one.verdict.codes for one in tickets]
        if backpressure == "wait":  # in line, and so held for the step after this one
            assert answers == [None, ("queue_full",)]
            assert (await waiting).late == ()
        else:
            assert answers == [("queue_full",)] * 2
            assert (await waiting).late == ("bob",)


@in_virtual_time
async def test_what_is_malformed_or_a_dry_run_or_for_later_is_not_submitted():
    async with world_of() as world:
        (ann,) = await registered(world, "ann")
        move = ann.intent("Move", to=[1, 0])

        async def post_what_does_not_count() -> None:
            await asyncio.sleep(0.1)
            ann.submit_nowait([{**move, "kind": "Mvoe"}])
            ann.submit_nowait([move], dry_run=True)
            ann.submit_nowait({"intents": [move], "sim_time": 5.0})

        posting = asyncio.create_task(post_what_does_not_count())
        assert (await world.barrier(deadline_s=1.0)).late == ("ann",)
        await posting


@in_virtual_time
async def test_suspended_agents_are_not_waited_for():
    async with world_of() as world:
        await registered(world, "ann", "bob")
        await world.suspend_agent("ann")
        assert (await world.barrier(deadline_s=0.0)).late == ("bob",)


@pytest.mark.parametrize("backpressure", ["reject", "wait", "shed_lowest"])
@in_virtual_time
async def test_those_in_line_and_in_turns_have_submitted_too(backpressure: str) -> None:
    async with world_of(backpressure=backpressure, mailbox_batches_max=4) as world:
        agents = await registered(world, *(f"agent_{n}" for n in range(4)))
        for number in range(3):
            agents[0].submit_nowait([agents[0].intent("Move", to=[number, 0])])
        for agent in agents[1:]:
            agent.submit_nowait([agent.intent("Speak", text="here")])
        arrivals = await world.barrier(deadline_s=0.0)
        assert arrivals.late == (() if backpressure == "wait" else ("agent_2", "agent_3"))


@in_virtual_time
async def test_one_host_waits_at_a_time_and_another_may_when_it_gave_up():
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
async def test_closing_the_world_ends_the_wait():
    async with world_of() as world:
        await registered(world, "ann")
        waiting = asyncio.create_task(world.barrier(deadline_s=1e6))
        await turns()
    with pytest.raises(ClosedError):
        await waiting


@in_virtual_time
async def test_only_a_stepped_world_has_barriers():
    async with world_of("realtime") as world:
        (ann,) = await registered(world, "ann")
        with pytest.raises(ValueError, match="only a stepped world has barriers"):
            await world.barrier()
        with pytest.raises(ValueError, match="only a stepped world"):
            ann.skip_step()
    async with world_of() as world:
        with pytest.raises(ValueError, match="deadline_s must be a finite number"):
            await world.barrier(deadline_s=-1.0)
