"""The domains of a log: the installed ones, given ones, and the one that its scenario names.

A log may be a stranger's, and a scenario in it names a domain as `module:attribute`. Such a module
is imported only if it is imported already, or is a file of the current folder, or of the log's
folder where that is below the current one; its attribute must be a domain, a subclass of `Domain`,
or a function of that module. Commands say that they use it. Installed modules are never imported by
the name in a log.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from inspect import isfunction
from pathlib import Path
from typing import TypeAlias, cast

from typing_extensions import TypeIs

from placet.actors.ports import EventLog
from placet.kernel.log.verify import Maker
from placet.kernel.plugin.domain import Domain
from placet.kernel.plugin.rules_version import Rules
from placet.plugins.domains import (
    DomainNotRemade,
    GivenDomain,
    import_from_here,
    remake,
    require_given,
)
from placet.scenarios.opening import open_domain
from placet.scenarios.resume import scenario_in
from placet.scenarios.scenario import Scenario
from placet.scenarios.values import ScenarioError
from placet.schemas.errors import StoreError
from placet.stores.url import file_of

OnNamed: TypeAlias = Callable[[str, Path], None]
"""Called with the `module:attribute` of a domain that a log names, and the file of its module."""


def domains_of(
    *logs: EventLog,
    given: GivenDomain | Sequence[GivenDomain] | None = None,
    on_named: OnNamed = lambda _spec, _file: None,
) -> Maker:
    """Return a function that recreates the domains of logs, from the rules in them.

    A domain that is neither given nor installed is that of the scenario in the log, if its module
    is found as the module of this function says.

    Args:
        logs: The logs, of one model; of several, the first that names a domain.
        given: Domains to use instead, each as `module:attribute`, a class, a function that makes a
            domain, or a domain.
        on_named: Called when a domain is used because a log names it.

    Raises:
        TypeError: A given value is none of these.
    """
    own: list[GivenDomain] = []
    if given is not None:
        own = [given] if _is_one(given) else [*given]
    for each in own:
        require_given(each)
    found: dict[str, bool] = {}

    def make(rules: Rules) -> list[Domain]:
        try:
            return remake(rules, own)
        except DomainNotRemade as error:
            unknown = error
        for log in logs:
            named = _named_by(log, rules)
            if named is None:
                continue
            spec, file, domain = named
            domains = remake(rules, [domain, *own])
            if not found.setdefault(spec, False):
                found[spec] = True
                on_named(spec, file)
            return domains
        raise _with_place(unknown, logs)

    return make


def _is_one(given: GivenDomain | Sequence[GivenDomain]) -> TypeIs[GivenDomain]:
    return isinstance(given, str) or not isinstance(given, Sequence)


def _named_by(log: EventLog, rules: Rules) -> tuple[str, Path, GivenDomain] | None:
    """Return the domain that the scenario in a log names, with the file of its module.

    Raises:
        DomainNotRemade: Its module cannot be imported, or it rejects its settings.
    """
    scenario = _scenario_in(log)
    if scenario is None or ":" not in scenario.domain:
        return None
    module_name, _, attribute = scenario.domain.partition(":")
    if not all(part.isidentifier() for part in [*module_name.split("."), attribute]):
        return None
    place = _place_of(module_name, log)
    if place is None:
        return None
    folder, file = place
    try:
        target = getattr(import_from_here(module_name, folder), attribute, None)
    except ImportError as error:
        raise DomainNotRemade(
            f"the scenario in {log.url} names the domain {scenario.domain!r} of {file}, which "
            f"cannot be imported: {error}"
        ) from error
    domain = _domain_by(target, scenario, rules)
    return None if domain is None else (scenario.domain, file, domain)


def _domain_by(target: object, scenario: Scenario, rules: Rules) -> GivenDomain | None:
    """Return what makes the domain; None if the target is none of the log's.

    A class is made with the settings in the log; without them, and a function, with the scenario's.

    Raises:
        DomainNotRemade: It rejects its settings.
    """
    names = [name for name, _ in rules.domains]
    if isinstance(target, type) and Domain in target.__mro__:
        name = getattr(target, "name", "")
        if name in names and rules.settings.get(name) is not None:
            return cast("Callable[..., Domain]", target)
    elif isinstance(target, Domain):
        return target if target.name in names else None
    elif not (isfunction(target) and target.__module__ == scenario.domain.partition(":")[0]):
        return None
    try:
        domain = open_domain(scenario, cast("Callable[..., Domain]", target))
    except (ScenarioError, TypeError) as error:
        raise DomainNotRemade(
            f"the domain {scenario.domain!r} cannot be made again with the settings of the "
            f"scenario in the log: {error}"
        ) from error
    return domain if domain.name in names else None


def _scenario_in(log: EventLog) -> Scenario | None:
    try:
        return scenario_in(log)
    except (ScenarioError, StoreError):  # of another release, or damaged: the reader says so
        return None


def _place_of(module_name: str, log: EventLog) -> tuple[Path | None, Path] | None:
    """Return the folder and the file of a module that a log may name; None if there is none."""
    file = getattr(sys.modules.get(module_name), "__file__", None)
    if file is not None:
        return None, Path(file)
    for folder in _folders(log):
        path = folder.joinpath(*module_name.split("."))
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                return folder, file
    return None


def _folders(log: EventLog) -> Iterator[Path]:
    """Yield the current folder, and that of the log if it is below."""
    try:
        here = Path.cwd()
    except FileNotFoundError:  # it was removed
        return
    yield here
    path = file_of(log)
    if path is not None and path.absolute().parent.resolve().is_relative_to(here.resolve()):
        yield path.absolute().parent


def _with_place(error: DomainNotRemade, logs: Sequence[EventLog]) -> DomainNotRemade:
    """Return the error of an unknown domain, with the name that a scenario in a log has for it."""
    scenarios = filter(None, map(_scenario_in, logs))
    spec = next((each.domain for each in scenarios if ":" in each.domain), None)
    if spec is None:
        return error
    module = spec.partition(":")[0].replace(".", "/")
    return DomainNotRemade(
        f"{error}. The scenario in the log names {spec!r}: work in the folder of {module}.py"
    )
