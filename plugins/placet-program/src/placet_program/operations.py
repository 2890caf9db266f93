"""The table of the 27 operations, read by verify, simulate, compile and the documentation.

Ports are listed in order. An operation that takes several types has one overload for each; a node's
overload follows from its connections.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class OperationSignature(NamedTuple):
    """One way to use an operation: types of its ports, type of its result."""

    ports: tuple[str, ...]
    result: str


TYPES: Final = MappingProxyType({"int": int, "float": float, "bool": bool, "str": str})
TYPE_NAMES: Final = MappingProxyType({python: name for name, python in TYPES.items()})

TARGETED: Final[Mapping[str, str]] = MappingProxyType({"param": "parameter", "call": "function"})
"""The operations that name something besides nodes."""

_NUMBERS: Final = ("int", "float")
_ORDERED: Final = ("int", "float", "str")


def _alike(
    ops: str, types: tuple[str, ...], ports: int, result: str = ""
) -> dict[str, list[OperationSignature]]:
    """Make overloads whose ports all have one type; `result` is that type by default."""
    overloads = [OperationSignature((kind,) * ports, result or kind) for kind in types]
    return dict.fromkeys(ops.split(), overloads)


OVERLOADS: Final[Mapping[str, list[OperationSignature]]] = MappingProxyType(
    {
        **_alike("add sub mul div mod min max", _NUMBERS, 2),
        **_alike("neg abs", _NUMBERS, 1),
        **_alike("eq ne", tuple(TYPES), 2, "bool"),
        **_alike("lt le gt ge", _ORDERED, 2, "bool"),
        **_alike("and or", ("bool",), 2),
        **_alike("not", ("bool",), 1),
        "select": [OperationSignature(("bool", kind, kind), kind) for kind in TYPES],
        "to_int": [OperationSignature(("float",), "int")],
        "to_float": [OperationSignature(("int",), "float")],
        **_alike("to_str", tuple(TYPES), 1, "str"),
        **_alike("concat", ("str",), 2),
        **_alike("len", ("str",), 1, "int"),
    }
)
"""All but const, param and call, whose types stand in the node and in the signatures."""

RESULT_OF: Final[Mapping[str, Mapping[tuple[str | None, ...], str]]] = MappingProxyType(
    {
        op: {overload.ports: overload.result for overload in overloads}
        for op, overloads in OVERLOADS.items()
    }
)
"""Operation -> types of all ports -> type of the result: the quick way where all is connected."""

ONE_RESULT: Final[Mapping[str, str]] = MappingProxyType(
    {
        op: overloads[0].result
        for op, overloads in OVERLOADS.items()
        if len({overload.result for overload in overloads}) == 1
    }
)
"""The operations whose result has one type whatever comes in."""

TYPED_ALONE: Final = frozenset({"const", "param", "call", *ONE_RESULT})
"""The operations whose type is known without a look at what comes in."""

OPERATIONS: Final = ("const", "param", "call", *OVERLOADS)
