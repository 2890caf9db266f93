"""Requests for approval at a real server: as events, with real outcomes, across a restart."""

import json

import httpx
import pytest

from tests.server.approval_server import LATEST_SECONDS, running_desk


@pytest.fixture(scope="module")
def desk():
    with running_desk() as server:
        yield server


class Events:
    """The server-sent events of an open stream."""

    def __init__(self, answer):
        self._lines = answer.iter_lines()

    def next(self):
        """Return the name and the data of the next event."""
        name = ""
        for line in self._lines:
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                return name, json.loads(line.removeprefix("data: "))
        raise AssertionError("the stream has ended")


def follow(desk, token):
    return httpx.stream(
        "GET",
        f"{desk.world}/approvals/events",
        headers=desk.headers(token),
        timeout=LATEST_SECONDS,
    )


def test_requests_and_decisions_arrive_as_events(desk):
    first = desk.ask(["desk.pay", {"to": "events", "euro": 50}])
    with follow(desk, "bob") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = Events(answer)
        name, data = events.next()
        assert (name, data["id"], data["decides"]) == ("open", first, True)
        hidden = desk.ask(["desk.pay", {"to": "events", "euro": 200}], role="manager")
        second = desk.ask(["desk.pay", {"to": "events", "euro": 60}], seconds=1)
        name, data = events.next()  # a request of managers alone is not sent to bob
        assert (name, data["id"]) == ("open", second)
        assert desk.decide(first, "deny", "ann", reason="no").status_code == 200
        name, data = events.next()
        assert (name, data["id"], data["by"], data["reason"]) == ("denied", first, "ann", "no")
        assert events.next()[0] == "expired"
    assert desk.decide(hidden, "deny", "ann").status_code == 200


def test_streams_are_for_known_tokens_and_limited(desk):
    url = f"{desk.world}/approvals/events"
    assert httpx.get(url).status_code == 401
    with httpx.Client(timeout=LATEST_SECONDS) as client:
        opened = [
            client.send(client.build_request("GET", url, headers=desk.headers("zed")), stream=True)
            for _ in range(17)
        ]
        assert [one.status_code for one in opened] == [200] * 16 + [429]
        for one in opened:
            one.close()


def test_the_real_outcome_of_a_call_is_shown(desk):
    calls = [["bank.send", {"answer": answer}] for answer in ("7", "failed", "doubt")]
    request = desk.ask(*calls)
    assert desk.decide(request).json()["state"] == "approved"
    while True:
        found = desk.get(f"approvals/{request}").json()["calls"]
        if all(one["status"] != "running" for one in found):
            break
    assert [one["status"] for one in found] == ["done", "failed", "doubt"]
    assert found[0]["output"] == {"receipt": "7"}
    assert "no such account" in json.dumps(found[1]["output"])
    assert "the line went dead" in json.dumps(found[2]["output"])


def test_a_request_outlives_the_server_and_is_decided_after(tmp_path):
    store = f"sqlite:///{tmp_path}/desk.db"
    with running_desk(store) as server:
        request = server.ask(["desk.pay", {"to": "zoe", "euro": 50}])
        done = server.ask(["bank.send", {"answer": "7"}])
        assert server.decide(done).status_code == 200
    with running_desk(store) as server:
        (one,) = server.get("approvals?state=open").json()["approvals"]
        assert one["id"] == request
        assert server.decide(request).json()["by"] == "ann"
        assert server.decide(request, "deny").status_code == 409
        while (call := server.get(f"approvals/{done}").json()["calls"][0])["status"] == "running":
            pass
        assert call["status"] in {"done", "doubt"}  # the first server may have ended meanwhile


def test_the_server_ends_while_a_stream_is_open():
    with running_desk() as server:
        request = server.ask(["desk.pay", {"to": "zoe", "euro": 50}])
        with follow(server, "bob") as answer:
            events = Events(answer)
            assert events.next()[1]["id"] == request
            server.process.stdin.close()
            server.process.terminate()
            with pytest.raises(AssertionError, match="the stream has ended"):
                events.next()
        assert server.process.wait(LATEST_SECONDS) == 143
