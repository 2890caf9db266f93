"""The command line application, and the handling of its commands' errors."""

import os
import sys
from collections.abc import Sequence
from errno import EDQUOT, EFBIG, ENOSPC
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Final

import typer

from placet.cli.command_table import APPLICATION
from placet.cli.plugin_commands import WithPlugins
from placet.cli.terminal import USAGE_EXIT, complain, say, say_lines
from placet.schemas.errors import PlacetError

INTERRUPTED_EXIT: Final = 130
_COMPLETION_VARIABLE: Final = "_PLACET_COMPLETE"
_COMPLETION_OPTIONS: Final = frozenset({"--install-completion", "--show-completion"})
_FULL: Final = (ENOSPC, EFBIG, EDQUOT)

# What typer raises for a command that it does not understand. Its own name for it moved when typer
# took in click; the base of its public BadParameter did not.
_UsageError: Final[type[Exception]] = typer.BadParameter.__bases__[0]


def _show_version(is_requested: bool) -> None:
    if is_requested:
        say(f"placet {installed_version()}")
        raise typer.Exit


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

    Start with `placet run town`. `placet --install-completion` makes your shell complete commands,
    scenarios, domains, and the agents of a store.
    """
    if context.invoked_subcommand is None:
        say_lines(context.get_help().splitlines())
        raise typer.Exit(USAGE_EXIT)


def _application(*, with_completion: bool) -> typer.Typer:
    options = {**APPLICATION, "add_completion": with_completion}
    application = typer.Typer(name="placet", cls=WithPlugins, **options)
    application.callback(invoke_without_command=True)(placet)
    return application


def run_command(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; an error is printed without a traceback."""
    if sys.stdout is None:  # it was closed before we began: `>&-`
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # to the end
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        # A name that the terminal's encoding has not is escaped, as on stderr, and ends nothing.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
    except OSError as error:
        _give_up_stdout()
        if not isinstance(error, BrokenPipeError):  # who has gone need not be told
            complain(_fault_message(error))
        return 1
    return code


def _dispatch(arguments: Sequence[str]) -> int:
    # typer's options for completion load pydantic, for which no other call should wait.
    is_completing = _COMPLETION_VARIABLE in os.environ
    with_completion = is_completing or not _COMPLETION_OPTIONS.isdisjoint(arguments)
    command = typer.main.get_command(_application(with_completion=with_completion))
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
    """Return the usage error, and the command that shows the valid usage."""
    context = getattr(error, "ctx", None)
    path = "placet" if context is None else context.command_path
    message: str = error.format_message()  # type: ignore[attr-defined]  # a usage error has it
    return f"{message.rstrip('.')}; see `{path} --help`"


def _fault_message(error: OSError) -> str:
    """Return a message for an operating system error; without a file name it is about stdout."""
    if error.filename is not None or error.errno not in _FULL:
        return str(error)
    return f"cannot write the output to stdout: {error.strerror}; redirect it elsewhere"


def _give_up_stdout() -> None:
    """Redirect stdout so that the interpreter's final flush does not fail: the reader is gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def installed_version() -> str:
    """Return the installed version of placet; a note if only a source tree is there."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415  # 15 ms

    try:
        return version("placet")
    except PackageNotFoundError:
        return "(source tree, not installed)"
