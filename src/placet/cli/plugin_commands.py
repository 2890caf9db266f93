"""Commands of plug-ins: found when they are called, listed without being loaded."""

from typing import Any

import typer

from placet.cli.command_table import COMMANDS as OWN
from placet.cli.command_table import CommandGroup, LateCommand, command_of
from placet.plugins.entry_points import COMMANDS, Plugin, PluginBroken, plugins
from placet.plugins.extras import installable
from placet.schemas.name_suggestions import nearest


class WithPlugins(CommandGroup):
    """The group of all commands: those of placet, then those of plug-ins.

    If both have a name, placet's command is used.
    """

    def __init__(self, **options: Any) -> None:  # noqa: ANN401  # see CommandGroup
        super().__init__(**options)
        for name, summary in OWN.items():
            self.add_command(LateCommand(name, help=summary))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401  # see CommandGroup
        """Return a command by its name; a plug-in's command is loaded now.

        Raises:
            PluginBroken: The plug-in cannot be loaded.
        """
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        plugin = plugins(COMMANDS).get(cmd_name)
        return None if plugin is None else _command_of(plugin)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401  # see CommandGroup
        """Return the command that is called; fail with the way to install it if it is known."""
        name = args[0]
        if self.get_command(ctx, name) is None:
            commands = installable()
            near = nearest(name, [*OWN, *plugins(COMMANDS), *commands], 1)
            if near and near[0] in commands and self.get_command(ctx, near[0]) is None:
                unknown = "" if near[0] == name else f"there is no command {name!r}; "
                ctx.fail(f"{unknown}the command {near[0]!r} is not installed: {commands[near[0]]}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401  # see CommandGroup
        """Write the list of all commands; a plug-in's command has no summary there.

        Its module would have to be loaded for that.
        """
        super().format_commands(ctx, formatter)
        names = [name for name in plugins(COMMANDS) if name not in self.commands]
        if names:
            with formatter.section("Plug-in commands (see their own --help)"):
                formatter.write_text(", ".join(names))


def _command_of(plugin: Plugin) -> Any:  # noqa: ANN401  # see CommandGroup
    """Return a command for a plug-in's object: a typer application, or a function."""
    target = plugin.load()
    if not isinstance(target, typer.Typer) and not callable(target):
        raise PluginBroken(
            f"{plugin} is no command: expected a typer.Typer or a function, got {target!r:.80}"
        )
    command = command_of(target)
    command.name = plugin.name
    return command
