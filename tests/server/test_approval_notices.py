"""Notices of new requests: signed, repeated, and beside the gate, which no receiver holds up."""

import hmac
import json
import queue
import sys
import threading
import time
from base64 import b64decode, b64encode
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from placet.schemas.event import Event
from placet.server import create_app
from placet.server.approvals.channels import (
    CommandChannel,
    NoticesError,
    NotSent,
    WebhookChannel,
    channels_of,
    secret_bytes,
)
from placet.server.approvals.notices import new_requests
from placet.server.approvals_config import ApprovalsConfig
from placet.server.config import ServeConfig
from tests.server.approval_server import LATEST_SECONDS, running_desk

SECRET = "whsec_" + b64encode(b"a secret of thirty-two bytes....").decode()
ENVIRON = {"HOOK_SECRET": SECRET}


class Receiver(ThreadingHTTPServer):
    """A receiver of webhooks, which answers with the statuses that a test sets."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.got: queue.Queue[tuple[dict[str, str], bytes]] = queue.Queue()
        self.statuses: queue.Queue[int] = queue.Queue()
        self.hangs = threading.Event()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/hook"


class Answer(BaseHTTPRequestHandler):
    def do_POST(self):
        receiver = self.server
        assert isinstance(receiver, Receiver)
        body = self.rfile.read(int(self.headers["content-length"]))
        receiver.got.put((dict(self.headers), body))
        if receiver.hangs.is_set():
            time.sleep(LATEST_SECONDS)
        self.send_response(receiver.statuses.get() if receiver.statuses.qsize() else 204)
        self.end_headers()

    def log_message(self, *_):
        return


@contextmanager
def receiving():
    with Receiver() as receiver:
        thread = threading.Thread(target=receiver.serve_forever, daemon=True)
        thread.start()
        yield receiver
        receiver.shutdown()
        thread.join()


def webhook_of(url):
    return json.dumps({"webhook": url, "webhook_secret_env": "HOOK_SECRET"})


def is_signed(headers, body):
    """Check a signature as a receiver does, by the words of the standard."""
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = hmac.digest(b64decode(SECRET.removeprefix("whsec_")), signed, "sha256")
    return headers["webhook-signature"] == "v1," + b64encode(expected).decode()


def metrics(desk):
    text = httpx.get(f"{desk.url}/metrics", headers=desk.headers("operator")).text
    prefix = "placet_approval_notices_total"
    return {
        line.split(" ")[0].removeprefix(prefix): float(line.split(" ")[1])
        for line in text.splitlines()
        if line.startswith(prefix)
    }


def test_a_new_request_is_sent_with_a_signature_and_again_after_a_failure(tmp_path):
    with receiving() as receiver:
        receiver.statuses.put(503)
        store = f"sqlite:///{tmp_path}/desk.db"
        with running_desk(store, webhook_of(receiver.url), environ=ENVIRON) as desk:
            request = desk.ask(["desk.pay", {"to": "zoe", "euro": 200}], role="manager")
            first = receiver.got.get(timeout=LATEST_SECONDS)
            second = receiver.got.get(timeout=LATEST_SECONDS)
            for headers, body in (first, second):
                assert is_signed(headers, body)
                assert headers["webhook-id"] == request
            sent = json.loads(second[1])
            assert sent["type"] == "approval.requested"
            assert sent["data"]["world"] == "world"
            approval = sent["data"]["approval"]
            assert (approval["id"], approval["deciders"]) == (request, ["ann"])
            assert approval["calls"][0]["payload"] == {"to": "zoe", "euro": 200}
            denied = desk.ask(["desk.pay", {"to": "yan", "euro": 50}])
            assert receiver.got.get(timeout=LATEST_SECONDS)[0]["webhook-id"] == denied
            desk.decide(denied, "deny")
            while (found := metrics(desk))['{channel="webhook",outcome="sent"}'] < 2:
                continue
            assert found['{channel="webhook",outcome="retried"}'] == 1
            assert SECRET not in httpx.get(f"{desk.url}/openapi.json").text
        # A new process does not know whether the notice arrived: the open request is sent again.
        with running_desk(store, webhook_of(receiver.url), environ=ENVIRON):
            assert receiver.got.get(timeout=LATEST_SECONDS)[0]["webhook-id"] == request
            assert receiver.got.empty()


@pytest.mark.parametrize("kind", ["dead", "hanging"])
def test_a_dead_or_hanging_webhook_holds_nothing_up(kind, tmp_path):
    errors = tmp_path / "errors.txt"
    with receiving() as receiver, errors.open("w") as stderr:
        receiver.hangs.set()
        url = receiver.url if kind == "hanging" else "http://127.0.0.1:9/hook"
        with running_desk("memory://", webhook_of(url), environ=ENVIRON, stderr=stderr) as desk:
            for k in range(8):  # more than are sent at a time
                request = desk.ask(["desk.pay", {"to": f"to{k}", "euro": 50}])
                assert desk.decide(request).json()["state"] == "approved"
                if kind == "hanging" and k == 0:  # it was decided while the attempt still runs
                    receiver.got.get(timeout=LATEST_SECONDS)
                    assert set(metrics(desk).values()) == {0.0}
            if kind == "dead":
                desk.ask(["desk.pay", {"to": "last", "euro": 50}])
                while metrics(desk)['{channel="webhook",outcome="retried"}'] < 1:
                    continue
    assert kind == "hanging" or "the webhook of approvals failed" in errors.read_text()
    assert SECRET not in errors.read_text()


def test_a_command_gets_the_request_on_stdin(tmp_path):
    target = tmp_path / "got.json"
    code = f"import sys; open({str(target)!r}, 'w').write(sys.stdin.read())"
    command = json.dumps({"command": [sys.executable, "-c", code]})
    receiver = f"$(touch {tmp_path}/shell); `touch {tmp_path}/shell`"
    with running_desk("memory://", command) as desk:
        request = desk.ask(["desk.pay", {"to": receiver, "euro": 50}])
        while metrics(desk)['{channel="command",outcome="sent"}'] < 1:
            continue
    approval = json.loads(target.read_text())["data"]["approval"]
    assert (approval["id"], approval["calls"][0]["payload"]["to"]) == (request, receiver)
    assert not (tmp_path / "shell").exists()


@pytest.mark.parametrize(
    ("status", "is_final"), [(204, None), (302, None), (500, False), (429, False), (404, True)]
)
async def test_a_webhook_reports_its_status(status, is_final):
    with receiving() as receiver:
        receiver.statuses.put(status)
        webhook = WebhookChannel(receiver.url, b"s", now=lambda: 7.9)
        if is_final is None:
            await webhook.send("id", b"{}")
        else:
            with pytest.raises(NotSent, match=f"status {status}") as caught:
                await webhook.send("id", b"{}")
            assert caught.value.is_final is is_final
        await webhook.close()
        assert receiver.got.get()[0]["webhook-timestamp"] == "7"


async def test_a_command_that_fails_or_never_ends_is_reported(monkeypatch):
    with pytest.raises(NotSent, match="exit code 3"):
        await CommandChannel([sys.executable, "-c", "raise SystemExit(3)"]).send("id", b"{}")
    with pytest.raises(NotSent, match="does not start"):
        await CommandChannel(["/no/such/program"]).send("id", b"{}")
    monkeypatch.setattr("placet.server.approvals.channels._COMMAND_SECONDS_MAX", 0.2)
    with pytest.raises(NotSent, match="did not end"):
        await CommandChannel([sys.executable, "-c", "import time; time.sleep(600)"]).send(
            "id", b"{}"
        )


@pytest.mark.parametrize(
    ("config", "environ", "message"),
    [
        (
            {"webhook": "https://a.example/h", "webhook_secret_env": "HOOK_SECRET"},
            {},
            "the environment has no HOOK_SECRET",
        ),
        (
            {"webhook": "https://a.example/h", "webhook_secret_env": "HOOK_SECRET"},
            {"HOOK_SECRET": "whsec_?"},
            "base64 must follow",
        ),
        ({"command": ["no-such-program"]}, {}, "there is no program 'no-such-program'"),
    ],
)
def test_notices_that_cannot_be_sent_are_a_fault_at_start(monkeypatch, config, environ, message):
    monkeypatch.delenv("HOOK_SECRET", raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(NoticesError, match=message):
        create_app(serve=ServeConfig(approvals=ApprovalsConfig(**config)))


def test_a_secret_is_base64_after_its_prefix_and_plain_text_without():
    assert secret_bytes("whsec_YWJj") == b"abc"
    assert secret_bytes("abc") == b"abc"
    assert channels_of(ApprovalsConfig(), {}) == []


def test_only_a_request_that_opens_is_new():
    def changed(*changes):
        return [Event(1, 1, "batch", 0.0, {"changes": list(changes)})]

    def change(entity, fields, whole):
        return {"entity": f"approvals.{entity}", "fields": fields, "whole": whole}

    assert new_requests(changed(change("requests/a", {"state": "open"}, True))) == ["a"]
    assert new_requests(changed(change("requests/a", {"state": "approved"}, True))) == []
    assert new_requests(changed(change("requests/a", {"state": "open"}, False))) == []
    assert new_requests(changed(change("requests/a", None, True))) == []
    assert new_requests(changed(change("plans/a", {"state": "open"}, True))) == []
