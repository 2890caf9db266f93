"""Plug-in commands and routes, found by entry points and loaded when called.

A layer imports no plug-in, so packages above it, such as the agent layer, are named by their
distribution (`[project.entry-points."placet.commands"]`), as domains are. A plug-in that cannot be
loaded is reported by its caller, and affects no other.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from placet.plugins.domains import import_from_here
from placet.schemas.errors import PlacetError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

COMMANDS: Final = "placet.commands"
"""Name -> a typer application, or a function that typer makes a command of."""

ROUTES: Final = "placet.routes"
"""Name -> a function that takes the application and returns a list of Starlette routes."""

SENTENCES: Final = "placet.sentences"
"""Name of a domain -> a function that reads sentences as its kinds, without a model."""


class PluginBroken(PlacetError):  # noqa: N818  # what it says
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


def _by_owner(entry: "EntryPoint") -> tuple[str, str]:
    return (entry.dist.name if entry.dist else "", entry.value)
