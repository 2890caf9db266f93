"""A phase: a pure function of declared inputs to outputs, flags and the id of its method.

A phase reads its declared inputs only; therefore the phases that a change makes stale are computed
from `inputs`, never set by hand. `after` only orders runs. An input is one of three:

- a state path, such as `hull.beam`;
- an assumption: a state path with a default, most of them under `assumptions.`, outside the
  refinable whitelist. Its value and its source are listed in the outputs, under `assumptions`;
- a result of an earlier phase, `phase:output`, such as `hull:displacement_t`.

A phase does not raise for a value. If it cannot compute, it returns flags and no outputs.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from placet.schemas.codec import Json
from placet.schemas.errors import PlacetError

INPUT_MISSING: Final = "input_missing"
"""Flag: a declared input has no value; `at` is its path. There are no outputs."""
INPUT_INVALID: Final = "input_invalid"
"""Flag: an input is not a finite number, or not a word, or outside its bounds. No outputs."""
OUT_OF_RANGE: Final = "out_of_range"
"""Flag: outside the range of the method, which is named. With outputs: computed all the same."""
INCONSISTENT: Final = "inconsistent"
"""Flag: two inputs contradict each other."""
NOT_ASSESSABLE: Final = "not_assessable"
"""Flag: the method cannot say whether a criterion is met."""
NOT_MET: Final = "not_met"
"""Flag: a criterion is not met."""


class OutOfRangeError(PlacetError, ValueError):
    """Raised if a formula has no value for its input.

    Attributes:
        at: Name of the quantity that is out of range.
    """

    def __init__(self, at: str, message: str) -> None:
        super().__init__(message)
        self.at = at


@dataclass(frozen=True, slots=True)
class Flag:
    """A remark on the validity of a result; `at` is the path or the quantity concerned."""

    code: str
    message: str
    at: str


@dataclass(frozen=True, slots=True)
class PhaseOutcome:
    """The result of a run: plain finite values, flags, and the method."""

    outputs: dict[str, Json]
    flags: tuple[Flag, ...]
    method: str

    @property
    def has_outputs(self) -> bool:
        """Return whether the phase produced outputs.

        If not, it failed and the flags hold the reason.
        """
        return bool(self.outputs)


Run: TypeAlias = Callable[[Mapping[str, Json]], PhaseOutcome]


@dataclass(frozen=True, slots=True)
class Reading:
    """The declaration of one input of a phase: its path, its symbol, and its valid range.

    Attributes:
        path: State path, or `phase:output`.
        name: Name in the formulae, with its unit last.
        low: Minimum, inclusive; None accepts any finite number.
        high: Maximum, inclusive.
        default: Value assumed if the state has none.
        source: Source of the default; only an assumption has one.
        is_optional: May be absent; its name is then absent from the values.
        instead: State path that is read if `path` has no value; its value counts as an assumption.
    """

    path: str
    name: str
    low: float = -math.inf
    high: float = math.inf
    default: float | str | None = None
    source: str = ""
    is_optional: bool = False
    instead: str = ""

    def given(self, values: Mapping[str, Json]) -> Json:
        """Return the value in the state, or None."""
        value = values.get(self.path)
        return values.get(self.instead) if value is None and self.instead else value

    def is_assumed(self, values: Mapping[str, Json]) -> bool:
        """Return whether the value is an assumption, to be listed with its source."""
        return bool(self.source) and not (self.instead and values.get(self.path) is not None)


@dataclass(frozen=True, slots=True)
class Phase:
    """One step of the design calculation.

    Attributes:
        name: Name, as in a RUN_PHASES action.
        inputs: All paths that the phase reads; a change of one makes its result stale.
        after: Phases that run before it in the same run.
        method: Id of the formulae; changes when their results change.
        run: Function of the values of `inputs` (absent or None if unset).
        readings: The inputs with their bounds, defaults and sources.
    """

    name: str
    inputs: tuple[str, ...]
    after: tuple[str, ...]
    method: str
    run: Run
    readings: tuple[Reading, ...] = field(default=(), repr=False)


def required(path: str, name: str, low: float = 0.001) -> Reading:
    """Return the declaration of an input that the phase needs; positive by default."""
    return Reading(path, name, low)


def optional(path: str, name: str, low: float = 0.001) -> Reading:
    """Return the declaration of an input that is optional, and refines the phase's result."""
    return Reading(path, name, low, is_optional=True)


def result(path: str, name: str) -> Reading:
    """Return the declaration of an input that is an output of an earlier phase.

    Its path has the form `phase:output`.
    """
    return Reading(path, name)


def assumed(
    name: str, default: float, low: float, high: float, source: str, *, path: str = ""
) -> Reading:
    """Return the declaration of a number with a default, by default at `assumptions.<name>`."""
    return Reading(path or f"assumptions.{name}", name, low, high, default, source)


def assumed_word(name: str, default: str, source: str, *, path: str) -> Reading:
    """Return the declaration of a word with a default, such as the hull type."""
    return Reading(path, name, default=default, source=source)


def declare(
    name: str, method: str, after: tuple[str, ...], readings: tuple[Reading, ...], compute: Run
) -> Phase:
    """Build a phase from the declarations of its inputs and its formulae.

    Args:
        name: Name of the phase.
        method: Id of the method if `compute` ends before naming one.
        after: Phases that run before it.
        readings: Declarations of the inputs.
        compute: Function from values by name (floats, words) to an outcome; may raise
            OutOfRangeError, and ArithmeticError if numbers leave the range of a float.
    """

    def run(values: Mapping[str, Json]) -> PhaseOutcome:
        read, flags = _read(readings, values)
        if flags:
            return PhaseOutcome({}, flags, method)
        outcome = _computed(compute, read, method)
        if not outcome.has_outputs:
            return outcome
        assumptions = _assumptions(readings, values, read)
        return replace(outcome, outputs={**outcome.outputs, "assumptions": assumptions})

    paths = (path for reading in readings for path in (reading.path, reading.instead) if path)
    return Phase(name, tuple(paths), after, method, run, readings)


def _computed(compute: Run, read: Mapping[str, Json], method: str) -> PhaseOutcome:
    try:
        outcome = compute(read)
    except OutOfRangeError as error:
        return PhaseOutcome({}, (Flag(OUT_OF_RANGE, str(error), error.at),), method)
    except ArithmeticError:
        return PhaseOutcome({}, (_beyond_floats(method),), method)
    if _is_finite(outcome.outputs):
        return outcome
    return PhaseOutcome({}, (*outcome.flags, _beyond_floats(method)), method)


def _beyond_floats(method: str) -> Flag:
    message = (
        f"the formulae of {method} leave the range of floating point, about 1e308, with these "
        "inputs; their proportions are those of no vessel"
    )
    return Flag(OUT_OF_RANGE, message, method)


def _is_finite(value: Json) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list):
        return all(map(_is_finite, value))
    return True


def _read(
    readings: tuple[Reading, ...], values: Mapping[str, Json]
) -> tuple[dict[str, Json], tuple[Flag, ...]]:
    read: dict[str, Json] = {}
    flags = []
    for reading in readings:
        given = reading.given(values)
        value = reading.default if given is None else given
        if value is None:
            if not reading.is_optional:
                flags.append(_missing(reading))
            continue
        flag = _fault_flag(reading, value)
        if flag is not None:
            flags.append(flag)
            continue
        read[reading.name] = value if isinstance(value, str) else float(value)
    return read, tuple(flags)


def _missing(reading: Reading) -> Flag:
    phase, _, output = reading.path.partition(":")
    remedy = f"run the phase {phase!r} first" if output else "set it first"
    return Flag(INPUT_MISSING, f"{reading.path} has no value; {remedy}", reading.path)


def _fault_flag(reading: Reading, value: Json) -> Flag | None:
    path = reading.path
    if isinstance(reading.default, str):
        if isinstance(value, str):
            return None
        return Flag(INPUT_INVALID, f"{path} must be a word, not {_kind(value)}", path)
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_float(value):
        return Flag(INPUT_INVALID, f"{path} must be a finite number, not {_kind(value)}", path)
    if reading.low <= value <= reading.high:
        return None
    bound = f"at least {reading.low:g}" if value < reading.low else f"at most {reading.high:g}"
    return Flag(INPUT_INVALID, f"{path} is {value:g} and must be {bound}", path)


def _kind(value: Json) -> str:
    """Return the type of a value for a message; never the value, whose text may be very long."""
    return f"a {type(value).__name__}"


def _is_float(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond the floats
        return False


def _assumptions(
    readings: tuple[Reading, ...], values: Mapping[str, Json], read: Mapping[str, Json]
) -> dict[str, Json]:
    """List every assumption with its value, its source, and whether the state set it."""
    return {
        reading.name: {
            "path": reading.path,
            "value": read[reading.name],
            "is_given": values.get(reading.path) is not None,
            "source": reading.source,
        }
        for reading in readings
        if reading.is_assumed(values)
    }
