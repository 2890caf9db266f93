"""Intent validation as specified by `seeds/003_intent_payload_validation.md`.

The document's code blocks run unchanged except for the import path; each of its rules is a row.
"""

import ast
import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import placet
from placet import (
    BackpressureError,
    IntentError,
    Limits,
    Orchestrator,
    OrchestratorConfig,
    QuotaExceededError,
    StaleContextError,
    ValidationError,
)
from placet.domains.world import AGENTS, OBJECTS, SPEECH, World
from tests.actors.virtual_time import in_virtual_time
from tests.kernel.domains import Lab

SEED = (Path(__file__).parent / "seeds" / "003_intent_payload_validation.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", SEED, re.DOTALL)
IMPORTS = {
    "gunn.core.orchestrator": "placet",
    "gunn.schemas.messages": "placet",
    "gunn.schemas.types": "placet",
}
CONTEXT_SEQ = 42
"""What the document's intents are based on: the world must have come so far."""


def block(*marks: str) -> str:
    """Return the code block that contains all marks, with its import path changed."""
    found = [code for code in BLOCKS if all(mark in code for mark in marks)]
    assert len(found) == 1, marks
    code: str = found[0]
    for theirs, ours in IMPORTS.items():
        code = code.replace(theirs, ours)
    return code


async def execute(code: str, **names: Any) -> dict[str, Any]:
    """Run a code block that may await, and return the names it defined."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    compiled = compile(code, "seed 003", "exec", flags=flags)
    result = eval(compiled, names)
    if result is not None:
        await result
    return names


def example(kind: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(block("intent = {", f'"kind": "{kind}"'), names)
    intent: dict[str, Any] = names["intent"]
    return intent


@contextlib.asynccontextmanager
async def town(
    domain: Any = None, validator: Any = None, **config: Any
) -> AsyncIterator[Orchestrator]:
    """Open a world at the document's seq, with the agents and objects it mentions."""
    objects = {"object_42": {"position": [0, 0, 0], "portable": True}}
    orchestrator = Orchestrator(
        domain or World(objects=objects), OrchestratorConfig(**config), effect_validator=validator
    )
    async with orchestrator:
        await orchestrator.register_agent("agent_1")
        while orchestrator.seq < CONTEXT_SEQ:
            await orchestrator.register_agent(f"extra-{orchestrator.seq}")
        yield orchestrator


# The code


def test_document_has_the_blocks_that_run_here():
    assert len(BLOCKS) == 11
    not_python = [code for code in BLOCKS if ": float" in code or ": str" in code.split("def ")[0]]
    assert len(not_python) == 4  # payload schemas, tested as rows below


@pytest.mark.parametrize("kind", ["Move", "Speak", "Interact", "Custom"])
@in_virtual_time
async def test_example_of_each_kind_is_admitted(kind):
    async with town() as orchestrator:
        intent = example(kind)
        assert await orchestrator.submit_intent(intent) == intent["req_id"]
        state = await orchestrator.state()
    agent = state[AGENTS]["agent_1"]
    if kind == "Move":
        assert agent["position"] == [10.0, 20.0, 0.0]
    if kind == "Speak":
        said = state[SPEECH]["agent_1"]["said"]
        assert (said["text"], said["channel"]) == ("Hello, team!", "team")
    if kind == "Interact":
        assert agent["inventory"] == ["object_42"]


@in_virtual_time
async def test_custom_validator_checks_intents_and_gets_permissions():
    code = block("class MyCustomValidator")
    names = await execute(code, Orchestrator=Orchestrator, config=OrchestratorConfig())
    orchestrator = names["orchestrator"]
    assert isinstance(orchestrator, Orchestrator)
    attack = example("Custom") | {"context_seq": 0}
    told: list[tuple[str, set[str]]] = []
    names["MyCustomValidator"].set_agent_permissions = lambda _, *args: told.append(args)
    async with orchestrator:
        await orchestrator.register_agent("agent_1", permissions={"Custom", "Move"})
        await orchestrator.set_agent_permissions("agent_1", {"Custom"})
        assert told == [("agent_1", {"Custom", "Move"}), ("agent_1", {"Custom"})]
        await orchestrator.submit_intent(attack)
        nobody = {"action": "attack", "damage": 10}
        with pytest.raises(ValidationError, match="the world's validator refused Custom") as caught:
            await orchestrator.submit_intent(attack | {"req_id": "custom_1000", "payload": nobody})
        assert caught.value.code == "world.refused"
        dance = {"action": "dance"}
        await orchestrator.submit_intent(attack | {"req_id": "custom_1001", "payload": dance})


@in_virtual_time
async def test_intents_submitted_together_have_the_same_simulated_time():
    code = block("submit_intents(intents, sim_time=current_time)")
    async with town() as orchestrator:
        names = await execute(code, orchestrator=orchestrator, current_time=orchestrator.sim_time)
        assert names["req_ids"] == ["speak_001", "move_001"]
        state = await orchestrator.state()
        assert state[AGENTS]["agent_1"]["position"] == [10.0, 20.0, 0.0]
        assert state[SPEECH]["agent_1"]["said"]["text"] == "Moving forward!"


class Refusing:
    """Effect validator that refuses every intent."""

    def validate_intent(self, intent: Any, world_state: Any) -> bool:
        return False


@pytest.mark.parametrize(
    ("config", "validator", "printed", "refreshes", "seconds"),
    [
        ({"staleness_threshold": 0}, None, r"Context stale: 43 vs 42\n", 1, 0),
        (
            {"quotas": {"Move": {"rate": 1, "burst": 1}}},
            None,
            r"Quota exceeded for agent_1\n",
            0,
            1,
        ),
        ({}, Refusing(), r"Validation failed: the world's validator refused Move.*\n", 0, 0),
        ({}, None, "", 0, 0),
    ],
    ids=["stale", "quota", "validation", "admitted"],
)
@in_virtual_time
async def test_error_handling_of_the_document_works(
    config, validator, printed, refreshes, seconds, capsys
):
    code = block("except StaleContextError as e")
    loop, looked = asyncio.get_running_loop(), []

    class Agent:
        async def refresh_view(self) -> None:
            looked.append(await agent.refresh_view())

    async with town(validator=validator, **config) as orchestrator:
        agent = await orchestrator.register_agent("agent_1")
        if "quotas" in config:
            await orchestrator.submit_intent(example("Move") | {"req_id": "move_122"})
        if "staleness_threshold" in config:
            await orchestrator.register_agent("newcomer")
        began = loop.time()
        await execute(
            code,
            orchestrator=orchestrator,
            intent=example("Move"),
            agent=Agent(),
            asyncio=asyncio,
            StaleContextError=StaleContextError,
            QuotaExceededError=QuotaExceededError,
            ValidationError=ValidationError,
        )
        assert re.fullmatch(printed, capsys.readouterr().out)
        assert len(looked) == refreshes
        assert loop.time() - began == pytest.approx(seconds, abs=0.01)


# The rules: payloads

ADMITTED = ""
FLAT = World(objects={"object_42": {"position": [50, 0]}}, interaction_range=5.0)

PAYLOADS: list[tuple[str, Mapping[str, Any], str]] = [
    # Move: a list or tuple of 2 or 3 numbers; no rule on the distance
    ("Move", {"to": [1.0, 2.0, 3.0]}, ADMITTED),
    ("Move", {"to": (1, 2, 3)}, ADMITTED),
    ("Move", {"to": [1.5, 2]}, ADMITTED),
    ("Move", {"position": [1.0, 2.0, 3.0]}, ADMITTED),
    ("Move", {"to": [1e12, -1e12, 0]}, ADMITTED),
    ("Move", {}, "payload_invalid"),
    ("Move", {"to": [1.0]}, "payload_invalid"),
    ("Move", {"to": [1, 2, 3, 4]}, "payload_invalid"),
    ("Move", {"to": ["1", "2"]}, "payload_invalid"),
    ("Move", {"to": [True, False]}, "payload_invalid"),
    ("Move", {"to": [float("nan"), 0.0]}, "payload_invalid"),
    ("Move", {"to": [float("inf"), 0.0]}, "payload_invalid"),
    ("Move", {"to": "12"}, "payload_invalid"),
    ("Move", {"to": {1, 2}}, "payload_invalid"),
    ("Move", {"to": None}, "payload_invalid"),
    # Speak: text, not empty; a channel; a target for private messages only
    ("Speak", {"text": "Hello"}, ADMITTED),
    ("Speak", {"text": "Hello", "channel": None, "target_id": None}, ADMITTED),
    ("Speak", {"text": "Hello", "channel": "public"}, ADMITTED),
    ("Speak", {"text": "Hello", "channel": "team"}, ADMITTED),
    ("Speak", {"text": "Hello", "channel": "private", "target_id": "agent_1"}, ADMITTED),
    ("Speak", {}, "payload_invalid"),
    ("Speak", {"text": ""}, "payload_invalid"),
    ("Speak", {"text": 7}, "payload_invalid"),
    ("Speak", {"text": "Hello", "channel": "radio"}, "payload_invalid"),
    ("Speak", {"text": "Hello", "channel": "private"}, "payload_invalid"),
    # Interact: a target, which exists and is near where that is enabled
    ("Interact", {"target_id": "agent_1"}, ADMITTED),
    ("Interact", {"target_id": "agent_1", "interaction_type": "examine", "data": {}}, ADMITTED),
    ("Interact", {"target_id": "agent_1", "interaction_type": None, "data": None}, ADMITTED),
    ("Interact", {}, "payload_invalid"),
    ("Interact", {"target_id": None}, "payload_invalid"),
    ("Interact", {"target_id": "agent_1", "data": [1]}, "payload_invalid"),
    ("Interact", {"target_id": "nothing_9"}, "world.target_unknown"),
    ("Interact", {"target_id": "object_42"}, "world.out_of_range"),
    (
        "Interact",
        {"target_id": "agent_1", "interaction_type": "dance"},
        "world.interaction_unknown",
    ),
    # Custom: an action, and anything
    ("Custom", {"action": "attack", "target_id": "enemy_1", "damage": 10}, ADMITTED),
    ("Custom", {"action": "attack"}, ADMITTED),
    ("Custom", {}, "payload_invalid"),
    ("Custom", {"action": 7}, "payload_invalid"),
]


@pytest.mark.parametrize(("kind", "payload", "code"), PAYLOADS, ids=lambda v: str(v)[:50])
@in_virtual_time
async def test_payload_is_checked_as_documented(kind, payload, code):
    async with Orchestrator(FLAT) as orchestrator:
        await orchestrator.register_agent("agent_1")
        intent = example("Move") | {"kind": kind, "payload": payload, "context_seq": 0}
        verdict = await orchestrator.submit([intent])
        assert set(verdict.codes) == ({code} if code else set())
        if code:
            error = IntentError if code == "payload_invalid" else ValidationError
            with pytest.raises(error):
                await orchestrator.submit_intent(intent)


@in_virtual_time
async def test_flat_position_becomes_a_point_and_channel_defaults_to_public():
    async with town() as orchestrator:
        move = example("Move") | {"payload": {"position": [3, 4]}}
        speak = example("Speak") | {"payload": {"text": "Hello"}}
        await orchestrator.submit_intents([move, speak])
        state = await orchestrator.state()
        assert state[AGENTS]["agent_1"]["position"] == [3.0, 4.0, 0.0]
        assert state[SPEECH]["agent_1"]["said"]["channel"] == "public"


@in_virtual_time
async def test_interactions_can_be_defined_per_game():
    def ring(draft: Any, intent: Any) -> None:
        draft.put(OBJECTS, intent["payload"]["target_id"], "rung_by", intent["agent_id"])

    world = World(objects={"object_42": {"position": [0, 0]}}, interactions={"ring": ring})
    async with town(world) as orchestrator:
        payload = {"target_id": "object_42", "interaction_type": "ring"}
        await orchestrator.submit_intent(example("Interact") | {"payload": payload})
        assert await orchestrator.state(f"{OBJECTS}/object_42/rung_by") == "agent_1"


# The rules: all intents

FIELDS = ["kind", "payload", "agent_id", "req_id", "context_seq", "priority", "schema_version"]


@pytest.mark.parametrize("field", FIELDS)
@in_virtual_time
async def test_missing_field_is_a_value_error(field):
    assert list(example("Move")) == FIELDS
    async with town() as orchestrator:
        intent = example("Move")
        del intent[field]
        with pytest.raises(ValueError, match=f"'{field}'") as caught:
            await orchestrator.submit_intent(intent)
        assert isinstance(caught.value, IntentError)
        assert caught.value.code == "field_missing"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"kind": "Fly"}, "kind_unknown"),
        ({"kind": 7}, "field_invalid"),
        ({"payload": []}, "payload_invalid"),
        ({"agent_id": ""}, "field_invalid"),
        ({"req_id": ""}, "field_invalid"),
        ({"context_seq": "42"}, "field_invalid"),
        ({"context_seq": -1}, "field_invalid"),
        ({"priority": -1}, "field_invalid"),
        ({"priority": 101}, "field_invalid"),
        ({"priority": 0}, ADMITTED),
        ({"priority": 100}, ADMITTED),
        ({"priority": True}, "field_invalid"),
        ({"schema_version": "one"}, "field_invalid"),
        ({"schema_version": "1.0.1"}, ADMITTED),
        ({"schema_version": "1.9.0"}, ADMITTED),
        ({"schema_version": "2.0.0"}, "version_unsupported"),
    ],
    ids=str,
)
@in_virtual_time
async def test_field_of_the_wrong_type_or_range_is_a_value_error(change, code):
    async with town() as orchestrator:
        intent = example("Move") | change
        if not code:
            await orchestrator.submit_intent(intent)
            return
        with pytest.raises(IntentError) as caught:
            await orchestrator.submit_intent(intent)
        assert isinstance(caught.value, ValueError)
        assert caught.value.code == code


@in_virtual_time
async def test_future_minor_version_is_accepted_with_a_warning():
    async with town() as orchestrator:
        verdict = await orchestrator.submit(
            [example("Move") | {"schema_version": "1.9.0", "mood": "bright"}]
        )
        assert verdict.admitted
        assert verdict.results[0].warnings


@in_virtual_time
async def test_future_minor_version_is_logged_as_a_warning_once(capsys):
    async with town(log_format="json", log_level="warning") as orchestrator:
        for k, version in enumerate(["1.9.0", "1.9.0", "1.0.0", "1.8.0"]):
            await orchestrator.submit_intent(
                example("Move") | {"req_id": f"r{k}", "schema_version": version}
            )
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["level"], line["event"]) for line in lines] == [
        ("warning", "unknown schema_version")
    ] * 2
    assert ["1.9.0" in line["message"] for line in lines] == [True, False]


# The rules: stages, in the document's order

UNSOUND: dict[str, Any] = {"priority": 101}
UNKNOWN_AGENT = {"agent_id": "agent_9"}
STALE = {"context_seq": 1}
FAR = {"payload": {"to": [10**6, 0]}}


class FromFarAway:
    """Effect validator that refuses moves to far positions."""

    def validate_intent(self, intent: Any, world_state: Any) -> bool:
        return bool(intent["payload"]["to"][0] < 10**6)


@pytest.mark.parametrize(
    ("wrongs", "uses_quota", "stage", "error"),
    [
        ([UNSOUND, UNKNOWN_AGENT, STALE, FAR], True, "structure", IntentError),
        ([UNKNOWN_AGENT, STALE, FAR], True, "agent", placet.AgentError),
        ([STALE, FAR], True, "staleness", StaleContextError),
        ([FAR], True, "quota", QuotaExceededError),
        ([FAR], False, "domain", ValidationError),
        ([], False, "", None),
    ],
    ids=["structure", "agent", "staleness", "quota", "domain", "nothing"],
)
@in_virtual_time
async def test_refusal_names_the_first_stage_that_failed(wrongs, uses_quota, stage, error):
    config = {"staleness_threshold": 10, "quotas": {"Move": {"rate": 0.001, "burst": 1}}}
    async with town(validator=FromFarAway(), **config) as orchestrator:
        if uses_quota:
            await orchestrator.submit_intent(example("Move") | {"req_id": "move_122"})
        intent = example("Move")
        for wrong in wrongs:
            intent |= wrong
        verdict = await orchestrator.submit([intent])
        assert {refusal.stage.value for refusal in verdict.refusals} == (
            {stage} if stage else set()
        )
        if error is not None:
            with pytest.raises(error):
                await orchestrator.submit_intent(intent | {"req_id": "move_124"})


@in_virtual_time
async def test_backpressure_is_checked_after_quota_and_before_the_domain():
    """The document's fifth stage: an executor with a full queue."""

    async def never(effect: Any) -> None:
        await asyncio.Event().wait()

    limits = Limits(shutdown_seconds_max=1)
    async with Orchestrator(Lab(), OrchestratorConfig(limits=limits)) as orchestrator:
        agent = await orchestrator.register_agent("agent_1")
        await orchestrator.register_executor("mail", never, outbox_max=1)
        await agent.submit_intents([agent.intent("Mail", count=1)])
        with pytest.raises(BackpressureError) as caught:
            await agent.submit_intents([agent.intent("Mail", count=1)])
        assert caught.value.reason == "executor_busy"
        assert caught.value.retry_after is not None


# The rules: submitted together


@pytest.mark.parametrize("wrong", [0, 1, 2])
@in_virtual_time
async def test_batch_with_one_bad_intent_is_refused_whole_and_costs_no_quota(wrong):
    async with town(quotas={"Move": {"rate": 0.001, "burst": 3}}) as orchestrator:
        before = await orchestrator.digest()
        intents = [example("Move") | {"req_id": f"move_{k}"} for k in range(3)]
        bad = {"kind": "Interact", "payload": {"target_id": "nothing_9"}}
        failing = [*intents[:wrong], intents[wrong] | bad, *intents[wrong + 1 :]]
        with pytest.raises(ValidationError):
            await orchestrator.submit_intents(failing)
        assert await orchestrator.digest() == before
        again = [intent | {"req_id": intent["req_id"] + "b"} for intent in intents]
        assert len(await orchestrator.submit_intents(again)) == 3


@in_virtual_time
async def test_quotas_are_counted_per_kind():
    async with town(quotas={"Speak": {"rate": 0.001, "burst": 1}}) as orchestrator:
        await orchestrator.submit_intent(example("Speak"))
        with pytest.raises(QuotaExceededError) as caught:
            await orchestrator.submit_intent(example("Speak") | {"req_id": "speak_457"})
        assert (caught.value.agent_id, caught.value.kind) == ("agent_1", "Speak")
        assert caught.value.retry_after == pytest.approx(1000, rel=0.01)
        await orchestrator.submit_intent(example("Move"))


@in_virtual_time
async def test_intents_of_one_time_run_by_priority():
    async with town() as orchestrator:
        low = example("Move") | {"req_id": "low", "priority": 1, "payload": {"to": [1, 0]}}
        high = example("Move") | {"req_id": "high", "priority": 99, "payload": {"to": [2, 0]}}
        await orchestrator.submit_intents([high, low])
        assert await orchestrator.state(f"{AGENTS}/agent_1/position") == [1.0, 0.0, 0.0]


# The rules: errors


@in_virtual_time
async def test_stale_context_error_has_both_seqs_and_the_change():
    async with town(staleness_threshold=2) as orchestrator:
        await orchestrator.register_agent("one")
        await orchestrator.register_agent("two")
        current = orchestrator.seq
        assert current - CONTEXT_SEQ == 2
        await orchestrator.submit_intent(example("Move"))  # two behind is within the threshold
        with pytest.raises(StaleContextError) as caught:
            await orchestrator.submit_intent(example("Speak"))
        error = caught.value
        assert (error.current_seq, error.context_seq) == (current + 1, CONTEXT_SEQ)
        assert isinstance(error.changed, tuple)


@in_virtual_time
async def test_full_queue_is_a_backpressure_error():
    async with town(mailbox_batches_max=1) as orchestrator:
        waiting = orchestrator.submit_nowait([example("Move")])
        with pytest.raises(BackpressureError) as caught:
            await orchestrator.submit_intent(example("Speak"))
        assert (caught.value.reason, caught.value.retry_after) == ("queue_full", 0.05)
        assert (await waiting).admitted


@in_virtual_time
async def test_every_error_has_its_refusals_and_its_verdict():
    async with town() as orchestrator:
        intents = [example("Move") | {"req_id": f"r{k}", "priority": 101} for k in range(3)]
        with pytest.raises(placet.PlacetError, match=r"and 2 more") as caught:
            await orchestrator.submit_intents(intents)
        error = caught.value
        assert error.verdict is not None
        assert [refusal.index for refusal in error.refusals] == [0, 1, 2]
        assert error.code == "field_invalid"
