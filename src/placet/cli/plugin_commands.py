"""Commands that guests bring: found when they are called, listed without being loaded."""

from typing import Any

import typer

from placet.cli.command_table import COMMANDS as OWN
from placet.cli.command_table import Group, LateCommand, command_of
from placet.runtime.entry_points import COMMANDS, Plugin, PluginBroken, guests


class WithPlugins(Group):
    """The commands of placet, and those of its guests; one of placet's own name is placet's."""

    def __init__(self, **given: Any) -> None:  # noqa: ANN401  # see Group
        super().__init__(**given)
        for name, summary in OWN.items():
            self.add_command(LateCommand(name, help=summary))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401  # see Group
        """Return a command; a guest's is loaded now.

        Raises:
            PluginBroken: It cannot be.
        """
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        guest = guests(COMMANDS).get(cmd_name)
        return None if guest is None else _command_of(guest)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401  # see Group
        """List all commands; a plug-in's summary is in its own help.

        Because it would have to be loaded.
        """
        super().format_commands(ctx, formatter)
        names = [name for name in guests(COMMANDS) if name not in self.commands]
        if names:
            with formatter.section("Plug-in commands (see their own --help)"):
                formatter.write_text(", ".join(names))


def _command_of(guest: Plugin) -> Any:  # noqa: ANN401  # see Group
    """Return a command for a plug-in's object: a typer application, or a function."""
    found = guest.load()
    if not isinstance(found, typer.Typer) and not callable(found):
        raise PluginBroken(
            f"{guest} is no command: expected a typer.Typer or a function, got {found!r:.80}"
        )
    command = command_of(found)
    command.name = guest.name
    return command
