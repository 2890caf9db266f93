"""Clients over streamable HTTP: sessions, their servers, the token, and other addresses."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client
from tests.tools.gateway.test_http_gateway import http_server
from tests.tools.gateway.test_sdk_gateway import LEGACY, NEVER, SERVER, text

from tests.actors.real_time import until

pytestmark = pytest.mark.slow

COMMAND = f"{sys.executable} {SERVER}"
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    },
}
ACCEPT = {"accept": "application/json, text/event-stream"}


@contextmanager
def gateway(*options, server=COMMAND, listen="127.0.0.1:0", env=None):
    """Run a gateway that listens on a free port; its URL and its process."""
    command = [sys.executable, "-m", "placet", "gateway", server, "--listen", listen, *options]
    whole = {**os.environ, **(env or {})}
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=whole) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert b"listens on " in line, line + process.stderr.read()
            yield line.decode().split("listens on ")[1].strip(), process
        finally:
            process.kill()


async def elicit(context, params):
    return types.ElicitResult(action="accept", content={"confirm": True})


@pytest.mark.parametrize("mode", [LEGACY, "auto"])
async def test_a_client_over_http_calls_a_tool_that_its_user_approves(mode):
    with gateway() as (url, _):
        async with Client(
            streamable_http_client(url), mode=mode, elicitation_callback=elicit
        ) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert "placet_plan" in names
            result = await client.call_tool("add", {"a": 1, "b": 2})
            assert result.structured_content == {"result": 3}
            assert len((await client.read_resource("shop://orders")).contents) == 1


async def test_clients_share_the_gate_and_have_servers_of_their_own(tmp_path):
    store = f"sqlite:///{tmp_path}/gate.db"
    with gateway("--store", store, *NEVER) as (url, process):
        async with (
            Client(streamable_http_client(url), mode=LEGACY) as first,
            Client(streamable_http_client(url), mode=LEGACY) as second,
        ):
            calls = [
                one.call_tool("add", {"a": n, "b": 1}) for n, one in enumerate([first, second])
            ]
            results = await asyncio.gather(*calls)
            assert [one.structured_content for one in results] == [{"result": 1}, {"result": 2}]
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 20) == 143
    command = [sys.executable, "-m", "placet", "log", store, "--json"]
    log = await asyncio.to_thread(subprocess.check_output, command)
    assert log.count(b"mcp.add") >= 2


async def test_a_server_over_http_behind_a_gateway_over_http():
    with http_server() as url, gateway(*NEVER, server=url) as (own, _):
        async with Client(streamable_http_client(own), mode=LEGACY) as client:
            assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {
                "result": 3
            }


async def test_a_session_ends_with_its_server_and_the_next_one_has_a_new_server(tmp_path):
    schema = {"type": "object"}
    tools = [{"name": name, "inputSchema": schema} for name in ("echo", "die")]
    (tmp_path / "tools.json").write_text(json.dumps(tools))
    server = f"{sys.executable} {Path(__file__).with_name('plain_server.py')} {tmp_path}"
    with gateway(*NEVER, server=server) as (url, process):
        async with Client(streamable_http_client(url), mode=LEGACY) as client:
            assert "doubt" in text(await client.call_tool("die", {}))
        async with Client(streamable_http_client(url), mode=LEGACY) as client:
            assert not (await client.call_tool("echo", {})).is_error
        assert b"ended with the code 3; a session ends" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(process.wait, 20) == 130


async def test_a_request_without_the_token_or_to_another_name_is_refused():
    with gateway("--token-env", "T", env={"T": "tulip"}) as (url, _):
        async with httpx.AsyncClient() as client:
            for headers in ({}, {"authorization": "Bearer rose"}):
                answer = await client.post(url, json=HELLO, headers={**ACCEPT, **headers})
                assert (answer.status_code, "token" in answer.text) == (401, True)
            right = {**ACCEPT, "authorization": "Bearer tulip"}
            assert (await client.post(url, json=HELLO, headers=right)).status_code == 200
    with gateway() as (url, _):
        async with httpx.AsyncClient() as client:
            named = {**ACCEPT, "host": "evil.example:80"}
            assert (await client.post(url, json=HELLO, headers=named)).status_code == 421
            unknown = {**ACCEPT, "mcp-session-id": "0" * 32}
            assert (await client.post(url, json=HELLO, headers=unknown)).status_code == 404
            assert (await client.post(url, json=HELLO, headers=ACCEPT)).status_code == 200


async def test_a_request_that_opens_no_session_leaves_no_server_running():
    with gateway() as (url, process):
        async with httpx.AsyncClient() as client:
            for content in (b"{", b"[]", b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'):
                sent = {**ACCEPT, "content-type": "application/json"}
                answer = await client.post(url, content=content, headers=sent)
                assert 400 <= answer.status_code < 500, answer.text
            assert (await client.get(url, headers=ACCEPT)).status_code == 400
            await until(lambda: not children_of(process.pid))


def children_of(pid):
    """Return the ids of the children of a process."""
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


async def test_a_server_that_cannot_be_started_is_an_answer():
    with gateway(server="/no/such/program") as (url, _):
        async with httpx.AsyncClient() as client:
            answer = await client.post(url, json=HELLO, headers=ACCEPT)
            assert answer.status_code == 502
            assert "'/no/such/program' cannot be started" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("listen", "message"),
    [
        ("0.0.0.0:0", "reachable from other machines"),
        ("8090", "--listen is HOST:PORT"),
        ("127.0.0.1:99999", "--listen is HOST:PORT"),
        ("203.0.113.9:1", "reachable from other machines"),
    ],
)
def test_an_address_that_cannot_be_meant_is_refused(listen, message):
    command = [sys.executable, "-m", "placet", "gateway", COMMAND, "--listen", listen]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode != 0
    assert message in ended.stderr
