"""Approval requests and grants: confirmed by a person, applied once, exactly as shown."""

from functools import partial
from typing import Any

import anyio
import pytest
from pydantic import AliasChoices, BaseModel, Field
from typing_extensions import TypedDict

from placet import Orchestrator, OrchestratorConfig
from placet.agents import AgentLimits, PlannerInput, ScriptedAdapter, Session, SessionError, Turn
from placet.agents.proposal.modes import PolicyDecision
from placet.agents.proposal.plan import Plan
from placet.domains.approvals import Approvals
from placet.domains.memory import Memory
from placet.domains.session import KINDS, Sessions
from placet.kernel import Domain, Kind
from placet.kernel.plugin.domain import Risk
from tests.agents.till import EMPTY, Till, put, talk, total

pytestmark = pytest.mark.anyio


class Meddled(Orchestrator):
    """A world in which another agent adds money after some dry runs, and before decisions."""

    meddling = 0

    async def submit(self, batch: Any, *, dry_run: bool = False, **options: Any) -> Any:
        if batch[0]["kind"] == "approvals.decide":
            await self._meddle()
        verdict = await super().submit(batch, dry_run=dry_run, **options)
        if dry_run and verdict.admitted:
            await self._meddle()
        return verdict

    async def _meddle(self) -> None:
        if self.meddling:
            self.meddling -= 1
            bob = await self.register_agent("bob")
            await super().submit([bob.intent("till.put", amount=1)])


async def test_an_approval_request_is_resolved_in_its_own_session_only() -> None:
    async with Orchestrator([Till(), Sessions()]) as world:
        one = await Session.open(world=world, session="a", adapter=ScriptedAdapter([[EMPTY]]))
        two = await Session.open(world=world, session="b", agent="other")
        turn = await one.send("empty it")
        assert turn.outcome == "held"
        other = await two.resolve(turn.approval_id, "approve", "ann")
        assert (other.outcome, other.stop) == ("refused", "denied")
        assert "there is no approval request" in other.message
        with pytest.raises(SessionError, match="belongs to agent 'agent'"):
            await Session.open(world=world, session="a", agent="other")
        assert (await one.resolve(turn.approval_id, "approve", "ann")).outcome == "applied"


@pytest.mark.parametrize("times", [1, 9])
async def test_an_approval_never_applies_an_effect_that_was_not_shown(times: int) -> None:
    world = Meddled([Till(), Sessions()], OrchestratorConfig())
    async with world:
        session = await Session.open(world=world, adapter=ScriptedAdapter([[EMPTY]]))
        await session.send("/till.put amount=5")
        turn = await session.send("empty it")
        assert [(one.old, one.new) for one in turn.diff] == [(5, 0)]
        world.meddling = times  # before the batch of the approved plan
        done = await session.resolve(turn.approval_id, "approve", "ann")
        assert done.outcome == "held"
        assert done.approval_id != turn.approval_id
        assert await total(session) > 5, "nothing was emptied that ann had not seen"


class Fickle(Till):
    """A till in which adding money is riskier the more it contains."""

    def __init__(self) -> None:
        from dataclasses import replace

        super().__init__()
        first = replace(
            self.kinds[0],
            risk_of=lambda _, state: "high" if state["till.box"]["box"]["sum"] >= 10 else "low",
        )
        self.kinds = (first, *self.kinds[1:])


async def test_a_risk_is_judged_by_the_state_in_which_the_plan_is_decided() -> None:
    world = Meddled([Fickle(), Sessions()], OrchestratorConfig())
    async with world:
        session = await Session.open(world=world, adapter=ScriptedAdapter([[put(9)], [put(1)]]))
        assert (await session.send("nine")).outcome == "applied"
        world.meddling = 1
        turn = await session.send("one more")
        assert turn.outcome == "held", "between the trial and the batch it became a great risk"
        assert await total(session) == 10


async def test_a_risk_that_cannot_be_judged_is_high() -> None:
    from dataclasses import replace

    def breaks(*_: Any) -> Any:
        raise ZeroDivisionError

    till = Till()
    till.kinds = (replace(till.kinds[0], risk_of=breaks), *till.kinds[1:])
    async with talk([put(1)], domain=till, mode="autonomous") as session:
        assert (await session.send("go")).outcome == "held"


async def test_facts_of_the_memory_domain_are_in_the_context() -> None:
    seen: list[PlannerInput] = []

    def model(context: PlannerInput) -> Any:
        seen.append(context)
        return [("memory.remember", {"key": "harbour", "value": "Kiel"})]

    both = [Till(), Memory()]
    async with talk(adapter=model, domain=both, mode="autonomous") as session:
        for _ in range(2):
            await session.send("we are in Kiel")
    assert seen[0].facts == []
    [fact] = seen[1].facts
    assert (fact["key"], fact["value"]) == ("harbour", "Kiel")
    assert "<facts>" in seen[1].text


async def test_a_plan_is_refused_after_the_world_changed_too_often() -> None:
    world = Meddled([Fickle(), Sessions()], OrchestratorConfig())
    async with world:
        session = await Session.open(
            world=world, mode="interactive", adapter=ScriptedAdapter([[put(1)]] * 2)
        )
        await session.grant("till.put", by="ann")
        world.meddling = 99
        turn = await session.send("go")
        assert (turn.outcome, turn.attempts[0].issues[0].code) == ("failed", "stale_context")
        assert "the world moved 5 times" in turn.message
        assert await total(session) == 10, "bob's, of two plans"


async def test_open_approval_requests_are_never_evicted() -> None:
    domains = [Till(), Sessions(), Approvals(kept=2)]
    async with talk(*[[put(100 + n)] for n in range(4)], domain=domains) as session:
        first = await session.send("1")
        await session.send("2")
        full = await session.send("3")
        assert full.outcome == "refused"
        assert full.stop == "approvals.requests_full"
        assert full.attempts[0].issues[0].at == "/actions", "it is no one action's fault"
        assert (await session.resolve(first.approval_id, "deny", "ann")).stop == "denied"
        assert (await session.send("4")).outcome == "held", "what is resolved makes room"
        assert [approval.state for approval in await session.approvals()] == ["open", "open"]


async def test_an_invalid_edit_leaves_the_approval_request_open() -> None:
    async with talk([put(500)]) as session:
        turn = await session.send("put 500")
        wrong = await session.edit(turn.approval_id, [("till.putt", {})], "ann")
        assert wrong.stop == "kind_unknown"
        assert [approval.state for approval in await session.approvals()] == ["open"]
        own = await session.edit(turn.approval_id, [put(5)], "agent")
        assert "the agent of an intent does not decide about it" in own.message
        assert (await session.edit(turn.approval_id, [put(5)], "ann")).outcome == "applied"
        assert (await session.edit(turn.approval_id, [put(5)], "ann")).stop == "denied"
        assert await total(session) == 5


async def test_an_edit_needs_the_role_too() -> None:
    def policy(plan: Plan, *_: Any) -> PolicyDecision:
        is_small = plan.actions[0].payload["amount"] in range(100)
        return PolicyDecision("hold", role="cashier" if is_small else "manager")

    async with talk([put(1)], policy=policy) as session:
        turn = await session.send("put")
        assert "needs the role" in (await session.edit(turn.approval_id, [put(2)], "ann")).message
        more = await session.edit(turn.approval_id, [put(200)], "ann", role="cashier")
        assert more.stop == "policy_denied", "a policy stands above a person's hand too"
        assert "these actions need the role 'manager'" in more.message
        assert [one.state for one in await session.approvals()] == ["open"]
        edited = await session.edit(turn.approval_id, [put(2)], "ann", role="cashier")
        assert edited.outcome == "applied"
        assert [one.state for one in await session.approvals()] == ["amended", "approved"]
        assert await total(session) == 2


# the session's own kinds, by other ways than a proposal


@pytest.mark.parametrize("kind", sorted(KINDS))
async def test_an_agent_with_every_permission_cannot_record_for_the_session(kind: str) -> None:
    payloads: dict[str, dict[str, Any]] = {
        "session.turn": {
            "session": "main", "turn": 2, "agent": "mallory", "mode": "autonomous",
            "route": "agent", "message": "",
        },
        "session.ask": {"session": "main", "turn": 1, "attempt": 1, "adapter": "x", "digest": ""},
        "session.end": {
            "session": "main", "turn": 1, "outcome": "applied", "stop": "completed", "text": "",
            "results": [],
        },
        "session.grant": {
            "grant": "g", "proposer": "mallory", "kinds": "*", "equals": {}, "uses": 9,
            "seconds": 9.0, "by": "ann",
        },
        "session.use": {"grant": "g", "proposer": "mallory", "uses": 1},
        "session.guard": {"seq": 0},
    }  # fmt: skip
    async with talk([EMPTY]) as session:
        await session.send("go")
        world = session.world
        assert isinstance(world, Orchestrator)
        mallory = await world.register_agent("mallory")  # all kinds, as an operator might
        verdict = await world.submit([mallory.intent(kind, **payloads[kind])])
        assert list(verdict.codes) == ["session.recorder_only"]


class Pay(BaseModel):
    amount: int = Field(default=500, validation_alias=AliasChoices("amount", "sum"))


class Paying(Till):
    """A till with a default amount of 500 and an earlier field name, `sum`."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds = (*self.kinds, Kind("till.give", Pay, lambda _d, _i: None, risk_of=_of_sum))


def _of_sum(payload: Any, _state: object) -> Risk:
    return "high" if payload.get("amount", 0) >= 100 else "low"


@pytest.mark.parametrize("payload", [{"amount": 500}, {"sum": 500}, {}])
async def test_risk_is_judged_on_the_normalized_payload(payload: Any) -> None:
    seen: list[Any] = []

    def policy(plan: Plan, _risks: object, _mode: object) -> PolicyDecision:
        seen.append(plan.actions[0].payload)
        return PolicyDecision()

    give, small = ("till.give", payload), ("till.give", {"sum": 5})
    async with talk([give], [small], domain=Paying(), mode="autonomous", policy=policy) as session:
        turn = await session.send("give")
        assert turn.outcome == "held"
        assert [one.actions[0]["payload"] for one in await session.approvals()] == [payload]
        assert (await session.resolve(turn.approval_id, "approve", "ann")).outcome == "applied"
        assert (await session.send("give a little")).outcome == "applied"
    assert seen == [{"amount": 500}, {"amount": 5}]


# grants


async def test_a_refused_plan_does_not_consume_a_grant() -> None:
    steps: tuple[Any, ...] = ([EMPTY, put(-1)], [EMPTY])
    async with talk(*steps, mode="autonomous", limits=AgentLimits(attempts_max=1)) as session:
        await session.grant("till.empty", by="ann", uses=1)
        assert (await session.send("1")).outcome == "failed"
        assert (await session.send("2")).outcome == "applied"


async def test_grants_made_at_the_same_seq_are_all_recorded() -> None:
    async with talk(adapter=None) as session:
        async with anyio.create_task_group() as group:
            for who in ("ann", "bob", "cid"):
                group.start_soon(partial(session.grant, "till.empty", by=who))
        grants = await session.world.state("session.grants")
        assert sorted(one["by"] for one in grants.values()) == ["ann", "bob", "cid"]


async def test_a_plan_whose_grant_another_session_used_first_is_held() -> None:
    async with Orchestrator([Till(), Sessions()], OrchestratorConfig()) as world:
        one = await Session.open(world=world, session="a", adapter=ScriptedAdapter([[EMPTY]]))
        two = await Session.open(world=world, session="b", adapter=ScriptedAdapter([[EMPTY]]))
        await one.grant("till.empty", by="ann", uses=1)
        turns: list[Turn] = []

        async def say(session: Session) -> None:
            turns.append(await session.send("empty it"))

        async with anyio.create_task_group() as group:
            group.start_soon(say, one)
            group.start_soon(say, two)
        assert sorted(turn.outcome for turn in turns) == ["applied", "held"]


async def test_a_value_that_a_grant_binds_is_compared_as_json() -> None:
    from placet.agents.proposal.modes import covers

    grant: dict[str, Any] = {"kinds": "a.*", "equals": {"n": 1, "way": [1, 2]}}

    def is_for(kind: str, payload: dict[str, Any]) -> bool:
        return covers(grant, kind, payload, payload)

    assert is_for("a.b", {"n": 1, "way": (1, 2), "more": 0})
    assert not is_for("a.b", {"n": True, "way": [1, 2]}), "true is no number"
    assert not is_for("a.b", {"n": 1})
    assert not is_for("b.a", {"n": 1, "way": [1, 2]})


@pytest.mark.parametrize(
    ("bound", "proposed", "outcome"),
    [
        ({"amount": 200}, {"amount": 200}, "applied"),
        ({"sum": 200}, {"sum": 200}, "applied"),
        ({"amount": 200}, {"amount": 200, "note": "rent"}, "applied"),
        ({"sum": 200}, {"sum": 200, "amount": 900}, "held"),
        ({"amount": 200}, {"amount": 200, "Amount": 900}, "held"),
        ({"note": "rent"}, {"amount": 200, "note": "rent"}, "held"),
    ],
)
async def test_a_grant_compares_the_normalized_payload(
    bound: dict[str, Any], proposed: dict[str, Any], outcome: str
) -> None:
    class Pay(BaseModel):
        amount: int = Field(validation_alias=AliasChoices("Amount", "amount", "sum"))

    class Giving(Till):
        def __init__(self) -> None:
            super().__init__()
            self.kinds = (Kind("till.give", Pay, lambda _d, _i: None, risk="high"),)

    async with talk([("till.give", proposed)], domain=Giving(), mode="autonomous") as session:
        await session.grant("till.give", by="ann", equals=bound)
        assert (await session.send("give")).outcome == outcome


async def test_a_grant_is_for_its_proposer() -> None:
    async with Orchestrator([Till(), Sessions()]) as world:
        one = await Session.open(world=world, session="a")
        await one.grant("till.*", by="ann", uses=9)
        script = ScriptedAdapter([[EMPTY]])
        two = await Session.open(world=world, session="b", agent="other", adapter=script)
        assert (await two.send("go")).outcome == "held"


# What is shown is what is done, in every domain


@pytest.mark.parametrize(
    ("domain", "steps"),
    [
        ("memory", [("memory.remember", {"key": "harbour", "value": "Kiel"})]),
        ("world", [("Move", {"to": [1, 2]})]),
    ],
)  # fmt: skip
async def test_a_plan_of_any_domain_is_approved_as_it_was_shown(domain, steps):
    """A value derived from the seq differs at each attempt, and is no agent's change."""
    async with Session.open(
        domain=domain, mode="interactive", adapter=ScriptedAdapter([steps])
    ) as session:
        turn = await session.send("do it")
        assert turn.outcome == "held"
        assert (await session.resolve(turn.approval_id, "approve", "ann")).outcome == "applied"


class Nothing(TypedDict):
    pass


def _pay(draft, _intent):
    draft.emit("wire", {"to": draft.get("bank.accounts", "it", "iban")})


def _redirect(draft, _intent):
    draft.put("bank.accounts", "it", "iban", "EVIL")


class Bank(Domain):
    """Where money goes is read from the state when it is sent."""

    name = "bank"
    version = "1"

    def __init__(self) -> None:
        self.kinds = (
            Kind("bank.pay", Nothing, _pay, effects=("wire",), risk="high"),
            Kind("bank.redirect", Nothing, _redirect),
        )

    def on_open(self, draft):
        draft.create("bank.accounts", "it", {"iban": "GOOD"})


async def test_a_plan_whose_effect_changed_is_not_applied_by_its_approval():
    wired = []

    async def wire(effect):
        wired.append(effect.payload["to"])

    async with Orchestrator([Bank(), Sessions()]) as world:
        await world.register_executor("wire", wire)
        session = await Session.open(world=world, adapter=ScriptedAdapter([[("bank.pay", {})]]))
        mallory = await world.register_agent("mallory")
        turn = await session.send("pay")
        assert (await mallory.submit([mallory.intent("bank.redirect")])).admitted
        moved = await session.resolve(turn.approval_id, "approve", "ann")
        assert (moved.outcome, wired) == ("held", [])
