"""The rules of a policy, parsed: what each tool needs, and which earlier calls are remembered."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from placet.schemas.codec import Json
from placet_tools.policy.expressions import AGENT, Expression, Judge

Unlisted: TypeAlias = Literal["allow", "hold", "refuse"]
UNLISTED: Final[tuple[Unlisted, ...]] = ("allow", "hold", "refuse")
"""Answers to a call of a tool that the policy does not list."""

OrderKind: TypeAlias = Literal["never_after", "after", "only_if", "at_most"]
ORDER_KINDS: Final[tuple[OrderKind, ...]] = ("never_after", "after", "only_if", "at_most")
"""The rules about earlier calls, in the order in which they decide."""

Gives: TypeAlias = Literal["allowed", "held", "refused"]
GIVES: Final[tuple[Gives, ...]] = ("allowed", "held", "refused")
"""Answers of a policy to a call."""


@dataclass(frozen=True, slots=True)
class Marking:
    """The marks that the calls of one tool leave, for the rules about earlier calls.

    A mark is known by the values of some fields of the call.

    Attributes:
        id: Name of the marking in the state: two rules that need the same marks share them.
        event: Calls that leave a mark: `done` ones alone, or all that are `started`.
        tool: The tool.
        by: Fields whose values name the mark.
        window: Number of latest times that a mark keeps; 0 for none.
        paths: Paths of the output that a mark keeps.
        summed: Field whose values a mark adds up; empty for none.
        within_ns: Simulated nanoseconds after which a summed value no longer counts; 0 for never.
    """

    id: str
    event: Literal["done", "started"]
    tool: str
    by: tuple[str, ...]
    window: int = 0
    paths: tuple[str, ...] = ()
    summed: str = ""
    within_ns: int = 0


@dataclass(frozen=True, slots=True)
class OrderRule:
    """A rule of a tool about earlier calls.

    Attributes:
        kind: Name of the rule.
        marking: The marks that it reads.
        count: Calls that `at_most` permits; 0 for another rule.
        sum_max: Largest sum that `at_most` permits; None for another rule.
        within_ns: Simulated nanoseconds in which they are counted; 0 for all time.
        holds: Condition of `only_if`, of which 0 is the value if it holds; None for another rule.
        condition: Text of the condition.
    """

    kind: OrderKind
    marking: Marking
    count: int = 0
    sum_max: float | None = None
    within_ns: int = 0
    holds: Judge | None = None
    condition: str = ""


@dataclass(frozen=True, slots=True)
class ToolRules:
    """The rules of one tool.

    Attributes:
        tool: Name of the tool.
        expressions: Those of `refuse`, in order, and then that of `approval`, if there is one.
        says: Message of each expression of `refuse`.
        first: The expressions, compiled.
        has_approval: The last expression is that of `approval`.
        role: Role of the person who approves; empty for the default.
        quota: `{"rate": per second, "burst": count}` of each agent; None for that of the tool.
        orders: Rules about earlier calls, in the order in which they decide.
    """

    tool: str
    expressions: tuple[Expression, ...]
    says: tuple[str, ...]
    first: Judge
    has_approval: bool = False
    role: str = ""
    quota: Mapping[str, float] | None = None
    orders: tuple[OrderRule, ...] = ()


@dataclass(frozen=True, slots=True)
class EarlierCall:
    """A call that an example has before it.

    Attributes:
        tool: The tool.
        arguments: Its arguments.
        agent: Its agent.
        result: Its output.
    """

    tool: str
    arguments: Mapping[str, Json]
    agent: str
    result: Json = None


@dataclass(frozen=True, slots=True)
class Example:
    """A call, and the answer that the author of the policy expects.

    Attributes:
        place: Its place in the policy.
        call: The call.
        gives: The expected answer, or the code of the refusal.
        given: Calls before it, which have succeeded.
    """

    place: str
    call: EarlierCall
    gives: str
    given: tuple[EarlierCall, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolPolicy:
    """A policy over the calls of tools.

    Attributes:
        data: The policy as plain JSON, without its examples.
        unlisted: Answer to a call of a tool that it does not list.
        approve_from: Least risk that needs an approval; None for that of the gate.
        tools: The rules of each tool that it lists.
        markings: Tool -> the marks that its calls leave.
        examples: The examples.
    """

    data: Mapping[str, Json]
    unlisted: Unlisted
    approve_from: str | None
    tools: Mapping[str, ToolRules]
    markings: Mapping[str, tuple[Marking, ...]] = field(default_factory=dict)
    examples: tuple[Example, ...] = ()

    def each_marking(self) -> Mapping[str, Marking]:
        """Return all markings by their ids."""
        return {one.id: one for markings in self.markings.values() for one in markings}

    def role_of(self, tool: str) -> str:
        """Return the role of the person who approves a call; empty for the default."""
        return self.tools[tool].role if tool in self.tools else ""

    def orders_across_agents(self, tool: str) -> bool:
        """Return whether calls of other agents count for a rule of a tool."""
        orders = self.tools[tool].orders if tool in self.tools else ()
        return any(AGENT not in order.marking.by for order in orders)
