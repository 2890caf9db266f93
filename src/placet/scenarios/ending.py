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


def end_condition_of(scenario: Scenario) -> EndCondition | None:
    """Return the condition that ends a run early; None if its scenario has none.

    Raises:
        ScenarioError: There is no such function.
    """
    spec = scenario.until
    if spec is None:
        return None
    try:
        function = find_function(spec)
    except LookupError as error:
        raise ScenarioError(scenario.name, "until", str(error)) from error

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
