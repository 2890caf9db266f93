"""Every code of the table is produced by something that happens, and documented."""

import inspect
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from placet import Orchestrator, OrchestratorConfig
from placet.agents import AgentLimits, PlannerOutput, ScriptedAdapter, Session
from placet.agents.proposal.adapter import PlannerUnavailable, Usage
from placet.agents.proposal.codes import TABLE, Code, facts_of
from placet.agents.proposal.modes import PolicyDecision
from placet.agents.proposal.plan_parser import Call
from placet.domains.session import Sessions
from placet.domains.session import domain as session_rules
from placet.errors import OutcomeUnknown
from placet.schemas.effect import Effect
from placet.schemas.refusal import RefusalCode
from placet.server.http.verdict_status import status_table
from tests.actors.virtual_time import in_virtual_time
from tests.agents.till import EMPTY, Till, put, talk

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[3] / "docs" / "concepts" / "agents.md"
PLAN: dict[str, Any] = {
    "version": "placet.plan/1",
    "goal": "g",
    "base_seq": 0,
    "actions": [{"kind": "till.put", "payload": {"amount": 1}}],
}
STOP = {"code": "unsupported_goal", "message": "no"}
SMALL = AgentLimits(plan_bytes_max=400, payload_bytes_max=20, repairs_max=0)
PAY = ("till.pay", {"amount": 1})


async def codes_of(*steps: Any, **options: Any) -> set[str]:
    """Send one message and collect every code in its turn."""
    async with talk(*steps, **{"mode": "autonomous", **options}) as session:
        turn = await session.send("go")
        issues = [one for attempt in turn.attempts for one in attempt.issues]
        return {turn.stop, *(issue.code for issue in issues)}


async def plan(**changed: Any) -> set[str]:
    return await codes_of({**PLAN, **changed}, limits=SMALL)


def one(**action: Any) -> dict[str, Any]:
    return {"kind": "till.put", "payload": {"amount": 1}, **action}


async def denied() -> set[str]:
    async with talk([EMPTY]) as session:
        turn = await session.send("go")
        return {(await session.resolve(turn.approval_id, "deny", "ann")).stop}


async def paid(handler: Callable[[Effect], Awaitable[Any]]) -> set[str]:
    limits = AgentLimits(seconds_max=20.0)
    is_over = anyio.Event()

    async def handled(effect: Effect) -> Any:
        return await (is_over.wait() if handler is hangs else handler(effect))

    async with Orchestrator([Till(), Sessions()]) as world:
        await world.register_executor("till.bank", handled, delivery="at_most_once")
        script = ScriptedAdapter([[PAY]])
        session = await Session.open(world=world, adapter=script, mode="autonomous", limits=limits)
        turn = await session.send("pay")
        is_over.set()
        assert turn.outcome == "failed", "never said to be done"
        return {turn.stop, *(one.code for attempt in turn.attempts for one in attempt.issues)}


async def fails(_effect: Effect) -> None:
    raise ZeroDivisionError


async def is_cut_off(_effect: Effect) -> None:
    raise OutcomeUnknown("the line went dead")


async def hangs(_anything: object) -> None:
    await anyio.sleep_forever()


async def over_quota() -> set[str]:
    config = OrchestratorConfig(quotas={"session.ask": {"rate": 0.001, "burst": 1}})
    async with Orchestrator([Till(), Sessions()], config) as world:
        session = await Session.open(world=world, adapter=ScriptedAdapter([[put(1)]]))
        await session.send("one")
        return {(await session.send("two")).stop}


async def stopped() -> set[str]:
    caller = anyio.CancelScope()

    async def leave(_context: object) -> None:
        caller.cancel()
        await anyio.sleep_forever()

    async with talk(adapter=leave) as session:
        with caller:
            await session.send("go")
        return {turn["stop"] for turn in await session.turns()}


class Odd:
    """A proposer with a bug: reading its price raises."""

    @property
    def is_priced(self) -> bool:
        raise ZeroDivisionError

    async def propose(self, _context: object) -> PlannerOutput:
        return PlannerOutput(text="never asked")


def ruled(decision: Any, role: str = "") -> dict[str, Any]:
    return {"policy": lambda *_: PolicyDecision(decision, role)}


def spent(cost: Any) -> PlannerOutput:
    return PlannerOutput(plan="{", usage=Usage(1, 10, 10, cost))


Producer = Callable[[], Awaitable[set[str]]]
PRODUCERS: dict[Code, Producer] = {
    Code.JSON_INVALID: lambda: codes_of("{"),
    Code.ENVELOPE_INVALID: lambda: plan(confirmed=True),
    Code.VERSION_UNSUPPORTED: lambda: plan(version="2"),
    Code.GOAL_EMPTY: lambda: plan(goal=""),
    Code.ACTIONS_MISSING: lambda: plan(actions=[]),
    Code.ACTIONS_TOO_MANY: lambda: codes_of({**PLAN, "actions": [one()] * 40}),
    Code.STOP_CONFLICT: lambda: plan(stop=STOP),
    Code.PLAN_TOO_LARGE: lambda: codes_of("x" * 500, limits=SMALL),
    Code.ACTION_ID_DUPLICATE: lambda: plan(actions=[one(id="a"), one(id="a")]),
    Code.KIND_UNKNOWN: lambda: plan(actions=[one(kind="till.fill")]),
    Code.TOOL_UNREGISTERED: lambda: codes_of([PAY]),
    Code.PAYLOAD_MISSING: lambda: plan(actions=[one(payload={})]),
    Code.PAYLOAD_INVALID: lambda: plan(actions=[one(payload={"amount": "x"})]),
    Code.PAYLOAD_TOO_LARGE: lambda: plan(actions=[one(payload={"amount": 1, "x": "y" * 30})]),
    Code.CONFIRMATION_REQUIRED: lambda: codes_of([EMPTY]),
    Code.APPROVAL_REQUIRED: lambda: codes_of([put(1)], **ruled("hold", "cashier")),
    Code.DENIED: denied,
    Code.POLICY_DENIED: lambda: codes_of([put(1)], **ruled("deny")),
    Code.POLICY_ERROR: lambda: codes_of([put(1)], **ruled("perhaps")),
    Code.BUDGET_EXCEEDED: over_quota,
    Code.EFFECT_FAILED: lambda: paid(fails),
    Code.EFFECT_TIMEOUT: lambda: paid(hangs),
    Code.EFFECT_IN_DOUBT: lambda: paid(is_cut_off),
    Code.PLANNER_UNCONFIGURED: lambda: codes_of(adapter=None),
    Code.PLANNER_UNAVAILABLE: lambda: codes_of(PlannerUnavailable("down")),
    Code.PLANNER_REFUSED: lambda: codes_of(PlannerOutput(text="no", refused=True)),
    Code.CLARIFICATION_NEEDED: lambda: codes_of(
        PlannerOutput(calls=[Call("ask_clarification", '{"question": "?"}')])
    ),
    Code.UNSUPPORTED_GOAL: lambda: plan(actions=[], stop=STOP),
    Code.UNSAFE_GOAL: lambda: plan(actions=[], stop={**STOP, "code": "unsafe_goal"}),
    Code.COMPLETED: lambda: codes_of([put(1)]),
    Code.SAID: lambda: codes_of(PlannerOutput(text="hello")),
    Code.REPAIR_EXHAUSTED: lambda: codes_of("{", "[", "("),
    Code.REPAIR_NO_PROGRESS: lambda: codes_of("{", "{"),
    Code.ATTEMPTS_EXHAUSTED: lambda: codes_of([put(-1)], [put(-2)], [put(-3)]),
    Code.TOKENS_EXHAUSTED: lambda: codes_of([put(1)], limits=AgentLimits(tokens_max=5)),
    Code.COST_EXHAUSTED: lambda: codes_of(spent(5), [put(1)]),
    Code.COST_UNKNOWN: lambda: codes_of(spent(None), [put(1)]),
    Code.DEADLINE_EXCEEDED: lambda: codes_of(adapter=hangs, limits=AgentLimits(seconds_max=0.05)),
    Code.OPERATOR_STOPPED: stopped,
    Code.CONTEXT_TOO_LARGE: lambda: codes_of([put(1)], limits=AgentLimits(context_tokens_max=9)),
    Code.INTERNAL: lambda: codes_of(adapter=Odd()),
}


@pytest.mark.parametrize("code", list(TABLE))
@in_virtual_time
async def test_every_code_is_produced(code: Code) -> None:
    assert code in await PRODUCERS[code]()


@pytest.mark.parametrize("code", list(TABLE))
def test_every_code_has_its_facts(code: Code) -> None:
    facts = facts_of(code)
    assert facts == TABLE[code]
    assert 200 <= facts.http < 600
    assert facts.text.endswith(".")


def test_every_code_of_the_session_is_documented() -> None:
    rules = inspect.getsource(session_rules)
    refused = set(re.findall(r'refuse\(\s*"(\w+)"', rules))
    assert {"agent_other", "turn_out_of_order"} <= refused
    told = re.findall(
        r"`session\.(\w+)`", PAGE.read_text(encoding="utf-8").partition("| session |")[2]
    )
    assert sorted(refused) == told


def test_every_code_is_documented() -> None:
    named = set(re.findall(r"`(\w+)`", PAGE.read_text(encoding="utf-8")))
    assert {code.value for code in TABLE} - named == set()


@pytest.mark.parametrize(("code", "status"), [row[1:] for row in status_table()[2:]])
def test_a_turn_has_the_status_of_the_verdict_that_ended_it(code: str, status: int) -> None:
    # A planner chooses a kind as one looks for a page, and a tool is another's to bring.
    ours = {RefusalCode.KIND_UNKNOWN.value: 404, RefusalCode.TOOL_UNREGISTERED.value: 424}
    assert facts_of(code).http == ours.get(code, status)


@pytest.mark.parametrize(
    ("code", "stage", "is_repairable", "http"),
    [
        (RefusalCode.STALE_CONTEXT, "gate", True, 409),
        (RefusalCode.INVARIANT_VIOLATED, "gate", True, 422),
        (RefusalCode.FIELD_INVALID, "gate", True, 422),
        (RefusalCode.PERMISSION_DENIED, "gate", False, 403),
        (RefusalCode.QUOTA_EXCEEDED, "gate", False, 429),
        (RefusalCode.QUEUE_FULL, "gate", False, 503),
        ("till.negative", "domain", True, 422),
        ("session.approvals_full", "gate", False, 409),
        ("never_heard_of", "turn", False, 500),
    ],
)
def test_codes_of_other_layers_have_facts(
    code: str, stage: str, is_repairable: bool, http: int
) -> None:
    facts = facts_of(code)
    assert (facts.stage, facts.is_repairable, facts.http) == (stage, is_repairable, http)
