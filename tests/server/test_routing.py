"""Routes: one for each path, and parameters that are read strictly."""

import pytest
from starlette.responses import Response

from placet.domains.world import World
from placet.server.http.parameters import Fields, Identity, read_fields
from placet.server.http.problems import Problem
from placet.server.http.routing import ApiRoute, Routes
from tests.installed import NAMES
from tests.installed import served as served_domains
from tests.kernel.builders import add
from tests.server.served import WORLD, serving

EVERY_DOMAIN = [[World()], *map(served_domains, NAMES)]
IDS = ["world alone", *NAMES]


def operations(app):
    for route in app.routes:
        if isinstance(route, ApiRoute):
            for method in route.operations:
                yield method, route.path_format


@pytest.mark.parametrize("domains", EVERY_DOMAIN, ids=IDS)
async def test_every_operation_refuses_a_parameter_that_it_does_not_have(domains):
    async with serving(domains, agents=()) as served:
        asked = list(operations(served.app))
        for method, path in asked:
            answer = await served.ask(method, f"{path}?dry_rum=true")
            assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid"), path
            assert "unknown parameters dry_rum" in answer.json()["detail"]
        assert ("POST", f"{WORLD[:-5]}{{world}}/batches") in asked


@pytest.mark.parametrize("domains", EVERY_DOMAIN, ids=IDS)
async def test_a_token_is_checked_before_anything_else_of_a_sound_query(domains):
    sample = {"integer": "0", "string": "a"}
    async with serving(domains, agents=()) as served:
        document = (await served.get("/openapi.json")).json()
        for path, item in document["paths"].items():
            for method, operation in item.items():
                if "security" not in operation:
                    continue
                required = [
                    f"{one['name']}={sample[one['schema']['type']]}"
                    for one in operation.get("parameters", ())
                    if one["in"] == "query" and one["required"]
                ]
                url = f"{path}?{'&'.join(required)}".removesuffix("?")
                answer = await served.ask(method.upper(), url, token=None)
                assert answer.status_code == 401, url


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("limit=1&limit=2", "query.limit: Expected one value, got several"),
        ("from_record=null", "query.from_record: Expected a value, got 'null'"),
        ("since=1.5", "query.since: Expected `int`, got '1.5'"),
        ("agent=a%0A", "query.agent: Expected `str` of another form, got 'a\\n'"),
    ],
)
async def test_a_parameter_has_one_value_of_its_type(query, detail):
    async with serving() as served:
        answer = await served.get(f"events?{query}")
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(detail)


async def test_a_query_has_a_limited_number_of_parameters():
    async with serving() as served:
        answer = await served.get("/healthz?" + "a&" * 30_000, token=None)
    assert answer.json()["detail"] == "more than 32 parameters"


async def test_missing_parameters_are_named():
    async with serving() as served:
        answer = await served.get("verdicts")
    assert answer.json()["detail"] == "missing parameters agent_id, req_id"


class Named(Fields, frozen=True):
    name: Identity


@pytest.mark.parametrize("name", ["alice\n", "a\x00", "", "x" * 129, 5, None])
def test_an_identity_is_checked_to_its_end(name):
    assert read_fields({"name": "alice"}, Named).name == "alice"
    with pytest.raises(Problem, match="name: Expected `str`"):
        read_fields({"name": name}, Named)


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("batches", "POST"),
        ("agents", "GET, HEAD, POST"),
        ("agents/a/b", "DELETE, GET, HEAD"),
        ("agents/a/b/suspend", "POST"),
        ("/healthz", "GET, HEAD"),
    ],
)
async def test_a_method_that_a_path_does_not_have_is_refused(path, allowed):
    async with serving() as served:
        answer = await served.ask("PATCH", path)
    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
    assert answer.headers["allow"] == allowed


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "agents/alice/suspend", "POST"),
        ("HEAD", "agents/alice/resume", "POST"),
        ("DELETE", "agents/alice/permissions", "PUT"),
    ],
)
async def test_a_path_below_an_agent_has_its_method_alone(method, path, allowed):
    async with serving() as served:
        answer = await served.ask(method, path)
        assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
        await served.register(path.removeprefix("agents/"))  # a name may have a slash
        assert (await served.ask(method, path)).is_success


async def test_an_unknown_path_is_named_in_a_sentence():
    async with serving() as served:
        answer = await served.get("/api/v1/world")
        assert (answer.status_code, answer.json()["detail"]) == (
            404,
            "there is no path '/api/v1/world'; /openapi.json lists all paths",
        )


async def test_a_head_has_the_status_and_the_headers_of_a_get():
    async with serving() as served:
        for path in ("/healthz", "state", "/nowhere", "agents/alice", "/", "/openapi.json"):
            answers = [await served.ask(method, path) for method in ("GET", "HEAD")]
            for answer in answers:
                del answer.headers["x-request-id"]
            assert answers[0].status_code == answers[1].status_code
            assert answers[0].headers.keys() == answers[1].headers.keys()


async def test_a_slash_too_many_is_a_redirect():
    async with serving() as served:
        answer = await served.post("batches/", [add("r")])
    assert (answer.status_code, answer.headers["location"]) == (
        307,
        f"http://placet{WORLD}/batches",
    )


def test_a_method_of_a_path_has_one_function():
    table = Routes("test")

    async def function() -> Response:
        raise AssertionError("it is never called")

    table.on("GET", "/a", "A", "Agent")(function)
    with pytest.raises(AssertionError, match="GET /api/v1/a has a function"):
        table.on("GET", "/a", "A", "Agent")(function)
