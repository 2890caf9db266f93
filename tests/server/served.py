"""An application as the tests call it: in this process, without a socket."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from placet import Orchestrator, OrchestratorConfig
from placet.kernel.plugin.domain import Domain
from placet.schemas.identity import OPERATOR
from placet.schemas.limits import HttpLimits, Limits
from placet.server import create_app
from placet.server.config import ServeConfig
from placet.server.credentials import Credentials, KnownToken, hash_of
from tests.kernel.domains import Lab

TOKENS = {name: f"token-of-{name}" for name in (OPERATOR, "alice", "bob", "carol")}
"""Carol is no agent: she owns dave."""

LATEST_SECONDS = 60
WORLD = "/api/v1/worlds/world"


class Served:
    """An application with an open world, and clients of it."""

    def __init__(self, app: Starlette, client: httpx.AsyncClient) -> None:
        self.app = app
        self.client = client

    @property
    def context(self) -> Any:
        return self.app.state.context

    @property
    def world(self) -> Orchestrator:
        return self.context.worlds.first  # type: ignore[no-any-return]

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = OPERATOR,
        headers: Mapping[str, str] | None = None,
        content: Any = None,
    ) -> httpx.Response:
        """Send a request with a token; a path without a leading slash is relative to the world."""
        sent = dict(headers or {})
        if token is not None:
            sent["authorization"] = f"Bearer {TOKENS.get(token, token)}"
        url = path if path.startswith("/") else f"{WORLD}/{path}"
        if body is not None:
            content = json.dumps(body).encode()
            sent.setdefault("content-type", "application/json")
        return await self.client.request(method, url, content=content, headers=sent)

    async def get(self, path: str, **more: Any) -> httpx.Response:
        return await self.ask("GET", path, **more)

    async def post(self, path: str, body: object = None, **more: Any) -> httpx.Response:
        return await self.ask("POST", path, body, **more)

    async def submit(self, *intents: object, **more: Any) -> httpx.Response:
        """Submit a batch."""
        return await self.post("batches", list(intents), **more)

    async def register(self, agent_id: str, **more: Any) -> None:
        """Register an agent as the operator."""
        answer = await self.post("agents", {"agent_id": agent_id, **more})
        assert answer.status_code == 201, answer.text


@asynccontextmanager
async def serving(
    domain: Domain | Sequence[Domain] | None = None,
    *,
    serve: ServeConfig | None = None,
    limits: Mapping[str, Any] | None = None,
    agents: tuple[str, ...] = ("alice", "bob"),
    limits_of_world: Limits | None = None,
    **config: Any,
) -> AsyncIterator[Served]:
    """Serve a world of the lab."""
    if limits_of_world is not None:
        config["limits"] = limits_of_world
    known = Credentials(KnownToken(name, hash_of(token)) for name, token in TOKENS.items())
    serve = serve or ServeConfig(limits=HttpLimits(**(limits or {})))
    app = create_app(domain or Lab(), OrchestratorConfig(**config), credentials=known, serve=serve)
    transport = httpx.ASGITransport(first_message_alone(app), raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://placet") as client,
    ):
        served = Served(app, client)
        for agent_id in agents:
            await served.register(agent_id)
        yield served


def first_message_alone(app: ASGIApp) -> ASGIApp:
    """End each stream of server-sent events after its first message, as a client that leaves."""

    async def called(scope: Scope, receive: Receive, send: Send) -> None:
        is_stream = False

        async def passed_on(message: Message) -> None:
            nonlocal is_stream
            if message["type"] == "http.response.start":
                types = [value for name, value in message["headers"] if name == b"content-type"]
                is_stream = any(one.startswith(b"text/event-stream") for one in types)
            elif is_stream:
                message = {**message, "more_body": False}
            await send(message)

        await app(scope, receive, passed_on)

    return called


class Socket:
    """A WebSocket client that speaks ASGI: the test says when a message is taken.

    Attributes:
        is_taking: Cleared, the client takes nothing more.
    """

    def __init__(self, app: Starlette, path: str, token: str | None, **scope: Any) -> None:
        route, _, query = path.partition("?")
        headers = []
        if token is not None:
            headers = [(b"authorization", f"Bearer {TOKENS.get(token, token)}".encode())]
        self._scope = {
            "type": "websocket",
            "path": route,
            "raw_path": route.encode(),
            "query_string": query.encode(),
            "headers": headers,
            "subprotocols": [],
            "extensions": {},
            **scope,
        }
        self._app: Callable[..., Any] = app
        self._to_app: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._from_app: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.is_taking = asyncio.Event()
        self.is_taking.set()
        self.task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Socket":
        self._to_app.put_nowait({"type": "websocket.connect"})
        run = self._app(self._scope, self._to_app.get, self._send)
        self.task = asyncio.create_task(run)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.leave()
        self.is_taking.set()
        assert self.task is not None
        async with asyncio.timeout(LATEST_SECONDS):
            await self.task

    def leave(self) -> None:
        """Disconnect without a close message."""
        self._to_app.put_nowait({"type": "websocket.disconnect", "code": 1001})

    def say(self, text: str) -> None:
        self.pass_on({"type": "websocket.receive", "text": text})

    def pass_on(self, message: dict[str, Any]) -> None:
        """Give the application a message of the server."""
        self._to_app.put_nowait(message)

    async def answer(self) -> dict[str, Any]:
        """Wait for the next message of the application."""
        async with asyncio.timeout(LATEST_SECONDS):
            return await self._from_app.get()

    async def message(self) -> Any:
        """Wait for the next message."""
        answer = await self.answer()
        if answer["type"] == "websocket.accept":
            return await self.message()
        assert answer["type"] == "websocket.send", answer
        return json.loads(answer["text"])

    async def messages(self, count: int) -> list[Any]:
        return [await self.message() for _ in range(count)]

    def has_more(self) -> bool:
        return not self._from_app.empty()

    async def _send(self, message: dict[str, Any]) -> None:
        await self.is_taking.wait()
        self._from_app.put_nowait(message)


def codes(answer: httpx.Response) -> list[str]:
    """Return the codes of a verdict's refusals."""
    return [refusal["code"] for refusal in answer.json()["refusals"]]
