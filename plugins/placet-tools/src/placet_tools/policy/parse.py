"""Parses a policy: plain TOML values in, checked and compiled rules out.

Each name is checked against the tools and their parameters. An error names the place, and the
nearest name of one that is misspelled.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from math import inf
from typing import Final, TypeVar, cast, get_type_hints

from pydantic import TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from placet.kernel.plugin.domain import RISKS
from placet.schemas.codec import ENCODE_ERRORS, Json, canonical, from_canonical
from placet.schemas.config import Quota
from placet.schemas.limits import SECOND_NS
from placet_tools.parts.marks import Personal, Secret
from placet_tools.policy.errors import fault, require_name
from placet_tools.policy.examples import example_of
from placet_tools.policy.expressions import (
    AGENT,
    Expression,
    compile_expressions,
    parse_expression,
)
from placet_tools.policy.json_types import NUMBER, TEXT, ValueType, fields_of, require_comparable
from placet_tools.policy.rules import (
    ORDER_KINDS,
    UNLISTED,
    Example,
    Marking,
    OrderKind,
    OrderRule,
    ToolPolicy,
    ToolRules,
    Unlisted,
)
from placet_tools.policy.values import list_of, positive, table_of, text_of
from placet_tools.tool import DeclaredTool

APPROVE_FROM: Final = (*RISKS, "never")
"""Values of `approve_from`, from the one that asks most often."""

RULES_MAX: Final = 256
"""Rules of one tool, of a kind."""

WINDOW_MAX: Final = 1_000
"""Calls that `at_most` may permit within a time: their times are in the state."""

_EXAMPLES: Final = "examples"
_SECTIONS: Final = ("defaults", "tools", _EXAMPLES)
_RULES: Final = ("approval", "role", "quota", "refuse", *ORDER_KINDS)
_ORDER_KEYS: Final[Mapping[OrderKind, tuple[str, ...]]] = {
    "never_after": ("tool", "by"),
    "after": ("tool", "by"),
    "only_if": ("tool", "by", "if"),
    "at_most": ("n", "sum", "max", "per", "within"),
}
_REFUSED: Final = "the policy refuses the call"
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d)")
_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}

_T = TypeVar("_T")


def parse_policy(data: object, tools: Mapping[str, DeclaredTool]) -> ToolPolicy:
    """Parse a policy for tools.

    Args:
        data: The policy, as a TOML file has it.
        tools: The tools by name.

    Raises:
        ToolPolicyError: It does not fit; the message begins with the place.
    """
    sections = table_of(data, "")
    for name in sections:
        require_name(name, _SECTIONS, "section", name)
    try:
        plain = from_canonical(canonical(dict(sections)))
    except ENCODE_ERRORS as error:
        raise fault("", f"a policy is made of plain values: {error}") from None
    plain.pop(_EXAMPLES, None)
    defaults = table_of(sections.get("defaults", {}), "defaults")
    for name in defaults:
        require_name(name, ("approve_from", "unlisted"), "default", f"defaults.{name}")
    unlisted = _one_of(UNLISTED, defaults.get("unlisted", "refuse"), "defaults.unlisted")
    approve_from = defaults.get("approve_from")
    if approve_from is not None:
        _one_of(APPROVE_FROM, approve_from, "defaults.approve_from")
    parser = _Parser(tools)
    rules = {}
    for name, one in table_of(sections.get("tools", {}), "tools").items():
        require_name(name, tools, "tool", f"tools.{name}")
        rules[name] = parser.tool(name, table_of(one, f"tools.{name}"))
    return ToolPolicy(
        data=plain,
        unlisted=cast("Unlisted", unlisted),
        approve_from=cast("str | None", approve_from),
        tools=rules,
        markings=_by_tool(rules),
        examples=_examples(sections.get(_EXAMPLES, []), tools),
    )


def _examples(value: object, tools: Mapping[str, DeclaredTool]) -> tuple[Example, ...]:
    return _each(value, _EXAMPLES, partial(example_of, tools))


class _Parser:
    """Parses the rules of tools, whose fields it reads once."""

    def __init__(self, tools: Mapping[str, DeclaredTool]) -> None:
        self._tools = tools
        self._fields: dict[str, dict[str, ValueType]] = {}

    def fields(self, tool: str) -> dict[str, ValueType]:
        """Return the types of the fields of a tool's calls, that of the agent among them."""
        if tool not in self._fields:
            declared = self._tools[tool]
            types = fields_of(declared.payload.model_json_schema(mode="serialization"))
            marked = dict.fromkeys(declared.marks, ValueType(TEXT, is_hidden=True))
            self._fields[tool] = {**types, **marked, AGENT: ValueType(TEXT)}
        return self._fields[tool]

    def tool(self, name: str, table: Mapping[str, Json]) -> ToolRules:
        """Parse the rules of one tool."""
        place = f"tools.{name}"
        for rule, value in table.items():
            require_name(rule, _RULES, "rule", f"{place}.{rule}")
            if isinstance(value, list | tuple) and not value:
                raise fault(f"{place}.{rule}", "an empty list limits nothing; leave it out")
        refusals = _each(table.get("refuse", []), f"{place}.refuse", partial(self.refusal, name))
        expressions = [expression for expression, _ in refusals]
        if "approval" in table:
            approval = f"{place}.approval"
            expressions.append(parse_expression(table["approval"], self.fields(name), approval))
        orders = [
            order
            for kind in ORDER_KINDS
            for order in _each(
                table.get(kind, []), f"{place}.{kind}", partial(self.order, name, kind)
            )
        ]
        return ToolRules(
            tool=name,
            expressions=tuple(expressions),
            says=tuple(say for _, say in refusals),
            first=compile_expressions(expressions),
            has_approval="approval" in table,
            role=text_of(table["role"], f"{place}.role") if "role" in table else "",
            quota=_quota(table["quota"], f"{place}.quota") if "quota" in table else None,
            orders=tuple(orders),
        )

    def refusal(self, tool: str, table: Mapping[str, Json], place: str) -> tuple[Expression, str]:
        """Parse one entry of `refuse`: its expression and its message."""
        _require_keys(table, ("if", "say"), ("if",), place)
        expression = parse_expression(table["if"], self.fields(tool), f"{place}.if")
        return expression, text_of(table.get("say", _REFUSED), f"{place}.say")

    def order(self, tool: str, kind: OrderKind, table: Mapping[str, Json], place: str) -> OrderRule:
        """Parse one rule about earlier calls."""
        if kind == "at_most":
            return self.at_most(tool, table, place)
        needed = ("tool", "if") if kind == "only_if" else ("tool",)
        _require_keys(table, _ORDER_KEYS[kind], needed, place)
        other = table["tool"]
        require_name(other, self._tools, "tool", f"{place}.tool")
        by = self.by(tool, other, table.get("by", []), f"{place}.by")
        if kind != "only_if":
            event = "done" if kind == "after" else "started"
            return OrderRule(kind, _marking(event, other, by))
        if any(isinstance(mark, Personal) for mark in self._tools[other].marks.values()):
            raise fault(
                f"{place}.tool",
                f"the output of {other} is personal data, which rules cannot read; name another",
            )
        schema = _result_schema(self._tools[other])
        condition = parse_expression(table["if"], self.fields(tool), f"{place}.if", result=schema)
        return OrderRule(
            kind,
            _marking("done", other, by, paths=condition.paths),
            holds=compile_expressions([condition]),
            condition=condition.text,
        )

    def at_most(self, tool: str, table: Mapping[str, Json], place: str) -> OrderRule:
        """Parse a rule about the number of calls, or about the sum of a field of theirs."""
        is_sum = "sum" in table or "max" in table
        _require_keys(table, _ORDER_KEYS["at_most"], ("sum", "max") if is_sum else ("n",), place)
        if is_sum and "n" in table:
            raise fault(f"{place}.n", "a rule has n, or sum and max; write two rules")
        by = self.by(tool, tool, table.get("per", []), f"{place}.per")
        within = _nanoseconds(table["within"], f"{place}.within") if "within" in table else 0
        if is_sum:
            return self.at_most_in_sum(tool, table, by, within, place)
        count = positive(table["n"], f"{place}.n")
        if within and count > WINDOW_MAX:
            raise fault(f"{place}.n", f"with `within`, n is at most {WINDOW_MAX}, got {count}")
        window = count if within else 0
        marking = _marking("started", tool, by, window=window)
        return OrderRule("at_most", marking, count=count, within_ns=within)

    def at_most_in_sum(
        self,
        tool: str,
        table: Mapping[str, Json],
        by: tuple[str, ...],
        within_ns: int,
        place: str,
    ) -> OrderRule:
        """Parse a rule about the sum of a field of the calls."""
        name, most = table["sum"], table["max"]
        require_name(name, self.fields(tool), f"field of {tool}", f"{place}.sum")
        field = self.fields(tool)[name]
        if field.is_hidden or not field.kinds & NUMBER:
            what = "held apart from the log" if field.is_hidden else f"{field}"
            raise fault(f"{place}.sum", f"a sum is of a number, and {name!r} is {what}")
        if isinstance(most, bool) or not isinstance(most, int | float) or not 0 < most < inf:
            raise fault(f"{place}.max", f"expected a number above 0, got {most!r:.120}")
        marking = _marking("started", tool, by, summed=str(name), within_ns=within_ns)
        return OrderRule("at_most", marking, sum_max=most, within_ns=within_ns)

    def by(self, tool: str, other: str, names: Json, place: str) -> tuple[str, ...]:
        """Parse the fields in which two calls agree: of both tools, with a type in common."""
        fields = []
        for number, name in enumerate(list_of(names, place)):
            for one in (tool, other):
                require_name(name, self.fields(one), f"field of {one}", f"{place}[{number}]")
            if not _agree(name, self._tools[tool], self._tools[other]):
                raise fault(
                    f"{place}[{number}]",
                    f"{name!r} is marked differently in {tool} and {other}, or is a secret, so "
                    "its digests in the log are never equal; use another field",
                )
            left, right = self.fields(tool)[name], self.fields(other)[name]
            require_comparable(left, right, f"{name!r} of {tool} and {other}", place)
            fields.append(name)
        return tuple(sorted(set(fields)))


def _agree(name: str, tool: DeclaredTool, other: DeclaredTool) -> bool:
    """Return whether equal values of a field are equal in the log, in the calls of two tools."""
    mark, other_mark = tool.marks.get(name), other.marks.get(name)
    if isinstance(mark, Secret) and isinstance(other_mark, Secret):
        return tool.name == other.name  # the digest of a secret is of its tool too
    return mark == other_mark


def _marking(
    event: str,
    tool: str,
    by: tuple[str, ...],
    *,
    window: int = 0,
    paths: tuple[str, ...] = (),
    summed: str = "",
    within_ns: int = 0,
) -> Marking:
    """Make a marking, whose id depends on all that its marks depend on."""
    parts: list[Json] = [event, tool, list(by), window, list(paths)]
    if summed:  # the ids of the other markings are in logs
        parts += [summed, within_ns]
    key = blake2b(canonical(parts), digest_size=8)
    is_done = event == "done"
    return Marking(
        key.hexdigest(),
        "done" if is_done else "started",
        tool,
        by,
        window,
        paths,
        summed,
        within_ns,
    )


def _by_tool(rules: Mapping[str, ToolRules]) -> dict[str, tuple[Marking, ...]]:
    markings: dict[str, dict[str, Marking]] = {}
    for one in rules.values():
        for order in one.orders:
            markings.setdefault(order.marking.tool, {})[order.marking.id] = order.marking
    return {tool: tuple(found.values()) for tool, found in markings.items()}


def _result_schema(tool: DeclaredTool) -> Json:
    """Return the JSON Schema of a tool's output; empty if its function declares none."""
    try:
        declared = get_type_hints(tool.function, include_extras=True)["return"]
        return TypeAdapter(declared).json_schema(mode="serialization")
    except (KeyError, NameError, TypeError, PydanticUserError, PydanticSchemaGenerationError):
        return {}  # TypeError: the function is no function of Python's


def _each(
    value: object, place: str, parse: Callable[[Mapping[str, Json], str], _T]
) -> tuple[_T, ...]:
    """Parse each table of a list."""
    items: Sequence[Json] = list_of(value, place)
    if len(items) > RULES_MAX:
        raise fault(place, f"there are at most {RULES_MAX} rules, got {len(items)}")
    places = [f"{place}[{number}]" for number in range(len(items))]
    return tuple(parse(table_of(one, at), at) for one, at in zip(items, places, strict=True))


def _require_keys(
    table: Mapping[str, Json], known: Sequence[str], needed: Sequence[str], place: str
) -> None:
    for name in table:
        require_name(name, known, "key", f"{place}.{name}")
    for name in needed:
        if name not in table:
            raise fault(place, f"it needs {name!r}")


def _one_of(known: Sequence[str], value: Json, place: str) -> str:
    if value not in known:
        require_name(value, known, "value", place)
    return str(value)


def _quota(value: Json, place: str) -> Mapping[str, float]:
    quota = table_of(value, place)
    _require_keys(quota, ("rate", "burst"), ("rate", "burst"), place)
    try:
        Quota.of(quota)
    except ValueError as error:
        raise fault(place, str(error)) from None
    return quota


def _nanoseconds(value: Json, place: str) -> int:
    """Return a duration: a number of simulated seconds, or a text such as `30m`."""
    if isinstance(value, str) and (found := _DURATION.fullmatch(value.strip())):
        seconds = float(found[1]) * _UNITS[found[2]]
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    else:
        raise fault(
            place, f"a time is seconds, or a text such as '30m', '12h', '1d', got {value!r}"
        )
    nanoseconds = round(seconds * SECOND_NS) if 0 < seconds < _UNITS["d"] * 36_525 else 0
    if not nanoseconds:
        raise fault(place, f"a time is more than 0 and at most 100 years, got {value!r}")
    return nanoseconds
