"""Plug-ins found by the entry points of installed distributions, and loaded when called.

A layer imports no plug-in, so packages above it, such as the agent layer, are named by their
distribution (`[project.entry-points."placet.commands"]`), as domains are. A plug-in that cannot be
loaded is reported by its caller, and affects no other.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from placet.plugins.domains import import_from_here
from placet.schemas.errors import PlacetError
from placet.schemas.name_suggestions import did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

COMMANDS: Final = "placet.commands"
"""Name -> a typer application, or a function that typer makes a command of."""

ROUTES: Final = "placet.routes"
"""Name -> a function that takes the application and returns a list of Starlette routes."""

SENTENCES: Final = "placet.sentences"
"""Name of a domain -> a function that reads sentences as its kinds, without a model."""

POLICIES: Final = "placet.policies"
"""Name -> a policy of scenarios: a function of a view, or a class that makes one for each agent."""

EXECUTORS: Final = "placet.executors"
"""Name -> a function that takes a domain and returns the `EffectHandler` of each kind of effect."""

_NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})


class PluginBroken(PlacetError):  # noqa: N818  # the name states the fault
    """The error of a plug-in object that cannot be loaded."""


class Plugin(NamedTuple):
    """A plug-in that an installed distribution provides, not imported yet.

    Attributes:
        name: Name under which the plug-in is used, such as a command.
        entry: The entry point, which names its module and object.
    """

    name: str
    entry: "EntryPoint"

    def load(self) -> object:
        """Import the plug-in and return its object.

        Raises:
            PluginBroken: The module cannot be imported, or does not have the object.
        """
        try:
            target = import_from_here(self.entry.module)
        except ImportError as error:
            raise PluginBroken(f"{self} cannot be loaded: {error}") from error
        for part in filter(None, self.entry.attr.split(".")):
            if not hasattr(target, part):
                raise PluginBroken(f"{self} cannot be loaded: {self.entry.module} has no {part!r}")
            target = getattr(target, part)
        return target

    def __str__(self) -> str:
        owner = self.entry.dist.name if self.entry.dist else "an unknown distribution"
        return f"{self.name!r} of {owner} ({self.entry.value})"


def plugins(group: str) -> dict[str, Plugin]:
    """Return the plug-ins of a group by name, sorted, without importing any of them.

    If two plug-ins have one name, the first in the order of their distributions' names is returned,
    so that the choice does not depend on the order of folders.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415  # 15 ms, and `run` asks for none

    by_name: dict[str, Plugin] = {}
    for entry in sorted(entry_points(group=group), key=_by_owner):
        by_name.setdefault(entry.name, Plugin(entry.name, entry))
    return dict(sorted(by_name.items()))


def load_named(
    group: str, name: str, noun: str, built_in: Mapping[str, str] = _NO_NAMES
) -> Callable[..., Any]:
    """Return the class or function of a name: a built-in one, an installed one, `module:attribute`.

    Args:
        group: The entry points to search.
        name: The name; a module may also be in the current folder.
        noun: Noun for such an object, for messages.
        built_in: Name -> `module:attribute`. A built-in name cannot be replaced, and costs no
            search of the installed distributions, which takes 15 ms.

    Raises:
        LookupError: There is no such object, or its module cannot be imported.
    """
    path = built_in.get(name, name)
    if ":" not in path:
        installed = plugins(group)
        if name not in installed:
            hint = did_you_mean(name, [*built_in, *installed])
            raise LookupError(f"there is no {noun} {name!r}; {hint}; your own is module:attribute")
        path = installed[name].entry.value
    module_name, _, attribute = path.partition(":")
    try:
        module = import_from_here(module_name)
    except ImportError as error:
        raise LookupError(f"{noun} {name!r} cannot be imported: {error}") from error
    target: Callable[..., Any] | None = getattr(module, attribute, None)
    if not callable(target):
        hint = did_you_mean(attribute, [key for key in dir(module) if not key.startswith("_")])
        raise LookupError(f"{noun} {name!r}: {module_name} has no callable {attribute!r}; {hint}")
    return target


def _by_owner(entry: "EntryPoint") -> tuple[str, str]:
    return (entry.dist.name if entry.dist else "", entry.value)
