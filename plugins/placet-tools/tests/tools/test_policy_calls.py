"""A gate under a policy: what is refused, held and allowed, and in which order."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.tools.shop import QUIET, Shop

from placet.kernel import Kernel
from placet_tools import Gate
from placet_tools.policy.codes import POLICY_CODES, POLICY_STEPS

PAGE = Path(__file__).parents[4] / "docs" / "guides" / "gate_your_tools.md"


def gate_of(shop, rules, **options):
    """Return a gate under a policy of some tools, whose other tools are allowed."""
    unlisted = options.pop("unlisted", "allow")
    approve_from = options.pop("approve_from", "never")
    defaults = {"unlisted": unlisted, "approve_from": approve_from}
    return Gate(shop.tools, policy={"defaults": defaults, "tools": rules}, config=QUIET, **options)


async def answers(gate, *calls):
    """Return status or code of calls, one after another."""
    found = []
    for tool, arguments in calls:
        outcome = await gate.call(tool, **arguments)
        found.append(outcome.codes[0].removeprefix("shop.") if outcome.codes else outcome.status)
    return found


async def test_a_call_is_refused_by_the_first_expression_that_holds(shop):
    rules = [{"if": "euro > 400", "say": "ask the bank"}, {"if": "startswith(order, 'T')"}]
    async with gate_of(shop, {"refund": {"refuse": rules}}) as gate:
        refused = await gate.call("refund", order="T1", euro=450)
        assert (refused.status, refused.codes) == ("refused", ("shop.policy_refused",))
        assert refused.message == "ask the bank"
        other = await gate.call("refund", order="T1", euro=5)
        assert other.message == "the policy refuses the call"
        assert (await gate.call("refund", order="A", euro=400)).status == "done"
    assert shop.ran == [("refund", "A", 400)]


@pytest.mark.parametrize(
    ("unlisted", "status"), [("refuse", "policy_unlisted"), ("hold", "held"), ("allow", "done")]
)
async def test_a_tool_that_the_policy_does_not_list(shop, unlisted, status):
    async with gate_of(shop, {"refund": {}}, unlisted=unlisted) as gate:
        assert await answers(gate, ("lookup", {"order": "A"}), ("refund", {"order": "A"})) == [
            status, "done",
        ]  # fmt: skip


async def test_without_a_default_a_tool_that_is_not_listed_is_refused(shop):
    async with Gate(shop.tools, policy={"tools": {"refund": {}}}, config=QUIET) as gate:
        assert await answers(gate, ("lookup", {"order": "A"})) == ["policy_unlisted"]


@pytest.mark.parametrize(
    ("rules", "approve_from", "euro", "status"),
    [
        ({"approval": "euro > 100"}, "never", 101, "held"),
        ({"approval": "euro > 100"}, "never", 100, "done"),
        ({"approval": "euro > 100"}, "read", 100, "done"),
        ({"approval": False}, "read", 100, "done"),
        ({"approval": True}, "never", 1, "held"),
        ({}, "high", 1, "held"),
        ({}, "never", 1, "done"),
    ],
)
async def test_an_approval_is_needed_by_the_policy_and_else_by_risk(
    shop, rules, approve_from, euro, status
):
    async with gate_of(shop, {"refund": rules}, approve_from=approve_from) as gate:
        assert await answers(gate, ("refund", {"order": "A", "euro": euro})) == [status]


async def test_the_risk_from_which_the_gate_asks_is_that_of_the_policy_if_it_names_one(shop):
    policy: dict[str, Any] = {"tools": {"refund": {}}}
    async with Gate(shop.tools, policy=policy, approve_from="never", config=QUIET) as gate:
        assert await answers(gate, ("refund", {"order": "A"})) == ["done"]


@pytest.mark.parametrize(
    ("tool", "rules", "arguments", "role"),
    [
        ("refund", {"approval": True, "role": "manager"}, {"order": "A"}, "manager"),
        ("refund", {"approval": True}, {"order": "A"}, "operator"),
        ("mail", {}, {"to": "boss"}, "manager"),  # a rule of the author asks a manager
        ("mail", {"role": "director"}, {"to": "boss"}, "director"),
        ("mail", {"approval": False}, {"to": "boss"}, "manager"),
        ("mail", {"approval": True}, {"to": "boss"}, "manager"),
    ],
)
async def test_the_role_of_the_person(shop, tool, rules, arguments, role):
    async with gate_of(shop, {tool: rules}) as gate:
        held = await gate.call(tool, **arguments)
        (request,) = await gate.approvals()
        assert request.role == role
        decision = await gate.decide(held.approval, "approve", by="ann", role=role)
        assert [one.status for one in decision.outcomes] == ["done"]


async def test_a_quota_of_the_policy_takes_the_place_of_that_of_the_tool(shop):
    quota = {"rate": 0.001, "burst": 2}
    async with gate_of(shop, {"lookup": {"quota": quota}}) as gate:
        calls = [("lookup", {"order": "A"})] * 3
        assert await answers(gate, *calls) == ["done", "done", "quota_exceeded"]


async def test_an_expression_that_raises_refuses_the_call_and_names_its_place(shop):
    rules = {"refund": {"refuse": [{"if": "euro > 400"}, {"if": "10 / (euro - 5) > 9"}]}}
    async with gate_of(shop, rules) as gate:
        refused = await gate.call("refund", order="A", euro=5)
        assert refused.codes == ("shop.policy_failed",)
        assert "tools.refund.refuse[1].if cannot be evaluated: ZeroDivisionError" in refused.message


# earlier calls

LOOKUP_A, LOOKUP_B = ("lookup", {"order": "A"}), ("lookup", {"order": "B"})
REFUND_A, REFUND_B = ("refund", {"order": "A"}), ("refund", {"order": "B"})
MAIL, CHARGE_A = ("mail", {"to": "bob"}), ("charge", {"order": "A"})
AFTER = {"refund": {"after": [{"tool": "lookup", "by": ["order"]}]}}
ONLY_IF = {
    "refund": {"only_if": [{"tool": "lookup", "by": ["order"], "if": "result.euro >= euro"}]}
}
NEVER = {"mail": {"never_after": [{"tool": "lookup"}]}}
NEVER_BY = {"refund": {"never_after": [{"tool": "charge", "by": ["order"]}]}}
AT_MOST = {"charge": {"at_most": [{"n": 2, "per": ["order"]}]}}


@pytest.mark.parametrize(
    ("rules", "calls", "expected"),
    [
        (AFTER, [REFUND_A], ["after_missing"]),
        (AFTER, [LOOKUP_A, REFUND_A], ["done", "done"]),
        (AFTER, [LOOKUP_B, REFUND_A], ["done", "after_missing"]),
        (ONLY_IF, [REFUND_A], ["after_missing"]),
        (ONLY_IF, [LOOKUP_A, ("refund", {"order": "A", "euro": 42})], ["done", "done"]),
        (ONLY_IF, [LOOKUP_A, ("refund", {"order": "A", "euro": 43})], ["done", "only_if_unmet"]),
        (NEVER, [MAIL, LOOKUP_A, MAIL], ["done", "done", "after_forbidden"]),
        (NEVER_BY, [CHARGE_A, REFUND_B, REFUND_A], ["done", "done", "after_forbidden"]),
        (AT_MOST, [CHARGE_A] * 3, ["done", "done", "at_most_reached"]),
        (AT_MOST, [CHARGE_A, CHARGE_A, ("charge", {"order": "B"})], ["done"] * 3),
    ],
)
async def test_a_call_is_judged_by_the_calls_before_it(shop, rules, calls, expected):
    async with gate_of(shop, rules) as gate:
        assert await answers(gate, *calls) == expected


async def test_a_call_that_fails_was_begun_and_is_not_done(shop):
    shop.fails = {"lookup", "charge"}
    async with gate_of(shop, {**AFTER, **NEVER, **AT_MOST}) as gate:
        calls = [LOOKUP_A, REFUND_A, MAIL, CHARGE_A, CHARGE_A, CHARGE_A]
        assert await answers(gate, *calls) == [
            "failed", "after_missing", "after_forbidden", "failed", "failed", "at_most_reached",
        ]  # fmt: skip


async def test_a_missing_field_of_a_result_refuses_the_call(shop):
    rules = {"refund": {"only_if": [{"tool": "lookup", "if": "result.cent >= euro"}]}}
    async with gate_of(shop, rules) as gate:
        assert await answers(gate, LOOKUP_A, REFUND_A) == ["done", "policy_failed"]


async def test_an_agent_is_a_field_of_its_calls(shop):
    rules = {
        "mail": {"never_after": [{"tool": "lookup", "by": ["agent"]}]},
        "refund": {"refuse": [{"if": "agent != 'support'", "say": "support pays back"}]},
    }
    async with gate_of(shop, rules) as gate:
        await gate.call("lookup", agent="bob", order="A")
        assert (await gate.call("mail", agent="ann", to="x")).status == "done"
        assert (await gate.call("mail", agent="bob", to="x")).codes == ("shop.after_forbidden",)
        assert (await gate.call("refund", agent="bob", order="A")).message == "support pays back"
        assert (await gate.call("refund", agent="support", order="A")).status == "done"


@pytest.mark.parametrize(("count", "status"), [(2, "done"), (3, "refused")])
async def test_two_calls_of_one_plan_see_each_other(shop, count, status):
    async with gate_of(shop, AT_MOST) as gate:
        outcomes = await gate.plan([CHARGE_A] * count)
        assert outcomes[-1].status == status
    assert len(shop.ran) == (count if status == "done" else 0)


async def test_a_plan_that_follows_a_forbidden_call_inside_of_it_is_refused(shop):
    async with gate_of(shop, NEVER) as gate:
        lookup, mail = await gate.plan([LOOKUP_A, MAIL])
        assert (lookup.status, mail.codes) == ("skipped", ("shop.after_forbidden",))
        assert await answers(gate, MAIL) == ["done"]  # the refused plan left no mark


async def test_a_call_in_doubt_was_begun_and_is_done_once_a_person_says_so(shop):
    shop.breaks = {"mail"}
    rules = {
        "refund": {"after": [{"tool": "mail"}]},
        "charge": {"never_after": [{"tool": "mail"}]},
    }
    async with gate_of(shop, rules) as gate:
        doubt = await gate.call("mail", to="bob")
        assert await answers(gate, REFUND_A, CHARGE_A) == ["after_missing", "after_forbidden"]
        await gate.settle(doubt.key, done=True)
        assert await answers(gate, REFUND_A) == ["done"]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([0, 20, 59.5, 60, 70, 79.5, 80], ["", "", "no", "", "no", "no", ""]),
        ([0, 0, 0, 60, 60, 60], ["", "", "no", "", "", "no"]),
    ],
)
def test_calls_are_counted_within_a_time(shop, times, expected):
    rules = {"charge": {"at_most": [{"n": 2, "per": ["order"], "within": "1m"}]}}
    kernel = Kernel(shop.tools.domain(approve_from="never", policy={"tools": rules}))
    kernel.change_executor("shop.charge", 100)
    kernel.register_agent("ann")
    found = []
    for time in times:
        intent = kernel.intent("shop.charge", agent="ann", order="A")
        codes = kernel.decide([intent], now=float(time)).codes
        found.append("no" if codes == ("shop.at_most_reached",) else "".join(codes))
    assert found == expected


async def test_a_refusal_for_a_time_tells_when_to_retry(shop):
    rules = {"charge": {"at_most": [{"n": 1, "within": 3_600}]}}
    async with gate_of(shop, rules) as gate:
        await gate.call("charge", order="A")
        refused = await gate.call("charge", order="A")
        assert re.fullmatch(
            r"charge may be called 1 times in 3600 s; retry in 3\d\d\d\.\d\d s", refused.message
        )


async def test_an_undone_call_is_not_done_and_stays_counted(shop):
    rules = {
        "charge": {"after": [{"tool": "refund", "by": ["order"]}]},
        "refund": {"at_most": [{"n": 1}]},
    }
    async with gate_of(shop, rules) as gate:
        shop.fails = {"mail"}
        first, _ = await gate.plan([REFUND_A, MAIL])
        assert first.status == "undone"
        assert await answers(gate, CHARGE_A) == ["after_missing"]
        assert await answers(gate, REFUND_B) == ["at_most_reached"]


async def test_the_call_that_undoes_another_is_not_judged(shop):
    shop.fails = {"mail"}
    rules: dict[str, Any] = {"refund": {}, "mail": {}}  # `unpay` is not listed
    async with gate_of(shop, rules, unlisted="refuse") as gate:
        first, _ = await gate.plan([REFUND_A, MAIL])
        assert first.status == "undone"
        assert await answers(gate, ("unpay", {"order": "A", "output": {"paid": 1}})) == [
            "policy_unlisted"
        ]


async def test_a_policy_loosens_neither_once_nor_delivery(shop):
    async with gate_of(shop, {"refund": {"approval": False}}, approve_from="never") as gate:
        assert await answers(gate, REFUND_A, REFUND_A) == ["done", "same_done"]
    policy = Shop().tools.domain(policy={"tools": {"refund": {}}})
    assert policy.tools["refund"].delivery == "at_most_once"


# the order of the steps

STEPS: dict[str, dict[str, Any]] = {
    "policy_refused": {"refuse": [{"if": "True"}]},
    "after_forbidden": {"never_after": [{"tool": "lookup"}]},
    "after_missing": {"after": [{"tool": "unpay"}]},
    "only_if_unmet": {"only_if": [{"tool": "lookup", "if": "result.euro > 100"}]},
    "at_most_reached": {"at_most": [{"n": 1}]},
    "no_competitor": {"approval": True},  # the rule of the author refuses before a person is asked
}


@pytest.mark.parametrize("code", STEPS)
async def test_the_first_step_that_fails_refuses_the_call(shop, code):
    first = [*STEPS].index(code)
    rules = {name: rule for one in [*STEPS.values()][first:] for name, rule in one.items()}
    calls = [LOOKUP_A, *[MAIL] * (code == "at_most_reached"), ("mail", {"to": "competitor"})]
    if code == "at_most_reached":
        rules["approval"] = False
    async with gate_of(shop, {"mail": rules}) as gate:
        assert (await answers(gate, *calls))[-1] == code


async def test_a_known_key_and_a_consequence_decide_before_the_policy(shop):
    async with gate_of(shop, {"refund": {"at_most": [{"n": 1}]}}) as gate:
        await gate.call("refund", key="k", order="A")
        assert (await gate.call("refund", order="A")).codes == ("shop.same_done",)
        assert (await gate.call("refund", order="B")).codes == ("shop.at_most_reached",)
        assert (await gate.call("refund", key="k", order="A")).status == "done"


def test_the_page_has_the_table_of_the_steps():
    codes = [[f"`{code}`" for code in step.codes] for step in POLICY_STEPS]
    rows = [
        f"| {step.name} | {', '.join(one)} |" for step, one in zip(POLICY_STEPS, codes, strict=True)
    ]
    assert "\n".join(rows) in PAGE.read_text("utf-8"), "\n".join(rows)
    assert set(POLICY_CODES) == {code for step in POLICY_STEPS for code in step.codes}


def test_a_kind_says_that_calls_of_other_agents_count(shop):
    rules = {"charge": {"at_most": [{"n": 1}]}, "mail": {"at_most": [{"n": 1, "per": ["agent"]}]}}
    kinds = {kind.name: kind.discloses for kind in shop.tools.domain(policy={"tools": rules}).kinds}
    assert kinds["shop.charge"] == "Calls of other agents count for the policy."
    assert kinds["shop.mail"] == ""
