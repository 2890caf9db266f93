"""Decides a call by the rules of a policy; `codes.POLICY_STEPS` is the order of the steps."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from placet.kernel.plugin.domain import RuleRefusal, refuse
from placet.kernel.state.draft import Draft
from placet.schemas.codec import Json
from placet.schemas.limits import SECOND_NS
from placet_tools.policy import codes
from placet_tools.policy.expressions import Expression, compile_expressions
from placet_tools.policy.marks import MarkedCall, MarkStore, mark_name
from placet_tools.policy.rules import OrderRule, ToolPolicy, ToolRules
from placet_tools.policy.totals import CALLS_MAX, reached, shown, value_of

_EVALUATION_ERRORS: Final = (ArithmeticError, LookupError, TypeError, ValueError)
"""What an expression raises for values that do not fit it."""

_UNITS_PER_TOTAL: Final = 10
"""Work of a total within a time, whose entries are few numbers each."""

_NO_RESULT: Final[Mapping[str, Json]] = {}

_ALWAYS: Final = "the policy asks for every call of it"
_UNLISTED: Final = "the policy does not list it"


class PolicyAnswer(NamedTuple):
    """The answer of a policy to a call.

    Attributes:
        refusal: The refusal; None if the policy does not refuse the call.
        is_held: A person must approve the call; None leaves that to the risk of the tool.
        asks: Why a person must approve it, of a held call.
    """

    refusal: RuleRefusal | None
    is_held: bool | None = None
    asks: str = ""


def judge(
    policy: ToolPolicy, tool: str, call: MarkedCall, marks: MarkStore, draft: Draft
) -> PolicyAnswer:
    """Decide a call.

    Args:
        policy: The policy.
        tool: Name of the tool.
        call: The call.
        marks: The marks of earlier calls.
        draft: The draft of the batch, whose time is read where a rule has `within`.
    """
    rules = policy.tools.get(tool)
    if rules is None:
        if policy.unlisted != "refuse":
            is_held = True if policy.unlisted == "hold" else None
            return PolicyAnswer(None, is_held, _UNLISTED if is_held else "")
        message = f"the policy lists no tool {tool!r}; add [tools.{tool}] to it"
        return PolicyAnswer(refuse(codes.UNLISTED, message))
    try:
        found = rules.first(call.arguments, call.agent, _NO_RESULT)
    except _EVALUATION_ERRORS as error:
        return PolicyAnswer(_failed(rules, call, error))
    if 0 <= found < len(rules.says):
        return PolicyAnswer(refuse(codes.REFUSED, rules.says[found]))
    refusal = _judge_order(rules, call, marks, draft) if rules.orders else None
    if not rules.has_approval:
        return PolicyAnswer(refusal)
    asks = _ALWAYS if rules.expressions[-1].text == str(True) else rules.expressions[-1].text
    return PolicyAnswer(refusal, found >= 0, asks if found >= 0 else "")


def _judge_order(
    rules: ToolRules, call: MarkedCall, marks: MarkStore, draft: Draft
) -> RuleRefusal | None:
    """Decide a call by the rules about earlier calls."""
    for order in rules.orders:
        if not marks.is_counted(order.marking):
            message = (
                f"the earlier calls of {order.marking.tool} are not counted for a new rule of the "
                "policy; open the world by `Gate`, which counts them"
            )
            return refuse(codes.UNCOUNTED, message)
    for order in rules.orders:
        mark = marks.get(mark_name(order.marking, call))
        refusal = _judge_one(rules.tool, order, call, mark, draft)
        if refusal is not None:
            return refusal
    return None


def _judge_one(
    tool: str, order: OrderRule, call: MarkedCall, mark: Mapping[str, Json] | None, draft: Draft
) -> RuleRefusal | None:
    other, same = order.marking.tool, _same(order)
    if order.kind == "never_after":
        if mark is None:
            return None
        return refuse(codes.FORBIDDEN, f"{other}{same} was called, and {tool} never follows it")
    if order.sum_max is not None:
        return _judge_sum(tool, order, order.sum_max, call, mark, draft)
    if order.kind == "at_most":
        return None if mark is None else _judge_count(tool, order, mark, draft)
    if mark is None:
        message = f"{tool} needs an earlier call of {other}{same} that is done; call {other} first"
        return refuse(codes.MISSING, message)
    if order.holds is None:
        return None
    try:
        if order.holds(call.arguments, call.agent, mark["values"]) == 0:
            return None
    except _EVALUATION_ERRORS as error:
        message = f"the policy cannot compare the result of {other}: {_shown(error)}"
        return refuse(codes.FAILED, message)
    message = f"the latest result of {other}{same} does not fulfil {order.condition!r}"
    return refuse(codes.UNMET, message)


def _judge_count(
    tool: str, order: OrderRule, mark: Mapping[str, Json], draft: Draft
) -> RuleRefusal | None:
    """Refuse a call if its mark has the number of calls that is permitted, within the time."""
    count = mark["count"]
    if count < order.count:
        return None
    limit = f"{tool}{_same(order)} may be called {order.count} times"
    if not order.within_ns:
        return refuse(codes.REACHED, f"{limit}, and was")
    # The call that has the next place of the ring is the oldest of the latest `order.count`.
    left_ns = mark[str(count % order.count)] + order.within_ns - draft.now_ns
    if left_ns <= 0:
        return None
    seconds = left_ns / SECOND_NS
    message = f"{limit} in {order.within_ns / SECOND_NS:g} s; retry in {seconds:.2f} s"
    return refuse(codes.REACHED, message, retry_after=seconds)


def _judge_sum(
    tool: str,
    order: OrderRule,
    most: float,
    call: MarkedCall,
    mark: Mapping[str, Json] | None,
    draft: Draft,
) -> RuleRefusal | None:
    """Refuse a call whose value would raise the total of its mark above the limit."""
    field, given = order.marking.summed, call.arguments.get(order.marking.summed)
    value = value_of(given)
    if value is None:
        message = (
            f"a sum takes numbers from 0 with at most 18 decimals, and {field!r} is {given!r:.80}"
        )
        return refuse(codes.FAILED, message)
    if order.within_ns:
        draft.charge(_UNITS_PER_TOTAL)
    found = reached(order.marking, mark, value, most, draft.now_ns if order.within_ns else 0)
    if found is None:
        return None
    within = f" in {order.within_ns / SECOND_NS:g} s" if order.within_ns else ""
    limit = f"the sum of {field!r} of {tool}{_same(order)} is at most {most:.15g}{within}"
    why = f"it is {found.total}, and this call has {shown(value)}"
    if not found.total:
        why = f"its latest {CALLS_MAX} calls are all that is kept"
    if found.left_ns is None:
        return refuse(codes.REACHED, f"{limit}; {why}")
    seconds = found.left_ns / SECOND_NS
    return refuse(codes.REACHED, f"{limit}; {why}; retry in {seconds:.2f} s", retry_after=seconds)


def _same(order: OrderRule) -> str:
    fields = " and ".join(order.marking.by)
    return f" with the same {fields}" if fields else ""


def _failed(rules: ToolRules, call: MarkedCall, error: Exception) -> RuleRefusal:
    """Return the refusal of a call for which an expression raised, with its place."""
    place = next((one.place for one in rules.expressions if _raises(one, call)), "the policy")
    return refuse(codes.FAILED, f"{place} cannot be evaluated: {_shown(error)}")


def _raises(expression: Expression, call: MarkedCall) -> bool:
    try:
        compile_expressions([expression])(call.arguments, call.agent, _NO_RESULT)
    except _EVALUATION_ERRORS:
        return True
    return False


def _shown(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]
