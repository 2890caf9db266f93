"""Expressions of a policy: a checked part of Python's grammar, compiled to a function.

    euro > 100 and not startswith(order, "TEST")

`ast` parses the text. Each node, name and type is checked, and the program is written anew from
the checked parts alone: so nothing outside of the grammar is ever executed. There is no attribute
(but for fields of `result`), no subscript, no power and no loop: an expression ends, costs what its
values cost, and decides alike in a replay. It has the value that Python gives it, or raises.

The rules of the types: an operand of `and`, `or`, `not` is a boolean; one of `+ - * /` and of the
minus sign a number; `<` and its like compare two numbers or two texts; `==` and `in` compare values
that have a type in common. A value whose type is known only at the call is checked at the call.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from types import CodeType, FunctionType
from typing import Final, NamedTuple, TypeAlias

from placet.schemas.codec import Json
from placet_tools.policy.errors import ToolPolicyError, fault, require_name
from placet_tools.policy.json_types import (
    ANY,
    ARRAY,
    BOOLEAN,
    NULL,
    NUMBER,
    TEXT,
    Kinds,
    ValueType,
    require_comparable,
    type_at,
)

RESULT: Final = "result"
"""Name of the output of the earlier call, in a condition of `only_if`."""

AGENT: Final = "agent"
"""Field of every call beside the arguments: the name of the agent."""

CHARS_MAX: Final = 1_000
DEPTH_MAX: Final = 32
_SHOWN_MAX: Final = 120

Judge: TypeAlias = Callable[[Mapping[str, Json], str, Mapping[str, Json]], int]
"""`(arguments, agent, values of the result) -> index of the first expression that holds, or -1`."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A checked expression.

    Attributes:
        text: The expression as it was written.
        place: Its place in the policy.
        source: Python source, written from the checked parts.
        fields: Fields of the call that it reads.
        paths: Paths of the result that it reads, such as `euro`.
    """

    text: str
    place: str
    source: str
    fields: frozenset[str]
    paths: tuple[str, ...] = ()


class _Part(NamedTuple):
    """A checked part of an expression: its source and its type."""

    source: str
    type: ValueType


def _number(value: Json) -> Json:
    if type(value) not in {int, float}:
        raise TypeError(f"a number is needed, got {value!r:.80}")
    return value


def _text(value: Json) -> str:
    if type(value) is not str:
        raise TypeError(f"a text is needed, got {value!r:.80}")
    return value


def _boolean(value: Json) -> bool:
    if type(value) is not bool:
        raise TypeError(f"a boolean is needed, got {value!r:.80}")
    return value


_CHECKS: Final[Mapping[Kinds, str]] = {NUMBER: "c_number", TEXT: "c_text", BOOLEAN: "c_boolean"}

FUNCTIONS: Final[Mapping[str, tuple[Callable[..., object], tuple[Kinds, ...], Kinds]]] = {
    "len": (len, (TEXT | ARRAY | {"object"},), NUMBER),
    "lower": (str.lower, (TEXT,), TEXT),
    "startswith": (str.startswith, (TEXT, TEXT), BOOLEAN),
    "endswith": (str.endswith, (TEXT, TEXT), BOOLEAN),
}
"""The functions: what is called, the types of the arguments, and of the value."""

_ARITHMETIC: Final[Mapping[type[ast.AST], str]] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
}
_EQUALITY: Final[Mapping[type[ast.AST], str]] = {ast.Eq: "==", ast.NotEq: "!="}
_ORDER: Final[Mapping[type[ast.AST], str]] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_MEMBERSHIP: Final[Mapping[type[ast.AST], str]] = {ast.In: "in", ast.NotIn: "not in"}
_SYMBOLS: Final[Mapping[type[ast.AST], str]] = {**_ARITHMETIC, **_EQUALITY, **_ORDER, **_MEMBERSHIP}

_GLOBALS: Final[Mapping[str, object]] = {
    "__builtins__": {},
    "c_number": _number,
    "c_text": _text,
    "c_boolean": _boolean,
    **{f"c_{name}": called for name, (called, *_) in FUNCTIONS.items()},
}


def parse_expression(
    text: object, fields: Mapping[str, ValueType], place: str, *, result: Json = None
) -> Expression:
    """Check an expression, which must be a boolean.

    Args:
        text: The expression; a boolean of the file stands for itself.
        fields: Types of the fields that it may read.
        place: Its place in the policy, for messages.
        result: JSON Schema of the earlier call's output; None if there is no `result`.

    Raises:
        ToolPolicyError: It is not of the grammar, a name is unknown, or a type does not fit.
    """
    if isinstance(text, bool):
        text = str(text)
    if not isinstance(text, str) or not text.strip():
        raise fault(place, f"an expression is a text such as 'euro > 100', got {text!r}")
    if len(text) > CHARS_MAX:
        raise fault(place, f"an expression has at most {CHARS_MAX} characters, got {len(text)}")
    text = text.strip()
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError as error:
        raise fault(place, f"{text!r} is no expression: {error.msg}") from None
    except (MemoryError, RecursionError, ValueError) as error:
        raise fault(place, f"{text!r:.80} is no expression: {error}") from None
    checker = _Checker(text, fields, place, result)
    part = checker.as_kind(tree.body, BOOLEAN, "the expression", 0)
    return Expression(
        text, place, part, frozenset(checker.fields), tuple(sorted(set(checker.paths)))
    )


def compile_expressions(expressions: Sequence[Expression]) -> Judge:
    """Compile expressions to one function, which returns the index of the first that holds.

    The function raises the exception of an expression that cannot be evaluated, such as a
    division by zero.
    """
    fields = sorted(frozenset[str]().union(*[one.fields for one in expressions]))
    paths = sorted({path for one in expressions for path in one.paths})
    lines = [f" f_{name} = p[{name!r}]" for name in fields if name != AGENT]
    lines += [f" f_{AGENT} = agent"] * (AGENT in fields)
    lines += [f" {_path_name(path)} = r[{path!r}]" for path in paths]
    lines += [f" if {one.source}: return {index}" for index, one in enumerate(expressions)]
    source = "\n".join(["def judge(p, agent, r):", *lines, " return -1"])
    # `_Checker` alone writes the source, from names and constants that it has checked.
    module = compile(source, "<policy>", "exec")
    code = next(one for one in module.co_consts if isinstance(one, CodeType))
    return FunctionType(code, {**_GLOBALS})


def _path_name(path: str) -> str:
    return "r_" + path.replace("_", "__").replace(".", "_o")


@dataclass(slots=True)
class _Checker:
    """Checks the nodes of one expression, and writes each as Python source.

    Attributes:
        text: The expression.
        known: Types of the fields.
        place: Place in the policy.
        result: JSON Schema of the result; None if there is none.
        fields: Fields that were read.
        paths: Paths of the result that were read.
    """

    text: str
    known: Mapping[str, ValueType]
    place: str
    result: Json
    fields: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    def as_kind(self, node: ast.expr, kinds: Kinds, what: str, depth: int) -> str:
        """Return the source of a part that must be of some types, checked at the call if needed."""
        source, found = self.part(node, depth)
        if not found.kinds & kinds:
            wanted = ValueType(kinds)
            raise self.error(node, f"{what} must be of type {wanted}, got type {found}")
        if found.kinds <= kinds or kinds not in _CHECKS:
            return source
        return f"{_CHECKS[kinds]}({source})"

    def part(self, node: ast.expr, depth: int) -> _Part:
        """Check one node and those below it."""
        if depth > DEPTH_MAX:
            raise self.error(node, f"it is nested more than {DEPTH_MAX} levels deep")
        depth += 1
        match node:
            case ast.Constant():
                return self.constant(node)
            case ast.Name():
                return self.name(node)
            case ast.Attribute():
                return self.attribute(node)
            case ast.List() | ast.Tuple():
                return self.items(node, depth)
            case ast.BoolOp():
                word = " and " if isinstance(node.op, ast.And) else " or "
                what = f"an operand of{word.rstrip()}"
                parts = [self.as_kind(one, BOOLEAN, what, depth) for one in node.values]
                return _Part(f"({word.join(parts)})", ValueType(BOOLEAN))
            case ast.UnaryOp(op=ast.Not()):
                operand = self.as_kind(node.operand, BOOLEAN, "the operand of not", depth)
                return _Part(f"(not {operand})", ValueType(BOOLEAN))
            case ast.UnaryOp(op=ast.USub()):
                operand = self.as_kind(node.operand, NUMBER, "the operand of -", depth)
                return _Part(f"(- {operand})", ValueType(NUMBER))
            case ast.BinOp() if type(node.op) in _ARITHMETIC:
                symbol = _ARITHMETIC[type(node.op)]
                what = f"an operand of {symbol}"
                left = self.as_kind(node.left, NUMBER, what, depth)
                right = self.as_kind(node.right, NUMBER, what, depth)
                return _Part(f"({left} {symbol} {right})", ValueType(NUMBER))
            case ast.Compare():
                return self.comparison(node, depth)
            case ast.Call():
                return self.call(node, depth)
            case _:
                raise self.no_grammar(node)

    def constant(self, node: ast.Constant) -> _Part:
        """Check a constant: a number, a text, a boolean or None."""
        value = node.value
        if value is None:
            return _Part("None", ValueType(NULL))
        if isinstance(value, bool):
            return _Part(repr(value), ValueType(BOOLEAN))
        if isinstance(value, str):
            return _Part(repr(value), ValueType(TEXT))
        if isinstance(value, int | float) and isfinite(value):
            return _Part(repr(value), ValueType(NUMBER))
        raise self.no_grammar(node)

    def name(self, node: ast.Name) -> _Part:
        """Check the name of a field."""
        name = node.id
        if name == RESULT and self.result is not None:
            raise self.error(node, "name a field of the result, such as result.euro")
        require_name(name, [*self.known, "True", "False"], "field", self.place)
        if self.known[name].is_hidden:
            raise self.error(
                node, f"{name!r} is marked, and the log has only a digest of it; use another field"
            )
        self.fields.append(name)
        return _Part(f"f_{name}", self.known[name])

    def attribute(self, node: ast.Attribute) -> _Part:
        """Check a field of the result."""
        names, inner = [node.attr], node.value
        while isinstance(inner, ast.Attribute):
            names.append(inner.attr)
            inner = inner.value
        is_result = isinstance(inner, ast.Name) and inner.id == RESULT
        if not is_result or self.result is None:
            raise self.no_grammar(node)
        path = ".".join(reversed(names))
        found = type_at(self.result, path, self.place)
        self.paths.append(path)
        return _Part(_path_name(path), found)

    def items(self, node: ast.List | ast.Tuple, depth: int) -> _Part:
        """Check a list of values, for `in`."""
        if any(isinstance(one, ast.List | ast.Tuple) for one in node.elts):
            raise self.no_grammar(node)
        parts = [self.part(one, depth) for one in node.elts]
        kinds = frozenset[str]().union(*[part.type.kinds for part in parts])
        source = "".join(f"{part.source}, " for part in parts)
        return _Part(f"({source})", ValueType(ARRAY, kinds))

    def comparison(self, node: ast.Compare, depth: int) -> _Part:
        """Check a comparison, which may be a chain: `0 < euro <= 100`."""
        parts = [self.part(one, depth) for one in (node.left, *node.comparators)]
        sources = [parts[0].source]
        for op, left, right in zip(node.ops, parts, parts[1:], strict=False):
            symbol = _SYMBOLS.get(type(op))
            if symbol is None:
                raise self.no_grammar(node)
            if type(op) in _ORDER:
                self.require_ordered(left.type, right.type, symbol, node)
            elif type(op) in _MEMBERSHIP:
                self.require_member(left.type, right.type, node)
            else:
                self.require_equal(left.type, right.type, node)
            sources += [symbol, right.source]
        return _Part(f"({' '.join(sources)})", ValueType(BOOLEAN))

    def require_ordered(
        self, left: ValueType, right: ValueType, symbol: str, node: ast.expr
    ) -> None:
        """Check that two values have an order: both are numbers, or both are texts."""
        both = left.kinds & right.kinds
        if not both & (NUMBER | TEXT):
            message = f"{symbol} compares two numbers or two texts, got {left} and {right}"
            raise self.error(node, message)

    def require_equal(self, left: ValueType, right: ValueType, node: ast.expr) -> None:
        """Check that two values can be equal; lists are compared by `in` alone."""
        single = ANY - ARRAY - {"object"}
        if not (left.kinds & single and right.kinds & single):
            message = f"== and != compare single values, got {left} and {right}"
            raise self.error(node, message)
        require_comparable(left, right, self.shown(node), self.place)

    def require_member(self, left: ValueType, right: ValueType, node: ast.expr) -> None:
        """Check that a value can be in another: an item of a list, or a part of a text."""
        can_be_item = "array" in right.kinds and left.kinds & right.items
        can_be_part = right.kinds & (TEXT | {"object"}) and left.kinds & TEXT
        if not (can_be_item or can_be_part):
            message = f"a value of type {left} is never in one of type {right}"
            if "array" in right.kinds and right.items:
                message += f" of {ValueType(right.items)}"
            raise self.error(node, message)

    def call(self, node: ast.Call, depth: int) -> _Part:
        """Check a call of one of the functions."""
        if not isinstance(node.func, ast.Name) or node.keywords:
            raise self.no_grammar(node)
        name = node.func.id
        require_name(name, FUNCTIONS, "function", self.place)
        _, wanted, gives = FUNCTIONS[name]
        if len(node.args) != len(wanted):
            counted = f"{len(wanted)} argument{'s' if len(wanted) > 1 else ''}"
            raise self.error(node, f"{name} takes {counted}, got {len(node.args)}")
        what = f"an argument of {name}"
        parts = [
            self.as_kind(one, kinds, what, depth)
            for one, kinds in zip(node.args, wanted, strict=True)
        ]
        return _Part(f"c_{name}({', '.join(parts)})", ValueType(gives))

    def no_grammar(self, node: ast.expr) -> ToolPolicyError:
        """Return the error of a node that is not of the grammar."""
        return self.error(node, "it is not of the expression language")

    def error(self, node: ast.expr, message: str) -> ToolPolicyError:
        """Return the error of a node."""
        return fault(self.place, f"{self.shown(node)}: {message}")

    def shown(self, node: ast.expr) -> str:
        """Return the text of a node for a message."""
        return repr((ast.get_source_segment(self.text, node) or self.text)[:_SHOWN_MAX])
