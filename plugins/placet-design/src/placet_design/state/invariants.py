"""Invariants of a design as a whole, checked after every batch that touches it."""

from collections.abc import Iterator, Sequence
from typing import Final

from placet.kernel.plugin.domain import RuleRefusal, refuse
from placet.kernel.state.tree import State
from placet.schemas.identity import Ref
from placet_design.payloads import PARAMETERS

CP_TOLERANCE: Final = 0.01
"""|Cb - Cp·Cm| may be this part of Cb: what remains is the rounding of coefficients in use."""

_ORDERED: Final = (
    ("lwl_within_loa", "hull.lwl", "hull.loa", "m", True),
    ("draft_below_depth", "hull.draft", "hull.depth", "m", False),
    ("cruise_within_max", "mission.cruise_speed_kts", "mission.max_speed_kts", "kts", True),
)
"""`(name, the lesser, the greater, unit, may they be equal)`."""

_COEFFICIENTS: Final = ("hull.cb", "hull.cp", "hull.cm")
WATCHED: Final = frozenset(
    [Ref(PARAMETERS, path) for _, *pair, _, _ in _ORDERED for path in pair]
    + [Ref(PARAMETERS, path) for path in _COEFFICIENTS]
)
"""All that is judged."""


def violations(state: State, changed: Sequence[Ref]) -> Iterator[RuleRefusal]:
    """Yield the invariants that the state after a batch violates.

    Checks only the invariants that the batch's changes affect.
    """
    touched = {path for collection, path in changed if collection == PARAMETERS}
    rows = state.collections[PARAMETERS].entities
    for name, lesser, greater, unit, is_equal_allowed in _ORDERED:
        if lesser not in touched and greater not in touched:
            continue
        if lesser not in rows or greater not in rows:  # a design may lack these fields
            continue
        low, high = rows[lesser].fields["value"], rows[greater].fields["value"]
        if low is None or high is None or low < high or (is_equal_allowed and low == high):
            continue
        relation = "at most" if is_equal_allowed else "less than"
        yield refuse(
            name,
            f"{lesser} must be {relation} {greater}, got {low:g} and {high:g} {unit}; "
            "change both in one plan",
            at=f"/{lesser}",
            paths=[lesser, greater],
        )
    if not touched.isdisjoint(_COEFFICIENTS):
        yield from _coefficients(state)


def _coefficients(state: State) -> Iterator[RuleRefusal]:
    cb, cp, cm = [state.get(PARAMETERS, path, "value") for path in _COEFFICIENTS]
    if cb is None or cp is None or cm is None or abs(cb - cp * cm) <= CP_TOLERANCE * cb:
        return
    yield refuse(
        "coefficients_agree",
        f"hull.cb must be hull.cp times hull.cm within {CP_TOLERANCE:.0%}, got {cb:g} and "
        f"{cp:g} x {cm:g} = {cp * cm:g}; change them in one plan",
        at="/hull.cb",
        paths=list(_COEFFICIENTS),
    )
