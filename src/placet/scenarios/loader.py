"""Load a scenario from a TOML file and command-line overrides, and validate it.

Every error names the file, the key, the expected and the given value, and the remedy.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from importlib.resources import files
from inspect import signature
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from placet.kernel.plugin.domain import Domain
from placet.kernel.plugin.known_names import QUOTA_KEYS
from placet.plugins.domains import make_domain
from placet.scenarios.policies import find_policy
from placet.scenarios.scenario import AgentCohort, Collect, ObjectSort, Scenario, ScenarioError
from placet.schemas.codec import Json
from placet.schemas.documents import DocumentError, DocumentTooLarge, parse_toml
from placet.schemas.errors import DomainError
from placet.schemas.name_suggestions import did_you_mean, nearest
from placet.schemas.names import path_part_fault
from placet.stores.documents import read_document

_ENTRIES: Final[Mapping[str | int, type]] = {"agents": AgentCohort, "objects": ObjectSort}
"""Tables of a scenario whose keys are names of entries."""

_TABLES: Final[Mapping[str | int, type]] = {**_ENTRIES, "collect": Collect}
_UNKNOWN: Final = frozenset({"extra_forbidden", "unexpected_keyword_argument"})
_ENDING: Final = ".toml"
_BUNDLED: Final = "placet.scenarios.builtin"
_TICK_S_MIN: Final = 1e-9
_LASTS_S_MAX: Final = 4.6e9
"""A kernel takes no later time: 2**62 nanoseconds, 146 years."""


def bundled() -> tuple[str, ...]:
    """Return the names of the scenarios in the package."""
    names = (entry.name for entry in files(_BUNDLED).iterdir())
    return tuple(sorted(name.removesuffix(_ENDING) for name in names if name.endswith(_ENDING)))


def load(scenario: str | Path, *, overrides: Iterable[str] = ()) -> Scenario:
    """Load a bundled scenario by name, or any scenario by the path of its TOML file.

    Args:
        scenario: Name or path. A bundled name wins; write `./town` for a file of that name.
        overrides: `key=value` with a dotted key and a TOML value, as in `agents.folk.count=20`.

    Raises:
        ScenarioError: The scenario does not exist, or is invalid.
    """
    source, text = _read(scenario)
    try:
        raw = parse_toml(text)
    except DocumentTooLarge as error:
        raise ScenarioError(source, "", str(error)) from None
    except DocumentError as error:
        raise ScenarioError(source, "", f"this is not TOML: {error}") from None
    for override in overrides:
        _override(raw, override)
    _require_name(source, raw.setdefault("name", Path(source).stem))
    return from_values(source, raw)


def _require_name(source: str, name: Json) -> None:
    """Check the name of a scenario, which is that of its world and of the files beside its log.

    Raises:
        ScenarioError: The rule for names in paths refuses it.
    """
    fault = path_part_fault(name) if isinstance(name, str) else ""
    if fault:
        raise ScenarioError(source, "name", f"it {fault}")


def from_values(source: str, raw: Mapping[str, Json]) -> Scenario:
    """Return the scenario of a table of plain values, such as a TOML file.

    Args:
        source: Its origin, for messages: a file, or the bundled name.
        raw: The table, with a key `name`.

    Raises:
        ScenarioError: It is invalid, or names a policy that does not exist.
    """
    scenario = build_scenario(source, raw)
    require_policies(source, scenario)
    return scenario


def build_scenario(source: str, raw: Mapping[str, Json]) -> Scenario:
    """Return the scenario of a table of plain values, without a look at its policies.

    Raises:
        ScenarioError: It is invalid.
    """
    try:
        built = _scenario().validate_python(raw)
    except ValidationError as error:
        raise _scenario_error(source, min(error.errors(), key=_is_no_typo)) from None
    _require_once(source, built)
    return _checked(source, built)


def as_text(scenario: Scenario) -> str:
    """Return a scenario as JSON with all defaults, so that a run can be resumed from its log.

    It is text and not an object, because the order of agents and objects is part of a scenario.
    The default of `on_rule_error` is left out: a run without exceptions does not depend on it.
    """
    left_out = {"on_rule_error"} if scenario.on_rule_error == "raise" else None
    return _scenario().dump_json(scenario, exclude=left_out).decode()


def from_text(source: str, text: str) -> Scenario:
    """Read a scenario that `as_text` wrote, without importing its policies or its domain.

    Raises:
        ScenarioError: The text is not a scenario of this release.
    """
    try:
        scenario = _scenario().validate_json(text)
    except ValidationError as error:
        raise _scenario_error(source, error.errors()[0]) from None
    return _checked(source, scenario)


@cache
def _scenario() -> TypeAdapter[Scenario]:
    """Return the validator, built on first use: that takes 8 ms, and every command imports this."""
    return TypeAdapter(Scenario)


def open_domain(scenario: Scenario, make: Callable[..., Domain]) -> Domain:
    """Create the domain of a scenario with the scenario's settings.

    Args:
        scenario: The scenario.
        make: Class or factory of the domain; called with the settings as keywords.

    Raises:
        ScenarioError: The domain has no such setting, rejects its value, or raises.
    """
    settings = scenario.domain_settings()
    known = [name for name in signature(make).parameters if name != "self"]
    for name in settings:
        if name not in known:
            keys = [field.name for field in fields(Scenario)]
            is_key = nearest(name, keys, 1) and not nearest(name, known, 1)
            hint = did_you_mean(name, keys if is_key else known)
            problem = f"domain {scenario.domain!r} has no such setting; {hint}"
            raise ScenarioError(scenario.name, f"settings.{name}", problem)
    try:
        return make_domain(scenario.domain, make, settings)
    except DomainError as error:
        raise ScenarioError(scenario.name, "domain", str(error)) from error
    except ValueError as error:
        raise ScenarioError(scenario.name, "settings", str(error)) from error


def require_kinds_of(scenario: Scenario, domain: Domain) -> None:
    """Check that the quotas of a scenario and the permissions of its cohorts are kinds.

    Raises:
        ScenarioError: A name is no kind of the domain.
    """
    kinds = [kind.name for kind in domain.kinds]
    named = [(f"quotas.{name}", name, (*kinds, *QUOTA_KEYS)) for name in scenario.quotas]
    for cohort_name, cohort in scenario.agents.items():
        key = f"agents.{cohort_name}.permissions"
        named += [(key, name, (*kinds,)) for name in cohort.permissions or ()]
    for key, name, known in named:
        if name not in known:
            problem = f"there is no kind {name!r}; {did_you_mean(name, known)}"
            raise ScenarioError(scenario.name, key, problem)


def _read(scenario: str | Path) -> tuple[str, bytes]:
    if isinstance(scenario, str) and scenario in bundled():
        entry = files(_BUNDLED).joinpath(scenario + _ENDING)
        return scenario, entry.read_bytes()
    path = Path(scenario)
    try:
        return str(path), read_document(path)
    except OSError as error:
        problem = (
            f"it is no bundled scenario ({', '.join(bundled())}), and no file that can be read: "
            f"{error.strerror}"
        )
        near = nearest(str(scenario), bundled(), 1)
        if near:
            problem += f"; did you mean {near[0]!r}?"
        raise ScenarioError(str(path), "", problem) from None


def split_override(override: str) -> tuple[list[str], str]:
    """Split an override into its path and the text of its value.

    Raises:
        ScenarioError: It is not `key=value`.
    """
    key, equals, text = override.partition("=")
    path = key.strip().split(".")
    if not equals or not all(path):
        problem = "expected key=value, such as agents.folk.count=20"
        raise ScenarioError(f"--set {override}", "", problem)
    return path, text


def _override(raw: dict[str, Json], override: str) -> None:
    path, text = split_override(override)
    set_value(
        raw, path, lambda before: parse_value(text.strip(), before), source=f"--set {override}"
    )


def set_value(
    raw: dict[str, Json], path: Sequence[str], make: Callable[[Json], Json], source: str
) -> None:
    """Replace one value of a scenario's table, in place.

    Args:
        raw: The table.
        path: Keys from the outermost table to the value; tables that are missing are made.
        make: Called with the value before, None if there was none; returns the value.
        source: Origin of the value, for messages.

    Raises:
        ScenarioError: No scenario has the key, or this one has no such agents or objects.
    """
    _check_path(raw, path, source)
    table = raw
    for step in path[:-1]:
        table = table.setdefault(step, {})
        if not isinstance(table, dict):
            raise ScenarioError(source, "", f"{step!r} is a value and holds no keys; set it whole")
    table[path[-1]] = make(table.get(path[-1]))


def _check_path(raw: Mapping[str, Json], path: Sequence[str], source: str) -> None:
    """Refuse keys that no scenario has, and `agents` and `objects` entries that this one lacks."""
    known = [name.name for name in fields(Scenario)]
    if path[0] not in known:
        raise ScenarioError(
            source, "", f"a scenario has no key {path[0]!r}; {did_you_mean(path[0], known)}"
        )
    table = raw.get(path[0], {})
    names = list(table) if isinstance(table, dict) else []
    if path[0] in _ENTRIES and (len(path) == 1 or path[1] not in names):
        name = path[1] if len(path) > 1 else ""
        problem = f"there is no entry {name!r} in {path[0]}; {did_you_mean(name, names)}"
        raise ScenarioError(source, "", problem)


def parse_value(text: str, before: Json) -> Json:
    """Parse a TOML value; invalid TOML is text, and a key that held text keeps text."""
    if isinstance(before, str) and not text.startswith(('"', "'")):
        return text
    try:
        table = parse_toml(f"value = {text}")
    except DocumentTooLarge as error:
        raise ScenarioError("the value of an override", "", str(error)) from None
    except DocumentError:
        return text
    return table["value"] if len(table) == 1 else text


def _is_no_typo(detail: ErrorDetails) -> bool:
    """Sort key: unknown keys first, because a misspelled key also makes another key missing."""
    return detail["type"] not in _UNKNOWN


def _scenario_error(source: str, detail: ErrorDetails) -> ScenarioError:
    place = detail["loc"]
    key = ".".join(str(step) for step in place)
    if detail["type"] in _UNKNOWN:
        known = [name.name for name in fields(_TABLES.get(place[0], Scenario))]
        return ScenarioError(
            source, key, f"there is no such key; {did_you_mean(str(place[-1]), known)}"
        )
    if detail["type"] in {"missing", "missing_argument"}:
        return ScenarioError(source, key, "is missing; add it to the file")
    message = detail["msg"][:1].lower() + detail["msg"][1:]
    return ScenarioError(source, key, f"{message}, got {detail['input']!r}")


def require_policies(source: str, scenario: Scenario) -> None:
    """Check that the policies of a scenario exist. Policies outside the package are imported.

    Raises:
        ScenarioError: A policy does not exist or cannot be imported.
    """
    for name, cohort in scenario.agents.items():
        try:
            find_policy(cohort.policy)
        except LookupError as error:
            raise ScenarioError(source, f"agents.{name}.policy", str(error.args[0])) from None


def _require_once(source: str, scenario: Scenario) -> None:
    """Refuse a value that the file sets in two places, because one would be ignored silently."""
    duplicates = []
    if scenario.objects and "objects" in scenario.settings:
        duplicates.append(("settings.objects", "objects"))
    for name, cohort in scenario.agents.items():
        if cohort.area is not None and "position" in cohort.attributes:
            duplicates.append((f"agents.{name}.attributes.position", f"agents.{name}.area"))
    for name, objects in scenario.objects.items():
        if "position" in objects.fields:
            duplicates.append((f"objects.{name}.fields.position", f"objects.{name}.area"))
    for key, other in duplicates:
        raise ScenarioError(source, key, f"{other!r} sets the same value; remove one of the two")


def _checked(source: str, scenario: Scenario) -> Scenario:
    _check_time(source, scenario)
    for name, cohort in scenario.agents.items():
        _check_area(source, f"agents.{name}.area", cohort.area)
    for name, objects in scenario.objects.items():
        _check_area(source, f"objects.{name}.area", objects.area)
    return scenario


def _check_time(source: str, scenario: Scenario) -> None:
    """Check that a tick is at least 1 ns, and that the last tick is within the kernel's range."""
    lasts_s = max(scenario.ticks, 1) * scenario.tick_s
    if not (scenario.tick_s >= _TICK_S_MIN and lasts_s <= _LASTS_S_MAX):
        raise ScenarioError(
            source,
            "tick_s",
            f"must be {_TICK_S_MIN:g} s at least, and all {scenario.ticks} ticks {_LASTS_S_MAX:g} "
            f"s at most, got {scenario.tick_s!r}",
        )


def _check_area(source: str, key: str, area: Sequence[Sequence[float]] | None) -> None:
    if area is None:
        return
    low, high = area
    if len(low) != len(high) or any(a > b for a, b in zip(low, high, strict=True)):
        problem = f"must be two corners, the lowest first, got {[list(low), list(high)]}"
        raise ScenarioError(source, key, problem)
