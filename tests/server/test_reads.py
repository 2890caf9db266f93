"""Reads are counted in work and charged to their caller: no caller's reads hold another."""

import asyncio
import threading
from typing import Any

import pytest

from placet.domains.world import World
from placet.schemas.limits import QUESTION_WORK, READ_WORK, HttpLimits
from placet.server.config import ServeConfig
from placet.server.http.problems import Problem
from placet.server.http.reads import Reads
from placet.server.http.routing import ApiRoute
from placet.server.routes import agents as agent_routes
from placet.server.routes import state as state_routes
from tests.actors.virtual_time import in_virtual_time
from tests.installed import NAMES
from tests.installed import served as served_domains
from tests.kernel.builders import add
from tests.server.served import WORLD, Socket, serving

RATE = 1
"""Units a second: one request that reads takes 100 seconds."""

TIGHT = {
    "read_work_per_second_max": RATE,
    "read_work_burst_max": READ_WORK - 1,
    "all_read_work_per_second_max": 100 * RATE,
    "all_read_work_burst_max": 100 * READ_WORK,
}
FREE = {"/healthz", "/readyz"}
EVERY_DOMAIN = [[World()], *map(served_domains, NAMES)]


@pytest.mark.parametrize("domains", EVERY_DOMAIN, ids=["world alone", *NAMES])
@in_virtual_time
async def test_every_operation_that_reads_is_refused_beyond_the_rate_and_no_other_one(domains):
    async with serving(domains, agents=(), limits=TIGHT) as served:
        routes = [route for route in served.app.routes if isinstance(route, ApiRoute)]
        documented = (await served.get("/openapi.json")).json()["paths"]
        asked = [(route, method) for route in routes for method in (*route.operations, "HEAD")]
        for is_question in (False, True):
            served.context.reads.charge("operator", requests=1_000, is_question=is_question)
        for route, method in asked:
            if method == "HEAD" and "GET" not in route.operations:
                continue
            path = route.path_format.replace("{world}", "world")
            answer = await served.ask(method, path, {} if method in {"POST", "PUT"} else None)
            is_read = method in {"GET", "HEAD"} or "/history/" in path
            needs_query = answer.status_code == 422
            if is_read and path not in FREE and not needs_query:
                assert answer.status_code == 429, (method, path)
                verb = "get" if method == "HEAD" else method.lower()
                assert "429" in documented[route.path_format][verb]["responses"]
            elif not needs_query:
                assert answer.status_code != 429, (method, path)
        assert (await served.get("state", token="carol")).status_code != 429


@in_virtual_time
async def test_retry_after_is_sufficient_and_tight():
    now = asyncio.get_running_loop().time
    async with serving(limits=TIGHT) as served:
        assert (await served.get("state?path=lab.counts/alice/count")).status_code == 200
        refused = await served.get("state")
        assert (refused.status_code, refused.json()["code"]) == (429, "busy")
        may_come = now() + refused.json()["retry_after"]
        assert int(refused.headers["retry-after"]) >= refused.json()["retry_after"]
        await asyncio.sleep(may_come - now() - 2)
        early = await served.get("state")
        assert (early.status_code, early.json()["retry_after"]) == (429, pytest.approx(1))
        await asyncio.sleep(may_come - now())
        assert (await served.get("state")).status_code == 200


@in_virtual_time
async def test_a_refused_caller_that_comes_again_at_once_is_answered_late():
    now = asyncio.get_running_loop().time
    async with serving(limits=TIGHT) as served:
        assert (await served.get("state")).status_code == 200
        began = now()
        assert (await served.get("state")).status_code == 429
        assert now() == began
        again = await asyncio.gather(*(served.get("state") for _ in range(20)))
        assert {one.status_code for one in again} == {429}
        assert now() == began + 1


@in_virtual_time
async def test_a_batch_is_decided_and_others_read_while_a_caller_is_beyond_its_rate():
    async with serving(limits=TIGHT) as served:
        statuses = [(await served.get("state", token="alice")).status_code for _ in range(3)]
        assert statuses == [200, 429, 429]
        assert (await served.submit(add("r1"), token="alice")).status_code == 200
        assert (await served.get("state", token="bob")).status_code == 200
        assert (await served.get("/healthz", token="alice")).status_code == 200


async def seconds_of(served, path, token="operator"):
    """Return how long a caller may read nothing after it has read a path."""
    assert (await served.get(path, token=token)).status_code == 200
    refused = await served.get("state", token=token)
    return 0.0 if refused.status_code == 200 else refused.json()["retry_after"]


@in_virtual_time
async def test_a_read_costs_by_what_it_looks_at():
    names = ("alice", *(f"n{number}" for number in range(30)))
    small, large = ("agents/alice", "state?path=lab.counts/alice"), ("state", "events?limit=100")
    for token in ("operator", "alice"):
        asked = {}
        for path in (*small, *large):
            async with serving(agents=names, limits=TIGHT) as served:
                asked[path] = await seconds_of(served, path, token)
        assert min(asked.values()) > 0
        assert min(asked[path] for path in large) > 3 * max(asked[path] for path in small)


@in_virtual_time
async def test_a_caller_has_one_read_in_work_and_callers_take_turns():
    reads = Reads(HttpLimits(caller_waiting_max=3))
    order = []

    async def read(caller, number):
        async with reads.turn(caller, is_question=False):
            order.append(f"{caller}{number} begins")
            await asyncio.sleep(1)
            order.append(f"{caller}{number} ends")

    async with asyncio.TaskGroup() as tasks:
        for number in range(3):
            tasks.create_task(read("a", number))
        tasks.create_task(read("b", 0))
    assert order[:2] == ["a0 begins", "b0 begins"]
    own = [one for one in order if one.startswith("a")]
    assert own == [f"a{number} {word}" for number in range(3) for word in ("begins", "ends")]


@in_virtual_time
async def test_beyond_the_waiting_ones_a_read_is_refused():
    reads = Reads(HttpLimits(caller_waiting_max=1))
    async with reads.turn("a", is_question=True):
        waiting = asyncio.create_task(reads.turn("a", is_question=True).__aenter__())
        await asyncio.sleep(0)
        with pytest.raises(Problem, match="too many reads of the tokens of 'a' wait"):
            await reads.turn("a", is_question=True).__aenter__()
        async with reads.turn("a", is_question=False), reads.turn("b", is_question=True):
            assert not waiting.done()
    await waiting


PATHS = ("state", "state?path=lab.counts", "state?path=lab.counts/alice", "state?agent=bob")


@pytest.mark.parametrize("token", ["operator", "alice", "bob"])
async def test_a_large_state_is_answered_as_a_small_one(monkeypatch, token):
    async with serving() as served:
        await served.submit(add("r1"))
        for path in PATHS:
            answers = []
            for at_once in (0, 1_000):
                monkeypatch.setattr(state_routes, "_ENTITIES_AT_ONCE_MAX", at_once)
                answer = await served.get(path, token=token)
                answers.append((answer.status_code, answer.json().get("value")))
                async with Socket(served.app, f"{WORLD}/stream", token) as socket:
                    answers.append((await socket.message())["state"])
            assert answers[:2] == answers[2:]


async def test_the_world_goes_on_while_a_large_state_is_encoded(monkeypatch):
    monkeypatch.setattr(state_routes, "_ENTITIES_AT_ONCE_MAX", 0)
    is_begun, may_end = threading.Event(), threading.Event()
    to_json = vars(state_routes)["to_json"]

    def held(value):
        is_begun.set()
        assert may_end.wait(60)
        return to_json(value)

    async with serving() as served:
        monkeypatch.setattr(state_routes, "to_json", held)
        before = served.world.seq
        reading = asyncio.create_task(served.get("state"))
        assert await asyncio.to_thread(is_begun.wait, 20)
        assert (await served.submit(add("r1"))).status_code == 200
        may_end.set()
        read = (await reading).json()
        assert (read["seq"], read["value"]["lab.counts"]["alice"]) == (before, {"count": 0})
        assert (await served.get("state")).json()["value"]["lab.counts"]["alice"] == {"count": 1}


@pytest.mark.parametrize("token", ["operator", "alice"])
async def test_few_events_at_once_make_the_page_of_all_at_once(monkeypatch, token):
    async with serving() as served:
        for number in range(9):
            await served.submit(add(f"r{number}"))
            await served.submit(add(f"b{number}", agent_id="bob"))
        pages = []
        for at_once in (1, 4, 1_000):
            monkeypatch.setattr(state_routes, "_EVENTS_AT_ONCE_MAX", at_once)
            pages.append((await served.get("events", token=token)).json())
        assert pages[0] == pages[1] == pages[2]
        assert len(pages[0]["events"]) > 9


async def test_many_agents_are_listed_as_few(monkeypatch):
    async with serving(agents=()) as served:
        for name in ("b", "a", "d", "c"):
            await served.register(name, owner="carol")
        await served.register("alice")
        pages = []
        for at_once in (0, 1_000):
            monkeypatch.setattr(agent_routes, "_NAMES_AT_ONCE_MAX", at_once)
            for token in ("operator", "carol", "alice", "bob"):
                for query in ("", "?limit=2", "?after=b&limit=2", "?after=c"):
                    page = (await served.get(f"agents{query}", token=token)).json()
                    names = [agent["agent_id"] for agent in page["agents"]]
                    pages.append((token, query, names, page["next"]))
        assert pages[: len(pages) // 2] == pages[len(pages) // 2 :]
        assert ("carol", "?limit=2", ["a", "b"], "b") in pages
        assert ("carol", "?after=b&limit=2", ["c", "d"], None) in pages
        assert ("alice", "", ["alice"], None) in pages
        assert ("bob", "", [], None) in pages


async def test_the_forks_of_a_token_leave_places_to_others():
    claims: Any = {name: {"world": "operator"} for name in ("alice", "bob")}
    config = ServeConfig(claims=claims, limits=HttpLimits(forks_max=5, forks_per_token_max=3))
    async with serving(serve=config) as served:

        async def fork(token):
            answer = await served.post("history/forks", {"record": 1}, token=token)
            return answer.status_code

        assert [await fork("alice") for _ in range(4)] == [201, 201, 201, 409]
        assert [await fork("bob") for _ in range(3)] == [201, 201, 409]


@in_virtual_time
async def test_a_question_is_charged_for_the_records_that_it_reads_and_apart_from_reads():
    limits = TIGHT | {"read_work_burst_max": 3 * QUESTION_WORK}
    async with serving(limits=limits) as served:
        for number in range(200):
            await served.submit(add(f"r{number}"))
        assert (await served.get("history")).status_code == 200  # the pass over the log
        explain = "history/explain?agent=alice&req_id=r0"
        statuses = [(await served.get(explain)).status_code for _ in range(2)]
        assert statuses == [200, 429]  # the first read 200 records
        assert (await served.get("history")).status_code == 429
        assert (await served.get("state?path=lab.counts/alice")).status_code == 200


@in_virtual_time
async def test_a_stream_is_refused_or_delayed_beyond_the_rate():
    path = f"{WORLD}/stream"
    denial: dict[str, Any] = {"websocket.http.response": {}}
    async with (
        serving(limits=TIGHT | {"read_work_per_second_max": 100}) as served,
        Socket(served.app, path, "operator") as socket,
    ):
        assert (await socket.message())["type"] == "snapshot"
        began = asyncio.get_running_loop().time()
        async with Socket(served.app, path, "operator", extensions=denial) as second:
            assert (await second.answer())["status"] == 429
        async with Socket(served.app, path, "alice") as other:
            assert (await other.message())["type"] == "snapshot"
        await served.submit(add("r1"))
        assert (await socket.message())["type"] == "batch"
        assert asyncio.get_running_loop().time() > began


@in_virtual_time
async def test_requests_of_another_application_are_counted_by_their_answers():
    async def large(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(1024 * 1024)})

    reads = Reads(HttpLimits(read_work_burst_max=READ_WORK + 1_000))
    statuses = []

    async def unread():
        raise AssertionError("a read has no body")

    async def send(message):
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    for caller in ("alice", "alice", "bob"):
        await reads.serve(large, caller, {"type": "http"}, unread, send)
    assert statuses == [200, 429, 200]
