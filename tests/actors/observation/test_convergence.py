"""Clients converge under every visibility policy, and hidden data never shows."""

from random import Random
from typing import Any

import pytest
from typing_extensions import TypedDict

from placet import Domain, Kind, Orchestrator, OrchestratorConfig
from placet.kernel.visibility.distance import WithinDistance
from placet.schemas.codec import from_json
from placet.schemas.view import Change, DeliveredEvent, LocalView, Observation, apply_observation
from tests.actors.observation.observing_clients import Client, Town, town
from tests.actors.virtual_time import in_virtual_time

SIGHTS: list[dict[str, Any] | None] = [
    None,
    {"distance": 3},
    {"team": True},
    {"known": "friends"},
    {"hidden_fields": ["inventory"]},
    {"hidden_fields": ["position", "team"]},
    {"distance": 4, "hidden_fields": ["inventory"]},
    {"any_of": [{"distance": 3}, {"team": True}]},
    {"any_of": [{"team": True}, {"distance": 4, "hidden_fields": ["inventory", "team"]}]},
    {"all_of": [{"distance": 5}, {"any_of": [{"team": True}, {"hidden_fields": ["position"]}]}]},
]


async def act_and_agree(people: Town, acts: int) -> None:
    """Run random actions and check every client's view on the way and at the end."""
    for number in range(acts):
        await people.act()
        if number % 5 == 0:
            for client in people.clients.values():
                await client.agrees()
    for client in people.clients.values():
        await client.agrees()
        assert sum(one.kind == "snapshot" for one in client.seen) == 1
        client.task.cancel()


@pytest.mark.parametrize("sight", SIGHTS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_clients_converge_under_every_policy(sight, seed):
    @in_virtual_time
    async def scenario():
        async with Orchestrator(town(sight), OrchestratorConfig(log_level="critical")) as world:
            await act_and_agree(Town(world, seed), acts=120)

    scenario()


class Chests(Domain):
    """A domain with entities that agents of the town see when near."""

    name, version, kinds = "chests", "1", ()
    sight = WithinDistance(3, agent_collection="world.agents")

    def __init__(self, collection: str) -> None:
        self.collection = collection

    def on_open(self, draft):
        for place in range(-6, 6):
            draft.create(self.collection, f"chest{place}", {"position": [place, 0], "opened": 0})

    def on_batch(self, draft):
        opened = draft.get(self.collection, "chest0", "opened")
        draft.put(self.collection, "chest0", "opened", opened + 1)


@pytest.mark.parametrize("collection", ["chests.there", "things"])
@pytest.mark.parametrize("sight", [None, {"distance": 3}, {"team": True}], ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_clients_converge_where_a_policy_uses_agents_of_another_domain(collection, sight, seed):
    @in_virtual_time
    async def scenario():
        domains = [town(sight), Chests(collection)]
        async with Orchestrator(domains, OrchestratorConfig(log_level="critical")) as world:
            await act_and_agree(Town(world, seed), acts=80)

    scenario()


class _Hail(TypedDict):
    """A kind without fields, delivered as an event."""


class Sea(Domain):
    """Ships in a collection that has no domain's name, and hail each other from near."""

    name, version = "sea", "1"
    kinds = (Kind("Hail", _Hail, lambda draft, intent: None, broadcast=True),)
    sight = WithinDistance(3, agent_collection="ships")

    def on_register(self, draft, agent_id, attributes):
        draft.create("ships", agent_id, {"position": attributes["position"]})


@in_virtual_time
async def test_near_events_are_delivered_for_any_agent_collection():
    async with Orchestrator(Sea(), OrchestratorConfig(log_level="critical")) as world:
        ships = [await world.register_agent(f"s{x}", position=[x, 0]) for x in (0, 2, 9)]
        clients = [Client(ship) for ship in ships]
        for client in clients:
            await client.agrees()
        assert (await ships[0].submit([ships[0].intent("Hail")])).admitted
        for client in clients:
            await client.agrees()
            client.task.cancel()
        heard = [[event.agent_id for one in c.seen for event in one.events] for c in clients]
        assert heard == [["s0"], ["s0"], []]


class Secretive:
    """Return the values that must never reach an agent, by a policy independent of the tree's."""

    def __init__(self, names):
        self.names = set(names)

    def check(self, agent_id, encoded: bytes) -> None:
        told = [name for name in self.names if f"of_{name}" in encoded.decode()]
        assert all(name == agent_id for name in told), (agent_id, encoded)


@pytest.mark.parametrize("seed", range(4))
def test_no_observation_or_refusal_contains_hidden_data(seed):
    """Every agent carries an object named after it, which no other agent may see."""

    @in_virtual_time
    async def scenario():
        random, names = Random(seed), ["ann", "bob", "cid"]
        secrets = Secretive(names)
        domain = town({"any_of": [{"distance": 6}, {"team": True}], "hidden_fields": ["inventory"]})
        async with Orchestrator(domain, OrchestratorConfig(log_level="critical")) as world:
            handles = {
                name: await world.register_agent(
                    name, position=[place, 0], team="red", inventory=[f"of_{name}"]
                )
                for place, name in enumerate(names)
            }
            clients = {name: Client(handle) for name, handle in handles.items()}
            for number in range(150):
                name, other = random.sample(names, 2)
                handle = handles[name]
                stale = handle.intent("Interact", target_id=other, interaction_type="examine")
                stale["context_seq"] = 1
                verdict = await handle.submit([stale])
                said = [(refusal.message, refusal.changed) for refusal in verdict.refusals]
                secrets.check(name, repr(said).encode())
                free = random.choice(["lamp", "rope"])
                what = random.choice(["pickup", "drop"])
                await handle.submit(
                    [handle.intent("Interact", target_id=free, interaction_type=what)]
                )
                await handle.submit([handle.intent("Move", to=[random.randrange(12), number % 3])])
            for name, client in clients.items():
                await client.agrees()
                assert f"of_{name}" in client.picture["world.objects"]
                for observation in client.seen:
                    secrets.check(name, observation.encoded)
                client.task.cancel()

    scenario()


def test_applying_a_removal_leaves_no_empty_collection():
    """A local view contains a collection only while one of its entities is visible."""
    came = Change("a.b/c/d", "added", 3, "ann", {"x": 1})
    gone = Change("a.b/c/d", "removed", 4, "", None)
    picture: LocalView = {}
    apply_observation(picture, Observation(3, 0.0, "ann", "snapshot", (came,)))
    assert picture == {"a.b": {"c/d": {"x": 1}}}
    apply_observation(picture, Observation(4, 0.0, "ann", "delta", (gone,)))
    assert picture == {}


def test_an_event_is_encoded_once():
    heard = DeliveredEvent(3, "ann", "Speak", {"text": "hi"})
    assert from_json(heard.encoded)["payload"] == {"text": "hi"}
    assert heard.encoded is heard.encoded
