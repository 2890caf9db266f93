"""A call runs when it is admitted and durable, once by its key and its consequence."""

import asyncio

import pytest
from tests.tools.shop import QUIET, Shop

from placet_tools import ApprovalUnknown, Gate, KeyInvalid, NotDone, Tools, records


async def test_a_call_runs_and_returns_its_output(shop, gate):
    outcome = await gate.call("lookup", order="A")
    assert (outcome.status, outcome.output) == ("done", {"order": "A", "euro": 42})
    assert outcome.for_model == {"order": "A", "euro": 42}
    assert shop.ran == [("lookup", "A")]


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("lokup", {"order": "A"}, "kind_unknown"),
        ("lookup", {}, "payload_invalid"),
        ("lookup", {"order": "A", "extra": 1}, "payload_invalid"),
        ("refund", {"order": "A", "euro": 501}, "payload_invalid"),
        ("mail", {"to": "competitor"}, "shop.no_competitor"),
    ],
)
async def test_a_refused_call_has_its_code_and_runs_nothing(shop, gate, tool, arguments, code):
    outcome = await gate.call(tool, **arguments)
    assert (outcome.status, outcome.codes) == ("refused", (code,))
    assert outcome.for_model["codes"] == [code]
    assert shop.ran == []


async def test_a_misspelled_tool_has_the_nearest_name(gate):
    message = (await gate.call("lokup", order="A")).message
    assert message == "there is no tool 'lokup'; did you mean 'lookup'?"


async def test_a_known_key_returns_its_call_and_runs_nothing(shop, gate):
    first = await gate.call("mail", key="t1", to="bob")
    assert await gate.call("mail", key="t1", to="bob") == first
    assert await gate.outcome("t1") == first
    assert shop.ran == [("mail", "bob")]


@pytest.mark.parametrize(
    ("tool", "arguments", "agent"),
    [
        ("mail", {"to": "eve"}, "agent"),
        ("mail", {"to": "bob"}, "other"),
        ("lookup", {"order": "bob"}, "agent"),
        ("mial", {"to": "bob"}, "agent"),
    ],
)
async def test_a_key_with_another_call_is_refused(shop, gate, tool, arguments, agent):
    await gate.call("mail", key="t1", to="bob")
    outcome = await gate.call(tool, key="t1", agent=agent, **arguments)
    assert (outcome.status, outcome.codes) == ("refused", ("key_reused",))
    assert shop.ran == [("mail", "bob")]


@pytest.mark.parametrize("key", ["", "k" * 81])
async def test_a_key_has_1_to_80_characters(gate, key):
    with pytest.raises(KeyInvalid):
        await gate.call("mail", key=key, to="bob")


async def test_two_calls_with_one_key_at_one_moment_run_once(shop, gate):
    calls = [gate.call("mail", key="t1", to="bob") for _ in range(5)]
    outcomes = await asyncio.gather(*calls)
    assert {one.status for one in outcomes} == {"done"}
    assert shop.ran == [("mail", "bob")]


async def test_an_unknown_key_has_no_outcome(gate):
    with pytest.raises(LookupError, match="there is no call 'x'"):
        await gate.outcome("x")


async def test_a_consequence_happens_once_and_may_be_tried_again_after_a_failure(shop):
    async with Gate(shop.tools, approve_from="never", config=QUIET) as gate:
        shop.fails = {"refund"}
        assert (await gate.call("refund", order="A")).status == "failed"
        shop.fails = set()
        assert (await gate.call("refund", order="A")).status == "done"
        again = await gate.call("refund", agent="other", order="A", euro=6)
        assert again.codes == ("shop.same_done",)
        assert (await gate.call("refund", order="B")).status == "done"
    assert shop.ran == [("refund", "A", 5), ("refund", "B", 5)]


async def test_a_call_that_runs_is_not_repeated_with_a_new_key():
    tools, begun, goes_on = Tools("slow"), asyncio.Event(), asyncio.Event()

    @tools.tool()
    async def send(to: str) -> str:
        begun.set()
        await goes_on.wait()
        return to

    async with Gate(tools) as gate:
        first = asyncio.create_task(gate.call("send", to="bob"))
        await begun.wait()
        assert (await gate.call("send", to="bob")).codes == ("slow.same_running",)
        assert not first.done()
        goes_on.set()
        assert (await first).status == "done"
        assert (await gate.call("send", to="bob")).status == "done"  # as no `once` forbids it


async def test_a_canceled_caller_leaves_its_call_running():
    tools, begun, goes_on, ran = Tools("slow"), asyncio.Event(), asyncio.Event(), []

    @tools.tool()
    async def send(to: str) -> str:
        begun.set()
        await goes_on.wait()
        ran.append(to)
        return to

    async with Gate(tools) as gate:
        caller = asyncio.create_task(gate.call("send", key="t1", to="bob"))
        await begun.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        goes_on.set()
        assert (await gate.outcome("t1")).status == "done"
    assert ran == ["bob"]


async def test_a_keyed_call_passes_its_key_on_and_is_retried():
    tools, keys = Tools("shop"), []

    @tools.tool()
    def charge(order: str, idempotency_key: str) -> str:
        keys.append(idempotency_key)
        if len(keys) == 1:
            raise OSError("the line went dead")
        return order

    async with Gate(tools, config=QUIET) as gate:
        assert (await gate.call("charge", key="t1", order="A")).output == "A"
    assert keys == ["t1", "t1"]


async def test_a_quota_limits_the_calls_of_each_agent():
    tools = Tools("shop")

    @tools.tool(quota={"rate": 0.001, "burst": 1})
    def ring() -> None: ...

    async with Gate(tools, config=QUIET) as gate:
        assert (await gate.call("ring")).status == "done"
        assert (await gate.call("ring")).codes == ("quota_exceeded",)
        assert (await gate.call("ring", agent="other")).status == "done"


async def test_an_output_of_any_type_is_plain_json():
    tools = Tools("shop")

    @tools.tool(risk="read")
    def big() -> str:
        return "x" * 5_000

    @tools.tool(risk="read")
    def odd() -> object:
        return object()

    async with Gate(tools, config=QUIET) as gate:
        assert (await gate.call("big", key="t1")).output == "x" * 5_000
        assert (await gate.outcome("t1")).output == "x" * 5_000
        record = await gate.world.state("shop.calls")
        assert record["t1"]["output"].startswith("part:")
        outcome = await gate.call("odd")
        assert (outcome.status, "not_recorded" in outcome.output) == ("done", True)


@pytest.mark.parametrize(
    ("error", "delivery", "status"),
    [
        (OSError("broke"), "at_most_once", "doubt"),
        (NotDone("closed"), "at_most_once", "failed"),
        (ConnectionRefusedError("closed"), "at_most_once", "failed"),
        (OSError("broke"), "pure", "failed"),
        (NotDone("closed"), "idempotent", "failed"),
    ],
)
async def test_an_exception_says_that_nothing_was_done_only_where_it_is_named(
    error, delivery, status
):
    tools, ran = Tools("shop"), []

    @tools.tool(delivery=delivery, not_done=(ConnectionRefusedError,))
    def send() -> None:
        ran.append(1)
        raise error

    async with Gate(tools, config=QUIET) as gate:
        outcome = await gate.call("send", key="t1")
        assert (outcome.status, str(error) in outcome.message) == (status, True)
        assert (await gate.outcome("t1")).status == status
    assert ran == [1]


@pytest.mark.parametrize(("delivery", "status"), [("at_most_once", "doubt"), ("pure", "failed")])
async def test_a_tool_that_hangs_is_in_doubt_after_its_time(delivery, status):
    tools = Tools("shop")

    @tools.tool(delivery=delivery, seconds_max=0.01)
    async def send() -> None:
        await asyncio.Event().wait()

    async with Gate(tools, config=QUIET) as gate:
        assert (await gate.call("send")).status == status


@pytest.mark.parametrize(("done", "status"), [(True, "done"), (False, "failed")])
async def test_a_person_settles_a_doubt(shop, gate, done, status):
    shop.breaks = {"mail"}
    doubt = await gate.call("mail", key="t1", to="bob")
    assert doubt.status == "doubt"
    assert (await gate.call("mail", to="bob")).codes == ("shop.same_running",)
    assert (await gate.settle("t1", done=done, output="seen")).status == status
    with pytest.raises(LookupError, match="no call 't1' is in doubt"):
        await gate.settle("t1", done=True)


async def test_a_call_that_takes_longer_than_the_wait_is_running():
    tools, goes_on = Tools("slow"), asyncio.Event()

    @tools.tool()
    async def send() -> None:
        await goes_on.wait()

    async with Gate(tools, wait_s=0.01) as gate:
        assert (await gate.call("send", key="t1")).status == "running"
        assert (await gate.outcome("t1")).status == "running"
        goes_on.set()
        await gate.world.wait_effects()
        assert (await gate.outcome("t1")).status == "done"


async def test_a_rule_that_raises_refuses_the_call(shop):
    @shop.tools.rule("lookup")
    def broken(draft, intent):
        raise ZeroDivisionError

    async with Gate(shop.tools, config=QUIET) as gate:
        assert (await gate.call("lookup", order="A")).codes == ("rule_error",)
    assert shop.ran == []


async def test_a_rule_reads_and_writes_the_state_of_its_batch(shop):
    @shop.tools.rule("lookup")
    def three_at_most(draft, intent):
        from placet.kernel import refuse

        count = draft.get("shop.lookups", "all", "n", 0)
        if count == 3:
            return refuse("too_many", "three at most")
        if not count:
            draft.create("shop.lookups", "all")
        draft.put("shop.lookups", "all", "n", count + 1)
        return None

    async with Gate(shop.tools, config=QUIET) as gate:
        statuses = [(await gate.call("lookup", order="A")).status for _ in range(4)]
        assert statuses == ["done"] * 3 + ["refused"]


async def test_no_agent_records_plans_or_undoes_calls(gate):
    eve = await gate.world.register_agent("eve")
    for kind, payload in (
        ("shop.plan", {"keys": ["a", "b"]}),
        ("shop.undo", {"plan": "a", "key": "a"}),
        ("shop.release", {"plan": "a"}),
    ):
        assert (await eve.submit([eve.intent(kind, payload)])).codes == ("shop.recorder_only",)


async def test_a_call_is_the_business_of_its_agent(gate):
    await gate.call("mail", key="t1", agent="ann", to="bob")
    eve = await gate.world.register_agent("eve")
    assert "shop.calls" not in {
        name for name, rows in (await eve.refresh_view()).state.items() if rows
    }


async def test_a_later_agent_of_a_name_has_none_of_its_calls(shop, gate):
    await gate.call("mail", key="t1", agent="ann", to="bob")
    held = await gate.call("refund", key="t2", agent="ann", order="A")
    await gate.world.remove_agent("ann")
    ann = await gate.world.register_agent("ann")
    assert not any((await ann.refresh_view()).state.values())
    with pytest.raises(ApprovalUnknown):
        await gate.decide(held.approval, "approve", by="eve")
    assert (await gate.call("mail", key="t1", agent="ann", to="bob")).codes == ("key_reused",)


async def test_a_removed_agent_calls_nothing_until_its_name_is_registered_again(shop, gate):
    await gate.call("mail", agent="ann", to="bob")
    await gate.world.remove_agent("ann")
    assert (await gate.call("mail", agent="ann", to="eve")).codes == ("unauthorized",)
    await gate.world.register_agent("ann")
    assert (await gate.call("mail", agent="ann", to="eve")).status == "done"
    assert shop.ran == [("mail", "bob"), ("mail", "eve")]


async def test_an_agent_calls_the_tools_that_it_is_permitted(shop, gate):
    await gate.world.register_agent("ann", permissions={"shop.lookup"})
    assert (await gate.call("lookup", agent="ann", order="A")).status == "done"
    assert (await gate.call("mail", agent="ann", to="bob")).codes == ("permission_denied",)
    assert shop.ran == [("lookup", "A")]


async def test_the_state_keeps_the_latest_ended_calls(monkeypatch):
    monkeypatch.setattr(records, "ENDED_MAX", 2)
    shop = Shop()
    async with Gate(shop.tools, approve_from="never", config=QUIET) as gate:
        for key in "ab":
            await gate.call("refund", key=key, order=key)
        assert (await gate.call("refund", order="a")).codes == ("shop.same_done",)
        await gate.call("lookup", key="c", order="A")
        with pytest.raises(LookupError):
            await gate.outcome("a")
        assert (await gate.call("refund", order="a")).status == "done"  # its consequence went too
        assert len(await gate.world.state("shop.calls")) == 2
        assert len(await gate.world.state("shop.once")) == 1


async def test_a_plan_whose_first_calls_are_dropped_ends(monkeypatch):
    monkeypatch.setattr(records, "ENDED_MAX", 1)
    shop = Shop()
    shop.breaks = {"mail"}
    async with Gate(shop.tools, approve_from="never", config=QUIET) as gate:
        plan = [("refund", {"order": "A"}), ("mail", {"to": "bob"})]
        assert [one.status for one in await gate.plan(plan, key="p")] == ["done", "doubt"]
        await gate.call("lookup", order="A")  # it takes the place of the refund
        assert (await gate.settle("p.1", done=False)).status == "failed"
        assert await gate.world.effects() == []


@pytest.mark.parametrize("agent", ["shop.recorder", "approvals.recorder"])
async def test_no_caller_acts_as_a_recorder(gate, agent):
    with pytest.raises(ValueError, match="records for the gate"):
        await gate.plan([("plan", {"keys": ["a", "b"]})], agent=agent)


async def test_a_call_of_a_closed_gate_says_so():
    tools, begun = Tools("slow"), asyncio.Event()

    @tools.tool(seconds_max=0.05)
    async def send() -> None:
        begun.set()
        await asyncio.Event().wait()

    from placet.errors import ClosedError

    async with Gate(tools, config=QUIET) as gate:
        call = asyncio.create_task(gate.call("send"))
        await begun.wait()
    with pytest.raises(ClosedError, match="ask again by its key"):
        await call
