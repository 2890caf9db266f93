"""The job of a worker: domains, policies and scenario, which travel when the worker starts.

Domains and policies travel by name, as `module:attribute`; to Ray also by value, as code. A name is
found again in the worker, so an object that its name does not lead to cannot travel.
"""

import pickle
import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from inspect import signature
from typing import Any, Final, TypeAlias

from placet.kernel.plugin.domain import Domain
from placet.kernel.plugin.registry import Registry
from placet.plugins.domains import find_domain, import_from_here, make_domain
from placet.plugins.entry_points import POLICIES, load_named
from placet.scenarios.opening import domain_of
from placet.scenarios.policies import BUNDLED, PolicyFactory, column_policy, factory_of, name_of
from placet.scenarios.scenario import Scenario
from placet.scenarios.setup import RunSetup
from placet.scenarios.values import ScenarioError
from placet.schemas.codec import Json
from placet.schemas.errors import PlacetError

Travelling: TypeAlias = str | bytes
"""A name, `module:attribute` or that of a policy; or code, for `pickle.loads`."""

ByValue: TypeAlias = Callable[[object], bytes]
"""Returns a function or a class as code."""

_MAIN: Final = "__main__"


@dataclass(frozen=True, slots=True)
class Job:
    """A run, as a worker gets it.

    Attributes:
        versions: Versions of Python and of placet in the writer.
        scenario: The scenario.
        domains: By name, the class of each domain and the settings that make it; settings None
            if the scenario makes it.
        fingerprint: Fingerprint of the rules.
        declared: As in `Kernel`.
        policies: By cohort, its policy.
        column_policies: By population, its policy.
    """

    versions: tuple[str, str]
    scenario: Scenario
    domains: Mapping[str, tuple[Travelling, Mapping[str, Json] | None]]
    fingerprint: str
    declared: frozenset[str]
    policies: Mapping[str, Travelling]
    column_policies: Mapping[str, Travelling]

    @property
    def modules(self) -> list[str]:
        """The modules that a worker imports for the run, sorted."""
        classes = (travelling for travelling, _ in self.domains.values())
        named = (*classes, *self.policies.values(), *self.column_policies.values())
        paths = [BUNDLED.get(name, name) for name in named if isinstance(name, str)]
        return sorted({path.partition(":")[0] for path in paths if ":" in path})


def versions_here() -> tuple[str, str]:
    """Return the versions of Python and of placet in this process."""
    try:
        return platform.python_version(), version("placet")
    except PackageNotFoundError:
        return platform.python_version(), "a source tree"


def job_of(
    setup: RunSetup, registry: Registry, declared: frozenset[str], by_value: ByValue | None = None
) -> Job:
    """Return the job of the workers of a run.

    Args:
        setup: The setup of the run.
        registry: The domains of its world.
        declared: As in `Kernel`.
        by_value: Makes code of an object that has no name; None refuses it.

    Raises:
        ScenarioError: A policy or a domain cannot travel.
    """
    scenario = setup.scenario
    job = Job(
        versions=versions_here(),
        scenario=scenario,
        domains={one.name: _domain(setup, registry, one, by_value) for one in registry.domains},
        fingerprint=registry.fingerprint,
        declared=declared,
        policies={
            name: _policy(scenario.name, f"agents.{name}", policy, by_value)
            for name, policy in setup.given_policies.items()
        },
        column_policies={
            name: _policy(scenario.name, f"populations.{name}", policy, by_value)
            for name, policy in setup.given_column_policies.items()
        },
    )
    remade = registry_of(job)
    if (remade.fingerprint, remade.settings) != (registry.fingerprint, registry.settings):
        raise _cannot_travel(
            scenario.name,
            "domain",
            f"the domain {registry.domains[0].name!r} comes out different when it is made again "
            "from its class and its settings()",
        )
    return job


def registry_of(job: Job) -> Registry:
    """Make the domains of a run again.

    Raises:
        PlacetError, LookupError, TypeError, ValueError: A domain cannot be made.
    """
    made: list[Domain] = []
    for name, (travelling, settings) in job.domains.items():
        if settings is None:
            made.append(domain_of(job.scenario))
            continue
        make: Any = (
            find_domain(travelling) if isinstance(travelling, str) else pickle.loads(travelling)
        )
        made.append(make_domain(name, make, settings))
    return Registry(made)


def policies_in(job: Job) -> dict[str, PolicyFactory]:
    """Return the factory of the policies of each cohort.

    Raises:
        LookupError: A policy does not exist here.
    """
    return {name: factory_of(_found(policy)) for name, policy in job.policies.items()}


def column_policies_in(job: Job) -> dict[str, Callable[..., Any]]:
    """Return the policy of each population.

    Raises:
        LookupError: A policy does not exist here.
    """
    return {name: column_policy(_found(policy)) for name, policy in job.column_policies.items()}


def _found(policy: Travelling) -> Any:  # noqa: ANN401  # a policy, or its name
    return policy if isinstance(policy, str) else pickle.loads(policy)


def _policy(source: str, key: str, policy: Any, by_value: ByValue | None) -> Travelling:  # noqa: ANN401  # of any form
    name = policy if isinstance(policy, str) else path_of(policy)
    is_found = name is not None and not name.startswith(f"{_MAIN}:")
    if is_found:
        return str(name)
    if by_value is None:
        problem = (
            f"the policy {name_of(policy)!r} is found in no module by its name; move it to the top "
            "level of a module of the current folder, which workers import"
        )
        raise _cannot_travel(source, f"{key}.policy", problem)
    if isinstance(policy, str):
        policy = load_named(POLICIES, policy, "policy")
    return _as_code(source, f"{key}.policy", policy, by_value)


def _domain(
    setup: RunSetup, registry: Registry, domain: Domain, by_value: ByValue | None
) -> tuple[Travelling, Mapping[str, Json] | None]:
    scenario, settings = setup.scenario, registry.settings.get(domain.name)
    if settings is None and setup.recorded is None and not setup.is_open_ended:
        return "", None  # the scenario's own: the others are made without settings
    if settings is None:
        if setup.is_open_ended and signature(type(domain)).parameters:
            problem = (
                f"the domain {domain.name!r} is made with arguments and its settings() returns "
                "None; return its keywords there, so that workers can make it again"
            )
            raise _cannot_travel(scenario.name, "domain", problem)
        settings = {}
    path = path_of(type(domain))
    if path is not None and not path.startswith(f"{_MAIN}:"):
        return path, settings
    if by_value is None:
        problem = (
            f"the class of the domain {domain.name!r} is found in no module by its name; move it "
            "to the top level of a module of the current folder, which workers import"
        )
        raise _cannot_travel(scenario.name, "domain", problem)
    return _as_code(scenario.name, "domain", type(domain), by_value), settings


def path_of(target: object) -> str | None:
    """Return `module:attribute` of a function or a class; None if its name does not lead to it."""
    module, name = getattr(target, "__module__", None), getattr(target, "__qualname__", "")
    if module is None or not name or "." in name:
        return None
    if module not in sys.modules:
        return None
    is_found = getattr(sys.modules[module], name, None) is target
    return f"{module}:{name}" if is_found else None


def _as_code(source: str, key: str, target: object, by_value: ByValue) -> bytes:
    try:
        return by_value(target)
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise _cannot_travel(source, key, f"it cannot be pickled: {error}") from error


def _cannot_travel(source: str, key: str, problem: str) -> ScenarioError:
    return ScenarioError(source, key, f"cannot travel to workers: {problem}")


def import_modules(job: Job) -> None:
    """Import the modules of a run.

    Raises:
        ImportError: One is missing here, or raised.
    """
    for name in job.modules:
        import_from_here(name)


def problem_of(job: Job) -> str:
    """Return why this process cannot work for a run; empty if it can."""
    if job.versions != (here := versions_here()):
        return (
            f"it has Python {here[0]} and placet {here[1]}, the run Python {job.versions[0]} and "
            f"placet {job.versions[1]}"
        )
    try:
        import_modules(job)
        fingerprint = registry_of(job).fingerprint
        policies_in(job)
        column_policies_in(job)
    except (PlacetError, ImportError, LookupError, TypeError, ValueError) as error:
        return str(error)
    return "" if fingerprint == job.fingerprint else "its rules of the domains differ"
