"""The table of commands has the same texts as the commands, without loading them."""

from importlib import import_module
from pathlib import Path
from shlex import split

import pytest

import placet.cli.commands
from placet.cli.command_table import COMMANDS, LateCommand, command_of
from tests.cli.command_line import TOWN


def own(name):
    """Return the command that a file defines under its name; None if there is none."""
    name = name.replace("-", "_")
    return getattr(import_module(f"placet.cli.commands.{name}"), name, None)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_listed_with_the_first_sentence_of_its_help(name):
    command, late = command_of(own(name)), LateCommand(name, help=COMMANDS[name])
    assert command.help.startswith(COMMANDS[name])
    for limit in (20, 45, 80, 1_000):
        assert late.get_short_help_str(limit) == command.get_short_help_str(limit)


def test_every_file_with_a_command_is_in_the_table():
    files = {path.stem for path in Path(placet.cli.commands.__path__[0]).glob("*.py")}
    named = {name for name in files - {"__init__"} if own(name) is not None}
    assert named == {name.replace("-", "_") for name in COMMANDS}


def test_a_lazily_loaded_command_behaves_like_the_command(placet):
    for name in COMMANDS:
        assert placet(name, "--help").out.startswith(f"Usage: placet {name} [OPTIONS]")


def test_commands_in_messages_are_quoted_for_the_shell(placet):
    store = ("--store", "a b.db")
    placet("run", *TOWN, *store)
    (_, hint) = placet("run", *TOWN, *store).err.split("To see its records: placet ")
    assert placet(*split(hint)).code == 0

    placet("pack", "a b.db", "a b.pack")
    refused = placet("compact", "a b.pack").err
    (_, hint) = refused.split("fork it: placet ")
    assert placet(*split(hint)).code == 0

    lines = placet("new", "domain", "garden", "--into", "a shed").out.splitlines()
    (command,) = [split(line) for line in lines if line.startswith("  cd ")]
    assert (placet.folder / command[1]).is_dir()
