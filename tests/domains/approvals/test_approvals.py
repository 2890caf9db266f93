"""The domain `approvals`: who may decide what, and that what was shown is what is done."""

import pytest

from placet.domains.approvals import Approvals
from placet.domains.world import World
from placet.kernel import Kernel
from placet.kernel.plugin.approved import (
    AMEND,
    ASK,
    COLLECTIONS,
    DECIDE,
    INTENTS,
    PREVIEW,
    RECORDER,
    REQUESTS,
)
from placet.schemas.identity import Ref
from placet.schemas.intent import new_intent

MOVE = {"agent": "ann", "key": "k1", "kind": "Move", "payload": {"to": [3.0, 0.0, 0.0]}}
BOBS = {**MOVE, "agent": "bob", "key": "k2"}
OTHER = {**MOVE, "key": "k9", "payload": {"to": [5.0, 0.0, 0.0]}}


class Desk:
    """A world in which people approve what agents do."""

    def __init__(self, sink=None, **settings):
        self.kernel = Kernel([World(max_step=None), Approvals(**settings)], sink=sink)
        for agent in ("ann", "bob"):
            self.kernel.register_agent(agent, position=[0, 0])
        self.kernel.register_agent(RECORDER)
        self.now = 0.0
        self.number = 0

    def intent(self, kind, agent=RECORDER, req_id=None, /, **payload):
        self.number += 1
        seq = self.kernel.seq
        return new_intent(kind, payload, agent, req_id or f"r{self.number}", seq)

    def submit(self, *intents):
        return self.kernel.decide(list(intents), self.now)

    def request(self, name="q1", intents=(MOVE,), **fields):
        fields = {"foreseen": "", "undecided": [[], []], "unshown": [], "shown": []} | fields
        fields = {"role": "operator", "seconds": 60.0, "agent": "ann"} | fields
        fields = {"about": {}, "risk": "low"} | fields
        return self.intent(ASK, id=name, intents=list(intents), **fields)

    def moves(self, intents=(MOVE,)):
        self.number += 1
        return [
            self.intent(one["kind"], one["agent"], f"{one['key']}/{self.number}", **one["payload"])
            for one in intents
        ]

    def foreseen(self, *intents):
        batch = [self.request("trial", intents), self.intent(PREVIEW, id="trial")]
        previewed = self.kernel.decide(
            {"intents": [*batch, *self.moves(intents)], "dry_run": True}, self.now
        )
        assert previewed.admitted, previewed
        changes = [one for one in previewed.foreseen.changes if one.collection not in COLLECTIONS]
        foreseen = previewed.foreseen._replace(changes=tuple(changes))
        return {"foreseen": foreseen.digest, "undecided": foreseen.undecided}

    def ask(self, name="q1", intents=(MOVE,), **fields):
        return self.submit(self.request(name, intents, **self.foreseen(*intents), **fields))

    def decision(self, name="q1", decision="approve", **fields):
        digest = self.kernel.state.get(REQUESTS, {}).get(name, {}).get("digest", "")
        fields = {"by": "eve", "role": "operator", "digest": digest, "reason": "", **fields}
        return self.intent(DECIDE, id=name, decision=decision, **fields)

    def amendment(self, intents, name="q1", new="n1", request=(), **fields):
        """Return the batch that approves other intents in the place of a request."""
        payload = self.request(new, intents, **self.foreseen(*intents))["payload"]
        decision = self.decision(name, **fields)["payload"]
        del decision["decision"]
        amend = self.intent(AMEND, **decision, request=payload | dict(request))
        return [amend, *self.moves(intents)]

    def state_of(self, name="q1"):
        return self.kernel.state[REQUESTS][name]["state"]


def test_an_approved_request_does_what_was_shown():
    desk = Desk()
    assert desk.ask().admitted
    assert desk.state_of() == "open"
    assert desk.submit(desk.decision(), *desk.moves()).admitted
    assert desk.state_of() == "approved"
    assert list(desk.kernel.state["world.agents"]["ann"]["position"]) == [3, 0, 0]


@pytest.mark.parametrize(
    "others",
    [
        [],
        [{**MOVE, "payload": {"to": [4.0, 0.0, 0.0]}}],
        [MOVE, {**MOVE, "key": "k2", "payload": {"to": [4.0, 0.0, 0.0]}}],
    ],
)
def test_a_batch_that_does_anything_else_is_refused(others):
    desk = Desk()
    desk.ask()
    digest = desk.kernel.digest()
    assert desk.submit(desk.decision(), *desk.moves(others)).codes == ("approvals.not_foreseen",)
    assert (desk.state_of(), desk.kernel.digest()) == ("open", digest)


def test_a_change_of_another_agent_that_shows_makes_an_approval_not_foreseen():
    desk = Desk()
    desk.ask()
    desk.submit(desk.intent("Move", "ann", to=[1.0, 1.0, 0.0]))  # the old position is shown
    assert desk.submit(desk.decision(), *desk.moves()).codes == ("approvals.not_foreseen",)


@pytest.mark.parametrize(
    ("fields", "now", "code"),
    [
        ({"by": "ann"}, 0, "decider_asked"),
        ({"role": "guest"}, 0, "role_missing"),
        ({"digest": "0" * 32}, 0, "request_changed"),
        ({}, 61, "request_expired"),
        ({"name": "q2"}, 0, "request_unknown"),
        ({"decision": "deny", "by": "ann"}, 0, "decider_asked"),
        ({"decision": "deny", "role": "guest"}, 0, "role_missing"),
    ],
)
def test_a_decision_has_its_code(fields, now, code):
    desk = Desk()
    desk.ask()
    desk.now = now
    verdict = desk.submit(desk.decision(**fields))
    assert verdict.codes == (f"approvals.{code}",)
    assert desk.state_of() == "open"


@pytest.mark.parametrize(
    ("decision", "state"), [("deny", "denied"), ("stale", "stale"), ("expire", "expired")]
)
def test_a_request_is_decided_once(decision, state):
    desk = Desk()
    desk.ask()
    assert desk.submit(desk.decision(decision=decision)).admitted
    assert desk.state_of() == state
    for again in ("approve", "deny", "stale"):
        codes = desk.submit(desk.decision(decision=again)).codes
        assert codes == ("approvals.request_decided",)


def test_no_agent_records_a_request_or_a_decision():
    desk = Desk()
    desk.ask()
    for intent in (
        desk.request("q2"),
        desk.decision(),
        desk.intent(PREVIEW, id="q1"),
        desk.amendment([OTHER])[0],
    ):
        assert desk.submit(intent | {"agent_id": "ann"}).codes == ("approvals.recorder_only",)


def test_an_equal_plan_has_one_open_request_and_none_for_an_hour_after_a_denial():
    desk = Desk()
    desk.ask()
    equal = {**MOVE, "key": "k2"}
    refusal = desk.submit(desk.request("q2", [equal])).refusals[0]
    assert (refusal.code, refusal.details["id"]) == ("approvals.request_open", "q1")
    assert desk.submit(desk.request("q3", [BOBS], agent="bob")).admitted
    desk.submit(desk.decision(decision="deny", reason="not now"))
    desk.now = 600.0
    refusal = desk.submit(desk.request("q2", [equal])).refusals[0]
    assert (refusal.code, refusal.retry_after) == ("approvals.plan_denied", 3000.0)
    assert "not now" in refusal.message
    desk.now = 3600.0
    assert desk.submit(desk.request("q2", [{**MOVE, "key": "k3"}])).admitted


def test_a_stale_plan_may_be_asked_for_again_at_once():
    desk = Desk()
    desk.ask()
    desk.submit(desk.decision(decision="stale"))
    assert desk.submit(desk.request("q2", [{**MOVE, "key": "k2"}])).admitted


def test_names_of_requests_and_keys_are_used_once():
    desk = Desk()
    desk.ask()
    other = {**MOVE, "payload": {"to": [9.0, 0.0, 0.0]}}
    assert desk.submit(desk.request(intents=[other])).codes == ("approvals.request_exists",)
    assert desk.submit(desk.request("q2", [other])).codes == ("approvals.key_taken",)
    assert desk.submit(desk.intent(PREVIEW, id="q9")).codes == ("approvals.request_unknown",)


def test_the_state_keeps_a_number_of_requests_and_drops_none_that_is_open():
    desk = Desk(kept=2)
    plans = [{**MOVE, "key": f"k{n}", "payload": {"to": [float(n), 0.0, 0.0]}} for n in range(1, 5)]
    for n, plan in enumerate(plans[:2]):
        assert desk.submit(desk.request(f"q{n}", [plan])).admitted
    assert desk.submit(desk.request("q2", [plans[2]])).codes == ("approvals.requests_full",)
    desk.submit(desk.decision("q0", "deny"))
    assert desk.submit(desk.request("q2", [plans[2]])).admitted
    assert sorted(desk.kernel.state[REQUESTS]) == ["q1", "q2"]
    assert sorted(desk.kernel.state[INTENTS]) == ["k2", "k3"]
    desk.now = 61.0  # the others are expired
    assert desk.submit(desk.request("q3", [plans[3]])).admitted
    assert sorted(desk.kernel.state[REQUESTS]) == ["q2", "q3"]
    assert len(desk.kernel.state["approvals.plans"]) == 2


def test_an_agent_sees_its_own_requests_alone():
    desk = Desk()
    desk.ask()
    domain, state = Approvals(), desk.kernel._context.state
    assert domain.may_see(state, "ann", Ref(REQUESTS, "q1"))
    assert not domain.may_see(state, "bob", Ref(REQUESTS, "q1"))
    assert not domain.may_see(state, "ann", Ref(REQUESTS, None))
    assert not domain.may_see(state, "ann", Ref(INTENTS, "k1"))


def test_the_requests_of_an_agent_end_with_it():
    desk = Desk(kept=2)
    desk.ask()
    desk.submit(desk.request("q2", [BOBS], agent="bob"))
    desk.kernel.remove_agent("ann")
    assert sorted(desk.kernel.state[REQUESTS]) == ["q2"]
    assert sorted(desk.kernel.state[INTENTS]) == ["k2"]
    desk.kernel.register_agent("ann", position=[0, 0])
    assert desk.submit(desk.decision()).codes == ("approvals.request_unknown",)
    assert desk.submit(desk.request("q3")).admitted  # in the place of the dropped one


def test_an_amendment_ends_a_request_and_approves_the_one_in_its_place():
    desk = Desk()
    desk.ask()
    assert desk.submit(*desk.amendment([OTHER], reason="not so far")).admitted
    old, new = (desk.kernel.state[REQUESTS][name] for name in ("q1", "n1"))
    assert (old["state"], old["amended_by"], old["by"]) == ("amended", "n1", "eve")
    assert (new["state"], new["amends"], new["by"]) == ("approved", "q1", "eve")
    assert (new["reason"], old["reason"]) == ("not so far", "not so far")
    assert list(desk.kernel.state["world.agents"]["ann"]["position"]) == [5, 0, 0]
    assert desk.submit(desk.decision()).codes == ("approvals.request_decided",)


@pytest.mark.parametrize(
    ("intents", "fields", "code"),
    [
        ([OTHER], {"by": "ann"}, "decider_asked"),
        ([OTHER, BOBS], {"by": "bob"}, "decider_asked"),
        ([OTHER], {"role": "guest"}, "role_missing"),
        ([OTHER], {"digest": "0" * 32}, "request_changed"),
        ([OTHER], {"name": "q2"}, "request_unknown"),
        ([OTHER], {"request": {"agent": "bob"}}, "agent_changed"),
        ([OTHER], {"request": {"role": "guest"}}, "role_changed"),
        ([OTHER], {"request": {"foreseen": "0" * 32}}, "not_foreseen"),
        ([OTHER], {"request": {"intents": [{**OTHER, "key": "k1"}]}}, "key_taken"),
        ([OTHER], {"request": {"intents": [{**MOVE, "key": "k3"}]}}, "request_open"),
    ],
)
def test_an_amendment_that_is_refused_changes_nothing(intents, fields, code):
    desk = Desk()
    desk.ask()
    digest = desk.kernel.digest()
    assert desk.submit(*desk.amendment(intents, **fields)).codes == (f"approvals.{code}",)
    assert (desk.state_of(), desk.kernel.digest()) == ("open", digest)


def test_an_amendment_without_its_intents_is_refused():
    desk = Desk()
    desk.ask()
    assert desk.submit(desk.amendment([OTHER])[0]).codes == ("approvals.not_foreseen",)
    assert desk.state_of() == "open"


def test_an_expired_request_is_not_amended():
    desk = Desk()
    desk.ask()
    batch = desk.amendment([OTHER])
    desk.now = 61.0
    assert desk.submit(*batch).codes == ("approvals.request_expired",)


def test_a_request_without_a_role_is_for_any_person_but_its_agents():
    desk = Desk()
    plan = [MOVE, BOBS]
    desk.ask(intents=plan, role="")
    for agent in ("ann", "bob"):
        verdict = desk.submit(desk.decision(by=agent), *desk.moves(plan))
        assert verdict.codes == ("approvals.decider_asked",)
    assert desk.submit(desk.decision(role="guest"), *desk.moves(plan)).admitted


def test_intents_of_other_agents_are_no_part_of_the_equality_of_plans():
    desk = Desk()
    assert desk.submit(desk.request(intents=[MOVE, BOBS])).admitted
    equal = [{**MOVE, "key": "k3"}, {**BOBS, "key": "k4", "payload": {"to": [9.0, 0.0, 0.0]}}]
    assert desk.submit(desk.request("q2", equal)).codes == ("approvals.request_open",)
    expects = {**MOVE, "key": "k3", "expect": [{"path": ["a", "b"], "op": "exists"}]}
    assert desk.submit(desk.request("q2", [expects])).admitted  # other conditions: another plan
    assert desk.submit(desk.request("q3", [BOBS])).codes == ("approvals.intent_missing",)


def test_a_request_ends_with_any_agent_of_its_intents():
    desk = Desk()
    desk.ask(intents=[MOVE, BOBS])
    desk.kernel.remove_agent("bob")
    assert desk.submit(desk.decision()).codes == ("approvals.request_unknown",)


@pytest.mark.parametrize("kept", [0, -1, 1.5, True])
def test_the_number_of_kept_requests_is_a_positive_int(kept):
    with pytest.raises(ValueError, match="kept must be an int >= 1"):
        Approvals(kept=kept)
