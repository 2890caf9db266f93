"""Claims by route: every operation of an application, for every role that a token may claim.

The operations are read from the application's own table of routes: a new one is in this test.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from placet.domains.session import Sessions
from placet.kernel.plugin.domain import Domain
from placet.server.config import ServeConfig
from placet.server.context import _LESSER_ROLE
from placet.server.http.routing import ApiRoute
from placet.server.roles import Role, RoleName
from placet_design import Design
from placet_program import Program
from placet_tools import Tools
from tests.server.served import Served, Socket, serving

WORLD_PARTS = ("{world}", "{design_id}", "{program}")
OTHER_PARTS = {
    "{agent_id:path}": "alice",
    "{session}": "main",
    "{approval_id}": "a1",
    "{approval}": "a1",
    "{phase}": "hull",
    "{key:path}": "k",
}
QUERIES = {
    "get_verdict": "?agent_id=bob&req_id=1",
    "get_entity": "?record=1&collection=c&entity=e",
    "get_view": "?record=1&agent=bob",
    "get_story": "?agent=bob",
    "list_steps": "?record=1",
    "list_trace": "?collection=c&entity=e",
    "find_record": "?record=1",
    "explain_request": "?seq=1",
}

OF_ALL = {
    "healthz": None,
    "readyz": None,
    "metrics": "operator's token",
    "list_kinds": None,
    "list_worlds": None,
    "list_histories": "operator's token",
    "list_designs": None,
    "create_design": "makes no design",
}
"""Operations that name no world in their path -> what refuses a token with claims; None: nothing.

They say nothing of a world that the token has no claim to.
"""

READS_BY_POST = {"parse_sentence"}
OPERATORS = {
    *("get_history", "get_moment", "list_steps", "find_record", "get_entity", "get_view"),
    *("list_series", "list_trace", "list_faults", "get_story"),
    *("explain_request", "fork_world", "step_world", "pause_world", "resume_world"),
    *("register_agent", "set_agent_permissions", "suspend_agent", "resume_agent", "remove_agent"),
    *("open_session", "close_session", "set_session_mode"),
    *("get_tools", "submit_calls", "get_call", "settle_call"),
}
WRITES_BY_GET = {"list_program_changes"}
"""It submits an intent, but only reads: a reader may not, because it may submit nothing."""

DOMAINS: dict[str, Sequence[Callable[[], Domain]]] = {
    "design": (Design, Sessions),
    "program": (Program,),
    "tools": (partial(Tools("desk").domain, runs_on_workers=True),),
}


def operations(served: Served) -> dict[str, tuple[str, str]]:
    """Return method and path of every operation, by its function's name, in their order."""
    found: dict[str, tuple[str, str]] = {}
    for route in served.app.routes:
        if isinstance(route, ApiRoute):
            for method, operation in route.operations.items():
                name = operation.function.__name__
                assert name not in found
                found[name] = (method, route.path)
    return found


def needs(name: str, method: str) -> Role:
    """Return the least role for an operation; one that is not listed reads by GET or writes."""
    if name in OPERATORS:
        return Role.OPERATOR
    if name in WRITES_BY_GET:
        return Role.AGENT
    return Role.READER if method == "GET" or name in READS_BY_POST else Role.AGENT


def on_world(path: str, world: str) -> str | None:
    """Return a path of a world; None if it names no world."""
    url = path
    for part in WORLD_PARTS:
        url = url.replace(part, world)
    if url == path:
        return None
    for part, value in OTHER_PARTS.items():
        url = url.replace(part, value)
    assert "{" not in url, f"{path}: give its parameter a value in OTHER_PARTS"
    return url


def served_by(domain: str, claims: dict[str, RoleName]) -> Any:
    return serving([make() for make in DOMAINS[domain]], serve=ServeConfig(claims={"bob": claims}))


@pytest.mark.parametrize("domain", DOMAINS)
async def test_without_a_claim_every_operation_answers_as_for_no_world(domain):
    async with served_by(domain, {}) as served:
        records = served.world.records
        found = operations(served)
        assert len(found) > 30
        for name, (method, path) in found.items():
            url, absent = on_world(path, "world"), on_world(path, "no")
            if url is None or absent is None:
                assert name in OF_ALL, f"{method} {path}: say what it tells a token with claims"
                continue
            query = QUERIES.get(name, "")
            for asked in {method, "HEAD"} if method == "GET" else {method}:
                mine, none = [
                    await served.ask(asked, one + query, {}, token="bob") for one in (url, absent)
                ]
                assert mine.status_code == none.status_code == 404, (name, mine.text, none.text)
                assert mine.text.replace("'world'", "'no'").replace(
                    mine.headers["x-request-id"], ""
                ) == none.text.replace(none.headers["x-request-id"], ""), name
                assert mine.headers.keys() == none.headers.keys()
        assert served.world.records == records


@pytest.mark.parametrize("domain", DOMAINS)
async def test_operations_of_no_world_name_none_without_a_claim(domain):
    async with served_by(domain, {}) as served:
        for name, (method, path) in operations(served).items():
            if on_world(path, "world") is not None:
                continue
            answer = await served.ask(
                method, path, {"design_id": "d"} if method == "POST" else None, token="bob"
            )
            reason = OF_ALL[name]
            assert answer.status_code == (200 if reason is None else 403), (name, answer.text)
            assert reason is None or reason in answer.json()["detail"]
            assert '"world"' not in answer.text.replace('"worlds"', ""), (name, answer.text)
        for path in ("/metrics?world=world", "/metrics?world=no"):
            answer = await served.get(path, token="bob")
            assert answer.status_code == 403, "whether the world exists is not told"


@pytest.mark.parametrize("claim", ["reader", "agent", "operator"])
@pytest.mark.parametrize("domain", DOMAINS)
async def test_a_claim_is_for_the_operations_of_its_role(domain, claim):
    role = Role[claim.upper()]
    async with served_by(domain, {"world": claim}) as served:
        for name, (method, path) in operations(served).items():
            url = on_world(path, "world")
            if url is None:
                continue
            records = served.world.records
            answer = await served.ask(method, url + QUERIES.get(name, ""), {}, token="bob")
            least = needs(name, method)
            is_json = "json" in answer.headers.get("content-type", "")
            detail = answer.json().get("detail", "") if is_json else ""
            if role < least:
                assert (answer.status_code, detail) == (403, _LESSER_ROLE[least]), name
                assert served.world.records == records, f"{name} wrote before it refused"
            else:
                assert detail not in _LESSER_ROLE.values(), name
                assert f"no {'program' if 'programs' in path else 'world'} " not in detail, name
                assert answer.status_code != 401
            if role is Role.READER:
                assert served.world.records == records, f"{name} wrote for a reader"


@pytest.mark.parametrize(
    "address",
    [
        *(f"stream{query}" for query in ("", "?observe=true", "?since=0", "?agent=alice")),
        *(f"batches{query}" for query in ("", "?events=true", "?observe=true&agent=alice")),
    ],
)
async def test_without_a_claim_a_stream_is_as_that_of_no_world(address):
    async with served_by("design", {}) as served:
        denied = []
        for world in ("world", "no"):
            url = f"/api/v1/worlds/{world}/{address}"
            async with Socket(served.app, url, "bob") as socket:
                denied.append(await socket.answer())
        assert denied[0] == denied[1]
        assert denied[0]["code"] == 1008


async def test_a_reader_is_denied_a_socket_of_batches():
    more: dict[str, Any] = {"extensions": {"websocket.http.response": {}}}
    async with (
        served_by("design", {"world": "reader"}) as served,
        Socket(served.app, "/api/v1/worlds/world/batches", "bob", **more) as socket,
    ):
        assert (await socket.answer())["status"] == 403


@pytest.mark.parametrize(("claim", "whole"), [("reader", False), ("operator", True)])
async def test_a_stream_shows_what_the_claimed_role_may_see(claim, whole):
    async with served_by("design", {"world": claim}) as served:
        async with Socket(served.app, "/api/v1/worlds/world/stream", "bob") as socket:
            assert (await socket.message())["type"] == "snapshot"
        async with Socket(served.app, "/api/v1/worlds/world/stream?agent=alice", "bob") as socket:
            assert ((await socket.answer())["type"] == "websocket.accept") is whole
