"""Refusals shared by several kinds."""

from collections.abc import Iterable, Sequence
from typing import Final

from placet.kernel.plugin.domain import RuleRefusal, refuse
from placet.schemas.name_suggestions import nearest
from placet_program.diagnostics import Diagnostic
from placet_program.functions import Function, Functions

_NEAR: Final = 3
_LISTED: Final = 8


def unknown_function(name: str, functions: Functions, at: str) -> RuleRefusal:
    """Return the refusal for a function that does not exist."""
    return _unknown("function", name, functions.names(), "in this program", at)


def unknown_node(name: str, function: Function, at: str) -> RuleRefusal:
    """Return the refusal for a node that the function does not have."""
    return _unknown("node", name, sorted(function.nodes), f"in {function.name!r}", at)


def unknown_param(name: str, function: Function, at: str) -> RuleRefusal:
    """Return the refusal for a parameter that the function does not have."""
    return _unknown("param", name, list(function.params), f"of {function.name!r}", at)


def not_verified(errors: Sequence[Diagnostic], at: str) -> RuleRefusal:
    """Return the refusal of a run or a compilation of a function that has errors."""
    listed = [error.as_dict() for error in errors[:_LISTED]]
    more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
    return refuse(
        "not_verified",
        f"it has errors, which must be mended first: {errors[0].message}{more}",
        at=at,
        diagnostics=listed,
    )


def _unknown(noun: str, name: str, known: Iterable[str], where: str, at: str) -> RuleRefusal:
    near = nearest(name, known, _NEAR)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    message = f"there is no {noun} {name!r} {where}{hint}"
    return refuse(f"unknown_{noun}", message, at=at, suggestions=near)
