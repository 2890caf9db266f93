"""The error of a run that ends because its domain raised."""

from placet.kernel.gate.domain_rules import DomainRules
from placet.scenarios.values import ScenarioError
from placet.schemas.errors import describe_error


class RuleError(ScenarioError):
    """A rule or a hook of the domain raised; its tick left no record. The cause is its exception.

    Attributes:
        where: The call that raised, such as `rule of Move`.
    """

    def __init__(self, source: str, key: str, problem: str, where: str) -> None:
        super().__init__(source, key, problem)
        self.where = where


def rule_error_of(
    rules: DomainRules, source: str, tick: int, sim_time: float, error: BaseException | None = None
) -> RuleError | None:
    """Return the error of a run for the exception that its domain raised; None if it raised none.

    Args:
        rules: The domain stage of the run's kernel.
        source: Name of the scenario.
        tick: Number of completed ticks.
        sim_time: Simulated seconds of these ticks.
        error: Return None if the exception is another than this one; None takes any.
    """
    fault = rules.raised
    if fault is None or error not in {None, fault.error}:
        return None
    place = f" ({fault.place})" if fault.place else ""
    problem = (
        f"the {fault.where} raised {describe_error(fault.error)} in tick {tick + 1} "
        f"({sim_time:g} s){place}; the tick left no record: mend the domain and resume the run, or "
        'set on_rule_error = "refuse"'
    )
    return RuleError(source, "domain", problem, fault.where)
