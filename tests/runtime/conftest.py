"""Fixtures of the tests of the runtime."""

import pytest

from tests.runtime.command_line import CommandLine


@pytest.fixture
def placet(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return CommandLine(capsys, tmp_path)
