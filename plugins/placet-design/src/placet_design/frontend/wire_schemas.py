"""The design routes in the OpenAPI document: schemas of bodies and answers, with examples."""

from collections.abc import Mapping
from typing import Final

from placet.schemas.codec import Json
from placet.schemas.identity import ID_CHARS_MAX
from placet.server.http.routing import Answers
from placet.server.openapi import VERDICT_ANSWERS, answers
from placet.server.wire_schemas import array_schema, object_schema

_TEXT: Final = {"type": "string"}
_BOOLEAN: Final = {"type": "boolean"}
_SEQ: Final = {"type": "integer", "minimum": 0}
_OPEN: Final[dict[str, Json]] = {"type": "object"}
_ID: Final = {"type": "string", "minLength": 1, "maxLength": ID_CHARS_MAX}
_STEP: Final[dict[str, Json]] = {
    "success": _BOOLEAN,
    "rejections": array_schema(_OPEN),
    "req_id": _ID,
    "design_version": _SEQ,
}

SCHEMAS: Final[Mapping[str, Json]] = {
    "Design": object_schema(
        {"design_id": {"type": ["string", "null"]}, "design_version": _SEQ}, is_open=True
    ),
    "Designs": object_schema(
        {"designs": array_schema(object_schema({"design_id": _ID, "design_version": _SEQ}))}
    ),
    "Preview": object_schema(
        {
            "answer": {"enum": ["understood", "clarification", "query"]},
            "intent": _OPEN,
            "design_version": _SEQ,
            "plan": {"type": ["object", "null"]},
            "question": {"type": ["string", "null"]},
            "candidates": array_schema(_TEXT),
            "understood": array_schema(_OPEN),
            "rewordings": array_schema(_TEXT),
        }
    ),
    "StepAnswer": object_schema(_STEP),
    "PhaseRun": object_schema(
        {
            **_STEP,
            "phase": object_schema({"name": _TEXT, "status": _TEXT}, is_open=True),
        }
    ),
    "PlanAnswer": object_schema(
        {"success": _BOOLEAN, "plan_id": _TEXT, "warnings": array_schema(_TEXT)}, is_open=True
    ),
    "PlanConflict": object_schema(
        {
            "error": {"enum": ["stale_plan", "plan_id_reused"]},
            "message": _TEXT,
            "current_design_version": _SEQ,
        },
        optional=("current_design_version",),
    ),
    "Phases": object_schema({"design_version": _SEQ, "phases": _OPEN}),
    "Audit": object_schema(
        {"entries": array_schema(_OPEN), "next_record": _SEQ, "is_end": _BOOLEAN}
    ),
}
"""Name -> schema. Those of the plan itself are `plan_handler.plan_schemas`."""

EXAMPLES: Final[Mapping[str, dict[str, Json]]] = {
    "Access": {
        "a team": {"value": {"owner": "ann", "editors": ["bob"], "readers": ["carol", "dan"]}}
    },
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
}
"""Schema -> its examples by name."""


def plan_answers(schema: str) -> Answers:
    """Return the responses of a route that submits a plan, by status, for its documentation.

    Args:
        schema: Name of the schema of a successful response.
    """
    conflict = {
        "oneOf": [{"$ref": "#/components/schemas/" + name} for name in ("PlanConflict", "Verdict")]
    }
    content = {"application/json": {"schema": conflict}}
    declared: dict[int, Mapping[str, Json]] = {**VERDICT_ANSWERS, **answers(200, schema, 428)}
    declared[409] = {"description": "stale_plan, plan_id_reused, ...", "content": content}
    del declared[202]
    return declared
