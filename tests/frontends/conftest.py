"""Fixtures of the tests of the front ends."""

import io

import pytest

from tests.cli.command_line import CommandLine


class Piped(CommandLine):
    """Calls commands in an empty folder, with lines on their standard input."""

    def __init__(self, capture, folder, monkeypatch) -> None:
        super().__init__(capture, folder)
        self._monkeypatch = monkeypatch

    def with_input(self, *lines: str, to: tuple[str, ...]):
        """Call a command with lines as its standard input."""
        text = "".join(f"{line}\n" for line in lines)
        self._monkeypatch.setattr("sys.stdin", io.StringIO(text))
        return self(*to)


@pytest.fixture
def placet(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Piped(capsys, tmp_path, monkeypatch)
