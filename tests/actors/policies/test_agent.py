"""An agent actor reads, proposes and reacts to verdicts; a faulty policy affects only its agent."""

import asyncio
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from placet import Orchestrator, PermissionDeniedError
from placet.actors.observation.observer import Observer
from placet.actors.policies.agent import AgentActor
from placet.actors.policies.staleness_scope import StalenessOptions, StalenessScope
from placet.runtime.world import WorldRuntime
from placet.schemas.effect import Effect
from placet.schemas.refusal import Refusal, RefusalCode, Stage
from placet.schemas.verdict import Verdict
from placet.schemas.view import View
from tests.actors.parts import COUNTS, add, intent, open_world, register_executor
from tests.actors.virtual_time import in_virtual_time, turns
from tests.kernel.domains import Lab


def now() -> float:
    return round(asyncio.get_running_loop().time(), 3)


class Policy:
    """Proposes given batches, and records each view with its time."""

    def __init__(self, *proposals: Any, then: Any = None) -> None:
        self.views: list[View] = []
        self.times: list[float] = []
        self._proposals = list(proposals)
        self._then = then

    def propose(self, view: View) -> Any:
        self.views.append(view)
        self.times.append(now())
        proposal = self._proposals.pop(0) if self._proposals else self._then
        if isinstance(proposal, BaseException):
            raise proposal
        return proposal(view) if callable(proposal) else proposal


class Handle:
    """An agent handle on a test world, or on a gate with scripted answers."""

    def __init__(self, world: WorldRuntime | None = None, *answers: Refusal | None) -> None:
        self.agent_id = "alice"
        self.submitted: list[Any] = []
        self.generation = 1
        self.view_seq = 0
        self._world = world
        self._answers = list(answers)

    async def refresh_view(self) -> View:
        if self._world is None:
            return View(0, 0.0, self.agent_id, {})
        world = self._world
        return await world.actor.command(lambda kernel: world.viewer.view(kernel, self.agent_id))

    def fresh_context(self, freshness: StalenessOptions, /) -> StalenessScope:
        raise NotImplementedError("this handle looks by views alone")

    def observer(self) -> AbstractAsyncContextManager[Observer]:
        raise NotImplementedError("this handle looks by views alone")

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError("this handle lives in real time")

    async def submit(self, batch: object) -> Verdict:
        self.submitted.append(batch)
        if self._world is not None:
            return await self._world.actor.post_batch(batch, self.agent_id)
        refusal = self._answers.pop(0) if self._answers else None
        refusals = () if refusal is None else (refusal,)
        return Verdict("b", not refusals, None, 0, 0.0, refusals)


def refusal(code: RefusalCode, stage: Stage, retry_after: float | None = None) -> Refusal:
    return Refusal(code.value, "no", stage, retry_after=retry_after)


@in_virtual_time
async def test_a_plain_policy_proposes_until_it_returns_none():
    async with open_world() as world:
        policy = Policy([add("a", 3)], [], [add("b", 4), add("c", 5)])
        agent = AgentActor(Handle(world), policy)
        await agent.run()
        assert world.kernel.state[COUNTS]["alice"]["count"] == 12
        assert agent.statistics() == (2, 2, 0, 0)
        assert [view.state[COUNTS]["alice"]["count"] for view in policy.views] == [0, 3, 3, 12]


@in_virtual_time
async def test_an_async_policy_may_wait_and_any_iterable_is_a_proposal():
    class Thinking:
        rounds = 0

        async def propose(self, view: View) -> Iterable[dict[str, Any]] | None:
            await asyncio.sleep(5)
            self.rounds += 1
            return (add(f"{self.rounds}.{k}") for k in range(2)) if self.rounds < 3 else None

    async with open_world() as world:
        agent = AgentActor(Handle(world), Thinking(), pause_s=1.0)
        await agent.run()
        assert now() == 17  # three thoughts, two pauses
        assert world.kernel.state[COUNTS]["alice"]["count"] == 4


@in_virtual_time
async def test_a_stale_refusal_is_retried_with_a_new_view():
    """Bob is faster once; alice's second look shows what he did, and her proposal passes."""
    async with open_world(staleness_threshold=0) as world:

        async def after_bob(view: View) -> list[dict[str, Any]]:
            if len(policy.views) == 1:
                await world.actor.post_batch(
                    [add("bob's", agent_id="bob", context_seq=view.view_seq)], "bob"
                )
            return [add("mine", context_seq=view.view_seq)]

        policy = Policy(after_bob, after_bob)
        agent = AgentActor(Handle(world), policy)
        await agent.run()
        assert agent.statistics() == (2, 1, 1, 0)
        assert [view.state[COUNTS]["bob"]["count"] for view in policy.views] == [0, 1, 1]
        assert world.counters.refusals["staleness", "stale_context"] == 1
        assert now() == 0


@in_virtual_time
async def test_a_quota_refusal_is_retried_after_retry_after():
    async with open_world(quotas={"Add": {"rate": 0.1, "burst": 1}}) as world:
        policy = Policy([add("a")], [add("b")], [add("b")])
        agent = AgentActor(Handle(world), policy)
        await agent.run()
        assert agent.statistics() == (3, 2, 1, 0)
        assert policy.times[:3] == [0, 0, pytest.approx(10, abs=0.01)]


@pytest.mark.parametrize(
    ("code", "stage", "retry_after", "first_wait_s"),
    [
        (RefusalCode.QUEUE_FULL, Stage.ADMISSION, 0.05, (0.05, 0.05)),
        (RefusalCode.OVERLOADED, Stage.ADMISSION, 5.0, (5.0, 5.0)),
        (RefusalCode.SHED, Stage.ADMISSION, None, (0.005, 0.015)),
        (RefusalCode.EXECUTOR_BUSY, Stage.BACKPRESSURE, 1.0, (1.0, 1.0)),
        (RefusalCode.AGENT_SUSPENDED, Stage.AGENT, None, (0.005, 0.015)),
        (RefusalCode.QUOTA_EXCEEDED, Stage.QUOTA, 2.5, (2.5, 2.5)),
        (RefusalCode.STALE_CONTEXT, Stage.STALENESS, None, (0.0, 0.0)),
    ],
)
@in_virtual_time
async def test_retries_are_bounded_and_wait_at_least_retry_after(
    code, stage, retry_after, first_wait_s
):
    answers = [refusal(code, stage, retry_after)] * 5
    policy = Policy(*[[add("r")]] * 5)
    agent = AgentActor(Handle(None, *answers), policy, pause_s=100.0)
    await agent.run()
    least, most = first_wait_s
    waits = [after - before for before, after in zip(policy.times, policy.times[1:], strict=False)]
    assert len(policy.times) == 6  # five tries, then a turn of its own
    assert least - 0.001 <= waits[0] <= most + 0.001
    assert waits[-1] >= 100
    assert agent.statistics() == (5, 0, 5, 0)


@in_virtual_time
async def test_back_off_grows_with_a_jitter_seeded_by_agent():
    async def waits_of(agent_id: str) -> list[float]:
        policy = Policy(*[[add("r")]] * 5)
        handle = Handle(None, *[refusal(RefusalCode.SHED, Stage.ADMISSION)] * 5)
        handle.agent_id = agent_id
        await AgentActor(handle, policy).run()
        return [b - a for a, b in zip(policy.times, policy.times[1:], strict=False)][:4]

    alice, bob, alice_again = [await waits_of(name) for name in ("alice", "bob", "alice")]
    assert alice[3] > alice[1] > alice[0]
    assert alice != bob
    assert alice == pytest.approx(alice_again, abs=0.0021)


@pytest.mark.parametrize(
    ("code", "stage"),
    [
        (RefusalCode.BATCH_EXCEEDS_BURST, Stage.QUOTA),
        (RefusalCode.PERMISSION_DENIED, Stage.AGENT),
        (RefusalCode.PAYLOAD_INVALID, Stage.STRUCTURE),
        (RefusalCode.SIM_TIME_TOO_FAR, Stage.BACKPRESSURE),
        (RefusalCode.CONFLICT, Stage.DOMAIN),
    ],
)
@in_virtual_time
async def test_a_final_refusal_is_not_retried(code, stage):
    policy = Policy([add("r")])
    agent = AgentActor(Handle(None, refusal(code, stage)), policy, pause_s=7.0)
    await agent.run()
    assert policy.times == [0, 7]


# Under the supervisor of a world


def run(world: WorldRuntime, policy: Any, **options: Any) -> AgentActor:
    agent = AgentActor(Handle(world), policy, **options)
    world.policy_supervisor.run(agent)
    return agent


def is_suspended(world: WorldRuntime, agent_id: str) -> bool:
    return world.kernel.ledger.agents[agent_id].is_suspended


async def hang(view: View) -> None:
    await asyncio.Event().wait()


def propose_a_number(view: View) -> list[int]:
    return [7]


async def await_what_was_canceled(view: View) -> None:
    thought = asyncio.ensure_future(asyncio.sleep(1))
    thought.cancel()
    await thought


class Odd(BaseException):
    """An error that is not an `Exception`."""


@pytest.mark.parametrize(
    "fault",
    [
        ZeroDivisionError("a bug"),
        hang,
        lambda view: 7,
        propose_a_number,
        await_what_was_canceled,
        asyncio.CancelledError("a pool was closed"),
        Odd(),
    ],
)
@in_virtual_time
async def test_a_failing_policy_is_restarted_then_only_its_agent_suspended(fault):
    limits = {"restarts_max": 2, "restart_window_s": 1000}
    async with open_world(limits=limits) as world:
        bad, good = Policy(then=fault), Policy(then=lambda view: [])
        run(world, bad, propose_seconds_max=10, pause_s=1)
        other = AgentActor(Handle(world), good, pause_s=1)
        other._handle.agent_id = "bob"
        world.policy_supervisor.run(other)
        await asyncio.sleep(100)
        is_refusal = fault is propose_a_number
        assert is_suspended(world, "alice") != is_refusal  # [7] is a batch, and refused as one
        assert not is_suspended(world, "bob")
        assert len(good.times) > 90
        if not is_refusal:
            assert len(bad.views) == 3
        assert (await world.actor.post_batch([add("r", agent_id="bob")], "bob")).admitted


class Dazzled(Handle):
    """A domain whose visibility rule raises for every agent."""

    async def refresh_view(self) -> View:
        raise Odd


@in_virtual_time
async def test_a_fault_in_the_handle_suspends_only_the_agent():
    async with open_world(limits={"restarts_max": 2}) as world:
        world.policy_supervisor.run(AgentActor(Dazzled(world), Policy()))
        await asyncio.sleep(100)
        assert is_suspended(world, "alice")
        assert (await world.actor.post_batch([add("r", agent_id="bob")], "bob")).admitted


@in_virtual_time
async def test_a_policy_that_recovers_is_not_suspended():
    async with open_world(limits={"restarts_max": 2}) as world:
        policy = Policy(OSError("once"), [add("a")], OSError("twice"), [add("b")])
        run(world, policy)
        await asyncio.sleep(100)
        assert world.kernel.state[COUNTS]["alice"]["count"] == 2
        assert not is_suspended(world, "alice")
        assert world.supervisor.restarts == 2


@in_virtual_time
async def test_an_agent_that_is_removed_ends_without_a_fault():
    async with Orchestrator(Lab()) as world:
        alice = await world.register_agent("alice")
        agent = AgentActor(alice, Policy(then=lambda view: [alice.intent("Add", amount=1)]))
        running = asyncio.ensure_future(agent.run())
        await turns()
        await world.remove_agent("alice")
        await running
        assert agent.statistics().admitted > 0


@in_virtual_time
async def test_a_permission_error_raised_by_the_policy_is_a_fault():
    agent = AgentActor(Handle(), Policy(then=PermissionDeniedError("a file")))
    with pytest.raises(PermissionDeniedError, match="a file"):
        await agent.run()


@in_virtual_time
async def test_a_policys_cancellation_is_raised_as_a_fault():
    agent = AgentActor(Handle(), Policy(then=await_what_was_canceled))
    with pytest.raises(RuntimeError, match="the policy raised CancelledError"):
        await agent.run()


@in_virtual_time
async def test_closing_the_world_ends_its_agents_without_a_fault():
    async with open_world() as world:
        faults: list[object] = []
        world.supervisor._on_fault = faults.append
        numbers = iter(range(10**6))
        run(world, Policy(then=lambda view: [add(f"r{next(numbers)}")]), pause_s=0.001)
        await asyncio.sleep(1)
        before = asyncio.all_tasks()
    assert faults == []
    assert next(numbers) > 100
    assert len(asyncio.all_tasks()) < len(before)


@in_virtual_time
async def test_an_agent_with_slow_effects_backs_off_and_is_admitted():
    async with open_world() as world:

        async def send(effect: Effect) -> None:
            await asyncio.sleep(3)

        await register_executor(world, send, concurrency=1, outbox_max=1)
        numbers = iter(range(100))

        def mail(view: View) -> list[dict[str, Any]]:
            return [intent("Mail", {"count": 1}, f"r{next(numbers)}")]

        policy = Policy(*[mail] * 6)
        agent = AgentActor(Handle(world), policy)
        await agent.run()
        assert agent.statistics().admitted >= 2
        await world.executors.settled()


@in_virtual_time
async def test_an_agent_knows_its_name_and_ends_with_its_world():
    async with open_world() as world:
        agent = AgentActor(Handle(world), Policy(then=lambda view: []), pause_s=1)
        assert agent.agent_id == "alice"
        running = asyncio.ensure_future(agent.run())
        await turns()
        await world.stop()
        await running
