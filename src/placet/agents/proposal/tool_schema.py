"""JSON Schemas of payloads as the schemas of a tool's arguments.

The schema of a tool is that of the payload, with four changes:

* the top is an object with `properties`, never a union: OpenAI and Anthropic refuse one there;
* no `$ref`: a definition stands where it is used, because some servers do not show it to a model;
* each property has a description: its own, that of the docstring of the payload, or its name;
* property names that Anthropic refuses are left out, and `items` is never missing (OpenAI).

pydantic-ai lowers this form to the keywords of a provider (`json_schema_transformer`), and the
parser of proposals checks the whole payload (`Catalogue.unsound`).
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from pydantic import TypeAdapter

from placet.agents.proposal.plan import IF_UNCHANGED, Paths
from placet.schemas.codec import Json, to_json

_Schema = dict[str, Any]

_PATHS: Final = TypeAdapter(Paths).json_schema()
CONDITIONS: Final[_Schema] = {
    "type": "array",
    "items": {"type": "string"},
    "description": _PATHS["description"],
}
"""Schema of the parameter `if_unchanged`, without the bounds: the parser checks them."""

_PROPERTY_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_ATTRIBUTES: Final = re.compile(r"\n\s*(?:Attributes|Args|Parameters):[ \t]*\n")
_ATTRIBUTE: Final = re.compile(r"(\w+)(?: \([^)]*\))?:\s*(.*)")
_OF_SCHEMAS: Final = frozenset(
    {"items", "additionalProperties", "anyOf", "oneOf", "allOf", "prefixItems"}
)
"""Keywords whose value is a schema or a list of schemas."""
_BY_NAME: Final = frozenset({"properties", "patternProperties"})
_DROPPED: Final = frozenset({"$ref", "$defs", "title", "discriminator"})
"""References, whose targets stand in their places, and the names that pydantic derives."""
_UNROLLED_MAX: Final = 2
"""How often a definition may stand within itself before it is cut."""
_SCHEMAS_MAX: Final = 2_000
"""Number of schemas read for one tool; each later reference is cut."""


def tool_schema(schema: Json, choices: Mapping[str, Sequence[str]] = MappingProxyType({})) -> Json:
    """Return the JSON Schema of a payload as that of a tool's arguments.

    Args:
        schema: The JSON Schema of an object, as pydantic makes it. It is not changed.
        choices: Property -> the strings that it may be, or that its items may be.
    """
    inlined = _Inliner(schema.get("$defs", {})).inlined(schema, {})
    root = inlined if "type" in inlined else _merged(inlined)
    properties = root.setdefault("properties", {})
    for name, values in choices.items():
        if name in properties:
            _choose(properties[name], values)
    return root


def with_conditions(schema: Json) -> Json:
    """Return the schema of a tool with the parameter `if_unchanged`.

    A payload with a field of this name keeps it: such a tool has no conditions.
    """
    properties = schema["properties"]
    if IF_UNCHANGED in properties:
        return schema
    return {**schema, "properties": {**properties, IF_UNCHANGED: CONDITIONS}}


def _choose(schema: _Schema, values: Sequence[str]) -> None:
    """Add an enumeration to a schema of strings, or of an array of strings."""
    for one in schema.get("anyOf", ()):  # a property that may be null
        _choose(one, values)
    if schema.get("type") == "array":
        _choose(schema["items"], values)
    elif schema.get("type") == "string" and all(values):
        schema["enum"] = list(values)


class _Inliner:
    """One walk over a schema, which puts definitions in the place of references.

    Args:
        definitions: The schemas that its references name.
    """

    def __init__(self, definitions: Mapping[str, Json]) -> None:
        self._definitions = definitions
        self._count = 0

    def inlined(self, schema: Json, within: Mapping[str, int]) -> Any:  # noqa: ANN401  # any JSON value
        """Return a schema, or a list of schemas, without references and with descriptions.

        Args:
            schema: The schema, or the list.
            within: Number of times that each definition stands around it.
        """
        if isinstance(schema, list):
            return [self.inlined(one, within) for one in schema]
        if not isinstance(schema, Mapping):  # `additionalProperties: false`
            return schema
        self._count += 1
        if "$ref" in schema:
            return self._referred(schema, within)
        found: _Schema = {}
        for key, value in schema.items():
            if key in _OF_SCHEMAS:
                found[key] = self.inlined(value, within)
            elif key in _BY_NAME:
                found[key] = {name: self.inlined(one, within) for name, one in value.items()}
            elif key not in _DROPPED:
                found[key] = value
        if "prefixItems" in found:
            found.setdefault("items", {})
        return _described(found) if "properties" in found or "description" in found else found

    def _referred(self, schema: Mapping[str, Json], within: Mapping[str, int]) -> _Schema:
        """Return the definition that a reference names; a recursion is cut."""
        name = str(schema["$ref"]).rpartition("/")[2].replace("~1", "/").replace("~0", "~")
        target: Mapping[str, Json] = self._definitions.get(name, {})
        depth = within.get(name, 0)
        if depth == _UNROLLED_MAX or self._count > _SCHEMAS_MAX:
            kept = {"type": target["type"]} if target.get("type") == "object" else {}
            return {**kept, "description": f"{name}, of the same form as above."}
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        whole: _Schema = self.inlined({**target, **beside}, {**within, name: depth + 1})
        return whole


def _described(schema: _Schema) -> _Schema:
    """Describe the properties of an object by its docstring, else by their names."""
    text, attributes = _documented(str(schema.get("description", "")))
    properties: dict[str, _Schema] = schema.get("properties", {})
    unnamed = [name for name in properties if not _PROPERTY_NAME.fullmatch(name)]
    for name in unnamed:
        del properties[name]
    if unnamed:
        listed = ", ".join(to_json(name).decode() for name in unnamed)
        text = f"{text} It also has {listed}.".strip()
        schema["required"] = [name for name in schema.get("required", ()) if name in properties]
    for name, one in properties.items():
        title = "" if "description" in one else f"{name.replace('_', ' ').capitalize()}."
        words = [attributes.get(name, title), one.get("description", "")]
        properties[name] = {**one, "description": " ".join(filter(None, words))}
    return {**schema, "description": text} if text else schema


def _merged(union: Mapping[str, Any]) -> _Schema:
    """Return one object for a union of objects: the fields of all, required what all require."""
    variants: list[_Schema] = union.get("anyOf") or union.get("oneOf") or []
    found: dict[str, list[_Schema]] = {}
    for variant in variants:
        for name, one in variant.get("properties", {}).items():
            found.setdefault(name, []).append(one)
    forms = [f"{{{', '.join(one.get('properties', {}))}}}" for one in variants]
    return {
        "type": "object",
        "description": f"One of {' or '.join(forms)}.",
        "properties": {
            name: same[0]
            if all(one == same[0] for one in same)
            else {"anyOf": same, "description": f"{name.replace('_', ' ').capitalize()}."}
            for name, same in found.items()
        },
        "required": [
            name for name in found if all(name in one.get("required", ()) for one in variants)
        ],
    }


def _documented(text: str) -> tuple[str, Mapping[str, str]]:
    """Split a docstring into its text and the texts of its `Attributes`, by name."""
    text, *rest = _ATTRIBUTES.split("\n" + text, maxsplit=1)
    attributes: dict[str, str] = {}
    name, margin = "", None
    for line in "".join(rest).splitlines():
        indent = len(line) - len(line.lstrip())
        match = _ATTRIBUTE.match(line.strip())
        margin = indent if margin is None else margin
        if match and indent <= margin:
            name = match[1]
            attributes[name] = match[2]
        elif name and indent > margin:
            attributes[name] += " " + line.strip()
    return " ".join(text.split()), attributes
