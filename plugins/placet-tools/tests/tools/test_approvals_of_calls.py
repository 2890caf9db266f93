"""A call that needs a person is held; a person decides it once; equal plans have one request."""

import asyncio

import pytest
from tests.tools.shop import QUIET

from placet import Inbox
from placet_tools import ApprovalUnknown, Gate, Tools


async def test_a_held_call_runs_once_a_person_approves_it(shop, gate):
    held = await gate.call("refund", agent="support", key="t1", order="A")
    assert (held.status, held.for_model["approval"]) == ("held", held.approval)
    assert shop.ran == []
    (request,) = await gate.approvals()
    assert (request.id, request.agent, request.role) == (held.approval, "support", "operator")
    assert request.calls == (("shop.refund", {"order": "A", "euro": 5}),)  # with the default
    assert str(request) == (
        "support asks operator: shop.refund(order='A', euro=5 (default)), "
        "because refund (risk high): a call of this risk needs a person"
    )
    assert (request.defaults, request.is_outside) == ((("euro",),), True)
    assert 0 <= request.requested <= request.expires - 3_600
    decision = await gate.decide(request, "approve", by="ann", reason="fine")
    assert (decision.state, decision.by, decision.reason) == ("approved", "ann", "fine")
    assert [one.status for one in decision.outcomes] == ["done"]
    assert await gate.call("refund", agent="support", key="t1", order="A") == decision.outcomes[0]
    assert shop.ran == [("refund", "A", 5)]
    assert await gate.approvals() == []


async def test_an_agent_waits_for_the_decision(shop, gate):
    held = await gate.call("refund", order="A")
    waiting = asyncio.create_task(gate.decision(held.approval))
    await gate.call("lookup", order="A")
    assert not waiting.done()
    await gate.decide(held.approval, "approve", by="ann")
    decision = await waiting
    assert (decision.state, decision.outcomes[0].output) == ("approved", {"paid": 5})


async def test_a_denied_call_does_not_run_and_is_not_asked_for_again(shop, gate):
    held = await gate.call("refund", key="t1", order="A")
    decision = await gate.decide(held.approval, "deny", by="ann", reason="too much")
    assert (decision.state, decision.outcomes[0].status) == ("denied", "denied")
    assert (await gate.decision(held.approval)).state == "denied"
    assert (await gate.outcome("t1")).message == "ann: too much"
    again = await gate.call("refund", order="A")
    assert (again.status, again.codes) == ("refused", ("approvals.plan_denied",))
    assert (await gate.call("refund", order="A", euro=6)).status == "held"
    assert shop.ran == []


@pytest.mark.parametrize(
    ("person", "code"),
    [
        ({"by": "agent"}, "approvals.decider_asked"),
        ({"by": "ann", "role": "guest"}, "approvals.role_missing"),
    ],
)
@pytest.mark.parametrize("verb", ["approve", "deny"])
async def test_a_person_who_may_not_decide_leaves_the_request_open(shop, gate, person, code, verb):
    held = await gate.call("refund", order="A")
    decision = await gate.decide(held.approval, verb, **person)
    assert (decision.state, decision.codes) == ("open", (code,))
    assert len(await gate.approvals()) == 1
    assert shop.ran == []


async def test_a_rule_names_the_role_of_the_person(shop, gate):
    held = await gate.call("mail", to="boss")
    assert held.status == "held"
    assert (await gate.decide(held.approval, "approve", by="ann")).state == "open"
    decision = await gate.decide(held.approval, "approve", by="ann", role="manager")
    assert decision.state == "approved"
    assert shop.ran == [("mail", "boss")]


async def test_a_request_that_was_shown_differently_is_not_decided(shop, gate):
    from dataclasses import replace

    await gate.call("refund", order="A")
    (request,) = await gate.approvals()
    decision = await gate.decide(replace(request, digest="0" * 32), "approve", by="ann")
    assert (decision.state, decision.codes) == ("open", ("approvals.request_changed",))


async def test_two_runs_that_ask_the_same_plan_at_one_moment_make_one_request(shop, gate):
    held = await asyncio.gather(*(gate.call("mail", to="boss") for _ in range(4)))
    assert {one.status for one in held} == {"held"}
    assert len({one.approval for one in held}) == 1
    (request,) = await gate.approvals()
    await gate.decide(request, "approve", by="ann", role="manager")
    assert {(await gate.outcome(one.key)).status for one in held} == {"done"}
    assert shop.ran == [("mail", "boss")]


async def test_equal_plans_of_two_agents_have_two_requests(gate):
    for agent in ("ann", "bob"):
        assert (await gate.call("mail", agent=agent, to="boss")).status == "held"
    assert len(await gate.approvals()) == 2


async def test_a_request_expires(shop):
    async with Gate(shop.tools, hold_s=0.01, config=QUIET) as gate:
        held = await gate.call("refund", key="t1", order="A")
        decision = await gate.decision(held.approval)
        assert (decision.state, decision.by) == ("expired", "approvals.recorder")
        late = await gate.decide(held.approval, "approve", by="ann")
        assert (late.state, late.codes) == ("expired", ("approvals.request_decided",))
        assert (await gate.call("refund", key="t1", order="A")).status == "expired"
    assert shop.ran == []


async def test_a_late_approval_ends_an_expired_request(shop):
    async with Gate(shop.tools, hold_s=0.01, config=QUIET) as gate:
        held = await gate.call("refund", key="t1", order="A")
        expires = (await Inbox(gate.world).get(held.approval)).expires
        await gate.world.wait_until(expires + 0.001)
        assert await gate.approvals() == []
        assert (await gate.outcome("t1")).status == "expired"
        late = await gate.decide(held.approval, "approve", by="ann")
        assert (late.state, late.codes) == ("expired", ("approvals.request_expired",))
    assert shop.ran == []


async def test_a_plan_is_held_approved_and_undone_as_one(shop, gate):
    shop.fails = {"mail"}
    held = await gate.plan([("refund", {"order": "A"}), ("mail", {"to": "bob"})], key="p")
    assert [one.status for one in held] == ["held", "held"]
    assert len({one.approval for one in held}) == 1
    decision = await gate.decide(held[0].approval, "approve", by="ann")
    assert decision.state == "approved"
    assert [one.status for one in decision.outcomes] == ["undone", "failed"]
    assert shop.ran == [("refund", "A", 5), ("unpay", "A", 5)]


async def test_a_plan_whose_calls_need_different_roles_is_refused(gate):
    outcomes = await gate.plan([("refund", {"order": "A"}), ("mail", {"to": "boss"})])
    assert {one.status for one in outcomes} == {"refused"}
    assert "manager, operator" in outcomes[0].message


async def test_a_refusal_comes_before_an_approval(shop, gate):
    outcomes = await gate.plan([("refund", {"order": "A"}), ("mail", {"to": "competitor"})])
    assert outcomes[1].codes == ("shop.no_competitor",)
    assert await gate.approvals() == []


async def test_a_consequence_that_happened_meanwhile_makes_an_approval_stale(shop):
    async with Gate(shop.tools, config=QUIET) as gate:
        first = await gate.call("refund", order="A")
        other = await gate.call("refund", order="A", euro=6)
        assert (await gate.decide(first.approval, "approve", by="ann")).state == "approved"
        decision = await gate.decide(other.approval, "approve", by="ann")
        assert (decision.state, decision.codes) == ("stale", ("shop.same_done",))
        assert [(one.status, one.codes) for one in decision.outcomes] == [
            ("stale", ("shop.same_done",))
        ]
        assert await gate.outcome(other.key) == decision.outcomes[0]
    assert shop.ran == [("refund", "A", 5)]


async def test_an_exhausted_quota_leaves_a_request_open(shop):
    tools = Tools("shop")

    @tools.tool(risk="high", quota={"rate": 0.001, "burst": 1})
    def ring(times: int) -> None: ...

    async with Gate(tools, config=QUIET) as gate:
        held = [await gate.call("ring", times=n) for n in (1, 2)]
        assert [one.status for one in held] == ["held", "held"]
        assert (await gate.decide(held[0].approval, "approve", by="ann")).state == "approved"
        decision = await gate.decide(held[1].approval, "approve", by="ann")
        assert (decision.state, decision.codes) == ("open", ("quota_exceeded",))


@pytest.mark.parametrize(
    ("within", "state", "codes"),
    [("1h", "open", ()), (None, "stale", ("shop.at_most_reached",))],
)
async def test_an_approval_beyond_at_most_leaves_open_a_request_that_may_pass_later(
    within, state, codes
):
    tools, rule = Tools("shop"), {"n": 1} | ({"within": within} if within else {})

    @tools.tool(risk="high")
    def ring(times: int) -> None: ...

    policy = {"tools": {"ring": {"approval": True, "at_most": [rule]}}}
    async with Gate(tools, policy=policy, config=QUIET) as gate:
        held = [await gate.call("ring", times=n) for n in (1, 2)]
        assert (await gate.decide(held[0].approval, "approve", by="ann")).state == "approved"
        decision = await gate.decide(held[1].approval, "approve", by="ann")
        assert (decision.state, decision.codes) == (state, ("shop.at_most_reached",))
        assert ("retry in" in decision.message) == (state == "open")
        assert decision.outcomes[0].codes == codes


@pytest.mark.parametrize(
    ("rules", "asks"),
    [
        ({"approval": "times > 3 and who != 'bob'"}, "times > 3 and who != 'bob'"),
        ({"approval": True}, "the policy asks for every call of it"),
        ({}, "a call of this risk needs a person"),
        (None, "the policy does not list it"),
    ],
)
async def test_a_request_says_why_a_person_is_asked(rules, asks):
    tools = Tools("shop")

    @tools.tool(risk="high")
    def ring(times: int, who: str = "ann") -> None: ...

    listed = {} if rules is None else {"ring": rules}
    policy = {"defaults": {"unlisted": "hold"}, "tools": listed}
    async with Gate(tools, policy=policy, config=QUIET) as gate:
        await gate.plan([("ring", {"times": 4}), ("ring", {"times": 5, "who": "zoe"})])
        (request,) = await gate.approvals()
        assert request.asks == (f"ring (risk high): {asks}",) * 2
        assert str(request).endswith(f"because {'; '.join(request.asks)}")
        assert [list(payload) for _, payload in request.calls] == [["times", "who"]] * 2
        assert request.defaults == (("who",), ())


async def test_a_request_has_the_message_of_the_rule_that_asks(gate):
    await gate.call("mail", to="boss")
    (request,) = await gate.approvals()
    assert request.asks == ("mail (risk medium): a manager reads it first",)


async def test_an_amendment_does_not_repeat_the_reason_of_the_first_request(gate):
    held = await gate.call("refund", order="A", euro=50)
    calls = [("refund", {"order": "A", "euro": 20})]
    await gate.decide(held.approval, "amend", by="ann", calls=calls)
    first = await Inbox(gate.world).get(held.approval)
    other = await Inbox(gate.world).get(first.amended_by)
    assert (len(first.asks), other.asks, other.state) == (1, (), "approved")


async def test_an_unknown_request_or_verb_is_an_error(gate):
    with pytest.raises(ApprovalUnknown, match="there is no request 'q'"):
        await gate.decide("q", "approve", by="ann")
    with pytest.raises(ApprovalUnknown):
        await gate.decision("q")
    with pytest.raises(ValueError, match="maybe"):
        await gate.decide("q", "maybe", by="ann")


async def test_an_approval_by_hand_outside_of_its_batch_permits_nothing(shop, gate):
    """A decision that runs nothing is not what was shown, so it is refused."""
    from placet.kernel.plugin.approved import DECIDE, RECORDER

    await gate.call("refund", order="A")
    (request,) = await gate.approvals()
    recorder = await gate.world.register_agent(RECORDER)
    decide = recorder.intent(
        DECIDE,
        id=request.id,
        decision="approve",
        by="ann",
        role="operator",
        digest=request.digest,
        reason="",
    )
    assert (await gate.world.submit([decide])).codes == ("approvals.not_foreseen",)
    assert shop.ran == []


@pytest.mark.parametrize("verb", ["approve", "deny"])
async def test_a_request_survives_a_restart(shop, tmp_path, verb):
    store = f"sqlite:///{tmp_path}/shop.db"
    async with Gate(shop.tools, store=store, config=QUIET) as gate:
        held = await gate.call("refund", key="t1", order="A")
    async with Gate(shop.tools, store=store, config=QUIET) as gate:
        assert (await gate.call("refund", key="t1", order="A")) == held
        decision = await gate.decide(held.approval, verb, by="ann")
        status = {"approve": "done", "deny": "denied"}[verb]
        assert (await gate.outcome("t1")).status == decision.outcomes[0].status == status
    async with Gate(shop.tools, store=store, config=QUIET) as gate:
        assert (await gate.call("refund", key="t1", order="A")).status == status
    assert len(shop.ran) == (verb == "approve")


async def test_other_calls_are_approved_in_the_place_of_a_held_one(shop, gate):
    held = await gate.call("refund", agent="support", key="t1", order="A", euro=50)
    calls = [("refund", {"order": "A", "euro": 20})]
    decision = await gate.decide(held.approval, "amend", by="ann", reason="less", calls=calls)
    assert (decision.state, decision.by, decision.reason) == ("amended", "ann", "less")
    assert [one.output for one in decision.outcomes] == [{"paid": 20}]
    assert await gate.decision(held.approval) == decision
    assert shop.ran == [("refund", "A", 20)]
    told = await gate.call("refund", agent="support", key="t1", order="A", euro=50)
    assert told == await gate.outcome("t1")
    assert (told.status, told.for_model["status"]) == ("amended", "amended")
    assert told.message.startswith("ann: less; this call did not run")
    assert told.for_model["output"] == [
        {
            "tool": "refund",
            "arguments": {"order": "A", "euro": 20},
            "status": "done",
            "output": {"paid": 20},
        }
    ]


async def test_a_call_is_amended_to_a_plan_which_is_undone_as_one(shop, gate):
    shop.fails = {"mail"}
    held = await gate.call("refund", order="A", euro=50)
    calls = [("refund", {"order": "A"}), ("mail", {"to": "bob"})]
    decision = await gate.decide(held.approval, "amend", by="ann", calls=calls)
    assert [one.status for one in decision.outcomes] == ["undone", "failed"]
    told = await gate.outcome(held.key)
    assert [(one["tool"], one["status"]) for one in told.output] == [
        ("refund", "undone"),
        ("mail", "failed"),
    ]
    assert shop.ran == [("refund", "A", 5), ("unpay", "A", 5)]


@pytest.mark.parametrize(
    ("calls", "person", "code"),
    [
        ([("refund", {"order": "A", "euro": 900})], {}, "payload_invalid"),
        ([("refund", {"order": "A", "euro": 50})], {}, "approvals.request_open"),
        ([("mail", {"to": "boss"})], {}, "shop.approval_required"),
        ([("refund", {"order": "A"})], {"by": "agent"}, "approvals.decider_asked"),
        ([("refund", {"order": "A"})], {"role": "guest"}, "approvals.role_missing"),
    ],
)
async def test_an_amendment_that_is_refused_leaves_a_call_held(shop, gate, calls, person, code):
    held = await gate.call("refund", order="A", euro=50)
    decision = await gate.decide(held.approval, "amend", calls=calls, **{"by": "ann", **person})
    assert (decision.state, decision.codes) == ("open", (code,))
    assert (await gate.outcome(held.key)).status == "held"
    assert shop.ran == []


async def test_an_amendment_without_calls_and_a_denial_with_some_are_errors(gate):
    held = await gate.call("refund", order="A")
    for decision, calls in (("amend", []), ("deny", [("refund", {"order": "A"})])):
        with pytest.raises(ValueError, match="an amendment, and it alone"):
            await gate.decide(held.approval, decision, by="ann", calls=calls)


@pytest.mark.parametrize("reopens", [False, True])
async def test_a_plan_that_an_inbox_approves_is_undone_as_one(shop, tmp_path, reopens):
    store = f"sqlite:///{tmp_path}/shop.db"
    shop.fails = {"mail"}
    calls = [("refund", {"order": "A"}), ("mail", {"to": "bob"})]
    async with Gate(shop.tools, store=store, config=QUIET) as gate:
        held = await gate.plan(calls, key="p")
        if not reopens:
            await approve_and_see(gate, held)
    if reopens:
        async with Gate(shop.tools, store=store, config=QUIET) as gate:
            await approve_and_see(gate, held)
    assert shop.ran == [("refund", "A", 5), ("unpay", "A", 5)]


async def approve_and_see(gate, held):
    """Approve a held plan by an inbox that knows no tools, and wait until it is undone."""
    decided = await Inbox(gate.world).decide(held[0].approval, "approve", by="ann", role="operator")
    assert decided.approval.state == "approved"
    async for _ in gate.world.event_pages():
        records = await gate.world.gateway.entities("shop.calls", ["p.0"])
        if records["p.0"]["state"] == "undone":
            break
    assert [(await gate.outcome(one.key)).status for one in held] == ["undone", "failed"]


async def test_a_held_call_is_decided_by_an_inbox_that_knows_no_tools(shop, gate):
    held = await gate.call("refund", key="t1", order="A", euro=50)
    inbox = Inbox(gate.world)
    (request,) = await inbox.open()
    assert request.calls == (("shop.refund", {"order": "A", "euro": 50}),)
    agent = await gate.world.register_agent("agent")
    less = agent.intent("shop.refund", order="A")  # the default is not written out
    decided = await inbox.decide(request.id, "amend", by="ann", role="operator", intents=[less])
    assert decided.approval.state == "amended"
    assert (await gate.decision(held.approval)).outcomes[0].output == {"paid": 5}
    assert (await gate.outcome("t1")).output[0]["arguments"] == {"order": "A", "euro": 5}
    assert shop.ran == [("refund", "A", 5)]
