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
from placet.server.wire_schemas import REFERENCE, array_schema, object_schema, ref

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


def _models(*models: type[BaseModel]) -> dict[str, Json]:
    """Return the schemas of models, each of their parts by its name."""
    schemas: dict[str, Any] = {}
    for model in models:
        schema = model.model_json_schema(mode="serialization", ref_template=REFERENCE + "{model}")
        schemas |= schema.pop("$defs", {})
        schemas[model.__name__] = schema
    return schemas


_EDIT: Final = array_schema(ref("ReplacementAction"), minItems=1)

SCHEMAS: Final[Mapping[str, Json]] = {
    **_models(Turn, ApprovalRequest),
    "ApprovalDecision": {
        "oneOf": [
            object_schema({"decision": {"enum": ["approve", "deny"]}}),
            object_schema({"decision": {"const": "edit"}, "actions": _EDIT}),
        ],
        "description": getdoc(ApprovalDecision),
    },
    "Session": object_schema(
        {
            "session": _ID,
            "agent": _ID,
            "mode": {"enum": list(MODES)},
            "proposer": {"type": ["string", "null"]},
            "people": {"type": "object", "additionalProperties": {"type": "string"}},
            "seq": {"type": "integer", "minimum": 0},
            "turns": {"type": "array", "items": {"type": "object"}},
        }
    ),
    "Approvals": object_schema({"approvals": array_schema(ref("ApprovalRequest"))}),
}
