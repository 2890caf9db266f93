"""The OpenAPI document, version 3.1, made from the tables of routes and the structs that read them.

Batches are judged by the gate, and answers are made by the routes, so their schemas are written
down once in `wire_schemas`; the tests hold every answer to them.
"""

from collections.abc import Iterable, Mapping, Sequence
from inspect import getdoc
from typing import Any, Final

import msgspec
from pydantic import ConfigDict, TypeAdapter
from starlette.routing import BaseRoute
from typing_extensions import is_typeddict

from placet.kernel.plugin.domain import Domain
from placet.kernel.plugin.registry import Registry
from placet.schemas.codec import Json
from placet.server.http.parameters import Fields, properties_of
from placet.server.http.problems import MEDIA_TYPE, PROBLEM_OF_STATUS
from placet.server.http.routing import Answers, ApiRoute, Body, Operation
from placet.server.http.verdict_status import status_table
from placet.server.wire_schemas import REFERENCE, SCHEMAS, batch_schema, intent_schema, ref

_DESCRIPTION: Final = (
    "Agents propose batches of intents, one gate decides, and every decision has a reason."
)


def answers(status: int, schema: str, *others: int) -> Answers:
    """Build the OpenAPI responses of a route: its own response, and problem documents.

    Args:
        status: Status of the route's own response.
        schema: Name of the response's schema, or `text/plain`; empty for no body.
        others: Statuses of problem documents; 200 has the route's own schema. 422 is implied:
            every route refuses unknown parameters.
    """
    own: dict[str, Json] = {"description": "done"}
    if "/" in schema:
        own["content"] = {schema: {"schema": {"type": "string"}}}
    elif schema:
        own["content"] = _json(schema)
    return {status: own, **{other: own if other == 200 else _problem(other) for other in others}}  # noqa: PLR2004  # HTTP's own


def build_document(
    routes: Iterable[BaseRoute],
    domains: Sequence[Domain],
    more: Mapping[str, Json],
    version: str,
    intents_max: int,
) -> dict[str, Json]:
    """Build the OpenAPI document of an application's routes.

    Args:
        routes: The routes; only those of type `ApiRoute` are described.
        domains: Domains, whose kinds define the schemas of intents; none where no route takes one.
        more: Additional schemas of plug-ins, by name.
        version: Version of the application.
        intents_max: Most intents of a batch.
    """
    described = [route for route in routes if isinstance(route, ApiRoute)]
    kinds = [kind.name for kind in Registry(domains)] if domains else []
    bodies = {
        operation.body.schema: None
        for route in described
        for operation in route.operations.values()
        if operation.body is not None and isinstance(operation.body.schema, type)
    }
    _, structs = msgspec.json.schema_components([*bodies], ref_template=REFERENCE + "{name}")
    paths = {
        route.path_format: {
            method.lower(): _operation(route, operation, kinds)
            for method, operation in route.operations.items()
        }
        for route in described
    }
    schemas: dict[str, Json] = {**SCHEMAS, "Batch": batch_schema(intents_max)}
    schemas |= structs | (_intents(domains, kinds) if domains else {}) | dict(more)
    return {
        "openapi": "3.1.0",
        "info": {"title": "placet", "version": version, "description": _DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": _used(schemas, paths),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _used(schemas: Mapping[str, Json], paths: Json) -> dict[str, Json]:
    """Return the schemas to which the paths refer, directly or not."""
    used, waiting = set[str](), [paths]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            name = part.get("$ref")
            if isinstance(name, str) and (name := name.removeprefix(REFERENCE)) not in used:
                used.add(name)
                waiting.append(schemas[name])
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return {name: schema for name, schema in schemas.items() if name in used}


def _operation(route: ApiRoute, operation: Operation, kinds: Sequence[str]) -> dict[str, Json]:
    is_limited = operation.is_read or operation.body is not None
    busy = {} if not is_limited else {429: {**_problem(429), "headers": _RETRY_AFTER}}
    of_body = {} if operation.body is None else {status: _problem(status) for status in _OF_A_BODY}
    own = operation.answer
    if isinstance(own, str):
        own = answers(operation.status, own, *operation.problems)
    responses = {422: _problem(422), **of_body, **busy, **own}
    described: dict[str, Json] = {
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": getdoc(operation.function),
        "operationId": operation.function.__name__,
        "responses": {str(status): responses[status] for status in sorted(responses)},
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in route.param_convertors
    ]
    if operation.query is not None:
        parameters += _parameters(operation.query)
    parameters += [
        {"name": name, "in": "header", "required": False, "schema": dict(schema)}
        for name, schema in operation.headers.items()
    ]
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        described["requestBody"] = _request_body(operation.body, kinds)
    if 401 in own:  # noqa: PLR2004  # HTTP's own
        described["security"] = [{"token": []}]
    return described


def _parameters(query: type[Fields]) -> list[dict[str, Json]]:
    """Return the parameters of a query; None means that one is not sent."""
    properties = properties_of(query)
    return [
        {
            "name": field.name,
            "in": "query",
            "required": field.required,
            "schema": _without_null(properties[field.name]),
        }
        for field in msgspec.structs.fields(query)
    ]


def _without_null(schema: Mapping[str, Json]) -> dict[str, Json]:
    if "anyOf" not in schema:
        return dict(schema)
    (value,) = (option for option in schema["anyOf"] if option != {"type": "null"})
    more = {name: schema[name] for name in schema if name not in {"anyOf", "default"}}
    return {**value, **more}


def _request_body(body: Body, kinds: Sequence[str]) -> dict[str, Json]:
    schema = body.schema
    if isinstance(schema, type):
        schema = schema.__name__
    content = _json(schema) if isinstance(schema, str) else {"application/json": {"schema": schema}}
    examples = body.examples
    if schema == "Batch":
        examples = {name: one for name, one in examples.items() if _is_known(one["value"], kinds)}
    if examples:
        content["application/json"]["examples"] = examples
    return {"required": not body.is_optional, "content": content}


def _is_known(batch: Json, kinds: Sequence[str]) -> bool:
    """Return whether the intents of an example have kinds of the world."""
    intents = batch["intents"] if isinstance(batch, dict) else batch
    return all(intent["kind"] in kinds for intent in intents)


def payload_schemas(domains: Sequence[Domain]) -> tuple[dict[str, Json], dict[str, Json]]:
    """Return the JSON Schema of the payload of each kind, and of the parts they share, by name."""
    kinds = sorted(Registry(domains), key=lambda kind: kind.name)
    lists, shared = TypeAdapter.json_schemas(
        [(kind.name, "validation", _list_of(kind.payload)) for kind in kinds],
        ref_template=REFERENCE + "{model}",
    )
    payloads = {kind.name: lists[kind.name, "validation"]["items"] for kind in kinds}
    parts = dict(shared.get("$defs", {}))
    for schema in (*payloads.values(), *parts.values()):
        _close_patterns(schema)
    return payloads, parts


def _list_of(payload: Any) -> "TypeAdapter[list[Any]]":  # noqa: ANN401  # pydantic reads it
    """Return a validator of a list of payloads.

    The list carries the configuration, because pydantic takes none for a model; a TypedDict without
    its own forbids unknown fields, as the gate does.
    """
    is_bare = is_typeddict(payload) and not hasattr(payload, "__pydantic_config__")
    return TypeAdapter(list[payload], config=ConfigDict(extra="forbid") if is_bare else None)


def _close_patterns(schema: Json) -> None:
    """Forbid the keys that match no pattern, which pydantic checks and does not declare."""
    if isinstance(schema, dict):
        if isinstance(schema.get("patternProperties"), dict):
            schema.setdefault("additionalProperties", False)
        for part in schema.values():
            _close_patterns(part)
    elif isinstance(schema, list):
        for part in schema:
            _close_patterns(part)


def _intents(domains: Sequence[Domain], kinds: Sequence[str]) -> dict[str, Json]:
    """Return the schemas of intents, one for each kind, and of their payloads.

    Their order is that of `kinds`: those of the world's first domain are first.
    """
    payloads, schemas = payload_schemas(domains)
    for name, payload in payloads.items():
        schemas[f"Intent.{name}"] = intent_schema(name, payload)
    schemas["Intent"] = {
        "oneOf": [ref(f"Intent.{name}") for name in kinds],
        "discriminator": {
            "propertyName": "kind",
            "mapping": {name: f"{REFERENCE}Intent.{name}" for name in kinds},
        },
    }
    return schemas


def _json(schema: str) -> dict[str, dict[str, Json]]:
    return {"application/json": {"schema": ref(schema)}}


def _problem(status: int) -> dict[str, Json]:
    content = {MEDIA_TYPE: {"schema": ref("Problem")}}
    code = PROBLEM_OF_STATUS.get(status)
    return {"description": f"problem {code}" if code else "a problem", "content": content}


def _verdict_answers() -> Answers:
    codes: dict[int, list[str]] = {}
    for _, code, status in status_table():
        codes.setdefault(status, []).append(code)
    declared: dict[int, dict[str, Json]] = {}
    for status, names in sorted(codes.items()):
        content: dict[str, Json] = _json("Verdict")
        described = ", ".join(names)
        if status in _ALSO_PROBLEMS:
            problem = _problem(status)
            content |= problem["content"]
            described += f"; {problem['description']}"
        declared[status] = {"description": described, "content": content}
    for status in _ONLY_PROBLEMS:
        declared[status] = _problem(status)
    for status in (429, 503):
        declared[status]["headers"] = _RETRY_AFTER
    return declared


_RETRY_AFTER: Final[Mapping[str, Json]] = {
    "Retry-After": {"description": "whole seconds", "schema": {"type": "string"}}
}
_ALSO_PROBLEMS: Final = frozenset({403, 404, 413, 422, 429, 500, 503})
_ONLY_PROBLEMS: Final = (401, 408, 415)
_OF_A_BODY: Final = (408, 413, 415)
"""Statuses of problems with a body: it is late, too large, or of another media type."""

VERDICT_ANSWERS: Final = _verdict_answers()
