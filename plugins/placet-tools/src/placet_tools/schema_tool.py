"""A tool with a JSON schema in place of a signature, such as a tool of an MCP server.

The names of its parameters need not be identifiers of Python, so its function takes the arguments
as one mapping, with the key of the call. References of a schema to other documents are not
followed: arguments that need one are refused.
"""

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, ClassVar, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError, best_match
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from pydantic import ConfigDict, GetJsonSchemaHandler, JsonValue, RootModel, model_validator
from pydantic_core import CoreSchema, PydanticCustomError
from referencing import Registry
from referencing.exceptions import Unresolvable

from placet.kernel.plugin.domain import Risk
from placet.schemas.codec import Json
from placet.schemas.effect import Delivery
from placet.schemas.identity import is_kind_name
from placet.schemas.name_suggestions import did_you_mean
from placet_tools.tool import (
    OWN_PARTS,
    DeclaredTool,
    Function,
    ToolError,
    delivery_of,
    require_known_fields,
    require_quota,
    require_risk,
    require_seconds,
)

_NOT_OF_KINDS: Final = re.compile(r"[^A-Za-z0-9]+")
_HAS_HASH: Final = re.compile(r".*_[0-9a-f]{8}")
_STEM_CHARS_MAX: Final = 20
_WORDS_MAX: Final = 500


class _Arguments(RootModel[dict[str, JsonValue]]):
    """Arguments that a JSON schema describes."""

    model_config = ConfigDict(frozen=True)
    server_schema: ClassVar[dict[str, Any]]
    validator: ClassVar[Validator]

    @model_validator(mode="before")
    @classmethod
    def _check(cls, value: object) -> object:
        try:
            error = best_match(cls.validator.iter_errors(value))
        except Unresolvable as unresolvable:
            raise _misfit(f"the schema of the tool refers to {unresolvable.ref!r}") from None
        except RecursionError as fault:
            raise _misfit(f"the schema of the tool cannot be applied: {fault}") from None
        if error is not None:
            raise _misfit(_in_words(error))
        return value

    @classmethod
    def model_json_schema(cls, *_: object, **__: object) -> dict[str, Any]:
        """Return the schema as it was declared."""
        return cls.server_schema

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        # pydantic resolves references to its definitions alone.
        is_whole = "$ref" not in repr(cls.server_schema)
        return dict(cls.server_schema) if is_whole else {"type": "object"}


def _misfit(words: str) -> PydanticCustomError:
    """Return the error of arguments, whose text a model reads; a ValueError would have a prefix."""
    return PydanticCustomError("arguments_invalid", "{words}", {"words": words})


def _in_words(error: ValidationError) -> str:
    """Return the text of a fault of arguments; plain words for a missing or unknown one."""
    place, found = ".".join(map(str, error.absolute_path)), error.instance
    at = f"{place}: " if place else ""
    if error.validator == "required" and isinstance(found, Mapping):
        missing = [name for name in error.validator_value if name not in found]
        return f"{at}the argument {', '.join(map(repr, missing))} is missing"[:_WORDS_MAX]
    known = error.schema.get("properties", {}) if isinstance(error.schema, Mapping) else {}
    if error.validator == "additionalProperties" and isinstance(found, Mapping) and known:
        for name in found:
            if name not in known and error.validator_value is False:
                return f"{at}there is no argument {name!r:.80}; {did_you_mean(name, list(known))}"
    return f"{at}{error.message}"[:_WORDS_MAX]


def make_schema_tool(
    name: str,
    schema: Mapping[str, Json],
    function: Function,
    *,
    summary: str,
    risk: Risk,
    once: str,
    delivery: Delivery | None,
    quota: Mapping[str, float] | None,
    seconds_max: float | None,
    definition: str,
) -> DeclaredTool:
    """Make a tool of a JSON schema.

    Raises:
        ToolError: The schema is not valid, or an option does not fit.
    """
    for option, value in {"name": name, "summary": summary, "definition": definition}.items():
        if not isinstance(value, str):
            raise ToolError(f"a tool of a schema has a text as {option}, got {value!r}")
    if not isinstance(schema, Mapping):
        raise ToolError(f"tool {name}: the schema must be a mapping, got {schema!r:.200}")
    if not callable(function):
        raise ToolError(
            f"tool {name}: a function of (arguments, key) must run its calls, got {function!r}"
        )
    require_risk(name, risk)
    require_quota(name, quota)
    require_seconds(name, seconds_max)
    payload = _payload(name, schema)
    required = schema.get("required", ())
    require_known_fields(name, once, dict.fromkeys(required))
    return DeclaredTool(
        name=name,
        kind=_kind_part(name),
        function=function,
        payload=payload,
        logged=payload,
        summary=summary,
        risk=risk,
        delivery=delivery_of(name, delivery or "at_most_once", risk, has_key=True),
        once=once,
        quota=quota,
        seconds_max=seconds_max,
        takes_mapping=True,
        definition=definition,
    )


def _payload(name: str, schema: Mapping[str, Json]) -> type[_Arguments]:
    if schema.get("type") != "object":
        raise ToolError(
            f"tool {name}: the schema of arguments has the type 'object', got "
            f"{schema.get('type')!r}"
        )
    make = validator_for(schema, default=Draft202012Validator)
    try:
        make.check_schema(schema)
    except SchemaError as error:
        raise ToolError(f"tool {name}: the schema is not valid: {error.message:.500}") from None
    own = {
        "__module__": __name__,
        "__doc__": f"Arguments of {name}.",
        "server_schema": _in_order(schema),
        # Without a registry the library would load other documents from the network.
        "validator": make(schema, registry=Registry()),
    }
    return type("Arguments", (_Arguments,), own)


def _in_order(schema: Mapping[str, Json]) -> dict[str, Json]:
    """Return a schema with its required properties first, in the order of `required`.

    The text that is pinned has sorted names, and `required` is a list, which keeps its order.
    """
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping) or not isinstance(required, list):
        return dict(schema)
    first = {name: properties[name] for name in required if name in properties}
    return {**schema, "properties": {**first, **properties}}


def _kind_part(name: str) -> str:
    """Return the last part of the kind of a tool: its name, or one made of it that a kind may have.

    Two names never have one kind: a name that is changed ends with a hash, as no other one may.
    """
    is_plain = is_kind_name(name) and "." not in name and len(name) <= _STEM_CHARS_MAX
    if is_plain and name not in OWN_PARTS and _HAS_HASH.fullmatch(name) is None:
        return name
    stem = _NOT_OF_KINDS.sub("_", name).strip("_")
    stem = stem if stem[:1].isalpha() else f"tool_{stem}"
    digest = blake2b(name.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return f"{stem[:_STEM_CHARS_MAX].strip('_')}_{digest}"
