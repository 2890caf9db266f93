"""The table of commands: what is known of a command before it is loaded is what it says itself."""

from importlib import import_module
from pathlib import Path

import pytest

import placet.runtime.cli
from placet.runtime.cli.commands import COMMANDS, LateCommand, command_of


def own(name):
    """Give what the file of a name has by its name; None if it has nothing."""
    return getattr(import_module(f"placet.runtime.cli.{name}"), name, None)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_listed_by_the_first_sentence_of_its_help(name):
    command, late = command_of(own(name)), LateCommand(name, help=COMMANDS[name])
    assert command.help.startswith(COMMANDS[name])
    for limit in (20, 45, 80, 1_000):
        assert late.get_short_help_str(limit) == command.get_short_help_str(limit)


def test_every_file_that_has_a_command_is_in_the_table():
    files = {path.stem for path in Path(placet.runtime.cli.__path__[0]).glob("*.py")}
    named = {name for name in files - {"__init__", "app"} if own(name) is not None}
    assert named == set(COMMANDS)


def test_a_late_command_is_the_command_to_whoever_calls_it(placet):
    for name in COMMANDS:
        assert placet(name, "--help").out.startswith(f"Usage: placet {name} [OPTIONS]")
