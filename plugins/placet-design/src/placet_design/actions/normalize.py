"""Normalize a proposed value: the kernel's unit, the field's type, within bounds.

The rules use these pure functions to decide, and the front ends to explain, so both agree.

The order is unit, type, bounds. Normalizing a result again changes nothing.
"""

from math import isfinite
from typing import Final, NamedTuple

from placet.schemas.codec import Json
from placet.schemas.json_value import format_value
from placet_design.actions.protocol import Adjustment
from placet_design.refinable_fields import RangePolicy, RefinableField, Step
from placet_design.units import UnitConverter, clamp_to_bounds

NO_WARNINGS: Final[tuple[Adjustment, ...]] = ()
_SLACK: Final = 1e-12
"""How far beyond a bound the rounding of a conversion may carry a value that was meant to be it."""


class PayloadFault(NamedTuple):
    """The reason why a payload is invalid: code, message, and JSON pointer into the payload."""

    code: str
    message: str
    at: str
    suggestions: tuple[str, ...] = ()


class NormalizedValue(NamedTuple):
    """The normalized form of a proposal.

    Attributes:
        value: The parameter's new value.
        payload: The normalized payload; the same object as the input if nothing changed.
        adjustments: Warnings about changes that the normalization made.
    """

    value: Json
    payload: dict[str, Json]
    adjustments: tuple[Adjustment, ...] = NO_WARNINGS


def unchanged(path: str, value: Json) -> Adjustment:
    """Return the warning that a proposal equals the current value."""
    shows = f"{value:g}" if type(value) is float else f"{value}"
    return Adjustment("no_op", f"{path} is {shows} already", path, value, value)


def normalize_set(
    field: RefinableField, payload: dict[str, Json], policy: RangePolicy
) -> NormalizedValue | PayloadFault:
    """Return the normalized form of a `design.set` payload, or the reason why it is invalid.

    Args:
        field: Definition of the parameter.
        payload: The payload.
        policy: Handling of a value out of bounds, unless the field has a policy.
    """
    value, unit = payload["value"], payload.get("unit")
    low, high = field.min_value, field.max_value
    if (
        type(value) is float
        and field.type == "float"
        and (unit is None or unit == field.kernel_unit)
        and (low is None or value >= low)
        and (high is None or value <= high)
        and value - value == 0.0
    ):
        return NormalizedValue(value + 0.0, payload)  # -0.0 and 0.0 are one value
    read = _read(field, value, unit, "/value")
    if isinstance(read, PayloadFault):
        return read
    used, adjustments = read
    bounded = _bounded(field, used, policy, "/value")
    if isinstance(bounded, PayloadFault):
        return bounded
    used, clamped = bounded
    return NormalizedValue(used, _payload(field, payload, "value", used), adjustments + clamped)


def normalize_change(
    field: RefinableField, payload: dict[str, Json], current: Json, policy: RangePolicy, sign: int
) -> NormalizedValue | PayloadFault:
    """Return the normalized form of a change by an amount, or the reason why it is invalid.

    Args:
        field: Definition of the parameter.
        payload: Payload of `design.increase` or `design.decrease`.
        current: The parameter's value; None if it is unset.
        policy: Handling of a value out of bounds, unless the field has a policy.
        sign: 1 to increase, -1 to decrease.
    """
    if not field.is_number:
        message = f"{field.path} is of type {field.type}; it can be set, not changed by an amount"
        return PayloadFault("not_a_number", message, "/path")
    amount = _amount(field, payload)
    if isinstance(amount, PayloadFault):
        return amount
    used, adjustments, normal = amount
    if current is None:
        message = f"{field.path} is not set, so it cannot be changed by an amount; set it first"
        return PayloadFault("delta_on_unset", message, "/path")
    changed = current + sign * used
    if not isfinite(changed):
        return PayloadFault("non_finite", f"{field.path} would leave all numbers", "/amount")
    bounded = _bounded(field, changed, policy, "/amount")
    if isinstance(bounded, PayloadFault):
        return bounded
    value, clamped = bounded
    return NormalizedValue(value, normal, adjustments + clamped)


def normal_payload(field: RefinableField, payload: dict[str, Json], policy: RangePolicy) -> Json:
    """Return a payload as it would be applied, as far as that is known without the state.

    None if the payload is invalid.
    """
    if "value" in payload:
        normalized = normalize_set(field, payload, policy)
        return None if isinstance(normalized, PayloadFault) else normalized.payload
    amount = _amount(field, payload) if field.is_number else None
    return None if amount is None or isinstance(amount, PayloadFault) else amount[2]


def _amount(
    field: RefinableField, payload: dict[str, Json]
) -> tuple[Json, tuple[Adjustment, ...], dict[str, Json]] | PayloadFault:
    amount = payload.get("amount")
    if amount is None:
        if not field.steps:
            message = f"{field.path} has no named steps; give an amount"
            return PayloadFault("amount_missing", message, "/amount")
        amount = Step.NORMAL.value
    if type(amount) is str:
        return _named_step(field, payload, amount)
    read = _read(field, amount, payload.get("unit"), "/amount")
    if isinstance(read, PayloadFault):
        return read
    used, adjustments = read
    if used <= 0:
        message = f"the amount must be above 0, got {used!r}; the type says which way to go"
        return PayloadFault("amount_not_positive", message, "/amount")
    return used, adjustments, _payload(field, payload, "amount", used)


def _named_step(
    field: RefinableField, payload: dict[str, Json], name: str
) -> tuple[Json, tuple[Adjustment, ...], dict[str, Json]] | PayloadFault:
    steps = {step.value: amount for step, amount in field.steps.items()}
    if name not in steps:
        expected = f"a number or one of {', '.join(steps)}" if steps else "a number"
        message = f"the amount of {field.path} must be {expected}, got {name[:40]!r}"
        return PayloadFault("not_a_number", message, "/amount", tuple(steps))
    if payload.get("unit"):
        message = f"the step {name!r} of {field.path} has its unit already; leave the unit out"
        return PayloadFault("unit_not_allowed", message, "/unit", ())
    used: Json = steps[name] if field.type == "float" else int(steps[name])
    return used, NO_WARNINGS, _payload(field, payload, "amount", used)


def _read(
    field: RefinableField, value: Json, unit: str | None, at: str
) -> tuple[Json, tuple[Adjustment, ...]] | PayloadFault:
    """Check the unit, then the type; return the value in the kernel's unit."""
    adjustments = NO_WARNINGS
    if unit and unit != field.kernel_unit and unit not in field.allowed_units:
        allowed = field.allowed_units
        expected = f"allowed are {', '.join(allowed)}" if allowed else "it has no unit"
        message = f"unit {unit!r} is not allowed for {field.path}; {expected}"
        return PayloadFault("unit_not_allowed", message, "/unit", allowed)
    fault = _type_fault(field, value, at)
    if fault is not None:
        return fault
    if unit and unit != field.kernel_unit:
        converted = UnitConverter.convert(value, unit, field.kernel_unit)
        if not isfinite(converted):
            return PayloadFault("non_finite", f"{field.path} in {unit} is beyond all numbers", at)
        message = f"{field.path} converted from {unit} to {field.kernel_unit}"
        adjustments = (Adjustment("unit_converted", message, field.path, value, converted),)
        value = converted
    if field.type == "float":
        return float(value) + 0.0, adjustments
    return (int(value) if field.type == "int" else value), adjustments


def _type_fault(field: RefinableField, value: Json, at: str) -> PayloadFault | None:
    path, kind = field.path, type(value)
    if field.type == "bool":
        if kind is bool:
            return None
        return PayloadFault(
            "not_a_bool", f"{path} must be true or false, got {format_value(value)}", at
        )
    if field.type == "enum":
        if kind is str and value in field.values:
            return None
        message = f"{path} must be one of {', '.join(field.values)}, got {format_value(value)}"
        return PayloadFault("enum_value", message, at, field.values)
    if kind is not float and kind is not int:
        return PayloadFault(
            "not_a_number", f"{path} must be a number, got {format_value(value)}", at
        )
    if kind is int and abs(value) > 2**63:  # beyond any bound, and perhaps beyond the floats
        return PayloadFault("not_a_number", f"{path} must be a number that fits 64 bits", at)
    if not isfinite(value):
        return PayloadFault("non_finite", f"{path} must be finite, got {value!r}", at)
    if field.type == "int" and value != int(value):
        return PayloadFault("not_integral", f"{path} must be a whole number, got {value!r}", at)
    return None


def _bounded(
    field: RefinableField, value: Json, policy: RangePolicy, at: str
) -> tuple[Json, tuple[Adjustment, ...]] | PayloadFault:
    if not field.is_number:
        return value, NO_WARNINGS
    low, high = field.min_value, field.max_value
    used, is_clamped = clamp_to_bounds(value, low, high)
    if not is_clamped:
        return value, NO_WARNINGS
    used = int(used) if field.type == "int" else used
    if abs(value - used) <= _SLACK * abs(used):
        return used, NO_WARNINGS
    unit = f" {field.kernel_unit}" if field.kernel_unit else ""
    bounds = f"{_bound(low, 'unbounded')} to {_bound(high, 'unbounded')}{unit}"
    if (field.policy or policy) == "reject":
        message = f"{field.path} must be within {bounds}, got {value:g}{unit}"
        return PayloadFault("out_of_bounds", message, at)
    message = f"{field.path} clamped from {value:g} to {used:g}{unit}; it ranges from {bounds}"
    return used, (Adjustment("clamped", message, field.path, value, used),)


def _bound(bound: float | None, otherwise: str) -> str:
    return otherwise if bound is None else f"{bound:g}"


def _payload(
    field: RefinableField, payload: dict[str, Json], name: str, used: Json
) -> dict[str, Json]:
    """Write the normalized value into the payload; return the same object if nothing changes."""
    unit, stated = payload.get("unit"), payload.get(name)
    is_normal_unit = not unit or unit == field.kernel_unit
    if is_normal_unit and type(stated) is type(used) and stated == used:
        return payload
    normal = {**payload, name: used}
    if unit:
        normal["unit"] = field.kernel_unit
    return normal
