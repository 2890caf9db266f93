"""All commands, and what becomes of their errors."""

import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Final

import typer

from placet.runtime.cli.bench import bench
from placet.runtime.cli.bisect import bisect
from placet.runtime.cli.check import check
from placet.runtime.cli.compact import compact
from placet.runtime.cli.config import config
from placet.runtime.cli.design import design
from placet.runtime.cli.diff import diff
from placet.runtime.cli.effects import effects
from placet.runtime.cli.explain import explain
from placet.runtime.cli.fork import fork
from placet.runtime.cli.gate import gate
from placet.runtime.cli.guest_commands import WithGuests
from placet.runtime.cli.kinds import kinds
from placet.runtime.cli.log import log
from placet.runtime.cli.new import new
from placet.runtime.cli.pack import pack
from placet.runtime.cli.replay import replay
from placet.runtime.cli.run import run
from placet.runtime.cli.serve import serve
from placet.runtime.cli.terminal import complain, say
from placet.runtime.cli.token import token
from placet.runtime.cli.verify import verify
from placet.schemas.errors import PlacetError

USAGE_EXIT: Final = 2
INTERRUPTED_EXIT: Final = 130
COMMANDS: Final = (
    run,
    gate,
    design,
    log,
    replay,
    verify,
    explain,
    effects,
    bisect,
    fork,
    diff,
    pack,
    check,
    compact,
    kinds,
    bench,
    serve,
    config,
)

# What typer raises for a command that it does not understand. Its own name for it moved when typer
# took in click; the base of its public BadParameter did not.
_UsageError: Final[type[Exception]] = typer.BadParameter.__bases__[0]

app = typer.Typer(
    name="placet",
    cls=WithGuests,
    add_completion=False,
    # Plain help: the other one loads rich, a sixth of a second before the first word.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
for _command in COMMANDS:
    app.command()(_command)
app.add_typer(token)
app.add_typer(new)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        say(f"placet {installed_version()}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def placet(
    context: typer.Context,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Agents propose batches of intents, one gate decides, and every decision has a reason.

    Begin with `placet run town`.
    """
    if context.invoked_subcommand is None:
        say(context.get_help())
        raise typer.Exit(USAGE_EXIT)


def run_command(arguments: Sequence[str]) -> int:
    """Run one command line and give its exit code; no error leaves as a traceback."""
    if sys.stdout is None:  # it was closed before we began: `>&-`
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # to the end
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
    except OSError as error:
        _give_up_stdout()
        if not isinstance(error, BrokenPipeError):  # who has gone need not be told
            complain(str(error))
        return 1
    return code


def _dispatch(arguments: Sequence[str]) -> int:
    command = typer.main.get_command(app)
    try:
        code = command.main(list(arguments), prog_name="placet", standalone_mode=False)
    except _UsageError as error:
        complain(_usage_message(error))
        return USAGE_EXIT
    except PlacetError as error:
        complain(str(error))
        return 1
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED_EXIT
    return code if isinstance(code, int) else 0


def _usage_message(error: Exception) -> str:
    """Say what was not understood, and where to read what would be."""
    context = getattr(error, "ctx", None)
    path = "placet" if context is None else context.command_path
    message: str = error.format_message()  # type: ignore[attr-defined]  # a usage error has it
    return f"{message.rstrip('.')}; see `{path} --help`"


def _give_up_stdout() -> None:
    """Let the interpreter flush into nothing at its end: what we wrote does not arrive."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def installed_version() -> str:
    """Name the version that is installed; a bare source tree has none."""
    try:
        return version("placet")
    except PackageNotFoundError:
        return "(source tree, not installed)"
