"""The validator of intents, compiled by pydantic: one variant per kind, told apart by `kind`.

A kind's payload is validated in Python mode if pydantic makes plain values of it; a model, or
any type that could let other objects in, is validated as strict JSON instead, so that a batch
means the same in every form of input. Unknown fields are dropped by the validator without an
error: its caller compares the number of fields.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache, reduce
from operator import or_
from typing import Annotated, Any, Final, Literal, NamedTuple, NotRequired, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    PlainValidator,
    TypeAdapter,
    ValidationInfo,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema
from typing_extensions import TypedDict, is_typeddict

from placet.kernel.plugin.registry import Registry
from placet.schemas.codec import Json, to_json
from placet.schemas.condition import (
    CONDITIONS_MAX,
    PATH_STEPS_MAX,
    PATH_STEPS_MIN,
    Condition,
    ConditionOp,
)
from placet.schemas.identity import ID_CHARS_MAX, ID_PATTERN
from placet.schemas.intent import SCHEMA_VERSION, Intent
from placet.schemas.json_value import InvalidJsonValue, ValueBudget, to_json_value
from placet.schemas.limits import SECOND_NS, Limits

Shape = Any
"""A type made at run time; only pydantic reads it."""

_Id = Annotated[str, Field(strict=True, min_length=1, max_length=ID_CHARS_MAX, pattern=ID_PATTERN)]
_Until = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0, lt=2**63 / SECOND_NS)]
_Seq = Annotated[int, Field(strict=True, ge=0, lt=2**63)]
_Priority = Annotated[int, Field(strict=True, ge=0, le=100)]

_Step = Annotated[str, Field(min_length=1, max_length=ID_CHARS_MAX)]


class _Condition(TypedDict):
    """A condition of an intent, as it is validated."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # type: ignore[misc]  # pydantic's

    path: Annotated[
        list[_Step], Field(min_length=PATH_STEPS_MIN, max_length=PATH_STEPS_MAX, strict=True)
    ]
    op: ConditionOp
    value: NotRequired[Any]


def _whole(condition: Condition) -> Condition:
    """Return a condition that has the value which its operator needs, and else none."""
    op = condition["op"]
    if ("value" in condition) == (op in {"exists", "absent"}):
        takes = "takes no value" if "value" in condition else "needs a value"
        raise PydanticCustomError("condition", f"a condition with op {op!r} {takes}")
    if op == "in" and not isinstance(condition["value"], list | tuple):
        raise PydanticCustomError("condition", "a condition with op 'in' needs an array of values")
    return condition


_FIELDS: Final[dict[str, Any]] = {
    "agent_id": _Id,
    "req_id": _Id,
    "context_seq": _Seq,
    "priority": _Priority,
    "schema_version": Literal[SCHEMA_VERSION],
    "valid_until": NotRequired[_Until | None],
}
"""The fields of an intent of any kind, besides its conditions."""

Validate: TypeAlias = Callable[..., list[Any]]
"""`validate_python` of a compiled validator of lists."""

_PLAIN: Final = frozenset(
    {
        "typed-dict", "typed-dict-field", "dict", "list", "tuple", "str", "int", "float", "bool",
        "none", "literal", "nullable", "union", "tagged-union", "default", "json-or-python",
        "definitions", "function-before", "function-after", "function-wrap", "function-plain",
        "no-info", "with-info",
    }
)  # fmt: skip
"""Schema types that make plain values of strict input; a kind's own functions are trusted to."""

_SHARED_MAX: Final = 32

_ENDLESS: Final = frozenset({"any", "definition-ref"})
"""Schema types that may pass plain values through uncopied, of any depth and size."""

_ORDERED: Final = frozenset({"dict"})
"""Schema types that keep the order of input keys, which is lost once they are encoded."""

_READ_FROM_TEXT: Final = frozenset({"int", "float", "bool"})
"""Key types that a plain object has as text, which is read in JSON mode alone."""

_NOT_SCHEMAS: Final = frozenset({"default", "expected", "json_schema", "metadata", "serialization"})
"""Keys of a schema that hold data, or describe other modes than Python mode."""


def intents_adapter(registry: Registry, limits: Limits) -> TypeAdapter[list[Intent]]:
    """Return the compiled validator of a list of intents; worlds of the same kinds share it."""
    shapes = tuple((kind.name, kind.payload) for kind in registry)
    try:
        return _shared(shapes, limits)
    except TypeError:  # a payload that has no hash
        return _compiled(shapes, limits)


def _compiled(shapes: tuple[tuple[str, Shape], ...], limits: Limits) -> TypeAdapter[list[Intent]]:
    variants = [
        _variant(name, _payload(payload, limits), _conditions(limits), is_open=_has_config(payload))
        for name, payload in shapes
    ]
    shape: Shape = variants[0]
    if len(variants) > 1:
        shape = Annotated[reduce(or_, variants), Field(discriminator="kind")]
    return TypeAdapter(Annotated[list[shape], Field(strict=True)], config=ConfigDict(strict=True))


_shared = lru_cache(maxsize=_SHARED_MAX)(_compiled)
"""Compiling takes 5 ms a kind, and a process may open many worlds of the same kinds."""


class ColumnValidators(NamedTuple):
    """The validators of many intents, one column at a time.

    Attributes:
        frames: Validates a list of intents of exactly the required fields, except for the payload.
        payloads: Kind -> validator of a list of its payloads.
    """

    frames: Validate
    payloads: Mapping[str, Validate]


def column_validators(registry: Registry, limits: Limits) -> ColumnValidators:
    """Return the validators that together accept what that of `intents_adapter` accepts.

    A list of payloads of one kind is validated in half the time that they take inside of intents.
    """
    shapes = tuple((kind.name, kind.payload) for kind in registry)
    try:
        return _shared_columns(shapes, limits)
    except TypeError:  # a payload that has no hash
        return _compiled_columns(shapes, limits)


def _compiled_columns(shapes: tuple[tuple[str, Shape], ...], limits: Limits) -> ColumnValidators:
    make: Shape = TypedDict
    fields = {name: shape for name, shape in _FIELDS.items() if name != "valid_until"}
    frame = make("Frame", {"kind": Annotated[str, Field(strict=True)], "payload": Any, **fields})
    frame.__pydantic_config__ = ConfigDict(extra="ignore", strict=True)
    payloads = {
        name: _list_of(_payload(payload, limits), "ignore" if _has_config(payload) else "forbid")
        for name, payload in shapes
    }
    return ColumnValidators(_list_of(frame, "ignore"), payloads)


_shared_columns = lru_cache(maxsize=_SHARED_MAX)(_compiled_columns)


def _list_of(shape: Shape, extra: Literal["ignore", "forbid"]) -> Validate:
    config = ConfigDict(strict=True, extra=extra)
    adapter: TypeAdapter[list[Json]] = TypeAdapter(
        Annotated[list[shape], Field(strict=True)], config=config
    )
    return adapter.validator.validate_python


def _conditions(limits: Limits) -> Shape:
    """Build the type of the conditions of an intent: plain values, bounded as payloads are."""
    return Annotated[
        list[Annotated[_Condition, AfterValidator(_whole)]],
        Field(min_length=1, max_length=CONDITIONS_MAX, strict=True),
        BeforeValidator(_bounded(limits)),
    ]


def _variant(name: str, payload: Shape, expect: Shape, *, is_open: bool) -> Shape:
    """Build the TypedDict of the intents of one kind.

    A payload type without a configuration inherits that of the intent, so the intent's stays
    closed.
    """
    fields = {
        "kind": Literal[name],
        "payload": payload,
        **_FIELDS,
        "expect": NotRequired[expect],
    }
    make: Shape = TypedDict  # by another name: the fields are known at run time only
    variant = make(f"Intent_{name}", fields)
    extra: Literal["ignore", "forbid"] = "ignore" if is_open else "forbid"
    variant.__pydantic_config__ = ConfigDict(extra=extra, strict=True)
    return variant


def _has_config(payload: Shape) -> bool:
    return is_typeddict(payload) and hasattr(payload, "__pydantic_config__")


def _bounded(limits: Limits) -> Callable[[object, ValidationInfo], Json]:
    """Return a function that copies a value into plain values, within the limits of a payload."""

    def bounded(value: object, info: ValidationInfo) -> Json:
        # The context is the batch's `ValueBudget`; None for a batch read back from a record.
        budget: ValueBudget | None = info.context
        if budget is not None and budget.is_failed:
            raise InvalidJsonValue("not looked at: another payload is refused")
        depth_max, bytes_max = limits.payload_depth_max, limits.payload_bytes_max
        try:
            return to_json_value(value, depth_max, bytes_max, budget)
        except InvalidJsonValue:
            if budget is not None:
                budget.is_failed = True
            raise

    return bounded


def _payload(payload: Shape, limits: Limits) -> Shape:
    adapter: TypeAdapter[object] = TypeAdapter(payload)
    parts, bounded = _parts_of(adapter.core_schema), _bounded(limits)

    def as_json(value: object, info: ValidationInfo) -> dict[str, Json]:
        text = to_json(bounded(value, info))
        model = adapter.validate_json(text, strict=True, by_alias=True, by_name=True)
        return _as_object(adapter.dump_python(model, mode="json"))

    is_copied = parts & (_ENDLESS | _ORDERED)
    # A plain copy has lists, which strict JSON takes for tuples, and strict Python does not.
    if parts - _PLAIN - _ENDLESS or (is_copied and "tuple" in parts):
        return Annotated[Any, PlainValidator(as_json)]
    if is_copied:
        payload = Annotated[payload, BeforeValidator(bounded)]
    elif is_typeddict(payload):
        return payload
    return Annotated[payload, _MustBeObject]


def _as_object(value: object) -> dict[str, Json]:
    if type(value) is not dict:
        raise ValueError(f"a payload must be an object, got {type(value).__name__}")
    return value


class _MustBeObject:
    """Marks a payload type whose functions may return anything: pydantic checks the result."""

    @staticmethod
    def __get_pydantic_core_schema__(source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        is_object = core_schema.custom_error_schema(
            core_schema.is_instance_schema(dict),
            custom_error_type="not_an_object",
            custom_error_message="a payload must be an object",
        )
        return core_schema.chain_schema([handler(source), is_object])


def _parts_of(schema: object) -> set[str]:
    """Collect the parts of a core schema, in Python mode."""
    types: set[str] = set()
    if isinstance(schema, dict):
        is_node = isinstance(schema.get("type"), str)  # else it maps names to nodes
        if is_node:
            types.add(schema["type"])
            if schema.get("extra_behavior") == "allow":  # fields of which nothing else is said
                types.add("any")
            if _parts_of(schema.get("keys_schema")) & _READ_FROM_TEXT:
                types.add("keys")
        for name, part in schema.items():
            if not is_node or name not in _NOT_SCHEMAS:
                types |= _parts_of(part)
    elif isinstance(schema, list | tuple):
        for part in schema:
            types |= _parts_of(part)
    return types
