"""A session from message to log: turns, proposals, approval requests, and the records."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from placet import Orchestrator, OrchestratorConfig
from placet.agents import (
    AgentLimits,
    HumanAdapter,
    PlannerInput,
    PlannerOutput,
    ReplayAdapter,
    ScriptedAdapter,
    Session,
    Turn,
)
from placet.agents.proposal.context_text import ContextText
from placet.agents.proposal.modes import Mode, PolicyDecision
from placet.agents.proposal.plan import VERSION, Action, Plan, Stop
from placet.agents.proposal.plan_parser import Call
from placet.domains.session import KINDS, Sessions
from placet.domains.world import World
from placet.kernel.plugin.domain import Risk
from tests.agents.till import EMPTY, LOOK, Till, outcomes_of, put, talk, total

pytestmark = pytest.mark.anyio

Steps = Sequence[Any]


async def test_a_plan_is_applied_and_its_turn_has_results_and_diff() -> None:
    async with talk([put(5), LOOK]) as session:
        turn = await session.send("put five in")
        assert (turn.outcome, turn.stop, turn.route) == ("applied", "completed", "agent")
        assert outcomes_of(turn) == [("applied", None), ("read", 5)]
        assert [(one.path, one.old, one.new) for one in turn.diff] == [("till.box/box/sum", 0, 5)]
        assert await total(session) == 5


async def test_a_plan_is_all_or_nothing_and_the_next_try_starts_clean() -> None:
    async with talk([put(5), put(-1)], [put(7)]) as session:
        turn = await session.send("go")
        assert [one.status for one in turn.attempts] == ["rejected", "applied"]
        assert [issue.code for issue in turn.attempts[0].issues] == ["till.negative"]
        assert turn.attempts[0].issues[0].at == "/actions/1/payload/amount"
        assert await total(session) == 7


async def test_an_adapter_of_one_message_answers_that_message_alone() -> None:
    async with talk([put(1)], [put(2)]) as session:
        turn = await session.send("as a script", adapter=ScriptedAdapter([[put(10)]]))
        assert (turn.outcome, await total(session)) == ("applied", 10)
        assert (await session.send("as before")).outcome == "applied"
        assert await total(session) == 11
        with pytest.raises(TypeError):
            await session.send("to nobody", adapter=7)
        assert [entry["message"] for entry in await session.turns()] == ["as a script", "as before"]


async def test_a_session_without_an_adapter_takes_one_with_a_message() -> None:
    async with talk(adapter=None) as session:
        assert (await session.send("go")).stop == "planner_unconfigured"
        assert (await session.send("go", adapter=lambda _: [put(3)])).outcome == "applied"
        assert await total(session) == 3


async def test_the_proposer_receives_the_issues_of_its_answer() -> None:
    seen: list[PlannerInput] = []

    async def adapter(context: PlannerInput) -> Any:
        seen.append(context)
        return "{" if len(seen) == 1 else [put(1)]

    async with talk(adapter=adapter) as session:
        assert (await session.send("go")).outcome == "applied"
    assert seen[0].repairs == ()
    [repair] = seen[1].repairs
    assert (repair.raw.plan, repair.issues[0].code) == ("{", "json_invalid")
    assert "<issues>" in seen[1].text
    assert "<issues>" not in seen[0].text


@pytest.mark.parametrize(
    ("steps", "mode", "limits", "outcome", "stop", "attempts"),
    [
        (["{", "[", "(", "x"], "autonomous", {}, "failed", "repair_exhausted", 3),
        (["{", "{", [put(1)]], "autonomous", {}, "failed", "repair_no_progress", 2),
        ([[put(-n)] for n in range(1, 9)], "autonomous", {}, "failed", "attempts_exhausted", 3),
        ([[put(-n)] for n in range(1, 9)], "assisted", {}, "failed", "attempts_exhausted", 2),
        ([[put(-1)], [put(-1)], [put(1)]], "autonomous", {}, "failed", "repair_no_progress", 2),
        ([[put(1)]], "autonomous", {"tokens_max": 10}, "failed", "tokens_exhausted", 0),
        ([[put(1)]], "autonomous", {"context_tokens_max": 10}, "failed", "context_too_large", 0),
        ([PlannerOutput(text="I did it.")], "autonomous", {}, "said", "said", 1),
        (
            [PlannerOutput(text="no", refused=True)],
            "autonomous",
            {},
            "refused",
            "planner_refused",
            1,
        ),
        ([ConnectionError("secret")], "autonomous", {}, "failed", "planner_unavailable", 0),
        ([], "autonomous", {}, "failed", "planner_unavailable", 0),
        ([PlannerOutput(calls=(Call("ask_clarification", '{"question": "how much?"}'),))],
         "autonomous", {}, "clarify", "clarification_needed", 1),
        ([PlannerOutput(calls=(Call("stop", '{"code": "unsafe_goal", "message": "no"}'),))],
         "autonomous", {}, "refused", "unsafe_goal", 1),
        ([[put(1), put(2)], [put(1)]], "interactive", {}, "held", "confirmation_required", 2),
    ],
)  # fmt: skip
async def test_how_a_turn_ends(
    steps: Steps, mode: Any, limits: dict[str, Any], outcome: str, stop: str, attempts: int
) -> None:
    async with talk(*steps, mode=mode, limits=AgentLimits(**limits)) as session:
        turn = await session.send("go")
        assert (turn.outcome, turn.stop, len(turn.attempts)) == (outcome, stop, attempts)
        assert "secret" not in turn.model_dump_json()
        assert await total(session) == 0


async def test_without_a_planner_messages_are_refused_and_commands_work() -> None:
    async with talk(adapter=None) as session:
        assert (await session.send("put it in")).stop == "planner_unconfigured"
        turn = await session.send("/till.put amount=3")
        assert (turn.route, turn.outcome) == ("command", "applied")
        assert (await session.send("/till.putt amount=3")).stop == "kind_unknown"
        assert (await session.send("/till.put amount")).stop == "envelope_invalid"
        assert await total(session) == 3


# money and time


class Priced(ScriptedAdapter):
    """A script whose answers have a cost."""

    def __init__(self, steps: Steps, cost: Any, is_priced: bool = True) -> None:
        super().__init__(steps)
        self._cost = cost
        self.is_priced = is_priced

    async def propose(self, context: PlannerInput) -> PlannerOutput:
        raw = await super().propose(context)
        return raw._replace(usage=replace(raw.usage, requests=1, cost_usd=self._cost))


async def test_money_is_checked_before_each_request() -> None:
    from decimal import Decimal

    dear = Priced(["{", "[", [put(1)]], Decimal("0.6"))
    async with talk(adapter=dear) as session:
        turn = await session.send("go")
        assert (turn.stop, turn.usage.requests, turn.usage.cost_usd) == (
            "cost_exhausted",
            2,
            Decimal("1.2"),
        )


async def test_an_unpriced_proposer_is_not_asked_under_a_cost_limit() -> None:
    unpriced = Priced([[put(1)]], None, is_priced=False)
    async with talk(adapter=unpriced) as session:
        assert (await session.send("go")).stop == "cost_unknown"
    free = AgentLimits(on_unknown_price="tokens_only")
    async with talk(adapter=unpriced, limits=free) as session:
        assert (await session.send("go")).outcome == "applied"


async def test_a_hanging_proposer_is_abandoned_at_the_deadline() -> None:
    async def hang(_context: PlannerInput) -> Any:
        await anyio.sleep_forever()

    async with talk(adapter=hang, limits=AgentLimits(seconds_max=0.05)) as session:
        assert (await session.send("go")).stop == "deadline_exceeded"
        assert (await session.send("/till.put amount=1")).outcome == "applied", "the world goes on"


async def test_a_connection_timeout_of_the_proposer_is_unavailable_and_not_a_deadline() -> None:
    async def refused(_context: PlannerInput) -> Any:
        raise TimeoutError("connect")

    async with talk(adapter=refused) as session:
        turn = await session.send("go")
        assert (turn.stop, turn.message) == ("planner_unavailable", "TimeoutError")


# holds


async def held(session: Session) -> Turn:
    turn = await session.send("empty it")
    assert (turn.outcome, turn.stop) == ("held", "confirmation_required")
    return turn


async def test_an_approved_plan_is_applied_once_as_it_was_shown() -> None:
    async with talk([put(9)], [EMPTY], mode="autonomous") as session:
        await session.send("put")
        turn = await held(session)
        assert [(one.old, one.new) for one in turn.diff] == [(9, 0)]
        assert await total(session) == 9
        done = await session.resolve(turn.approval_id, "approve", "ann")
        assert (done.outcome, done.route) == ("applied", "person")
        assert await total(session) == 0
        again = await session.resolve(turn.approval_id, "approve", "ann")
        assert (again.outcome, again.stop) == ("refused", "denied")
        [hold] = await session.approvals()
        assert (hold.state, hold.by) == ("approved", "ann")


@pytest.mark.parametrize(
    ("by", "decision", "says"),
    [
        ("agent", "approve", "the agent of an intent does not decide about it"),
        ("agent", "deny", "the agent of an intent does not decide about it"),
        ("ann", "deny", "deny by ann"),
    ],
)
async def test_the_proposer_may_not_resolve_its_approval_request(
    by: str, decision: Any, says: str
) -> None:
    async with talk([EMPTY]) as session:
        turn = await held(session)
        ended = await session.resolve(turn.approval_id, decision, by)
        assert (ended.outcome, ended.stop) == ("refused", "denied")
        assert says in ended.message
        assert (await session.resolve("nothing", "approve", "ann")).stop == "denied"


async def test_an_approval_request_expires() -> None:
    async with talk([EMPTY], limits=AgentLimits(confirm_seconds_max=0.05)) as session:
        turn = await held(session)
        await anyio.sleep(0.06)
        assert [approval.state for approval in await session.approvals()] == ["expired"]
        ended = await session.resolve(turn.approval_id, "approve", "ann")
        assert "expired" in ended.message


async def test_a_plan_with_changed_effects_gets_a_new_approval_request() -> None:
    async with talk([EMPTY], mode="autonomous") as session:
        await session.send("/till.put amount=5")
        turn = await held(session)
        await session.send("/till.put amount=6")
        moved = await session.resolve(turn.approval_id, "approve", "ann")
        assert moved.outcome == "held"
        assert moved.approval_id != turn.approval_id
        assert [(one.old, one.new) for one in moved.diff] == [(11, 0)]
        assert [approval.state for approval in await session.approvals()] == ["stale", "open"]
        assert (await session.resolve(moved.approval_id, "approve", "ann")).outcome == "applied"


async def test_a_person_may_edit_a_held_plan() -> None:
    async with talk([put(500)]) as session:
        turn = await session.send("put 500")
        edited = await session.edit(turn.approval_id, [put(50)], "ann")
        assert (edited.outcome, edited.route) == ("applied", "person")
        assert await total(session) == 50
        assert [approval.state for approval in await session.approvals()] == ["amended", "approved"]


async def test_a_policy_asks_for_a_role_denies_or_fails_closed() -> None:
    def policy(plan: Plan, _risks: Sequence[Risk], _mode: Mode) -> PolicyDecision:
        amount = plan.actions[0].payload.get("amount")
        if amount == 3:
            raise ZeroDivisionError
        rulings: dict[Any, PolicyDecision] = {
            1: PolicyDecision("hold", role="cashier", reason="cash"),
            2: PolicyDecision("deny"),
        }
        return rulings.get(amount, PolicyDecision())

    async with talk([put(1)], [put(2)], [put(3)], [put(4)], policy=policy) as session:
        turn = await session.send("one")
        assert (turn.outcome, turn.stop) == ("held", "approval_required")
        without = await session.resolve(turn.approval_id, "approve", "ann")
        assert "needs the role 'cashier'" in without.message
        done = await session.resolve(turn.approval_id, "approve", "ann", role="cashier")
        assert done.outcome == "applied"
        assert [(await session.send("x")).stop for _ in range(2)] == [
            "policy_denied",
            "policy_error",
        ]
        assert (await session.send("four")).outcome == "applied"
        assert await total(session) == 5


async def test_a_grant_permits_a_number_of_actions_of_a_kind() -> None:
    async with talk([EMPTY], [EMPTY, EMPTY], [EMPTY], [put(100)], mode="autonomous") as session:
        await session.grant("till.empty", by="ann", uses=2)
        assert (await session.send("1")).outcome == "applied"
        assert (await session.send("2")).outcome == "held", "one use is left, two are needed"
        assert (await session.send("3")).outcome == "applied"
        with pytest.raises(PermissionError, match="cannot grant a permission to itself"):
            await session.grant("till.*", by="agent")


async def test_a_grant_may_bind_values() -> None:
    async with talk([put(100)], [put(200)], mode="assisted") as session:
        await session.grant("till.*", by="ann", equals={"amount": 100}, uses=9)
        assert (await session.send("1")).outcome == "applied"
        assert (await session.send("2")).outcome == "held"


# what nobody can smuggle


@pytest.mark.parametrize("kind", sorted(KINDS))
async def test_no_agent_may_propose_the_kinds_of_the_session_domain(kind: str) -> None:
    async with talk([(kind, {})], [(kind, {"by": "ann"})], [put(1)]) as session:
        turn = await session.send("go")
        assert [one.issues[0].code for one in turn.attempts[:2]] == ["kind_unknown"] * 2
        assert "session." not in turn.attempts[0].issues[0].message.partition("Choose")[2]


async def test_no_field_of_a_proposal_confirms_it() -> None:
    confirmed = {
        "version": "placet.plan/1",
        "goal": "g",
        "base_seq": 0,
        "actions": [{"kind": "till.empty", "payload": {}}],
    }
    smuggled = [
        {**confirmed, "confirmed": True},
        {**confirmed, "actions": [{"kind": "till.empty", "payload": {"confirmed": True}}]},
        {**confirmed, "actions": [{"kind": "till.empty", "payload": {}, "mode": "autonomous"}]},
    ]
    async with talk(*smuggled, mode="autonomous", limits=AgentLimits(repairs_max=9)) as session:
        turn = await session.send("go")
        assert [one.status for one in turn.attempts] == ["invalid"] * 3


# the log


async def test_a_session_is_reopened_by_its_name(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'till.db'}"
    async with talk([put(5)], [EMPTY], store=store, session="desk") as session:
        await session.send("put five")
        hold = (await session.send("empty")).approval_id
    seen: list[PlannerInput] = []

    def look(context: PlannerInput) -> Any:
        seen.append(context)
        return [put(1)]

    async with talk(adapter=look, store=store, session="desk") as session:
        assert (await session.resolve(hold, "approve", "ann")).outcome == "applied"
        turn = await session.send("and one more")
        assert turn.id == "desk/4"
        assert await total(session) == 1
    assert [line["text"] for line in seen[0].history if line["role"] == "user"] == [
        "put five",
        "empty",
        f"approve {hold}, by ann",
    ]
    assert [one["outcome"] for one in seen[0].results] == ["applied", "held", "applied"]


@pytest.mark.parametrize(("turns", "results"), [(3, 1), (1, 3), (0, 2), (9, 9)])
async def test_the_context_has_the_turns_and_results_that_the_limits_allow(
    turns: int, results: int
) -> None:
    seen: list[PlannerInput] = []

    def look(context: PlannerInput) -> Any:
        seen.append(context)
        return [put(1)]

    limits = AgentLimits(turns_last=turns, results_last=results)
    async with talk(adapter=look, mode="autonomous", limits=limits) as session:
        for n in range(11):
            await session.send(f"message {n}")
    text = seen[-1].text
    assert isinstance(text, ContextText)
    said = [f"message {n}" in text.parts.get("conversation", "") for n in range(10)]
    assert said == [False] * (10 - turns) + [True] * turns
    assert len(seen[-1].history) == text.report["conversation"].kept == 2 * turns
    assert text.report["results"].kept == results


async def test_a_replayed_session_is_equal_and_makes_no_model_call() -> None:
    said = ["one", "two", "three"]
    asked = 0

    def model(context: PlannerInput) -> Any:
        nonlocal asked
        asked += 1
        return "{" if asked == 2 else [put(asked)]

    async with talk(adapter=model) as session:
        for message in said:
            await session.send(message)
        world = session.world
        assert isinstance(world, Orchestrator)
        digest = await world.digest()
        replay = await ReplayAdapter.of(world.events(since=0), world.seq, "main")
    assert asked == 4
    async with talk(adapter=replay) as session:
        for message in said:
            await session.send(message)
        assert isinstance(session.world, Orchestrator)
        assert await session.world.digest() == digest
    assert asked == 4


async def test_a_world_without_the_domain_session_is_refused() -> None:
    async with Orchestrator(World(), OrchestratorConfig()) as world:
        with pytest.raises(ValueError, match="has no domain 'session'"):
            await Session.open(world=world)


async def test_two_sessions_talk_in_one_world() -> None:
    async with Orchestrator([Till(), Sessions()]) as world:
        one = await Session.open(world=world, session="a", adapter=ScriptedAdapter([[put(1)]]))
        two = await Session.open(
            world=world, session="b", agent="other", adapter=ScriptedAdapter([[put(2)]])
        )
        async with anyio.create_task_group() as group:
            group.start_soon(one.send, "go")
            group.start_soon(two.send, "go")
        assert await world.state("till.box/box/sum") == 3
        assert [len(await one.turns()), len(await two.turns())] == [1, 1]


async def test_sessions_work_under_a_strict_staleness_threshold() -> None:
    config = OrchestratorConfig(staleness_threshold=3)
    async with Orchestrator([Till(), Sessions()], config) as world:
        script = ScriptedAdapter([[put(1)], [EMPTY]], is_looping=True)
        session = await Session.open(world=world, mode="autonomous", adapter=script)
        for _ in range(3):
            assert (await session.send("put one in")).outcome == "applied"
            turn = await session.send("empty it")
            assert (await session.resolve(turn.approval_id, "approve", "ann")).outcome == "applied"


async def test_a_person_may_be_the_proposer() -> None:
    human = HumanAdapter()
    async with talk(adapter=human) as session, anyio.create_task_group() as group:
        turns: list[Turn] = []

        async def say() -> None:
            turns.append(await session.send("what now?"))

        group.start_soon(say)
        question = await human.wait_question()
        assert question.context.message == "what now?"
        human.answer(question.number, [put(3)])
    assert turns[0].outcome == "applied"


async def test_a_question_stays_open_after_an_invalid_answer() -> None:
    human, no_pair = HumanAdapter(), cast("Any", [("till.put",)])
    async with talk(adapter=human) as session:
        async with anyio.create_task_group() as group:
            group.start_soon(session.send, "what now?")
            question = await human.wait_question()
            with pytest.raises(ValueError, match="not enough values"):
                human.answer(question.number, no_pair)
            assert human.questions == [question]
            human.answer(question.number, [put(3)])
        assert await total(session) == 3


async def test_the_reprs_of_a_session_and_its_results_are_short() -> None:
    async with talk([EMPTY, put(1)], mode="interactive") as session:
        assert repr(session) == "<Session 'main', agent 'agent', interactive>"
    assert repr(session) == "<Session 'main', agent 'agent', interactive, closed>"
    async with talk([EMPTY], mode="autonomous") as session:
        turn = await held(session)
        [approval] = await session.approvals()
    name = turn.approval_id
    assert repr(turn) == (
        f"<Turn 'main/1' held (confirmation_required): till.empty, approval {name!r}>"
    )
    assert repr(approval) == f"<ApprovalRequest {name!r} open, needs confirm: till.empty>"
    put_plan = Plan(
        version=VERSION,
        goal="fill it",
        base_seq=7,
        actions=tuple(Action(kind="till.put") for _ in range(6)),
    )
    assert repr(put_plan) == ("<Plan at seq 7: till.put, till.put, till.put, till.put and 2 more>")
    assert repr(put_plan.model_copy(update={"actions": ()})) == "<Plan at seq 7: no actions>"
    stop = Stop(code="unsafe_goal", message="no")
    assert repr(put_plan.model_copy(update={"stop": stop})) == "<Plan at seq 7: stop unsafe_goal>"
