"""The table of commands: name and summary. The module of a command is imported when it is called.

Importing scenarios, a web server or the models of a domain takes up to 0.2 s; neither the list of
commands nor another command should take that time.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

COMMANDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "run": "Run a scenario and print a report.",
        "sweep": "Run scenarios under many settings and seeds.",
        "scenarios": "List the bundled scenarios.",
        "gate": "Read batches as JSON lines, write verdicts.",
        "log": "Print the records of a log.",
        "collect": "Collect rows from a log, as its run would have.",
        "export": "Export tables of a log as Parquet, Arrow or CSV files.",
        "play": "Play a log in the browser, or list the runs of a folder.",
        "runs": "List the runs of a folder: status, settings, forks.",
        "replay": "Fold a log into the world at a seq.",
        "verify": "Verify a log's chain, digests and decisions.",
        "explain": "Explain the verdict on a request.",
        "effects": "List open, doubtful and failed effects.",
        "bisect": "Find the first record where two logs differ.",
        "fork": "Fork a world into a separate log.",
        "diff": "Compare state, ledger and decisions of two worlds.",
        "report": "Write a page about a run or a study.",
        "compare": "Compare two runs agent by agent.",
        "turning-point": "Find the tick at which a run's outcome became likely.",
        "pack": "Pack a whole log into one file.",
        "check": "Check a packed log.",
        "compact": "Remove the beginning of a log.",
        "kinds": "Print the kinds, their JSON Schemas and limits.",
        "serve": "Serve a world over HTTP and WebSocket.",
        "config": "Print the configuration of `placet serve`.",
        "token": "Manage the tokens of `placet serve`.",
        "new": "Create a plug-in from a template.",
    }
)
"""Name -> the first sentence of its help. `commands/NAME.py` has it, as `NAME`, with _ for -."""

# Plain help: the other one loads rich, a sixth of a second before the first word.
APPLICATION: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "add_completion": False,
        "rich_markup_mode": None,
        "pretty_exceptions_enable": False,
        "context_settings": {"help_option_names": ["-h", "--help"], "max_content_width": 100},
    }
)
"""How every application of typer is made here."""


class CommandGroup(TyperGroup):
    """A group of commands whose help does not load the commands.

    The types of the framework under typer are private since typer took it in: hence `Any`.
    """

    def get_help_option(self, ctx: Any) -> Any:  # noqa: ANN401  # above
        """Return the option `--help`; without this method typer would load pydantic."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False
        return option


class LateCommand(TyperCommand):
    """A placeholder of a command, which is loaded when it is called."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: Any = None,  # noqa: ANN401  # above
        **extra: Any,  # noqa: ANN401  # above
    ) -> Any:  # noqa: ANN401  # above
        """Load the command, and return its context."""
        name = str(self.name).replace("-", "_")
        command = command_of(getattr(import_module(f"{__package__}.commands.{name}"), name))
        return command.make_context(info_name, args, parent, **extra)


def command_of(target: typer.Typer | Callable[..., Any]) -> Any:  # noqa: ANN401  # above
    """Return the click command of a typer application or of a function."""
    if isinstance(target, typer.Typer):
        return typer.main.get_command(target)
    application = typer.Typer(**APPLICATION)
    application.command()(target)
    return typer.main.get_command(application)
