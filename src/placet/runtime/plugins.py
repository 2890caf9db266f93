"""The door by which domains enter: by the name of an entry point, or as `module:Class`."""

import sys
from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from placet.kernel.domain import Domain
from placet.schemas.errors import PlacetError

GROUP = "placet.domains"


class DomainNotFound(PlacetError, LookupError):  # noqa: N818  # what it says
    """There is no such domain, or it cannot be imported."""


def default_domain() -> Domain:
    """Make the domain of a world that names none."""
    return find_domain("world")()


def domain_names() -> list[str]:
    """Name the domains that are installed, sorted."""
    return sorted({entry.name for entry in entry_points(group=GROUP)} | {"world"})


def find_domain(spec: str) -> Callable[..., Domain]:
    """Find the class, or factory, of a domain.

    Args:
        spec: The name of an installed domain, or `module:Class`; a module in the current folder
            is found too.

    Raises:
        DomainNotFound: There is none, or its module cannot be imported.
    """
    module_name, colon, attribute = spec.partition(":")
    if colon:
        if not all(part.isidentifier() for part in [*module_name.split("."), attribute]):
            raise DomainNotFound(
                f"{spec!r} names no class; expected an installed name or module:Class"
            )
        return _import(spec, module_name, attribute)
    for entry in entry_points(group=GROUP):
        if entry.name == spec:
            return _import(spec, entry.module, entry.attr)
    if spec == "world":  # a source tree on the path, without the installed metadata
        return _import(spec, "placet.domains.world", "World")
    near = get_close_matches(spec, domain_names(), 1)
    hint = f"did you mean {near[0]!r}?" if near else f"installed: {', '.join(domain_names())}"
    raise DomainNotFound(
        f"there is no domain {spec!r}; expected an installed name or module:Class; {hint}"
    )


def import_from_here(module_name: str) -> ModuleType:
    """Import a module of the user's, from the current folder too.

    Raises:
        ImportError: There is none, or it raised something as it was imported.
    """
    here = str(Path.cwd())
    added = here not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        return import_module(module_name)
    except ImportError:
        raise
    except Exception as error:
        raise ImportError(f"{module_name} raised {error!r}") from error
    finally:
        if added:
            sys.path.remove(here)


def _import(spec: str, module_name: str, attribute: str) -> Callable[..., Domain]:
    try:
        module = import_from_here(module_name)
    except ImportError as error:
        raise DomainNotFound(f"cannot import the module of domain {spec!r}: {error}") from error
    found = getattr(module, attribute, None)
    if not callable(found):
        raise DomainNotFound(
            f"module {module_name!r} has no class {attribute!r}; expected a subclass of "
            "placet.kernel.Domain"
        )
    factory: Callable[..., Domain] = found
    return factory
