"""The collected series of a run for the player: of parts, of sealed tables, and of none."""

import pytest

from placet.server.history.series import series_of
from placet.tables.definitions import Column
from placet.tables.parts import FIXED, CollectedTable, PartFolder
from tests.history.timeline.played_logs import world_records
from tests.history.timeline.test_timeline import sqlite_log


def collecting(tmp_path):
    """Return the log of a run, and its collector's folder and tables."""
    log = sqlite_log(tmp_path, world_records())
    opened = (Column(name, "", "Collected.") for name in ("sheep", "by_sort"))
    world = CollectedTable("world", (*FIXED["world"], *opened))
    agents = CollectedTable("agents", (*FIXED["agents"], Column("age", "", "Collected.")))
    folder = PartFolder(tmp_path / "run.db.collected", [world, agents])
    folder.begin()
    return log, folder, world, agents


def add(world, agents, tick, sheep):
    seq, now = 10 * tick, tick * 10**9
    world.rows.append((tick, seq, now, sheep, {"old": tick, "young": 1}))
    agents.rows += [(tick, seq, now, name, age) for name, age in (("ann", 1.5), ("bob", tick))]


def test_the_parts_of_a_run_in_progress_and_its_sealed_tables_are_series_along_the_seqs(tmp_path):
    log, folder, world, agents = collecting(tmp_path)
    add(world, agents, 1, 7)
    add(world, agents, 2, 9)
    folder.write(2)
    add(world, agents, 3, 2.5)  # the type of the column differs from that of the first part
    folder.write(3)
    found = series_of(log)
    assert found["problem"] == ""
    sheep, by_sort, age = found["series"]
    assert (sheep["name"], sheep["seqs"], sheep["is_band"]) == ("sheep", [10, 20, 30], False)
    assert sheep["lines"] == [{"name": "sheep", "values": [7, 9, 2.5]}]
    assert by_sort["lines"] == [
        {"name": "old", "values": [1, 2, 3]},
        {"name": "young", "values": [1, 1, 1]},
    ]
    assert (age["name"], age["is_band"], len(age["lines"])) == ("age", True, 3)
    assert age["lines"][1]["values"] == [1.25, 1.75, 2.25]
    folder.seal()
    assert series_of(log) == found


def test_a_part_that_is_written_later_is_read(tmp_path):
    log, folder, world, agents = collecting(tmp_path)
    assert series_of(log) == {"series": [], "problem": ""}
    for last in (2, 4):
        for tick in (last - 1, last):
            add(world, agents, tick, tick)
        folder.write(last)
        assert series_of(log)["series"][0]["seqs"] == [10 * tick for tick in range(1, last + 1)]


def test_a_log_without_collected_rows_has_no_series(tmp_path):
    log = sqlite_log(tmp_path, world_records())
    assert series_of(log) == {"series": [], "problem": ""}


@pytest.mark.parametrize("name", ["000001.world.arrow", "000001.agents.arrow"])
def test_damaged_rows_are_a_sentence(tmp_path, name):
    log, folder, world, agents = collecting(tmp_path)
    add(world, agents, 1, 7)
    folder.write(1)
    path = folder.folder / "parts" / name
    path.write_bytes(path.read_bytes()[:100])
    found = series_of(log)
    assert found["series"] == []
    assert found["problem"].startswith("cannot read the collected rows in ")
