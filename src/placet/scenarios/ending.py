"""The condition that ends a stepped run before its last tick: `until` of a scenario."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from placet.kernel.plugin.boundary import short_place_of
from placet.plugins.functions import find_function
from placet.scenarios.scenario import Scenario
from placet.scenarios.values import ScenarioError
from placet.schemas.codec import without_numpy
from placet.schemas.errors import describe_error

EndCondition: TypeAlias = Callable[[Mapping[str, Any]], bool]
"""Called with the state, which it must not change; whether the run ends."""


def end_condition_of(
    scenario: Scenario, given: EndCondition | str | None = None
) -> EndCondition | None:
    """Return the condition that ends a run early; None if its scenario has none.

    Args:
        scenario: The scenario, which has the name of the condition.
        given: The function of that name; a text or None finds it.

    Raises:
        ScenarioError: There is no such function.
    """
    spec = scenario.until
    if spec is None:
        return None
    function = given if callable(given) else _found(scenario.name, spec)

    def ends(state: Mapping[str, Any]) -> bool:
        try:
            answer = without_numpy(function(state))
        except Exception as error:
            problem = f"{spec} raised {describe_error(error)}{short_place_of(error, __file__)}"
            raise ScenarioError(scenario.name, "until", problem) from error
        if type(answer) is not bool:
            problem = f"{spec} must return True or False, got {answer!r:.80}"
            raise ScenarioError(scenario.name, "until", problem)
        return answer

    return ends


def name_of_condition(source: str | None, until: object, *, is_recorded: bool) -> str | None:
    """Return the name of a condition that a program passes, as a scenario file has it.

    Args:
        source: Name of the run, for the error; None is `simulation`.
        until: A function of the state, `module:function`, or None, which is no condition.
        is_recorded: The name is recorded with a scenario, so that the function is found by it when
            the run is resumed.

    Raises:
        ScenarioError: It is neither, or it is not found by its name and `is_recorded`.
    """
    if until is None or isinstance(until, str):
        return until
    source = "simulation" if source is None else source
    if not callable(until):
        problem = f"expected a function of the state, or 'module:function', got {until!r:.80}"
        raise ScenarioError(source, "until", problem)
    owner = until if hasattr(until, "__qualname__") else type(until)
    name = f"{owner.__module__}:{owner.__qualname__}"
    if is_recorded and ("." in owner.__qualname__ or _found(source, name) is not until):
        problem = (
            f"{name} is not found by its name, which the log records with a scenario; expected "
            "'module:function', or a function at the top level of a module"
        )
        raise ScenarioError(source, "until", problem)
    return name


def _found(source: str, spec: str) -> EndCondition:
    try:
        return find_function(spec)
    except LookupError as error:
        raise ScenarioError(source, "until", str(error)) from error
