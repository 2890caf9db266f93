"""Policies start, pause, resume and end; a faulty policy affects no other agent."""

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import pytest

from placet import AgentError, Orchestrator, PermissionDeniedError, StaleContextError
from placet.actors.policies.agent import AgentActor, PolicyThread
from placet.actors.policies.runner import AgentState
from placet.actors.policies.staleness_scope import StalenessOptions
from placet.runtime.agent_handle import AgentHandle
from placet.runtime.world import WorldRuntime
from placet.schemas.view import Observation, View
from tests.actors.fake_logs import SlowLog
from tests.actors.parts import COUNTS, add, intent, open_world
from tests.actors.real_time import until
from tests.actors.virtual_time import Gate, VirtualTimeLoop, in_virtual_time, turns
from tests.kernel.domains import Lab


def handle_of(world: WorldRuntime, agent_id: str = "alice") -> AgentHandle:
    agent = world.kernel.ledger.agents[agent_id]
    return AgentHandle(world, agent_id, agent.generation, f"{agent_id}.{agent.generation}")


def run(world: WorldRuntime, agent_id: str, policy: Any, **options: Any) -> AgentActor:
    actor = AgentActor(handle_of(world, agent_id), policy, **options)
    world.policy_supervisor.run(actor)
    return actor


class Adder:
    """Adds one per second, and counts its calls."""

    def __init__(self, agent_id: str = "alice", name: str = "n") -> None:
        self.asked = 0
        self._numbers = (f"{name}{number}" for number in itertools.count())
        self._agent_id = agent_id

    async def propose(self, view: View) -> list[dict[str, Any]]:
        self.asked += 1
        await asyncio.sleep(1)
        return [add(next(self._numbers), agent_id=self._agent_id)]


def count_of(world: WorldRuntime, agent_id: str) -> int:
    count: int = world.kernel.state[COUNTS][agent_id]["count"]
    return count


def state_of(world: WorldRuntime, agent_id: str = "alice") -> str:
    return world.policy_supervisor.status(agent_id).state.value


def restarting(count: int) -> dict[str, int]:
    return {"restarts_max": count, "restart_window_s": 10_000}


# Come and go


@in_virtual_time
async def test_a_suspended_agents_policy_pauses_until_resumed():
    async with open_world() as world:
        policy = Adder()
        actor = run(world, "alice", policy)
        await asyncio.sleep(3.5)
        assert (count_of(world, "alice"), policy.asked, state_of(world)) == (3, 4, "running")
        await world.change_agent("alice", "suspended")
        await asyncio.sleep(10)
        assert (count_of(world, "alice"), policy.asked, state_of(world)) == (3, 4, "suspended")
        await world.change_agent("alice", "resumed")
        await asyncio.sleep(3.5)
        assert (count_of(world, "alice"), policy.asked, state_of(world)) == (6, 8, "running")
        assert actor.statistics() == (6, 6, 0, 0)  # none was refused for being suspended


@in_virtual_time
async def test_a_policy_follows_a_status_change_whose_caller_was_canceled():
    log = SlowLog()
    async with open_world(log=log) as world:
        actor = run(world, "alice", Adder())
        for what in ("suspended", "resumed"):
            await asyncio.sleep(3.5)
            log.hold()
            saying = asyncio.ensure_future(world.change_agent("alice", what))
            await log.began()
            saying.cancel()
            await asyncio.gather(saying, return_exceptions=True)
            log.release()
        await asyncio.sleep(3.5)
        assert actor.statistics() == (6, 6, 0, 0)


@in_virtual_time
async def test_a_policy_run_for_a_suspended_agent_waits_until_it_is_resumed():
    async with open_world() as world:
        await world.change_agent("alice", "suspended")
        policy = Adder()
        run(world, "alice", policy)
        await asyncio.sleep(5)
        assert (policy.asked, state_of(world)) == (0, "suspended")
        await world.change_agent("alice", "resumed")
        await asyncio.sleep(2.5)
        assert count_of(world, "alice") == 2


class Who(str, Enum):  # noqa: UP042  # formats as `Who.ANN`
    ANN = "ann"


@in_virtual_time
async def test_a_policy_of_an_agent_named_by_an_enum_ends_with_its_agent():
    ended = asyncio.Event()

    async def think(view: View) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with Orchestrator(Lab()) as world:
        ann = await world.register_agent(Who.ANN)
        world.run_agent(AgentActor(ann, think))
        await turns()
        await world.remove_agent("ann")
        await turns()
        assert ended.is_set()


@in_virtual_time
async def test_an_agent_removed_during_a_policy_call_may_register_again():
    async with open_world() as world:
        alice, first = handle_of(world), Adder()
        world.policy_supervisor.run(AgentActor(alice, first))
        await asyncio.sleep(2.5)
        await alice.deregister()
        await asyncio.sleep(5)
        assert (first.asked, state_of(world)) == (3, "gone")
        gone = world.policy_supervisor.status("alice")
        assert gone.statistics == (2, 2, 0, 0)
        assert gone.generation == 1

        await world.actor.command(lambda kernel: kernel.register_agent("alice"))
        assert state_of(world) == "idle"
        with pytest.raises(PermissionDeniedError):
            await alice.refresh_view()
        with pytest.raises(PermissionDeniedError):
            await alice.deregister()
        assert (await alice.submit([alice.intent("Add", amount=1)])).codes == ("unauthorized",)
        with pytest.raises(AgentError, match="generation 1, which was removed"):
            world.policy_supervisor.run(AgentActor(alice, first))

        again = run(world, "alice", Adder(name="again"))
        assert again.generation == 2
        await asyncio.sleep(2.5)
        assert (count_of(world, "alice"), first.asked) == (2, 3)
        assert world.policy_supervisor.status("alice").generation == 2


@in_virtual_time
async def test_a_policy_may_deregister_its_own_agent():
    async with open_world() as world:
        alice = handle_of(world)

        async def go(view: View) -> None:
            await alice.deregister()
            await asyncio.sleep(100)

        run(world, "alice", go)
        await asyncio.sleep(1)
        assert "alice" not in world.kernel.ledger.agents
        assert state_of(world) == "gone"
        assert world.supervisor.restarts == 0


@in_virtual_time
async def test_removing_an_agent_ends_its_policy_during_back_off_or_suspension():
    async with open_world(limits=restarting(50)) as world:

        def broken(view: View) -> None:
            raise ZeroDivisionError

        run(world, "alice", broken)
        waiting = Adder("bob")
        await world.change_agent("bob", "suspended")
        run(world, "bob", waiting)
        await asyncio.sleep(60)
        assert state_of(world) == "backing_off"
        failures = world.policy_supervisor.status("alice").failures
        for agent_id in ("alice", "bob"):
            await world.change_agent(agent_id, "removed")
        await turns()
        assert not [task for task in world.supervisor._scopes if task.startswith("agent")]
        await asyncio.sleep(60)
        assert world.policy_supervisor.status("alice").failures == failures
        assert (state_of(world), state_of(world, "bob"), waiting.asked) == ("gone", "gone", 0)


@pytest.mark.parametrize("before", ["registered", "suspended"])
@in_virtual_time
async def test_a_policy_of_an_agent_removed_before_its_first_call_never_runs(before):
    async with open_world() as world:
        policy = Adder()
        if before == "suspended":
            await world.change_agent("alice", "suspended")
        run(world, "alice", policy)
        world.kernel.change_agent("alice", "removed")
        assert state_of(world) == "gone"
        await turns()
        assert policy.asked == 0
        assert "agent alice" not in world.supervisor._scopes


@in_virtual_time
async def test_one_policy_at_a_time_runs_for_an_agent():
    async with open_world() as world:
        run(world, "alice", lambda view: None)
        with pytest.raises(ValueError, match="already runs for 'alice'"):
            run(world, "alice", Adder())
        await turns()
        assert state_of(world) == "idle"  # it has come to its end
        run(world, "alice", Adder())
        assert state_of(world) == "running"


@in_virtual_time
async def test_removed_runs_are_retained_up_to_a_bound(monkeypatch):
    monkeypatch.setattr("placet.actors.policies.runner._REMOVED_MAX", 2)
    names = [f"a{number}" for number in range(4)]
    async with open_world(agents=names) as world:
        for name in names:
            run(world, name, Adder(name))
            await world.change_agent(name, "removed")
        known = [world.policy_supervisor.status(name).statistics is not None for name in names]
        assert known == [False, False, True, True]
        assert {state_of(world, name) for name in (*names, "nobody")} == {"gone"}


@in_virtual_time
async def test_the_orchestrator_runs_suspends_resumes_removes_and_reports_policies():
    async with Orchestrator(Lab()) as world:
        alice = await world.register_agent("alice")
        policy = Adder()
        assert world.agent_status("alice").state is AgentState.IDLE
        world.run_agent(AgentActor(alice, policy))
        await asyncio.sleep(2.5)
        assert world.agent_status("alice").state is AgentState.RUNNING
        await world.suspend_agent("alice")
        assert world.agent_status("alice").state is AgentState.SUSPENDED
        assert world.statistics()["policies"] == {
            "idle": 0, "running": 0, "backing_off": 0, "suspended": 1, "gone": 0,
        }  # fmt: skip
        await world.resume_agent("alice")
        await asyncio.sleep(2.5)
        assert policy.asked == 6
        await alice.deregister()
        assert world.agent_status("alice").state is AgentState.GONE
        emitted = await alice.submit([alice.intent("Add", amount=1)])
        assert emitted.codes == ("unauthorized",)


# Budget


@in_virtual_time
async def test_resuming_a_suspended_policy_resets_its_restart_budget(
    monkeypatch,
):
    fails = True

    def policy(view: View) -> list[dict[str, Any]]:
        if fails:
            raise ZeroDivisionError("a bug")
        return []

    async with open_world(limits=restarting(2)) as world:
        warnings: list[str] = []
        monkeypatch.setattr(world._reports, "warning", warnings.append)
        run(world, "alice", policy, pause_s=1)
        seen = set()
        for _ in range(100):
            await asyncio.sleep(0.001)
            seen.add(state_of(world))
        assert seen == {"backing_off", "suspended"}
        status = world.policy_supervisor.status("alice")
        assert (status.failures, status.error) == (3, "ZeroDivisionError('a bug')")
        assert world.kernel.ledger.agents["alice"].is_suspended
        assert world.policy_supervisor.counts()["suspended"] == 1
        (warning,) = warnings
        assert warning.startswith("agent 'alice' is suspended: its policy keeps failing")

        await world.change_agent("alice", "resumed")
        await asyncio.sleep(1)
        assert (state_of(world), world.policy_supervisor.status("alice").failures) == (
            "suspended",
            6,
        )
        fails = False
        await world.change_agent("alice", "resumed")
        await asyncio.sleep(1)
        assert state_of(world) == "running"


@in_virtual_time
async def test_resuming_resets_a_partly_used_restart_budget():
    async with open_world(limits=restarting(3)) as world:
        fails = 3

        def policy(view: View) -> list[dict[str, Any]]:
            nonlocal fails
            if fails:
                fails -= 1
                raise ZeroDivisionError
            return []

        run(world, "alice", policy, pause_s=1)
        for _ in range(2):
            await asyncio.sleep(10)
            assert (fails, state_of(world)) == (0, "running")
            await world.change_agent("alice", "suspended")
            await asyncio.sleep(10)
            fails = 3
            await world.change_agent("alice", "resumed")
        await asyncio.sleep(10)
        assert (state_of(world), world.policy_supervisor.status("alice").failures) == ("running", 9)


class UnprintableError(Exception):
    def __repr__(self) -> str:
        raise ValueError("do not ask")

    __str__ = __repr__


@in_virtual_time
async def test_an_exception_that_cannot_be_printed_is_reported_by_its_type():
    def policy(view: View) -> None:
        raise UnprintableError

    async with open_world(limits=restarting(1)) as world:
        run(world, "alice", policy)
        await asyncio.sleep(60)
        status = world.policy_supervisor.status("alice")
        assert (status.state, status.failures) == ("suspended", 2)
        assert status.error == "UnprintableError"
        assert (await world.actor.post_batch([add("b", agent_id="bob")], "bob")).admitted


@in_virtual_time
async def test_a_policy_resumed_immediately_after_its_suspension_continues(monkeypatch):
    """The operator is faster than the supervisor's task, which has not seen the suspension yet."""
    faults = [ZeroDivisionError(), ZeroDivisionError()]

    def policy(view: View) -> list[dict[str, Any]]:
        if faults:
            raise faults.pop()
        return []

    async with open_world(limits=restarting(1)) as world:
        suspend = world.policy_supervisor._suspend

        async def suspend_and_be_overtaken(agent_id: str, generation: int) -> None:
            await suspend(agent_id, generation)
            await world.change_agent(agent_id, "resumed")

        monkeypatch.setattr(world.policy_supervisor, "_suspend", suspend_and_be_overtaken)
        run(world, "alice", policy, pause_s=1)
        await asyncio.sleep(1)
        assert faults == []
        assert state_of(world) == "running"


# Who hurts nobody else


@in_virtual_time
async def test_a_policy_without_intents_is_called_with_pauses():
    asked = 0

    async def nothing(view: View) -> list[Any]:
        nonlocal asked
        asked += 1
        return []

    async with open_world() as world:
        run(world, "alice", nothing)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await asyncio.Event().wait()
        assert 50 < asked <= 102


@in_virtual_time
async def test_a_policy_may_return_a_single_intent():
    answers = [add("one", 5), None]
    async with open_world() as world:
        await AgentActor(handle_of(world), lambda view: answers.pop(0)).run()
        assert count_of(world, "alice") == 5


def endless() -> Iterator[dict[str, Any]]:
    return (add(f"e{number}") for number in itertools.count())


async def hang(view: View) -> None:
    await asyncio.Event().wait()


def flood(name: str) -> Callable[[View], list[dict[str, Any]]]:
    """Propose without a pause, with a new req_id each time."""
    numbers = itertools.count()
    return lambda view: [add(f"{name}{next(numbers)}")]


HUGE = [add("same")] * 5_000


def raise_it(view: View) -> None:
    raise ZeroDivisionError


BAD: dict[str, Callable[[View], Any]] = {
    "raises": raise_it,
    "hangs": hang,
    "gives without end": lambda view: endless(),
    "gives a huge batch": lambda view: HUGE,
    "floods": flood("f"),
    "floods by a free name": flood("a name of its own, "),
    "passes without a pause": lambda view: [],
    "gives nonsense": lambda view: 7,
    "gives one intent": lambda view: add("one"),
    "always stale": lambda view: (_ for _ in ()).throw(_stale()),
}


def _stale() -> StaleContextError:
    from placet.schemas.refusal import Refusal, RefusalCode, Stage
    from placet.schemas.verdict import Verdict

    refusal = Refusal(RefusalCode.STALE_CONTEXT, "no", Stage.STALENESS)
    return StaleContextError("no", verdict=Verdict("", False, None, 0, 0.0, (refusal,)))


@pytest.mark.parametrize("bad", BAD)
@in_virtual_time
async def test_a_flooding_policy_gets_no_more_turns_than_the_others(bad):
    """Counted in batches: while each good agent makes its thirty, the bad one has no more."""
    good = [f"good{number}" for number in range(3)]
    async with open_world(agents=["alice", *good], limits=restarting(3)) as world:
        done = dict.fromkeys(good, 0)

        def worker(name: str) -> Callable[[View], list[dict[str, Any]] | None]:
            def propose(view: View) -> list[dict[str, Any]] | None:
                if done[name] == 30:
                    return None
                done[name] += 1
                return [add(f"{done[name]}", agent_id=name)]

            return propose

        actor = run(world, "alice", BAD[bad], propose_seconds_max=5)
        workers = [run(world, name, worker(name)) for name in good]
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        before = loop.iterations
        while any(state_of(world, name) != "idle" for name in good):
            await asyncio.sleep(0)
            assert loop.iterations - before < 20_000
        assert [count_of(world, name) for name in good] == [30] * 3
        assert all(other.statistics() == (30, 30, 0, 0) for other in workers)
        assert actor.statistics().proposed <= 33
        assert (await world.actor.post_batch([add("last", agent_id="good0")], "good0")).admitted


@in_virtual_time
async def test_an_endless_iterator_is_a_fault_and_a_long_list_is_refused_by_the_gate():
    async with open_world(limits=restarting(1)) as world:
        run(world, "alice", lambda view: endless(), intents_max=10)
        refused = run(world, "bob", lambda view: [add("x", agent_id="bob")] * 600, pause_s=10)
        await asyncio.sleep(5)
        assert "more than 10 intents" in (world.policy_supervisor.status("alice").error or "")
        assert state_of(world) == "suspended"
        assert refused.statistics() == (1, 0, 1, 0)
        assert world.counters.refusals["structure", "batch_too_large"] == 1


@in_virtual_time
async def test_a_blocking_plain_policy_is_reported_with_advice():
    async with open_world(limits=restarting(1)) as world:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)

        def block(view: View) -> list[dict[str, Any]]:
            loop.seconds += 30  # as time.sleep(30) would
            return [add("late")]

        run(world, "alice", block, propose_seconds_max=5)
        await asyncio.sleep(100)
        status = world.policy_supervisor.status("alice")
        assert "held up the event loop for 30 s" in (status.error or "")
        assert "threaded=True" in (status.error or "")
        assert status.state is AgentState.SUSPENDED
        assert count_of(world, "alice") == 0


# In a thread


def threads_of(agent_id: str) -> int:
    return [thread.name for thread in threading.enumerate()].count(f"the policy of {agent_id!r}")


@in_virtual_time
async def test_a_threaded_policy_that_blocks_delays_no_other_and_has_one_thread():
    gate = Gate()

    def block(view: View) -> list[dict[str, Any]]:
        gate.stand()
        return []

    async with open_world(limits=restarting(2)) as world:
        run(world, "alice", block, threaded=True, propose_seconds_max=0.5)
        done = itertools.count()
        other = run(world, "bob", lambda view: [add(f"b{next(done)}", agent_id="bob")], pause_s=0.1)
        await until(lambda: state_of(world) == "suspended")
        assert gate.begun == 1  # the others were not started: the first still runs
        assert threads_of("alice") == 1
        assert "cannot be stopped" in (world.policy_supervisor.status("alice").error or "")
        assert other.statistics().admitted > 3
        gate.let_go(1_000_000)
        await until(lambda: not threads_of("alice"))
        await world.change_agent("alice", "resumed")
        await until(lambda: gate.begun > 3)
        assert state_of(world) == "running"


async def test_a_threaded_policy_runs_its_iterators_in_its_thread():
    threads = set()

    def numbers() -> Iterator[dict[str, Any]]:
        threads.add(threading.current_thread())
        yield add("a", 2)
        yield add("b", 3)

    answers: list[Any] = [numbers(), None]
    async with open_world() as world:
        await AgentActor(handle_of(world), lambda view: answers.pop(0), threaded=True).run()
        assert count_of(world, "alice") == 5
    assert threading.current_thread() not in threads
    assert len(threads) == 1
    with pytest.raises(ZeroDivisionError):
        await PolicyThread("t").call(lambda: 1 / 0)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await PolicyThread("t").call(lambda: next(iter(())))


# Interrupted


class Writer:
    """Thinks for ten seconds with the whole view as read set; records when it was canceled."""

    interruptible: bool | StalenessOptions = True

    def __init__(self) -> None:
        self.begun = 0
        self.reasons: list[str] = []

    async def propose(self, view: View) -> list[dict[str, Any]] | None:
        if view.state[COUNTS]["alice"]["count"]:
            return None
        self.begun += 1
        await asyncio.sleep(10)
        return [add("thought", context_seq=view.view_seq)]

    def interrupted(self, error: StaleContextError) -> None:
        self.reasons.append(str(error.changed[0]["entity"]))


@in_virtual_time
async def test_an_interruptible_policy_is_canceled_with_the_reason_and_called_again():
    async with open_world(staleness_threshold=0) as world:
        policy = Writer()
        actor = run(world, "alice", policy)
        await asyncio.sleep(4)
        await world.actor.post_batch(
            [add("b", agent_id="bob", context_seq=world.kernel.seq)], "bob"
        )
        await asyncio.sleep(10.5)
        assert count_of(world, "alice") == 1
        assert (policy.begun, policy.reasons) == (2, [f"{COUNTS}/bob"])
        assert actor.statistics() == (1, 1, 0, 1)


@pytest.mark.parametrize(
    ("limits", "interruptions"),
    [({}, 2), ({"tries_max": 2}, 1), ({"interruptions_max": 3}, 3), ({"interruptions_max": 0}, 0)],
)
@in_virtual_time
async def test_a_policy_is_interrupted_a_bounded_number_of_times(limits, interruptions):
    async with open_world() as world:
        policy = Writer()
        actor = run(world, "alice", policy, **limits)
        other = run(world, "bob", Adder("bob"))
        await asyncio.sleep(14)
        assert (policy.begun, len(policy.reasons)) == (interruptions + 1, interruptions)
        assert actor.statistics() == (1, 1, 0, interruptions)
        assert other.statistics().admitted >= 12


@in_virtual_time
async def test_refused_batches_of_a_turn_leave_its_interruptions_bounded():
    """With a threshold the uninterrupted call is stale when it ends, and is called again."""
    async with open_world(staleness_threshold=0) as world:
        policy = Writer()
        actor = run(world, "alice", policy)
        for number in range(31):
            await asyncio.sleep(1)
            added = add(f"b{number}", agent_id="bob", context_seq=world.kernel.seq)
            await world.actor.post_batch([added], "bob")
        assert (policy.begun, len(policy.reasons)) == (5, 2)
        assert actor.statistics() == (2, 0, 2, 2)


@pytest.mark.parametrize("is_set", [True, False])
@in_virtual_time
async def test_interruption_options_come_from_the_policy_or_the_configuration(is_set):
    async with open_world() as world:
        policy = Writer()
        own = StalenessOptions(reads=[(COUNTS, "alice")])
        if is_set:
            run(world, "alice", policy, interruptible=own)
        else:
            policy.interruptible = own
            run(world, "alice", policy)
        await asyncio.sleep(1)
        await world.actor.post_batch([add("b", agent_id="bob")], "bob")
        await asyncio.sleep(1)
        assert policy.begun == 1
        await world.actor.post_batch([intent("Give", {"thing": "alice"}, agent_id="bob")], "bob")
        await asyncio.sleep(1)
        assert policy.reasons == [f"{COUNTS}/alice"]


# By observations


class Follower:
    """Adds as many as bob has whenever it observes bob; records its observations."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []

    def observe(self, observation: Observation) -> list[dict[str, Any]]:
        self.seen.append((observation.kind, observation.view_seq))
        if not any(change.entity == f"{COUNTS}/bob" for change in observation.changes):
            return []
        return [add(f"{len(self.seen)}", context_seq=observation.view_seq)]


@in_virtual_time
async def test_an_observing_policy_is_called_only_for_new_observations():
    async with open_world() as world:
        policy = Follower()
        actor = run(world, "alice", policy)
        await asyncio.sleep(100)
        assert [kind for kind, _ in policy.seen] == ["snapshot", "delta"]  # and what it did itself
        await world.actor.post_batch([add("b", agent_id="bob")], "bob")
        await asyncio.sleep(100)
        assert [kind for kind, _ in policy.seen[2:]] == ["delta", "delta"]
        assert [seq for _, seq in policy.seen] == sorted({seq for _, seq in policy.seen})
        assert actor.statistics() == (2, 2, 0, 0)


@in_virtual_time
async def test_an_observing_policy_is_called_again_after_a_stale_refusal():
    """A hidden change advanced the seq: no observation arrives, and the threshold applies."""
    async with open_world(staleness_threshold=0) as world:
        alice = handle_of(world)
        asked = 0

        class Quiet:
            async def observe(self, observation: Observation) -> list[Any] | None:
                nonlocal asked
                asked += 1
                if asked == 1:
                    hidden = intent("Put", {"thing": "secret", "field": "f"}, agent_id="bob")
                    await world.actor.post_batch(
                        [{**hidden, "context_seq": world.kernel.seq}], "bob"
                    )
                return [add("mine", context_seq=max(alice.view_seq, observation.view_seq))]

        actor = AgentActor(alice, Quiet())
        world.policy_supervisor.run(actor)
        await asyncio.sleep(1)
        assert asked >= 2
        assert actor.statistics()[:3] == (asked, asked - 1, 1)


@in_virtual_time
async def test_an_observing_policy_ends_with_its_agent_and_with_its_world():
    async with open_world() as world:
        for agent_id in ("alice", "bob"):
            run(world, agent_id, Follower())
        await asyncio.sleep(1)
        await world.change_agent("alice", "removed")
        await asyncio.sleep(1)
        assert (state_of(world), world.supervisor.restarts) == ("gone", 0)
        assert world.observing.count == 1


def test_an_observing_policy_cannot_be_interruptible():
    with pytest.raises(ValueError, match="cannot be interrupted"):
        AgentActor(AgentHandle.__new__(AgentHandle), Follower(), interruptible=True)
