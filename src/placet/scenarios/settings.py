"""The settings of a scenario that a person changes: of its domain, and of its policies.

A setting has a dotted key as in `--set`: `settings.max_step`, `agents.folk.options.talkative`,
`populations.people.options.infect`. A keyword of the domain that the scenario leaves out is one too
if it has a simple default.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from math import isfinite
from typing import Final, Literal, TypeAlias

from placet.plugins.domains import DomainNotFound, find_domain
from placet.plugins.setting_types import choices_of
from placet.scenarios.opening import domain_of
from placet.scenarios.scenario import Scenario
from placet.scenarios.values import ScenarioError
from placet.schemas.codec import Json
from placet.schemas.json_value import format_value
from placet.schemas.name_suggestions import did_you_mean

SettingType: TypeAlias = Literal["boolean", "integer", "number", "text", "choice", "other"]

_PARTS: Final = ("agents", "populations")
_WORDS: Final = {"boolean": "true or false", "number": "a number", "text": "a text"}


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a scenario.

    Attributes:
        key: Its dotted key.
        value: Its value, plain JSON.
        type: `other` is a list, a table or null, which no control edits.
        low: Lowest value that is proposed; None for no number. Other numbers may be valid.
        high: Highest value that is proposed; None for no number.
        choices: The valid texts of a `choice`.
        is_stated: The scenario states it; else it has its default.
    """

    key: str
    value: Json
    type: SettingType
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    is_stated: bool = True


def settings_of(scenario: Scenario) -> list[Setting]:
    """Return the settings of a scenario: those of the domain, then those of the policies.

    Raises:
        ScenarioError: Its domain does not exist.
    """
    try:
        make = find_domain(scenario.domain)
    except DomainNotFound as error:
        raise ScenarioError(scenario.name, "domain", str(error)) from None
    choices = choices_of(make)
    found = [
        _setting(f"settings.{name}", value, choices.get(name, ()))
        for name, value in scenario.settings.items()
    ]
    for part in _PARTS:
        for name, each in getattr(scenario, part).items():
            found += [
                _setting(f"{part}.{name}.options.{key}", value)
                for key, value in each.options.items()
            ]
    for name, value in _defaults(make):
        if name not in scenario.settings:
            found.append(_setting(f"settings.{name}", value, choices.get(name, ()), stated=False))
    return [one for one in found if one.is_stated or one.type != "other"]


def changed(scenario: Scenario, values: Mapping[str, Json]) -> Scenario:
    """Return a scenario with other values of its settings.

    Args:
        scenario: The scenario.
        values: Dotted key of a setting -> its value.

    Raises:
        ScenarioError: There is no such setting, its value has another type, or the domain refuses
            it. `key` names it if one value alone is refused.
    """
    known = {one.key: one for one in settings_of(scenario)}
    for key, value in values.items():
        if key not in known:
            problem = f"it has no such setting; {did_you_mean(key, list(known))}"
            raise ScenarioError(scenario.name, key, problem)
        _require_type(scenario, known[key], value)
    try:
        return _with(scenario, values)
    except ScenarioError as error:
        raise _refused_alone(scenario, values) or error from None


def _with(scenario: Scenario, values: Mapping[str, Json]) -> Scenario:
    made = scenario.with_values(values)
    domain_of(made)
    return made


def _refused_alone(scenario: Scenario, values: Mapping[str, Json]) -> ScenarioError | None:
    """Return the error of the first value that is refused without the others, if there is one."""
    for key, value in values.items():
        try:
            _with(scenario, {key: value})
        except ScenarioError as error:
            return ScenarioError(scenario.name, key, error.problem)
    return None


def _setting(
    key: str, value: Json, choices: tuple[str, ...] = (), *, stated: bool = True
) -> Setting:
    if type(value) is bool:
        return Setting(key, value, "boolean", is_stated=stated)
    if isinstance(value, int | float):
        twice = 2 * value or 1
        kind: SettingType = "integer" if isinstance(value, int) else "number"
        return Setting(key, value, kind, min(0, twice), max(0, twice), is_stated=stated)
    if isinstance(value, str):
        kind = "choice" if choices else "text"
        return Setting(key, value, kind, choices=choices, is_stated=stated)
    return Setting(key, value, "other", is_stated=stated)


def _require_type(scenario: Scenario, setting: Setting, value: Json) -> None:
    """Check that a value has the type of the one before; the domain checks its own further.

    Raises:
        ScenarioError: It has not.
    """
    kind = {"integer": "number", "choice": "text"}.get(setting.type, setting.type)
    if kind == "other":
        problem = f"{format_value(setting.value)} is no number, text, true or false"
        raise ScenarioError(
            scenario.name, setting.key, f"{problem}; change it in the scenario's file"
        )
    is_right = {
        "boolean": isinstance(value, bool),
        "number": _is_number(value),
        "text": isinstance(value, str),
    }[kind]
    if not is_right:
        problem = f"expected {_WORDS[kind]}, as before: {format_value(setting.value)}"
        raise ScenarioError(scenario.name, setting.key, f"{problem}; got {format_value(value)}")
    if setting.choices and value not in setting.choices:
        problem = f"expected one of {', '.join(setting.choices)}; got {format_value(value)}"
        raise ScenarioError(scenario.name, setting.key, problem)


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _defaults(make: object) -> Iterator[tuple[str, Json]]:
    """Yield the keywords of a domain that have a default."""
    for name, parameter in signature(make).parameters.items():  # type: ignore[arg-type]  # callable
        if parameter.default is not Parameter.empty and name != "objects":
            yield name, parameter.default
