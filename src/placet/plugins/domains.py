"""The door by which domains enter: by the name of an entry point, or as `module:attribute`."""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Final

from placet.kernel.plugin.boundary import raised_by, short_place_of
from placet.kernel.plugin.domain import Domain
from placet.kernel.plugin.rules_version import Rules
from placet.plugins.extras import extra_of, installable
from placet.schemas.codec import Json
from placet.schemas.errors import DomainError, PlacetError, describe_error
from placet.schemas.name_suggestions import did_you_mean, nearest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

GROUP = "placet.domains"

_IMPORTING: Final = (
    str(importlib.__file__),
    "<frozen importlib._bootstrap>",
    "<frozen importlib._bootstrap_external>",
)
"""Files between a call of `import_module` and the module."""

BUNDLED: Final = {
    name: f"placet.scenarios.builtin.{name}:{name.capitalize()}"
    for name in ("flock", "market", "segregation", "shepherd", "sir", "wealth")
}
"""The domains of bundled scenarios by the names in their logs. They are not installed by name."""

NO_SETTINGS: Final[Mapping[str, Json]] = MappingProxyType({})


class DomainNotFound(PlacetError, LookupError):  # noqa: N818  # the name states the fault
    """The error of a domain name that is unknown, or whose module cannot be imported."""


class DomainNotRemade(PlacetError):  # noqa: N818  # the name states the fault
    """The error of a log from which its domain cannot be recreated."""


def make_domain(
    spec: str, factory: Callable[..., object], settings: Mapping[str, Json] = NO_SETTINGS
) -> Domain:
    """Create a domain by its class or factory function.

    Args:
        spec: Its name, for messages.
        factory: The class or function, as `find_domain` returns it.
        settings: Its keywords.

    Raises:
        DomainError: Its code raised, or returned no domain.
        TypeError, ValueError: It does not take the settings.
    """
    try:
        domain = factory(**settings)
    except (TypeError, ValueError):  # the caller names the settings
        raise
    except Exception as error:
        raise raised_by(f"creation of domain {spec!r}", error, __file__) from error
    if not isinstance(domain, Domain):
        raise DomainError(
            f"{spec!r} makes no domain: expected a subclass of placet.Domain, got {domain!r}"
        )
    return domain


def default_domain() -> Domain:
    """Create the domain of a world for which none is named: the domain `world`."""
    return find_domain("world")()


def with_needed(domains: Domain | Sequence[Domain]) -> list[Domain]:
    """Return the domains of a world, and after them the missing domains that they need.

    Args:
        domains: A domain, or several. They are not checked here; the registry checks them.

    Raises:
        DomainNotFound: A needed domain is not installed.
    """
    found = list(domains) if isinstance(domains, Sequence) else [domains]
    for domain in found:  # the list grows: a needed domain may need others
        for name in getattr(domain, "needs", ()):
            if all(getattr(other, "name", None) != name for other in found):
                found.append(find_domain(name)())
    return found


def quotas_of(domains: Sequence[Domain]) -> dict[str, Mapping[str, float]]:
    """Return the quotas that domains declare for their kinds."""
    return {kind: one for domain in domains for kind, one in getattr(domain, "quotas", {}).items()}


def _installed() -> "EntryPoints":
    """Return the entry points by which installed domains are found."""
    from importlib.metadata import entry_points  # noqa: PLC0415  # 15 ms: it reads mails and archives

    return entry_points(group=GROUP)


def domain_names() -> list[str]:
    """Return the names of the installed domains, sorted."""
    return sorted({entry.name for entry in _installed()} | {"world"})


def find_domain(spec: str) -> Callable[..., Domain]:
    """Return the class or factory function of a domain.

    Args:
        spec: The name of an installed domain, or `module:attribute`, also of a module in the
            current folder: a class, a function, or a domain, which takes no settings.

    Raises:
        DomainNotFound: There is no such domain, or its module cannot be imported.
    """
    factory = _find(spec)
    if isinstance(factory, Domain) and not isinstance(factory, type):
        return lambda: factory
    return factory


def _find(spec: str) -> Callable[..., Domain] | Domain:
    module_name, colon, attribute = spec.partition(":")
    if colon:
        if not all(part.isidentifier() for part in [*module_name.split("."), attribute]):
            raise DomainNotFound(
                f"{spec!r} names no class; expected an installed name or module:attribute"
            )
        return _import(spec, module_name, attribute)
    for entry in _installed():
        if entry.name == spec:
            if not entry.attr:
                raise DomainNotFound(
                    f"the entry point of domain {spec!r} names no class; expected "
                    f"module:attribute, got {entry.value!r}"
                )
            return _import(spec, entry.module, entry.attr)
    if spec == "world":  # a source tree on the path, without the installed metadata
        return _import(spec, "placet.domains.world", "World")
    commands = installable()
    hint = did_you_mean(spec, [*domain_names(), *commands])
    near = nearest(spec, [*domain_names(), *commands], 1)
    if near and near[0] in commands.keys() - set(domain_names()):
        prefix = "" if near[0] == spec else f"{hint} "
        hint = f"{prefix}it is in a distribution that is not installed: {commands[near[0]]}"
    raise DomainNotFound(
        f"there is no domain {spec!r}; expected an installed name or module:attribute; {hint}"
    )


def remake(rules: Rules, given: Sequence[str] = ()) -> list[Domain]:
    """Recreate the domains of a log, from the names and the settings in the log.

    Args:
        rules: Names and settings of the domains, as the log has them.
        given: Domains to use instead of domains of the log, as `module:attribute`: a class or a
            function, called with the log's settings, or a domain.

    Raises:
        DomainNotRemade: A domain cannot be made from the log, or does not belong to it.
        DomainNotFound: There is no domain of a name.
    """
    own = {domain.name: domain for domain in (_given(spec, rules) for spec in given)}
    names = [name for name, _ in rules.domains]
    strange = sorted(own.keys() - set(names))
    if strange:
        raise DomainNotRemade(
            f"the log is of the domains {', '.join(names)}, and {strange[0]!r} is given; "
            "leave out --domain to use those of the log, or name another store"
        )
    return [own.get(name) or _remade(name, rules) for name in names]


def _given(spec: str, rules: Rules) -> Domain:
    factory = _find(spec)
    if isinstance(factory, Domain) and not isinstance(factory, type):
        return factory
    assert callable(factory), "what is found is a domain, or makes one"
    return _made(spec, factory, rules.settings.get(str(getattr(factory, "name", "")), {}))


def _remade(name: str, rules: Rules) -> Domain:
    # A log may be a stranger's. A name in it selects an installed domain; by
    # `module:attribute` it could import any module and call any function with any arguments.
    if not name.isidentifier():
        raise DomainNotRemade(
            f"the log names a domain {name!r}, but a domain's name is an identifier: placet did "
            "not "
            "write this log"
        )
    settings = rules.settings.get(name)
    if settings is None:
        raise DomainNotRemade(
            f"the log does not have the settings of domain {name!r}, because its settings() "
            "returned None; give the domain with --domain module:attribute"
        )
    try:
        factory = find_domain(name)
    except DomainNotFound as error:
        if name in BUNDLED:
            return _bundled(name, settings)
        raise DomainNotRemade(
            f"the log is of the domain {name!r}, which is not installed here; give it with "
            f"--domain module:attribute ({error})"
        ) from error
    return _made(name, factory, settings)


def _bundled(name: str, settings: Mapping[str, Json]) -> Domain:
    """Return the domain of a bundled scenario, if a log has exactly its settings.

    A domain of a user may have the same name.
    """
    try:
        domain = make_domain(name, find_domain(BUNDLED[name]), settings)
    except (TypeError, ValueError):
        domain = None
    if domain is None or domain.settings() != settings:
        raise DomainNotRemade(
            f"the log is of a domain {name!r} with other settings than that of the bundled "
            f"scenario {name!r}; give it with --domain module:attribute"
        )
    return domain


def _made(spec: str, factory: Callable[..., object], settings: Mapping[str, Json]) -> Domain:
    former = getattr(factory, "former_settings", ())
    settings = {name: value for name, value in settings.items() if name not in former}
    try:
        return make_domain(spec, factory, settings)
    except (TypeError, ValueError) as error:
        raise DomainNotRemade(
            f"the domain {spec!r} cannot be made again with the settings of the log: {error}"
        ) from error


def import_from_here(module_name: str) -> ModuleType:
    """Import a module of the user by name, also from the current folder, and return it.

    Raises:
        ImportError: There is no such module, or it raised an exception while it was imported.
    """
    try:
        here = str(Path.cwd())
    except FileNotFoundError:  # the folder was removed; imported modules stay usable
        here = ""
    added = bool(here) and here not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name.partition(".")[0]:  # a module that it imports
            extra = extra_of(error.name or "")
            if extra is None:
                raise
            raise ModuleNotFoundError(
                f"{error}, which the extra {extra!r} brings: pip install '.[{extra}]' in a clone "
                "of placet",
                name=error.name,
            ) from error
        where = f"in the current folder ({here or 'which was removed'}) and among installed ones"
        raise ModuleNotFoundError(
            f"{error}; modules are found {where}: run placet in the folder of {error.name}.py, or "
            "add that folder to PYTHONPATH",
            name=error.name,
        ) from None
    except ImportError:
        raise
    except Exception as error:
        place = short_place_of(error, __file__, *_IMPORTING)
        raise ImportError(f"{module_name} raised {describe_error(error)}{place}") from error
    finally:
        if added:
            sys.path.remove(here)


def _import(spec: str, module_name: str, attribute: str) -> Callable[..., Domain] | Domain:
    try:
        module = import_from_here(module_name)
    except ImportError as error:
        raise DomainNotFound(f"cannot import the module of domain {spec!r}: {error}") from error
    target = getattr(module, attribute, None)
    if not callable(target) and not isinstance(target, Domain):
        raise DomainNotFound(
            f"module {module_name!r} has no class {attribute!r}; expected a subclass of "
            "placet.kernel.Domain"
        )
    known: Callable[..., Domain] | Domain = target
    return known
