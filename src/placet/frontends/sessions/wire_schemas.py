"""The bodies of sessions over HTTP, as JSON Schema, with an example of each."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from placet.agents.proposal.modes import MODES
from placet.agents.proposal.turn_result import ApprovalRequest, Turn
from placet.domains.session.payloads import ROLE_CHARS_MAX, SESSION_CHARS_MAX
from placet.schemas.codec import Json
from placet.schemas.identity import ID_CHARS_MAX

_REFERENCE: Final = "#/components/schemas/"
_ID: Final = {"type": "string", "minLength": 1, "maxLength": ID_CHARS_MAX}
_SESSION: Final = {"type": "string", "minLength": 1, "maxLength": SESSION_CHARS_MAX}
_MODE: Final = {"enum": list(MODES)}
_PEOPLE: Final = {
    "type": "object",
    "additionalProperties": {"type": "string", "maxLength": ROLE_CHARS_MAX},
}
_PROPOSER: Final = {"type": ["string", "null"], "description": "scripted, a model, or nobody"}
_ACTION: Final = {
    "type": "object",
    "properties": {"kind": {"type": "string"}, "payload": {"type": "object"}},
    "required": ["kind"],
    "additionalProperties": False,
}

_EXAMPLES: Final[Mapping[str, Json]] = {
    "SessionOpening": {
        "session": "main",
        "agent": "planner",
        "mode": "assisted",
        "proposer": "scripted",
        "people": {"ann": ""},
    },
    "SessionMode": {"mode": "interactive"},
    "SessionMessage": {"message": "set beam to 9 m, lock hull length"},
    "ApprovalDecision": {"decision": "approve"},
}


def _closed(properties: Mapping[str, Json], *required: str) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def _models(*models: type[BaseModel]) -> dict[str, Json]:
    """Return the schemas of models, each of their parts by its name."""
    schemas: dict[str, Any] = {}
    for model in models:
        schema = model.model_json_schema(mode="serialization", ref_template=_REFERENCE + "{model}")
        schemas |= schema.pop("$defs", {})
        schemas[model.__name__] = schema
    return schemas


SCHEMAS: Final[Mapping[str, Json]] = {
    **_models(Turn, ApprovalRequest),
    "SessionOpening": _closed(
        {"session": _SESSION, "agent": _ID, "mode": _MODE, "proposer": _PROPOSER, "people": _PEOPLE}
    ),
    "SessionMode": _closed({"mode": _MODE}, "mode"),
    "SessionMessage": _closed({"message": {"type": "string", "minLength": 1}}, "message"),
    "ApprovalDecision": _closed(
        {
            "decision": {"enum": ["approve", "deny", "edit"]},
            "actions": {"type": "array", "items": _ACTION, "minItems": 1},
        },
        "decision",
    ),
    "Session": _closed(
        {
            "session": _SESSION,
            "agent": _ID,
            "mode": _MODE,
            "proposer": _PROPOSER,
            "people": _PEOPLE,
            "seq": {"type": "integer", "minimum": 0},
            "turns": {"type": "array", "items": {"type": "object"}},
        },
        *("session", "agent", "mode", "proposer", "people", "seq", "turns"),
    ),
    "Approvals": _closed(
        {"approvals": {"type": "array", "items": {"$ref": f"{_REFERENCE}ApprovalRequest"}}},
        "approvals",
    ),
}


def example(schema: str) -> dict[str, Json]:
    """Declare the body of a route, with its example."""
    content = {
        "schema": {"$ref": _REFERENCE + schema},
        "examples": {"default": {"value": _EXAMPLES[schema]}},
    }
    return {
        "requestBody": {
            "required": schema != "SessionOpening",
            "content": {"application/json": content},
        }
    }
