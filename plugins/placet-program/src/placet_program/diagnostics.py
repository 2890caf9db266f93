"""Infer types and verify functions. Iterative, each node once: O(nodes).

A naive inference doubles its work with every `add(x, x)` of a chain, and a recursive one overflows
the stack; a planner may submit both.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from placet.schemas.codec import Json
from placet_program.functions import Function, Functions, Node
from placet_program.operations import (
    ONE_RESULT,
    OVERLOADS,
    RESULT_OF,
    TYPE_NAMES,
    TYPED_ALONE,
)
from placet_program.payloads import PREFIX, VERIFY_NODE_WORK

Types: TypeAlias = dict[str, str | None]
"""Node -> its type, None where it cannot be known; filled as it is asked."""


class Diagnostic(NamedTuple):
    """One error or warning that `verify` found in a function. Only errors block a run."""

    code: str
    message: str
    function: str
    node: str = ""
    port: int | None = None
    severity: Literal["error", "warning"] = "error"

    def as_dict(self) -> dict[str, Json]:
        """Return the diagnostic as plain values."""
        return {**self._asdict(), "code": PREFIX + self.code}


def type_of(functions: Functions, function: Function, name: str, types: Types) -> str | None:
    """Return the type of a node's value, inferred from its connections; None if undecided.

    Args:
        functions: All functions.
        function: The function of the node.
        name: Name of the node.
        types: Node -> type, as far as inferred; the types found are added.
    """
    todo = [name]
    while todo:
        current = todo[-1]
        node = function.nodes.get(current)
        waits_for = [] if current in types or node is None else _undecided(node, types)
        if waits_for:
            todo += waits_for
            continue
        if current not in types:
            types[current] = None if node is None else _type(functions, function, node, types)
        todo.pop()
    return types[name]


def _undecided(node: Node, types: Types) -> list[str]:
    """Return the unset inputs that determine a node's type."""
    if node["op"] in TYPED_ALONE:
        return []
    return [source for source in node["inputs"] if source is not None and source not in types]


def _type(functions: Functions, function: Function, node: Node, types: Types) -> str | None:
    op = node["op"]
    if op == "const":
        return TYPE_NAMES[type(node["value"])]
    if op == "param":
        return function.params.get(node["target"])
    if op == "call":
        callee = functions.find(node["target"])
        return None if callee is None else callee.returns
    if op in ONE_RESULT:
        return ONE_RESULT[op]
    inputs = _given(node, types)
    if inputs in RESULT_OF[op]:
        return RESULT_OF[op][inputs]
    fitting = {overload.result for overload in OVERLOADS[op] if _fits(inputs, overload.ports)}
    return fitting.pop() if len(fitting) == 1 else None


def _given(node: Node, types: Types) -> tuple[str | None, ...]:
    return tuple([None if source is None else types.get(source) for source in node["inputs"]])


def _fits(inputs: tuple[str | None, ...], ports: tuple[str, ...]) -> bool:
    return all(kind is None or kind == wanted for kind, wanted in zip(inputs, ports, strict=True))


def mismatches(
    functions: Functions, function: Function, name: str, types: Types
) -> Iterator[Diagnostic]:
    """Yield an error for each input of a node that has a wrong type."""
    node = function.nodes[name]
    for source in node["inputs"]:
        if source is not None and source not in types:
            type_of(functions, function, source, types)
    inputs, op = _given(node, types), node["op"]
    if op in RESULT_OF and inputs in RESULT_OF[op]:
        return
    if op == "call":
        callee = functions.find(node["target"])
        params = [] if callee is None else list(callee.params.items())
        for port, (kind, (param, want)) in enumerate(zip(inputs, params, strict=True)):
            if kind not in {None, want}:
                message = f"{name!r} gives {kind} to {param!r} of {node['target']!r}, not {want}"
                yield Diagnostic("type_mismatch", message, function.name, name, port)
    elif op in OVERLOADS and not any(_fits(inputs, overload.ports) for overload in OVERLOADS[op]):
        came = ", ".join(kind or "?" for kind in inputs)
        takes = " or ".join(f"({', '.join(overload.ports)})" for overload in OVERLOADS[op])
        message = f"{name!r} is {op}({came}), and {op} takes {takes}"
        yield Diagnostic("type_mismatch", message, function.name, name)


def verify(functions: Functions, function: Function) -> list[Diagnostic]:
    """Return all errors and unused nodes of a function, by node. O(nodes)."""
    functions.charge(len(function.nodes) * VERIFY_NODE_WORK)
    types: Types = {}
    diagnostics: list[Diagnostic] = []
    for name in sorted(function.nodes):
        diagnostics += mismatches(functions, function, name, types)
        diagnostics += [
            Diagnostic(
                "missing_input", f"port {port} of {name!r} is open", function.name, name, port
            )
            for port, source in enumerate(function.nodes[name]["inputs"])
            if source is None
        ]
    if function.result is None:
        message = f"{function.name!r} has no result; say which node by set_result"
        return [*diagnostics, Diagnostic("no_result", message, function.name)]
    kind = type_of(functions, function, function.result, types)
    if kind not in {None, function.returns}:  # where it has none, that is complained of already
        message = f"{function.name!r} returns {function.returns}, {function.result!r} is {kind}"
        at = (function.name, function.result)
        diagnostics.append(Diagnostic("result_type_mismatch", message, *at))
    return [*diagnostics, *_idle(function, function.result)]


def _idle(function: Function, result: str) -> Iterator[Diagnostic]:
    live, todo = {result}, [result]
    while todo:
        fresh = {source for source in function.nodes[todo.pop()]["inputs"] if source} - live
        live |= fresh
        todo += fresh
    for name in sorted(function.nodes.keys() - live):
        message = f"{name!r} does not reach the result"
        yield Diagnostic("dead_node", message, function.name, name, severity="warning")
    used = {function.nodes[name].get("target") for name in live if _is_param(function, name)}
    for param in function.params:
        if param not in used:
            message = f"parameter {param!r} of {function.name!r} is not used"
            yield Diagnostic("unused_param", message, function.name, severity="warning")


def _is_param(function: Function, name: str) -> bool:
    return bool(function.nodes[name]["op"] == "param")


def errors_of(functions: Functions, name: str) -> list[Diagnostic]:
    """List the errors of a function and of all functions that it calls."""
    return [
        diagnostic
        for function in functions.reachable(name)
        for diagnostic in verify(functions, function)
        if diagnostic.severity == "error"
    ]
