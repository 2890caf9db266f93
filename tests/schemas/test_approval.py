"""A request for approval names its calls, and an answer the refusals that caused the others."""

import pytest

from placet.schemas.approval import Approval, ApprovalUnknown, HeldIntent, InboxAnswer
from tests.kernel.builders import add, intent, kernel_of
from tests.kernel.domains import Lab


def held(agent: str, number: int) -> HeldIntent:
    return {"agent": agent, "key": f"k{number}", "kind": "pay", "payload": {"euro": number}}


def approval(role: str) -> Approval:
    return Approval(
        id="a", number=1, agent="ann", intents=(held("ann", 1), held("shop", 2)), changes=(),
        risk="low", role=role, expires=1.0, digest="d", state="open", about={}, by="", reason="",
        decided=0.0, amends="", amended_by="",
    )  # fmt: skip


@pytest.mark.parametrize(("role", "who"), [("manager", "manager"), ("", "anybody")])
def test_a_request_shows_the_calls_of_its_own_agent(role, who):
    asked = approval(role)
    assert asked.calls == (("pay", {"euro": 1}),)
    assert str(asked) == f"ann asks {who}: pay(euro=1)"


def answer(*intents, ahead: int = 1) -> InboxAnswer:
    return InboxAnswer(None, kernel_of(Lab()).decide(list(intents)), ahead)


def test_a_fault_of_the_decision_itself_hides_those_that_follow_from_it():
    unknown = (intent("Nothing", {}, "a:0"), intent("Nothing", {}, "a:1"))
    assert answer(*unknown).codes == ("kind_unknown",)
    assert answer(*unknown, ahead=0).codes == ("kind_unknown", "kind_unknown")
    assert answer(add("a:0"), unknown[1]).codes == ("kind_unknown",)


def test_an_answer_without_a_request_says_why():
    refused = answer(intent("Nothing", {}, "a:0"))
    with pytest.raises(ApprovalUnknown, match=r"no request was recorded: .*Nothing"):
        _ = refused.approval
    assert answer(add("a:0")).message == ""
    asked = approval("manager")
    assert InboxAnswer(asked, refused.verdict, 1).approval is asked
