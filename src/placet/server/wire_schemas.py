"""The shapes on the wire, as JSON Schema. Payloads of kinds are the domains' own."""

from collections.abc import Mapping, Sequence
from typing import Final

from placet.schemas.codec import Json
from placet.schemas.identity import ID_CHARS_MAX
from placet.schemas.intent import SCHEMA_VERSION
from placet.schemas.refusal import Stage

_REFERENCE: Final = "#/components/schemas/"


def _ref(name: str) -> dict[str, Json]:
    return {"$ref": _REFERENCE + name}


def _object(
    properties: Mapping[str, Json], *, optional: Sequence[str] = (), is_open: bool = False
) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": [name for name in properties if name not in optional],
        "additionalProperties": is_open,
    }


def _array(items: Mapping[str, Json], **more: Json) -> dict[str, Json]:
    return {"type": "array", "items": items, **more}


def _or_null(of: str, **more: Json) -> dict[str, Json]:
    return {"type": [of, "null"], **more}


_TEXT: Final = {"type": "string"}
_BOOLEAN: Final = {"type": "boolean"}
_NUMBER: Final = {"type": "number"}
_SEQ: Final = {"type": "integer", "minimum": 0}
_ANYTHING: Final[dict[str, Json]] = {}
_OPEN: Final[dict[str, Json]] = {"type": "object"}
_ID: Final = {"type": "string", "minLength": 1, "maxLength": ID_CHARS_MAX}
_SECONDS: Final = {"type": ["number", "null"], "minimum": 0}
_KINDS: Final = {"type": ["array", "null"], "items": _TEXT}

_AGENT: Final = {
    "agent_id": _ID,
    "owner": _ID,
    "permissions": _KINDS,
    "priority_max": {"type": "integer", "minimum": 0, "maximum": 100},
    "suspended": _BOOLEAN,
}
_DURABILITY: Final = {"enum": ["none", "memory", "off", "normal", "local", "full"]}
_WORLD: Final = {
    "world": _TEXT,
    "seq": _SEQ,
    "records": _SEQ,
    "sim_time": _NUMBER,
    "clock": {"enum": ["realtime", "stepped", "next_event"]},
    "paused": _BOOLEAN,
    "domains": _array(_TEXT),
    "store": _TEXT,
    "durability": _DURABILITY,
}

SCHEMAS: Final[Mapping[str, dict[str, Json]]] = {
    "Batch": {
        "oneOf": [
            _array(_ref("Intent"), minItems=1, maxItems=512),
            _object(
                {
                    "intents": _array(_ref("Intent"), minItems=1, maxItems=512),
                    "sim_time": _SECONDS,
                    "dry_run": _BOOLEAN,
                    "valid_for_s": _SECONDS,
                },
                optional=("sim_time", "dry_run", "valid_for_s"),
            ),
            _ref("Intent"),
        ]
    },
    "Verdict": _object(
        {
            "batch_id": _TEXT,
            "admitted": _BOOLEAN,
            "seq": _or_null("integer", minimum=0),
            "replayed": _BOOLEAN,
            "dry_run": _BOOLEAN,
            "scheduled": _BOOLEAN,
            "results": _array(_ref("Result")),
            "refusals": _array(_ref("Refusal")),
            "current_seq": _SEQ,
            "sim_time": _NUMBER,
            "durability": _DURABILITY,
        }
    ),
    "Result": _object(
        {
            "req_id": _ID,
            "admitted": {"const": True},
            "seq": _or_null("integer", minimum=0),
            "normalized": _OPEN,
            "warnings": _array(_object({"code": _TEXT, "message": _TEXT, "at": _TEXT})),
            "output": _ANYTHING,
        },
        optional=("output",),
    ),
    "Refusal": _object(
        {
            "index": _or_null("integer", minimum=0),
            "req_id": _or_null("string"),
            "stage": {"enum": [stage.value for stage in Stage]},
            "code": _TEXT,
            "message": _TEXT,
            "at": _TEXT,
            "retry_after": _SECONDS,
            "suggestions": _array(_TEXT),
            "changed": _array(_OPEN),
            "details": _OPEN,
        }
    ),
    "Problem": _object(
        {
            "type": _TEXT,
            "title": _TEXT,
            "status": {"type": "integer"},
            "detail": _TEXT,
            "code": _TEXT,
        },
        is_open=True,
    ),
    "Agent": _object({"seq": _SEQ, **_AGENT}),
    "Agents": _object({"seq": _SEQ, "agents": _array(_object(_AGENT)), "next": _or_null("string")}),
    "Registration": _object(
        {
            "agent_id": _ID,
            "permissions": _KINDS,
            "owner": {**_ID, "type": ["string", "null"]},
            "priority_max": _AGENT["priority_max"],
            "quotas": {
                "type": "object",
                "additionalProperties": _object(
                    {
                        "rate": {"type": "number", "exclusiveMinimum": 0},
                        "burst": {"type": "integer", "minimum": 1},
                    }
                ),
            },
            "attributes": _OPEN,
        },
        optional=("permissions", "owner", "priority_max", "quotas", "attributes"),
    ),
    "Permissions": _object({"permissions": _KINDS}),
    "Step": _object({"dt": {"type": "number", "minimum": 0}}),
    "World": _object(_WORLD),
    "Worlds": _object({"worlds": _array(_object(_WORLD)), "submitter": _TEXT}),
    "State": _object({"seq": _SEQ, "sim_time": _NUMBER, "path": _TEXT, "value": _ANYTHING}),
    "Event": _object(
        {"seq": _SEQ, "record": _SEQ, "type": _TEXT, "sim_time": _NUMBER}, is_open=True
    ),
    "Events": _object({"events": _array(_ref("Event")), "next_record": _SEQ, "is_end": _BOOLEAN}),
    "Design": _object({"design_id": _or_null("string"), "design_version": _SEQ}, is_open=True),
    "Designs": _object({"designs": _array(_object({"design_id": _ID, "design_version": _SEQ}))}),
    "DesignCreation": _object({"design_id": {**_ID, "pattern": "^[^/]+$"}}),
    "Sentence": _object({"text": _TEXT, "intent_id": _ID}, optional=("intent_id",)),
    "Preview": _object(
        {
            "answer": {"enum": ["understood", "clarification", "query"]},
            "intent": _OPEN,
            "design_version": _SEQ,
            "plan": _or_null("object"),
            "question": _or_null("string"),
            "candidates": _array(_TEXT),
            "understood": _array(_OPEN),
            "rewordings": _array(_TEXT),
        }
    ),
    "Undo": _object({"req_id": _ID}, optional=("req_id",)),
    "StepAnswer": _object(
        {
            "success": _BOOLEAN,
            "rejections": _array(_OPEN),
            "req_id": _ID,
            "design_version": _SEQ,
        }
    ),
    "PhaseRun": _object(
        {
            "success": _BOOLEAN,
            "rejections": _array(_OPEN),
            "req_id": _ID,
            "design_version": _SEQ,
            "phase": _object({"name": _TEXT, "status": _TEXT}, is_open=True),
        }
    ),
    "PlanAnswer": _object(
        {"success": _BOOLEAN, "plan_id": _TEXT, "warnings": _array(_TEXT)}, is_open=True
    ),
    "PlanConflict": _object(
        {
            "error": {"enum": ["stale_plan", "plan_id_reused"]},
            "message": _TEXT,
            "current_design_version": _SEQ,
        },
        optional=("current_design_version",),
    ),
    "Phases": _object({"design_version": _SEQ, "phases": _OPEN}),
    "Audit": _object({"entries": _array(_OPEN), "next_record": _SEQ, "is_end": _BOOLEAN}),
    "Kinds": _object({"domains": _array(_OPEN), "limits": _OPEN}),
    "Health": _object({"status": {"const": "ok"}}),
}


def intent_schema(kind: str, payload: Json) -> dict[str, Json]:
    """Return the schema of an intent of one kind."""
    return _object(
        {
            "kind": {"const": kind},
            "payload": payload,
            "agent_id": _ID,
            "req_id": _ID,
            "context_seq": _SEQ,
            "priority": {"type": "integer", "minimum": 0, "maximum": 100},
            "schema_version": {"type": "string", "examples": [SCHEMA_VERSION]},
            "valid_until": _SECONDS,
        },
        optional=("valid_until",),
    )


_MOVE: Final = {
    "kind": "Move",
    "payload": {"to": [1.0, 2.0, 0.0]},
    "agent_id": "alice",
    "req_id": "alice:1",
    "context_seq": 0,
    "priority": 10,
    "schema_version": SCHEMA_VERSION,
}

EXAMPLES: Final[Mapping[str, dict[str, Json]]] = {
    "Batch": {
        "array": {"summary": "an array of intents", "value": [_MOVE]},
        "object": {
            "summary": "with options",
            "value": {"intents": [_MOVE], "valid_for_s": 2.0, "dry_run": False},
        },
    },
    "Registration": {
        "placed": {"value": {"agent_id": "alice", "attributes": {"position": [0, 0]}}},
        "limited": {
            "value": {
                "agent_id": "bob",
                "owner": "carol",
                "permissions": ["Move"],
                "quotas": {"Move": {"rate": 2, "burst": 4}},
            }
        },
    },
    "Permissions": {"two kinds": {"value": {"permissions": ["Move", "Speak"]}}},
    "Plan": {
        "seed 000": {
            "value": {
                "plan_id": "plan_001",
                "intent_id": "intent_001",
                "design_version_before": 0,
                "actions": [
                    {"action_type": "set", "path": "hull.loa", "value": 100, "unit": "m"},
                    {"action_type": "increase", "path": "hull.loa", "amount": 5},
                ],
            }
        }
    },
    "Sentence": {"a refinement": {"value": {"text": "set beam to 9 m, lock hull length"}}},
    "Step": {"a tenth of a second": {"value": {"dt": 0.1}}},
}
