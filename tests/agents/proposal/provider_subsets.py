"""What each model provider takes as the definition of a tool, as a validator of each.

A schema is lowered for its provider first, as pydantic-ai lowers it in a request.

Google: `FunctionDeclaration.parametersJsonSchema` of the Gemini API, a subset of JSON Schema.
OpenAI: function tools of chat completions and responses, without strict mode.
Anthropic: `input_schema` of a tool, JSON Schema 2020-12 with a plain object at the top.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import jsonschema
from pydantic_ai._json_schema import JsonSchemaTransformer
from pydantic_ai.profiles.google import GoogleJsonSchemaTransformer
from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer
from pydantic_ai.providers.anthropic import AnthropicJsonSchemaTransformer

from placet.agents.proposal.tools import ToolDefinition

_GOOGLE_NOWHERE: Final = frozenset(
    {"$ref", "$schema", "const", "title", "discriminator", "examples"}
    | {"exclusiveMinimum", "exclusiveMaximum"}
)
_OPENAI_NOWHERE: Final = {"allOf", "not", "if", "then", "else", "dependentRequired"}
_UNIONS: Final = frozenset(["oneOf", "anyOf", "allOf"])
_KEY: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_DESCRIPTION_CHARS_MAX: Final = 1_024

_Schema = Mapping[str, Any]


def google_faults(tool: ToolDefinition) -> list[str]:
    """Return the reasons why Google would refuse a tool."""
    faults = []
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}", tool.name):
        faults.append(f"name {tool.name!r}")
    if tool.schema.get("type") != "object":
        faults.append("the parameters are no object")
    for at, schema in _walk(tool.schema):
        faults += [f"{at}: keyword {name}" for name in schema.keys() & _GOOGLE_NOWHERE]
        if set(schema.get("required", ())) - schema.get("properties", {}).keys():
            faults.append(f"{at}: a required property that is not defined")
    return faults


def openai_faults(tool: ToolDefinition) -> list[str]:
    """Return the reasons why OpenAI would refuse a tool."""
    faults = []
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool.name):
        faults.append(f"name {tool.name!r}")
    if len(tool.description) > _DESCRIPTION_CHARS_MAX:
        faults.append("the description is too long")
    faults += _top_faults(tool.schema, {*_UNIONS, "enum", "const", "not"})
    for at, schema in _walk(tool.schema):
        faults += [f"{at}: keyword {name}" for name in schema.keys() & _OPENAI_NOWHERE]
        if schema.get("type") == "array" and not isinstance(schema.get("items"), Mapping):
            faults.append(f"{at}: an array without items")
    return faults


def anthropic_faults(tool: ToolDefinition) -> list[str]:
    """Return the reasons why Anthropic would refuse a tool."""
    faults = []
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool.name):
        faults.append(f"name {tool.name!r}")
    faults += _top_faults(tool.schema, _UNIONS)
    try:
        jsonschema.Draft202012Validator.check_schema(dict(tool.schema))
    except jsonschema.SchemaError as error:
        faults.append(f"no JSON Schema: {error.message}")
    for at, schema in _walk(tool.schema):
        keys = schema.get("properties", {})
        faults += [f"{at}: property {key!r}" for key in keys if not _KEY.fullmatch(key)]
    return faults


PROVIDERS: Final[Mapping[str, Callable[[ToolDefinition], list[str]]]] = {
    "google": google_faults,
    "openai": openai_faults,
    "anthropic": anthropic_faults,
}
_TRANSFORMERS: Final[Mapping[str, type[JsonSchemaTransformer]]] = {
    "google": GoogleJsonSchemaTransformer,
    "openai": OpenAIJsonSchemaTransformer,
    "anthropic": AnthropicJsonSchemaTransformer,
}


def lowered(tool: ToolDefinition, provider: str) -> ToolDefinition:
    """Return a tool with the schema that pydantic-ai sends to a provider."""
    return tool._replace(schema=_TRANSFORMERS[provider](tool.schema, strict=False).walk())


def undescribed(schema: _Schema) -> list[str]:
    """Return where a schema has a property without a description."""
    return [
        f"{at}/{name}"
        for at, inner in _walk(schema)
        for name, one in inner.get("properties", {}).items()
        if not one.get("description")
    ]


def properties_of(schema: _Schema) -> Iterator[tuple[str, _Schema]]:
    """Return every property of a schema and of the schemas in it, with its name."""
    for _, inner in _walk(schema):
        yield from inner.get("properties", {}).items()


def _top_faults(schema: _Schema, unions: set[str] | frozenset[str]) -> list[str]:
    faults = [f"{name} at the top" for name in schema.keys() & unions]
    return faults if schema.get("type") == "object" else [*faults, "no object at the top"]


def _walk(schema: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """Return every schema of a tool with its place; values such as those of `enum` are none."""
    yield at, schema
    for keyword in ("properties", "$defs", "patternProperties"):
        for name, inner in schema.get(keyword, {}).items():
            yield from _walk(inner, f"{at}/{name}")
    for keyword in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(keyword), Mapping):
            yield from _walk(schema[keyword], f"{at}/{keyword}")
    for keyword in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for index, inner in enumerate(schema.get(keyword, ())):
            yield from _walk(inner, f"{at}/{keyword}/{index}")
