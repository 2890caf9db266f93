"""Read-only answers about the program: bounded, sorted, with fixed fields."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, TypeAlias

from placet.kernel.plugin.domain import RuleRefusal
from placet.kernel.state.tree import State
from placet.schemas.codec import Json, canonical
from placet_program.diagnostics import Types, type_of
from placet_program.functions import Function, Functions, Node, encoded
from placet_program.history import check_seq, commits, content_of, replaced_since, since
from placet_program.payloads import ARTIFACTS, COMMITS, OUTPUT_BYTES_MAX, ROWS_MAX
from placet_program.refusals import unknown_function, unknown_node

Answer: TypeAlias = dict[str, Json]

_ROW_WORK: Final = 10
_COMPARE_WORK: Final = 3
"""Units of work of a row about a function, and of a node that is compared with an earlier one."""

_TEXT_BYTES_MAX: Final = OUTPUT_BYTES_MAX // 2
_ENVELOPE_BYTES: Final = 64
"""What a list and the flag `truncated` add to an answer."""


def bounded(answer: Answer, rows: str, items: Iterable[Json], limit: int = ROWS_MAX) -> Answer:
    """Return an answer with a list of rows added, as many as fit.

    Args:
        answer: The other fields of the answer.
        rows: Name of the field for the rows.
        items: The rows.
        limit: Maximum number of rows; their total size is bounded too.

    Returns:
        The answer, with `truncated` true if rows are left out.
    """
    room = OUTPUT_BYTES_MAX - _ENVELOPE_BYTES - len(canonical(answer))
    page: list[Json] = []
    left = iter(items)
    for row in islice(left, limit):
        room -= len(canonical(row))
        if room < 0:
            return {**answer, rows: page, "truncated": True}
        page.append(row)
    return {**answer, rows: page, "truncated": next(left, None) is not None}


def cut(value: Json, bytes_max: int = _TEXT_BYTES_MAX) -> Json:
    """Return a text cut to at most `bytes_max` bytes; any other value unchanged."""
    if type(value) is not str or len(value) * 4 <= bytes_max:
        return value
    return value.encode()[:bytes_max].decode(errors="ignore")


# inspect


def inspect(functions: Functions, payload: Mapping[str, Json]) -> Answer | RuleRefusal:
    """Return the output of a `program.inspect` payload, or its refusal."""
    return _INSPECT[payload["what"]](functions, payload, payload.get("limit", ROWS_MAX))


def _overview(functions: Functions, _payload: Mapping[str, Json], limit: int) -> Answer:
    names = functions.names()
    functions.charge(min(limit, len(names)) * _ROW_WORK)
    return bounded({"count": len(names)}, "functions", _heads(functions, names), limit)


def _heads(functions: Functions, names: list[str]) -> Iterator[Answer]:
    for name in names:
        function = functions.find(name)
        assert function is not None, "it was listed"
        yield _head(functions, function)


def _head(functions: Functions, function: Function) -> Answer:
    content = function.content()
    return {
        "name": function.name,
        **{field: content[field] for field in ("params", "returns", "exported", "result")},
        "hash": functions.hash(function.name),
        "node_count": len(function.nodes),
    }


def _function(
    functions: Functions, payload: Mapping[str, Json], limit: int
) -> Answer | RuleRefusal:
    function = functions.find(payload["function"])
    if function is None:
        return unknown_function(payload["function"], functions, "/function")
    functions.charge(len(function.nodes) * 2 + limit)
    name = function.name
    answer = {
        **_head(functions, function),
        "calls": sorted(function.calls()),
        "called_by": functions.callers(name),
        "artifact": functions.state.get(ARTIFACTS, name, "hash"),
    }
    types: Types = {}
    rows = (_row(functions, function, node, types) for node in sorted(function.nodes))
    return bounded(answer, "nodes", rows, limit)


def _node(functions: Functions, payload: Mapping[str, Json], limit: int) -> Answer | RuleRefusal:
    function, name = functions.find(payload["function"]), payload["node"]
    if function is None:
        return unknown_function(payload["function"], functions, "/function")
    if name not in function.nodes:
        return unknown_node(name, function, "/node")
    functions.charge(len(function.nodes) * 3)  # the type of a node may depend on all others
    answer = {"function": function.name, **_row(functions, function, name, {})}
    users = (other for other in sorted(function.nodes) if name in function.nodes[other]["inputs"])
    return bounded(answer, "used_by", users, limit)


def _row(functions: Functions, function: Function, name: str, types: Types) -> Answer:
    kind = type_of(functions, function, name, types)
    return {"name": name, "type": kind, **function.nodes[name]}


def _search(functions: Functions, payload: Mapping[str, Json], limit: int) -> Answer:
    return bounded({"text": payload["text"]}, "found", _matches(functions, payload["text"]), limit)


def _matches(functions: Functions, text: str) -> Iterator[Answer]:
    for name in functions.names():
        function = functions.find(name)
        assert function is not None, "it was listed"
        functions.charge(len(function.nodes))
        if text in name:
            yield {"function": name}
        for node in sorted(function.nodes):
            if text in node or _says(function.nodes[node], text):
                yield {"function": name, "node": node, **function.nodes[node]}


def _says(node: Node, text: str) -> bool:
    words = (node["op"], node.get("target"), node.get("value"))
    return any(type(word) is str and text in word for word in words)


_INSPECT: Final[
    Mapping[str, Callable[[Functions, Mapping[str, Json], int], Answer | RuleRefusal]]
] = {"overview": _overview, "function": _function, "node": _node, "search": _search}


# history


def history(
    state: State, charge: Callable[[int], None], payload: Mapping[str, Json], last: int
) -> Answer | RuleRefusal:
    """Return commits, or the functions that differ between two seqs.

    Args:
        state: State with its stored history.
        charge: Charges units of work.
        payload: Payload of a history_query.
        last: The current seq.
    """
    from_seq, to_seq = payload.get("from_seq"), payload.get("to_seq")
    first = since(state) if from_seq is None else from_seq
    end = last if to_seq is None else to_seq
    refusal = check_seq(state, first, last, "/from_seq") or check_seq(state, end, last, "/to_seq")
    if refusal is not None:
        return refusal
    charge(len(list(state.ids(COMMITS))) * 3)
    limit = payload.get("limit", ROWS_MAX)
    answer = {"from_seq": first, "to_seq": end, "since": since(state)}
    if payload["op"] == "diff":
        return bounded(answer, "changes", _changes(state, charge, first, end, last), limit)
    return _latest(answer, [dict(commit) for commit in commits(state, first, end)], limit)


def _latest(answer: Answer, commits: list[Json], limit: int) -> Answer:
    """Add the latest commits, in order."""
    page = bounded(answer, "commits", reversed(commits), limit)
    page["commits"].reverse()
    return page


def _changes(
    state: State, charge: Callable[[int], None], first: int, end: int, last: int
) -> Iterator[Answer]:
    """Compare the program at two seqs, by function and node."""
    old, new = replaced_since(state, first, last), replaced_since(state, end, last)
    for name in sorted(old.keys() | new.keys()):
        now = content_of(state, name)
        was, became = (then.get(name, now) for then in (old, new))
        charge(sum(len(content["nodes"]) for content in (was, became) if content) * _COMPARE_WORK)
        yield from _compared(name, _parts(was), _parts(became))


def _parts(content: Mapping[str, Json] | None) -> dict[str, Json]:
    """Return the parts of a function: path -> value; the function itself has the path ''."""
    if content is None:
        return {}
    head = {field: content[field] for field in ("params", "returns", "exported", "result")}
    nodes = {f"/nodes/{name}": node for name, node in content["nodes"].items()}
    return {"": head, **nodes}


def _compared(name: str, old: Mapping[str, Json], new: Mapping[str, Json]) -> Iterator[Answer]:
    for part in sorted(old.keys() | new.keys()):
        was, became = old.get(part), new.get(part)
        if was is None:
            yield {"path": name + part, "op": "add", "new": became}
        elif became is None:
            yield {"path": name + part, "op": "remove", "old": was}
        elif encoded(was) != encoded(became):  # 1, 1.0 and true are equal to Python
            yield {"path": name + part, "op": "replace", "old": was, "new": became}
