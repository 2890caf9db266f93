"""The planner contract: strict, total, and all issues of a layer at once."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typing_extensions import TypedDict

from placet.agents.proposal.catalogue import Catalogue, kind_name, wire_name
from placet.agents.proposal.limits import AgentLimits
from placet.agents.proposal.plan_parser import Call, parse, parse_calls
from placet.domains.world import World
from placet.kernel import Domain, Draft, Kind
from placet.schemas.intent import Intent
from tests.levels import examples

WORLD = Catalogue(World())
MOVE = {"kind": "Move", "payload": {"to": [1.0, 2.0]}}


def plan(**changed: Any) -> dict[str, Any]:
    """Build a valid plan with the given changes."""
    sound = {"version": "placet.plan/1", "goal": "go", "base_seq": 3, "actions": [MOVE]}
    return {name: value for name, value in {**sound, **changed}.items() if value is not ...}


def codes(value: object, **options: Any) -> list[tuple[str, str]]:
    parsed, issues = parse(value, domain=options.pop("domain", WORLD), **options)
    assert (parsed is None) == bool(issues), "a plan, or at least one issue"
    return [(issue.code, issue.at) for issue in issues]


def test_a_valid_plan_is_read_from_text_and_from_an_object() -> None:
    for value in (plan(), json.dumps(plan()), json.dumps(plan()).encode()):
        read, issues = parse(value, domain=WORLD)
        assert issues == []
        assert read is not None
        assert read.base_seq == 3
        assert [(one.kind, one.payload) for one in read.actions] == [("Move", MOVE["payload"])]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("{", [("json_invalid", "")]),
        ('{"version": "placet.plan/1"} and more', [("json_invalid", "")]),
        ('{"goal": "a", "goal": "b"}', [("json_invalid", "")]),
        ("[1]", [("envelope_invalid", "")]),
        (plan(version=...), [("version_unsupported", "/version")]),
        (plan(version="2026-02-19"), [("version_unsupported", "/version")]),
        (plan(confirmed=True), [("envelope_invalid", "/confirmed")]),
        (
            plan(base_seq=-1, goal=7),
            [("envelope_invalid", "/goal"), ("envelope_invalid", "/base_seq")],
        ),
        (plan(base_seq=...), [("envelope_invalid", "/base_seq")]),
        (plan(goal=" "), [("goal_empty", "/goal")]),
        (plan(actions=[]), [("actions_missing", "/actions")]),
        (plan(stop={"code": "unsafe_goal", "message": "no"}), [("stop_conflict", "/stop")]),
        (plan(actions=[MOVE] * 33), [("actions_too_many", "/actions")]),
        (plan(actions=[{**MOVE, "id": "a"}] * 2), [("action_id_duplicate", "/actions")]),
        (plan(actions=[{"kind": "Moove"}]), [("kind_unknown", "/actions/0/kind")]),
        (
            plan(actions=[{"kind": "Speak", "payload": {}}]),
            [("payload_missing", "/actions/0/payload/text")],
        ),
        (
            plan(actions=[{"kind": "Move", "payload": {"to": "x"}}]),
            [("payload_invalid", "/actions/0/payload/to")],
        ),
    ],
)
def test_an_issue_has_a_code_and_a_pointer(value: object, expected: list[tuple[str, str]]) -> None:
    assert codes(value) == expected


def test_all_issues_of_a_layer_are_reported_together() -> None:
    wrong = plan(goal="", actions=[{"kind": "Fly"}, {"kind": "Speak", "payload": {"txt": 1}}])
    assert codes(wrong, actions_max=1) == [
        ("goal_empty", "/goal"),
        ("actions_too_many", "/actions"),
        ("kind_unknown", "/actions/0/kind"),
        ("payload_missing", "/actions/1/payload/text"),
        ("payload_invalid", "/actions/1/payload/txt"),
    ]


def test_an_unknown_kind_is_refused_with_the_nearest_and_the_available_kinds() -> None:
    _, [issue] = parse(plan(actions=[{"kind": "Moove"}]), domain=WORLD)
    assert issue.suggestions[0] == "Move"
    assert "does not exist. Choose from: Custom, Interact, Move, Speak" in issue.message


def test_a_kind_that_is_not_granted_does_not_exist() -> None:
    speaker = Catalogue(World(), permitted={"Speak"})
    _, [issue] = parse(plan(), domain=speaker)
    assert issue.code == "kind_unknown"
    assert issue.message.endswith("Choose from: Speak")
    _, [issue] = parse(plan(), domain=Catalogue(World(), permitted=()))
    assert issue.message.endswith("Choose from: nothing; no kind is permitted")


def test_a_kind_without_an_executor_is_refused_before_the_gate() -> None:
    class Mail(Domain):
        name = "mail"
        version = "1"
        kinds = (Kind("mail.send", _Nothing, _pass, effects=("smtp",)),)

    send = plan(actions=[{"kind": "mail.send", "payload": {}}])
    assert codes(send, domain=Catalogue(Mail(), executors=set())) == [
        ("tool_unregistered", "/actions/0")
    ]
    assert codes(send, domain=Catalogue(Mail(), executors={"smtp"})) == []
    assert codes(send, domain=Mail()) == [], "who does not know leaves it to the gate"


def test_sizes_are_bounded() -> None:
    small = AgentLimits(plan_bytes_max=200, payload_bytes_max=30)
    speak = plan(actions=[{"kind": "Speak", "payload": {"text": "x" * 40}}])
    assert codes(json.dumps(speak), limits=small) == [("payload_too_large", "/actions/0/payload")]
    assert codes(json.dumps(plan(notes="y" * 300)), limits=small) == [("plan_too_large", "")]


def test_a_payload_whose_own_model_raises_is_an_issue() -> None:
    from pydantic import BaseModel, field_validator

    class Trap(BaseModel):
        text: str

        @field_validator("text")
        @classmethod
        def spring(cls, _: str) -> str:
            raise ZeroDivisionError

    class Traps(Domain):
        name = "traps"
        version = "1"
        kinds = (Kind("traps.step", Trap, _pass),)

    stepped = plan(actions=[{"kind": "traps.step", "payload": {"text": "x"}}])
    assert codes(stepped, domain=Traps()) == [("payload_invalid", "/actions/0/payload")]


# tool calls: the other wire form


def test_calls_in_order_are_a_plan() -> None:
    calls = [Call("Move", '{"to": [1, 2]}', "a"), Call("Speak", '{"text": "hi"}', "b")]
    read, issues = parse_calls(calls, goal="go", base_seq=9, domain=WORLD)
    assert issues == []
    assert read is not None
    assert (read.base_seq, [one.kind for one in read.actions]) == (9, ["Move", "Speak"])


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([Call("Move", "{")], [("json_invalid", "/actions/0/payload")]),
        ([Call("Move", "[]")], [("envelope_invalid", "/actions/0/payload")]),
        ([Call("files__move", "{}")], [("kind_unknown", "/actions/0/kind")]),
        ([Call("Move", "{}"), Call("Speak", "")], [("payload_missing", "/actions/1/payload/text")]),
        (
            [Call("stop", '{"code": "because"}')],
            [
                ("payload_invalid", "/actions/0/payload/code"),
                ("payload_invalid", "/actions/0/payload/message"),
            ],
        ),
        (
            [Call("Move", '{"to": [1, 2]}'), Call("ask_clarification", '{"question": "where?"}')],
            [("stop_conflict", "/stop")],
        ),
    ],
)
def test_an_issue_of_a_call_points_at_the_call(
    calls: list[Call], expected: list[tuple[str, str]]
) -> None:
    read, issues = parse_calls(calls, goal="go", base_seq=0, domain=WORLD)
    found = [(issue.code, issue.at) for issue in issues]
    assert read is None
    assert [one for one in found if one in expected] == expected


def test_a_question_proposes_nothing() -> None:
    call = Call("ask_clarification", '{"question": "which?", "choices": ["a", "b"]}')
    read, issues = parse_calls([call], goal="go", base_seq=0, domain=WORLD)
    assert issues == []
    assert read is not None
    assert read.stop is not None
    assert (read.stop.code, read.stop.message, read.stop.choices) == (
        "clarification_needed",
        "which?",
        ("a", "b"),
    )


# laws


class _Nothing(TypedDict):
    pass


def _pass(_draft: Draft, _intent: Intent) -> None:
    pass


_SEGMENT = st.from_regex(r"[A-Za-z](?:[A-Za-z0-9]|_(?=[A-Za-z0-9])){0,9}", fullmatch=True)


@given(st.lists(_SEGMENT, min_size=1, max_size=4))
def test_wire_names_are_a_bijection(segments: list[str]) -> None:
    kind = ".".join(segments)
    assert kind_name(wire_name(kind)) == kind
    assert "." not in wire_name(kind)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
_NEARLY = st.fixed_dictionaries(
    {"version": st.just("placet.plan/1") | _JSON, "goal": st.text() | _JSON},
    optional={
        "base_seq": st.integers(0, 9) | _JSON,
        "actions": _JSON
        | st.lists(
            st.fixed_dictionaries(
                {"kind": st.sampled_from(sorted(WORLD.kinds)) | st.text()},
                optional={"payload": _JSON, "id": _JSON, "confirmed": st.just(True)},
            ),
            max_size=3,
        ),
        "stop": _JSON,
        "notes": _JSON,
        "confirmed": st.just(True),
    },
)


@settings(max_examples=examples(400))
@given(_NEARLY | _JSON | st.text() | st.binary())
@example("[" * 100_000)
@example('{"version": "placet.plan/1", "goal": "\\ud800", "base_seq": 0}')
@example(b"\xff\xfe")
@example(plan(actions=[{"kind": "Custom", "payload": {"action": "x", "n": 2**80}}]))
def test_nothing_makes_the_parser_raise(value: object) -> None:
    for form in (value, json.dumps(value) if not isinstance(value, bytes) else value):
        read, issues = parse(form, domain=WORLD)
        assert (read is None) == bool(issues)
        assert all(len(issue.message) < 4_000 for issue in issues)


@settings(max_examples=examples(300))
@given(
    st.lists(st.tuples(st.text() | st.just("Move"), st.text() | _JSON.map(json.dumps)), max_size=4)
)
def test_no_model_call_makes_the_parser_raise(calls: list[tuple[str, str]]) -> None:
    read, issues = parse_calls(
        [Call(name, text) for name, text in calls], goal="", base_seq=0, domain=WORLD
    )
    assert (read is None) == bool(issues)
