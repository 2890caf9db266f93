"""Held calls of a gateway that runs are decided from a terminal."""

import asyncio
import json
import re
import socket
import stat
from pathlib import Path

from msgspec import Raw
from tests.tools.gateway.plain_client import PlainClient, told, tool

from placet_tools.frontend.gateway.pinned_gate import PinnedGate
from placet_tools.frontend.gateway.tool_gate import (
    GatewayOptions,
    LiveCall,
    ServerConnection,
    ToolGate,
)
from placet_tools.frontend.inbox.control import ask_gate, control_socket
from tests.cli.command_line import run_process


def inbox(folder, *words):
    return run_process("inbox", folder.store, *words, folder=folder.path)


def socket_modes(path: Path) -> list[int]:
    """Return the permissions of the sockets in a folder."""
    modes = [one.stat().st_mode for one in path.iterdir()]
    return [stat.S_IMODE(mode) for mode in modes if stat.S_ISSOCK(mode)]


async def test_a_person_decides_a_held_call_from_a_terminal(folder):
    async with PlainClient(folder, "--store", folder.store) as client:
        await client.begin()
        said = told(await client.call("work", a=1))
        assert f"placet inbox {folder.store}" in said["decide"]
        (listed,) = json.loads(inbox(folder, "--json").out)["requests"]
        assert (listed["id"], listed["agent"]) == (said["approval"], "agent")
        assert listed["asks"] == ["work (risk high): a call of this risk needs a person"]
        assert listed["age_s"] >= 0 < listed["left_s"] <= 3_600
        head, *lines = inbox(folder).out.splitlines()
        assert head.startswith(f"{listed['id']} agent asks operator to call (risk high, asked ")
        assert re.search(r"asked \d+ s ago, (59 min \d+ s|1 h 0 min) left\):$", head)
        assert lines == [
            f"  because {listed['asks'][0]}",
            '  mcp.work {"a":1}',
            "  The function runs outside this world; placet does not know what it changes.",
        ]
        wrong = inbox(folder, said["approval"], "approve", "--role", "cook", "--by", "ann")
        assert (wrong.code, "needs the role 'operator'" in wrong.out) == (1, True)
        assert not folder.ran()
        decided = inbox(folder, said["approval"], "approve", "--by", "ann")
        assert decided.out.split() == ["approved:", "done"]
        outcome = await client.call("placet_outcome", key=said["key"])
        assert outcome["content"] == [{"type": "text", "text": "work ran"}]
        assert "isError" not in outcome
        assert sum(folder.ran().values()) == 1
        assert inbox(folder).out == "no call waits\n"
        assert socket_modes(folder.path) == [0o600]
    assert socket_modes(folder.path) == []
    gone = inbox(folder)
    assert (gone.code, "no gate answers" in gone.err) == (1, True)


async def test_a_terminal_shows_a_request_as_a_whole_without_unseen_characters(folder):
    async with PlainClient(folder, "--store", folder.store) as client:
        await client.begin()
        await client.call("work", text="x" * 30_000 + "THE END", **{"\u202ek" + "k" * 300: 1})
        said = inbox(folder).out
        assert "THE END" in said
        assert "\\u202e" + "k" * 301 in said
        assert "\u202e" not in said


async def test_a_person_settles_a_call_in_doubt_from_a_terminal(folder):
    folder.has_tools(tool("internal"))
    options = ("--store", folder.store, "--approve-from", "never")
    async with PlainClient(folder, *options) as client:
        await client.begin()
        key = told(await client.call("internal", a=1))["key"]
        assert told(await client.call("internal", a=1))["codes"] == ["mcp.same_running"]
        listed = inbox(folder).out
        assert f"{key} is in doubt: OutcomeUnknown: the server answered: it broke" in listed
        assert 'internal {"a":1}' in listed
        assert inbox(folder, key, "failed", "--reason", "it is not there").out == "failed\n"
        assert inbox(folder, key, "done").code == 1
        said = told(await client.call("placet_outcome", key=key))
        assert (said["status"], said["message"]) == ("failed", "it is not there")
        assert told(await client.call("internal", a=1))["status"] == "doubt"


async def test_the_user_of_the_client_and_a_terminal_decide_once(folder):
    options = ("--store", folder.store)
    async with PlainClient(folder, *options, capabilities={"elicitation": {}}) as client:
        await client.begin()
        number = client.request("tools/call", name="work", arguments={})
        asked = await client.receive()
        (listed,) = json.loads(inbox(folder, "--json").out)["requests"]
        assert inbox(folder, listed["id"], "deny", "--reason", "no").out.startswith("denied")
        result = (await client.answer(number))["result"]
        assert (told(result)["status"], "no" in told(result)["message"]) == ("denied", True)
        yes = {"action": "accept", "content": {"confirm": True}}
        client.send({"jsonrpc": "2.0", "id": asked["id"], "result": yes})
        assert (await client.ask("echo"))["result"]["method"] == "echo"
    assert not folder.ran()


async def test_a_socket_that_a_killed_gateway_left_is_replaced(folder):
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(f"{folder.path}/gate.db.gateway")
    async with PlainClient(folder, "--store", folder.store) as client:
        await client.begin()
        await client.call("work")
        assert "mcp.work" in inbox(folder).out
        async with PlainClient(folder, "--store", folder.store) as other:
            await other.begin()
        assert "another gate has it" in other.stderr
        assert "mcp.work" in inbox(folder).out


async def test_a_log_that_has_a_writer_runs_no_call_of_a_second_gateway(folder):
    options = ("--approve-from", "never", "--store", folder.store)
    async with PlainClient(folder, *options) as client, PlainClient(folder, *options) as other:
        await client.begin()
        await other.begin()
        await client.call("work")
        assert told(await other.call("work"))["codes"] == ["gate_failed"]
    assert sum(folder.ran().values()) == 1


async def test_a_decision_of_a_person_keeps_the_log_open_when_the_tools_change(
    monkeypatch, tmp_path
):
    """Opened again between the decision and the end of the call, the log has it in doubt."""
    store = f"sqlite:///{tmp_path / 'gate.db'}"
    gate = ToolGate(GatewayOptions(store=store, approve_from="read"), lambda text: None)

    class Server:
        async def run_tool(self, name, arguments, live):
            await gate.declare([tool("work"), tool("other")])
            return Raw(b'{"content":[]}')

    async def decide(self, *arguments, **options):
        await gate.declare([tool("work"), tool("other")])
        return await original(self, *arguments, **options)

    original = PinnedGate.decide
    monkeypatch.setattr(PinnedGate, "decide", decide)
    server: ServerConnection = Server()
    gate.connect(server)
    await gate.declare([tool("work")])
    (held,) = await gate.call([("work", {})], "k", LiveCall(server))
    assert held.status == "held"
    path = tmp_path / "gate.db.inbox"
    async with control_socket(path, gate.in_use):
        asked = {"id": held.approval, "decision": "approve", "by": "ann", "role": "operator"}
        answer = await asyncio.to_thread(ask_gate, path, "decide", asked)
    assert [one["status"] for one in answer["outcomes"]] == ["done"]
    assert set(await gate.declare([tool("work"), tool("other")])) == {"work", "other"}
    await gate.close()
