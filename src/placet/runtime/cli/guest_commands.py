"""Commands that guests bring: found when they are called, listed without being loaded."""

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

from placet.runtime.guests import COMMANDS, Guest, GuestBroken, guests


class WithGuests(TyperGroup):
    """The commands of placet, and those of its guests; one of placet's own name is placet's.

    The types of the framework under typer are private since typer took it in: hence `Any`.
    """

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401  # above
        """Give a command; a guest's is loaded now.

        Raises:
            GuestBroken: It cannot be.
        """
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        guest = guests(COMMANDS).get(cmd_name)
        return None if guest is None else _command_of(guest)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401  # above
        """List all commands; what a guest's does is told by its own help, which would load it."""
        super().format_commands(ctx, formatter)
        names = [name for name in guests(COMMANDS) if name not in self.commands]
        if names:
            with formatter.section("Commands of guests (each with --help of its own)"):
                formatter.write_text(", ".join(names))


def _command_of(guest: Guest) -> Any:  # noqa: ANN401  # above
    """Make a command of what a guest brings: an application of typer, or a function."""
    found = guest.load()
    if not isinstance(found, typer.Typer):
        if not callable(found):
            raise GuestBroken(
                f"{guest} is no command: expected a typer.Typer or a function, got {found!r:.80}"
            )
        found = _application_of(found)
    command = typer.main.get_command(found)
    command.name = guest.name
    return command


def _application_of(function: Callable[..., Any]) -> typer.Typer:
    application = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    application.command()(function)
    return application
