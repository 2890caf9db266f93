"""The policy file of a gateway: the rules of a gate, and declarations that a server cannot make.

A table `[tools.NAME]` may have `risk`, `once`, `delivery` and `errors` beside the rules, because no
function declares them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from placet.kernel.plugin.domain import RISKS, Risk
from placet.schemas.codec import Json
from placet.schemas.effect import Delivery
from placet.schemas.name_suggestions import did_you_mean
from placet_tools.frontend.policy_file import read_policy
from placet_tools.policy import ToolPolicyError

_DELIVERIES: Final = ("at_most_once", "idempotent", "pure")
"""A server is not sent the key of a call, so none is `keyed`."""

_ERRORS: Final = ("done", "doubt", "failed")

_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "risk": RISKS,
    "delivery": _DELIVERIES,
    "once": (),
    "errors": _ERRORS,
}


@dataclass(frozen=True, slots=True)
class Declared:
    """The declaration of a server's tool by a policy.

    Attributes:
        risk: Greatest harm that a call can do.
        once: Template of the consequence that happens once; empty for none.
        delivery: Result of a second execution.
        errors: Outcome of a call whose result has `isError`: `done`, `doubt` or `failed`; empty for
            `doubt` with `once`, else `done`.
    """

    risk: Risk = "high"
    once: str = ""
    delivery: Delivery = "at_most_once"
    errors: str = ""


@dataclass(frozen=True, slots=True)
class GatewayPolicy:
    """The policy of a gateway.

    Attributes:
        declared: Declarations by tool; of a tool that the policy does not list there are none.
        rules: The policy of the gate, as plain values; None for none.
    """

    declared: Mapping[str, Declared] = field(default_factory=dict)
    rules: Mapping[str, Json] | None = None


def gateway_policy(path: str) -> GatewayPolicy:
    """Read the policy of a gateway: a tool that it does not list is held, unless it says else.

    Args:
        path: Path of the TOML file; empty for no policy.

    Raises:
        ToolPolicyError: The file cannot be read, or a declaration does not fit.
    """
    if not path:
        return GatewayPolicy()
    values = dict(read_policy(path))
    tables, defaults = values.get("tools", {}), values.get("defaults", {})
    declared: dict[str, Declared] = {}
    if isinstance(tables, Mapping):
        rules = {}
        for tool, table in tables.items():
            rules[tool] = table
            if isinstance(table, Mapping):
                own = {name: table[name] for name in _NAMES if name in table}
                declared[tool] = _declared(path, tool, own)
                rules[tool] = {name: table[name] for name in table if name not in own}
        values["tools"] = rules
    if isinstance(defaults, Mapping):
        values["defaults"] = {"unlisted": "hold", **defaults}
    return GatewayPolicy(declared, values)


def _declared(path: str, tool: str, own: Mapping[str, Json]) -> Declared:
    for name, value in own.items():
        known = _NAMES[name]
        if not isinstance(value, str) or (known and value not in known):
            expected = did_you_mean(str(value), known) if known else "expected a text"
            place = f"{path}: tools.{tool}.{name}"
            raise ToolPolicyError(f"{place}: no such {name} {value!r}; {expected}")
    return Declared(**own)
