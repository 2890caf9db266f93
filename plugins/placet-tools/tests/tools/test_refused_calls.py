"""Refusals by structure, permission and quota are in the log, as many as their quota permits."""

import asyncio
from contextlib import closing
from dataclasses import replace
from typing import Annotated, Any

import pytest
from tests.tools.shop import QUIET

from placet.domains.approvals import Approvals
from placet.history.explain import explain
from placet.kernel import refuse
from placet.stores.reading import log_to_read
from placet_tools import Gate, Secret, Tools
from placet_tools.refused_calls import ARGUMENTS_BYTES_MAX, CALLS_MAX, QUOTA


def desk(*, has_marks=True):
    tools = Tools("desk")

    @tools.tool(quota={"rate": 0.001, "burst": 1})
    def order(item: str, count: int = 1) -> str:
        """Order things."""
        return item

    if has_marks:

        @tools.tool()
        def login(password: Annotated[str, Secret]) -> str:
            """Log in."""
            return "in"

    @tools.rule("order")
    def none_of(draft, intent):
        if intent["payload"]["item"] == "none":
            return refuse("sold_out", "there is none")
        return None

    return tools


async def recorded(gate):
    """Return the payloads of the records of refused calls."""
    found = []
    async for page in gate.world.event_pages():
        for event in page:
            intents = event.data["intents"] if event.type == "batch" else ()
            found += [one["payload"] for one in intents if one["kind"] == "desk.refuse_calls"]
        if page[-1].record + 1 >= gate.world.records:
            break
    return found


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("order", {"item": 3}, "payload_invalid"),
        ("order", {"item": "chair", "cuont": 1}, "payload_invalid"),
        ("ordre", {"item": "chair"}, "kind_unknown"),
        ("order\ud800", {"item": "chair"}, "field_invalid"),
        ("login", {"password": "tulip-4711"}, "permission_denied"),
    ],
)
async def test_a_refusal_that_the_kernel_does_not_record_is_recorded(tool, arguments, code):
    async with Gate(desk(has_marks=tool == "login"), config=QUIET) as gate:
        await gate.world.register_agent("buyer", permissions={"desk.order"})
        refused = await gate.call(tool, agent="buyer", key="k1", **arguments)
        assert (refused.status, refused.codes) == ("refused", (code,))
        (payload,) = await recorded(gate)
        (call,) = payload["calls"]
        assert (payload["agent"], payload["left_out"]) == ("buyer", 0)
        assert (call["key"], list(call["codes"])) == ("k1", [code])
        assert call["message"][:40] == refused.message[:40].replace("\ud800", "?")
        assert "tulip" not in str(payload)


async def test_a_refusal_by_a_rule_and_a_dry_run_are_not_recorded_twice():
    async with Gate(desk(), config=QUIET) as gate:
        assert (await gate.call("order", item="none")).codes == ("desk.sold_out",)
        assert not await gate.request_approval([("order", {"item": 3})], agent="buyer", key="r")
        assert (await gate.call("order", item="chair")).status == "done"
        assert await recorded(gate) == []


async def test_a_call_that_a_person_has_denied_before_is_recorded_with_the_code_of_its_answer():
    async with Gate(desk(), approve_from="low", config=QUIET) as gate:
        held = await gate.call("order", key="k1", item="chair")
        await gate.decide(held.approval, "deny", by="ann")
        again = await gate.call("order", key="k2", item="chair")
        assert again.codes == ("approvals.plan_denied",)
        (payload,) = await recorded(gate)
        assert [list(one["codes"]) for one in payload["calls"]] == [["approvals.plan_denied"]]


async def test_a_call_is_explained_by_its_key(tmp_path):
    store = f"sqlite:///{tmp_path}/desk.db"
    tools = desk()
    async with Gate(tools, store=store, config=QUIET) as gate:
        await gate.call("order", agent="buyer", key="k10", item="none")
        await gate.call("order", agent="buyer", key="k1", item="chair")
    domains = [tools.domain(), Approvals()]
    with closing(log_to_read(store)) as log:
        first, second = [explain(log, "buyer", key, domains) for key in ("k1", "k10")]
        assert first.is_known
        assert first.answer == "admitted"
        assert second.answer == "refused"
        assert not explain(log, "buyer", "k", domains).is_known
        assert not explain(log, "seller", "k1", domains).is_known


@pytest.mark.parametrize(
    ("tool", "arguments", "stage", "code"),
    [
        ("order", {"item": 3}, "structure", "payload_invalid"),
        ("login", {"password": "tulip-4711"}, "agent", "permission_denied"),
        ("order", {"item": "desk"}, "quota", "quota_exceeded"),
    ],
)
async def test_a_refusal_without_a_batch_in_the_log_is_explained(
    tmp_path, placet, tool, arguments, stage, code
):
    store, tools = f"sqlite:///{tmp_path}/desk.db", desk()
    async with Gate(tools, store=store, config=QUIET) as gate:
        await gate.world.register_agent("buyer", permissions={"desk.order"})
        await gate.call("order", agent="buyer", key="k0", item="chair")
        refused = await gate.call(tool, agent="buyer", key="k1", **arguments)
        assert await gate.outcome("k1") == refused
    with closing(log_to_read(store)) as log:
        explained = explain(log, "buyer", "k1", [tools.domain(), Approvals()])
        assert not explain(log, "seller", "k1", [tools.domain(), Approvals()]).is_known
    assert explained.answer == "refused"
    assert [one.stage for one in explained.stages] == [stage]
    (refusal,) = explained.stages[0].refusals
    assert (refusal["code"], refusal["message"]) == (code, refused.message)
    assert "tulip" not in str(explained.as_dict())
    printed = placet("explain", store, "buyer", "k1").out
    assert f"buyer k1: refused by {stage}: {code}" in printed
    assert refused.message[:40] in printed


async def test_a_key_that_is_used_again_is_explained_with_the_earlier_refusal(tmp_path):
    store, tools = f"sqlite:///{tmp_path}/desk.db", desk()
    async with Gate(tools, store=store, config=QUIET) as gate:
        assert (await gate.call("order", key="k2", item="none")).codes == ("desk.sold_out",)
        await gate.call("order", key="k1", item=3)
        assert (await gate.call("order", key="k1", item="chair")).status == "done"
        assert (await gate.outcome("k1")).status == "done"
        assert (await gate.outcome("k2")).message == "there is none"
        with pytest.raises(LookupError, match="no call 'k3'"):
            await gate.outcome("k3")
    with closing(log_to_read(store)) as log:
        explained = explain(log, "agent", "k1", [tools.domain(), Approvals()])
    assert explained.answer == "admitted"
    assert [one["codes"] for one in explained.earlier] == [["payload_invalid"]]


@pytest.mark.parametrize("decision", ["approve", "deny", None])
async def test_a_held_call_is_explained_with_its_request_and_its_decision(
    tmp_path, placet, decision
):
    store, tools = f"sqlite:///{tmp_path}/desk.db", desk()
    async with Gate(tools, store=store, approve_from="low", config=QUIET) as gate:
        held = await gate.call("order", agent="buyer", key="k1", item="chair")
        if decision:
            await gate.decide(held.approval, decision, by="ann", reason="as we said")
    with closing(log_to_read(store)) as log:
        domains = [tools.domain(approve_from="low"), Approvals()]
        notes = " ".join(explain(log, "buyer", "k1", domains).notes)
    assert f"request {held.approval!r}" in notes
    assert "role 'operator'" in notes
    assert (f"'ann' decided {decision!r}" in notes) == (decision is not None)
    assert placet("log", store, "--refused").out.count("\n") == 1  # the head alone
    assert " held " in placet("log", store).out


async def test_the_refused_records_of_a_log_include_the_notes_of_refusals(tmp_path, placet):
    store = f"sqlite:///{tmp_path}/desk.db"
    async with Gate(desk(), store=store, config=QUIET) as gate:
        await gate.call("order", key="k1", item=3)
        await gate.call("order", key="k2", item="none")
        await gate.call("order", key="k3", item="chair")
    printed = placet("log", store, "--refused").out
    assert "k1" in printed
    assert "k2" in printed
    assert "k3" not in printed


async def test_a_call_that_was_not_done_is_no_dead_letter(tmp_path, placet, shop):
    store = f"sqlite:///{tmp_path}/shop.db"
    shop.fails.add("mail")
    async with Gate(shop.tools, store=store, config=QUIET) as gate:
        assert (await gate.call("mail", to="bob")).status == "failed"
        shop.breaks.add("lookup")
        assert (await gate.call("lookup", order="A7")).status == "failed"
        shop.breaks.add("mail")
        shop.fails.clear()
        assert (await gate.call("mail", key="k", to="eve")).status == "doubt"
        settled = await gate.settle("k", done=False)
        assert (settled.status, settled.message) == ("failed", "")
        assert (await gate.outcome("k")).message == ""
        kinds = [[one.kind for one in await gate.world.effects(s)] for s in ("dead", "failed")]
    assert kinds == [["shop.lookup"], ["shop.mail", "shop.mail"]]
    assert "shop.mail" not in placet("effects", store).out
    assert "shop.mail" in placet("effects", store, "--state", "failed").out


async def test_a_refusal_by_a_quota_is_recorded():
    async with Gate(desk(), config=QUIET) as gate:
        assert (await gate.call("order", item="chair")).status == "done"
        over = await gate.call("order", item="desk")
        assert over.codes == ("quota_exceeded",)
        assert over.message.startswith(
            "agent 'agent' may call desk.order once in 1000 s, 1 at once; retry in "
        )
        (payload,) = await recorded(gate)
        assert payload["calls"][0]["arguments"] == {"item": "desk", "count": 1}


async def test_the_records_are_bounded_and_say_what_was_left_out():
    config = replace(QUIET, clock="stepped")
    async with Gate(desk(has_marks=False), config=config) as gate:
        for _ in range(int(QUOTA["burst"]) + 3):
            assert (await gate.call("order", item=3)).status == "refused"
        await asyncio.sleep(0)  # the records are submitted, and wait for the step
        await gate.world.step(1.0)
        assert len(await recorded(gate)) == QUOTA["burst"]
        large: dict[str, Any] = {"item": "x" * ARGUMENTS_BYTES_MAX, "more": 1}
        few: dict[str, Any] = {"item": 3}
        plan = [("order", large), *[("order", few)] * (CALLS_MAX + 4)]
        assert {one.status for one in await gate.plan(plan)} == {"refused"}
        await asyncio.sleep(0)
        await gate.world.step(1.0)
        last = (await recorded(gate))[-1]
        assert (last["left_out"], len(last["calls"])) == (3, CALLS_MAX)
        assert [one["arguments"] for one in last["calls"][:2]] == [None, {"item": 3}]
        await gate.call("order", item=3)
        await asyncio.sleep(0)
        await gate.world.step(1.0)
        assert (await recorded(gate))[-1]["left_out"] == 0


async def test_the_records_are_in_the_log_after_the_gate_has_closed(tmp_path):
    store = f"sqlite:///{tmp_path}/desk.db"
    async with Gate(desk(), store=store, config=QUIET) as gate:
        await gate.call("order", item=3)
    log = log_to_read(store)
    assert any(b"refuse_calls" in data for _, data in log.read(0))
    log.close()
