"""Fixtures of the lab's tests: logs that are written once and only read."""

import pytest

from tests.lab.logs import run_town, write_notes

MAIL = [("Put", {"id": "a", "value": 1, "mail": "bob"})]


@pytest.fixture(scope="session")
def town_log(tmp_path_factory):
    """The path of a small town's log."""
    path = tmp_path_factory.mktemp("lab") / "town.db"
    run_town(path)
    return path


@pytest.fixture(scope="session")
def notes_log(tmp_path_factory):
    """The path of a log with effects, batches of several intents, deletions, and mixed values."""
    path = tmp_path_factory.mktemp("lab") / "notes.db"
    write_notes(
        path,
        [
            MAIL,
            [("Put", {"id": "b", "value": "text"}), ("Put", {"id": "c", "value": [1, 2.5]})],
            [("Put", {"id": "a", "value": None, "mail": "nobody"})],
            [("Drop", {"id": "b"}), ("Drop", {"id": "nothing"})],
            [("Drop", {"id": "b"})],
        ],
    )
    return path
