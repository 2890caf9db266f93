"""`placet policy check` decides the examples; `placet backtest` judges the calls of a log anew."""

import asyncio

import pytest
from tests.tools.shop import QUIET, Shop

from placet.history.reader import fold
from placet.kernel import refuse
from placet.plugins.domains import DomainNotRemade
from placet.runtime.config import OrchestratorConfig
from placet.schemas.log.record import SingleBlock, decode_record
from placet.stores.reading import log_to_read
from placet_tools import Gate, NotDone, ToolPolicyError, Tools
from placet_tools.frontend.backtest import backtest
from placet_tools.frontend.drills import run_drills
from placet_tools.frontend.policy_examples import run_examples

MODULE = """
from placet_tools import Tools

tools = Tools("shop")
other = 3


@tools.tool()
def refund(order: str, euro: int = 5) -> dict:
    raise SystemError("an example ran the tool")


@tools.tool(risk="read")
def lookup(order: str) -> dict:
    return {"euro": 42}
"""

POLICY = """
[tools.lookup]
[tools.refund]
refuse = [{if = "euro > 400", say = "ask the bank"}]
approval = "euro > 100"
only_if = [{tool = "lookup", by = ["order"], if = "result.euro >= euro"}]
at_most = [{n = 2, per = ["order"], within = "1d"}]
"""

GIVEN = '{call = {tool = "lookup", order = "A"}, result = {euro = 200}}'

REFUNDS = ["{call = {tool = 'refund', order = 'A'}}"] * 2


def example(gives, *given, **call):
    """Return an example as TOML."""
    fields = ", ".join(f"{name} = {value!r}" for name, value in call.items())
    return (
        f"[[examples]]\ncall = {{tool = 'refund', {fields}}}\n"
        f"gives = '{gives}'\ngiven = [{', '.join(given)}]\n"
    )


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Return a folder with the tools and a policy, which is the current one."""
    (tmp_path / "policied_shop.py").write_text(MODULE)
    (tmp_path / "policy.toml").write_text(POLICY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


CHECK = ("policy", "check", "policy.toml", "--tools", "policied_shop:tools")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (example("allowed", GIVEN, order="A", euro=50), ("allowed", [])),
        (example("held", GIVEN, order="A", euro=150), ("held", ["shop.approval_required"])),
        (example("refused", order="A", euro=50), ("refused", ["shop.after_missing"])),
        (example("after_missing", GIVEN, order="B"), ("refused", ["shop.after_missing"])),
        (example("only_if_unmet", GIVEN, order="A", euro=201), ("refused", ["shop.only_if_unmet"])),
        (example("policy_refused", order="A", euro=401), ("refused", ["shop.policy_refused"])),
        (example("refused", order=5), ("refused", ["payload_invalid"])),
        (
            example("at_most_reached", GIVEN, *REFUNDS, order="A"),
            ("refused", ["shop.at_most_reached"]),
        ),
    ],
)
def test_an_example_is_decided_on_a_scratch_store(placet, here, text, answer):
    (here / "policy.toml").write_text(POLICY + text)
    outcome = placet(*CHECK, "--json")
    report = outcome.json()
    assert (outcome.code, report["ok"]) == (0, True)
    (result,) = report["examples"]
    assert (result["status"], result["codes"]) == answer


def test_an_example_that_differs_is_printed(placet, here):
    text = example("allowed", order="A") + example("policy_refused", order="A", euro=401)
    (here / "policy.toml").write_text(POLICY + text)
    outcome = placet(*CHECK)
    assert outcome.code == 1
    assert "policy.toml fits the tools; 1 of 2 examples differ" in outcome.out
    assert "examples[0]" in outcome.out
    assert "refused, shop.after_missing" in outcome.out
    assert "examples[1]" not in outcome.out


def test_a_policy_without_examples_fits(placet, here):
    outcome = placet(*CHECK)
    assert outcome.code == 0
    assert outcome.out.startswith("policy.toml fits the tools; 0 examples\n")
    assert outcome.out.splitlines()[2:] == [
        "  tool    a person is asked        limits in force",
        "  lookup  never                    none",
        "  refund  operator: if euro > 100  refused if euro > 400",
        f"{' ' * 35}only if the latest lookup with the same order has result.euro >= euro",
        f"{' ' * 35}at most 2 calls for each order within 86400 s",
    ]


def test_a_role_that_decides_nothing_is_a_warning(placet, here):
    (here / "policy.toml").write_text(
        '[tools.lookup]\nrole = "manager"\n[tools.refund]\nrole = "manager"\n'
        'approval = "euro > 100"\nquota = {rate = 1, burst = 3}\n'
    )
    outcome = placet(*CHECK)
    assert outcome.code == 0
    (warning,) = [line for line in outcome.out.splitlines() if line.startswith("warning: ")]
    assert "tools.lookup.role: no call of it asks a person" in warning
    lookup, refund, *_ = placet(*CHECK, "--json").json()["limits"]
    assert (lookup["asks"], lookup["limits"]) == ("never", [])
    assert refund["asks"] == "manager: if euro > 100"
    assert refund["limits"] == ["1 a second of each agent, 3 at once"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (CHECK, "policy.toml: tools.refnud: no such tool; did you mean 'refund'?"),
        ((*CHECK[:2], "none.toml", *CHECK[3:]), "cannot read the policy none.toml"),
        ((*CHECK[:4], "policied_shop:toools"), "module 'policied_shop' has no Tools 'toools'"),
        ((*CHECK[:4], "policied_shop:other"), "has no Tools 'other', got 3; it has tools"),
        ((*CHECK[:4], "no_such_shop:tools"), "cannot import the module of the tools"),
        ((*CHECK[:4], "policied_shop"), "--tools names module:attribute, such as shop:tools"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_1(placet, here, arguments, message):
    (here / "policy.toml").write_text("[tools.refnud]")
    outcome = placet(*arguments)
    assert outcome.code == 1
    assert message in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_an_earlier_call_that_does_not_fit_is_refused(here):
    policy = {
        "examples": [
            {
                "call": {"tool": "refund"},
                "gives": "held",
                "given": [{"call": {"tool": "refund", "euro": "x"}}],
            }
        ]
    }
    with pytest.raises(
        ToolPolicyError, match=r"examples\[0\].given\[0\].call: the arguments do not"
    ):
        run_examples(Shop().tools, policy)


# backtest


@pytest.fixture
async def store(shop, tmp_path):
    """Return the store of a log: calls that are done, refused, held and approved, and a plan."""
    store = f"sqlite:///{tmp_path}/shop.db"
    policy = {
        "defaults": {"unlisted": "allow", "approve_from": "never"},
        "tools": {
            "refund": {"approval": "euro > 100", "refuse": [{"if": "euro > 400"}]},
        },
    }
    async with Gate(shop.tools, store=store, policy=policy, config=QUIET) as gate:
        await gate.call("lookup", order="A")
        await gate.call("refund", agent="ann", order="A", euro=50)
        await gate.call("refund", agent="ann", order="B", euro=450)
        held = await gate.call("refund", agent="bob", order="C", euro=150)
        await gate.decide(held.approval, "approve", by="eve")
        await gate.plan([("charge", {"order": "A"}), ("charge", {"order": "B"})])
        await gate.call("mail", to="competitor")
    return store


SAME = {"approval": "euro > 100", "refuse": [{"if": "euro > 400"}]}


@pytest.mark.parametrize(
    ("rules", "changed"),
    [
        ({"refund": SAME}, []),
        ({}, [("refund", "refused", "allowed"), ("refund", "held", "allowed")]),
        ({"refund": {**SAME, "approval": "euro > 40"}}, [("refund", "allowed", "held")]),
        (
            {"refund": {key: one for key, one in SAME.items() if key != "refuse"}},
            [("refund", "refused", "held")],
        ),
        (
            {"refund": {"refuse": [{"if": "True"}]}},
            [("refund", "allowed", "refused"), ("refund", "held", "refused")],
        ),
        (
            {"refund": {**SAME, "after": [{"tool": "lookup", "by": ["order"]}]}},
            [("refund", "held", "refused")],
        ),
        (
            {"refund": SAME, "charge": {"at_most": [{"n": 1}]}},
            [("charge", "allowed", "skipped"), ("charge", "allowed", "refused")],
        ),
        (
            {"refund": SAME, "charge": {"never_after": [{"tool": "lookup"}]}},
            [("charge", "allowed", "refused"), ("charge", "allowed", "refused")],
        ),
        (
            {"refund": SAME, "charge": {"quota": {"rate": 0.001, "burst": 1}}},
            [("charge", "allowed", "refused"), ("charge", "allowed", "refused")],
        ),
    ],
)
async def test_each_call_is_judged_at_its_recorded_state(shop, store, rules, changed):
    policy = {"defaults": {"unlisted": "allow", "approve_from": "never"}, "tools": rules}
    log = log_to_read(store)
    report = backtest(log, shop.tools, policy)
    assert [(one.tool, one.was.status, one.now.status) for one in report.changed] == changed
    assert report.calls == 7
    assert report.changes.total() == len(changed)
    assert report.notes == []
    assert fold(log).state.digest()  # the log is as it was
    log.close()


async def test_calls_count_as_they_were_recorded(shop, store):
    """A call that the new policy refuses was made, and counts for the calls after it."""
    rules = {"refund": {"at_most": [{"n": 1}], "refuse": [{"if": "euro == 50"}]}}
    policy = {"defaults": {"unlisted": "allow", "approve_from": "never"}, "tools": rules}
    log = log_to_read(store)
    report = backtest(log, shop.tools, policy)
    log.close()
    assert [one.now.codes for one in report.changed] == [
        ("shop.policy_refused",), ("shop.at_most_reached",),
    ]  # fmt: skip


async def test_a_call_that_the_new_policy_allows_leaves_the_state_as_it_was(shop, tmp_path):
    store = f"sqlite:///{tmp_path}/shop.db"
    defaults = {"unlisted": "allow", "approve_from": "never"}
    old = {"defaults": defaults, "tools": {"refund": {"refuse": [{"if": "euro > 400"}]}}}
    async with Gate(shop.tools, store=store, policy=old, config=QUIET) as gate:
        assert (await gate.call("refund", order="A", euro=450)).status == "refused"
        assert (await gate.call("refund", order="A", euro=50)).status == "done"
    log = log_to_read(store)
    new = {"defaults": defaults, "tools": {"refund": {"at_most": [{"n": 1}]}}}
    report = backtest(log, shop.tools, new)
    log.close()
    assert [(one.was.status, one.now.status) for one in report.changed] == [("refused", "allowed")]


@pytest.fixture
async def many(shop, tmp_path):
    """Return the store of a log in which calls of one moment share records."""
    store = f"sqlite:///{tmp_path}/shop.db"
    async with Gate(shop.tools, store=store, approve_from="low", config=QUIET) as gate:
        await gate.call("lookup", order="B")
        calls = [gate.call("lookup", agent=f"a{n % 3}", order=f"A{n}") for n in range(60)]
        assert {one.status for one in await asyncio.gather(*calls)} == {"done"}
        held = [gate.call("mail", agent=f"a{n % 3}", to=f"bob{n}") for n in range(10)]
        assert {one.status for one in await asyncio.gather(*held)} == {"held"}
    return store


async def test_calls_of_one_record_are_judged_one_after_another(shop, many):
    log = log_to_read(many)
    assert any(isinstance(decode_record(data), SingleBlock) for _, data in log.read())
    rules = {"lookup": {"at_most": [{"n": 21, "per": ["agent"]}]}, "mail": {}}
    report = backtest(log, shop.tools, {"tools": rules})
    assert (report.calls, report.changed) == (71, [])
    rules["lookup"]["at_most"] = [{"n": 19, "per": ["agent"]}]
    report = backtest(log, shop.tools, {"tools": rules})
    assert sorted(one.agent for one in report.changed) == ["a0", "a1", "a2"]
    report = backtest(log, shop.tools, {"defaults": {"approve_from": "never"}, "tools": rules})
    assert report.changes == {("held", "allowed"): 10, ("allowed", "refused"): 3}
    log.close()


async def test_a_compacted_log_is_judged_from_its_snapshot(placet, shop, many):
    path = many.removeprefix("sqlite:///")
    assert placet("compact", path, "--keep", "40").code == 0
    log = log_to_read(many)
    rules = {"lookup": {"quota": {"rate": 0.001, "burst": 1}}, "mail": {}}
    report = backtest(log, shop.tools, {"tools": rules})
    assert 0 < report.calls < 71
    (note,) = report.notes
    assert note.startswith("the log was compacted: calls before record ")
    with pytest.raises(DomainNotRemade):
        backtest(log, Tools("desk"), {})
    log.close()


async def test_undone_calls_are_not_judged(shop, tmp_path):
    store = f"sqlite:///{tmp_path}/shop.db"
    shop.fails = {"mail"}
    async with Gate(shop.tools, store=store, approve_from="never", config=QUIET) as gate:
        await gate.plan([("refund", {"order": "A"}), ("mail", {"to": "bob"})])
    log = log_to_read(store)
    policy = {"defaults": {"approve_from": "never"}, "tools": {"refund": {}, "mail": {}}}
    report = backtest(log, shop.tools, policy)
    log.close()
    assert (report.calls, report.changed) == (2, [])


async def test_changed_tools_are_noted(store):
    tools = Tools("shop")

    @tools.tool()
    def lookup(order: int) -> int:
        """Find an order by its number."""
        raise NotDone("it is closed")

    log = log_to_read(store)
    report = backtest(log, tools, {"tools": {"lookup": {}}})
    log.close()
    found = [(one.tool, one.now.codes) for one in report.changed]
    assert found[0] == ("lookup", ("payload_invalid",))
    assert found[1:3] == [("refund", ("kind_unknown",)), ("refund", ("kind_unknown",))]
    assert report.notes == [
        "the tools have changed since the log: calls are judged by those of today"
    ]


async def test_a_log_of_other_tools_is_refused(store):
    log = log_to_read(store)
    with pytest.raises(DomainNotRemade, match="domains shop, approvals, but the tools are 'desk'"):
        backtest(log, Tools("desk"), {})
    log.close()


def test_a_backtest_prints_a_table_and_exits_with_1(placet, here, tmp_path):
    path = tmp_path / "shop.db"
    tools = Shop().tools

    @tools.tool()
    def sell(order: str) -> str:
        """Sell."""
        return order

    config = OrchestratorConfig(log_level="critical")
    with Gate(tools, store=f"sqlite:///{path}", config=config) as gate:
        for number in range(60):
            gate.call("lookup", order=f"A{number}")
    (here / "policied_shop.py").write_text(
        "from tests.tools.shop import Shop\ntools = Shop().tools\n"
    )
    (here / "policy.toml").write_text("[tools.lookup]\nrefuse = [{if = 'True', say = 'closed'}]")
    arguments = ("backtest", str(path), "--policy", "policy.toml", "--tools", "policied_shop:tools")
    outcome = placet(*arguments)
    assert outcome.code == 1
    assert "60 calls, 0 with the same answer" in outcome.out
    assert "allowed → refused  60" in outcome.out
    assert "closed" in outcome.out
    assert "… and 10 more calls; --json lists them" in outcome.out
    report = placet(*arguments, "--json").json()
    assert (report["calls"], report["same"], len(report["changed"])) == (60, 0, 60)
    assert report["changed"][0]["arguments"] == {"order": "A0"}
    (here / "policy.toml").write_text("[tools.lookup]")
    assert placet(*arguments).code == 0
    (here / "policy.toml").write_text("[tools.lokup]")
    assert "policy.toml: tools.lokup: no such tool" in placet(*arguments).err


def tool_that_must_not_run(name):
    def function(order: str) -> None:
        raise SystemError("a drill ran the tool")

    function.__name__ = name
    return function


def drill_tools():
    tools = Tools("shop")
    tools.tool(risk="read")(tool_that_must_not_run("lookup"))
    tools.tool(delivery="idempotent")(tool_that_must_not_run("put"))
    tools.tool()(tool_that_must_not_run("mail"))
    tools.tool(once="refund:{order}")(tool_that_must_not_run("refund"))
    tools.tool()(tool_that_must_not_run("never"))

    @tools.tool()
    def charge(order: str, idempotency_key: str) -> None:
        raise SystemError("a drill ran the tool")

    @tools.rule("never")
    def is_refused(draft, intent):
        return refuse("never", "it may not be called")

    return tools


def test_drills_show_what_becomes_of_calls_that_fail():
    names = ["lookup", "put", "charge", "mail", "refund", "never"]
    examples = [{"call": {"tool": name, "order": "A"}, "gives": "allowed"} for name in names]
    parsed = drill_tools().domain(policy={"examples": examples}).enforced.policy
    assert parsed is not None
    again = ("done", "done", "done", "done", 2)
    doubt = ("doubt", "refused", "doubt", "doubt", 1)
    assert {
        one.tool: (one.raises, one.again, one.hangs, one.killed, one.runs)
        for one in run_drills(drill_tools(), parsed.examples)
    } == {
        "lookup": ("failed", "done", "failed", "done", 2),
        "put": again,
        "charge": again,
        "mail": doubt,
        "refund": doubt,
        "never": ("refused", "refused", "refused", "refused", 0),
    }
    assert run_drills(drill_tools(), []) == []
