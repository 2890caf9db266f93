"""A gateway between a client over stdio and a server over streamable HTTP."""

import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest
from mcp import Client, StdioServerParameters, stdio_client, types
from tests.tools.gateway.plain_client import PlainClient
from tests.tools.gateway.test_sdk_gateway import LEGACY, MODERN, NEVER, SERVER, text

pytestmark = pytest.mark.slow


@contextmanager
def http_server():
    """Run the server of the SDK on a free port; its URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, str(SERVER), "http", str(port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        try:
            assert process.stderr is not None
            while b"running on" not in process.stderr.readline():
                assert process.poll() is None
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


@pytest.mark.parametrize("mode", [LEGACY, MODERN])
async def test_calls_and_other_requests_reach_a_server_over_http(mode):
    async def elicit(context, params):
        return types.ElicitResult(action="accept", content={"confirm": True})

    with http_server() as url:
        arguments = ["-m", "placet", "gateway", url]
        server = StdioServerParameters(command=sys.executable, args=arguments)
        held = Client(stdio_client(server), mode=mode, elicitation_callback=elicit)
        async with held as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert "placet_outcome" in names
            result = await client.call_tool("add", {"a": 1, "b": 2})
            assert result.structured_content == {"result": 3}
            assert len((await client.read_resource("shop://orders")).contents) == 1
            assert len((await client.get_prompt("greet", {"name": "ann"})).messages) == 1


async def test_requests_of_a_server_over_http_reach_the_client():
    async def sample(context, params):
        content = types.TextContent(type="text", text="from the model")
        return types.CreateMessageResult(role="assistant", content=content, model="m")

    with http_server() as url:
        arguments = ["-m", "placet", "gateway", url, *NEVER]
        server = StdioServerParameters(command=sys.executable, args=arguments)
        async with Client(stdio_client(server), mode=LEGACY, sampling_callback=sample) as client:
            assert "from the model" in text(await client.call_tool("sample", {}))


async def test_a_server_that_cannot_be_reached_is_an_error(folder):
    folder.server = lambda: "http://127.0.0.1:1/mcp"
    async with PlainClient(folder) as client:
        client.request("initialize", protocolVersion="2025-11-25", capabilities={})
        while await client.receive() is not None:
            pass
    assert client.process.returncode == 1
    assert "the server http://127.0.0.1:1/mcp cannot be reached" in client.stderr
