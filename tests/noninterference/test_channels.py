"""HTTP, WebSocket and MCP answer an agent alike in two worlds that differ in hidden state only.

The logs of a pair of runs are opened by two applications, which get the same requests.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
import pytest
from mcp import Client
from mcp_types import TextResourceContents

from placet import Orchestrator, OrchestratorConfig
from placet.agents import Session
from placet.domains.world import World
from placet.frontends.mcp.server import McpServer
from placet.kernel.plugin.domain import Domain
from placet.kernel.visibility.distance import WithinDistance
from placet.schemas.codec import Json, from_json
from placet.schemas.identity import OPERATOR
from placet.schemas.log.record import LogAppend, decode_record
from placet.server import create_app
from placet.server.credentials import Credentials, KnownToken, hash_of
from placet.server.viewpoint import Viewpoint
from placet.stores.url import open_event_log
from placet.testing.paired_runs import PairedRun, parts_of
from placet.testing.paired_world import OBSERVER
from placet.testing.trace import TraceRunner
from tests.levels import soak_between
from tests.noninterference.scenes import SCENES
from tests.server.served import TOKENS, Served, Socket

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

NAMES = [name for name, scene in SCENES.items() if scene.is_opened]

PAIRS = [
    *soak_between([(name, 0) for name in NAMES], 3),
    ("world, near with hidden fields", 4),
    ("world, near with hidden fields", 5),
]
"""Seeds 4 and 5: an agent comes into sight after it has acted out of sight."""

TIMES = frozenset({"sim_time", "seconds", "duration_s", "started", "ended"})

NUMBERS = frozenset({"record", "records", "batch_id"})
"""Fields that count records and batches of all agents: an excepted channel."""


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Logs(NamedTuple):
    """The logs of a pair whose hidden state differs, and the names of all that is in them."""

    domain: Domain
    logs: Sequence[Sequence[bytes]]
    entities: Sequence[str]
    intents: Sequence[dict[str, Json]]


def logs_of(name: str, seed: int) -> Logs:
    """Return the logs of a pair, up to its last step at which hidden state differs."""
    scene = SCENES[name]
    trace = scene.trace(seed)
    pair = PairedRun(TraceRunner(scene.factory), scene.factory, trace)
    found: Logs | None = None
    intents: dict[str, dict[str, Json]] = {}
    for step in parts_of(trace):
        pair.run(step)
        for batch in getattr(step, "batches", ()):
            for proposal in batch:
                intents[f"{proposal.kind} {proposal.payload}"] = {
                    "kind": proposal.kind, "payload": proposal.payload,
                }  # fmt: skip
        if pair.differences and pair.is_alike:
            worlds = (pair.first, pair.second)
            trees = [world.kernel.tree for world in worlds]
            entities = {
                f"{collection}/{entity}"
                for tree in trees
                for collection in tree.collections
                for entity in tree.ids(collection)
            }
            logs = [list(world.runner.log) for world in worlds]
            found = Logs(scene.factory(), logs, sorted(entities), list(intents.values()))
    assert found is not None, "the pair has no hidden step"
    return found


@asynccontextmanager
async def served(domain: Domain, log: Sequence[bytes], url: str) -> AsyncIterator[Served]:
    """Serve the world of a log; time stands still."""
    store = open_event_log(url)
    epoch = store.open()
    seq = decode_record(log[-1]).seq
    store.append(LogAppend(0, 0, seq, log), epoch)
    store.close()
    tokens = {OPERATOR: TOKENS[OPERATOR], OBSERVER: f"token-of-{OBSERVER}"}
    known = Credentials(KnownToken(name, hash_of(token)) for name, token in tokens.items())
    config = OrchestratorConfig(store=url, seed=7, clock="stepped")
    app = create_app(domain, config, credentials=known)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://placet") as client,
    ):
        yield Served(app, client)


def plain(value: Json) -> Json:
    """Return an answer without the numbers of records and batches."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items() if name not in NUMBERS}
    return [plain(part) for part in value] if isinstance(value, list) else value


class Asker:
    """Asks one application as the observer, and keeps the answers."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.answers: dict[str, Json] = {}

    async def ask(self, method: str, path: str, body: object = None) -> Any:
        answer = await self.served.ask(method, path, body, token=f"token-of-{OBSERVER}")
        value = from_json(answer.content) if answer.content else None
        self.answers[f"{method} {path} {body}"] = [answer.status_code, plain(value)]
        return value

    async def ask_all(self, entities: Sequence[str], intents: Sequence[dict[str, Json]]) -> None:
        for path in ("/api/v1/worlds", "/api/v1/worlds/world", "/api/v1/kinds", "state", "agents"):
            await self.ask("GET", path)
        for path in ("history/state", "state?agent=bob", "events?agent=bob", "agents/nobody"):
            await self.ask("GET", path)
        for name in ("ann", "bob", "cyd", "nobody"):
            await self.ask("GET", f"agents/{name}")
            await self.ask("GET", f"verdicts?agent_id={name}&req_id=2.0.0")
        for entity in entities:
            await self.ask("GET", f"state?path={quote(entity)}")
            await self.ask("GET", f"state?path={quote(entity.partition('/')[0])}")
        for limit in (1, 500):
            await self._read_events(limit)
        seq = self.served.world.seq
        for number, intent in enumerate(intents):
            for context_seq in (0, seq - 1, seq):
                named = {**intent, "context_seq": context_seq, "req_id": f"try:{number}"}
                await self.ask("POST", "dry-run", [named])
                await self.ask("POST", "dry-run", [{**named, "agent_id": "bob"}])
        await self._read_streams(seq)

    async def _read_events(self, limit: int) -> None:
        """Read all events, in pages of a number of records."""
        place, events = 0, list[Json]()
        while True:
            path = f"events?from_record={place}&limit={limit}"
            answer = await self.served.ask("GET", path, token=f"token-of-{OBSERVER}")
            page = from_json(answer.content)
            events += plain(page["events"])
            place = page["next_record"]
            if page["is_end"]:
                break
        self.answers[f"events in pages of {limit}"] = events

    async def _read_streams(self, seq: int) -> None:
        for query in ("", f"?since={max(0, seq - 1)}", "?observe=true"):
            path = f"/api/v1/worlds/world/stream{query}"
            async with Socket(self.served.app, path, f"token-of-{OBSERVER}") as socket:
                self.answers[f"stream {query}"] = (await socket.answer())["type"]
                if query != f"?since={max(0, seq - 1)}":
                    self.answers[f"stream {query} sends"] = plain(await socket.message())


async def answers_of(logs: Logs, folder: Any) -> list[dict[str, Json]]:
    """Return the answers of both worlds of a pair."""
    askers = []
    async with AsyncExitStack() as stack:
        for number, log in enumerate(logs.logs):
            url = f"sqlite:///{folder / f'{number}.db'}"
            world = await stack.enter_async_context(served(logs.domain, log, url))
            askers.append(Asker(world))
        for asker in askers:
            await asker.ask_all(logs.entities, logs.intents)
    return [asker.answers for asker in askers]


def differences(answers: Sequence[dict[str, Json]]) -> dict[str, tuple[Json, Json]]:
    first, second = answers
    assert first.keys() == second.keys()
    return {path: (first[path], second[path]) for path in first if first[path] != second[path]}


@pytest.mark.parametrize(("name", "seed"), PAIRS)
async def test_http_and_websocket_answer_alike(name, seed, tmp_path):
    answers = await answers_of(logs_of(name, seed), tmp_path)
    assert differences(answers) == {}
    assert len(answers[0]) > 50


async def test_past_changes_of_an_agent_now_in_sight_are_found(monkeypatch, tmp_path):
    monkeypatch.setattr(Viewpoint, "_may_know", lambda *arguments: True)
    answers = await answers_of(logs_of("world, near with hidden fields", 8), tmp_path)
    assert list(differences(answers)) == ["events in pages of 1"]


async def test_hidden_state_in_http_answers_is_found(monkeypatch, tmp_path):
    monkeypatch.setattr(
        Viewpoint, "_visible_fields", lambda _, kernel, *ref: kernel.tree.entity(*ref)
    )
    answers = await answers_of(logs_of("world, near", 0), tmp_path)
    assert "GET state None" in differences(answers)


HIDDEN = ("bob", "vault")
OTHERS = ("yan", "chest")
FAR = [50, 0]


async def mcp_answers(names: Sequence[str]) -> dict[str, Json]:
    """Return what an MCP client is answered in a world with an agent and an object out of sight."""
    agent, thing = names
    objects: dict[str, dict[str, Any]] = {
        thing: {"position": FAR},
        "lamp": {"position": [1, 0]},
    }
    world = World(objects=objects, observation={"distance": 10})
    answers: dict[str, Json] = {}
    async with Session.open(domain=world, agent="ann", session="s") as session:
        assert isinstance(session.world, Orchestrator)
        hidden = await session.world.register_agent(agent, position=FAR)
        for number in range(2):
            await hidden.submit_intents(
                [
                    hidden.intent("Move", to=[50, number]),
                    hidden.intent("Interact", target_id=thing, interaction_type="use"),
                ]
            )
        async with Client(McpServer(session).server(), cache=None) as client:
            for uri in ("placet://view", "placet://kinds", "placet://events", "placet://events/3"):
                read = await client.read_resource(uri)
                [contents] = read.contents
                assert isinstance(contents, TextResourceContents)
                answers[uri] = from_json(contents.text.encode())
            tools = await client.list_tools()
            answers["tools"] = [tool.model_dump(mode="json") for tool in tools.tools]
            for target in (*HIDDEN, *OTHERS, "ghost", "lamp"):
                for kind, payload in (
                    ("Interact", {"target_id": target, "interaction_type": "use"}),
                    ("Speak", {"text": "x", "channel": "private", "target_id": target}),
                ):
                    called = await client.call_tool(kind, payload)
                    answers[f"{kind} {target}"] = called.model_dump(mode="json")
    return answers


def timeless(value: Json) -> Json:
    """Return an answer without times: the world of a session runs in real time."""
    if isinstance(value, dict):
        return {name: timeless(part) for name, part in plain(value).items() if name not in TIMES}
    return [timeless(part) for part in value] if isinstance(value, list) else value


async def test_mcp_answers_alike():
    first, second = [timeless(await mcp_answers(names)) for names in (HIDDEN, OTHERS)]
    assert differences([first, second]) == {}
    assert "world.target_unknown" in str(first["Interact bob"])
    assert not first["Interact lamp"]["is_error"]


async def test_hidden_state_in_mcp_answers_is_found(monkeypatch):
    monkeypatch.setattr(WithinDistance, "may_see", lambda *arguments: True)
    first, second = [timeless(await mcp_answers(names)) for names in (HIDDEN, OTHERS)]
    assert {"placet://view", "placet://events", "Interact bob"} <= differences(
        [first, second]
    ).keys()
