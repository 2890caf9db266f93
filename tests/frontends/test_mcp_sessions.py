"""MCP sessions over HTTP: bounded for each name and in all, and idle ones end."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx
import pytest

from placet.agents import Session
from placet.frontends.mcp.server import McpServer, http_app
from placet.frontends.mcp.session_shares import SessionShares, WithTokens
from placet.schemas.identity import OPERATOR
from placet.schemas.limits import READ_WORK, HttpLimits
from placet.server.config import ServeConfig
from placet.server.credentials import Credentials, KnownToken, Principal, hash_of
from tests.agents.till import Till

pytestmark = pytest.mark.anyio

SESSION = (b"mcp-session-id", b"s")
TOKENS = {"mcp": "placet_agent", OPERATOR: "placet_operator"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    },
}


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Door:
    """The HTTP server of one MCP session, as its clients reach it."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def ask(self, method: str, who: str = "mcp", session: str = "", **more: Any) -> Any:
        headers = {
            "authorization": f"Bearer {TOKENS[who]}",
            "accept": "application/json, text/event-stream",
            **({"mcp-session-id": session} if session else {}),
            **more.pop("headers", {}),
        }
        return await self._client.request(method, "/mcp", headers=headers, **more)

    async def open(self, who: str = "mcp") -> httpx.Response:
        answer: httpx.Response = await self.ask("POST", who, json=HELLO)
        return answer


@contextlib.asynccontextmanager
async def door(**limits: int) -> AsyncIterator[Door]:
    serve = ServeConfig(limits=HttpLimits(**limits))
    known = Credentials(KnownToken(name, hash_of(token)) for name, token in TOKENS.items())
    async with Session.open(domain=Till(), agent="mcp", session="mcp") as session:
        app = http_app(McpServer(session), serve)
        served = WithTokens(app, known, "mcp", serve.limits)
        transport = httpx.ASGITransport(served)
        client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:1")
        async with app.router.lifespan_context(app), client:
            yield Door(client)


async def test_the_sessions_of_a_name_are_bounded_and_a_closed_one_makes_room() -> None:
    async with door(mcp_sessions_per_token_max=2) as served:
        first, _ = [await served.open() for _ in range(2)]
        refused = await served.open()
        assert (refused.status_code, refused.json()["code"]) == (429, "busy")
        assert "have 2 MCP sessions open, at most 2 are allowed" in refused.json()["detail"]
        assert 0 < int(refused.headers["retry-after"]) <= HttpLimits().mcp_session_idle_seconds_max
        assert (await served.open(OPERATOR)).status_code == 200, "another name has its own share"
        session = first.headers["mcp-session-id"]
        assert (await served.ask("DELETE", session=session)).status_code == 200
        assert (await served.open()).status_code == 200
        assert (await served.open()).status_code == 429


async def test_many_requests_at_once_open_no_more_than_the_share() -> None:
    async with door(mcp_sessions_per_token_max=3) as served:
        codes: list[int] = []

        async def open_one() -> None:
            codes.append((await served.open()).status_code)

        async with anyio.create_task_group() as group:
            for _ in range(12):
                group.start_soon(open_one)
        assert sorted(codes) == [200] * 3 + [429] * 9


async def test_all_sessions_together_are_bounded() -> None:
    async with door(mcp_sessions_max=2) as served:
        assert [(await served.open()).status_code for _ in range(3)] == [200, 200, 503]


async def test_a_refused_first_request_and_one_of_the_newer_protocol_take_no_place() -> None:
    async with door(mcp_sessions_per_token_max=1) as served:
        for _ in range(3):
            assert (await served.ask("POST", json={"not": "a call"})).status_code == 400
        newer: Any = {"headers": {"mcp-protocol-version": "2026-07-28"}, "json": HELLO}
        assert (await served.open()).status_code == 200
        assert (await served.ask("POST", **newer)).status_code != 429
        assert (await served.open()).status_code == 429


async def test_an_idle_session_leaves_its_place_and_one_with_a_stream_does_not() -> None:
    now, streaming = 0.0, anyio.Event()

    async def app(scope: Any, _receive: Any, send: Any) -> None:
        if scope["method"] == "GET":
            await streaming.wait()
        head = [] if scope["method"] == "GET" else [(b"mcp-session-id", f"s{now}".encode())]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": b""})

    limits = HttpLimits(mcp_sessions_per_token_max=1, mcp_session_idle_seconds_max=10)
    shares = SessionShares(app, limits, lambda: now)

    async def ask(method: str = "POST", session: str = "") -> int:
        statuses = []

        async def send(message: Any) -> None:
            statuses.append(message.get("status"))

        head = [(b"mcp-session-id", session.encode())] if session else []
        scope = {"type": "http", "method": method, "headers": head}
        await shares.serve(Principal("mcp"), scope, None, send)  # type: ignore[arg-type]  # unread
        return int(statuses[0])

    assert await ask() == 200
    async with anyio.create_task_group() as group:
        group.start_soon(ask, "GET", "s0.0")
        await anyio.wait_all_tasks_blocked()
        now = 99.0
        assert await ask() == 429, "its stream is open"
        streaming.set()
    now = 108.9
    assert await ask() == 429
    now = 109.0
    assert await ask() == 200
    assert await ask() == 429


async def test_a_request_is_charged_to_its_caller_and_not_to_the_opener_of_its_session() -> None:
    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [SESSION]})
        await send({"type": "http.response.body", "body": bytes(1024 * 1024)})

    shares = SessionShares(app, HttpLimits(read_work_burst_max=READ_WORK + 1_000))

    async def ask(who: str, *head: tuple[bytes, bytes]) -> int:
        statuses = []

        async def send(message: Any) -> None:
            statuses.append(message.get("status"))

        scope = {"type": "http", "method": "POST", "headers": head}
        await shares.serve(Principal(who), scope, None, send)  # type: ignore[arg-type]  # unread
        return int(statuses[0])

    assert await ask(OPERATOR) == 200
    assert await ask("mcp", SESSION) == 200
    assert await ask("mcp", SESSION) == 429
    assert await ask("other", SESSION) == 200
