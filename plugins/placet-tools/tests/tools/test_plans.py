"""A plan is decided as one batch; the done calls of one that failed are undone."""

import asyncio

import pytest
from tests.tools.shop import QUIET

from placet.domains.memory import Memory
from placet_tools import Gate, Tools


@pytest.fixture
async def gate(shop):
    async with Gate(shop.tools, approve_from="never", config=QUIET) as gate:
        yield gate


def statuses(outcomes):
    return [one.status for one in outcomes]


async def test_all_calls_of_a_plan_run_and_leave_no_plan_behind(shop, gate):
    outcomes = await gate.plan([("mail", {"to": "bob"}), ("refund", {"order": "A"})], key="p")
    assert statuses(outcomes) == ["done", "done"]
    assert [one.key for one in outcomes] == ["p.0", "p.1"]
    assert sorted(shop.ran) == [("mail", "bob"), ("refund", "A", 5)]
    assert await gate.world.state("shop.plans") == {}


@pytest.mark.parametrize("bad", [{"to": 4}, {"to": "competitor"}])
async def test_the_siblings_of_a_refused_call_are_skipped(shop, gate, bad):
    outcomes = await gate.plan([("refund", {"order": "A"}), ("mail", bad)])
    assert statuses(outcomes) == ["skipped", "refused"]
    assert shop.ran == []


async def test_the_done_calls_of_a_failed_plan_are_undone_in_reverse_order(shop, gate):
    shop.fails = {"mail"}
    orders = [("refund", {"order": order}) for order in "ABC"]
    outcomes = await gate.plan([*orders, ("mail", {"to": "bob"})])
    assert statuses(outcomes) == ["undone", "undone", "undone", "failed"]
    assert shop.ran[3:] == [("unpay", order, 5) for order in "CBA"]
    assert await gate.world.state("shop.plans") == {}
    assert (await gate.outcome(outcomes[0].key)).status == "undone"


async def test_a_plan_with_a_call_that_nothing_undoes_is_done_in_part(shop, gate):
    shop.fails = {"charge"}
    plan = [("mail", {"to": "bob"}), ("refund", {"order": "A"}), ("charge", {"order": "A"})]
    outcomes = await gate.plan(plan, key="p")
    assert statuses(outcomes) == ["done", "undone", "failed"]
    assert "done in part" in outcomes[0].message
    assert (await gate.world.state("shop.plans/p.0"))["state"] == "partly_done"


async def test_a_plan_whose_undoing_fails_is_done_in_part(shop, gate):
    shop.fails = {"mail", "unpay"}
    outcomes = await gate.plan([("refund", {"order": "A"}), ("mail", {"to": "bob"})], key="p")
    assert statuses(outcomes) == ["done", "failed"]
    assert (await gate.world.state("shop.plans/p.0"))["state"] == "partly_done"


async def test_a_doubt_leaves_a_plan_open_until_a_person_settles_it(shop, gate):
    shop.breaks = {"mail"}
    outcomes = await gate.plan([("refund", {"order": "A"}), ("mail", {"to": "bob"})], key="p")
    assert statuses(outcomes) == ["done", "doubt"]
    await gate.settle("p.1", done=False, output="it bounced")
    assert (await gate.outcome("p.0")).status == "undone"


async def test_the_doubts_of_a_plan_are_settled_one_after_the_other(shop, gate):
    shop.breaks, shop.fails = {"mail"}, {"unpay"}
    mails = [("mail", {"to": "bob"}), ("mail", {"to": "eve"})]
    plan = [("refund", {"order": "A"}), *mails, ("unpay", {"order": "B", "output": {"paid": 5}})]
    async with asyncio.timeout(20):
        assert statuses(await gate.plan(plan, key="p")) == ["done", "doubt", "doubt", "failed"]
        shop.fails = set()
        assert (await gate.settle("p.1", done=True)).status == "done"
        assert (await gate.outcome("p.0")).status == "done"
        assert (await gate.settle("p.2", done=False)).status == "failed"
        assert (await gate.outcome("p.0")).status == "undone"


async def test_no_agent_undoes_a_call_by_its_key(shop, gate):
    """The key of an undoing call gives no right: `approve_from` holds for it."""
    async with Gate(shop.tools, approve_from="medium", config=QUIET) as strict:
        outcome = await strict.call("unpay", key="p.0~undo", order="A", output={"paid": 5})
        assert outcome.status == "held"


async def test_a_known_plan_returns_its_calls(shop, gate):
    plan = [("mail", {"to": "bob"}), ("refund", {"order": "A"})]
    first = await gate.plan(plan, key="p")
    assert await gate.plan(plan, key="p") == first
    assert len(shop.ran) == 2
    other = await gate.plan([*plan, ("lookup", {"order": "A"})], key="p")
    assert {one.codes for one in other} == {("key_reused",)}


async def test_a_plan_has_intents_of_other_domains(shop):
    async with Gate(shop.tools, approve_from="never", domains=[Memory()], config=QUIET) as gate:
        fact = {"scope": "project", "key": "a", "value": "refunded"}
        plan = [("refund", {"order": "A"}), ("memory.remember", fact)]
        assert statuses(await gate.plan(plan, key="p")) == ["done", "done"]
        assert statuses(await gate.plan(plan, key="p")) == ["done", "done"]
        facts = await gate.world.state("memory.facts")
        assert [row["value"] for row in facts.values()] == ["refunded"]
        bad = await gate.plan([("refund", {"order": "B"}), ("memory.remember", {"key": 1})])
        assert statuses(bad) == ["skipped", "refused"]
    assert shop.ran == [("refund", "A", 5)]


async def test_a_plan_has_one_call_or_more(shop, gate):
    with pytest.raises(ValueError, match="one call or more"):
        await gate.plan([])
    assert statuses(await gate.plan([("lookup", {"order": "A"})])) == ["done"]


async def test_a_canceled_caller_leaves_its_plan_to_be_undone():
    tools, begun, goes_on, undone = Tools("slow"), asyncio.Event(), asyncio.Event(), []

    @tools.tool()
    async def unsend(to: str) -> None:
        undone.append(to)

    @tools.tool(undo=unsend)
    async def send(to: str) -> None: ...

    @tools.tool(not_done=(OSError,))
    async def fail() -> None:
        begun.set()
        await goes_on.wait()
        raise OSError

    async with Gate(tools, config=QUIET) as gate:
        caller = asyncio.create_task(gate.plan([("send", {"to": "bob"}), ("fail", {})], key="p"))
        await begun.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        goes_on.set()
        await gate.outcome("p.1")
        await gate._runner.finish("p.0")
        assert (await gate.outcome("p.0")).status == "undone"
    assert undone == ["bob"]
