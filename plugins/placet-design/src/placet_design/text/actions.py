"""Turn the items of a clause into actions whose every field was stated, none assumed."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from placet.schemas.codec import Json
from placet_design.actions.protocol import Action, ActionType
from placet_design.refinable_fields import RefinableField
from placet_design.text.clauses import (
    Amount,
    Item,
    Link,
    Measure,
    Noun,
    UnclearError,
    either,
)
from placet_design.text.lexicon import PERCENT, Meaning
from placet_design.units import UnitConverter

LENGTH_OF_A_VESSEL: Final = "hull.loa"
"""What the measure in `60 m ferry` is, in the language of the field."""
_NO_EQUALS: Final = frozenset({"by", "from"})
"""Links after which there is an amount, or what was, but not what shall be."""
_VESSEL: Final = frozenset({"hull.hull_type", "mission.vessel_type"})


class Wording:
    """Builds actions from the items of a clause that sets or changes fields of a design.

    Args:
        fields: Path -> field.
        current: Known values of the design in the kernel's units; a percentage refers to one of
            these.
    """

    def __init__(self, fields: Mapping[str, RefinableField], current: Mapping[str, Json]) -> None:
        self._fields = fields
        self._current = current

    def described(self, items: Sequence[Item]) -> list[Action]:
        """Build SET actions from descriptions such as `beam to 9 m` or `60 m aluminum ferry`."""
        rest, actions = list(items), []
        for item, other in pairwise(items):
            if isinstance(item, Measure) and isinstance(other, Measure):
                raise UnclearError(f"is {item.text} {other.text} one number or two? separate them")
        while rest:
            action, length = self._first(rest)
            if action is not None:
                actions.append(action)
            rest = rest[length:]
        if not actions:
            raise UnclearError("no field was named; name one, with its value")
        return actions

    def _first(self, rest: list[Item]) -> tuple[Action | None, int]:
        """Read the first description; return its action and its number of items."""
        return self._chosen(rest) or self._measured(rest) or self._otherwise(rest)

    def _chosen(self, rest: list[Item]) -> tuple[Action, int] | None:
        """Read the value of an enum field, with or without the field's name."""
        match rest:
            case [Meaning(path, None), Link(link), Meaning(other, str(value)), *_] if (
                path == other and link not in _NO_EQUALS
            ):
                return _choose(path, value), 3
            case [Meaning(path, None), Meaning(other, str(value)), *_] if path == other:
                return _choose(path, value), 2
            case [Meaning(path, str(value)), Meaning(other, None), *_] if path == other:
                return _choose(path, value), 2
            case [Meaning(path, str(value)), *_]:
                return _choose(path, value), 1
            case _:
                return None

    def _measured(self, rest: list[Item]) -> tuple[Action, int] | None:
        """Read a measure and its field, in either order."""
        match rest:
            case [Meaning(path, None), Link("by"), Measure() as measure, *_]:
                readings = (ActionType.INCREASE.value, ActionType.DECREASE.value)
                raise UnclearError(f"{either(readings)} {path} by {measure.text}?", readings)
            case [Meaning(path, None), Link(link), Measure() as measure, *_] if (
                link not in _NO_EQUALS
            ):
                return self._set(path, measure), 3
            case [Measure() as measure, Link("of"), Meaning(path, None), *_]:
                return self._set(path, measure), 3
            case [Measure(), Meaning(_, None), Measure(), *_] if not _alternates(rest):
                raise _two_readings(rest)
            case [Measure() as measure, Meaning(path, None), *after] if not _is_link(after):
                return self._set(path, measure), 2
            case [Meaning(path, None), Measure() as measure, *_] if _alternates(rest):
                return self._set(path, measure), 2
            case [Meaning(_, None), Measure(), Meaning(), *_]:
                raise _two_readings(rest)
            case [Measure() as measure, *after]:
                return self._unnamed(measure, after), 1
            case _:
                return None

    def _otherwise(self, rest: list[Item]) -> tuple[None, int]:
        """Skip the noun for the vessel; ask about any other remaining item."""
        item = rest[0]
        if isinstance(item, Noun):
            return None, 1
        if isinstance(item, Meaning):
            raise self._no_value(item.path)
        raise UnclearError(f"{item.text!r} does not stand between a field and its value here")

    def _set(self, path: str, measure: Measure) -> Action:
        field = self._number_field(path, measure)
        if measure.unit == PERCENT:
            raise UnclearError(f"{measure.text} of what? {path} can be set to a value, with a unit")
        unit = self._unit(field, measure) if measure.unit else _plausible_unit(field, measure)
        return Action(ActionType.SET, path, value=measure.number, unit=unit)

    def _unnamed(self, measure: Measure, after: Sequence[Item]) -> Action:
        """Read a measure without a field.

        The length in `60 m ferry`, or the only field that fits.
        """
        fitting = [
            field.path for field in self._fields.values() if measure.unit in field.allowed_units
        ]
        if LENGTH_OF_A_VESSEL in fitting and _is_a_vessel(after):
            return self._set(LENGTH_OF_A_VESSEL, measure)
        if len(fitting) == 1:
            return self._set(fitting[0], measure)
        if not fitting:
            raise UnclearError(f"{measure.text} of what? name the field")
        question = f"{measure.text} could be {either(fitting)}; say which"
        raise UnclearError(question, fitting, measure.said)

    def changed(self, items: Sequence[Item], action_type: ActionType) -> Action:
        """Build the action of a clause that increases or decreases a field.

        `beam by 2 m`, `power by 15 %`, `draft a bit`, `beam to 9 m`.
        """
        steps = [item.text for item in items if isinstance(item, Amount)]
        match [item for item in items if not isinstance(item, Amount)]:
            case [Meaning(path, None)]:
                return self._stepped(path, steps, action_type)
            case [Meaning(path, None), Link("by"), Measure() as measure] if not steps:
                return self._amount(path, measure, action_type)
            case [Meaning(path, None), Link("to"), Measure() as measure] if not steps:
                return self._towards(path, measure, action_type)
            case [Meaning(path, None), Measure(_, "%") as measure] if not steps:
                return self._amount(path, measure, action_type)
            case [Meaning(path, None), Measure() as measure]:
                readings = (f"by {measure.text}", f"to {measure.text}")
                raise UnclearError(f"change {path} {either(readings)}?", readings)
            case _:
                message = f"{action_type.value} one field, by an amount or to a value; which?"
                raise UnclearError(message)

    def added(self, items: Sequence[Item], action_type: ActionType) -> Action:
        """Build the action of a clause that adds or removes: `2 m to the beam`, `2 engines`."""
        link = "to" if action_type is ActionType.INCREASE else "from"
        match items:
            case [Measure() as measure, Link(said), Meaning(path, None)] if said in {link, "of"}:
                return self._amount(path, measure, action_type)
            case [Measure() as measure, Meaning(path, None)]:
                return self._amount(path, measure, action_type)
            case _:
                raise UnclearError("say how much is to be added to, or removed from, which field")

    def _stepped(self, path: str, steps: list[str], action_type: ActionType) -> Action:
        field = self._fields[path]
        if len(steps) > 1:
            raise UnclearError(f"by how much is {path} to change? one step, not several", steps)
        if not field.steps:
            raise UnclearError(f"by how much is {path} to change? say an amount")
        return Action(action_type, path, amount=steps[0] if steps else None)

    def _amount(self, path: str, measure: Measure, action_type: ActionType) -> Action:
        if measure.unit == PERCENT:
            measure = self._share(path, measure)
        field = self._number_field(path, measure)
        if measure.number <= 0:
            raise UnclearError(
                f"{action_type.value} {path} by {measure.text}? say a positive amount",
                (ActionType.INCREASE.value, ActionType.DECREASE.value),
            )
        if measure.unit is None and len(field.allowed_units) > 1:
            raise _unit_missing(field, measure, field.allowed_units)
        unit = self._unit(field, measure) if measure.unit else None
        return Action(action_type, path, amount=measure.number, unit=unit)

    def _share(self, path: str, measure: Measure) -> Measure:
        """Convert a percentage into a share of the current value."""
        present = self._current.get(path)
        if isinstance(present, bool) or not isinstance(present, int | float):
            raise UnclearError(
                f"{measure.text} of {path} needs its present value, which is not known; say an "
                "amount"
            )
        unit = self._fields[path].kernel_unit or None
        return Measure(present * measure.number / 100, unit, measure.text)

    def _towards(self, path: str, measure: Measure, action_type: ActionType) -> Action:
        """Set a value; if the current one is known, it must lie in the direction of the verb."""
        action = self._set(path, measure)
        present, field = self._current.get(path), self._fields[path]
        if isinstance(present, int | float):
            unit = action.unit or field.kernel_unit
            target = action.value * (UnitConverter.factor(unit, field.kernel_unit) if unit else 1)
            if (target > present) != (action_type is ActionType.INCREASE):
                raise UnclearError(
                    f"{action_type.value} {path} to {measure.text}? it is {present:g} now",
                    (ActionType.SET.value, action_type.value),
                )
        return action

    def _number_field(self, path: str, measure: Measure) -> RefinableField:
        field = self._fields[path]
        if not field.is_number:
            raise self._no_value(path)
        if field.type == "int" and measure.unit != PERCENT and measure.number % 1:
            raise UnclearError(f"{path} is a whole number, {measure.text} makes {measure.number:g}")
        return field

    def _unit(self, field: RefinableField, measure: Measure) -> str | None:
        if measure.unit in field.allowed_units:
            return measure.unit
        allowed = field.allowed_units
        expected = f"it is in {either(allowed)}" if allowed else "it has no unit"
        raise UnclearError(f"{field.path} is not in {measure.unit}; {expected}", allowed)

    def _no_value(self, path: str) -> UnclearError:
        field = self._fields[path]
        candidates = field.values or field.allowed_units
        hint = f" ({either(candidates)})" if candidates else ""
        return UnclearError(f"what should {path} be{hint}?", candidates)


def contradictions(actions: Sequence[Action]) -> Iterator[str]:
    """Yield the paths that are set twice to different values, in order of the second."""
    values: dict[str | None, tuple[Json, str | None]] = {}
    for action in actions:
        if action.action_type is ActionType.SET:
            if values.setdefault(action.path, (action.value, action.unit)) != (
                action.value,
                action.unit,
            ):
                yield str(action.path)
        else:
            values.pop(action.path, None)


def _choose(path: str, value: str) -> Action:
    return Action(ActionType.SET, path, value=value)


def _plausible_unit(field: RefinableField, measure: Measure) -> str | None:
    """Return the only unit in which a bare number is within the bounds of its field."""
    units = field.allowed_units
    if not units[1:]:
        return None
    low = -float("inf") if field.min_value is None else field.min_value
    high = float("inf") if field.max_value is None else field.max_value
    fitting = [
        unit
        for unit in units
        if low <= measure.number * UnitConverter.factor(unit, field.kernel_unit) <= high
    ]
    if len(fitting) != 1:
        raise _unit_missing(field, measure, tuple(fitting) or units)
    return fitting[0]


def _unit_missing(
    field: RefinableField, measure: Measure, candidates: Sequence[str]
) -> UnclearError:
    return UnclearError(
        f"{measure.text} for {field.path} could be in {either(candidates)}; say the unit",
        candidates,
    )


def _alternates(rest: Sequence[Item]) -> bool:
    """Return whether measures and fields form pairs up to the next item of another kind."""
    run: list[bool] = []
    for item in rest:
        is_measure = isinstance(item, Measure)
        if not is_measure and not (isinstance(item, Meaning) and item.value is None):
            break
        run.append(is_measure)
    is_followed = isinstance(rest[len(run)], Link) if len(run) < len(rest) else False
    return not is_followed and len(run) % 2 == 0 and all(a != b for a, b in pairwise(run))


def _two_readings(rest: Sequence[Item]) -> UnclearError:
    paths = [item.path for item in rest[:4] if isinstance(item, Meaning)]
    return UnclearError("which number belongs to which field? separate them by commas", paths)


def _is_link(after: Sequence[Item]) -> bool:
    return bool(after) and isinstance(after[0], Link)


def _is_a_vessel(after: Sequence[Item]) -> bool:
    """Return whether a vessel is named next, with only values of other enum fields in between."""
    for item in after:
        if isinstance(item, Noun):
            return True
        if not isinstance(item, Meaning) or item.value is None:
            return False
        if item.path in _VESSEL:
            return True
    return False
