"""Apply a batch of mutations to functions: all of them, or a refusal.

A named function or node must exist at once; connections are checked at the end of the batch, so a
planner may connect a node that comes later in the same batch. Only touched nodes are checked: an
unfinished function is no error here, `verify` reports it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from placet.kernel.plugin.domain import RuleRefusal, refuse
from placet.schemas.codec import Json
from placet_program.diagnostics import Types, mismatches
from placet_program.edit_buffer import EditBuffer
from placet_program.functions import Function, Node
from placet_program.operations import OVERLOADS, TARGETED
from placet_program.payloads import (
    FUNCTIONS_MAX,
    MUTATION_WORK,
    NODES_MAX,
    NODES_OF_FUNCTION_MAX,
)
from placet_program.refusals import unknown_function, unknown_node, unknown_param

Mutation: TypeAlias = Mapping[str, Json]

_RESULT: Final = ""
"""Stands among the touched nodes for the function's result; no node has this name."""

_Touched: TypeAlias = dict[str, dict[str, int]]
"""Function -> node -> which mutation touched it last."""


def apply(edits: EditBuffer, mutations: Sequence[Mutation]) -> RuleRefusal | None:
    """Apply the mutations of a `program.mutate_batch` to an edit buffer, in order.

    Then check the new connections and the number of nodes.

    Args:
        edits: The functions; they stay edited if the result is a refusal.
        mutations: Mutations, as in the payload.

    Returns:
        None, or the refusal of the first invalid mutation; its `at` points to the mutation.
    """
    touched: _Touched = {}
    edits.charge(len(mutations) * MUTATION_WORK)
    for index, mutation in enumerate(mutations):
        refusal = _APPLY[mutation["op"]](edits, mutation)
        if refusal is not None:
            return refusal._replace(at=f"/mutations/{index}{refusal.at}")
        if mutation["op"] in _TOUCHES:
            node = mutation.get(_TOUCHES[mutation["op"]], _RESULT)
            touched.setdefault(mutation["function"], {})[node] = index
    for name, nodes in touched.items():
        function = edits.find(name)
        if function is not None:
            refusal = _connection_refusal(edits, function, nodes)
            if refusal is not None:
                return refusal
    return _too_many_nodes(edits) if touched else None


_TOUCHES: Final = {"set_node": "name", "connect": "target", "set_result": "-"}
"""Where each mutation names the node that it touches; none is called '-', so it is the result."""


def _add_function(edits: EditBuffer, mutation: Mutation) -> RuleRefusal | None:
    name, params = mutation["name"], mutation.get("params", ())
    if edits.find(name) is not None:
        message = f"there is a function {name!r} already; change it, or choose another name"
        return refuse("duplicate_function", message, at="/name")
    types = {param["name"]: param["type"] for param in params}
    if len(types) < len(params):
        message = f"function {name!r} has two parameters of one name; give each its own"
        return refuse("duplicate_param", message, at="/params")
    if len(edits.names()) >= FUNCTIONS_MAX:
        message = f"a program has at most {FUNCTIONS_MAX} functions; remove one first"
        return refuse("too_many_functions", message, limit=FUNCTIONS_MAX)
    is_exported = mutation.get("exported", False)
    edits.put(Function(name, types, mutation["returns"], is_exported, {}, None))
    return None


def _remove_function(edits: EditBuffer, mutation: Mutation) -> RuleRefusal | None:
    name = mutation["name"]
    if edits.find(name) is None:
        return unknown_function(name, edits, "/name")
    callers = edits.callers(name)
    if callers:
        message = f"{name!r} is called by {', '.join(callers)}; change them first"
        return refuse("function_in_use", message, at="/name", callers=callers)
    edits.remove(name)
    return None


def _set_node(edits: EditBuffer, mutation: Mutation) -> RuleRefusal | None:
    function = edits.edit(mutation["function"])
    if function is None:
        return unknown_function(mutation["function"], edits, "/function")
    name, wanted = mutation["name"], mutation["node"]
    refusal = _node_refusal(edits, function, wanted)
    if refusal is not None:
        return refusal
    if name not in function.nodes and len(function.nodes) >= NODES_OF_FUNCTION_MAX:
        return _full(f"a function has at most {NODES_OF_FUNCTION_MAX} nodes", NODES_OF_FUNCTION_MAX)
    ports, inputs = _port_count(edits, wanted), wanted.get("inputs", ())
    if len(inputs) > ports:
        message = f"{wanted['op']} has {ports} ports, {len(inputs)} inputs came"
        return refuse("too_many_inputs", message, at="/node/inputs", limit=ports)
    node: dict[str, Json] = {
        "op": wanted["op"],
        "inputs": (*inputs, *[None] * (ports - len(inputs))),
    }
    if node["op"] == "const":
        node["value"] = wanted["value"]
    if node["op"] in TARGETED:
        node["target"] = wanted["target"]
    function.nodes[name] = node
    return None


def _node_refusal(edits: EditBuffer, function: Function, node: Node) -> RuleRefusal | None:
    """Return the refusal of a node that is invalid by itself: by its value, or a name in it."""
    op = node["op"]
    if op == "const" and node.get("value") is None:
        message = "a const needs a value: an int, a float, true, false or a text"
        return refuse("const_without_value", message, at="/node/value")
    if op == "param" and node["target"] not in function.params:
        return unknown_param(node["target"], function, "/node/target")
    if op == "call" and edits.find(node["target"]) is None:
        return unknown_function(node["target"], edits, "/node/target")
    return None


def _port_count(edits: EditBuffer, node: Node) -> int:
    if node["op"] == "call":
        callee = edits.find(node["target"])
        return 0 if callee is None else len(callee.params)
    overloads = OVERLOADS.get(node["op"])
    return 0 if overloads is None else len(overloads[0].ports)


def _remove_node(edits: EditBuffer, mutation: Mutation) -> RuleRefusal | None:
    function, name = edits.edit(mutation["function"]), mutation["name"]
    if function is None:
        return unknown_function(mutation["function"], edits, "/function")
    if name not in function.nodes:
        return unknown_node(name, function, "/name")
    edits.charge(len(function.nodes) // 16)
    function.remove_node(name)
    return None


def _connect(edits: EditBuffer, mutation: Mutation) -> RuleRefusal | None:
    function, target, port = edits.edit(mutation["function"]), mutation["target"], mutation["port"]
    if function is None:
        return unknown_function(mutation["function"], edits, "/function")
    node = function.nodes.get(target)
    if node is None:
        return unknown_node(target, function, "/target")
    inputs = list(node["inputs"])
    if port >= len(inputs):
        message = f"{target!r} is a {node['op']} and has {len(inputs)} ports, counted from 0"
        return refuse("unknown_port", message, at="/port", ports=len(inputs))
    inputs[port] = mutation["source"]
    function.nodes[target] = {**node, "inputs": tuple(inputs)}
    return None


def _set_result(edits: EditBuffer, mutation: Mutation) -> RuleRefusal | None:
    function = edits.edit(mutation["function"])
    if function is None:
        return unknown_function(mutation["function"], edits, "/function")
    function.result = mutation["node"]
    return None


_APPLY: Final[Mapping[str, Callable[[EditBuffer, Mutation], RuleRefusal | None]]] = {
    "add_function": _add_function,
    "remove_function": _remove_function,
    "set_node": _set_node,
    "remove_node": _remove_node,
    "connect": _connect,
    "set_result": _set_result,
}


def _connection_refusal(
    edits: EditBuffer, function: Function, touched: dict[str, int]
) -> RuleRefusal | None:
    """Check the connections of a function's touched nodes: existence, cycles, types."""
    nodes = function.nodes
    edits.charge(len(nodes) * 2)
    for name, index in touched.items():
        needed = (function.result,) if name == _RESULT else nodes.get(name, _NO_NODE)["inputs"]
        for source in needed:
            if source is not None and source not in nodes:
                return unknown_node(source, function, f"/mutations/{index}")
    circle = _circle(nodes, touched)
    if circle:
        index = max(touched[name] for name in circle if name in touched)
        message = f"{' needs '.join([*circle, circle[0]])}: {function.name!r} would go in a circle"
        return refuse("cycle", message, at=f"/mutations/{index}", nodes=circle)
    types: Types = {}
    for name, index in touched.items():
        if name in nodes:
            for mismatch in mismatches(edits, function, name, types):
                return refuse(mismatch.code, mismatch.message, at=f"/mutations/{index}")
    return None


_NO_NODE: Final[Node] = {"inputs": ()}


def _circle(nodes: Mapping[str, Node], starts: Mapping[str, int]) -> list[str]:
    """Return the nodes of a cycle; empty if there is none. O(reached nodes).

    The previous program has no cycle, so a new one passes through a touched node.
    """
    done: set[str] = set()
    for start in starts:
        path: list[str] = []
        ways: list[Iterator[str | None]] = [iter((start,))]
        on_path: set[str] = set()
        while ways:
            name = next(ways[-1], _RESULT)
            if name == _RESULT:  # all ways from the end of the path are gone
                ways.pop()
                if path:
                    on_path.discard(path[-1])
                    done.add(path.pop())
            elif name in on_path:
                return path[path.index(name) :]
            elif name is not None and name in nodes and name not in done:
                path.append(name)
                on_path.add(name)
                ways.append(iter(nodes[name]["inputs"]))
    return []


def _too_many_nodes(edits: EditBuffer) -> RuleRefusal | None:
    if edits.node_count() <= NODES_MAX:
        return None
    return _full(f"a program has at most {NODES_MAX} nodes", NODES_MAX)


def _full(rule: str, limit: int) -> RuleRefusal:
    return refuse("too_many_nodes", f"{rule}; remove some, or split the function", limit=limit)
