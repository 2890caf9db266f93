"""Request bodies, response headers, and invalid bytes."""

import asyncio
import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.routing import Route

from placet.server.http.problems import STATUS_OF_PROBLEM
from tests.actors.virtual_time import in_virtual_time
from tests.kernel.builders import add
from tests.levels import examples
from tests.server.served import TOKENS, WORLD, serving

ID = re.compile(r"[0-9a-f]{8}-\d+")


async def chunks(*parts):
    for part in parts:
        yield part


async def test_an_oversized_body_is_refused_by_its_length_and_while_it_arrives():
    async with serving(limits={"body_bytes_max": 1_000}) as served:
        declared = await served.post("batches", content=b"x" * 1_001)
        streamed = await served.post("batches", content=chunks(*[b"x" * 100] * 11))
        within = await served.post("batches", content=chunks(json.dumps([add("r")]).encode()))
        assert (declared.status_code, streamed.status_code, within.status_code) == (413, 413, 200)
        for answer in (declared, streamed):
            assert answer.json()["code"] == "body_too_large"
            assert answer.headers["connection"] == "close"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "the body is empty"),
        (b"null", "got null"),
        (b"[1, true]", "got [1, true]"),
        (b'"x"', "got 'x'"),
        (b'{"agent_id": {"a": null}}', 'got {"a": null}'),
    ],
)
async def test_an_invalid_body_is_quoted_as_json(body, says):
    async with serving() as served:
        answer = await served.post("agents", content=body)
        assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")
        assert answer.json()["detail"].endswith(says) or says in answer.json()["detail"]


async def test_an_empty_batch_body_is_refused():
    async with serving() as served:
        answer = await served.post("batches", content=b"")
        assert answer.status_code == 422
        assert "the body is empty" in answer.json()["refusals"][0]["message"]


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json", f"{WORLD}/state", "/no"])
async def test_head_is_answered_as_get_without_the_body(path):
    async with serving() as served:
        get, head = await served.get(path), await served.ask("HEAD", path)
        assert head.status_code == get.status_code != 405
        assert head.content == b""
        assert head.headers["content-length"] == str(len(get.content))
        assert (await served.ask("HEAD", "batches")).status_code == 405


@pytest.mark.parametrize("path", [f"{WORLD}/agents/alice", "/healthz", f"{WORLD}/batches"])
async def test_a_wrong_method_is_answered_with_every_allowed_method(path):
    async with serving() as served:
        template = path.replace("world/", "{world}/").replace("alice", "{agent_id}")
        paths = (await served.get("/openapi.json")).json()["paths"]
        declared = {method.upper() for method in paths[template]}
        answer = await served.ask("PATCH", path)
        told = answer.headers["allow"].split(", ")
        assert (answer.status_code, told) == (405, sorted(told))
        assert set(told) == declared | ({"HEAD"} if "GET" in declared else set())


async def test_a_wrong_content_length_is_not_trusted():
    async with serving(limits={"body_bytes_max": 1_000}) as served:
        answer = await served.post(
            "batches", content=chunks(b"x" * 2_000), headers={"content-length": "10"}
        )
        assert answer.status_code == 413


async def test_no_bytes_beyond_the_bound_are_read():
    read = []

    async def endless():
        while True:
            read.append(1)
            yield b"x" * 100

    async with serving(limits={"body_bytes_max": 1_000}) as served:
        scope = {
            "type": "http",
            "method": "POST",
            "path": f"{WORLD}/batches",
            "query_string": b"",
            "headers": [(b"authorization", f"Bearer {TOKENS['alice']}".encode())],
        }
        parts = endless()

        async def receive():
            return {"type": "http.request", "body": await anext(parts), "more_body": True}

        sent = []

        async def send(message):
            sent.append(message)

        await served.app(scope, receive, send)
        assert sent[0]["status"] == 413
        assert len(read) == 11


async def test_a_body_with_a_too_large_length_is_not_read():
    async with serving(limits={"body_bytes_max": 1_000}) as served:
        length = [(b"content-length", b"1001")]
        token = [(b"authorization", f"Bearer {TOKENS['alice']}".encode())]
        scope = {
            "type": "http",
            "method": "POST",
            "path": f"{WORLD}/batches",
            "query_string": b"",
            "headers": length + token,
        }
        sent = []

        async def receive():
            raise AssertionError("nothing is asked for")

        async def send(message):
            sent.append(message)

        await served.app(scope, receive, send)
        assert sent[0]["status"] == 413


@in_virtual_time
async def test_a_body_that_takes_too_long_times_out():
    async with serving(limits={"body_seconds_max": 3}) as served:

        async def slow():
            yield b"["
            await asyncio.sleep(4)
            yield b"]"

        answer = await served.post("batches", content=slow())
        assert answer.status_code == 408


@pytest.mark.parametrize(
    ("media_type", "status"),
    [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("application/vnd.placet+json", 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
    ],
)
async def test_a_body_must_be_json(media_type, status):
    async with serving() as served:
        answer = await served.submit(add("r"), headers={"content-type": media_type})
        assert answer.status_code == status


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/nowhere", "not_found"),
        ("PATCH", "/healthz", "method_not_allowed"),
        ("GET", "state?path=no/where", "not_found"),
        ("GET", "events?since=-1", "request_invalid"),
        ("GET", "events?limit=x", "request_invalid"),
        ("GET", "verdicts", "request_invalid"),
        ("POST", "agents", "request_invalid"),
    ],
)
async def test_every_error_is_a_problem_document(method, path, code):
    async with serving() as served:
        answer = await served.ask(method, path)
        problem = answer.json()
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.status_code == problem["status"] == STATUS_OF_PROBLEM[code]
        assert problem["code"] == code
        assert problem["type"] == f"urn:placet:problem:{code}"
        assert problem["title"]
        assert problem["detail"]


async def test_an_internal_error_is_a_problem_document_without_details():
    async with serving() as served:

        async def bug(_request):
            raise ZeroDivisionError("a secret")

        served.app.router.routes.append(Route("/bug", bug))
        answer = await served.get("/bug")
        assert answer.status_code == 500
        assert answer.headers["content-type"] == "application/problem+json"
        assert "secret" not in answer.text
        assert ID.fullmatch(answer.headers["x-request-id"])


async def test_every_response_has_a_request_id():
    async with serving() as served:
        own = await served.get("/healthz", headers={"x-request-id": "trace-1/2:3"})
        assert own.headers["x-request-id"] == "trace-1/2:3"
        for path in ("/healthz", "/nowhere", "state"):
            first = await served.get(path)
            second = await served.get(path)
            assert ID.fullmatch(first.headers["x-request-id"])
            assert first.headers["x-request-id"] != second.headers["x-request-id"]


@pytest.mark.parametrize("sent", ["a b", "x" * 129, "", "<script>", "a\xe9", "a;b"])
async def test_an_invalid_request_id_is_not_echoed(sent):
    async with serving() as served:
        answer = await served.get("/healthz", headers={"x-request-id": sent.encode("latin-1")})
        assert ID.fullmatch(answer.headers["x-request-id"])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("kind", "payload", "agent_id", "context_seq", "intents"), JSON),
)
BODIES = (
    st.binary(max_size=200)
    | JSON.map(lambda value: json.dumps(value).encode())
    | st.lists(FIELDS, max_size=3).map(lambda value: json.dumps(value).encode())
    | FIELDS.map(lambda change: json.dumps([{**add("r"), **change}]).encode())
)
PATHS = ["batches", "dry-run", "agents", "agents/alice/permissions", "step"]


@pytest.mark.parametrize("path", PATHS)
def test_no_body_causes_a_server_error(path):
    method = "PUT" if path.endswith("permissions") else "POST"
    runner = asyncio.Runner()

    async def enter():
        manager = serving()
        return manager, await manager.__aenter__()

    manager, served = runner.run(enter())

    @settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
    @given(content=BODIES)
    def check(content):
        answer = runner.run(served.ask(method, path, content=content))
        assert answer.status_code < 500, answer.text
        assert answer.json()

    try:
        check()
    finally:
        runner.run(manager.__aexit__(None, None, None))
        runner.close()
