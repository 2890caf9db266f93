"""Routes that are answered without the framework's finding and reading."""

import re
from typing import Annotated

import httpx
import pytest
from fastapi import APIRouter, Depends, FastAPI, Header, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from placet.server.config import ServeConfig
from placet.server.http.lean_route import LeanRoute, LeanRouteMiddleware
from placet.server.http.problems import Problem
from tests.kernel.builders import add
from tests.server.served import WORLD, serving

BY_THE_FRAMEWORK = "?direct=no"
"""A query, which nobody asks for."""
SIM_TIME = re.compile(rb'"sim_time":[^,]+,')


async def with_a_header(part: str, request: Request, by: Annotated[str, Header()] = "") -> Response:
    return Response(part + by)


async def with_a_needed_query(part: str, request: Request, count: int) -> Response:
    return Response(part * count)


async def with_a_number(part: int, request: Request) -> Response:
    return Response(str(part))


async def with_a_path(part: str, request: Request) -> Response:
    return Response(part)


@pytest.mark.parametrize("function", [with_a_header, with_a_needed_query, with_a_number])
def test_unsupported_parameters_are_refused_when_the_route_is_defined(function):
    with pytest.raises(TypeError, match="reads more than its path"):
        APIRouter(route_class=LeanRoute).post("/{part}")(function)


def test_a_route_dependency_is_not_bypassed():
    """It may be what lets nobody in."""
    router = APIRouter(route_class=LeanRoute)
    with pytest.raises(TypeError, match="reads more than its path"):
        router.post("/{part}", dependencies=[Depends(list)])(with_a_path)
    guarded = APIRouter(route_class=LeanRoute, dependencies=[Depends(list)])
    with pytest.raises(TypeError, match="reads more than its path"):
        guarded.post("/{part}")(with_a_path)


REQUESTS = [
    ("batches", {"body": [add("r")]}),
    ("dry-run", {"body": [add("r")]}),
    ("batches", {"body": [add("r", agent_id="nobody")]}),
    ("batches", {"body": {"intents": 1}}),
    ("batches", {"content": b"{"}),
    ("batches", {"content": b"x" * 1_001}),
    ("batches", {"body": [add("r")], "headers": {"content-type": "text/plain"}}),
    ("batches", {"body": [add("r")], "token": None}),
    ("batches", {"body": [add("r")], "token": "carol"}),
    ("/api/v1/worlds/none/batches", {"body": [add("r")]}),
    ("/api/v1/worlds/a%2Fb/batches", {"body": [add("r")]}),
    ("batches/", {"body": [add("r")]}),
    ("/api/v1/worlds//batches", {"body": [add("r")]}),
]


@pytest.mark.parametrize(("path", "sent"), REQUESTS)
async def test_the_framework_has_the_same_answer(path, sent):
    answers = []
    for query in ("", BY_THE_FRAMEWORK):
        async with serving(limits={"body_bytes_max": 1_000}) as served:
            answer = await served.post(path + query, **sent)
            location = answer.headers.pop("location", "").removesuffix(BY_THE_FRAMEWORK)
            kept = answer.headers.keys() - {"x-request-id", "content-length"}
            headers = {name: answer.headers[name] for name in kept}
            body = SIM_TIME.sub(b"", answer.content)
            answers.append((answer.status_code, headers, location, body))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("query", ["", BY_THE_FRAMEWORK])
async def test_a_method_the_lean_route_lacks_is_refused(query):
    async with serving() as served:
        answer = await served.ask("PUT", "batches" + query)
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


async def test_allowed_origins_have_cors_headers():
    async with serving(serve=ServeConfig(cors_origins=["https://a.example"])) as served:
        answer = await served.post("batches", [add("r")], headers={"origin": "https://a.example"})
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "https://a.example"


async def raising(part: str, request: Request) -> Response:
    assert request.scope["endpoint"] is raising
    assert request.path_params == {"part": part}
    raised = {"problem": Problem("gone", "x"), "http": HTTPException(418), "bug": KeyError("x")}
    raise raised[part]


async def said_of_a_problem(_request: Request, error: Exception) -> Response:
    return Response(f"handled {type(error).__name__}", 200)


async def seen_by(app: FastAPI, path: str) -> httpx.Response:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://placet") as client:
        return await client.post(path)


def an_application() -> FastAPI:
    app, router = FastAPI(), APIRouter(route_class=LeanRoute)
    router.post("/{part}")(raising)
    app.add_middleware(LeanRouteMiddleware, routers=[router], prefix="/in")
    app.include_router(router, prefix="/in")
    return app


@pytest.mark.parametrize(
    ("part", "handled", "status", "text"),
    [
        ("problem", Problem, 200, "handled Problem"),
        ("http", HTTPException, 200, "handled HTTPException"),
        ("bug", Exception, 200, "handled KeyError"),
        ("problem", KeyError, 500, "Internal Server Error"),
    ],
)
@pytest.mark.parametrize("query", ["", BY_THE_FRAMEWORK])
async def test_an_exception_is_handled_by_the_handlers_of_the_application(
    part, handled, status, text, query
):
    app = an_application()
    app.add_exception_handler(handled, said_of_a_problem)
    answer = await seen_by(app, f"/in/{part}{query}")
    assert (answer.status_code, answer.text) == (status, text)


async def test_a_mounted_application_answers_under_its_prefix():
    whole, app = FastAPI(), an_application()
    app.add_exception_handler(Problem, said_of_a_problem)
    whole.mount("/below", app)
    assert (await seen_by(whole, "/below/in/problem")).text == "handled Problem"
    whole.mount("/in", app)
    assert (await seen_by(whole, "/in/in/problem")).text == "handled Problem"
    assert (await seen_by(whole, "/in/problem")).status_code == 404


async def test_added_middleware_sees_every_request():
    async with serving() as served:
        seen = []

        async def look(request, call_next):
            seen.append(request.url.path)
            return await call_next(request)

        # As `add_middleware` does it before an application starts.
        stack = served.app.middleware_stack
        served.app.middleware_stack = None
        served.app.middleware("http")(look)
        await served.post("batches", [add("r")])
        assert (seen, stack is None) == ([f"{WORLD}/batches"], False)
