"""Plug-in commands and routes, found by entry points and loaded when called.

A layer imports no plug-in, so packages above it, such as the agent layer, are named by their
distribution (`[project.entry-points."placet.commands"]`), as domains are. A plug-in that cannot be
loaded is reported by its caller, and affects no other.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from placet.runtime.plugins import import_from_here
from placet.schemas.errors import PlacetError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

COMMANDS: Final = "placet.commands"
"""Name -> a typer application, or a function that typer makes a command of."""

ROUTES: Final = "placet.routes"
"""Name -> a function that takes the application and returns a list of Starlette routes."""


class PluginBroken(PlacetError):  # noqa: N818  # what it says
    """A plug-in's object cannot be loaded."""


class Plugin(NamedTuple):
    """Something that a distribution brings, not loaded yet.

    Attributes:
        name: By which it is called.
        entry: Where it is.
    """

    name: str
    entry: "EntryPoint"

    def load(self) -> object:
        """Import it.

        Raises:
            PluginBroken: It cannot be imported, or is not there.
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
    """List the plug-ins of a group by name, without importing any of them.

    Of two with one name the first by its distribution's name and place counts: which of them it is
    must not depend on the order of folders.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415  # 15 ms, and `run` asks for none

    by_name: dict[str, Plugin] = {}
    for entry in sorted(entry_points(group=group), key=_by_owner):
        by_name.setdefault(entry.name, Plugin(entry.name, entry))
    return dict(sorted(by_name.items()))


def _by_owner(entry: "EntryPoint") -> tuple[str, str]:
    return (entry.dist.name if entry.dist else "", entry.value)
