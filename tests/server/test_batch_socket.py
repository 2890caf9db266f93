"""Batches over a WebSocket: one answer to each, the same as by POST."""

import asyncio
import json
from typing import Any

import pytest

from placet.schemas.limits import HttpLimits
from placet.server.config import ServeConfig
from tests.actors.virtual_time import turns, until
from tests.kernel.builders import add, intent
from tests.kernel.domains import Lab
from tests.server.served import WORLD, Served, Socket, serving

BATCHES = f"{WORLD}/batches"
DENIES: dict[str, Any] = {"extensions": {"websocket.http.response": {}}}


def say(socket: Socket, number: object, batch: object, **more: object) -> None:
    socket.say(json.dumps({"number": number, "batch": batch, **more}))


async def opened(socket: Socket) -> dict[str, Any]:
    first: dict[str, Any] = await socket.message()
    assert first["type"] == "open"
    return first


async def decided(socket: Socket, number: int, batch: object, **more: object) -> dict[str, Any]:
    say(socket, number, batch, **more)
    answer: dict[str, Any] = await socket.message()
    assert answer["number"] == number
    return answer


async def test_the_first_message_has_what_a_client_must_know():
    limits = {"socket_in_flight_max": 3, "socket_message_bytes_max": 999}
    async with serving(limits=limits) as served, Socket(served.app, BATCHES, "alice") as socket:
        first = await opened(socket)
        assert first["in_flight_max"] == 3
        assert first["message_bytes_max"] == 999
        assert first["seq"] == served.world.seq
        assert first["window"] == {"req_ids": 1024, "seconds": 600}


BATCHES_OF_ALICE: list[object] = [
    [add("r1")],
    [add("r1")],
    [add("r1", 2)],
    intent("Take", {"amount": 99}, "r2"),
    {"intents": [add("r3"), add("r4")], "dry_run": True},
    [add("r5", agent_id="bob")],
    [add("r6", agent_id="nobody")],
    [add("r7") | {"kind": "Nothing"}],
    [{"kind": "Add", "payload": {"amount": 1}, "req_id": "r8"}],
    [{"kind": "Add", "payload": {"amount": 1}}],
    {"intents": [add("r9")], "colour": "red"},
    [],
    7,
    None,
    "x",
    [add("r10") | {"context_seq": 0}],
    [add("r11"), add("r12"), add("r13")],
]


async def by_post(served: Served, socket: Socket, number: int, batch: object) -> tuple[int, Any]:
    content, headers = json.dumps(batch).encode(), {"content-type": "application/json"}
    sending = served.post("batches", content=content, headers=headers, token="alice")
    posting = asyncio.create_task(sending)
    await turns()
    await served.post("step", {"dt": 0.25})
    posted = await posting
    return posted.status_code, posted.json()


async def by_socket(served: Served, socket: Socket, number: int, batch: object) -> tuple[int, Any]:
    say(socket, number, batch)
    await turns()
    await served.post("step", {"dt": 0.25})
    answer = await socket.message()
    assert answer["number"] == number
    return answer["status"], answer["verdict"]


async def test_batches_have_the_verdicts_and_the_log_that_they_have_by_post():
    sides = []
    for submit in (by_post, by_socket):
        async with (
            serving(clock="stepped", quotas={"Add": {"rate": 1, "burst": 3}}) as served,
            Socket(served.app, BATCHES, "alice") as socket,
        ):
            await opened(socket)
            answers = [
                await submit(served, socket, number, batch)
                for number, batch in enumerate(BATCHES_OF_ALICE)
            ]
            head = (await served.get("/readyz")).json()["head"]
            sides.append((answers, head))
    assert sides[0] == sides[1]
    assert {status for status, _ in sides[0][0]} >= {200, 403, 409, 422, 429}


async def test_a_batch_without_req_ids_gets_them_from_the_key():
    async with serving() as served, Socket(served.app, BATCHES, "alice") as socket:
        await opened(socket)
        bare = {"kind": "Add", "payload": {"amount": 1}}
        answer = await decided(socket, 1, [bare, bare], key="walk")
        assert [one["req_id"] for one in answer["verdict"]["results"]] == ["walk:0", "walk:1"]
        again = await decided(socket, 2, [bare, bare], key="walk")
        assert again["verdict"]["replayed"] is True


@pytest.mark.parametrize(
    ("text", "number", "told"),
    [
        ("", None, "a message must be JSON"),
        ("{", None, "a message must be JSON"),
        ("[1]", None, "a message must be an object"),
        ('{"number": 1, "number": 2, "batch": []}', None, "a message must be JSON"),
        ('{"batch": []}', None, "missing fields number"),
        ('{"number": 3}', 3, "missing fields batch"),
        ('{"number": -1, "batch": []}', None, "number: Expected `int` >= 0, got -1"),
        ('{"number": 1.5, "batch": []}', None, "number: Expected `int`, got 1.5"),
        ('{"number": true, "batch": []}', None, "number: Expected `int`, got true"),
        ('{"number": 9007199254740992, "batch": []}', None, "number: Expected `int` <="),
        ('{"number": 1, "batch": [], "colour": 1}', 1, "unknown fields colour; there are number,"),
        ('{"number": 1, "batch": [], "key": "\\n"}', 1, "key: Expected"),
        ('{"number": 1, "batch": NaN}', None, "a message must be JSON"),
        ("[" * 10_000, None, "nested too deeply"),
    ],
)
async def test_an_invalid_message_is_answered_by_a_problem(text, number, told):
    async with serving() as served, Socket(served.app, BATCHES, "alice") as socket:
        await opened(socket)
        socket.say(text)
        answer = await socket.message()
        assert (answer["type"], answer["number"]) == ("problem", number)
        assert answer["problem"]["code"] == "request_invalid"
        assert told in answer["problem"]["detail"]
        assert (await decided(socket, 5, [add("r")]))["status"] == 200


async def test_whole_numbers_are_integers():
    async with serving() as served, Socket(served.app, BATCHES, "alice") as socket:
        await opened(socket)
        socket.say(json.dumps({"number": 7.0, "batch": [add("r")]}))
        assert (await socket.message())["number"] == 7


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("since=0", "since: is for events=true or observe=true"),
        ("latency=0&agent=alice", "agent, latency: is for"),
        ("events=true&observe=true", "and not both"),
        ("events=1.5", "query.events: Expected"),
        ("colour=red", "unknown parameters colour"),
    ],
)
async def test_unsound_parameters_are_a_problem(query, told):
    async with (
        serving() as served,
        Socket(served.app, f"{BATCHES}?{query}", "alice", **DENIES) as socket,
    ):
        assert (await socket.answer())["status"] == 422
        assert told in json.loads((await socket.answer())["body"])["detail"]


@pytest.mark.parametrize(
    ("token", "world", "status"),
    [(None, "world", 401), ("no", "world", 401), ("alice", "no", 404), ("bob", "world", 403)],
)
async def test_a_client_without_the_right_to_submit_is_denied(token, world, status):
    serve = ServeConfig(claims={"bob": {"world": "reader"}})
    path = f"/api/v1/worlds/{world}/batches"
    async with (
        serving(serve=serve) as served,
        Socket(served.app, path, token, **DENIES) as socket,
    ):
        assert (await socket.answer())["status"] == status


async def test_a_token_that_loses_the_world_is_refused_as_by_post():
    async with serving() as served, Socket(served.app, BATCHES, "alice") as socket:
        await opened(socket)
        assert (await decided(socket, 1, [add("r1")]))["status"] == 200
        served.context.access = lambda world, name: None
        answer = await decided(socket, 2, [add("r2")])
        assert (answer["type"], answer["problem"]["status"]) == ("problem", 404)
        posted = await served.submit(add("r2"), token="alice")
        assert posted.json() == answer["problem"]


async def test_events_and_verdicts_share_a_socket():
    async with (
        serving() as served,
        Socket(served.app, f"{BATCHES}?events=true", "alice") as socket,
    ):
        await opened(socket)
        assert (await socket.message())["type"] == "snapshot"
        say(socket, 1, [add("r1")])
        two = await socket.messages(2)
        assert {one["type"] for one in two} == {"verdict", "batch"}


async def test_observations_and_verdicts_share_a_socket():
    async with (
        serving() as served,
        Socket(served.app, f"{BATCHES}?observe=true", "alice") as socket,
    ):
        await opened(socket)
        assert (await socket.message())["kind"] == "snapshot"
        say(socket, 1, [add("r1")])
        two = await socket.messages(2)
        assert {one["type"] for one in two} == {"verdict", "observation"}


async def test_no_more_is_read_than_may_be_in_flight():
    async with (
        serving(clock="stepped", limits={"socket_in_flight_max": 2}) as served,
        Socket(served.app, BATCHES, "alice") as socket,
    ):
        await opened(socket)
        for number in range(5):
            say(socket, number, [add(f"r{number}")])
        await turns()
        assert served.world.statistics()["waiting"] == 2
        await served.post("step", {"dt": 0.1})
        first = await socket.messages(2)
        await until(lambda: served.world.statistics()["waiting"] == 2)
        await served.post("step", {"dt": 0.1})
        second = await socket.messages(2)
        assert [one["number"] for one in first + second] == [0, 1, 2, 3]


async def test_a_batch_outlives_its_socket_and_is_answered_again():
    async with serving(clock="stepped") as served:
        async with Socket(served.app, BATCHES, "alice") as socket:
            await opened(socket)
            say(socket, 1, [add("r1")])
            await turns()
        await served.post("step", {"dt": 0.1})
        told = await served.get("verdicts?agent_id=alice&req_id=r1", token="alice")
        assert told.json()["admitted"] is True
        async with Socket(served.app, BATCHES, "alice") as socket:
            await opened(socket)
            say(socket, 9, [add("r1")])
            await turns()
            await served.post("step", {"dt": 0.1})
            answer = await socket.message()
        assert answer["verdict"]["replayed"] is True
        assert answer["verdict"]["seq"] == told.json()["seq"]


async def test_a_socket_counts_as_a_stream():
    async with serving(limits={"streams_per_token_max": 1}) as served:
        async with (
            Socket(served.app, BATCHES, "alice") as socket,
            Socket(served.app, BATCHES, "alice", **DENIES) as second,
        ):
            await opened(socket)
            assert (await second.answer())["status"] == 429
        assert served.context.streams.count == 0


async def test_large_messages_share_the_bytes_of_their_caller_with_bodies():
    """The first one waits for a step, and its bytes are released: the second is read."""
    serve = ServeConfig(limits=HttpLimits(caller_bytes_max=8_000))
    text = "x" * 6_000
    async with (
        serving(Lab(), serve=serve, clock="stepped") as served,
        Socket(served.app, BATCHES, "alice") as socket,
    ):
        await opened(socket)
        for number in range(2):
            say(socket, number, [add(f"r{number}") | {"kind": text}])
        answers = await socket.messages(2)
        assert [one["number"] for one in answers] == [0, 1]


async def test_binary_and_large_messages_end_the_socket():
    async with serving(limits={"socket_message_bytes_max": 100}) as served:
        for sent, code in (({"bytes": b"{}"}, 1003), ({"text": "é" * 51}, 1009)):
            async with Socket(served.app, BATCHES, "alice") as socket:
                await opened(socket)
                socket.pass_on({"type": "websocket.receive", **sent})
                assert (await socket.answer())["code"] == code


async def test_the_end_of_the_server_answers_first_and_then_closes():
    async with (
        serving(clock="stepped") as served,
        Socket(served.app, BATCHES, "alice") as socket,
    ):
        await opened(socket)
        say(socket, 1, [add("r1")])
        await turns()
        socket.pass_on({"type": "websocket.disconnect", "code": 1012})
        await turns()
        await served.post("step", {"dt": 0.1})
        assert (await socket.message())["verdict"]["admitted"] is True
        closed = await socket.answer()
        assert (closed["type"], closed["code"]) == ("websocket.close", 1012)


async def test_a_drained_server_takes_no_new_socket():
    async with serving() as served:
        served.context.drain()
        async with Socket(served.app, BATCHES, "alice", **DENIES) as socket:
            assert (await socket.answer())["status"] == 503
