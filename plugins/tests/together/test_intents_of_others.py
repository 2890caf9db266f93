"""What an agent reads of others' intents, at every address of HTTP, of streams and of MCP.

Alice says the same secret words in every way that her world has; Bob, who is far away, asks
everywhere. The addresses are read from the application's own table of routes.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager

import pytest
from mcp import Client
from tests.together.test_claims_by_route import on_world, operations

from placet.agents import Session
from placet.domains.memory import Memory
from placet.domains.session import Sessions
from placet.domains.world import World
from placet.frontends.mcp.server import McpServer
from placet.kernel import Domain
from placet.kernel.plugin.domain import Kind, refuse
from placet.schemas.codec import Json
from placet.schemas.event import Event
from placet.server.viewpoint import Viewpoint
from tests.kernel.builders import intent
from tests.server.served import Served, Socket, serving

pytestmark = pytest.mark.anyio

SECRET = "the words of alice"
FAR = {"distance": 5}
AGENTS = {"alice": 0, "dave": 1, "bob": 500}


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def speak_everywhere(served: Served) -> None:
    """Have alice say the words in each way of which a server keeps something."""

    def of_alice(number: int, kind: str, **payload: Json) -> dict[str, Json]:
        return intent(kind, payload, f"alice:{number}", agent_id="alice")

    for agent_id, at in AGENTS.items():
        await served.register(agent_id, attributes={"position": [at, 0]})
    speaks = (
        of_alice(1, "Speak", text=SECRET),
        of_alice(2, "Speak", text=SECRET, channel="private", target_id="dave"),
        of_alice(3, "memory.remember", key="k", value=SECRET, scope="principal"),
    )
    for one in speaks:
        assert (await served.submit(one, token="alice")).status_code == 200
    refused = of_alice(4, "Interact", target_id=SECRET, interaction_type="examine")
    assert (await served.submit(refused, token="alice")).status_code == 422
    later = {"intents": [of_alice(5, "Speak", text=SECRET)], "sim_time": 1e6}
    assert (await served.post("batches", later, token="alice")).status_code == 202
    tried = await served.post("dry-run", [of_alice(6, "Speak", text=SECRET)], token="alice")
    assert SECRET in tried.text
    opening = {"session": "main", "agent": "alice", "mode": "autonomous"}
    assert (await served.post("sessions", opening)).status_code == 201
    said = await served.post("sessions/main/messages", {"message": SECRET}, token="alice")
    assert said.status_code < 500


@asynccontextmanager
async def spoken() -> AsyncIterator[Served]:
    """Serve a world in which Alice has said the words."""
    domains = [World(observation=FAR), Memory(), Sessions()]
    async with serving(domains, agents=()) as server:
        await speak_everywhere(server)
        yield server


QUERIES: Mapping[str, tuple[str, ...]] = {
    "get_verdict": ("?agent_id=alice&req_id=alice:1", "?agent_id=bob&req_id=alice:1"),
    "get_state": ("", "?agent=alice", "?path=world.speech/alice", "?path=memory.facts"),
    "list_events": ("", "?since=0", "?from_record=0", "?agent=alice", "?from_record=0&limit=1000"),
    "get_entity": ("?record=1&collection=world.speech&entity=alice",),
    "get_view": ("?record=9&agent=bob", "?record=9&agent=alice"),
    "get_story": ("?agent=alice", "?agent=alice&request=alice:4"),
    "list_steps": ("?record=1&by=record",),
    "list_trace": ("?collection=world.speech&entity=alice",),
    "find_record": ("?record=0&agent=alice", "?record=0&refused=true"),
    "explain_request": ("?agent=alice&req_id=alice:4", "?seq=3"),
    "get_moment": ("", "?events=200&collection=world.speech"),
    "list_agents": ("", "?limit=1000"),
}
BODIES: Mapping[str, tuple[object, ...]] = {
    "submit_batch": (
        [intent("Speak", {"text": "x"}, "alice:1", agent_id="alice")],
        [intent("Speak", {"text": "x"}, "alice:1", agent_id="bob")],
        [intent("memory.forget", {"key": "k", "scope": "principal"}, "bob:2", agent_id="bob")],
        [intent("Interact", {"target_id": "alice"}, "bob:3", agent_id="bob")],
    ),
    "send_message": ({"message": "what did alice say?"},),
    "open_session": ({"session": "main"}, {"session": "mine", "agent": "bob"}),
    "decide_approval": ({"decision": "approve"},),
}


def requests(served: Served) -> Iterator[tuple[str, str, str, object]]:
    """Yield name, method, path and body of requests to every operation."""
    for name, (method, path) in operations(served).items():
        url = on_world(path, "world") or path
        for query in QUERIES.get(name, ("",)):
            yield name, method, url + query, None if method == "GET" else {}
        for body in BODIES.get(name, BODIES["submit_batch"] if name == "dry_run_batch" else ()):
            yield name, method, url, body


async def test_no_address_of_http_has_the_words_of_another():
    async with spoken() as served:
        asked = list(requests(served))
        assert len(asked) > 50
        for name, method, path, body in asked:
            answer = await served.ask(method, path, body, token="bob")
            assert answer.status_code != 401
            assert SECRET not in answer.text + str(answer.headers), (name, path, answer.text)


async def test_the_addresses_have_the_words_for_their_author_and_the_operator():
    """Else the test above could not fail."""
    async with spoken() as served:
        for token, paths in (
            (
                "alice",
                ("events", "state", "sessions/main"),
            ),
            ("operator", ("events", "state", "sessions/main", "history/explain?seq=5")),
        ):
            for path in paths:
                assert SECRET in (await served.get(path, token=token)).text, (token, path)
        told = (await served.get("events", token="alice")).json()["events"]
        assert {"batch", "refused", "scheduled"} <= {event["type"] for event in told}


@pytest.mark.parametrize(
    "address",
    [
        *(f"stream{query}" for query in ("", "?since=0", "?from_record=0", "?observe=true")),
        *(f"batches?{query}" for query in ("events=true", "events=true&since=0", "observe=true")),
    ],
)
async def test_no_stream_has_the_words_of_another(address):
    async with spoken() as served:
        async with Socket(served.app, f"/api/v1/worlds/world/{address}", "bob") as socket:
            has_first = not address.endswith(("since=0", "from_record=0"))
            texts = [str(await socket.message())] if has_first else []
            again = intent("Speak", {"text": SECRET}, "alice:9", agent_id="alice")
            assert (await served.submit(again, token="alice")).status_code == 200
            last = intent("Move", {"to": [501, 0]}, "bob:last", agent_id="bob")
            assert (await served.submit(last, token="bob")).status_code == 200
            async with asyncio.timeout(60):
                while "501" not in str(texts[-1:]):
                    texts.append(str(await socket.message()))
        assert SECRET not in "".join(texts)


async def test_no_resource_and_no_tool_of_mcp_has_the_words_of_another():
    async with spoken() as served:
        opening = Session.open(world=served.world, session="bobs", agent="bob", mode="autonomous")
        async with opening as session, Client(McpServer(session).server(), cache=None) as client:
            texts = [
                str(await client.read_resource(f"placet://{name}"))
                for name in ("view", "kinds", "events", "events/0")
            ]
            texts.append(str(await client.list_tools()))
            texts.append(str(await client.call_tool("Interact", {"target_id": "alice"})))
            texts.append(str(await client.call_tool("Speak", {"text": "what did alice say?"})))
        assert SECRET not in "".join(texts)
        assert "what did alice say?" in "".join(texts)


# a batch of which a part is told


class Board(Domain):
    """Shares its intents with everybody."""

    name, version = "board", "1"
    kinds = (Kind("board.pin", dict, lambda draft, intent: None),)

    def shares_intents(self, state, agent_id):
        return True


class Desk(Domain):
    """Shares nothing, and refuses in the words of the intent."""

    name, version = "desk", "1"
    kinds = (
        Kind("desk.write", dict, lambda draft, intent: refuse("full", intent["payload"]["text"])),
    )


async def test_only_the_shared_intents_of_a_refused_batch_are_shown_and_their_refusals():
    async with serving([Board(), Desk()]) as served:
        batch = [
            intent("board.pin", {"text": "pinned"}, "alice:1", agent_id="alice"),
            intent("desk.write", {"text": SECRET}, "alice:2", agent_id="alice"),
        ]
        assert (await served.submit(*batch, token="alice")).status_code == 422
        await served.submit(batch[1] | {"req_id": "alice:3"}, token="alice")
        told = (await served.get("events", token="bob")).json()["events"]
        assert [event["intents"] for event in told] == [[told[0]["intents"][0]]]
        assert told[0]["intents"][0]["payload"] == {"text": "pinned"}
        assert "refusals" not in told[0]
        whole = [event async for event in all_events(served)]
        parts = await served.world.query(
            lambda kernel: Viewpoint("bob", "bob").readable(kernel, whole)
        )
        refused = [event for event in parts if event.type == "refused"]
        assert [event.data["refusals"] for event in refused] == [[]]
        theirs = await served.world.query(
            lambda kernel: Viewpoint("operator", None).readable(kernel, whole)
        )
        assert theirs == whole


async def all_events(served: Served) -> AsyncIterator[Event]:
    end = served.world.records
    async for page in served.world.event_pages(0, from_record=0):
        for event in page:
            yield event
        if page[-1].record >= end - 1:
            return
