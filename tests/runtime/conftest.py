"""Fixtures of the tests of the runtime."""

import shutil

import pytest

from tests.runtime.command_line import TOWN, CommandLine, run_process


@pytest.fixture
def placet(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return CommandLine(capsys, tmp_path)


@pytest.fixture(scope="session")
def lived_town(tmp_path_factory):
    """A folder in which a town was lived through, once for all who read of it; and its report."""
    folder = tmp_path_factory.mktemp("town")
    outcome = run_process("run", *TOWN, "--json", folder=folder)
    assert outcome.code == 0, outcome.err
    return folder, outcome.json()


@pytest.fixture
def town(placet, lived_town):
    """A copy of that town, in town.db."""
    folder, placet.report = lived_town
    shutil.copytree(folder, placet.folder, dirs_exist_ok=True)
    return placet
