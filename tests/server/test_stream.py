"""The stream: events as they happen, at the client's pace, without buffering per client."""

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any

import pytest

from placet.schemas import codec
from placet.schemas.errors import StoreError
from placet.schemas.log.record import LogStart
from placet.server import streams
from placet.server.streams import PageTexts, SendTurns
from tests.actors.virtual_time import in_virtual_time, turns, until
from tests.kernel.builders import add, intent
from tests.kernel.domains import Lab
from tests.server.served import LATEST_SECONDS, WORLD, Served, Socket, serving

STREAM = f"{WORLD}/stream"


async def test_a_client_receives_a_snapshot_then_changes():
    async with serving() as served, Socket(served.app, STREAM, "operator") as socket:
        snapshot = await socket.message()
        assert snapshot["type"] == "snapshot"
        assert snapshot["seq"] == served.world.seq
        assert snapshot["state"]["lab.counts"]["alice"] == {"count": 0}
        await served.submit(add("r1"))
        event = await socket.message()
        assert (event["type"], event["seq"]) == ("batch", snapshot["seq"] + 1)
        await served.submit(intent("Take", {"amount": 99}, "r2"))
        assert (await socket.message())["type"] == "refused"


async def test_a_client_resumes_by_seq_without_gaps():
    async with serving() as served:
        for number in range(4):
            await served.submit(add(f"r{number}"))
        async with Socket(served.app, f"{STREAM}?since=0", "operator") as first:
            told = await first.messages(3)
        since = told[-1]["seq"]
        await served.submit(add("r4"))
        async with Socket(served.app, f"{STREAM}?since={since}", "operator") as second:
            rest = await second.messages(served.world.seq - since)
        assert [event["seq"] for event in told + rest] == list(range(1, served.world.seq + 1))


async def test_resuming_by_record_number_misses_no_refusal():
    async with serving() as served:
        await served.submit(add("r"))
        record = served.world.records
        for number in range(3):
            await served.submit(intent("Take", {"amount": 99}, f"t{number}"))
        async with Socket(served.app, f"{STREAM}?from_record={record}", "operator") as socket:
            told = await socket.messages(3)
        assert [event["type"] for event in told] == ["refused"] * 3
        assert [event["record"] for event in told] == [record, record + 1, record + 2]


@pytest.mark.parametrize("query", ["since=x", "since=-1", "from_record=1.5", "agent="])
@pytest.mark.parametrize("can_deny", [True, False])
async def test_invalid_stream_parameters_are_a_problem(query, can_deny):
    extensions: dict[str, Any] = {"websocket.http.response": {}} if can_deny else {}
    async with (
        serving() as served,
        Socket(served.app, f"{STREAM}?{query}", "operator", extensions=extensions) as socket,
    ):
        answer = await socket.answer()
        if not can_deny:
            expected = {"type": "websocket.close", "code": 1008, "reason": "request_invalid"}
            assert answer == expected
            return
        assert answer["status"] == 422
        body = json.loads((await socket.answer())["body"])
        assert body["code"] == "request_invalid"
        assert body["detail"].startswith(f"query.{query.partition('=')[0]}: ")


async def test_a_stream_of_an_agent_has_visible_changes_only():
    async with (
        serving(Lab(things=["secret"])) as served,
        Socket(served.app, STREAM, "alice") as socket,
    ):
        assert (await socket.message())["state"].keys() == {"lab.counts"}
        put = {"thing": "secret", "field": "value", "value": 1}
        await served.submit(intent("Put", put, "r1", agent_id="bob"))
        await served.submit(add("r2"))
        assert [one["req_id"] for one in (await socket.message())["intents"]] == ["r2"]


async def test_a_stream_ends_when_its_agent_is_removed():
    async with (
        serving(Lab()) as served,
        Socket(served.app, STREAM, "alice") as socket,
    ):
        await socket.message()
        await served.world.remove_agent("alice")
        closed = await socket.answer()
        assert (closed["type"], closed["reason"]) == ("websocket.close", "the agent is gone")
        for query in ("", "?since=0", "?observe=true"):
            async with Socket(served.app, f"{STREAM}{query}", "alice") as again:
                denied = await again.answer()
            assert (denied["type"], denied["reason"]) == ("websocket.close", "not_found")


async def test_an_agent_receives_observations():
    async with (
        serving(Lab(things=["secret"])) as served,
        Socket(served.app, f"{STREAM}?observe=true", "alice") as socket,
    ):
        first = await socket.message()
        assert (first["kind"], first["agent_id"]) == ("snapshot", "alice")
        assert "lab.things/secret" not in [change["entity"] for change in first["changes"]]
        await served.submit(add("r", 2))
        delta = await socket.message()
        assert (delta["type"], delta["kind"]) == ("observation", "delta")
        assert delta["view_seq"] == served.world.seq
        assert [change["fields"] for change in delta["changes"]] == [{"count": 2}]


@pytest.mark.parametrize(
    "late", ["latency=0.5", "latency=0.5&latency_most=0.5", "latency=0.5&latency_per_unit=1"]
)
async def test_observations_are_delayed_as_requested(late):
    async with (
        serving(Lab(), clock="stepped") as served,
        Socket(served.app, f"{STREAM}?observe=true&{late}", "alice") as socket,
    ):
        assert (await socket.answer())["type"] == "websocket.accept"
        await until(lambda: bool(served.world.statistics()["observers"]))
        begun = served.world.seq
        for _ in range(2):
            await turns()
            assert not socket.has_more()
            await served.post("step", {"dt": 0.25})
        first = await socket.message()
        assert (first["kind"], first["view_seq"]) == ("snapshot", begun)


async def test_observing_ends_when_the_agent_is_removed():
    async with (
        serving() as served,
        Socket(served.app, f"{STREAM}?observe=true", "alice") as socket,
    ):
        await socket.message()
        await served.world.remove_agent("alice")
        closed = await socket.answer()
    assert (closed["type"], closed["reason"]) == ("websocket.close", "the agent is gone")


async def test_observing_ends_when_the_world_closes():
    async with (
        serving() as served,
        Socket(served.app, f"{STREAM}?observe=true", "alice") as socket,
    ):
        await socket.message()
        await served.world.close()
        closed = await socket.answer()
    assert (closed["type"], closed["reason"]) == ("websocket.close", "the world is closed")


@pytest.mark.parametrize("place", ["since", "from_record"])
async def test_resuming_from_another_log_does_not_hang(place):
    async with serving() as served:
        end = served.world.seq if place == "since" else served.world.records
        async with Socket(served.app, f"{STREAM}?{place}={end + 1}", "operator") as socket:
            assert (await socket.message())["type"] == "snapshot"
        async with Socket(served.app, f"{STREAM}?{place}={end}", "operator") as socket:
            await served.submit(add("r"))
            assert (await socket.message())["type"] == "batch"


@pytest.mark.parametrize(
    ("path", "token", "code"),
    [
        (f"{STREAM}?observe=true", "operator", "request_invalid"),
        (f"{STREAM}?observe=true&agent=bob", "alice", "forbidden"),
        (f"{STREAM}?latency=1", "alice", "request_invalid"),
        (f"{STREAM}?observe=true&latency=2&latency_most=1", "alice", "request_invalid"),
        (f"{STREAM}?observe=true&latency=-1", "alice", "request_invalid"),
        (f"{STREAM}?observe=true&latency=inf", "alice", "request_invalid"),
        (
            f"{STREAM}?observe=true&latency_most=1&latency_per_unit=1",
            "alice",
            "request_invalid",
        ),
        (STREAM, None, "unauthenticated"),
        (STREAM, "nobody", "unauthenticated"),
        (f"{STREAM}?agent=alice", "bob", "forbidden"),
        (f"{STREAM}?agent=nobody", "operator", "not_found"),
        ("/api/v1/worlds/other/stream", "operator", "not_found"),
    ],
)
async def test_a_refused_handshake_has_the_reason(path, token, code):
    async with serving() as served:
        async with Socket(served.app, path, token) as socket:
            closed = await socket.answer()
        assert (closed["type"], closed["reason"]) == ("websocket.close", code)
        extensions: dict[str, object] = {"websocket.http.response": {}}
        async with Socket(served.app, path, token, extensions=extensions) as socket:
            denied = await socket.answer()
        assert denied["type"] == "websocket.http.response.start"
        assert denied["status"] in {401, 403, 404, 422}
        assert [name for name, _ in denied["headers"]].count(b"x-request-id") == 1


async def test_a_refused_handshake_has_the_clients_request_id():
    async with serving() as served:
        socket = Socket(
            served.app,
            STREAM,
            None,
            headers=[(b"x-request-id", b"mine")],
            extensions={"websocket.http.response": {}},
        )
        async with socket:
            assert (b"x-request-id", b"mine") in (await socket.answer())["headers"]


async def test_a_browser_sends_its_token_as_a_subprotocol():
    async with serving() as served:
        offered = ["placet", "bearer.token-of-alice"]
        async with Socket(served.app, STREAM, None, subprotocols=offered) as socket:
            accepted = await socket.answer()
            assert accepted["type"] == "websocket.accept"
            assert accepted["subprotocol"] == "placet"


async def test_a_slow_client_receives_one_snapshot_and_continues():
    async with (
        serving(limits={"stream_lag_seqs_max": 5}) as served,
        Socket(served.app, STREAM, "operator") as socket,
    ):
        await socket.message()
        await served.submit(add("r0"))
        await socket.message()
        socket.is_taking.clear()
        for number in range(1, 40):
            await served.submit(add(f"r{number}"))
        socket.is_taking.set()
        told: list[Any] = []
        while not told or told[-1]["seq"] < served.world.seq:
            told.append(await socket.message())
        snapshots = [one for one in told if one["type"] == "snapshot"]
        assert len(snapshots) == 1
        assert snapshots[0]["state"]["lab.counts"]["alice"] == {"count": 40}
        assert len(told) < 40
        await served.submit(add("after"))
        assert (await socket.message())["intents"][0]["req_id"] == "after"


async def test_resuming_too_late_starts_with_a_snapshot():
    async with serving(limits={"stream_lag_seqs_max": 5}) as served:
        for number in range(10):
            await served.submit(add(f"r{number}"))
        async with Socket(served.app, f"{STREAM}?since=1", "operator") as socket:
            assert (await socket.message())["type"] == "snapshot"
            await turns()
            assert not socket.has_more()


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("since=1", "snapshot"),
        ("from_record=2", "snapshot"),
        ("since=2", "registered"),
        ("from_record=3", "registered"),
    ],
)
async def test_resuming_before_compaction_starts_with_a_snapshot(query, first, monkeypatch):
    async with serving() as served:
        monkeypatch.setattr(served.world._open.log, "start", lambda: LogStart(3, 2))
        async with Socket(served.app, f"{STREAM}?{query}", "operator") as socket:
            assert (await socket.message())["type"] == first


async def test_a_slow_client_does_not_delay_others():
    async with (
        serving(limits={"stream_lag_seqs_max": 5}) as served,
        Socket(served.app, STREAM, "operator") as slow,
        Socket(served.app, STREAM, "operator") as fast,
    ):
        await slow.message()
        await fast.message()
        slow.is_taking.clear()
        for number in range(30):
            await served.submit(add(f"r{number}"))
            assert (await fast.message())["intents"][0]["req_id"] == f"r{number}"


@in_virtual_time
async def test_a_client_that_reads_nothing_is_disconnected():
    async with serving(limits={"stream_send_seconds_max": 3}) as served:
        async with Socket(served.app, STREAM, "operator") as socket:
            await socket.message()
            socket.is_taking.clear()
            await served.submit(add("r"))
            assert socket.task is not None
            await asyncio.sleep(10)
            assert socket.task.done()
            assert served.context.streams.count == 0
        assert served.world.statistics()["observers"] == 0


async def test_a_disconnected_client_leaves_no_subscription():
    async with serving() as served:
        before = asyncio.all_tasks()
        for _ in range(5):
            async with Socket(served.app, STREAM, "operator") as socket:
                await socket.message()
                assert served.context.streams.count == 1
        assert served.context.streams.count == 0
        assert served.world.statistics()["observers"] == 0
        assert asyncio.all_tasks() == before


async def test_the_number_of_streams_is_bounded():
    async with serving(limits={"streams_max": 1}) as served:
        async with Socket(served.app, STREAM, "operator") as first:
            await first.message()
            async with Socket(served.app, STREAM, "operator") as second:
                assert (await second.answer())["reason"] == "unavailable"
        async with Socket(served.app, STREAM, "operator") as third:
            assert (await third.message())["type"] == "snapshot"


async def test_a_closing_world_closes_its_streams_with_a_code():
    async with serving() as served:
        async with Socket(served.app, STREAM, "operator") as socket:
            await socket.message()
            await served.world.close()
            closed = await socket.answer()
        assert (closed["type"], closed["code"]) == ("websocket.close", 1001)


async def test_a_client_that_sends_a_message_is_disconnected():
    async with serving() as served:
        async with Socket(served.app, STREAM, "operator") as socket:
            await socket.message()
            socket.say("hello")
            closed = await socket.answer()
        assert (closed["code"], closed["reason"]) == (1008, "a stream takes no messages")
        assert served.context.streams.count == 0


class ClosedSocket(Socket):
    """A client whose connection has closed the stream, as after a message or a broken frame."""

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "websocket.send":
            raise RuntimeError("Unexpected ASGI message 'websocket.send'")  # as uvicorn does
        await super()._send(message)


async def test_a_stream_that_sends_after_its_connection_closed_it_ends_without_an_exception():
    async with serving() as served:
        async with ClosedSocket(served.app, STREAM, "operator") as socket:
            assert (await socket.answer())["type"] == "websocket.accept"
            assert socket.task is not None
            await asyncio.wait_for(socket.task, LATEST_SECONDS)
        assert served.context.streams.count == 0


async def test_a_token_has_a_limited_number_of_streams():
    extensions: dict[str, Any] = {"websocket.http.response": {}}
    async with serving(limits={"streams_per_token_max": 2}) as served:
        async with (
            Socket(served.app, STREAM, "alice") as first,
            Socket(served.app, STREAM, "alice") as second,
            Socket(served.app, STREAM, "bob") as other,
        ):
            for socket in (first, second, other):
                await socket.message()
            async with Socket(served.app, STREAM, "alice", extensions=extensions) as third:
                assert (await third.answer())["status"] == 429
                problem = json.loads((await third.answer())["body"])
            assert problem["code"] == "busy"
            assert "2 streams are open with the tokens of 'alice'" in problem["detail"]
            async with Socket(served.app, STREAM, "alice") as third:
                assert (await third.answer())["reason"] == "busy"
        async with Socket(served.app, STREAM, "alice") as again:
            assert (await again.message())["type"] == "snapshot"


async def test_handshakes_at_the_same_time_are_all_counted():
    async with serving(limits={"streams_per_token_max": 2}) as served, AsyncExitStack() as stack:
        sockets = [Socket(served.app, STREAM, "alice") for _ in range(4)]
        for socket in sockets:
            await stack.enter_async_context(socket)
        answers = sorted([(await socket.answer())["type"] for socket in sockets])
        assert answers == ["websocket.accept"] * 2 + ["websocket.close"] * 2


@pytest.mark.parametrize("query", ["", "?agent=alice"])
async def test_streams_of_one_viewer_share_the_text_of_a_message(query, monkeypatch):
    encoded: list[str] = []
    to_json = codec.to_json

    def counted(message: Any) -> bytes:
        encoded.append(message["type"])
        return to_json(message)

    async with serving() as served, AsyncExitStack() as stack:
        sockets = [Socket(served.app, STREAM + query, "operator") for _ in range(16)]
        for socket in sockets:
            await stack.enter_async_context(socket)
            assert (await socket.message())["type"] == "snapshot"
        monkeypatch.setattr("placet.server.routes.stream.to_json", counted)
        await served.submit(add("r"))
        messages = [await socket.message() for socket in sockets]
        assert messages == [messages[0]] * 16
        assert encoded == ["batch"]


async def test_streams_begin_to_send_in_turns():
    send_turns, taken = SendTurns(), list[int]()
    current = 0

    async def send() -> None:
        await send_turns.take()
        taken.append(current)

    tasks = [asyncio.create_task(send()) for _ in range(20)]
    await asyncio.sleep(0)
    tasks[9].cancel()
    while len(taken) < 19:
        current += 1
        await asyncio.sleep(0)
    assert max(taken.count(number) for number in taken) <= 8


def test_the_texts_that_are_kept_are_bounded(monkeypatch):
    monkeypatch.setattr(streams, "_TEXT_CHARS_MAX", 100)
    texts = PageTexts()
    for page in range(10):
        texts.put(page, ["x" * 39])
    assert [page for page in range(10) if texts.get(page)] == [8, 9]
    texts.put(10, ["x" * 101])
    assert texts.get(10) is None


@pytest.mark.parametrize("query", ["", "&agent=alice"])
async def test_a_stream_shows_no_record_that_a_reopened_log_lost(query, tmp_path, monkeypatch):
    async def first_event(served: Served, record: int) -> Any:
        path = f"{STREAM}?from_record={record}{query}"
        async with Socket(served.app, path, "operator") as socket:
            return await socket.message()

    store = f"sqlite:///{tmp_path}/w.db?synchronous=off"
    async with serving(store=store, snapshot_every_seqs=None) as served:
        record = served.world.records
        kept = {path: path.read_bytes() for path in tmp_path.glob("w.db*")}
        await served.submit(add("old"))
        lost = await first_event(served, record)
        reopened = asyncio.Event()
        served.context.worlds.on_reopened.append(lambda _world: reopened.set())
        failed = served.world._open
        close = failed.log.close

        def close_after_a_loss_of_power() -> None:
            close()
            for path in tmp_path.glob("w.db*"):
                path.unlink()
            for path, data in kept.items():
                path.write_bytes(data)

        monkeypatch.setattr(failed.log, "close", close_after_a_loss_of_power)
        failed._on_escalation("committer", StoreError("the power failed"))
        async with asyncio.timeout(LATEST_SECONDS):
            await reopened.wait()
        assert served.world.records == record
        await served.submit(add("new"))
        shown = await first_event(served, record)
        assert shown["intents"][0]["req_id"] == "new"
        assert shown["record"] == lost["record"], "the record was not written anew"


@pytest.mark.parametrize("query", ["", "?agent=alice&observe=true"])
async def test_a_failing_world_closes_its_streams_with_a_code(query):
    async with serving() as served:
        async with Socket(served.app, STREAM + query, "alice") as socket:
            await socket.message()
            served.world._open._on_escalation("committer", StoreError("the disk is gone"))
            closed = await socket.answer()
        assert (closed["type"], closed["code"]) == ("websocket.close", 1001)
