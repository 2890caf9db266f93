"""The limits of a policy in words: the ones in force, and the ones that a gate drops."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from placet.runtime.orchestrator import Orchestrator
from placet.runtime.telemetry.world_logger import WorldLogger
from placet.schemas.codec import Json
from placet.schemas.limits import SECOND_NS
from placet_tools.domain import ROLE, ToolsDomain
from placet_tools.policy import APPROVE_FROM, ToolPolicyError, parse_policy
from placet_tools.policy.rules import OrderRule, ToolPolicy, ToolRules
from placet_tools.tool import DeclaredTool


@dataclass(frozen=True, slots=True)
class ToolLimits:
    """The limits of one tool.

    Attributes:
        tool: Name of the tool.
        asks: When a person is asked, and with which role.
        limits: Its other limits, in the order in which they decide.
        warning: Fault of the policy that keeps no call from running; empty for none.
    """

    tool: str
    asks: str
    limits: tuple[str, ...] = ()
    warning: str = ""

    def as_dict(self) -> dict[str, Json]:
        """Return the limits as plain JSON."""
        return {**asdict(self), "limits": list(self.limits)}


def limits_of(
    policy: ToolPolicy, tools: Mapping[str, DeclaredTool], approve_from: str
) -> list[ToolLimits]:
    """Return the limits of each tool under a policy.

    Args:
        policy: The policy.
        tools: The tools by name.
        approve_from: Least risk that needs an approval, where the policy names none.
    """
    least = policy.approve_from or approve_from
    return [_limits(policy, tool, least) for tool in tools.values()]


def _limits(policy: ToolPolicy, tool: DeclaredTool, least: str) -> ToolLimits:
    rules = policy.tools.get(tool.name)
    is_asked = APPROVE_FROM.index(tool.risk) >= APPROVE_FROM.index(least)
    own = [f"once {tool.once}"] if tool.once else []
    if rules is None and policy.unlisted == "refuse":
        return ToolLimits(tool.name, "never", ("every call is refused: it is not listed",))
    role = (rules and rules.role) or ROLE
    always = f"{role}: every call"
    if rules is None and policy.unlisted == "hold":
        return ToolLimits(tool.name, always, tuple(own))
    asks = always if is_asked else "never"
    if rules is not None and rules.has_approval:
        text = rules.expressions[-1].text
        asks = {"True": always, "False": "never"}.get(text, f"{role}: if {text}")
    asks = f"{role}: if a rule of the code asks" if asks == "never" and tool.rules else asks
    warning = ""
    if rules is not None and rules.role and asks == "never":
        warning = (
            f"tools.{tool.name}.role: no call of it asks a person, so the role {rules.role!r} "
            f"decides nothing; add approval, or leave role out"
        )
    found = () if rules is None else tuple(_texts(rules))
    quota = (rules and rules.quota) or tool.quota
    per = [f"{quota['rate']:g} a second of each agent, {quota['burst']} at once"] if quota else []
    return ToolLimits(tool.name, asks, (*own, *found, *per), warning)


def _texts(rules: ToolRules) -> Iterator[str]:
    """Yield the rules of a tool in words, but for that of the approval."""
    for expression in rules.expressions[: len(rules.says)]:
        yield f"refused if {expression.text}"
    for order in rules.orders:
        yield _order(order)


def _order(order: OrderRule) -> str:
    fields = ", ".join(order.marking.by)
    if order.kind == "at_most":
        what = f"{order.count} calls"
        if order.sum_max is not None:
            what = f"a sum of {order.marking.summed} of {order.sum_max:.15g}"
        of = f" for each {fields}" if fields else " in all"
        within = f" within {order.within_ns / SECOND_NS:g} s" if order.within_ns else ""
        return f"at most {what}{of}{within}"
    same = f" with the same {fields}" if fields else ""
    words = {"never_after": "never after", "after": "after", "only_if": "only if the latest"}
    holds = f" has {order.condition}" if order.condition else ""
    return f"{words[order.kind]} {order.marking.tool}{same}{holds}"


def warn_of_dropped_policy(world: Orchestrator, domain: ToolsDomain) -> None:
    """Log a warning if the log was judged by a policy until now, and is judged by none from now on.

    Args:
        world: The open world.
        domain: The domain of its tools.
    """
    before = world.settings_before.get(domain.name, {}).get("policy")
    if domain.enforced.policy is not None or before is None:
        return
    config = world.config
    text = (
        f"this Gate has no policy, and the log of {domain.name!r} was judged by one until now: "
        f"pass policy=; no longer in force: {'; '.join(_dropped(before, domain))}"
    )
    WorldLogger(config.log_format, config.log_level, config.world).warning(text)


def _dropped(policy: Mapping[str, Json], domain: ToolsDomain) -> Sequence[str]:
    try:
        parsed = parse_policy(policy, domain.tools)
    except ToolPolicyError:  # of tools that have changed since
        return [", ".join(policy.get("tools", {})) or "its defaults"]
    return [
        f"{one.tool}: {', '.join([*one.limits, f'asks {one.asks}'])}"
        for one in limits_of(parsed, domain.tools, domain.approve_from)
    ]
