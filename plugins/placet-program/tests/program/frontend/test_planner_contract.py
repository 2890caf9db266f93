"""The planner contract `plan_v1`: its requirements, its rules, its five kinds of tests."""

import json
from typing import Any

import pytest
from tests.program.programs import calculator

from placet.agents import PlannerOutput, Session
from placet_program import Program
from placet_program.frontend import plan_v1
from placet_program.frontend.plan_v1 import PlanV1

pytestmark = pytest.mark.anyio

ACTIONS: list[dict[str, Any]] = [
    {"type": "mutate_batch", "payload": {"mutations": calculator()}},
    {"type": "verify", "payload": {}},
    {"type": "compile", "payload": {"entry": "calc"}},
    {
        "type": "simulate",
        "payload": {"function": "calc", "inputs": {"op": "add", "a": 2.0, "b": 3.0}},
    },
    {"type": "inspect", "payload": {"what": "overview"}},
    {"type": "history_query", "payload": {"op": "list"}},
]
ENVELOPE: dict[str, Any] = {
    "version": "1",
    "goal": "a calculator",
    "actions": ACTIONS,
    "stop_reason": None,
    "notes": "one function for each operation",
}


def codes(**changed: Any) -> list[tuple[str, str]]:
    envelope = {name: it for name, it in {**ENVELOPE, **changed}.items() if it is not ...}
    _, issues = plan_v1.read(json.dumps(envelope), base_seq=3, domain=Program())
    return [(issue.code, issue.at) for issue in issues]


# 1: schema parsing and validation failures


@pytest.mark.parametrize("version", plan_v1.VERSIONS)
def test_an_envelope_is_read(version: str) -> None:
    plan, issues = plan_v1.read({**ENVELOPE, "version": version}, base_seq=3, domain=Program())
    assert issues == []
    assert plan is not None
    assert (plan.base_seq, plan.goal, plan.notes) == (3, "a calculator", ENVELOPE["notes"])
    assert [one.kind for one in plan.actions] == [f"program.{one['type']}" for one in ACTIONS]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"version": "2"}, ("version_unsupported", "/version")),
        ({"version": ...}, ("version_unsupported", "/version")),
        ({"actions": []}, ("actions_missing", "/actions")),
        ({"actions": ...}, ("actions_missing", "/actions")),
        ({"actions": ACTIONS * 6}, ("actions_too_many", "/actions")),
        ({"actions": [{"type": "erase", "payload": {}}]}, ("kind_unknown", "/actions/0/kind")),
        ({"actions": [{"type": "compile", "payload": {}}]},
         ("payload_missing", "/actions/0/payload/entry")),
        ({"actions": ["verify"]}, ("envelope_invalid", "/actions/0")),
        ({"actions": [{"type": 7}]}, ("envelope_invalid", "/actions/0/kind")),
        ({"actions": "verify"}, ("envelope_invalid", "/actions")),
        ({"confirmed": True}, ("envelope_invalid", "/confirmed")),
        ({"goal": ""}, ("goal_empty", "/goal")),
        ({"stop_reason": "unsafe_goal"}, ("stop_conflict", "/stop")),
        ({"stop_reason": {"code": "because"}}, ("envelope_invalid", "/stop/code")),
        ({"stop_reason": 7}, ("envelope_invalid", "/stop")),
    ],
)  # fmt: skip
def test_an_invalid_plan_has_a_reason_code(
    changed: dict[str, Any], expected: tuple[str, str]
) -> None:
    assert expected in codes(**changed)


@pytest.mark.parametrize("text", ["{", "create it for me", "[]", b"\xff", "x" * 300_000, None, 7])
def test_an_invalid_envelope_is_a_failure_without_fallback(text: Any) -> None:
    plan, issues = plan_v1.read(text, base_seq=0, domain=Program())
    assert plan is None
    assert issues


@pytest.mark.parametrize(
    ("reason", "code", "message"),
    [
        ("unsafe_goal", "unsafe_goal", "The planner holds this goal to be unsafe."),
        ("no such operation", "unsupported_goal", "no such operation"),
        (
            {"code": "clarification_needed", "message": "Which?"},
            "clarification_needed",
            "Which?",
        ),
    ],
)
def test_each_stop_reason_has_its_code(reason: Any, code: str, message: str) -> None:
    envelope = {"version": "1", "goal": "g", "stop_reason": reason}
    plan, issues = plan_v1.read(envelope, base_seq=0, domain=Program())
    assert issues == []
    assert plan is not None
    assert plan.stop is not None
    assert (plan.stop.code, plan.stop.message) == (code, message)


# 2 and 3: a prompt that is no command goes to the planner, and yields a plan or a failure


def talk(*answers: Any, **options: Any) -> Any:
    left = list(answers)
    planner = PlanV1(lambda _: left.pop(0))
    return Session.open(domain=Program(), adapter=planner, **{"mode": "autonomous", **options})


async def test_a_prompt_yields_a_plan() -> None:
    async with talk(json.dumps(ENVELOPE)) as session:
        turn = await session.send("please make me a calculator")
        assert (turn.route, turn.outcome) == ("agent", "applied")
        assert plan_v1.failure_of(turn) is None
        assert turn.attempts[0].actions == tuple(f"program.{one['type']}" for one in ACTIONS)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({**ENVELOPE, "version": "2"}, "version_unsupported"),
        ("I have created the program for you!", "json_invalid"),
        ({"version": "1", "goal": "g", "stop_reason": "unsafe_goal"}, "unsafe_goal"),
        ({**ENVELOPE, "actions": [{"type": "compile", "payload": {"entry": "x"}}]},
         "program.unknown_function"),
    ],
)  # fmt: skip
async def test_a_prompt_yields_a_structured_failure(answer: Any, code: str) -> None:
    async with talk(answer, answer, answer, mode="autonomous") as session:
        turn = await session.send("please make me a calculator")
        seen = {one.code for attempt in turn.attempts for one in attempt.issues} | {turn.stop}
        assert code in seen
        failure = plan_v1.failure_of(turn)
        assert failure is not None
        assert failure["code"] == turn.stop
        assert failure["message"]


async def test_prose_ends_the_turn_with_said() -> None:
    async with Session.open(
        domain=Program(), adapter=lambda _: PlannerOutput(text="Done!")
    ) as session:
        turn = await session.send("please make me a calculator")
        assert plan_v1.failure_of(turn) == {
            "code": "said",
            "message": "The planner answered in words and proposed nothing.",
        }


# 4: the legacy phrases


async def test_the_three_legacy_phrases_in_a_row() -> None:
    async with Session.open(domain=Program(), mode="autonomous") as session:
        turns = [
            await session.send(phrase)
            for phrase in ("create hello world program", "compile program", "run program")
        ]
        assert [(one.route, one.outcome) for one in turns] == [("command", "applied")] * 3
        assert "Hello, world!" in repr(turns[2].results[0].output)


@pytest.mark.parametrize(
    "near",
    ["please create hello world program", "run program now", "compile programs", "run"],
)
async def test_a_sentence_that_resembles_a_phrase_goes_to_the_planner(near: str) -> None:
    async with Session.open(domain=Program()) as session:
        assert (await session.send(near)).stop == "planner_unconfigured"


# 5: a multi-step plan, to the end


async def test_the_calculator_in_one_plan_of_six_actions() -> None:
    async with talk(ENVELOPE) as session:
        turn = await session.send("make a calculator and try 2 + 3")
        assert [one.outcome for one in turn.results] == [
            "applied", "read", "applied", "read", "read", "read",
        ]  # fmt: skip
        assert turn.results[3].output["value"] == 5.0
