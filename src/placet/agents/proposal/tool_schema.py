"""JSON Schemas of payloads, lowered to the subset that every model provider takes for a tool.

Google's, OpenAI's and Anthropic's tool calling each take a subset of JSON Schema, and refuse a
whole request for one keyword beyond it. The form made here is within all three:

* the top is an object with `properties`, never a union;
* one `type` a schema, `anyOf` of types where there are several, and no `$ref`, `oneOf`, `allOf`,
  `not`, `const`, `patternProperties`, `additionalProperties`, `prefixItems` or `default`;
* `enum` holds non-empty strings, `format` is `date-time`, and a `pattern` is free of lookarounds;
* each property has a description, which also has the constraints that the form cannot express.

A lowered schema takes every value that the payload takes, and some that it does not: the parser of
proposals checks the whole payload (`Catalogue.unsound`).
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from placet.schemas.codec import Json, to_json

_Schema = dict[str, Any]

_KEPT: Final = {
    "string": ("minLength", "maxLength"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "boolean": (),
    "null": (),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}
"""The bounds that every provider takes, by the type that they are for."""

_IN_WORDS: Final = {
    "exclusiveMinimum": "More than {}.",
    "exclusiveMaximum": "Less than {}.",
    "multipleOf": "A multiple of {}.",
    "default": "Default: {}.",
}
"""Keywords that the description has in words instead."""

_TYPE_OF: Final[Mapping[type, str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
    list: "array",
    dict: "object",
}
_FORMATS: Final = frozenset({"date-time"})
_FOREIGN_PATTERN: Final = re.compile(r"\(\?|\\[1-9AZGpPkK]")
"""Lookarounds, flags, named groups, back references: a provider's engine may have none of them."""
_PROPERTY_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_ATTRIBUTES: Final = re.compile(r"\n\s*(?:Attributes|Args|Parameters):[ \t]*\n")
_ATTRIBUTE: Final = re.compile(r"(\w+)(?: \([^)]*\))?:\s*(.*)")
_UNROLLED_MAX: Final = 2
"""How often a definition may stand within itself before it is cut."""
_SCHEMAS_MAX: Final = 2_000
"""Schemas that are read for one tool; what comes after them is cut."""

_SCALARS: Final = tuple({"type": name} for name in ("string", "number", "boolean", "null"))


def tool_schema(schema: Json, choices: Mapping[str, Sequence[str]] = MappingProxyType({})) -> Json:
    """Return the JSON Schema of a payload as that of a tool's arguments.

    Args:
        schema: The JSON Schema of an object, as pydantic makes it. It is not changed.
        choices: Property -> the strings that it may be, or that its items may be.
    """
    lowering = _Lowering(schema.get("$defs", {}) if isinstance(schema, Mapping) else {})
    variants = [one for one in lowering.variants(schema, {}) if one["type"] == "object"]
    lowered = {"properties": {}, **variants[0]} if len(variants) == 1 else _merged(variants)
    properties: dict[str, _Schema] = lowered["properties"]
    for name, values in choices.items():
        if name in properties:
            _choose(properties[name], values)
    return lowered


def _choose(lowered: _Schema, values: Sequence[str]) -> None:
    """Add an enumeration to a schema of strings, or of an array of strings."""
    if lowered.get("type") == "array":
        _choose(lowered["items"], values)
    elif lowered.get("type") == "string" and all(values):
        lowered["enum"] = list(values)


class _Lowering:
    """One walk over a schema.

    Args:
        definitions: The schemas that its references name.
    """

    def __init__(self, definitions: Mapping[str, Json]) -> None:
        self._definitions = definitions
        self._count = 0

    def lower(self, schema: Json, within: Mapping[str, int]) -> _Schema:
        """Return the lowered form of a schema.

        Args:
            schema: The schema.
            within: Number of times that each definition stands around it.
        """
        words = _words(schema) if isinstance(schema, Mapping) else ""
        return _either(self.variants(schema, within), words)

    def _property(
        self, schema: Json, title: str, is_required: bool, within: Mapping[str, int]
    ) -> _Schema:
        """Return the lowered form of a property; one that may be left out need not be null."""
        variants = self.variants(schema, within)
        values = variants if is_required else [one for one in variants if one["type"] != "null"]
        words = _words(schema) if isinstance(schema, Mapping) else ""
        lowered = _either(values or variants, words)
        may_be_null = "May be null." if 0 < len(values) < len(variants) else ""
        said = [title, lowered.get("description", ""), may_be_null]
        return _described(lowered, " ".join(filter(None, said)))

    def variants(self, schema: Json, within: Mapping[str, int]) -> list[_Schema]:
        """Return a lowered schema for each type that a value may have."""
        self._count += 1
        if not isinstance(schema, Mapping):  # true, or a false that nobody writes for a payload
            return _anything()
        reference = schema.get("$ref")
        if reference is not None:
            return self._referred(str(reference), schema, within)
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                return self._union(schema, keyword, within)
        if "allOf" in schema:
            return self.variants(_joined(schema, self._definitions), within)
        if "const" in schema:
            return _choices({**schema, "enum": [schema["const"]]})
        if "enum" in schema:
            return _choices(schema)
        types = schema.get("type") or _implied_type(schema)
        if types is None:
            return [_described(one, _words(schema)) for one in _anything()]
        names = types if isinstance(types, list) else [types]
        return [self._typed(name, schema, within) for name in names]

    def _referred(
        self, reference: str, schema: Mapping[str, Json], within: Mapping[str, int]
    ) -> list[_Schema]:
        name = reference.rpartition("/")[2]
        target = self._definitions.get(name.replace("~1", "/").replace("~0", "~"), True)
        depth = within.get(name, 0)
        if depth == _UNROLLED_MAX or self._count > _SCHEMAS_MAX:
            is_object = isinstance(target, Mapping) and target.get("type") == "object"
            cut = [{"type": "object"}] if is_object else _anything()
            return [_described(one, f"{name}, of the same form as above.") for one in cut]
        found = self.variants(target, {**within, name: depth + 1})
        words = _words(schema)
        return [_described({**one, "description": words}, "") for one in found] if words else found

    def _union(
        self, schema: Mapping[str, Json], keyword: str, within: Mapping[str, int]
    ) -> list[_Schema]:
        beside = {name: schema[name] for name in ("properties", "required") if name in schema}
        variants = [
            variant
            for branch in schema[keyword]
            for variant in self.variants(
                {**beside, **branch} if beside and isinstance(branch, Mapping) else branch, within
            )
        ]
        return variants or _anything()

    def _typed(self, name: str, schema: Mapping[str, Json], within: Mapping[str, int]) -> _Schema:
        lowered: _Schema = {"type": name}
        words = [_words(schema)]
        lowered |= {key: schema[key] for key in _KEPT.get(name, ()) if key in schema}
        if name == "object":
            words = [self._fill_object(lowered, schema, within)]
        elif name == "array":
            words.append(self._fill_array(lowered, schema, within))
        elif name == "string":
            words.append(_fill_string(lowered, schema))
        elif name in {"integer", "number"}:
            _fill_number(lowered, schema)
        return _described(lowered, " ".join(filter(None, words)))

    def _fill_object(
        self, lowered: _Schema, schema: Mapping[str, Json], within: Mapping[str, int]
    ) -> str:
        """Add the properties of an object, and return its description without theirs."""
        text, attributes = _documented(str(schema.get("description", "")))
        words = [text, _said(schema)]
        required: list[str] = list(schema.get("required", ()))
        properties: Mapping[str, Json] = schema.get("properties", {})
        named = {name for name in properties if _PROPERTY_NAME.fullmatch(name)}
        if properties:
            lowered["properties"] = {
                name: self._property(one, _title(name, one, attributes), name in required, within)
                for name, one in properties.items()
                if name in named
            }
        unnamed = [to_json(name).decode() for name in properties if name not in named]
        if unnamed:
            words.append(f"It also has {', '.join(unnamed)}.")
        wanted = [name for name in required if name in named]
        if wanted:
            lowered["required"] = wanted
        return " ".join(filter(None, [*words, self._free(schema, within)]))

    def _free(self, schema: Mapping[str, Json], within: Mapping[str, int]) -> str:
        """Return in words which further fields an object may have."""
        others = [schema.get("additionalProperties"), *schema.get("patternProperties", {}).values()]
        values = [one for one in others if one not in (None, False)]
        if not values:
            return ""
        kinds = {
            str(variant["type"])
            for one in values
            for variant in self.variants(one, within)
            if one is not True and one != {}
        }
        is_any = len(kinds) == len(_KEPT) - 1  # an integer is a number
        of = f", each {' or '.join(sorted(kinds))}" if kinds and not is_any else ""
        further = "Further fields" if schema.get("properties") else "Fields"
        return f"{further} of any name{of}."

    def _fill_array(
        self, lowered: _Schema, schema: Mapping[str, Json], within: Mapping[str, int]
    ) -> str:
        """Add the items of an array, and return its other constraints in words."""
        first: Sequence[Json] = schema.get("prefixItems", ())
        rest = schema.get("items", not first)
        inner = [*first, *([] if rest is False else [rest])]
        found = [one for item in inner for one in self.variants(item, within)]
        lowered["items"] = _either(found or [*map(dict, _SCALARS)], "")
        unique = "Items differ." if schema.get("uniqueItems") else ""
        if not first:
            return unique
        kinds = [
            " or ".join(str(one["type"]) for one in self.variants(item, within)) for item in first
        ]
        return f"In this order: {', '.join(kinds)}. {unique}".strip()


def _anything() -> list[_Schema]:
    """Return the types of any JSON value; an array or object may hold anything."""
    return [
        *map(dict, _SCALARS),
        {"type": "array", "items": {"anyOf": [*_SCALARS]}},
        {"type": "object"},
    ]


def _implied_type(schema: Mapping[str, Json]) -> str | None:
    """Return the type of a schema that has none, but keywords of one."""
    if "properties" in schema or "additionalProperties" in schema:
        return "object"
    return "array" if "items" in schema or "prefixItems" in schema else None


def _choices(schema: Mapping[str, Json]) -> list[_Schema]:
    """Lower an enumeration: strings stay one, other values are listed in the description."""
    by_type: dict[str, list[Json]] = {}
    for value in schema["enum"]:
        by_type.setdefault(_TYPE_OF[type(value)], []).append(value)
    lowered = []
    for name, values in by_type.items():
        one: _Schema = {"type": name}
        words = _words(schema)
        if name == "string" and all(values):
            one["enum"] = values
        elif name != "null":
            listed = ", ".join(to_json(value).decode() for value in values)
            words = f"{words} One of {listed}.".strip()
        if name == "array":
            one["items"] = {"anyOf": [*_SCALARS]}
        lowered.append(_described(one, words))
    return lowered


def _fill_string(lowered: _Schema, schema: Mapping[str, Json]) -> str:
    form, pattern = schema.get("format"), schema.get("pattern")
    words = []
    if form in _FORMATS:
        lowered["format"] = form
    elif form is not None:
        words.append(f"Format: {form}.")
    if pattern is not None and not _FOREIGN_PATTERN.search(pattern):
        lowered["pattern"] = pattern
    elif pattern is not None:
        words.append(f"Pattern: {pattern}.")
    return " ".join(words)


def _fill_number(lowered: _Schema, schema: Mapping[str, Json]) -> None:
    """Write an exclusive bound as an inclusive one, which takes a little more."""
    for exclusive, inclusive in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if exclusive in schema:
            lowered.setdefault(inclusive, schema[exclusive])


def _joined(schema: Mapping[str, Json], definitions: Mapping[str, Json]) -> _Schema:
    """Return one schema for all parts of an `allOf`; of a keyword in two parts the last counts."""
    whole: _Schema = {key: value for key, value in schema.items() if key != "allOf"}
    for part in schema["allOf"]:
        one = part
        if isinstance(part, Mapping) and "$ref" in part:
            one = definitions.get(str(part["$ref"]).rpartition("/")[2], {})
        if not isinstance(one, Mapping):
            continue
        properties = {**whole.get("properties", {}), **one.get("properties", {})}
        required = [*whole.get("required", ()), *one.get("required", ())]
        whole = {**one, **whole}
        if properties:
            whole |= {"properties": properties, "required": list(dict.fromkeys(required))}
    return whole


def _merged(variants: Sequence[_Schema]) -> _Schema:
    """Return one object for a union of objects: the fields of all, required what all require."""
    properties: dict[str, list[_Schema]] = {}
    for variant in variants:
        for name, one in variant.get("properties", {}).items():
            properties.setdefault(name, []).extend(one.get("anyOf", [one]))
    merged: _Schema = {"type": "object", "properties": {}}
    for name, found in properties.items():
        merged["properties"][name] = _described(_either(found, ""), _title(name, {}, {}))
    required = [
        name for name in properties if all(name in one.get("required", ()) for one in variants)
    ]
    if required:
        merged["required"] = required
    forms = [f"{{{', '.join(one.get('properties', {}))}}}" for one in variants]
    return _described(merged, f"One of {' or '.join(forms)}." if forms else "")


def _either(variants: Sequence[_Schema], words: str) -> _Schema:
    """Return one schema for several: the only one that differs, or `anyOf` of them."""
    takes_any_number = {"type": "number"} in [
        {key: value for key, value in one.items() if key != "description"} for one in variants
    ]
    distinct: list[_Schema] = []
    for one in variants:
        is_covered = takes_any_number and one["type"] == "integer"
        if not is_covered and one not in distinct:
            distinct.append(one)
    return distinct[0] if len(distinct) == 1 else _described({"anyOf": distinct}, words)


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


def _title(name: str, schema: Json, attributes: Mapping[str, str]) -> str:
    """Return the text of a property that its schema lacks: that of the docstring, or its name."""
    is_described = isinstance(schema, Mapping) and "description" in schema
    return attributes.get(name) or (
        "" if is_described else f"{name.replace('_', ' ').capitalize()}."
    )


def _words(schema: Mapping[str, Json]) -> str:
    """Return the description of a schema, with its constraints that the lowered form lacks."""
    text = " ".join(str(schema.get("description", "")).split())
    return f"{text} {_said(schema)}".strip()


def _said(schema: Mapping[str, Json]) -> str:
    said = [
        text.format(to_json(schema[key]).decode())
        for key, text in _IN_WORDS.items()
        if key in schema and schema[key] is not None
    ]
    return " ".join(said)


def _described(schema: _Schema, words: str) -> _Schema:
    return {**schema, "description": words} if words else schema
