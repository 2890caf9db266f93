"""The OpenAPI document: the schemas of bodies and responses, with examples.

Bodies are decoded by the codec and judged by the gate, not by the framework, so they are written
down here once; the tests hold every answer to them.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from placet.kernel.domain import Domain
from placet.kernel.registry import Registry
from placet.schemas.codec import Json
from placet.server.http.problems import MEDIA_TYPE
from placet.server.http.verdict_status import status_table
from placet.server.wire_schemas import EXAMPLES, SCHEMAS, intent_schema

_REFERENCE: Final = "#/components/schemas/"
_OF_FRAMEWORK: Final = "HTTPValidationError"
"""What the framework declares for unsound parameters; `problems.on_invalid` answers otherwise."""


def answers(status: int, schema: str, *others: int) -> dict[int | str, dict[str, Json]]:
    """Declare the answers of a route: its own, and problems.

    Args:
        status: Of its own answer.
        schema: Name of its schema; empty where it has no JSON.
        others: Statuses of problems; 200 is its own schema once more.
    """
    own: dict[str, Json] = {"description": "done"}
    if schema:
        own["content"] = _json(schema)
    declared: dict[int | str, dict[str, Json]] = {status: own}
    for other in others:
        declared[other] = own if other == 200 else _problem()  # noqa: PLR2004  # HTTP's own
    return declared


def body_of(schema: str, *, is_optional: bool = False, examples: Json = None) -> dict[str, Json]:
    """Declare the body of a route.

    Args:
        schema: Name of its schema.
        is_optional: A request without a body is permitted.
        examples: Examples by name, for schemas of a plug-in; None takes the server's own.
    """
    content = _json(schema)
    examples = examples or EXAMPLES.get(schema)
    if examples:
        content["application/json"]["examples"] = examples
    return {"requestBody": {"required": not is_optional, "content": content}}


def build_document(
    app: FastAPI, domains: Sequence[Domain], more: Mapping[str, Json]
) -> dict[str, Json]:
    """Make the OpenAPI document of an application over domains, with more schemas if need be."""
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for of_framework in (_OF_FRAMEWORK, "ValidationError"):
        schemas.pop(of_framework, None)
    schemas.update(SCHEMAS)
    schemas.update(_intents(domains))
    schemas.update(more)
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, item in document["paths"].items():
        for operation in item.values():
            if _OF_FRAMEWORK in str(operation["responses"].get("422")):
                operation["responses"]["422"] = _problem()
            if path not in {"/healthz", "/readyz"}:
                operation["security"] = [{"token": []}]
    return document


def _intents(domains: Sequence[Domain]) -> dict[str, Json]:
    """Return the schemas of intents, one for each kind, and of their payloads."""
    registry = Registry(domains)
    names = sorted(registry.kinds)
    payloads, shared = TypeAdapter.json_schemas(
        [(name, "validation", registry.payload(name)) for name in names],
        ref_template=_REFERENCE + "{model}",
    )
    schemas: dict[str, Json] = dict(shared.get("$defs", {}))
    for name in names:
        schemas[f"Intent.{name}"] = intent_schema(name, payloads[name, "validation"])
    schemas["Intent"] = {
        "oneOf": [{"$ref": f"{_REFERENCE}Intent.{name}"} for name in names],
        "discriminator": {
            "propertyName": "kind",
            "mapping": {name: f"{_REFERENCE}Intent.{name}" for name in names},
        },
    }
    return schemas


def _json(schema: str) -> dict[str, dict[str, Json]]:
    return {"application/json": {"schema": {"$ref": _REFERENCE + schema}}}


def _problem() -> dict[str, Json]:
    content = {MEDIA_TYPE: {"schema": {"$ref": _REFERENCE + "Problem"}}}
    return {"description": "a problem", "content": content}


def _verdict_answers() -> dict[int | str, dict[str, Json]]:
    codes: dict[int, list[str]] = {}
    for _, code, status in status_table():
        codes.setdefault(status, []).append(code)
    declared: dict[int | str, dict[str, Json]] = {}
    for status, told in sorted(codes.items()):
        content: dict[str, Json] = _json("Verdict")
        if status in _ALSO_PROBLEMS:
            content |= _problem()["content"]
        declared[status] = {"description": ", ".join(told), "content": content}
    for status in _ONLY_PROBLEMS:
        declared[status] = _problem()
    headers: Mapping[str, Json] = {
        "Retry-After": {"description": "whole seconds", "schema": {"type": "string"}}
    }
    for status in (429, 503):
        declared[status]["headers"] = headers
    return declared


_ALSO_PROBLEMS: Final = frozenset({403, 404, 413, 422, 500, 503})
_ONLY_PROBLEMS: Final = (401, 408, 415)

VERDICT_ANSWERS: Final = _verdict_answers()
BATCH_BODY: Final = body_of("Batch")
