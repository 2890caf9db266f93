"""Scripted policies: the interface between a scenario and its agents.

A policy is one of these, or the name of one: bundled, installed, or `module:attribute`:

    def walk(view): ...                       # intents may leave out all but kind and payload
    def walk(view, intent): ...               # intent("Move", to=[1, 0]) builds one
    class Walker:
        def __init__(self, member, scenario, intent): ...     # one object for each agent
        def propose(self, view): ...
    class Model:
        def __init__(self, scenario, cohort): ...             # one object for each cohort
        def propose_all(self, views): ...                     # a batch for each view

A bundled policy is a function of its view, its agent's name and the seed. It has no memory and
draws random values by name, so a run is reproducible in whatever order its agents are scheduled.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Parameter, iscoroutinefunction, signature, unwrap
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias

from placet.history.tracebacks import frame_of
from placet.plugins.entry_points import POLICIES, load_named
from placet.scenarios.values import AgentCohort, ColumnPopulation, Member, ScenarioError
from placet.schemas.codec import Json
from placet.schemas.intent import Intent
from placet.schemas.view import View


class IntentFactory(Protocol):
    """Creates an intent of one agent; `AgentHandle.intent` is one."""

    def __call__(
        self, kind: str, mapping: Mapping[str, Json] | None = None, /, **payload: Json
    ) -> Intent:
        """Return an intent with all fields but kind and payload filled in.

        The payload is a mapping, such as the TypedDict of the kind, or keywords, or both.
        """


class ScriptedPolicy(Protocol):
    """Protocol of a policy that decides for one agent of a scenario.

    An `AgentActor` accepts it as a policy too.
    """

    def propose(self, view: View) -> Iterable[Intent]:
        """Return the agent's next batch, which may be empty.

        The cost depends on the parts of the view that it reads.
        """


class Cohorts(Protocol):
    """The part of a `Scenario` that is read here: the module of the class imports this one."""

    @property
    def name(self) -> str:
        """Return the name of the scenario."""

    @property
    def agents(self) -> Mapping[str, AgentCohort]:
        """Return the cohorts, by name."""


_COHORT_ARGUMENTS: Final = 2
"""The policy of a whole cohort is made with the scenario and the name of the cohort."""

_FACTORY_ARGUMENTS: Final = 3
"""A factory takes a member, the scenario, and an intent factory."""

PolicyFactory: TypeAlias = Callable[[Member, Any, IntentFactory], ScriptedPolicy]
"""Called with the agent, its `Scenario`, whose module imports this one, and an intent factory."""

AnyPolicy: TypeAlias = "str | PolicyFactory | Callable[..., Iterable[Mapping[str, Json]]]"
"""A policy as users give it: a name, a function of a view and perhaps of an intent factory, or a
class, which is called for each agent with its member, the scenario and an intent factory."""

BUNDLED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "townsfolk": "placet.scenarios.builtin.town:Townsfolk",
        "merchant": "placet.scenarios.builtin.town:Merchant",
        "child": "placet.scenarios.builtin.town:Child",
        "crier": "placet.scenarios.builtin.town:Crier",
        "grabber": "placet.scenarios.builtin.rush:Grabber",
        "planner": "placet.scenarios.builtin.planners:Planner",
    }
)


def find_policy(name: str) -> PolicyFactory:
    """Return a policy by name: a bundled one, an installed one, or `module:attribute`.

    Installed policies are found by the entry points `placet.policies`.

    Raises:
        LookupError: The policy does not exist, or its module cannot be imported.
    """
    return factory_of(load_named(POLICIES, name, "policy", BUNDLED))


def policies_of(source: str, cohorts: Mapping[str, AgentCohort]) -> dict[str, PolicyFactory]:
    """Return the factory of the policies of each cohort.

    Policies outside the package are imported.

    Raises:
        ScenarioError: A policy does not exist, or cannot be imported.
    """
    policies = {}
    for name, cohort in cohorts.items():
        try:
            policies[name] = find_policy(cohort.policy)
        except LookupError as error:
            key = f"agents.{name}.policy"
            raise ScenarioError(source, key, str(error.args[0])) from None
    return policies


def column_policies_of(
    source: str, populations: Mapping[str, ColumnPopulation]
) -> dict[str, Callable[..., Any]]:
    """Return the policy of each population, whose module is imported.

    Raises:
        ScenarioError: A policy does not exist, cannot be imported, or is no function of a view.
    """
    policies = {}
    for name, population in populations.items():
        try:
            policies[name] = column_policy(population.policy)
        except LookupError as error:
            key = f"populations.{name}.policy"
            raise ScenarioError(source, key, str(error.args[0])) from None
    return policies


def column_policy(policy: str | Callable[..., Any]) -> Callable[..., Any]:
    """Return a policy of a population, a plain function of one view; or the one of a name.

    Raises:
        LookupError: It is not.
    """
    if isinstance(policy, str):
        policy = load_named(POLICIES, policy, "policy")
    given: object = policy  # a caller may pass anything
    if not callable(given) or isinstance(given, type) or iscoroutinefunction(given):
        raise LookupError(f"the policy of a population is a plain function, got {policy!r}")
    if _arguments_of(policy) != 1:
        raise LookupError(
            f"policy {name_of(policy)} takes {_arguments_of(policy)} arguments; the policy of a "
            "population is a function of (view), which returns payload arrays by kind"
        )
    return policy


def factory_of(policy: AnyPolicy) -> PolicyFactory:
    """Return the factory that makes the policy of each agent.

    Raises:
        LookupError: There is no policy of that name, or it is none of the forms of a policy.
    """
    if isinstance(policy, str):
        return find_policy(policy)
    is_class = isinstance(policy, type)
    think: Any = policy if is_class else getattr(policy, "propose", policy)
    name = name_of(policy)
    if not callable(think):
        raise LookupError(f"a policy is a name, a function or a class, got {policy!r}")
    if iscoroutinefunction(think) or iscoroutinefunction(getattr(policy, "propose", None)):
        raise LookupError(
            f"policy {name} is async, and nothing awaits it here: write a plain function, or run "
            "its agent by an AgentActor of an Orchestrator"
        )
    if is_class and hasattr(policy, "propose_all"):
        if _arguments_of(policy) != _COHORT_ARGUMENTS:
            raise LookupError(
                f"policy {name} has propose_all and takes {_arguments_of(policy)} arguments; "
                "expected a class made with (scenario, cohort), once for all agents of a cohort"
            )
        made: Any = policy
        return _CohortFactory(made)
    match _arguments_of(think):
        case count if count == _FACTORY_ARGUMENTS:
            factory: PolicyFactory = think
            return factory
        case 2 if not is_class:
            return _without_options(
                name, lambda intent: _FunctionPolicy(lambda view: think(view, intent), think)
            )
        case 1 if not is_class:
            shared = _FunctionPolicy(think, think)
            return _without_options(name, lambda _intent: shared)
        case count:
            raise LookupError(
                f"policy {name} takes {count} arguments; expected a function of (view) or "
                "(view, intent), or a class made with (member, scenario, intent)"
            )


def require_no_options(name: str, member: Member, scenario: Cohorts) -> None:
    """Check that a cohort has no options for a policy that reads none.

    Raises:
        ScenarioError: It has.
    """
    for option in scenario.agents[member.cohort].options:
        raise ScenarioError(
            scenario.name,
            f"agents.{member.cohort}.options.{option}",
            f"the policy {name} has no options; a class made with (member, scenario, intent) reads "
            "those of its cohort",
        )


def _without_options(name: str, make: Callable[[IntentFactory], ScriptedPolicy]) -> PolicyFactory:
    """Return a factory of policies that read no options of their cohort."""

    def factory(member: Member, scenario: Cohorts, intent: IntentFactory) -> ScriptedPolicy:
        require_no_options(name, member, scenario)
        return make(intent)

    return factory


def name_of(policy: AnyPolicy) -> str:
    """Return the name of a policy, for messages and reports."""
    if isinstance(policy, str):
        return policy
    name = getattr(policy, "__qualname__", None) or type(policy).__qualname__
    return str(name)


def place_of(policy: object, error: BaseException | None = None) -> str:
    """Return the place of a mistake in a policy, in parentheses; empty if it is unknown.

    Args:
        policy: The policy, whose function is the place; None if there is none.
        error: The exception that it raised, whose place is returned instead.
    """
    if error is not None:
        frame = frame_of(error)
        return "" if frame is None else _place(frame.filename, frame.lineno, frame.name)
    if isinstance(policy, CohortMember):
        function: object = policy.cohort_policy.propose_all
    else:
        function = getattr(policy, "function", None) or getattr(policy, "propose", None)
    code = getattr(unwrap(function) if callable(function) else None, "__code__", None)
    return "" if code is None else _place(code.co_filename, code.co_firstlineno, code.co_name)


def _place(file: str, line: int | None, function: str) -> str:
    return f" ({Path(file).name}, line {line}, in {function})"


def _arguments_of(call: Callable[..., Any]) -> int:
    """Return the number of positional arguments that a call needs; 3 where it takes any number."""
    try:
        parameters = signature(call).parameters.values()
    except (TypeError, ValueError):  # a builtin without a signature
        return 1
    positional = {Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD}
    needed = [p for p in parameters if p.kind in positional and p.default is Parameter.empty]
    is_open = any(parameter.kind is Parameter.VAR_POSITIONAL for parameter in parameters)
    return _FACTORY_ARGUMENTS if is_open and not needed else len(needed)


class _FunctionPolicy:
    """A function of a view as a policy.

    Attributes:
        function: The function of the user, which `propose` calls.
    """

    __slots__ = ("function", "propose")

    def __init__(
        self, think: Callable[[View], Iterable[Intent]], function: Callable[..., Any]
    ) -> None:
        self.propose, self.function = think, function


class CohortPolicy(Protocol):
    """Protocol of a policy that decides for all agents of a cohort at once.

    A run calls it once a tick, on workers once a tick and worker, with the agents of that worker.
    So the batch of an agent must not depend on which other views are in the call.
    """

    def propose_all(self, views: Sequence[View]) -> Sequence[Iterable[Mapping[str, Json]]]:
        """Return a batch for each view, in their order."""


class CohortMember:
    """The policy of one agent whose cohort decides at once.

    Attributes:
        cohort_policy: The policy of the cohort.
    """

    __slots__ = ("cohort_policy",)

    def __init__(self, cohort_policy: CohortPolicy) -> None:
        self.cohort_policy = cohort_policy

    def propose(self, view: View) -> Iterable[Any]:
        """Return the batch for one view."""
        (batch,) = self.cohort_policy.propose_all([view])
        return batch


class _CohortFactory:
    """Makes the policy of each cohort once."""

    def __init__(self, make: Callable[[Any, str], CohortPolicy]) -> None:
        self._make = make
        self._made: dict[str, CohortMember] = {}

    def __call__(self, member: Member, scenario: Cohorts, intent: IntentFactory) -> CohortMember:
        if member.cohort not in self._made:
            self._made[member.cohort] = CohortMember(self._make(scenario, member.cohort))
        return self._made[member.cohort]
