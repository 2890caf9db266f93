"""Observers with a latency: they are shown the state as it was that long ago.

Time is stepped, in eighths of a second, so that times are exact; one test uses the realtime clock.
"""

import asyncio
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from typing_extensions import TypedDict

from placet import Domain, Kind, Orchestrator, OrchestratorConfig
from placet.actors.observation.delayed_observer import DelayedObserver
from placet.domains.world import World
from placet.errors import TimeStalledError
from placet.kernel.visibility.policy import Visibility
from placet.schemas.latency import ByDistance, Constant, Uniform, delay_ns
from placet.schemas.limits import SECOND_NS, ObserverLimits
from placet.schemas.view import LocalView, Observation, apply_observation
from tests.actors.observation.observing_clients import Client, Town, config, digest, town
from tests.actors.parts import intent, open_world
from tests.actors.virtual_time import LoopClock, in_virtual_time, turns
from tests.kernel.domains import Panic

DT = 0.125
SLOW = pytest.mark.slow
SEEDS = [0, pytest.param(1, marks=SLOW), pytest.param(2, marks=pytest.mark.soak)]
TIGHT = ObserverLimits(marks_max=3, events_max=2)
SIGHTS: list[dict[str, Any] | None] = [
    None,
    {"distance": 3},
    {"team": True, "hidden_fields": ["inventory"]},
    {"any_of": [{"distance": 3}, {"team": True}]},
]


class TimedClient(Client):
    """Records each observation with its time and the view after it."""

    def __init__(self, handle, world, **how: Any) -> None:
        self.world = world
        self.shown: list[tuple[float, Observation, int]] = []
        super().__init__(handle, **how)

    def note(self) -> None:
        """Record the observations since the last call as of now, while time stands still."""
        for observation in self.seen[len(self.shown) :]:
            self.shown.append((self.world.sim_time, observation, digest(self.picture)))


class LateTown(Town):
    """Random actions in stepped time, with a history of each agent's visible state.

    Attributes:
        truth: For each agent, what it might have seen at the end of each moment.
        by_seq: The same, by `view_seq`.
    """

    def __init__(self, world: Orchestrator, seed: int, **how: Any) -> None:
        super().__init__(world, seed)
        self.how = how
        self.begun: dict[str, float] = {}
        self.truth: dict[str, list[tuple[float, int]]] = {}
        self.by_seq: dict[tuple[str, int], int] = {}

    def client(self, handle) -> TimedClient:
        self.begun[handle.agent_id] = self.world.sim_time
        self.truth[handle.agent_id] = []
        return TimedClient(handle, self.world, **self.how)

    async def propose(self, handle, intent) -> None:
        handle.submit_nowait([intent])
        await self.world.step(0)

    async def run_steps(self) -> None:
        """Advance time, then act, and record the state after each action."""
        await self.world.step(DT)
        await self.remember()
        self.note()
        for _ in range(self.random.randrange(4)):
            await self.act()
            await self.remember()
        for name in self.clients:
            view = await self.handles[name].refresh_view()
            self.truth[name].append((self.world.sim_time, digest(view.state)))

    def note(self) -> None:
        for client in self.clients.values():
            assert isinstance(client, TimedClient)
            if client.task.done():
                client.task.result()  # what it was sent did not fit its picture
            client.note()

    async def remember(self) -> None:
        await turns()
        for name in self.clients:
            view = await self.handles[name].refresh_view()
            self.by_seq[name, view.view_seq] = digest(view.state)

    def true_at(self, name: str, moment: float) -> int | None:
        """Return an agent's visible state at a time; None before it began to observe."""
        known = [shown for time, shown in self.truth[name] if time <= moment]
        return known[-1] if known else None


def world_with_people(seed: int, sight: dict[str, Any] | None, **how: Any):
    world = Orchestrator(town(sight), config(seed=seed))
    return world, LateTown(world, seed, **how)


@pytest.mark.parametrize("sight", SIGHTS, ids=str)
@pytest.mark.parametrize("seed", SEEDS)
def test_observations_show_the_state_delayed_by_the_latency(sight, seed):
    @in_virtual_time
    async def run():
        world, people = world_with_people(seed, sight, latency=Constant(4 * DT))
        async with world:
            for _ in range(60):
                await people.run_steps()
                for name, client in people.clients.items():
                    truth = people.true_at(name, world.sim_time - 4 * DT)
                    if client.seen and truth is not None:
                        assert digest(client.picture) == truth
                    assert client.seen or world.sim_time < people.begun[name] + 4 * DT
            await settle(world, people, 4 * DT)

    run()


@pytest.mark.parametrize("sight", SIGHTS, ids=str)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("bytes_max", [None, pytest.param(200, marks=SLOW)])
def test_a_random_latency_stays_in_bounds_and_keeps_order(sight, seed, bytes_max):
    least, most = 2 * DT, 6 * DT

    @in_virtual_time
    async def run():
        world, people = world_with_people(
            seed, sight, latency=Uniform(least, most), bytes_max=bytes_max
        )
        async with world:
            for _ in range(60):
                await people.run_steps()
            await settle(world, people, most)
            for name, client in people.clients.items():
                assert_honest(client, people, name, least, most, is_cut=bytes_max is None)

    run()


def assert_honest(client, people, name, least, most, *, is_cut) -> None:
    for moment, observation, _ in client.shown:
        assert observation.sim_time + least <= moment < observation.sim_time + most + DT
    ats = [observation.view_seq for _, observation, _ in client.shown]
    assert ats == sorted(ats)
    if is_cut:
        picture: LocalView = {}
        for _, observation, _ in client.shown:
            apply_observation(picture, observation)
            assert digest(picture) == people.by_seq[name, observation.view_seq]
            assert observation.deferred_count == 0


async def settle(world, people, delay_s) -> None:
    """Stop acting until every delayed change is due, and check that all have arrived."""
    for _ in range(round(delay_s / DT) + 1):
        await world.step(DT)
        await people.remember()
        people.note()
    for client in people.clients.values():
        view = await client.handle.refresh_view()
        assert digest(client.picture) == digest(view.state)
        assert client.seen[-1].deferred_count == 0
        client.task.cancel()


def test_random_latencies_depend_on_the_seed():
    def moments(seed: int) -> list[tuple[float, int]]:
        found: list[tuple[float, int]] = []

        @in_virtual_time
        async def run():
            async with Orchestrator(World(), config(seed=seed)) as world:
                ann, bob = [await world.register_agent(n, position=[0, 0]) for n in ("ann", "bob")]
                client = TimedClient(ann, world, latency=Uniform(0, 1))
                await turns()
                for number in range(40):
                    bob.submit_nowait([bob.intent("Move", to=[number, 0])])
                    await world.step(DT)
                    await turns()
                    client.note()
                found.extend((moment, one.view_seq) for moment, one, _ in client.shown)
                client.task.cancel()

        run()
        return found

    assert moments(1) == moments(1) != moments(2)


@in_virtual_time
async def test_far_changes_are_delivered_later_and_in_order():
    async with Orchestrator(World(), config()) as world:
        ann = await world.register_agent("ann", position=[0, 0])
        near = await world.register_agent("near", position=[1, 0])
        far = await world.register_agent("far", position=[8, 0])
        client = TimedClient(ann, world, latency=ByDistance(per_unit=DT, base=DT))
        await turns()
        for _ in range(9):  # a snapshot is whole: it comes when the farthest of it does
            assert not client.seen
            await world.step(DT)
            await turns()
        (first,) = client.seen
        assert (first.kind, first.view_seq, first.deferred_count) == ("snapshot", 4, 0)

        far.submit_nowait([far.intent("Move", to=[0, 8])])
        near.submit_nowait([near.intent("Move", to=[0, 1])])
        await world.step(DT)
        happened, far_seq = world.sim_time, (await far.refresh_view()).view_seq
        far.submit_nowait([far.intent("Move", to=[2, 0])])  # newer and nearer, and yet not sooner
        came = {}
        for _ in range(10):
            await world.step(DT)
            await turns()
            for one in client.seen[1:]:
                (change,) = [c for c in one.changes if c.entity != "world.agents/ann"]
                passed = (world.sim_time - happened) / DT
                assert change.fields is not None
                came[passed, change.entity, change.fields["position"]] = one.deferred_count
                # What is held back is before it: an intent is judged by what was really shown.
                assert (one.view_seq < far_seq) == bool(one.deferred_count)
            del client.seen[1:]
        assert came == {
            (2.0, "world.agents/near", (0.0, 1.0, 0.0)): 1,  # the far one's step, as old as this
            (9.0, "world.agents/far", (0.0, 8.0, 0.0)): 0,
            (9.0, "world.agents/far", (2.0, 0.0, 0.0)): 0,
        }
        view = await ann.refresh_view()
        assert digest(client.picture) == digest(view.state)
        client.task.cancel()


@pytest.mark.parametrize("sight", SIGHTS, ids=str)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("limits", [None, TIGHT], ids=["roomy", "tight"])
def test_latency_by_distance_delivers_everything_in_order(sight, seed, limits):
    """Each entity follows its own history, and is never younger than its own latency."""
    latency = ByDistance(per_unit=DT / 2, base=DT)
    longest = DT + 17 * DT / 2  # from one corner of the town to the other

    @in_virtual_time
    async def run():
        world, people = world_with_people(seed, sight, latency=latency, limits=limits)
        async with world:
            for _ in range(40):
                await people.run_steps()
                for client in people.clients.values():
                    seqs = [one.view_seq for one in client.seen]
                    assert seqs == sorted(seqs)
            await settle(world, people, longest if limits is None else 2 * longest)

    run()


@in_virtual_time
async def test_a_late_read_returns_delayed_observations():
    async with Orchestrator(World(), config()) as world:
        ann, bob = [await world.register_agent(n, position=[0, 0]) for n in ("ann", "bob")]
        async with ann.observer(latency=Constant(4 * DT)) as eyes:
            for number in range(1, 7):
                bob.submit_nowait([bob.intent("Move", to=[number, 0])])
                await world.step(DT)
            picture: LocalView = {}
            while (observation := eyes.look()) is not None:
                apply_observation(picture, observation)
            assert picture["world.agents"]["bob"]["position"] == (2.0, 0.0, 0.0)


@in_virtual_time
async def test_events_with_latency_by_distance_stay_in_order():
    async with Orchestrator(World(), config()) as world:
        ann = await world.register_agent("ann", position=[0, 0])
        near = await world.register_agent("near", position=[1, 0])
        far = await world.register_agent("far", position=[4, 0])
        client = Client(ann, latency=ByDistance(per_unit=DT))
        for _ in range(5):
            await world.step(DT)
            await turns()
        for one in (far, near, ann):
            one.submit_nowait([one.intent("Speak", text=one.agent_id)])
            await world.step(DT)
            await turns()
        assert [event for one in client.seen for event in one.events] == []
        for _ in range(5):
            await world.step(DT)
            await turns()
        heard = [event.agent_id for one in client.seen for event in one.events]
        assert heard == ["far", "near", "ann"]
        client.task.cancel()


class _Call(TypedDict):
    pass


class Hall(Domain):
    """A domain without a visibility policy, so without distances."""

    name, version = "hall", "1"
    kinds = (Kind("Call", _Call, lambda draft, intent: None, broadcast=True),)


@in_virtual_time
async def test_an_unknown_distance_counts_as_zero():
    async with Orchestrator(Hall(), config()) as world:
        ann, bob = [await world.register_agent(name) for name in ("ann", "bob")]
        client = TimedClient(ann, world, latency=ByDistance(per_unit=1e9, base=DT))
        await turns()
        bob.submit_nowait([bob.intent("Call")])
        await world.step(DT)
        called = world.sim_time
        for _ in range(2):
            await turns()
            client.note()
            await world.step(DT)
        ((moment, one, _),) = [shown for shown in client.shown if shown[1].events]
        assert (moment, one.events[0].agent_id) == (called + DT, "bob")
        client.task.cancel()


@in_virtual_time
async def test_retained_due_times_are_bounded():
    async with Orchestrator(World(), config()) as world:
        ann = await world.register_agent("ann", position=[0, 0])
        many = [await world.register_agent(f"a{n}", position=[1, 0]) for n in range(100)]
        async with ann.observer(latency=ByDistance(per_unit=DT)) as eyes:
            assert isinstance(eyes, DelayedObserver)
            for number in range(3):
                for one in many:
                    one.submit_nowait([one.intent("Move", to=[1, number])])
                await world.step(DT * 4)
                while eyes.look() is not None:
                    pass
            await world.step(1.0)
            while eyes.look() is not None:
                pass
            ann.submit_nowait([ann.intent("Move", to=[1, 0])])
            await world.step(DT)
            assert len(eyes._dues) <= 64


@in_virtual_time
async def test_a_removal_has_the_delay_of_the_last_known_distance():
    async with Orchestrator(World(), config()) as world:
        ann = await world.register_agent("ann", position=[0, 0])
        far = await world.register_agent("far", position=[4, 0])
        client = TimedClient(ann, world, latency=ByDistance(per_unit=DT))
        for _ in range(5):
            await world.step(DT)
            await turns()
        far.submit_nowait([far.intent("Speak", text="farewell")])
        await world.step(DT)
        await world.remove_agent("far")
        said = len(client.seen)
        for _ in range(3):
            await world.step(DT)
            await turns()
            assert "far" in client.picture["world.agents"]
        await world.step(DT)
        await turns()
        assert "far" not in client.picture["world.agents"]
        assert [event.payload["text"] for one in client.seen[said:] for event in one.events] == [
            "farewell"
        ]
        client.task.cancel()


@in_virtual_time
async def test_changes_beyond_a_full_queue_are_conflated():
    async with Orchestrator(World(), config()) as world:
        ann, bob = [await world.register_agent(n, position=[0, 0]) for n in ("ann", "bob")]
        limits = ObserverLimits(marks_max=4, events_max=4)
        client = TimedClient(ann, world, latency=Constant(16 * DT), limits=limits)
        for number in range(64):
            bob.submit_nowait([bob.intent("Move", to=[number, 0])])
            await world.step(DT)
            await turns()
            client.note()
        for _ in range(32):
            await world.step(DT)
            await turns()
            client.note()
        assert all(moment >= one.sim_time + 16 * DT for moment, one, _ in client.shown)
        assert len(client.shown) < 32, "the steps between are not shown"
        assert client.picture["world.agents"]["bob"]["position"] == (63, 0, 0)
        assert client.shown[-1][1].view_seq > client.shown[-2][1].view_seq
        client.task.cancel()


@in_virtual_time
async def test_own_changes_are_delayed_but_views_are_current():
    """G20 is of `refresh_view`: you read your own writes there."""
    async with Orchestrator(World(), config()) as world:
        ann = await world.register_agent("ann", position=[0, 0])
        client = Client(ann, latency=Constant(4 * DT))
        await turns()
        await world.step(4 * DT)
        await turns()
        ann.submit_nowait([ann.intent("Move", to=[1, 0])])
        await world.step(DT)
        await turns()
        view = await ann.refresh_view()
        assert view.state["world.agents"]["ann"]["position"] == (1.0, 0.0, 0.0)
        assert client.picture["world.agents"]["ann"]["position"] == (0.0, 0.0, 0.0)
        await world.step(4 * DT)
        await turns()
        assert client.picture["world.agents"]["ann"]["position"] == (1.0, 0.0, 0.0)
        client.task.cancel()


def register(name, kernel):
    kernel.register_agent(name, position=[0, 0])


@in_virtual_time
async def test_a_realtime_timer_delivers_due_changes_without_commits():
    async with open_world(domain=World(), agents=()) as world:
        for name in ("ann", "bob"):
            await world.actor.command(partial(register, name))
        clock, command = LoopClock(), world.actor.command
        async with world.observing.observer("ann", command, latency=Constant(0.2)) as eyes:
            first = await eyes.next()
            assert first is not None
            began = clock.now_ns()
            move = intent("Move", {"to": [1, 0]}, "r1", agent_id="bob")
            assert (await world.actor.post_batch([move], "operator")).admitted
            second = await eyes.next()
            assert second is not None
            late_s = (clock.now_ns() - began) / SECOND_NS
            assert 0.2 <= late_s < 0.21
            assert eyes.look() is None
            assert second.view_seq == world.kernel.seq


@in_virtual_time
async def test_a_polling_observer_receives_conflated_changes():
    async with open_world(domain=World(), agents=()) as world:
        for name in ("ann", "bob"):
            await world.actor.command(partial(register, name))
        how: dict[str, Any] = {"latency": Constant(0.2), "limits": ObserverLimits(marks_max=2)}
        async with world.observing.observer("ann", world.actor.command, **how) as eyes:
            shown = []
            for number in range(8):
                move = intent("Move", {"to": [number, 0]}, f"r{number}", agent_id="bob")
                assert (await world.actor.post_batch([move], "operator")).admitted
            for _ in range(8):  # and nothing happens any more
                await asyncio.sleep(0.3)
                while (observation := eyes.look()) is not None:
                    shown.append(observation)
            assert shown[-1].view_seq == world.kernel.seq
            assert shown[-1].changes[0].fields == {"position": (7.0, 0.0, 0.0)}


@in_virtual_time
async def test_a_waiting_stream_ends_with_its_world_or_agent():
    async with Orchestrator(World(), OrchestratorConfig(log_level="critical")) as world:
        ann, bob = [await world.register_agent(n, position=[0, 0]) for n in ("ann", "bob")]
        clients = [Client(one, latency=Constant(1e6)) for one in (ann, bob)]
        await turns()
        assert world.statistics()["observers"] == 2
        await world.remove_agent("bob")
        await turns()
        assert [client.task.done() for client in clients] == [False, True]
        assert world.statistics()["observers"] == 1
    await clients[0].task
    assert clients[0].seen == []


class Blinding(Visibility):
    """A visibility policy that raises once an agent has moved."""

    body = "world.agents"
    fault: type[BaseException]

    def may_see(self, state, agent_id, ref):
        if state.get("world.agents", "bob", "position") != (0.0, 0.0, 0.0):
            raise self.fault
        return True


class Blind(World):
    def __init__(self, fault: type[BaseException]) -> None:
        super().__init__()
        self.sight = Blinding()
        self.sight.fault = fault


@pytest.mark.parametrize("fault", [ZeroDivisionError, Panic])
@in_virtual_time
async def test_a_raising_visibility_rule_affects_only_its_observer(fault):
    async with Orchestrator(Blind(fault), config()) as world:
        ann, bob = [await world.register_agent(n, position=[0, 0]) for n in ("ann", "bob")]
        client = Client(ann, latency=Constant(DT))
        await world.step(DT)
        await turns()
        bob.submit_nowait([bob.intent("Move", to=[1, 0])])
        await world.step(DT)
        await turns()
        with pytest.raises(fault):
            await client.task
        assert (await world.step(DT)) == []  # the world goes on
        assert world.statistics()["observers"] == 0


@pytest.mark.parametrize(
    ("latency", "shown_after_s"),
    [
        (Constant(0.5), 0.5),
        (Uniform(1, 3), 1.5),
        (Uniform(2, 2), 2.0),
        (ByDistance(per_unit=0.5), 2.0),
        (ByDistance(per_unit=0.5, base=1), 3.0),
    ],
)
def test_the_delay_of_each_latency_model(latency, shown_after_s):
    assert delay_ns(latency, 0.25, 4.0) == shown_after_s * SECOND_NS


def test_an_infinite_distance_is_never_delivered():
    assert delay_ns(ByDistance(per_unit=1.0), 0.0, float("inf")) == 1 << 62


@pytest.mark.parametrize(
    "make",
    [
        partial(Constant, -1),
        partial(Constant, float("nan")),
        partial(Constant, float("inf")),
        partial(Constant, True),
        partial(Constant, "1"),  # type: ignore[arg-type]  # as a program that is not checked
        partial(Uniform, 2, 1),
        partial(ByDistance, per_unit=-0.1),
    ],
)
def test_an_invalid_latency_is_refused(make):
    with pytest.raises(ValueError, match=r"finite seconds|from least to most"):
        make()


def test_drawn_latencies_fill_their_range():
    seen = [delay_ns(Uniform(0.0, 1.0), n / 10, 0.0) for n in range(10)]
    assert all(a < b for a, b in pairwise(seen))
    assert max(seen) < SECOND_NS


@in_virtual_time
async def test_a_host_observer_has_the_same_delay():
    async with Orchestrator(World(objects={"lamp": {"position": [0, 0]}}), config()) as world:
        await world.register_agent("ann", position=[2, 0])
        seen = world.observe("ann", latency=Constant(DT))
        waiting = asyncio.ensure_future(anext(seen))
        await turns()
        assert not waiting.done()
        await world.step(DT)
        assert {change.entity for change in (await waiting).changes} == {
            "world.agents/ann",
            "world.objects/lamp",
        }
        await seen.aclose()


@in_virtual_time
async def test_a_delayed_wait_raises_when_time_stalls():
    settings = OrchestratorConfig(
        clock="next_event", agent_think_seconds_max=60, log_level="critical"
    )
    async with Orchestrator(World(), settings) as world:
        ann, bob = [await world.register_agent(name) for name in ("ann", "bob")]

        async def think() -> None:
            await bob.sleep_until(0)
            await asyncio.Event().wait()

        thinking = asyncio.ensure_future(think())
        with pytest.raises(TimeStalledError, match="'bob' has not slept"):
            await anext(ann.observe(latency=Constant(1.0)))
        thinking.cancel()
