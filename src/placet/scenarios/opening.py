"""Creates the domain of a scenario from the scenario's settings."""

from collections.abc import Callable
from dataclasses import fields
from inspect import signature

from placet.kernel.ledger.leases import LEASE_KINDS
from placet.kernel.plugin.domain import Domain
from placet.kernel.plugin.known_names import QUOTA_KEYS
from placet.plugins.domains import DomainNotFound, find_domain, make_domain
from placet.plugins.setting_types import SettingTypeError, typed_settings
from placet.scenarios.scenario import Scenario
from placet.scenarios.values import ScenarioError
from placet.schemas.errors import DomainError
from placet.schemas.name_suggestions import did_you_mean, nearest


def domain_of(scenario: Scenario) -> Domain:
    """Create the domain of a scenario.

    Raises:
        ScenarioError: It does not exist, or rejects the settings.
    """
    try:
        return open_domain(scenario, find_domain(scenario.domain))
    except DomainNotFound as error:
        raise ScenarioError(scenario.name, "domain", str(error)) from None
    except TypeError as error:
        raise ScenarioError(scenario.name, "settings", str(error)) from error


def open_domain(scenario: Scenario, make: Callable[..., Domain]) -> Domain:
    """Create the domain of a scenario with the scenario's settings.

    Args:
        scenario: The scenario.
        make: Class or factory of the domain; called with the settings as keywords.

    Raises:
        ScenarioError: The domain has no such setting, or one of another type, rejects its value, or
            raises.
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
        return make_domain(scenario.domain, make, typed_settings(make, settings))
    except SettingTypeError as error:
        raise ScenarioError(scenario.name, f"settings.{error.name}", str(error)) from error
    except DomainError as error:
        raise ScenarioError(scenario.name, "domain", str(error)) from error
    except ValueError as error:
        raise ScenarioError(scenario.name, "settings", str(error)) from error


def require_kinds_of(scenario: Scenario, domain: Domain) -> None:
    """Check that the quotas and permissions of a scenario, and of its parts, name kinds.

    Raises:
        ScenarioError: A name is no kind of the domain.
    """
    kinds = [kind.name for kind in domain.kinds]
    if scenario.leases is not None:
        kinds += sorted(LEASE_KINDS)
    named = [(f"quotas.{name}", name, (*kinds, *QUOTA_KEYS)) for name in scenario.quotas]
    for cohort_name, cohort in scenario.agents.items():
        key = f"agents.{cohort_name}.permissions"
        named += [(key, name, (*kinds,)) for name in cohort.permissions or ()]
    for each, population in scenario.populations.items():
        key = f"populations.{each}"
        quotas = (*kinds, *QUOTA_KEYS)
        named += [(f"{key}.quotas.{name}", name, quotas) for name in population.quotas]
        named += [(f"{key}.permissions", name, (*kinds,)) for name in population.permissions or ()]
    for key, name, known in named:
        if name not in known:
            problem = f"there is no kind {name!r}; {did_you_mean(name, known)}"
            raise ScenarioError(scenario.name, key, problem)
