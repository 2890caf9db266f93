"""Sessions in the OpenAPI document: bodies with examples, and schemas of answers."""

from collections.abc import Mapping
from inspect import getdoc
from typing import Any, Final

from pydantic import BaseModel

from placet.agents.proposal.modes import MODES
from placet.agents.proposal.turn_result import ApprovalRequest, Turn
from placet.frontends.sessions.bodies import (
    ApprovalDecision,
    SessionMessage,
    SessionMode,
    SessionOpening,
)
from placet.schemas.codec import Json
from placet.schemas.identity import ID_CHARS_MAX
from placet.server.http.routing import Body

_REFERENCE: Final = "#/components/schemas/"
_ID: Final = {"type": "string", "minLength": 1, "maxLength": ID_CHARS_MAX}

OPENING: Final = Body(
    SessionOpening,
    {
        "default": {
            "value": {
                "session": "main",
                "agent": "planner",
                "mode": "assisted",
                "proposer": "scripted",
                "people": {"ann": ""},
            }
        }
    },
    is_optional=True,
)
MODE: Final = Body(SessionMode, {"default": {"value": {"mode": "interactive"}}})
MESSAGE: Final = Body(
    SessionMessage, {"default": {"value": {"message": "set beam to 9 m, lock hull length"}}}
)
DECISION: Final = Body(ApprovalDecision, {"default": {"value": {"decision": "approve"}}})


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


_EDIT: Final = {"type": "array", "items": {"$ref": f"{_REFERENCE}ReplacementAction"}, "minItems": 1}

SCHEMAS: Final[Mapping[str, Json]] = {
    **_models(Turn, ApprovalRequest),
    "ApprovalDecision": {
        "oneOf": [
            _closed({"decision": {"enum": ["approve", "deny"]}}, "decision"),
            _closed({"decision": {"const": "edit"}, "actions": _EDIT}, "decision", "actions"),
        ],
        "description": getdoc(ApprovalDecision),
    },
    "Session": _closed(
        {
            "session": _ID,
            "agent": _ID,
            "mode": {"enum": list(MODES)},
            "proposer": {"type": ["string", "null"]},
            "people": {"type": "object", "additionalProperties": {"type": "string"}},
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
