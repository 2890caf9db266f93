"""Every command that can take long shows a bar with a rate on a terminal, and nothing in a pipe."""

import io
import os
import sys
from pathlib import Path

import pytest

from placet.cli import progress
from placet.cli.app import run_command
from placet.cli.command_table import COMMANDS
from tests.cli.pty_terminal import terminal

LIKE_TOWN = ("--agents", "20", "--ticks", "5", "--no-verify")
TOWN = ("--agents", "12", "--ticks", "4")

LONG = {
    "run": ("town", *TOWN, "--store", "new.db", "--no-verify"),
    "sweep": ("town", *TOWN, "--seeds", "1..2", "--to", "study", "--jobs", "1"),
    "log": ("town.db", "--grep", "nothing has this text"),
    "collect": ("town.db", "--to", "rows", "--agents", "position"),
    "export": ("town.db", "--to", "tables"),
    "replay": ("town.db",),
    "verify": ("town.db",),
    "explain": ("town.db", "folk_1", "run:0"),
    "effects": ("town.db",),
    "fork": ("town.db", "fork.db", "--replay"),
    "diff": ("town.db", "other.db"),
    "report": ("town.db",),
    "compare": ("town.db", "other.db"),
    "turning-point": ("town.db", "--outcome", "east:east", "--every", "3", "--seeds", "4"),
    "bisect": ("town.db", "other.db"),
    "pack": ("town.db", "town.pack"),
    "check": ("other.pack",),
    "compact": ("town.db", "--keep", "1"),
    "gate": ("--store", "town.db"),
}
"""The arguments of each command that reads a whole log or runs a world."""

UNITS = {"run": "ticks", "sweep": "runs", "turning-point": "continuations"}
"""What is counted; `records` in every other command."""

SHORT = {"scenarios", "kinds", "config", "token", "new", "runs"}
"""Without a bar, or, as `runs` in a folder of a few logs, over before it has a rate."""
SERVERS = {"play", "serve"}
"""They show their progress on their pages, and log it."""


@pytest.fixture
def logs(town, monkeypatch):
    """The folder of two logs and a pack, where every read counts as long."""
    run_command(["run", "town", *LIKE_TOWN, "--set", "settings.interaction_range=9"])
    (town.folder / "town-2.db").rename("other.db")
    run_command(["pack", "other.db", "other.pack"])
    (town.folder / "east.py").write_text(
        "def east(state):\n    return state['world.agents']['folk_1']['position'][0] > 60\n"
    )
    monkeypatch.setattr(progress, "_QUICK_S", -1.0)
    monkeypatch.setattr(progress, "_REPORTED_RECORDS", 1)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "140")
    with Path(os.devnull).open(encoding="utf-8") as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        yield town


def test_every_command_is_known_to_be_long_or_short():
    assert {*LONG, *SHORT, *SERVERS} == set(COMMANDS)


@pytest.mark.parametrize("command", LONG)
def test_long_command_shows_a_bar_with_a_rate_on_a_terminal(logs, command):
    with terminal() as shown:
        code = run_command([command, *LONG[command]])
    text = b"".join(shown).decode()
    assert code in {0, 1}, text
    assert "━" in text
    assert f"{UNITS.get(command, 'records')}/s" in text, text
    assert text.endswith("\x1b[2K") or "━" not in text.rpartition("\x1b[2K")[2], "it is removed"


@pytest.mark.parametrize("command", ["verify", "turning-point", "gate"])
def test_no_bar_is_shown_in_a_pipe(logs, command):
    outcome = logs(command, *LONG[command])
    assert "━" not in outcome.out + outcome.err
    assert "/s" not in outcome.err


def test_second_bar_removes_the_first():
    with terminal() as shown:
        with progress.progress_bar("outer", 10, "ticks") as outer:
            outer(1)
            with progress.progress_bar("inner", 10, "ticks") as inner:
                inner(2)
            outer(9)
        assert progress._shown == []
    frames = b"".join(shown).decode().split("inner")
    assert len(frames) > 1
    assert "outer" not in frames[-1]


def test_bar_of_a_read_that_is_given_up_ends(logs):
    from placet.stores.reading import log_to_read

    with terminal() as shown:
        log = progress.with_bar(log_to_read("town.db"), "search")
        records = log.read()
        for _ in range(3):
            next(records)
        assert progress._shown
        del records
        assert progress._shown == []
        list(log.read())
    assert b"search" in b"".join(shown)


def test_log_on_a_terminal_ends_its_bar_before_the_first_line(logs, monkeypatch):
    shown_at_output = []

    class Output(io.StringIO):
        def isatty(self):
            return True

        def write(self, text):
            shown_at_output.append(bool(progress._shown))
            return super().write(text)

    monkeypatch.setenv("PAGER", "")
    monkeypatch.setattr(sys, "stdout", Output())
    with terminal() as shown:
        assert run_command(["log", "town.db", "--kind", "Move"]) == 0
    assert b"records" in b"".join(shown)
    assert len(shown_at_output) > 10
    assert not any(shown_at_output)
