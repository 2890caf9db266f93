"""Authorization: a table of routes and tokens, and the rights of a token."""

from typing import Any

import pytest

from placet.server.config import ServeConfig
from tests.kernel.builders import add
from tests.server.served import serving

# Of each route: what the operator, alice for herself, bob for alice, and a stranger are told.
ROUTES: list[tuple[str, str, Any, tuple[int, ...]]] = [
    ("POST", "batches", [add("r")], (200, 200, 403, 401)),
    ("POST", "dry-run", [add("r")], (200, 200, 403, 401)),
    ("GET", "verdicts?agent_id=alice&req_id=x", None, (404, 404, 403, 401)),
    ("GET", "agents", None, (200, 200, 200, 401)),
    ("POST", "agents", {"agent_id": "eve"}, (201, 403, 403, 401)),
    ("GET", "agents/alice", None, (200, 200, 403, 401)),
    ("PUT", "agents/alice/permissions", {"permissions": []}, (200, 403, 403, 401)),
    ("POST", "agents/alice/suspend", None, (200, 403, 403, 401)),
    ("POST", "agents/alice/resume", None, (200, 403, 403, 401)),
    ("DELETE", "agents/alice", None, (204, 403, 403, 401)),
    ("GET", "state", None, (200, 200, 200, 401)),
    ("GET", "state?agent=alice", None, (200, 200, 403, 401)),
    ("GET", "faults", None, (200, 403, 403, 401)),
    ("GET", "events", None, (200, 200, 200, 401)),
    ("GET", "events?agent=alice", None, (200, 200, 403, 401)),
    ("POST", "step", {"dt": 1}, (409, 403, 403, 401)),
    ("POST", "pause", None, (200, 403, 403, 401)),
    ("POST", "resume", None, (200, 403, 403, 401)),
    ("GET", "/api/v1/worlds/world", None, (200, 200, 200, 401)),
    ("GET", "/api/v1/worlds", None, (200, 200, 200, 401)),
    ("GET", "/api/v1/kinds", None, (200, 200, 200, 401)),
    ("GET", "/api/v1/history", None, (200, 403, 403, 401)),
    ("GET", "history", None, (200, 403, 403, 401)),
    ("GET", "history/moment", None, (200, 403, 403, 401)),
    ("GET", "history/steps?record=0", None, (200, 403, 403, 401)),
    ("GET", "history/find?record=0", None, (200, 403, 403, 401)),
    ("GET", "history/entity?record=0&collection=c&entity=e", None, (200, 403, 403, 401)),
    ("GET", "history/series", None, (200, 403, 403, 401)),
    ("GET", "history/trace?collection=c&entity=e", None, (200, 403, 403, 401)),
    ("GET", "history/story?agent=alice", None, (200, 403, 403, 401)),
    ("GET", "history/view?record=0&agent=alice", None, (404, 403, 403, 401)),
    ("GET", "history/explain?seq=1", None, (200, 403, 403, 401)),
    ("POST", "history/forks", {"record": 1}, (201, 403, 403, 401)),
    ("GET", "approvals", None, (404, 404, 404, 401)),  # this world keeps no requests
    ("GET", "approvals/events", None, (404, 404, 404, 401)),
    ("GET", "approvals/{approval}", None, (404, 404, 404, 401)),
    ("POST", "approvals/{approval}", {}, (404, 404, 404, 401)),
    ("GET", "/metrics", None, (200, 403, 403, 401)),
    ("GET", "/healthz", None, (200, 200, 200, 200)),
    ("GET", "/readyz", None, (200, 200, 200, 200)),
    ("GET", "/openapi.json", None, (200, 200, 200, 200)),
]


@pytest.mark.parametrize(("method", "path", "body", "told"), ROUTES, ids=lambda v: str(v)[:40])
async def test_each_role_may_call_the_routes_of_the_table(method, path, body, told):
    async with serving() as served:
        for token, status in zip(("nobody", "bob", "alice", "operator"), told[::-1], strict=True):
            answer = await served.ask(method, path, body, token=token)
            assert answer.status_code == status, (token, answer.text)


async def test_the_table_names_every_route():
    async with serving() as served:
        document = (await served.get("/openapi.json")).json()
        routes = {
            (method.upper(), path.replace("{agent_id}", "alice"))
            for path, item in document["paths"].items()
            for method in item
        }
    named = {(method, path.partition("?")[0]) for method, path, *_ in ROUTES}
    named = {(m, p if p.startswith("/") else f"/api/v1/worlds/world/{p}") for m, p in named}
    named = {(m, p.replace("/worlds/world", "/worlds/{world}")) for m, p in named}
    assert routes | {("GET", "/openapi.json")} == named


async def test_an_owner_submits_for_its_own_agents_only():
    async with serving() as served:
        await served.register("dave", owner="carol")
        assert (await served.submit(add("r1", agent_id="dave"), token="carol")).status_code == 200
        assert (await served.submit(add("r1", agent_id="bob"), token="carol")).status_code == 403
        both = await served.submit(
            add("r2", agent_id="dave"), add("r2", agent_id="bob"), token="carol"
        )
        assert both.status_code == 403
        listed = (await served.get("agents", token="carol")).json()["agents"]
        assert [agent["agent_id"] for agent in listed] == ["dave"]
        assert (await served.get("agents/dave", token="carol")).status_code == 200
        seen = await served.get("verdicts?agent_id=dave&req_id=r1", token="carol")
        assert seen.status_code == 200


async def test_a_batch_of_several_agents_is_refused_when_one_has_another_owner():
    async with serving() as served:
        answer = await served.submit(add("r1"), add("r2", agent_id="bob"), token="alice")
        assert answer.status_code == 403
        state = (await served.get("state?path=lab.counts/alice/count")).json()
        assert state["value"] == 0


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Basic token-of-operator", "token-of-operator", "Bearer \xe9"],
)
async def test_an_unknown_token_is_answered_401(header):
    async with serving() as served:
        answer = await served.ask(
            "GET", "state", token=None, headers={"authorization": header.encode("latin-1")}
        )
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert answer.headers["content-type"] == "application/problem+json"


async def test_an_unauthenticated_request_does_not_reveal_world_names():
    async with serving() as served:
        for world in ("world", "other"):
            answer = await served.get(f"/api/v1/worlds/{world}/state", token="nobody")
            assert answer.status_code == 401
        assert (await served.get("/api/v1/worlds/other/state")).status_code == 404


async def test_a_token_stays_valid_for_the_name_after_the_agent_is_removed():
    async with serving() as served:
        assert (await served.ask("DELETE", "agents/alice")).status_code == 204
        gone = await served.submit(add("r"), token="alice")
        assert gone.status_code == 404
        await served.register("alice")
        assert (await served.submit(add("r"), token="alice")).status_code == 200


@pytest.mark.parametrize("route", ["state", "events", "agents/nobody"])
async def test_state_as_an_unregistered_agent_is_not_readable(route):
    query = "" if route.startswith("agents") else "?agent=nobody"
    async with serving() as served:
        answer = await served.get(f"{route}{query}")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        assert "there is no agent 'nobody'" in answer.json()["detail"]
        assert (await served.get(f"{route}{query}", token="alice")).status_code == 403


@pytest.mark.parametrize("route", ["state", "state?path=lab.counts", "events", "events?since=9999"])
async def test_the_token_of_an_unregistered_agent_reads_nothing(route):
    async with serving() as served:
        assert (await served.get(route, token="alice")).status_code == 200
        await served.ask("DELETE", "agents/alice")
        for name in ("alice", "carol"):
            answer = await served.get(route, token=name)
            assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
            assert f"there is no agent {name!r}" in answer.json()["detail"]
        await served.register("dave", owner="carol")
        assert (await served.get(route, token="carol")).status_code == 200, "she owns one"


async def test_cross_origin_calls_need_a_listed_origin():
    asked = {"origin": "https://a.example", "access-control-request-method": "POST"}
    async with serving() as served:
        answer = await served.ask("OPTIONS", "batches", token=None, headers=asked)
        assert "access-control-allow-origin" not in answer.headers
    async with serving(serve=ServeConfig(cors_origins=["https://a.example"])) as served:
        named = await served.ask("OPTIONS", "batches", token=None, headers=asked)
        assert named.headers["access-control-allow-origin"] == "https://a.example"
        assert "access-control-allow-credentials" not in named.headers
        assert "idempotency-key" in named.headers["access-control-allow-headers"]
        other = {**asked, "origin": "https://b.example"}
        refused = await served.ask("OPTIONS", "batches", token=None, headers=other)
        assert "access-control-allow-origin" not in refused.headers


async def test_metrics_are_public_when_configured():
    async with serving(serve=ServeConfig(metrics_open=True)) as served:
        answer = await served.get("/metrics", token=None)
        assert answer.status_code == 200
        assert "placet_intents_total" in answer.text
