"""Tools with declarations pinned in the log: a changed one is held until a call is approved."""

from contextlib import closing

import pytest
from tests.tools.shop import QUIET

from placet.history.verify_log import verify_log
from placet.kernel import refuse
from placet.stores.reading import log_to_read
from placet_tools.frontend.gateway.pinned_gate import PinnedGate
from placet_tools.pinned import PinnedTools


async def run(arguments, key):
    return "sent"


def gate_of(store, risk="low", rule=None, **definitions):
    tools = PinnedTools("mcp")
    for name, definition in definitions.items():
        tools.add_schema(name, {"type": "object"}, run, risk=risk, definition=definition)
        if rule is not None:
            tools.rule(name)(rule)
    return PinnedGate(tools, store=store, config=QUIET)


@pytest.fixture
def store(tmp_path):
    return f"sqlite:///{tmp_path}/pins.db"


async def test_a_new_tool_is_pinned_and_stays_so(store):
    async with gate_of(store, send="Send.") as gate:
        assert (await gate.call("send")).status == "done"
    async with gate_of(store, send="Send.", mail="Mail.") as gate:
        assert await gate.pinned() == {"send": "Send.", "mail": "Mail."}
        assert [(await gate.call(name)).status for name in ("send", "mail")] == ["done", "done"]


async def test_a_log_is_verified_for_any_order_of_its_tools(store):
    definition = '{"description": "Send.", "inputSchema": {"type": "object"}}'
    async with gate_of(store, send=definition, mail=definition) as gate:
        await gate.call("send")
    with closing(log_to_read(store)) as log:
        verification = verify_log(log)
    assert verification.unverified == ()
    assert verification.batches > 1


async def test_a_changed_tool_is_held_until_a_call_is_approved(store):
    async with gate_of(store, send="Send."):
        pass
    async with gate_of(store, send="Send, and tell eve.") as gate:
        held = await gate.call("send")
        assert held.status == "held"
        (request,) = await gate.approvals()
        shown = [change for change in request.changes if change[2] == "definition"]
        assert [change[4:] for change in shown] == [("Send.", "Send, and tell eve.")]
        assert (await gate.decide(request, "deny", by="ann")).state == "denied"
        assert await gate.pinned() == {"send": "Send."}
        await gate.call("send", why="it is needed")
        (request,) = await gate.approvals()
        decision = await gate.decide(request, "approve", by="ann")
        assert [one.output for one in decision.outcomes] == ["sent"]
        assert await gate.pinned() == {"send": "Send, and tell eve."}
        assert (await gate.call("send", again=True)).status == "done"
    async with gate_of(store, send="Send.") as gate:  # the old one is a change too
        assert (await gate.call("send", now=True)).status == "held"


async def test_a_tool_that_left_and_comes_back_changed_is_held(store):
    async with gate_of(store, send="Send."):
        pass
    async with gate_of(store, mail="Mail."):
        pass
    async with gate_of(store, send="Send, and tell eve.") as gate:
        assert (await gate.call("send")).status == "held"


async def test_a_changed_tool_asks_the_role_that_its_rule_names(store):
    def manager(draft, intent):
        return refuse("approval_required", "a manager reads it", role="manager")

    async with gate_of(store, rule=manager, send="Send."):
        pass
    async with gate_of(store, rule=manager, send="Send!") as gate:
        await gate.call("send")
        (request,) = await gate.approvals()
        assert request.role == "manager"
        assert (await gate.decide(request, "approve", by="ann")).codes == (
            "approvals.role_missing",
        )
        decision = await gate.decide(request, "approve", by="ann", role="manager")
        assert decision.outcomes[0].status == "done"
        assert await gate.pinned() == {"send": "Send!"}


async def test_a_rule_that_refuses_a_changed_tool_pins_nothing(store):
    def never(draft, intent):
        return refuse("no", "never")

    async with gate_of(store, rule=never, send="Send."):
        pass
    async with gate_of(store, rule=never, send="Send!") as gate:
        assert (await gate.call("send")).codes == ("mcp.no",)
        assert await gate.pinned() == {"send": "Send."}


async def test_no_agent_pins_a_tool(store):
    async with gate_of(store, send="Send.") as gate:
        agent = await gate.world.register_agent("eve")
        verdict = await gate.world.submit([agent.intent("mcp.pin", {"tools": ["send"]})])
        assert verdict.codes == ("mcp.recorder_only",)
