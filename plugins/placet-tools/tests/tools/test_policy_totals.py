"""Totals of a policy: the sum of an argument, within a time, given back when a call is not done."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tools.shop import QUIET

from placet.history.verify_log import verify_log
from placet.kernel import Kernel
from placet.schemas.codec import canonical
from placet.stores.url import open_event_log
from placet_tools import Gate, NotDone, ToolPolicyError, Tools
from placet_tools.policy import totals
from placet_tools.policy.rules import Marking


class Bank:
    """Tools that pay.

    Attributes:
        tools: The tools.
        fails: Payments certainly do nothing.
        breaks: Payments raise.
    """

    def __init__(self) -> None:
        self.tools = Tools("bank")
        self.fails = self.breaks = False

        @self.tools.tool()
        def unpay(to: str, euro: float, output: str) -> str:
            return "back"

        @self.tools.tool(undo=unpay)
        def pay(to: str, euro: float) -> str:
            if self.fails:
                raise NotDone("closed")
            if self.breaks:
                raise OSError("broken")
            return "paid"

        @self.tools.tool()
        def close() -> None:
            raise NotDone("it stays open")


def policy_of(**rule):
    defaults = {"unlisted": "allow", "approve_from": "never"}
    return {"defaults": defaults, "tools": {"pay": {"at_most": [{"sum": "euro", **rule}]}}}


async def paid(gate, *values, to="bob"):
    """Return for each payment whether it was done, or its status or code."""
    found = []
    for value in values:
        outcome = await gate.call("pay", to=to, euro=value)
        found.append(outcome.codes[0].removeprefix("bank.") if outcome.codes else outcome.status)
    return found


async def test_a_sum_is_kept_exactly_and_the_refusal_names_it():
    async with Gate(Bank().tools, policy=policy_of(max=1), config=QUIET) as gate:
        assert await paid(gate, *[0.1] * 10) == ["done"] * 10  # as floats they are below 1
        refused = await gate.call("pay", to="bob", euro=0.01)
        assert refused.codes == ("bank.at_most_reached",)
        assert refused.message == (
            "the sum of 'euro' of pay is at most 1; it is 1, and this call has 0.01"
        )


async def test_a_sum_is_of_the_calls_with_the_same_arguments():
    async with Gate(Bank().tools, policy=policy_of(max=10, per=["to"]), config=QUIET) as gate:
        assert await paid(gate, 6, 5, 4) == ["done", "at_most_reached", "done"]
        assert await paid(gate, 10, to="eve") == ["done"]


async def test_a_call_that_was_not_done_gives_its_value_back_and_one_in_doubt_does_not():
    bank = Bank()
    for within in ({}, {"within": "1d"}):
        async with Gate(bank.tools, policy=policy_of(max=10, **within), config=QUIET) as gate:
            bank.fails = True
            assert await paid(gate, 8) == ["failed"]
            bank.fails, bank.breaks = False, True
            doubt = await gate.call("pay", to="bob", euro=8)
            bank.breaks = False
            assert await paid(gate, 8) == ["same_running"]
            assert await paid(gate, 8.5) == ["at_most_reached"]
            await gate.settle(doubt.key, done=False)
            assert await paid(gate, 8.5) == ["done"]
            first, _ = await gate.plan([("pay", {"to": "bob", "euro": 1.5}), ("close", {})])
            assert first.status == "undone"
            assert await paid(gate, 1.5, 0.5) == ["done", "at_most_reached"]
            both = await gate.plan([("pay", {"to": n, "euro": 0.0}) for n in ("a", "b")])
            assert [one.status for one in both] == ["done", "done"]


async def test_the_calls_of_a_plan_are_summed_together():
    async with Gate(Bank().tools, policy=policy_of(max=10), config=QUIET) as gate:
        plan = await gate.plan([("pay", {"to": name, "euro": 6}) for name in ("a", "b")])
        assert [one.status for one in plan] == ["skipped", "refused"]
        assert await paid(gate, 10) == ["done"]


def test_a_sum_within_a_time_tells_when_the_call_fits():
    kernel = Kernel(Bank().tools.domain(policy=policy_of(max=100, within="1m")))
    kernel.change_executor("bank.pay", 100)
    kernel.register_agent("ann")

    def pay(now: float, euro: float) -> float | str | None:
        intent = kernel.intent("bank.pay", agent="ann", to=f"{now} {euro}", euro=euro)
        verdict = kernel.decide([intent], now=now)
        return "done" if verdict.admitted else verdict.refusals[0].retry_after

    assert [pay(0, 60), pay(10, 30), pay(20, 20)] == ["done", "done", 40.0]
    assert [pay(59.5, 11), pay(60, 70), pay(60, 1)] == [0.5, "done", 10.0]
    assert [pay(70, 30), pay(70, 101)] == ["done", None]


@pytest.mark.parametrize("euro", [-1, 1e30, 1e-30])
async def test_a_value_that_no_sum_takes_is_refused(euro):
    async with Gate(Bank().tools, policy=policy_of(max=10), config=QUIET) as gate:
        assert await paid(gate, euro, 10, 1) == ["policy_failed", "done", "at_most_reached"]


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        ({"sum": "eurro", "max": 1}, "at_most[0].sum: no such field of pay"),
        ({"sum": "to", "max": 1}, "a sum is of a number, and 'to' is string"),
        ({"sum": "euro"}, "it needs 'max'"),
        ({"max": 3}, "it needs 'sum'"),
        ({"sum": "euro", "max": 0}, "expected a number above 0"),
        ({"sum": "euro", "max": 1, "n": 2}, "a rule has n, or sum and max"),
        ({"sum": "euro", "max": 1, "per": ["tto"]}, "did you mean 'to'?"),
    ],
)
def test_a_sum_that_cannot_be_meant_opens_no_gate(rule, fault):
    with pytest.raises(ToolPolicyError) as raised:
        Bank().tools.domain(policy={"tools": {"pay": {"at_most": [rule]}}})
    assert fault in str(raised.value)


@pytest.mark.parametrize("within", [{}, {"within": "1d"}])
async def test_a_new_sum_counts_the_calls_of_the_log_and_it_is_verified(tmp_path, within):
    bank, store = Bank(), f"sqlite:///{tmp_path}/bank.db"
    rules = {"defaults": {"unlisted": "allow", "approve_from": "never"}}
    async with Gate(bank.tools, store=store, policy=rules, config=QUIET) as gate:
        assert await paid(gate, 3) == ["done"]
        bank.fails = True
        assert await paid(gate, 50) == ["failed"]
        bank.fails = False
    policy = policy_of(max=10, **within)
    for _ in range(2):
        async with Gate(bank.tools, store=store, policy=policy, config=QUIET) as gate:
            assert await paid(gate, 8) == ["at_most_reached"]
    async with Gate(bank.tools, store=store, policy=policy, config=QUIET) as gate:
        assert await paid(gate, 7, 0.5) == ["done", "at_most_reached"]
    log = open_event_log(store)
    try:
        verify_log(log, [bank.tools.domain(policy=policy)])
    finally:
        log.close()


def test_the_entries_of_a_sum_are_bounded():
    marking = Marking("m", "started", "pay", (), summed="euro", within_ns=10**12)
    mark: dict[str, object] = {}
    for number in range(totals.CALLS_MAX * 2 + 7):
        value = Fraction(1, 10**18)
        mark.update(totals.added(marking, mark or None, value, f"{number}", number))
    assert len(mark) <= totals.CALLS_MAX + 4
    assert len(canonical(mark)) < 64_000
    full = totals.reached(marking, mark, Fraction(0), 10.0, 10**9)
    assert full is not None
    assert full.total == ""
    assert totals.reached(marking, mark, Fraction(10), 10.0, 10**13) is None


AMOUNTS = st.decimals(min_value=0, max_value=100, places=2).map(float)


@given(
    st.lists(st.tuples(AMOUNTS, st.integers(0, 40), st.booleans()), max_size=40),
    st.sampled_from([0, 60]),
)
def test_a_total_is_that_of_a_list_of_all_calls(calls, within):
    """Law: a call fits if and only if the values that count, and its own, are at most the limit."""
    marking = Marking("m", "started", "pay", (), summed="euro", within_ns=within)
    mark: dict[str, object] = {}
    kept: list[tuple[int, Fraction]] = []
    now = 0
    for number, (amount, pause, fails) in enumerate(calls):
        now += pause
        value = totals.value_of(amount)
        assert value is not None
        counted = [one for at, one in kept if not within or at + within > now]
        fits = sum(counted, Fraction(0)) + value <= 150
        found = totals.reached(marking, mark or None, value, 150, now)
        assert (found is None) == fits
        if found is not None and found.left_ns:
            then = [one for at, one in kept if at + within > now + found.left_ns]
            assert sum(then, Fraction(0)) + value <= 150
            before = [one for at, one in kept if at + within > now + found.left_ns - 1]
            assert sum(before, Fraction(0)) + value > 150
        if fits:
            mark.update(totals.added(marking, mark or None, value, f"{number}", now))
            if fails:
                mark.update(totals.given_back(marking, mark, value, f"{number}"))
            else:
                kept.append((now, value))
