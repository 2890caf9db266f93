"""Generates payloads from a JSON Schema: mostly valid, small and similar values.

Small and similar, because properties break where values collide: names are drawn from a few,
including those of agents and of the initial state. Constraints outside the schema are checked by
the gate.
"""

from collections.abc import Mapping, Sequence
from math import ceil, floor
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from placet.schemas.codec import Json

Payloads = SearchStrategy[Any]

_ITEMS_MORE: Final = 3
_CHARS_MORE: Final = 8
_NEAR, _NEARER = 12, 3
_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1

SCALARS: Final = st.none() | st.booleans() | st.integers(-_NEAR, _NEAR) | st.floats(-9, 9)
ANY_JSON: Final = st.recursive(
    SCALARS | st.text(max_size=_CHARS_MORE),
    lambda inner: (
        st.lists(inner, max_size=_ITEMS_MORE)
        | st.dictionaries(st.text(max_size=_CHARS_MORE), inner, max_size=_ITEMS_MORE)
    ),
    max_leaves=6,
)


def payloads(schema: Mapping[str, Json], words: Sequence[str]) -> Payloads:
    """Generate values that a JSON Schema allows.

    Args:
        schema: As pydantic writes it.
        words: Strings to prefer wherever a string may stand.
    """
    return _Reader(schema.get("$defs", {}), words).value(schema)


class _Reader:
    """Reads one schema; a referenced part is read once, so it may be recursive."""

    def __init__(self, definitions: Mapping[str, Json], words: Sequence[str]) -> None:
        self._definitions = definitions
        self._words = words
        self._known: dict[str, Payloads] = {}

    def value(self, schema: Json) -> Payloads:
        if not isinstance(schema, Mapping) or not schema.keys() - {"title", "description"}:
            return ANY_JSON
        if "$ref" in schema:
            return self._referred(schema["$ref"])
        if "const" in schema:
            return st.just(schema["const"])
        if "enum" in schema:
            return st.sampled_from(schema["enum"])
        for union in ("anyOf", "oneOf"):
            if union in schema:
                return st.one_of([self.value(member) for member in schema[union]])
        if "allOf" in schema:
            merged: dict[str, Json] = {}
            for part in schema["allOf"]:
                merged |= part
            return self.value(merged)
        return self._typed(schema)

    def _referred(self, ref: str) -> Payloads:
        name = ref.rpartition("/")[2]
        if name not in self._known:
            self._known[name] = st.deferred(lambda: self._known[f"{name} read"])
            self._known[f"{name} read"] = self.value(self._definitions.get(name, {}))
        return self._known[name]

    def _typed(self, schema: Mapping[str, Json]) -> Payloads:
        match schema.get("type"):
            case "object":
                return self._object(schema)
            case "array":
                return self._array(schema)
            case "string":
                return self._string(schema)
            case "integer":
                return _integer(schema)
            case "number":
                return _number(schema)
            case "boolean":
                return st.booleans()
            case "null":
                return st.none()
            case _:
                return ANY_JSON

    def _object(self, schema: Mapping[str, Json]) -> Payloads:
        fields = {name: self.value(part) for name, part in schema.get("properties", {}).items()}
        required = set(schema.get("required", ()))
        declared = st.fixed_dictionaries(
            {name: field for name, field in fields.items() if name in required},
            optional={name: field for name, field in fields.items() if name not in required},
        )
        more = schema.get("additionalProperties", False)
        if more is False:
            return declared
        names = st.sampled_from(self._words)
        others = st.dictionaries(names, self.value(more), max_size=_ITEMS_MORE)
        return st.builds(lambda known, extra: {**extra, **known}, declared, others)

    def _array(self, schema: Mapping[str, Json]) -> Payloads:
        if "prefixItems" in schema:
            return st.tuples(*map(self.value, schema["prefixItems"])).map(list)
        least: int = schema.get("minItems", 0)
        most = min(schema.get("maxItems", least + _ITEMS_MORE), least + _ITEMS_MORE)
        items = self.value(schema.get("items", {}))
        unique = repr if schema.get("uniqueItems") else None
        return st.lists(items, min_size=least, max_size=most, unique_by=unique)

    def _string(self, schema: Mapping[str, Json]) -> Payloads:
        if "pattern" in schema:
            # In Python `$` is also before a last newline, elsewhere it is the end.
            matching: Payloads = st.from_regex(str(schema["pattern"]))
            return matching.filter(lambda text: not text.endswith("\n"))
        least: int = schema.get("minLength", 0)
        most: int = schema.get("maxLength", least + _CHARS_MORE)
        text = st.text(min_size=least, max_size=min(most, least + _CHARS_MORE))
        fitting = [word for word in self._words if least <= len(word) <= most]
        # Said twice: a name that is known is what a rule goes on with.
        known = st.sampled_from(fitting) if fitting else text
        return st.one_of(known, known, text)


def _integer(schema: Mapping[str, Json]) -> Payloads:
    least: int = schema.get("minimum", schema.get("exclusiveMinimum", _INT_MIN - 1) + 1)
    most: int = schema.get("maximum", schema.get("exclusiveMaximum", _INT_MAX + 1) - 1)
    middle = min(max(0, least), most)
    reaches = (_NEARER, _NEARER, _NEAR)
    near = [st.integers(max(least, middle - far), min(most, middle + far)) for far in reaches]
    return st.one_of(*near, st.integers(least, most))


def _number(schema: Mapping[str, Json]) -> Payloads:
    least = schema.get("minimum", schema.get("exclusiveMinimum"))
    most = schema.get("maximum", schema.get("exclusiveMaximum"))
    whole_least, whole_most = _INT_MIN, _INT_MAX
    if least is not None:
        whole_least = max(
            _INT_MIN, floor(least) + 1 if "exclusiveMinimum" in schema else ceil(least)
        )
    if most is not None:
        whole_most = min(_INT_MAX, ceil(most) - 1 if "exclusiveMaximum" in schema else floor(most))
    floats = st.floats(
        least,
        most,
        allow_nan=False,
        allow_infinity=False,
        exclude_min="exclusiveMinimum" in schema,
        exclude_max="exclusiveMaximum" in schema,
    )
    if whole_least > whole_most:
        return floats
    return st.one_of(_integer({"minimum": whole_least, "maximum": whole_most}), floats)
