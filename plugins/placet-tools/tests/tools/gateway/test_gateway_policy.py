"""A policy over the tools of an MCP server: rules, and declarations that the server cannot make."""

import pytest
from tests.tools.gateway.plain_client import PlainClient, told, tool

from placet_tools.frontend.gateway.policy import gateway_policy
from placet_tools.policy import ToolPolicyError
from tests.cli.command_line import run_process

EURO = {
    "type": "object",
    "properties": {"order-id": {"type": "string"}, "order": {"type": "string"}, "euro": {}},
    "required": ["order"],
}


def policy(folder, text):
    file = folder.path / "policy.toml"
    file.write_text(text)
    return ("--policy", str(file))


async def test_a_policy_holds_refuses_and_admits_calls(folder):
    schema = {"type": "object", "properties": {"euro": {"type": "number"}}}
    folder.has_tools(tool("pay-back", inputSchema=schema), tool("look", inputSchema=schema))
    options = policy(
        folder,
        """
        [tools.pay-back]
        approval = "euro > 100"
        role = "manager"
        refuse = [{if = "euro > 400", say = "ask the bank"}]
        after = [{tool = "look", by = ["euro"]}]
        [tools.look]
        risk = "read"
        """,
    )
    async with PlainClient(folder, *options, capabilities={"elicitation": {}}) as client:
        await client.begin()
        refused = told(await client.call("pay-back", euro=500))
        assert (refused["status"], refused["message"]) == ("refused", "ask the bank")
        assert told(await client.call("pay-back", euro=42))["status"] == "refused"  # not looked at
        for euro in (42, 150):
            assert "isError" not in await client.call("look", euro=euro)
        assert "isError" not in await client.call("pay-back", euro=42)
        held = told(await client.call("pay-back", euro=150))
        assert held["status"] == "held"  # a manager decides, and the client's user is none
        assert client.others == []


async def test_a_tool_that_the_policy_does_not_list_is_held(folder):
    folder.has_tools(tool("work"), tool("fresh"))
    options = (*policy(folder, '[tools.work]\nrisk = "low"\n'), "--approve-from", "never")
    async with PlainClient(folder, *options) as client:
        await client.begin()
        assert "isError" not in await client.call("work")
        assert told(await client.call("fresh"))["status"] == "held"
    options = policy(folder, '[defaults]\nunlisted = "refuse"\n[tools.work]\nrisk = "low"\n')
    async with PlainClient(folder, *options) as client:
        await client.begin()
        assert told(await client.call("fresh"))["codes"] == ["mcp.policy_unlisted"]


@pytest.mark.parametrize(
    ("rules", "status"),
    [
        ("", ""),
        ('errors = "done"\nonce = "{order}"', ""),
        ('errors = "doubt"', "doubt"),
        ('errors = "failed"\nonce = "{order}"', "failed"),
        ('once = "{order}"', "doubt"),
    ],
)
async def test_the_policy_says_what_an_error_of_the_server_means(folder, rules, status):
    folder.has_tools(tool("fail", inputSchema=EURO))
    async with PlainClient(
        folder, *policy(folder, f'[tools.fail]\nrisk = "low"\n{rules}\n')
    ) as client:
        await client.begin()
        answer = await client.call("fail", order="A")
        assert answer["isError"] is True
        if status:
            assert told(answer)["status"] == status
            assert "it broke" in told(answer)["message"]
        else:
            assert answer["content"][0]["text"] == "it broke"  # of the server, as it came


async def test_a_consequence_of_the_policy_happens_once(folder):
    folder.has_tools(tool("pay", inputSchema=EURO), tool("fail", inputSchema=EURO))
    text = '[tools.{0}]\nrisk = "low"\nonce = "{0}:{{order}}"\n'
    options = policy(folder, text.format("pay") + text.format("fail"))
    options = (*options, "--store", folder.store)
    async with PlainClient(folder, *options) as client:
        await client.begin()
        assert "isError" not in await client.call("pay", order="A", euro=1)
        assert told(await client.call("pay", order="A", euro=2))["codes"] == ["mcp.same_done"]
        assert "isError" not in await client.call("pay", order="B", euro=2)
        doubt = told(await client.call("fail", order="A"))  # an error says nothing about it
        assert (doubt["status"], "it broke" in doubt["message"]) == ("doubt", True)
    async with PlainClient(folder, *options) as client:
        await client.begin()
        assert told(await client.call("pay", order="A", euro=3))["codes"] == ["mcp.same_done"]
        assert told(await client.call("fail", order="A"))["codes"] == ["mcp.same_running"]
    assert sum(folder.ran().values()) == 3


async def test_an_annotation_raises_the_risk_that_a_policy_declares(folder):
    folder.has_tools(tool("work", annotations={"destructiveHint": True}))
    async with PlainClient(folder, *policy(folder, '[tools.work]\nrisk = "low"\n')) as client:
        await client.begin()
        assert told(await client.call("work"))["status"] == "held"


async def test_the_log_of_a_gateway_is_verified_by_its_own_declarations(folder):
    options = (*policy(folder, '[tools.work]\nrisk = "low"\n'), "--store", folder.store)
    for description in ("Work.", "Work, and tell eve."):
        folder.has_tools(tool("work", description=description), tool("re-do"))
        async with PlainClient(folder, *options) as client:
            await client.begin()
            await client.call("work")
            await client.call("re-do")
    verified = run_process("verify", f"{folder.path}/gate.db", folder=folder.path)
    assert (verified.code, verified.err) == (0, ""), verified


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[tools", "it is no TOML"),
        ('[tools.work]\nrisk = "hihg"\n', "tools.work.risk: no such risk 'hihg'"),
        ('[tools.work]\ndelivery = "keyed"\n', "no such delivery 'keyed'"),
        ("[tools.work]\nonce = 1\n", "tools.work.once"),
        ('[tools.work]\nerrors = "doubts"\n', "no such errors 'doubts'; did you mean 'doubt'"),
    ],
)
async def test_a_policy_that_does_not_fit_opens_no_gateway(folder, text, fault):
    async with PlainClient(folder, *policy(folder, text)) as client:
        assert await client.receive() is None
    assert client.process.returncode == 1
    assert fault in client.stderr


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('[tools.wrok]\nrisk = "low"\n', "no such tool"),
        ('[tools.work]\nonce = "pay:{order}"\n', "'order'"),
        ('[tools.work]\napprovl = "euro > 1"\n', "approval"),
    ],
)
async def test_a_policy_that_does_not_fit_the_tools_runs_no_call(folder, text, fault):
    async with PlainClient(folder, *policy(folder, text), "--approve-from", "never") as client:
        await client.begin()
        said = told(await client.call("work"))
        assert (said["codes"], fault in said["message"]) == (["gate_failed"], True)
        assert fault in (await client.ask("tools/list"))["error"]["message"]
    assert not folder.ran()


def test_a_policy_without_a_file_declares_nothing():
    assert gateway_policy("").rules is None
    with pytest.raises(ToolPolicyError, match="cannot read"):
        gateway_policy("/no/such/file.toml")


REFUND = {
    "type": "object",
    "properties": {"order": {"type": "string"}, "euro": {"type": "number"}},
    "required": ["order", "euro"],
}

CHECKED = """
[tools.refund]
risk = "low"
refuse = [{if = "euro > 400"}]
after = [{tool = "look", by = ["order"]}]
[tools.look]
risk = "read"

[[examples]]
call = {tool = "refund", order = "A", euro = 500}
gives = "policy_refused"

[[examples]]
call = {tool = "refund", order = "A", euro = 5}
given = [{call = {tool = "look", order = "A"}}]
gives = "allowed"

[[examples]]
call = {tool = "refund", order = "A"}
gives = "refused"
"""


def listed(folder):
    schema = {"type": "object", "properties": {"order": {"type": "string"}}}
    pay, look = tool("refund", inputSchema=REFUND), tool("look", inputSchema=schema)
    folder.has_tools(pay, look, tool("work"), tool("bad", inputSchema=3))


async def test_examples_in_the_policy_of_a_gateway_open_it(folder):
    listed(folder)
    async with PlainClient(folder, *policy(folder, CHECKED)) as client:
        await client.begin()
        assert "isError" not in await client.call("look", order="A")
        assert "isError" not in await client.call("refund", order="A", euro=5)
        refused = told(await client.call("refund", order="A"))
        assert "payload of mcp.refund: the argument 'euro' is missing" in refused["message"]


def test_a_policy_is_checked_by_the_tools_of_its_server(folder, placet):
    listed(folder)
    _, file = policy(folder, CHECKED)
    checked = placet("policy", "check", file, "--server", folder.server())
    assert checked.code == 0, checked
    assert "fits the tools; 3 examples" in checked.out
    assert "does not list work" in checked.out
    assert "a tool is left out: tool bad" in checked.out
    assert not folder.ran()


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('gives = "allowed"', 'gives = "held"', "1 of 3 examples differ"),
        ('order = "A", euro = 500', 'odrer = "A"', "examples[0].call.odrer: no such field"),
        ("euro > 400", "eurro > 400", "did you mean 'euro'?"),
        ("[tools.look]", "[tools.lok]", "tools.lok: no such tool"),
    ],
)
def test_a_policy_that_does_not_fit_its_server_exits_with_1(folder, placet, old, new, fault):
    listed(folder)
    _, file = policy(folder, CHECKED.replace(old, new))
    checked = placet("policy", "check", file, "--server", folder.server())
    assert checked.code == 1
    assert fault in checked.out + checked.err


@pytest.mark.parametrize("server", ["no-such-program-4711", "false", ""])
def test_a_server_that_lists_no_tools_is_an_error(folder, placet, server):
    _, file = policy(folder, CHECKED)
    checked = placet("policy", "check", file, "--server", server)
    assert checked.code == (1 if server else 2)
    assert "Traceback" not in checked.err
    assert (server or "--server") in checked.err
