"""Payloads, collections and bounds of the domain `program`.

Nodes are addressed by names that the caller chose, so that a plan can use nodes that it creates. No
field grants a permission. Fields that an operation cannot have are refused here.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, NoReturn, NotRequired, TypeAlias

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError
from typing_extensions import TypedDict

from placet_program.operations import OPERATIONS, TARGETED, TYPE_NAMES

PREFIX: Final = "program."

FUNCTIONS: Final = "program.functions"
"""By name: `params` `returns` `exported` `nodes` `result` `hash`."""

CALLS: Final = "program.calls"
"""`caller>callee`, empty: created and deleted, so that it is known whether callers have changed."""

COMMITS: Final = "program.commits"
"""The commits of the program, by seq: `seq` `by` `op` `functions` `bytes`."""

VERSIONS: Final = "program.versions"
"""What a commit replaced, by seq and function: `function` `was`, which is None if it was new."""

HISTORY: Final = "program.history"
"""One entity, `kept`: `since`, the oldest seq that can be restored."""

ARTIFACTS: Final = "program.artifacts"
"""By entry: `source` `hash` `functions`, the hashes of what it was compiled from."""

COLLECTIONS: Final = (ARTIFACTS, CALLS, COMMITS, FUNCTIONS, HISTORY, VERSIONS)

FUNCTIONS_MAX: Final = 256
NODES_OF_FUNCTION_MAX: Final = 1_024
NODES_MAX: Final = 16_384
"""Of the whole program. What one batch may do with them is bounded by `Limits.batch_work_max`."""

VERIFY_NODE_WORK: Final = 4
COMPILE_NODE_WORK: Final = 5
COMMIT_NODE_WORK: Final = 3
MUTATION_WORK: Final = 10
"""Units of work of one node that is verified, compiled, or written and recorded, and of a mutation.
"""
PARAMS_MAX: Final = 16
FUNCTION_BYTES_MAX: Final = 256 * 1024
SOURCE_BYTES_MAX: Final = 256 * 1024
MUTATIONS_MAX: Final = 128
TEXT_CHARS_MAX: Final = 4_096
COMMITS_MAX: Final = 256
HISTORY_BYTES_MAX: Final = 8 * 1024 * 1024
OUTPUT_BYTES_MAX: Final = 32 * 1024
ROWS_MAX: Final = 200
FUEL_MAX: Final = 100_000
FUEL: Final = 4_000
TRACE_MAX: Final = 256
_SEQ_MAX: Final = 2**53

Name: TypeAlias = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,47}$")]
Type: TypeAlias = Literal["int", "float", "bool", "str"]
Seq: TypeAlias = Annotated[int, Field(ge=0, le=_SEQ_MAX)]
Rows: TypeAlias = Annotated[int, Field(ge=1, le=ROWS_MAX)]


def _to_scalar(value: object) -> object:
    """Validate a value of one of the four types.

    A union would report one error for each of them.
    """
    if type(value) not in TYPE_NAMES:
        raise PydanticCustomError("scalar", "input should be a number, true, false or a text")
    if type(value) is str and len(value) > TEXT_CHARS_MAX:
        raise PydanticCustomError("scalar", f"text should have at most {TEXT_CHARS_MAX} characters")
    return value


_Text = Annotated[str, Field(max_length=TEXT_CHARS_MAX)]
Scalar: TypeAlias = Annotated[
    bool | int | float | str,
    PlainValidator(_to_scalar, json_schema_input_type=bool | int | float | _Text),
]


class Param(TypedDict):
    """One parameter of a function.

    Attributes:
        name: Name of the parameter.
        type: Type of its values.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # read by pydantic

    name: Name
    type: Type


class _NodeFields(TypedDict):
    """One node of the graph.

    Attributes:
        op: The operation.
        value: Value of a const; its type is the const's type.
        target: Parameter name of a param, function name of a call.
        inputs: Names of the nodes at its ports, in port order; null is not connected.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # read by pydantic

    op: Annotated[str, Field(json_schema_extra={"enum": list(OPERATIONS)})]
    value: NotRequired[Scalar | None]
    target: NotRequired[Name | None]
    inputs: NotRequired[Annotated[list[Name | None], Field(max_length=PARAMS_MAX)]]


def _checked_node(node: _NodeFields) -> _NodeFields:
    op = node["op"]
    if op not in OPERATIONS:
        _fail(node, "op", f"op must be one of {', '.join(OPERATIONS)}")
    if op != "const" and node.get("value") is not None:
        _fail(node, "value", f"only a const has a value, and this is {op!r}")
    if op not in TARGETED and node.get("target") is not None:
        _fail(node, "target", f"only param and call have a target, and this is {op!r}")
    if op in TARGETED and node.get("target") is None:
        _fail(node, "target", f"{op!r} needs target, the name of its {TARGETED[op]}")
    return node


Node: TypeAlias = Annotated[_NodeFields, AfterValidator(_checked_node)]


class AddFunction(TypedDict):
    """A mutation that adds a function without nodes.

    Attributes:
        op: Name of the mutation.
        name: Name of the new function.
        params: Parameters, in order.
        returns: Type of the result.
        exported: Mark it as one that must be without errors, where the world verifies those.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # read by pydantic

    op: Literal["add_function"]
    name: Name
    params: NotRequired[Annotated[list[Param], Field(max_length=PARAMS_MAX)]]
    returns: Type
    exported: NotRequired[bool]


class RemoveFunction(TypedDict):
    """A mutation that removes a function which no other function calls.

    Attributes:
        op: Name of the mutation.
        name: Name of the function.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # read by pydantic

    op: Literal["remove_function"]
    name: Name


class SetNode(TypedDict):
    """A mutation that inserts or replaces one node, with the connections of its ports.

    Attributes:
        op: Name of the mutation.
        function: Name of the function.
        name: Name of the node.
        node: The node.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # read by pydantic

    op: Literal["set_node"]
    function: Name
    name: Name
    node: Node


class RemoveNode(TypedDict):
    """A mutation that removes a node, and disconnects the ports that it was connected to.

    Attributes:
        op: Name of the mutation.
        function: Name of the function.
        name: Name of the node.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # read by pydantic

    op: Literal["remove_node"]
    function: Name
    name: Name


class Connect(TypedDict):
    """A mutation that connects a node to a port of another node.

    Attributes:
        op: Name of the mutation.
        function: Name of the function.
        source: Name of the node whose value is used.
        target: Name of the node that uses it.
        port: Number of the port of the target, from 0.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # read by pydantic

    op: Literal["connect"]
    function: Name
    source: Name
    target: Name
    port: Annotated[int, Field(ge=0, lt=PARAMS_MAX)]


class SetResult(TypedDict):
    """A mutation that sets the node whose value a function returns.

    Attributes:
        op: Name of the mutation.
        function: Name of the function.
        node: Name of the node whose value is the result.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # read by pydantic

    op: Literal["set_result"]
    function: Name
    node: Name


def _placed(value: object, validate: ValidatorFunctionWrapHandler) -> object:
    """Remove the union's tag from the locations of errors: it is no step into the payload."""
    try:
        return validate(value)
    except ValidationError as error:
        raise ValidationError.from_exception_data(
            error.title, [_without_tag(detail) for detail in error.errors()]
        ) from None


def _without_tag(detail: ErrorDetails) -> InitErrorDetails:
    context = {**detail.get("ctx", {}), "complaint": detail["msg"]}
    reason = PydanticCustomError(detail["type"], "{complaint}", context)
    return InitErrorDetails(type=reason, loc=detail["loc"][1:], input=detail["input"])


Mutation: TypeAlias = Annotated[
    AddFunction | RemoveFunction | SetNode | RemoveNode | Connect | SetResult,
    Field(discriminator="op"),
    WrapValidator(_placed),
]


class MutateBatch(TypedDict):
    """Payload of `program.mutate_batch`: mutations of functions; all are applied, or none.

    Attributes:
        mutations: Mutations, in order.
        expected: Function -> the hash that it must still have.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # read by pydantic

    mutations: Annotated[list[Mutation], Field(min_length=1, max_length=MUTATIONS_MAX)]
    expected: NotRequired[
        Annotated[
            dict[Name, Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]],
            Field(max_length=FUNCTIONS_MAX),
        ]
    ]


class Verify(TypedDict):
    """Payload of `program.verify`: the function whose errors to report; None is all.

    Attributes:
        function: Name of the function.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # read by pydantic

    function: NotRequired[Name | None]


class Compile(TypedDict):
    """Payload of `program.compile`: the function to compile into Python, with its callees.

    Attributes:
        entry: Name of the function.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # read by pydantic

    entry: Name


class Simulate(TypedDict):
    """Payload of `program.simulate`: the function to run, and its inputs.

    Attributes:
        function: Name of the function.
        inputs: Parameter -> value; an int is accepted for a float.
        trace: Include the value of every node, in order.
        fuel: Maximum number of steps.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # read by pydantic

    function: Name
    inputs: NotRequired[Annotated[dict[Name, Scalar], Field(max_length=PARAMS_MAX)]]
    trace: NotRequired[bool]
    fuel: NotRequired[Annotated[int, Field(ge=1, le=FUEL_MAX)]]


class _InspectFields(TypedDict):
    """Payload of `program.inspect`: the part of the program to read.

    Attributes:
        what: `overview` of all functions, one `function`, one `node` of it, or a `search`.
        function: For `function` and `node`.
        node: For `node`.
        text: For `search`: part of a name, an operation, a target or a text.
        limit: Maximum number of rows.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # read by pydantic

    what: Literal["overview", "function", "node", "search"]
    function: NotRequired[Name | None]
    node: NotRequired[Name | None]
    text: NotRequired[Annotated[str, Field(min_length=1, max_length=200)] | None]
    limit: NotRequired[Rows]


_NEEDED: Final = {
    "overview": (),
    "function": ("function",),
    "node": ("function", "node"),
    "search": ("text",),
}


def _checked_inspect(payload: _InspectFields) -> _InspectFields:
    for name in _NEEDED[payload["what"]]:
        if payload.get(name) is None:
            _fail(payload, name, f"to inspect a {payload['what']} needs {name}")
    return payload


Inspect: TypeAlias = Annotated[_InspectFields, AfterValidator(_checked_inspect)]


class HistoryQuery(TypedDict):
    """Payload of `program.history_query`: the part of the history of changes to read.

    Attributes:
        op: `list` returns the commits between two seqs, `diff` the differences of the program at
            them.
        from_seq: Defaults to the oldest seq that is known.
        to_seq: Defaults to the current seq.
        limit: Maximum number of rows; a list has the latest.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # read by pydantic

    op: Literal["list", "diff"]
    from_seq: NotRequired[Seq | None]
    to_seq: NotRequired[Seq | None]
    limit: NotRequired[Rows]


class Restore(TypedDict):
    """Payload of `program.restore`: the earlier seq whose program a new commit restores.

    Attributes:
        to_seq: The seq.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # read by pydantic

    to_seq: Seq


def _fail(holder: Mapping[str, object], field: str, message: str) -> NoReturn:
    """Raise an error with a location, which a ValueError from a validator would not have."""
    reason = PydanticCustomError("program", "{reason}", {"reason": message})
    raise ValidationError.from_exception_data(
        field, [InitErrorDetails(type=reason, loc=(field,), input=holder.get(field))]
    )
