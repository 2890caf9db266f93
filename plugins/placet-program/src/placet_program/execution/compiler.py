"""Compile a function, and all functions that it calls, to Python source without dependencies.

The source consists of operations and of names whose form is checked: no user text becomes code. It
is the same for the same functions, on every machine, and computes the same as a run, in the same
order; it has no fuel limit, and its depth is also bounded by Python's recursion limit.

Each function is split into *regions*: nodes that are needed together. The region of the result is
the body; a node that only a select may need, or that several regions need, forms a separate region,
a nested function that is computed `once`. So there is neither recursion from node to node nor a
source that doubles with every select.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from placet.kernel.plugin.domain import RuleRefusal, refuse
from placet_program.execution.python_source import PRELUDE, TEMPLATES
from placet_program.functions import Function, Functions, Node, hash_of
from placet_program.payloads import COMPILE_NODE_WORK, SOURCE_BYTES_MAX


class Compiled(NamedTuple):
    """The result of a compilation.

    Attributes:
        source: Python source.
        hash: Hash of the source.
        functions: Hash of each compiled function, by name.
    """

    source: str
    hash: str
    functions: dict[str, str | None]


def compile_function(functions: Functions, entry: str) -> Compiled | RuleRefusal:
    """Compile a function and all that it calls into Python; all must be verified.

    Returns:
        The result, or a refusal if the source is too large.
    """
    reached = sorted(functions.reachable(entry), key=lambda function: function.name)
    functions.charge(sum(len(function.nodes) for function in reached) * COMPILE_NODE_WORK + 20)
    bodies = ["\n".join(_lines(function)) for function in reached]
    source = "\n\n\n".join([PRELUDE, *bodies, f"entry = f_{entry}\n"])
    size = len(source.encode())
    if size > SOURCE_BYTES_MAX:
        message = f"the source has {size} bytes, at most {SOURCE_BYTES_MAX} are kept; split it"
        return refuse("source_too_large", message, at="/entry", limit=SOURCE_BYTES_MAX)
    hashes = {function.name: functions.hash(function.name) for function in reached}
    return Compiled(source, hash_of(source.encode()), hashes)


def _lines(function: Function) -> Iterator[str]:
    """Return the source lines of one function."""
    assert function.result is not None, "what is compiled is verified"
    regions = _regions(function, function.result)
    params = "".join([f"p_{name}, " for name in function.params])
    yield f"def f_{function.name}({params}depth=1):"
    yield "    deepen(depth)"
    for root in sorted(set(regions.values()) - {function.result}):
        yield "    @once"
        yield f"    def n_{root}():"
        yield from (f"        {line}" for line in _body(function, root, regions))
    yield from (f"    {line}" for line in _body(function, function.result, regions))


def _regions(function: Function, result: str) -> dict[str, str]:
    """Assign each node that may be needed to a region, named by the region's root. O(nodes).

    Works from the result inward: every user of a node has a region before the node gets one.
    """
    regions: dict[str, str] = {}
    wanted_in: dict[str, set[str]] = {result: {result}}
    for name in _outside_in(function.nodes, result):
        node = function.nodes[name]
        if _is_leaf(node):
            continue
        wanting = wanted_in[name]
        region = regions[name] = wanting.pop() if len(wanting) == 1 else name
        for port, source in enumerate(node["inputs"]):
            is_lazy = node["op"] == "select" and port > 0
            wanted_in.setdefault(source, set()).add(source if is_lazy else region)
    return regions


def _outside_in(nodes: Mapping[str, Node], result: str) -> list[str]:
    """List the nodes that the result may need, each after all nodes that use it."""
    order = _inside_out(result, lambda name: nodes[name]["inputs"])
    order.reverse()
    return order


def _inside_out(root: str, needs: Callable[[str], Sequence[str]]) -> list[str]:
    """List a node's inputs and then the node, in the evaluation order of a run."""
    order: list[str] = []
    done: set[str] = set()
    todo = [root]
    while todo:
        first = next((source for source in needs(todo[-1]) if source not in done), None)
        if first is not None:
            todo.append(first)
        else:
            done.add(todo[-1])
            order.append(todo.pop())
    return order


def _body(function: Function, root: str, regions: Mapping[str, str]) -> Iterator[str]:
    """Return the source of one region: a line per node, and one per region that it uses."""
    nodes = function.nodes

    def needs(name: str) -> list[str]:
        if _is_leaf(nodes[name]) or regions[name] != root:
            return []
        inputs = nodes[name]["inputs"]
        strict = inputs[:1] if nodes[name]["op"] == "select" else inputs
        return [source for source in strict if not _is_leaf(nodes[source])]

    if not _is_leaf(nodes[root]):
        for name in _inside_out(root, needs):
            is_own = regions[name] == root
            yield f"v_{name} = {_expression(nodes, name) if is_own else f'n_{name}()'}"
    yield f"return {_named(nodes, root)}"


def _expression(nodes: Mapping[str, Node], name: str) -> str:
    node = nodes[name]
    op = node["op"]
    if op == "select":
        condition, yes, no = node["inputs"]
        return f"{_lazily(nodes, yes)} if {_named(nodes, condition)} else {_lazily(nodes, no)}"
    inputs = [_named(nodes, source) for source in node["inputs"]]
    if op == "call":
        return f"f_{node['target']}({', '.join([*inputs, 'depth + 1'])})"
    return TEMPLATES[op].format(*inputs)


def _named(nodes: Mapping[str, Node], name: str) -> str:
    """Return the expression of an evaluated node: a leaf inline, any other as its variable."""
    node = nodes[name]
    if node["op"] == "const":
        return ascii(node["value"])  # unlike repr the same in all versions of Unicode
    return f"p_{node['target']}" if node["op"] == "param" else f"v_{name}"


def _lazily(nodes: Mapping[str, Node], name: str) -> str:
    return _named(nodes, name) if _is_leaf(nodes[name]) else f"n_{name}()"


def _is_leaf(node: Node) -> bool:
    """Return whether a node is written inline: it can neither trap nor take time."""
    return node["op"] in {"const", "param"}
