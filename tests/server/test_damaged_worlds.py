"""A file beside the first world that cannot be opened is reported, and ends nothing."""

import sqlite3
from contextlib import closing

import pytest

from placet.domains.world import World
from placet.runtime.config import OrchestratorConfig
from placet.runtime.orchestrator import Orchestrator
from placet.server.config import ServeConfig
from placet.server.http.problems import Problem
from placet.server.worlds import Worlds


def worlds_in(folder):
    config = OrchestratorConfig(store=f"sqlite:///{folder / 'w.db'}")
    worlds = Worlds(Orchestrator(World(), config), ServeConfig())
    worlds.make = lambda _name: [World()]
    return worlds


def empty(path):
    path.touch()


def first_page(path):
    """Leave what a killed process of an older release left."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")


def half_a_header(path):
    path.write_bytes(b"SQLite format 3\0" + bytes(40))


def another_file(path):
    path.write_bytes(b"hello")


def a_folder(path):
    path.mkdir()


def another_database(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE mine (x)")


def no_log(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA application_id = 1886151011")


@pytest.mark.parametrize(
    ("left", "is_open"),
    [
        (empty, True),
        (first_page, True),
        (half_a_header, False),
        (another_file, False),
        (a_folder, False),
        (another_database, False),
        (no_log, False),
    ],
)
async def test_a_file_beside_a_world_never_keeps_the_others_from_opening(
    tmp_path, left, is_open, capsys
):
    worlds = worlds_in(tmp_path)
    await worlds.open()
    await worlds.create("good")
    await worlds.close()
    left(tmp_path / "w" / "a%20b.db")
    worlds = worlds_in(tmp_path)
    await worlds.open()
    try:
        there = ["a b", "good"] if is_open else ["good"]
        assert [name for name, _ in worlds.all() if name != "world"] == there
        assert list(worlds.unopened) == ([] if is_open else ["a b"])
        is_reported = "'a b' cannot be opened, the others are" in capsys.readouterr().err
        assert is_reported != is_open
        with pytest.raises(Problem, match="there is a world 'a b'"):
            await worlds.create("a b")
    finally:
        await worlds.close()
