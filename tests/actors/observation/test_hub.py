"""Observations: a snapshot and deltas that converge to the durable, visible state."""

import asyncio
from functools import partial
from typing import Any

import pytest
from prometheus_client import generate_latest
from typing_extensions import TypedDict

from placet import Orchestrator
from placet.domains.world import World
from placet.errors import AgentError, PermissionDeniedError
from placet.kernel import Domain, Kernel, Kind
from placet.kernel.state.draft import Draft
from placet.kernel.visibility.policy import Visibility
from placet.schemas.errors import ClosedError
from placet.schemas.intent import Intent
from placet.schemas.limits import ObserverLimits
from placet.schemas.view import LocalView, apply_observation
from tests.actors.fake_logs import SlowLog
from tests.actors.observation.observing_clients import Client, config, digest, town
from tests.actors.parts import intent, open_world
from tests.actors.virtual_time import in_virtual_time, turns


@in_virtual_time
async def test_applied_deltas_equal_the_view():
    async with Orchestrator(World(), config()) as world:
        ann = await world.register_agent("ann", position=[0, 0])
        client = Client(ann)
        await client.agrees()
        assert [one.kind for one in client.seen] == ["snapshot"]
        bob = await world.register_agent("bob", position=[1, 1])
        await client.agrees()
        bob.submit_nowait([bob.intent("Move", to=[2, 2])])
        await world.step(1)
        await client.agrees()
        assert [one.kind for one in client.seen] == ["snapshot", "delta", "delta"]
        (change,) = client.seen[-1].changes
        assert (change.op, change.entity, change.by) == ("changed", "world.agents/bob", "bob")
        assert change.fields == {"position": (2.0, 2.0, 0.0)}
        await world.remove_agent("bob")
        await client.agrees()
        assert client.seen[-1].changes[0].op == "removed"
        client.task.cancel()


def test_an_invisible_object_cannot_be_used():
    """A refusal by a rule would disclose the object and its holder."""
    kernel = Kernel(World(objects={"lamp": {"position": [9, 0]}}, observation={"distance": 2}))
    kernel.register_agent("ann", position=[0, 0])
    intent: Any = {"kind": "Interact", "payload": {"target_id": "lamp"}, "agent_id": "ann"}
    intent |= {"req_id": "r", "context_seq": kernel.seq, "priority": 1, "schema_version": "1.0.0"}
    far = kernel.decide([intent]).refusals[0]
    none = kernel.decide([intent | {"req_id": "s", "payload": {"target_id": "lump"}}]).refusals[0]
    assert far.code == none.code == "world.target_unknown"
    assert far.message == none.message.replace("lump", "lamp")


@in_virtual_time
async def test_an_observation_names_the_author_of_a_change_to_those_who_see_it():
    things = {"lamp": {"position": [4, 0]}}
    world_of_lamp = World(objects=things, observation={"distance": 5})
    async with Orchestrator(world_of_lamp, config()) as world:
        places = {"ann": 0, "bob": 8, "cid": 5}
        handles = {
            name: await world.register_agent(name, position=[x, 0]) for name, x in places.items()
        }
        clients = {name: Client(handles[name]) for name in ("ann", "cid")}
        await turns()
        use = {"target_id": "lamp", "interaction_type": "use"}
        handles["bob"].submit_nowait([handles["bob"].intent("Interact", **use)])
        await world.step(1)
        await turns()
        authors = {}
        for name, client in clients.items():
            await client.agrees()
            (change,) = client.seen[-1].changes
            assert change.entity == "world.objects/lamp"
            authors[name] = change.by
            client.task.cancel()
        assert authors == {"ann": "", "cid": "bob"}


@in_virtual_time
async def test_speech_is_delivered_in_order_to_its_recipients():
    async with Orchestrator(town({"distance": 5}), config()) as world:
        ann, bob, cid = [
            await world.register_agent(name, position=[place, 0], team=team)
            for name, place, team in (("ann", 0, "red"), ("bob", 1, "red"), ("cid", 99, "red"))
        ]
        clients = {handle.agent_id: Client(handle) for handle in (ann, bob, cid)}
        await turns()
        said = [("public", {}), ("team", {}), ("private", {"target_id": "bob"})]
        said.append(("private", {"target_id": "ann"}))
        for channel, target in said:
            ann.submit_nowait([ann.intent("Speak", text=channel, channel=channel, **target)])
        await world.step(1)
        await turns()
        heard = {
            name: [event.payload["text"] for one in client.seen for event in one.events]
            for name, client in clients.items()
        }
        assert heard == {
            "ann": ["public", "team", "private", "private"],
            "bob": ["public", "team", "private"],
            "cid": [],
        }
        event = clients["bob"].seen[-1].events[0]
        assert (event.agent_id, event.kind) == ("ann", "Speak")
        for client in clients.values():
            client.task.cancel()


class Words(TypedDict):
    text: str


def _say_softly(draft: Draft, said: Intent) -> None:
    draft.normalize({"text": said["payload"]["text"].lower()})


class Library(Domain):
    name, version = "library", "1"
    kinds = (Kind("Say", Words, _say_softly, broadcast=True),)


@in_virtual_time
async def test_events_have_normalized_payloads_in_apply_order():
    async with Orchestrator(Library(), config()) as world:
        ann = await world.register_agent("ann")
        client = Client(ann)
        await turns()
        said = [("THIRD", 10), ("FIRST", 90), ("SECOND", 50)]
        ann.submit_nowait(
            [{**ann.intent("Say", text=text), "priority": rank} for text, rank in said]
        )
        await world.step(1)
        await turns()
        heard = [event.payload["text"] for one in client.seen for event in one.events]
        assert heard == ["first", "second", "third"]
        client.task.cancel()


@in_virtual_time
async def test_an_event_overflow_becomes_one_counted_snapshot():
    async with Orchestrator(town(None), config()) as world:
        ann = await world.register_agent("ann", position=[0, 0])
        limits = ObserverLimits(marks_max=3, events_max=2)
        async with ann.observer(limits=limits) as slow:
            first = await slow.next()
            picture: LocalView = {}
            assert first is not None
            apply_observation(picture, first)
            others = [await world.register_agent(f"a{n}", position=[n, 0]) for n in range(6)]
            for other in others:
                other.submit_nowait([other.intent("Speak", text=other.agent_id)])
            await world.step(1)
            second = await slow.next()
            assert second is not None
            assert (second.kind, second.events_dropped) == ("snapshot", 4)
            assert len(second.events) == 2
            apply_observation(picture, second)
            assert digest(picture) == digest((await ann.refresh_view()).state)
            assert slow.look() is None
            assert world.statistics()["observers"] == 1
            text = generate_latest(world.metrics_registry).decode()
            assert "placet_observation_overflows_total 1.0" in text
        assert world.statistics()["observers"] == 0


@in_virtual_time
async def test_a_mark_overflow_becomes_a_snapshot():
    async with Orchestrator(town({"distance": 50}), config()) as world:
        ann = await world.register_agent("ann", position=[0, 0])
        async with ann.observer(limits=ObserverLimits(marks_max=3)) as eyes:
            await eyes.next()
            for number in range(4):
                await world.register_agent(f"a{number}", position=[number, 0])
            observation = await eyes.next()
            assert observation is not None
            assert (observation.kind, eyes.dirty_set.overflows) == ("snapshot", 1)
            assert len(observation.changes) == 5 + 3  # three things lie in the town


@in_virtual_time
async def test_intermediate_values_are_conflated():
    async with Orchestrator(town(None), config()) as world:
        ann, bob = [await world.register_agent(n, position=[0, 0]) for n in ("ann", "bob")]
        async with ann.observer() as eyes:
            await eyes.next()
            for number in range(50):
                bob.submit_nowait([bob.intent("Move", to=[number, 0])])
                await world.step(0.1)
            observation = await eyes.next()
            assert observation is not None
            (change,) = observation.changes
            assert change.fields == {"position": (49.0, 0.0, 0.0)}
            assert len(eyes.dirty_set.marks) == 0


@in_virtual_time
async def test_observers_with_equal_knowledge_share_encoded_changes():
    async with Orchestrator(town({"distance": 9}), config()) as world:
        people = [await world.register_agent(f"a{n}", position=[n, 0]) for n in range(5)]
        clients = [Client(handle) for handle in people]
        await turns()
        people[0].submit_nowait([people[0].intent("Move", to=[1, 1])])
        await world.step(1)
        await turns()
        changes = [client.seen[-1].changes[0] for client in clients]
        assert all(change is changes[0] for change in changes)
        assert changes[0].encoded is changes[1].encoded
        for client in clients:
            client.task.cancel()


def agrees_up_to(picture, world, view_seq: int) -> None:
    """Entities unchanged since the seq count as known: intents are based on what was shown."""
    rows = world._open.kernel.tree.collections["world.agents"].entities
    for name, row in rows.items():
        if row.seq <= view_seq:
            assert picture["world.agents"][name] == row.fields, name


@in_virtual_time
async def test_a_byte_budget_defers_far_changes_and_loses_none():
    domain = town({"distance": 1000})
    async with Orchestrator(domain, config()) as world:
        ann = await world.register_agent("ann", position=[0, 0])
        people = [await world.register_agent(f"a{n}", position=[n * 90, 0]) for n in range(1, 9)]
        async with ann.observer(bytes_max=260) as eyes:
            picture: LocalView = {}
            order: list[str] = []
            view_seqs = []
            for number in range(30):
                for one in people if number < 12 else ():
                    there = int(one.agent_id[1:]) * 90
                    one.submit_nowait([one.intent("Move", to=[there, number + 1])])
                await world.step(1)
                if eyes.dirty_set.is_empty:
                    break
                observation = await eyes.next()
                assert observation is not None
                apply_observation(picture, observation)
                view_seqs.append(observation.view_seq)
                agrees_up_to(picture, world, observation.view_seq)
                if observation.kind == "delta":
                    assert sum(len(change.encoded) for change in observation.changes) <= 260
                    order += [change.entity for change in observation.changes]
                if number == 11:
                    assert "world.agents/a8" in order, "its turn comes while the near still move"
            assert eyes.dirty_set.is_empty
            assert digest(picture) == digest((await ann.refresh_view()).state)
            assert view_seqs == sorted(view_seqs)
            assert view_seqs[-1] > view_seqs[5]
            assert order[0] == "world.agents/a1"
            assert order.count("world.agents/a1") > order.count("world.agents/a8") >= 1


def register(name, kernel) -> None:
    kernel.register_agent(name)


def names_in(observation) -> list[str]:
    return [change.entity for change in observation.changes]


@in_virtual_time
async def test_nothing_is_observed_before_it_is_durable():
    log = SlowLog()
    async with open_world(log=log, domain=town({"distance": 5}), agents=()) as world:
        for name in ("ann", "bob"):
            await world.actor.command(partial(register, name))
        async with world.observing.observer("ann", world.actor.command) as eyes:
            first = await eyes.next()
            log.hold()
            begun = asyncio.ensure_future(world.actor.command(partial(register, "cid")))
            await log.began()
            # A second observer's copy of the state holds what is not durable: it must wait.
            late = world.observing.observer("bob", world.actor.command)
            entering = asyncio.ensure_future(late.__aenter__())
            await turns()
            assert first is not None
            assert (eyes.look(), entering.done(), begun.done()) == (None, False, False)
            log.release()
            other = await entering
            shown = [await eyes.next(), await other.next()]
            assert all("world.agents/cid" in names_in(observation) for observation in shown)
            await begun
            await late.__aexit__(None, None, None)


@in_virtual_time
async def test_the_replica_exists_only_while_there_are_observers():
    async with Orchestrator(town(None), config()) as world:
        ann = await world.register_agent("ann")
        observing = world._open.observing
        watched = [observing.is_observed]
        async with ann.observer(), ann.observer():
            watched.append(observing.is_observed)
            assert observing.count == 2
        assert [*watched, observing.is_observed] == [False, True, False]
        assert observing.lag_seqs == 0


@in_virtual_time
async def test_observers_end_with_the_world_and_with_their_agent():
    async with Orchestrator(town(None), config()) as world:
        ann, bob = [await world.register_agent(n) for n in ("ann", "bob")]
        clients = [Client(ann), Client(bob)]
        await turns()
        await world.remove_agent("bob")
        await turns()
        assert [client.task.done() for client in clients] == [False, True]
        with pytest.raises(PermissionDeniedError):
            await anext(bob.observe())
        with pytest.raises(AgentError):
            await anext(world.observe("bob"))
        assert (await anext(world.observe("ann"))).kind == "snapshot"
    await clients[0].task
    with pytest.raises(ClosedError):
        await anext(ann.observe())


@pytest.mark.parametrize("laps", range(6))
@in_virtual_time
async def test_a_host_observer_ends_when_its_agent_is_removed(laps):
    async with Orchestrator(town(None), config()) as world:
        await world.register_agent("ann")

        async def watch() -> list[str]:
            return [observation.kind async for observation in world.observe("ann")]

        watching = asyncio.create_task(watch())
        await turns(laps)
        await world.remove_agent("ann")
        await turns()
        assert watching.done()
        if watching.exception() is None:
            assert watching.result() in ([], ["snapshot"])
        else:
            assert isinstance(watching.exception(), AgentError)
        assert not world._open.observing.is_observed


class RaisingSight(Visibility):
    """Raises when a group is published."""

    body = "world.agents"

    def dependents_of(self, state, ref):
        raise ZeroDivisionError


class Raising(World):
    """A domain whose visibility policy and event filter raise."""

    def __init__(self) -> None:
        super().__init__()
        self.sight = RaisingSight()

    def should_deliver(self, state, agent_id, intent):
        raise ZeroDivisionError


@in_virtual_time
async def test_a_raising_visibility_policy_is_reported_and_stops_no_observer():
    faults = []
    async with open_world(domain=Raising(), agents=()) as world:
        world.observing._on_fault = lambda where, error: faults.append(where)
        for name in ("ann", "bob"):
            await world.actor.command(partial(register, name))
        async with world.observing.observer("ann", world.actor.command) as eyes:
            await eyes.next()
            move = intent("Move", {"to": [1, 0]}, "r1", agent_id="bob")
            say = intent("Speak", {"text": "hi"}, "r2", agent_id="bob")
            assert (await world.actor.post_batch([move, say], "operator")).admitted
            observation = await eyes.next()
            assert observation is not None
            assert {change.entity for change in observation.changes} == {
                "world.agents/bob",
                "world.speech/bob",
            }
            assert faults == ["sight", "hears of world"]


class Harbor(Domain):
    """A second domain, open to all, whose ships are not the town's."""

    name, version, kinds = "harbor", "1", ()

    def on_tick(self, draft, sim_time):
        if draft.exists("harbor.ships", "gull"):
            draft.put("harbor.ships", "gull", "at", sim_time)
        else:
            draft.create("harbor.ships", "gull", {"at": sim_time, "cargo": "tea"})


class Mist(Harbor):
    """The same, which judges by itself, and by the time of its ship."""

    def may_see(self, state, agent_id, ref):
        return bool(state.get("harbor.ships", "gull", "at") % 2)


@pytest.mark.parametrize("harbor", [Harbor, Mist])
@in_virtual_time
async def test_each_domain_uses_its_own_visibility_policy(harbor):
    async with Orchestrator([town({"distance": 5}), harbor()], config()) as world:
        ann, bob = [
            await world.register_agent(name, position=[place, 0])
            for name, place in (("ann", 0), ("bob", 99))
        ]
        client = Client(ann)
        ops = []
        for number in range(6):
            bob.submit_nowait([bob.intent("Move", to=[number % 3 * 4, 0])])
            bob.submit_nowait([bob.intent("Speak", text="here")])
            await world.step(1)
            await client.agrees()
            ops += [one.op for one in client.seen[-1].changes if "harbor" in one.entity]
        if harbor is Mist:
            assert ops == ["added", "removed"] * 3
        else:
            assert ops == ["added", *["changed"] * 5]
        client.task.cancel()


@in_virtual_time
async def test_a_budget_works_without_a_visibility_policy():
    async with Orchestrator([World(), Harbor()], config()) as world:
        ann = await world.register_agent("ann")
        async with ann.observer(bytes_max=1) as eyes:
            await eyes.next()
            ann.submit_nowait([ann.intent("Move", to=[1, 0])])
            await world.step(1)
            seen = []
            while not eyes.dirty_set.is_empty:
                observation = await eyes.next()
                assert observation is not None
                seen += names_in(observation)
            assert sorted(seen) == ["harbor.ships/gull", "world.agents/ann"]
    with pytest.raises(ValueError, match="at least 1"):
        ann.observer(bytes_max=0)
