"""`placet serve` and `placet token` as commands, in real processes with real sockets."""

import asyncio
import json
import signal
import socket
import sys
import time
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from placet.schemas.errors import PlacetError
from placet.server import ExtraMissing, create_app
from placet.server.config import ServeConfig
from placet.server.credentials import hash_of
from placet.server.listener import listen, url_of
from tests.cli.command_line import Process, move, run_process
from tests.server.process import LATEST_SECONDS, running


@pytest.mark.slow
def test_a_world_is_served_until_a_signal_and_accepted_batches_are_logged(tmp_path):
    with running(tmp_path, "--store", "sqlite:///town.db") as server:
        assert server.client.get("/readyz").status_code == 200
        assert server.post("agents", {"agent_id": "ann"}).status_code == 201
        verdict = server.post("batches", [move("ann", 1)]).json()
        assert (verdict["admitted"], verdict["durability"]) == (True, "full")
        server.process.send_signal(signal.SIGTERM)
        outcome = server.process.end()
    assert (outcome.code, outcome.err) == (143, "")
    with running(tmp_path, "--store", "sqlite:///town.db") as server:
        again = server.post("batches", [move("ann", 1)]).json()
        assert (again["replayed"], again["seq"]) == (True, verdict["seq"])
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait() == 130
    assert run_process("verify", "town.db", folder=tmp_path).code == 0


def test_the_asyncio_loop_serves_when_uvloop_is_missing(tmp_path, monkeypatch):
    (tmp_path / "uvloop.py").write_text("raise ModuleNotFoundError", "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with running(tmp_path) as server:
        assert server.client.get("/readyz").status_code == 200
        server.process.send_signal(signal.SIGTERM)
        outcome = server.process.end()
    assert (outcome.code, outcome.err) == (143, "")


@pytest.mark.slow
def test_requests_in_flight_are_answered_before_shutdown(tmp_path):
    arguments = ("--set", "clock=stepped", "--set", "serve.drain_seconds=4")
    with running(tmp_path, *arguments) as server, ThreadPoolExecutor() as threads:
        server.post("agents", {"agent_id": "ann"})
        asking = threads.submit(server.post, "batches", [move("ann", 1)])
        depth = 'placet_mailbox_depth{actor="orchestrator"} 1.0'
        with httpx.Client(base_url=server.told["url"], headers=server.headers) as second:
            until(lambda: depth in second.get("/metrics").text)
            server.process.send_signal(signal.SIGTERM)
            until(lambda: second.get("/readyz").status_code == 503)
            stepped = second.post("/api/v1/worlds/world/step", json={"dt": 1})
        assert (stepped.status_code, asking.result().status_code) == (200, 200)
        assert server.process.wait() == 143


@pytest.mark.slow
def test_requests_abandoned_at_shutdown_are_answered_503(tmp_path):
    arguments = ("--set", "clock=stepped", "--set", "limits.shutdown_seconds_max=1")
    with running(tmp_path, *arguments) as server, ThreadPoolExecutor() as threads:
        server.post("agents", {"agent_id": "ann"})
        named = {"x-request-id": "mine"}
        asking = threads.submit(server.post, "batches", [move("ann", 1)], headers=named)
        depth = 'placet_mailbox_depth{actor="orchestrator"} 1.0'
        with httpx.Client(base_url=server.told["url"], headers=server.headers) as second:
            until(lambda: depth in second.get("/metrics").text)
        server.process.send_signal(signal.SIGTERM)
        outcome = server.process.end()
        answer = asking.result()
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert (answer.headers["retry-after"], answer.headers["x-request-id"]) == ("1", "mine")
    assert outcome.code == 143
    assert "Traceback" not in outcome.err


def until(is_true: Callable[[], bool]) -> None:
    """Ask until it is so."""
    latest = time.monotonic() + LATEST_SECONDS
    while not is_true():
        assert time.monotonic() < latest
        time.sleep(0.05)


@pytest.mark.slow
def test_a_stream_is_served_resumed_and_closed(tmp_path):
    with running(tmp_path) as server:
        server.post("agents", {"agent_id": "ann"})
        url = server.told["url"].replace("http", "ws") + "/api/v1/worlds/world/stream"

        async def scenario() -> None:
            async with connect(url, additional_headers=server.headers) as stream:
                assert json.loads(await stream.recv())["type"] == "snapshot"
                await asyncio.to_thread(server.post, "batches", [move("ann", 1)])
                seq = json.loads(await stream.recv())["seq"]
            await asyncio.to_thread(server.post, "batches", [move("ann", 2)])
            async with connect(f"{url}?since={seq}", additional_headers=server.headers) as stream:
                assert json.loads(await stream.recv())["intents"][0]["req_id"] == "ann:2"
                pong = await stream.ping()
                await pong
                server.process.send_signal(signal.SIGTERM)
                with pytest.raises(ConnectionClosed):
                    await stream.recv()

        async def denied() -> None:
            with pytest.raises(InvalidStatus) as refused:
                await connect(url)
            assert refused.value.response.status_code == 401

        asyncio.run(denied())
        asyncio.run(scenario())
        outcome = server.process.end()
        assert outcome.code == 143
        assert "handshake" not in outcome.err


@pytest.mark.slow
def test_a_client_that_disconnects_does_not_harm_the_server(tmp_path):
    with running(tmp_path) as server:
        host, port = server.told["url"].removeprefix("http://").split(":")
        for part in (
            b"",
            b"GET",
            b"POST /api/v1/worlds/world/batches HTTP/1.1\r\n",
            b"\x00\xff\r\n",
        ):
            with socket.create_connection((host, int(port))) as half_open:
                half_open.sendall(part)
        head = (
            "POST /api/v1/worlds/world/batches HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n"
            f"authorization: {server.headers['authorization']}\r\n\r\n["
        )
        with socket.create_connection((host, int(port))) as in_the_middle:
            in_the_middle.sendall(head.encode())
        assert server.client.get("/readyz").status_code == 200
        server.process.send_signal(signal.SIGTERM)
        outcome = server.process.end()
        assert outcome.code == 143
        assert "Traceback" not in outcome.err


@pytest.mark.slow
def test_a_token_is_printed_only_when_none_is_configured(tmp_path):
    made = run_process("token", "new", "--agent", "ann", folder=tmp_path)
    token = made.err.split()[-1]
    assert token not in made.out
    (tmp_path / "tokens.toml").write_text(made.out, encoding="utf-8")
    assert tomllib.loads(made.out)["tokens"] == [{"agent": "ann", "sha256": hash_of(token)}]
    with running(tmp_path, "--tokens", "tokens.toml") as server:
        assert server.told["operator_token"] is None
        headers = {"authorization": f"Bearer {token}"}
        assert server.client.get("/api/v1/worlds", headers=headers).status_code == 200
        assert server.post("agents", {"agent_id": "ann"}).status_code == 401
    with Process("serve", "--port", "0", folder=tmp_path) as plain:
        lines = [plain.err.readline().decode() for _ in range(3)]
    assert "world 'world' of domain world at http://127.0.0.1:" in lines[0]
    assert "the operator's token" in lines[1]
    token = lines[1].split()[-1]
    assert (
        lines[2]
        == f"placet serve: dashboard at {lines[0].split()[-3].rstrip(',')}/#token={token}\n"
    )


@pytest.mark.slow
def test_the_printed_page_address_has_the_generated_token_only(tmp_path):
    with running(tmp_path) as server:
        url, token = server.told["url"], server.told["operator_token"]
        assert server.told["dashboard"] == f"{url}/#token={token}"
        assert httpx.get(f"{url}/").status_code == 200
    given = f"serve.operator_sha256={hash_of('t')}"
    with running(tmp_path, "--set", given, token="t") as server:
        assert server.told["dashboard"] == f"{server.told['url']}/"
    with running(tmp_path, "--set", "serve.dashboard=false") as server:
        assert server.told["dashboard"] is None


def test_a_public_address_without_tokens_does_not_start(placet):
    outcome = placet("serve", "--host", "0.0.0.0", "--port", "0")  # refused
    assert outcome.code == 1
    assert "no token is configured" in outcome.err
    named = placet("serve", "--set", "serve.host=example.org")
    assert "no token is configured" in named.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--store", "nowhere/town.db"], "nowhere"),
        (["--store", "ftp://x"], "there is no store"),
        (["--domain", "wordl"], "did you mean 'world'"),
        (["--tokens", "no.toml"], "cannot read the tokens"),
        (["--host", "203.0.113.1", "--set", f"serve.operator_sha256={'0' * 64}"], "cannot listen"),
        (["--config", "no.toml"], "cannot read no.toml"),
        (["--set", "serve.drain_seconds=x"], "drain"),
    ],
)
def test_an_unservable_world_is_a_one_line_error(tmp_path, arguments, said):
    outcome = run_process("serve", "--port", "0", *arguments, folder=tmp_path)
    assert outcome.code == 1
    assert said in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_token_command_creates_agent_and_operator_tokens(placet):
    made = placet("token", "new", "--operator", "--json").json()
    assert (made["submitter"], made["sha256"]) == ("operator", hash_of(made["token"]))
    assert "operator = true" in placet("token", "new", "--operator").out
    assert placet("token", "new").code == 2
    assert placet("token", "new", "--operator", "--agent", "a").code == 2
    assert placet("token", "new", "--agent", "operator").code == 1
    assert placet("token", "new", "--agent", "a\n").code == 1
    nameless = placet("token", "new", "--agent", "")  # as a script with an empty variable says it
    assert (nameless.code, nameless.out) == (1, "")


def test_the_socket_names_its_protocol_so_that_nagle_is_disabled():
    with listen(ServeConfig(port=0)) as listening:
        assert listening.proto == socket.IPPROTO_TCP
        assert url_of(listening).startswith("http://127.0.0.1:")
        port = listening.getsockname()[1]
        with pytest.raises(PlacetError, match="cannot listen"):
            listen(ServeConfig(port=port))


def test_a_missing_extra_is_reported_with_the_install_command(monkeypatch):
    for name in [one for one in sys.modules if one.startswith(("placet.server.", "starlette"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette", None)
    with pytest.raises(ExtraMissing, match=r"pip install 'placet\[serve\]'"):
        create_app()


def test_a_missing_server_package_is_reported_with_the_install_command(placet, monkeypatch):
    monkeypatch.delitem(sys.modules, "placet.server.listener", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    outcome = placet("serve", "--port", "0")
    assert outcome.code == 1
    assert (
        "needs uvicorn, which is not installed: pip install '.[serve]' in a clone of placet"
        in outcome.err
    )


@pytest.mark.slow
def test_a_world_is_served_read_only_beside_its_writer(tmp_path):
    with (
        running(tmp_path, "--store", "town.db") as writer,
        running(tmp_path, "--store", "town.db", "--read-only") as reader,
    ):
        assert writer.post("agents", {"agent_id": "ann"}).status_code == 201
        verdict = writer.post("batches", [move("ann", 1)]).json()
        world = "/api/v1/worlds/world"
        for _ in range(1_000):
            if reader.client.get(world).json()["seq"] == verdict["seq"]:
                break
            time.sleep(0.01)
        else:
            pytest.fail("the reader does not follow the writer")
        path = f"{world}/state"
        assert reader.client.get(path).json() == writer.client.get(path).json()
        assert reader.client.get("/readyz").status_code == 200
        for path, body in (("batches", [move("ann", 2)]), ("agents", {"agent_id": "ben"})):
            refused = reader.post(path, body)
            assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
            assert "open read-only" in refused.json()["detail"]
        assert writer.post("batches", [move("ann", 2)]).json()["admitted"] is True
        reader.process.send_signal(signal.SIGTERM)
        assert reader.process.wait() == 143
