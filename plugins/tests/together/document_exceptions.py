"""What the OpenAPI document cannot say: the closed list of answers that it does not predict.

schemathesis expects that a request which the schemas allow is accepted, and that no answer is 5xx.
An entry names one reason for which a sound request is refused, and recognizes that answer and
nothing else. `test_document_exceptions.py` sends the sample of each.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

WORLD = "/api/v1/worlds/{world}"


class Answered(NamedTuple):
    """A request and its answer.

    Attributes:
        path: The template of the path.
        sent: The JSON body of the request; None without one.
        status: Status of the response.
        body: The JSON body of the response; empty if it is no JSON object.
    """

    path: str
    sent: Any
    status: int
    body: Mapping[str, Any]

    @property
    def refusals(self) -> list[Any]:
        """The refusals of a verdict; empty for any other answer."""
        listed = self.body.get("refusals", [])
        return listed if isinstance(listed, list) else []

    def is_problem(self, *texts: str) -> bool:
        """Return whether the answer is a 422 problem with one of these texts in its detail."""
        return (
            self.status == 422
            and self.body.get("code") == "request_invalid"
            and any(text in str(self.body["detail"]) for text in texts or [""])
        )

    def field(self, name: str) -> Any:
        """Return a field of the request's body; None where it is no object or has no such field."""
        return self.sent.get(name) if isinstance(self.sent, dict) else None


class Sample(NamedTuple):
    """A request that the document allows, and that is refused all the same.

    Attributes:
        domain: The served domain: `world`, `program` or `design` with sessions.
        method: The method.
        path: Template of the path, without a query.
        sent: The JSON body.
        query: The query.
    """

    domain: str
    method: str
    path: str
    sent: Any = None
    query: str = ""


class Unsaid(NamedTuple):
    """A rule that the document does not say.

    Attributes:
        why: The reason, in a sentence.
        applies: Returns whether an answer is by this rule.
        sample: A request that is refused by it.
        refuses: Returns whether a refusal of a batch is by this rule; several rules may refuse one.
    """

    why: str
    sample: Sample
    applies: Callable[[Answered], bool] = lambda _: False
    refuses: Callable[[Mapping[str, Any]], bool] = lambda _: False


def answered(path: str, sent: bytes | str | None, status: int, content: bytes) -> Answered:
    """Read a request and its answer."""
    body = _json(content)
    return Answered(path, _json(sent or b"null"), status, body if isinstance(body, dict) else {})


def _json(text: bytes | str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _is(refusal: Mapping[str, Any], code: str, *texts: str) -> bool:
    """Return whether a refusal is of the structure, with this code and one of these texts."""
    has_text = any(text in refusal["message"] for text in texts or [""])
    return (refusal["stage"], refusal["code"]) == ("structure", code) and has_text


def _speak(**more: Any) -> dict[str, Any]:
    return {"kind": "Speak", "payload": {"text": "a"}, "agent_id": "alice", "req_id": "r", **more}


_PAYLOAD_RULES = (
    "a private message needs target_id",
    "needs target, the name of its",
    "only a const has a value",
    "only param and call have a target",
    "to inspect a ",
)
_JSON_BOUNDS = ("must fit 64 bits", "should fit 64 bits")

UNSAID: Mapping[str, Unsaid] = {
    "a rule refuses": Unsaid(
        "A schema says the form of a batch, and the rules of the world read its state.",
        Sample(
            "world",
            "post",
            f"{WORLD}/batches",
            [_speak(kind="Interact", payload={"target_id": "nobody"})],
        ),
        refuses=lambda refusal: refusal["stage"] not in {"admission", "structure"},
    ),
    "no time to wait": Unsaid(
        "A batch says for how long it may wait, and 503 says that the time is over.",
        Sample("world", "post", f"{WORLD}/batches", {"intents": [_speak()], "valid_for_s": 0}),
        applies=lambda one: (
            one.status == 503
            and [refusal["code"] for refusal in one.refusals] == ["timeout"]
            and one.field("valid_for_s") < 1
        ),
    ),
    "neither token nor header": Unsaid(
        "A schema does not know whether the token is an agent's, nor the headers of the request.",
        Sample("world", "post", f"{WORLD}/batches", [{"kind": "Speak", "payload": {"text": "a"}}]),
        refuses=lambda refusal: (
            _is(refusal, "field_missing")
            and set(refusal["details"].get("missing", [""])) <= {"agent_id", "req_id"}
        ),
    ),
    "req_ids of a batch differ": Unsaid(
        "JSON Schema compares whole items of an array, and not one field of them.",
        Sample("world", "post", f"{WORLD}/batches", [_speak(), _speak()]),
        refuses=lambda refusal: _is(refusal, "field_invalid", "is used twice"),
    ),
    "fields of a payload depend on each other": Unsaid(
        "Tool calls take no if-then-else, and the schema of a payload is that of a tool.",
        Sample(
            "world",
            "post",
            f"{WORLD}/batches",
            [_speak(payload={"text": "a", "channel": "private"})],
        ),
        refuses=lambda refusal: _is(refusal, "payload_invalid", *_PAYLOAD_RULES),
    ),
    "free JSON is bounded": Unsaid(
        "A value that a domain defines may be any JSON, and no schema bounds the inside of it.",
        Sample(
            "world",
            "post",
            f"{WORLD}/batches",
            [_speak(kind="Custom", payload={"action": "a", "n": 2**64})],
        ),
        refuses=lambda refusal: (
            _is(refusal, "payload_invalid", *_JSON_BOUNDS)
            # The value of a condition is free JSON too.
            or ("/expect/" in refusal["at"] and _is(refusal, "field_invalid", *_JSON_BOUNDS))
        ),
    ),
    "parameters exclude each other": Unsaid(
        "OpenAPI 3.1 describes each parameter of a query by itself.",
        Sample("world", "get", f"{WORLD}/history/moment", query="seq=0&tick=0"),
        applies=lambda one: (
            one.path in {f"{WORLD}/history/explain", f"{WORLD}/history/moment"}
            and one.is_problem(
                "expected agent and req_id, or seq", "expected one of record, seq and tick"
            )
        ),
    ),
    "a burst is earned in time": Unsaid(
        "JSON Schema bounds a number, and not the quotient of two.",
        Sample(
            "world",
            "post",
            f"{WORLD}/agents",
            {"agent_id": "a", "quotas": {"Move": {"rate": 1e-9, "burst": 10}}},
        ),
        applies=lambda one: (
            one.path == f"{WORLD}/agents" and one.is_problem("burst must be earned within")
        ),
    ),
    "kinds are the domain's": Unsaid(
        "Quotas and permissions name kinds, which the domains of a world define.",
        Sample("world", "post", f"{WORLD}/agents", {"agent_id": "a", "permissions": ["Mvoe"]}),
        applies=lambda one: (
            one.path.startswith(f"{WORLD}/agents")
            and one.is_problem("permissions: there is no kind", "quotas: there is no kind")
        ),
    ),
    "attributes are the domain's": Unsaid(
        "What places an agent is checked by the domain's own function, which has no schema.",
        Sample(
            "world", "post", f"{WORLD}/agents", {"agent_id": "a", "attributes": {"position": "x"}}
        ),
        applies=lambda one: (
            one.path == f"{WORLD}/agents"
            and bool(one.field("attributes"))
            and one.is_problem("on_register: ", "attributes ", "the attribute ")
        ),
    ),
    "a change is of what is there": Unsaid(
        "A fork changes values and drops agents of the log, whose state no schema knows.",
        Sample(
            "world", "post", f"{WORLD}/history/forks", {"record": 0, "put": {"world.agents/a": 1}}
        ),
        applies=lambda one: (
            one.path == f"{WORLD}/history/forks"
            and bool(one.field("put") or one.field("dropped"))
            and one.is_problem()
        ),
    ),
    "a sentence is of its plan": Unsaid(
        "JSON Schema does not compare two fields of a body, nor a field with the path.",
        Sample(
            "design",
            "post",
            "/api/v1/designs/{design_id}/actions",
            {
                "plan_id": "p",
                "intent_id": "i",
                "design_version_before": 0,
                "actions": [{"action_type": "noop"}],
                "intent": {
                    "intent_id": "j",
                    "design_id": "world",
                    "raw_text": "",
                    "intent_type": "refine",
                    "confidence": 1,
                },
            },
        ),
        applies=lambda one: one.path.endswith("/actions") and one.is_problem("must be the plan's"),
    ),
    "a proposer is there": Unsaid(
        "Which models can be asked depends on installed packages, keys and the list of prices.",
        Sample("design", "post", f"{WORLD}/sessions", {"proposer": "nobody:nothing"}),
        applies=lambda one: (
            one.path == f"{WORLD}/sessions"
            and (one.field("proposer") not in ("scripted", None) or bool(one.field("price")))
            and one.is_problem()
        ),
    ),
    "a turn fails": Unsaid(
        "The answer is a turn: its status is that of the reason for which it ended.",
        Sample(
            "design",
            "post",
            f"{WORLD}/sessions/{{session}}/messages",
            {"message": "unlock beam"},
        ),
        applies=lambda one: (
            one.path.startswith(f"{WORLD}/sessions/{{session}}/")
            and one.status in {422, 424, 501, 502, 504}
            and one.body.get("outcome") == "failed"
        ),
    ),
}


def unsaid(one: Answered) -> frozenset[str]:
    """Return the names of the rules by which an answer is not what the document predicts.

    It is empty for a batch with one refusal of another reason.
    """
    by_answer = {name for name, rule in UNSAID.items() if rule.applies(one)}
    if by_answer or one.status != 422:
        return frozenset(by_answer)
    by_refusal = [
        {name for name, rule in UNSAID.items() if rule.refuses(refusal)} for refusal in one.refusals
    ]
    return frozenset().union(*by_refusal) if all(by_refusal) else frozenset()
