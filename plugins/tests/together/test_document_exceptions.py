"""Each exception of `document_exceptions.py` is needed, and excuses its own answer alone."""

from dataclasses import dataclass
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.together.document_exceptions import UNSAID, WORLD, answered, unsaid

from placet.domains.session import Sessions
from placet.domains.world import World
from placet_design import Design
from placet_program import Program
from tests.server.served import serving

DOMAINS: dict[str, Any] = {
    "world": World,
    "program": Program,
    "design": lambda: [Design(), Sessions()],
}
NAMES = {"{world}": "world", "{design_id}": "world", "{session}": "main", "{approval_id}": "a"}


@dataclass
class Sent:
    """A request that was answered: whether the document allows it, and what is excused."""

    is_allowed: bool
    excuses: frozenset[str]
    text: str


async def send(served, method, path, body, query=""):
    document = (await served.get("/openapi.json")).json()
    operation = document["paths"][path][method]
    is_allowed = all(
        part.partition("=")[0] in {one["name"] for one in operation["parameters"]}
        for part in filter(None, query.split("&"))
    )
    if body is not None:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        parts = {"components": document["components"]}
        is_allowed = Draft202012Validator(schema | parts).is_valid(body)
    url = path
    for name, value in NAMES.items():
        url = url.replace(name, value)
    answer = await served.ask(method.upper(), f"{url}?{query}".removesuffix("?"), body)
    sent = answer.request.content
    return Sent(
        is_allowed, unsaid(answered(path, sent, answer.status_code, answer.content)), answer.text
    )


@pytest.mark.parametrize("name", UNSAID)
async def test_a_rule_that_the_document_does_not_say_refuses_what_the_document_allows(name):
    sample = UNSAID[name].sample
    async with serving(DOMAINS[sample.domain](), agents=("alice",)) as served:
        await served.post("sessions", {"agent": "planner", "proposer": None})
        sent = await send(served, sample.method, sample.path, sample.sent, sample.query)
    assert (sent.is_allowed, sent.excuses) == (True, {name}), sent.text
    assert UNSAID[name].why.endswith(".")


SPEAK = {"kind": "Speak", "payload": {"text": "a"}, "agent_id": "alice", "req_id": "r"}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("batches", [{**SPEAK, "priority": 101}]),
        ("batches", [{**SPEAK, "priority": None}]),
        ("batches", [{**SPEAK, "schema_version": ""}]),
        ("batches", [{**SPEAK, "req_id": "a\x01"}]),
        ("batches", [{**SPEAK, "payload": {"text": None}}]),
        ("batches", [{**SPEAK, "context_seq": 2**63}]),
        ("batches", [{**SPEAK, "context_seq": 0.5}]),
        ("batches", [SPEAK, {**SPEAK, "priority": 101}]),  # one reason of two is none
        ("batches", {"intents": [SPEAK], "dry_run": None}),
        ("batches", {"intents": [SPEAK], "sim_time": 1e12}),
        ("batches", [SPEAK] * 513),
        ("agents", {"agent_id": "a", "owner": "\x00"}),
        ("agents", {"agent_id": "a", "quotas": {"Move": {"rate": 5e-324, "burst": 1}}}),
        ("agents", {"agent_id": "operator"}),
        ("history/forks", {"record": -1}),
        ("history/forks", {"record": 0, "put": {"agents": None}}),
    ],
)
async def test_request_that_the_document_forbids_is_refused_without_an_exception(path, body):
    async with serving(World(), agents=("alice",)) as served:
        sent = await send(served, "post", f"{WORLD}/{path}", body)
    assert not sent.is_allowed
    assert sent.text.count('"status":422') or '"admitted":false' in sent.text
    assert sent.excuses <= {"a change is of what is there"}, sent.text


PLAN = {
    "plan_id": "p",
    "intent_id": "i",
    "design_version_before": 0.0,
    "actions": [{"action_type": "noop"}],
}
SENTENCE = {"intent_id": "i", "design_id": "world", "raw_text": "", "confidence": 1}
DECIDE = f"{WORLD}/sessions/{{session}}/approvals/{{approval_id}}"
ACTIONS = [{"kind": "design.noop"}]


@pytest.mark.parametrize(
    ("path", "body", "is_sound"),
    [
        ("/api/v1/designs/{design_id}/actions", PLAN, True),
        ("/api/v1/designs/{design_id}/actions", {**PLAN, "design_version_before": 0.5}, False),
        ("/api/v1/designs/{design_id}/actions", {**PLAN, "plan_id": "a\x00"}, False),
        *(
            (
                "/api/v1/designs/{design_id}/actions",
                {**PLAN, "intent": {**SENTENCE, "intent_type": kind}},
                kind == "refine",
            )
            for kind in ("refine", "", "refinement", None)
        ),
        (DECIDE, {"decision": "deny"}, True),
        (DECIDE, {"decision": "edit", "actions": ACTIONS}, True),
        (DECIDE, {"decision": "edit"}, False),
        (DECIDE, {"decision": "edit", "actions": []}, False),
        (DECIDE, {"decision": "deny", "actions": ACTIONS}, False),
        (f"{WORLD}/batches", [{"kind": "session.guard", "payload": {"seq": 0, "x": 0}}], False),
    ],
)
async def test_the_document_allows_what_the_routes_of_designs_and_sessions_take(
    path, body, is_sound
):
    async with serving(DOMAINS["design"](), agents=("alice",)) as served:
        await served.post("sessions", {"agent": "planner"})
        sent = await send(served, "post", path, body)
    assert sent.is_allowed is is_sound
    is_unsound = '"request_invalid"' in sent.text or '"stage":"structure"' in sent.text
    assert is_unsound is not is_sound, sent.text


async def test_a_rule_is_no_excuse_for_another_status():
    async with serving(World(), agents=("alice",)) as served:
        answer = await served.submit({**SPEAK, "kind": "Interact", "payload": {"target_id": "x"}})
        path = f"{WORLD}/batches"
        assert unsaid(answered(path, None, 422, answer.content)) == {"a rule refuses"}
        assert not unsaid(answered(path, None, 500, answer.content))
        assert not unsaid(answered(path, None, 503, answer.content))
