"""The JSON types of values by their JSON Schema: which ones a field may have."""

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from placet.schemas.codec import Json
from placet_tools.policy.errors import fault, require_name

Kinds: TypeAlias = frozenset[str]
"""Names of JSON types, with one name for all numbers."""

NUMBER: Final[Kinds] = frozenset({"number"})
TEXT: Final[Kinds] = frozenset({"string"})
BOOLEAN: Final[Kinds] = frozenset({"boolean"})
NULL: Final[Kinds] = frozenset({"null"})
ARRAY: Final[Kinds] = frozenset({"array"})
ANY: Final[Kinds] = NUMBER | TEXT | BOOLEAN | NULL | ARRAY | {"object"}

_DEPTH_MAX: Final = 16
_UNIONS: Final = ("anyOf", "oneOf")
_NAMES: Final = {"integer": "number"}


class ValueType(NamedTuple):
    """The JSON types that a value may have.

    Attributes:
        kinds: Its types.
        items: Types of the items, if it is an array.
        is_hidden: The log has a keyed digest in its place, so no expression can read it.
    """

    kinds: Kinds
    items: Kinds = ANY
    is_hidden: bool = False

    def __str__(self) -> str:
        return " or ".join(sorted(self.kinds)) if self.kinds != ANY else "any type"


ANYTHING: Final = ValueType(ANY)


def fields_of(schema: Mapping[str, Json]) -> dict[str, ValueType]:
    """Return the types of the properties of an object by its JSON Schema."""
    properties = schema.get("properties", {})
    return {name: type_of(one, schema) for name, one in properties.items()}


def type_of(schema: Json, root: Mapping[str, Json], depth: int = 0) -> ValueType:
    """Return the types of a value by its JSON Schema; any type where the schema names none.

    Args:
        schema: The schema of the value.
        root: The schema that has the definitions.
        depth: Number of schemas around this one.
    """
    schema = _resolved(schema, root)
    if not isinstance(schema, Mapping) or depth > _DEPTH_MAX:
        return ANYTHING
    for union in _UNIONS:
        if union in schema:
            parts = [type_of(part, root, depth + 1) for part in schema[union]]
            items = frozenset[str]().union(*[part.items for part in parts if "array" in part.kinds])
            return ValueType(frozenset[str]().union(*[part.kinds for part in parts]), items or ANY)
    if "const" in schema or "enum" in schema:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        return ValueType(frozenset(map(_name_of, values)))
    named = schema.get("type", ())
    names = [named] if isinstance(named, str) else named
    kinds = frozenset(_NAMES.get(name, name) for name in names)
    if not kinds or not kinds <= ANY:
        return ANYTHING
    items = type_of(schema["items"], root, depth + 1).kinds if "items" in schema else ANY
    return ValueType(kinds, items)


def type_at(schema: Json, path: str, place: str) -> ValueType:
    """Return the types of a value inside of another one by its JSON Schema.

    Args:
        schema: Schema of the outer value.
        path: Names of its properties, joined by dots.
        place: Place in the policy.

    Raises:
        ToolPolicyError: The schema lists the properties, and one of the path is none of them.
    """
    inner: Json = schema
    for name in path.split("."):
        inner = _resolved(inner, schema)
        if not isinstance(inner, Mapping) or "properties" not in inner:
            return ANYTHING
        require_name(name, inner["properties"], "field of the result", place)
        inner = inner["properties"][name]
    return type_of(inner, schema)


def require_comparable(left: ValueType, right: ValueType, what: str, place: str) -> None:
    """Check that two values can be equal.

    Raises:
        ToolPolicyError: They have no type in common.
    """
    if not left.kinds & right.kinds:
        raise fault(place, f"{what}: {left} and {right} are never equal")


def _resolved(schema: Json, root: Json) -> Json:
    """Return a schema, or the definition that it refers to."""
    for _ in range(_DEPTH_MAX):
        if not isinstance(schema, Mapping) or "$ref" not in schema:
            return schema
        name = str(schema["$ref"]).rpartition("/")[2]
        schema = root.get("$defs", {}).get(name)
    return None


def _name_of(value: Json) -> str:
    if isinstance(value, bool):
        return "boolean"
    if value is None:
        return "null"
    return "string" if isinstance(value, str) else "number"
