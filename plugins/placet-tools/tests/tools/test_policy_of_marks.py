"""A policy over tools with secrets and personal data: it decides by digests, never by values."""

from typing import Annotated

import pytest
from tests.tools.shop import QUIET

from placet_tools import Gate, Personal, Secret, ToolPolicyError, Tools
from placet_tools.frontend.policy_examples import run_examples

DATA = "hans@example.org"


def desk():
    tools = Tools("desk")

    @tools.tool(risk="read")
    def ask(to: Annotated[str, Personal(subject="to")]) -> dict[str, str]:
        """Ask a customer."""
        return {"answer": "yes", "to": to}

    @tools.tool()
    def write(
        to: Annotated[str, Personal(subject="to")], password: Annotated[str, Secret], text: str
    ) -> str:
        """Write to a customer."""
        return text

    @tools.tool(risk="read")
    def other(to: str, password: Annotated[str, Secret]) -> None:
        """Take an address without a mark."""

    return tools


def policy(rule, *examples):
    return {
        "defaults": {"unlisted": "allow"},
        "tools": {"write": rule},
        "examples": list(examples),
    }


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"approval": "to == 'x'"}, "'to' is marked, and the log has only a digest of it"),
        ({"refuse": [{"if": "len(password) < 8"}]}, "'password' is marked"),
        (
            {"only_if": [{"tool": "ask", "by": ["to"], "if": "result.answer == 'yes'"}]},
            "tools.write.only_if[0].tool: the output of ask is personal data",
        ),
        (
            {"after": [{"tool": "other", "by": ["to"]}]},
            "tools.write.after[0].by[0]: 'to' is marked differently in write and other",
        ),
        ({"after": [{"tool": "other", "by": ["password"]}]}, "'password' is marked differently"),
        ({"refuse": [{"if": "agent == 'x' and to == 'y'"}]}, "'to' is marked"),
    ],
)
def test_a_rule_that_needs_a_value_is_refused(rule, message):
    with pytest.raises(ToolPolicyError) as error:
        Gate(desk(), policy=policy(rule))
    assert message in str(error.value)


RULES = {
    "after": [{"tool": "ask", "by": ["to"]}],
    "at_most": [{"n": 1, "per": ["to", "password"]}],
}


async def test_calls_agree_in_marked_fields_by_their_digests():
    async with Gate(desk(), policy=policy(RULES), config=QUIET) as gate:
        letter = {"to": DATA, "password": "tulip-4711", "text": "a"}
        assert (await gate.call("write", **letter)).codes == ("desk.after_missing",)
        assert (await gate.call("ask", to="eva@example.org")).status == "done"
        assert (await gate.call("write", **letter)).codes == ("desk.after_missing",)
        assert (await gate.call("ask", to=DATA)).status == "done"
        assert (await gate.call("write", **letter)).status == "done"
        again = await gate.call("write", **{**letter, "text": "b"})
        assert again.codes == ("desk.at_most_reached",)
        assert DATA not in again.message
        assert (await gate.call("write", **{**letter, "password": "rose-0815"})).status == "done"
        state = str(await gate.world.state(""))
        assert DATA not in state
        assert "tulip-4711" not in state


def test_examples_have_values_and_are_decided_by_digests():
    call = {"tool": "write", "to": DATA, "password": "tulip-4711", "text": "a"}
    asked = {"call": {"tool": "ask", "to": DATA}}
    elsewhere = {"call": {"tool": "ask", "to": "eva@example.org"}}
    results = run_examples(
        desk(),
        policy(
            RULES,
            {"call": call, "gives": "allowed", "given": [asked]},
            {"call": call, "gives": "after_missing", "given": [elsewhere]},
            {"call": call, "gives": "at_most_reached", "given": [asked, {"call": call}]},
            {"call": {**call, "to": 3}, "gives": "refused", "given": [asked]},
        ),
    )
    assert [one.is_ok for one in results] == [True] * 4, [one.answer for one in results]
