"""A policy that cannot be meant is refused at opening, with its place and the nearest name."""

import pytest
from tests.tools.shop import Shop

from placet_tools import Gate, ToolPolicyError, Tools


def message_of(path, text):
    """Return the message of the error of a policy, without the name of its file."""
    path.write_text(text)
    with pytest.raises(ToolPolicyError) as error:
        Gate(Shop().tools, policy=path)
    name = f"{path}: "
    assert str(error.value).startswith(name)
    return str(error.value).removeprefix(name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tools.refnud]", "tools.refnud: no such tool; did you mean 'refund'?"),
        ("[tool.refund]", "tool: no such section; did you mean 'tools'?"),
        (
            "[defaults]\nunlistd = 'hold'",
            "defaults.unlistd: no such default; did you mean 'unlisted'?",
        ),
        (
            "[defaults]\nunlisted = 'hol'",
            "defaults.unlisted: no such value 'hol'; did you mean 'hold'?",
        ),
        ("[defaults]\napprove_from = 'hgih'", "no such value 'hgih'; did you mean 'high'?"),
        ("defaults = 3", "defaults: expected a table, got 3"),
        ("[tools]\nrefund = 3", "tools.refund: expected a table, got 3"),
        ("[defaults", "it is no TOML"),
        ("at = 2026-01-01", "at: no such section"),
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused(tmp_path, text, message):
    assert message in message_of(tmp_path / "policy.toml", text)


MANY = "{if = 'euro > 1'}, " * 257


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("rol = 'boss'", "rol: no such rule; did you mean 'role'?"),
        ("at_most = []", "at_most: an empty list limits nothing"),
        ("refuse = []", "refuse: an empty list limits nothing"),
        ("after = []", "after: an empty list limits nothing"),
        ("role = ''", "role: expected a text of 1 to 1000 characters"),
        ("approval = 'eur > 1'", "approval: no such field 'eur'; did you mean 'euro'?"),
        ("approval = 'euro > \"x\"'", "approval: 'euro > \"x\"': > compares"),
        ("approval = 'euro'", "approval: 'euro': the expression must be of type boolean"),
        ("approval = 3", "approval: an expression is a text such as"),
        ("refuse = 'euro > 1'", "refuse: expected a list in [ ], got 'euro > 1'"),
        ("refuse = ['euro > 1']", "refuse[0]: expected a table, got 'euro > 1'"),
        ("refuse = [{say = 'no'}]", "refuse[0]: it needs 'if'"),
        (
            "refuse = [{if = 'euro > 1', sya = 'no'}]",
            "refuse[0].sya: no such key; did you mean 'say'?",
        ),
        (
            "refuse = [{if = 'upper(order) == \"A\"'}]",
            "refuse[0].if: no such function 'upper'; there are len, lower, startswith, endswith",
        ),
        ("quota = {rat = 1, burst = 1}", "quota.rat: no such key; did you mean 'rate'?"),
        ("quota = {rate = 0, burst = 1}", "quota: "),
        ("quota = {rate = 1}", "quota: it needs 'burst'"),
        (
            "after = [{tool = 'lokup'}]",
            "after[0].tool: no such tool 'lokup'; did you mean 'lookup'?",
        ),
        ("after = [{by = ['order']}]", "after[0]: it needs 'tool'"),
        (
            "after = [{tool = 'lookup', by = ['ordr']}]",
            "after[0].by[0]: no such field of refund 'ordr'; did you mean 'order'?",
        ),
        (
            "after = [{tool = 'lookup', by = ['euro']}]",
            "after[0].by[0]: no such field of lookup 'euro'",
        ),
        ("after = [{tool = 'mail', by = ['to']}]", "after[0].by[0]: no such field of refund 'to'"),
        ("at_most = [{n = 0}]", "at_most[0].n: expected an integer of at least 1, got 0"),
        ("at_most = [{per = ['order']}]", "at_most[0]: it needs 'n'"),
        (
            "at_most = [{n = 3, within = '1w'}]",
            "at_most[0].within: a time is seconds, or a text such as '30m'",
        ),
        ("at_most = [{n = 3, within = 0}]", "at_most[0].within: a time is more than 0"),
        (
            "at_most = [{n = 1001, within = 60}]",
            "at_most[0].n: with `within`, n is at most 1000, got 1001",
        ),
        ("only_if = [{tool = 'lookup'}]", "only_if[0]: it needs 'if'"),
        (f"refuse = [{MANY}]", "refuse: there are at most 256 rules, got 257"),
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused(tmp_path, rule, message):
    found = message_of(tmp_path / "policy.toml", f"[tools.refund]\n{rule}")
    assert found.startswith(f"tools.refund.{message}")


@pytest.mark.parametrize(
    ("example", "message"),
    [
        ("gives = 'held'", ": it needs 'call'"),
        (
            "call = {tool = 'refund'}\ngives = 'hled'",
            ".gives: no such answer 'hled'; did you mean 'held'?",
        ),
        (
            "call = {tool = 'refnud'}\ngives = 'held'",
            ".call.tool: no such tool 'refnud'; did you mean 'refund'?",
        ),
        (
            "call = {tool = 'refund', eruo = 1}\ngives = 'held'",
            ".call.eruo: no such field of refund; did you mean 'euro'?",
        ),
        ("call = {euro = 1}\ngives = 'held'", ".call: it needs 'tool'"),
        ("call = {tool = 'refund'}\ngives = 'held'\ngiven = [{}]", ".given[0]: it needs 'call'"),
        (
            "call = {tool = 'refund'}\ngives = 'held'\ngiven = [{cal = 1}]",
            ".given[0].cal: no such key; did you mean 'call'?",
        ),
        ("cal = {tool = 'refund'}\ngives = 'held'", ".cal: no such key; did you mean 'call'?"),
    ],
)
def test_an_example_that_cannot_be_meant_is_refused(tmp_path, example, message):
    text = "[[examples]]\n" + "\n".join(example.split("; "))
    assert message_of(tmp_path / "policy.toml", text).startswith(f"examples[0]{message}")


def test_the_values_of_a_policy_are_a_policy_too():
    with pytest.raises(ToolPolicyError, match=r"^policy: tools.refnud: no such tool"):
        Gate(Shop().tools, policy={"tools": {"refnud": {}}})
    with pytest.raises(ToolPolicyError, match="expected a table, got 3"):
        Shop().tools.domain(policy=3)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(ToolPolicyError, match="a policy is made of plain values"):
        Shop().tools.domain(policy={"tools": {"refund": {"approval": object()}}})


def test_a_policy_that_cannot_be_read_opens_no_gate(tmp_path):
    with pytest.raises(ToolPolicyError, match=r"cannot read the policy .*none\.toml: No such file"):
        Gate(Shop().tools, policy=str(tmp_path / "none.toml"))


def test_two_calls_can_agree_in_fields_of_one_type_alone():
    tools = Tools("desk")

    @tools.tool()
    def by_number(order: int) -> int:
        """Find by a number."""
        return order

    @tools.tool()
    def by_name(order: str) -> str:
        """Find by a name."""
        return order

    rules = {"by_name": {"after": [{"tool": "by_number", "by": ["order"]}]}}
    with pytest.raises(
        ToolPolicyError, match="'order' of by_name and by_number: string and number"
    ):
        tools.domain(policy={"tools": rules})


def test_a_field_of_a_result_is_checked_by_the_type_that_the_function_declares():
    tools = Tools("desk")

    @tools.tool()
    def count(name: str) -> dict[str, int]:
        """Count."""
        return {name: 1}

    @tools.tool()
    def sell(name: str) -> Shop:
        """Sell; the type of the output has no schema."""
        return Shop()

    @tools.tool()
    def find(name: str):
        """Find; no type is declared."""

    rules = {
        "sell": {"only_if": [{"tool": "count", "if": "result.left > 0"}]},
        "count": {"only_if": [{"tool": "sell", "if": "result.done"}]},
        "find": {"only_if": [{"tool": "find", "if": "result.done"}]},
    }
    policy = tools.domain(policy={"tools": rules}).enforced.policy
    assert policy is not None
    assert set(policy.tools) == set(rules)


def test_settings_have_the_policy_without_its_examples():
    policy = {
        "tools": {"refund": {"approval": "euro > 1"}},
        "examples": [{"call": {"tool": "refund"}, "gives": "held"}],
    }
    domain = Shop().tools.domain(policy=policy)
    assert domain.settings()["policy"] == {"tools": {"refund": {"approval": "euro > 1"}}}


@pytest.mark.parametrize("policy", ["", [], 3, b"policy.toml", (), False])
def test_a_policy_is_a_path_or_values(policy):
    with pytest.raises(ToolPolicyError, match=r"path of a TOML file.*leave it out for none"):
        Gate(Shop().tools, policy=policy)
