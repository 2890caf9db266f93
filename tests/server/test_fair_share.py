"""One caller's large bodies wait for each other, and delay no other caller."""

import asyncio
import json
import time
from statistics import median

import pytest

from placet.schemas.limits import HttpLimits
from placet.server.credentials import Credentials, KnownToken, hash_of
from placet.server.http.fair_share import FairShare, release_body
from tests.actors.virtual_time import in_virtual_time
from tests.cli.command_line import move
from tests.server.clients import Client, flooding
from tests.server.process import running
from tests.server.served import serving

KIB = 1024
LIMITS = HttpLimits(caller_bytes_max=256 * KIB, caller_waiting_max=4, body_seconds_max=10)
KNOWN = Credentials([KnownToken("alice", hash_of("a")), KnownToken("bob", hash_of("b"))])


class Application:
    """Holds each request that it was handed until the test lets it answer."""

    def __init__(self):
        self.held = []

    async def __call__(self, scope, receive, send):
        is_free = asyncio.Event()
        self.held.append(is_free)
        await is_free.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def answer(self, count=1):
        for is_free in self.held[:count]:
            is_free.set()
        del self.held[:count]


class Requests:
    """Requests through the middleware: `statuses` has those of the answered ones."""

    def __init__(self):
        self.application = Application()
        self.app = FairShare(self.application, KNOWN, LIMITS)
        self.answers = []
        self.tasks = []

    def send(self, size=None, token="a", address="10.0.0.1"):
        headers = [(b"authorization", b"Bearer " + token.encode())]
        if size is None:
            headers.append((b"transfer-encoding", b"chunked"))
        else:
            headers.append((b"content-length", str(size).encode()))
        scope = {"type": "http", "headers": headers, "client": (address, 1)}

        async def receive():
            raise AssertionError("no body is read here")

        async def send(message):
            self.answers.append(message)

        self.tasks.append(asyncio.create_task(self.app(scope, receive, send)))

    @property
    def statuses(self):
        return [one["status"] for one in self.answers if one["type"] == "http.response.start"]

    async def in_hand(self):
        """Let all run, and return how many the application has in hand."""
        for _ in range(20):
            await asyncio.sleep(0)
        return len(self.application.held)

    async def end(self):
        while await self.in_hand():
            self.application.answer()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        assert len(self.app.callers) == 0


@in_virtual_time
async def test_bodies_of_a_caller_are_bounded_together_and_read_in_order():
    requests = Requests()
    for size in (200 * KIB, 56 * KIB, 5 * KIB, 100 * KIB):
        requests.send(size)
    assert await requests.in_hand() == 2
    requests.application.answer()
    assert await requests.in_hand() == 3
    await requests.end()
    assert requests.statuses == [200] * 4


@pytest.mark.parametrize("size", [1_000 * KIB, None])
@in_virtual_time
async def test_a_body_larger_than_the_bound_or_of_no_length_goes_alone(size):
    requests = Requests()
    for one in (5 * KIB, size, 5 * KIB):
        requests.send(one)
    for _ in range(3):
        assert await requests.in_hand() == 1
        requests.application.answer()
    await requests.end()


@in_virtual_time
async def test_a_small_body_never_waits():
    requests = Requests()
    requests.send(1_000 * KIB)
    for _ in range(100):
        requests.send(4 * KIB)
    assert await requests.in_hand() == 101
    await requests.end()


@in_virtual_time
async def test_callers_do_not_wait_for_each_other_and_unknown_tokens_are_no_callers():
    requests = Requests()
    for token, address in (("a", "1"), ("b", "1"), ("x", "1"), ("y", "2")):
        requests.send(200 * KIB, token, address)
    assert await requests.in_hand() == 4
    requests.send(200 * KIB, "z", "1")  # another unknown token of an address that has one
    requests.send(200 * KIB, "a", "3")  # alice, from elsewhere
    assert await requests.in_hand() == 4
    await requests.end()


@in_virtual_time
async def test_too_many_waiting_requests_are_answered_429():
    requests = Requests()
    for _ in range(1 + LIMITS.caller_waiting_max + 3):
        requests.send(200 * KIB)
    assert await requests.in_hand() == 1
    assert requests.statuses == [429] * 3
    start, body = requests.answers[:2]
    assert (b"retry-after", b"1") in start["headers"]
    document = json.loads(body["body"])
    assert (document["code"], document["retry_after"]) == ("busy", 1)
    await requests.end()


@in_virtual_time
async def test_a_request_waits_for_a_limited_time():
    requests = Requests()
    requests.send(200 * KIB)
    requests.send(100 * KIB)
    await asyncio.sleep(LIMITS.body_seconds_max + 1)
    assert requests.statuses == [429]
    await requests.end()


@in_virtual_time
async def test_a_canceled_request_leaves_its_place():
    requests = Requests()
    for _ in range(3):
        requests.send(200 * KIB)
    assert await requests.in_hand() == 1
    requests.tasks[1].cancel()
    assert await requests.in_hand() == 1
    requests.application.answer()
    requests.tasks[2].cancel()  # it is admitted in the pass in which it is canceled
    assert await requests.in_hand() == 0
    requests.send(200 * KIB)
    assert await requests.in_hand() == 1
    await requests.end()


@in_virtual_time
async def test_those_behind_a_waiting_request_that_ends_are_admitted_if_they_fit():
    for is_canceled in (False, True):
        requests = Requests()
        requests.send(200 * KIB)
        requests.send(100 * KIB)
        await asyncio.sleep(1)
        requests.send(10 * KIB)
        requests.send(10 * KIB)
        assert await requests.in_hand() == 1
        if is_canceled:
            requests.tasks[1].cancel()
        else:
            await asyncio.sleep(LIMITS.body_seconds_max - 1)
        assert await requests.in_hand() == 3
        await requests.end()


@in_virtual_time
async def test_the_last_request_of_a_caller_leaves_nothing_if_it_is_canceled_when_admitted():
    requests = Requests()
    requests.send(200 * KIB)
    requests.send(200 * KIB)
    assert await requests.in_hand() == 1
    requests.application.answer()
    requests.tasks[1].cancel()
    await requests.end()


@in_virtual_time
async def test_a_released_body_makes_room_before_its_response_and_only_once():
    requests = Requests()
    scopes, application = [], requests.application

    async def recorded(scope, receive, send):
        scopes.append(scope)
        await application(scope, receive, send)

    requests.app._app = recorded
    for _ in range(3):
        requests.send(200 * KIB)
    assert await requests.in_hand() == 1
    release_body(scopes[0])
    release_body(scopes[0])
    assert await requests.in_hand() == 2
    application.answer()
    assert await requests.in_hand() == 1
    await requests.end()


def test_a_body_that_is_not_counted_may_be_released():
    release_body({"type": "http", "headers": []})


async def _chunked(body):
    yield json.dumps(body).encode()


@pytest.mark.parametrize("is_chunked", [False, True])
@in_virtual_time
async def test_batches_held_for_a_step_delay_neither_each_other_nor_the_step(is_chunked):
    async with serving(clock="stepped") as served:

        def post(path, body):
            if not is_chunked:
                return asyncio.create_task(served.post(path, body))
            return asyncio.create_task(served.ask("POST", path, content=_chunked(body)))

        payload = {"action": "note", "text": "x" * 60_000}
        batches = [
            post(
                "batches",
                [
                    {**move("alice", batch * 3 + number), "kind": "Custom", "payload": payload}
                    for number in range(3)
                ],
            )
            for batch in range(4)
        ]
        await asyncio.sleep(1)
        assert served.world._open.actor.held == len(batches)
        assert (await post("step", {"dt": 1})).status_code == 200
        assert [(await batch).status_code for batch in batches] == [200] * len(batches)


def _dry_run(token, intents):
    payload = {"text": "x" * 600}
    speak = [
        {**move("ann", number), "kind": "Speak", "payload": payload} for number in range(intents)
    ]
    body = json.dumps(speak).encode()
    head = "POST /api/v1/worlds/world/dry-run HTTP/1.1\r\nhost: x\r\n"
    head += f"authorization: Bearer {token}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


@pytest.mark.slow
def test_a_neighbor_waits_for_few_of_a_callers_large_dry_runs(tmp_path):
    tokens = "".join(
        f'[[tokens]]\nagent = "{name}"\nsha256 = "{hash_of(name)}"\n' for name in ("ann", "bea")
    )
    tokens += f'[[tokens]]\noperator = true\nsha256 = "{hash_of("operator")}"\n'
    (tmp_path / "tokens.toml").write_text(tokens, "utf-8")
    with running(tmp_path, "--tokens", "tokens.toml", token="operator") as server:
        for name in ("ann", "bea"):
            assert server.post("agents", {"agent_id": name}).status_code == 201
        url, large = server.told["url"], _dry_run("ann", 512)
        with Client(url) as alone:
            seconds = median(_seconds_of(alone, large) for _ in range(5))
        with flooding(url, large, connections=32), Client(url) as neighbor:
            time.sleep(1)
            waited = median(_seconds_of(neighbor, _dry_run("bea", 1)) for _ in range(5))
        assert waited < 8 * seconds


def _seconds_of(client, request):
    start = time.perf_counter()
    client.status(request)
    return time.perf_counter() - start
