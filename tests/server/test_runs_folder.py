"""The list of the runs of a folder: what is listed, what became of each run, and what is kept."""

import os
import shutil
import sqlite3
from dataclasses import replace
from typing import Any

import pytest

from placet import Simulation
from placet.actors.ports import EventLog
from placet.history.fork import ForkOptions, fork
from placet.history.position import Position
from placet.history.timeline.timeline import Timeline
from placet.lab import run_scenarios
from placet.lab.reporting.run_report import run_page
from placet.scenarios import Scenario
from placet.scenarios.end_note import end_by_condition
from placet.scenarios.engine import run_scenario
from placet.scenarios.failure_note import note_failure, noting_failure
from placet.scenarios.fork import fork_run
from placet.scenarios.scenario_agent import PolicyError
from placet.schemas.errors import StoreError
from placet.server.runs import folder as folders
from placet.server.runs.folder import RunFolder
from placet.server.runs.listing import RunList, differing_keys
from placet.server.runs.summary import RunCount
from placet.stores.reading import log_to_read
from tests.history.timeline.played_logs import world_records
from tests.scenarios.test_ending import walkers
from tests.server.runs_of_folder import (
    append,
    damage,
    foreign_database,
    listed,
    pack_beside,
    rows_of,
    run_town,
    write_log,
)
from tests.sweeps.sweeping import InlineExecutor


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    return run_town(tmp_path_factory.mktemp("runs") / "town.db")


def test_good_damaged_foreign_and_empty_files_of_a_folder(tmp_path, town):
    shutil.copy(town, tmp_path / "good.db")
    pack_beside(town, tmp_path / "good.pack")
    shutil.copy(town, tmp_path / "broken.db")
    damage(tmp_path / "broken.db")
    (tmp_path / "text.db").write_text("no database")
    (tmp_path / "empty.db").touch()
    foreign_database(tmp_path / "foreign.db")
    (tmp_path / "readme.txt").write_text("town.db is good")
    (tmp_path / "folder.db").mkdir()
    os.mkfifo(tmp_path / "pipe.db")
    rows = listed(tmp_path)
    assert {name: row["status"] for name, row in rows.items()} == {
        "good.db": "finished",
        "good.pack": "finished",
        "broken.db": "damaged",
        "text.db": "damaged",
        "empty.db": "empty",
    }
    assert "damaged" in rows["broken.db"]["error"]
    assert "text.db" in rows["text.db"]["error"]
    assert rows["good.db"]["error"] == rows["empty.db"]["error"] == ""


def test_the_counts_are_those_of_the_time_line(tmp_path, town):
    shutil.copy(town, tmp_path / "town.db")
    (row,) = listed(tmp_path).values()
    timeline = Timeline(log_to_read(str(town)), None)
    timeline.index.catch_up()
    bars = timeline.bars()[1]
    assert (row["scenario"], row["seed"], row["agents"]) == ("town", 1, 5)
    assert (row["ticks"], row["ticks_planned"]) == (3, 3)
    assert row["admitted"] == sum(bar[1] for bar in bars)
    assert row["refused"] == sum(bar[2] for bar in bars)
    assert row["records"] == timeline.log.count()


def test_damage_behind_the_head_is_found_by_the_pass(tmp_path):
    path = tmp_path / "run.db"
    write_log(path, world_records(ticks=40))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE groups SET crc32 = crc32 + 1 WHERE first_record = 16")
    connection.close()
    runs = RunFolder(tmp_path)
    row = rows_of(RunList(runs), runs)["run.db"]
    assert row["status"] == "damaged"
    assert "damaged" in row["error"]


def test_a_link_is_left_out(tmp_path, town):
    inside = tmp_path / "runs"
    inside.mkdir()
    (inside / "link.db").symlink_to(town)
    (inside / "loop.db").symlink_to(inside / "loop.db")
    shutil.copy(town, inside / "town.db")
    runs = RunFolder(inside)
    assert runs.names() == ["town.db"]
    assert runs.find("link.db") is None
    (inside / "town.db").unlink()
    (inside / "town.db").symlink_to(town)
    assert runs.find("town.db") is None
    assert runs.open("town.db") is None


@pytest.mark.parametrize(
    "name", ["../town.db", "/etc/passwd", "..", ".", "", "a/../town.db", "town.db\0", "TOWN.DB/"]
)
def test_a_name_that_is_no_file_of_the_folder_is_unknown(tmp_path, town, name):
    inside = tmp_path / "runs"
    inside.mkdir()
    shutil.copy(town, tmp_path / "town.db")
    shutil.copy(town, inside / "town.db")
    runs = RunFolder(inside)
    assert runs.find("town.db") is not None
    assert runs.find(name) is None
    assert runs.open(name) is None


def test_a_name_that_no_address_can_have_is_counted_as_left_out(tmp_path, town):
    shutil.copy(town, tmp_path / "to\u202ewn.db")
    shutil.copy(town, os.fsencode(tmp_path) + b"/to\xffwn.db")
    runs = RunFolder(tmp_path)
    assert runs.files() == []
    assert runs.left_out == 2


def test_a_log_that_grows_is_read_on_from_where_the_count_ended(tmp_path, monkeypatch):
    records = world_records()
    log = write_log(tmp_path / "run.db", records[:8], is_closed=False)
    runs = RunFolder(tmp_path)
    listing = RunList(runs)
    before = rows_of(listing, runs)["run.db"]
    assert before["status"] == "running"
    began = []
    original = RunCount.read_on

    def read_on(count: RunCount, log: EventLog, records_max: int) -> bool:
        began.append(count.records)
        return original(count, log, records_max)

    monkeypatch.setattr(RunCount, "read_on", read_on)
    assert log._epoch is not None
    append(log, log._epoch, records[8:])
    after = rows_of(listing, runs)["run.db"]
    assert before["admitted"] < after["admitted"] == 12
    assert after["agents"] == 2  # one was removed at the end
    assert began == [8]
    log.close()
    assert rows_of(listing, runs)["run.db"]["status"] == "closed"


def test_another_log_of_the_same_file_is_counted_anew(tmp_path):
    path = tmp_path / "run.db"
    write_log(path, world_records(ticks=2))
    runs = RunFolder(tmp_path)
    listing = RunList(runs)
    rows_of(listing, runs)
    other = tmp_path / "other"
    write_log(other, world_records(ticks=6, y=20.0))
    with path.open("r+b") as file:  # the same inode
        file.write(other.read_bytes())
    other.unlink()
    assert rows_of(listing, runs)["run.db"]["admitted"] == 12


def test_an_unchanged_log_is_read_once(tmp_path, town):
    shutil.copy(town, tmp_path / "town.db")
    opened: list[str] = []

    def opens(path: str) -> EventLog:
        opened.append(path)
        return log_to_read(path)

    runs = RunFolder(tmp_path, opens)
    listing = RunList(runs)
    rows_of(listing, runs)
    once = len(opened)
    for _ in range(3):
        rows_of(listing, runs)
    assert len(opened) == once


def test_heads_beyond_those_of_a_request_are_read_after_it(tmp_path, town, monkeypatch):
    monkeypatch.setattr(folders, "_HEADS_AT_ONCE", 2)
    monkeypatch.setattr(RunFolder, "_start", lambda self: None)
    for number in range(5):
        shutil.copy(town, tmp_path / f"{number}.db")
    runs = RunFolder(tmp_path)
    listing = RunList(runs)
    read = [sum(row["seed"] is not None for row in listing.rows()["runs"]) for _ in range(3)]
    assert read == [2, 4, 5]


def test_a_killed_and_a_stopped_run(tmp_path, town):
    records = [data for _, data in log_to_read(str(town)).read()]
    write_log(tmp_path / "stopped.db", records[:-4])
    log = write_log(tmp_path / "killed.db", records[:-4], is_closed=False)
    image = tmp_path / "image"
    image.mkdir()
    for path in tmp_path.glob("*.db*"):
        shutil.copy(path, image)  # as a kill leaves it: a -wal file, and a heartbeat of nobody
    log.close()
    rows = listed(image)
    assert {name: row["status"] for name, row in rows.items()} == {
        "killed.db": "killed",
        "stopped.db": "stopped",
    }
    assert rows["killed.db"]["ticks"] < 3


def statuses(folder):
    return {name: row["status"] for name, row in listed(folder).items()}


def test_a_run_ended_by_its_condition_has_a_status_of_its_own(tmp_path):
    def sqlite(name: str) -> str:
        return f"sqlite:///{tmp_path}/{name}.db"

    run_scenario(walkers(), store=sqlite("ended"))
    run_scenario(walkers(None), store=sqlite("whole"))
    begun: list[int] = []
    run_scenario(
        walkers(), store=sqlite("stopped"), on_tick=begun.append, is_stopped=lambda: len(begun) == 2
    )
    with Simulation(walkers(), store=sqlite("simulation")) as simulation:
        simulation.run()
    assert statuses(tmp_path) == {
        "ended.db": "ended",
        "simulation.db": "ended",
        "stopped.db": "stopped",
        "whole.db": "finished",
    }
    row = listed(tmp_path, "status:ended")["ended.db"]
    assert (row["ended_by"], row["ticks"]) == (walkers().until, 4)
    for name, expected in (
        ("ended", f"by the condition {walkers().until}, after tick 4 of 20"),
        ("stopped", "before its last tick, after tick 2 of 20"),
        ("whole", None),
    ):
        page = run_page(log_to_read(sqlite(name)))
        assert dict(page.facts).get("end") == expected


def test_the_note_of_an_end_is_ignored_beside_a_longer_or_another_log(tmp_path):
    ended, other = tmp_path / "ended.db", tmp_path / "other.db"
    run_scenario(walkers(), store=f"sqlite:///{ended}")
    begun: list[int] = []
    run_scenario(
        replace(walkers(None), seed=2),
        store=f"sqlite:///{other}",
        on_tick=begun.append,
        is_stopped=lambda: len(begun) == 4,
    )
    shutil.copy(tmp_path / "ended.db.ended", tmp_path / "other.db.ended")
    assert statuses(tmp_path) == {"ended.db": "ended", "other.db": "stopped"}
    log = log_to_read(str(ended))
    assert [end_by_condition(log, ticks) is None for ticks in (4, 5, None)] == [False, True, True]


class Failing:
    """A policy that raises at its second tick."""

    def __init__(self, member, scenario, intent):
        self._ticks = 0

    def propose(self, view):
        self._ticks += 1
        if self._ticks > 1:
            raise RuntimeError("at the second tick")
        return []


def test_a_failed_run_of_a_study_has_the_error_of_its_row(tmp_path):
    town = Scenario.load("town", overrides=["ticks=3"]).with_agents(3)
    failing = town.with_values({"agents.folk.policy": f"{__name__}:Failing"})
    run_scenarios(failing, executor=InlineExecutor(), to=tmp_path, logs="all")
    (row,) = listed(tmp_path / "logs").values()
    assert row["status"] == "failed"
    assert "at the second tick" in row["error"]


def test_a_run_that_an_exception_ended_is_failed_with_its_message(tmp_path):
    town = Scenario.load("town", overrides=["ticks=3"]).with_agents(3)
    failing = town.with_values({"agents.folk.policy": f"{__name__}:Failing"})
    store = tmp_path / "town.db"
    with pytest.raises(PolicyError), noting_failure(str(store)) as begin:
        run_scenario(failing, store=str(store), on_open=lambda _: begin())
    (row,) = listed(tmp_path).values()
    assert row["status"] == "failed"
    assert "at the second tick" in row["error"]
    noted = tmp_path / "town.db.failure"
    assert noted.stat().st_mode & 0o077 == 0


def test_an_exception_after_the_last_tick_leaves_a_finished_run(tmp_path):
    store = run_town(tmp_path / "town.db")
    note_failure(str(store), OSError("no space for the rows"))
    (row,) = listed(tmp_path).values()
    assert (row["status"], row["error"]) == ("finished", "")


def test_settings_that_differ_are_those_with_several_values():
    runs: list[dict[str, Any]] = [
        {"settings.beta": 0.3, "ticks": 1, "only": 1, "same": [1]},
        {"settings.beta": 0.4, "ticks": 1.0, "same": [1]},
        {"settings.gamma": True},
    ]
    assert differing_keys(runs) == ["settings.beta"]


def test_columns_are_of_the_runs_that_the_query_admits(tmp_path, town):
    shutil.copy(town, tmp_path / "a.db")
    run_town(tmp_path / "b.db", max_step=2.0)
    write_log(tmp_path / "c.db", world_records())
    runs = RunFolder(tmp_path)
    listing = RunList(runs)
    rows = rows_of(listing, runs)
    assert rows["a.db"]["settings"]["settings.max_step"] == 4.0
    assert rows["b.db"]["settings"]["settings.max_step"] == 2.0
    assert listing.rows("scenario:town")["columns"] == ["settings.max_step"]
    assert listing.rows("max_step=2")["columns"] == []
    assert list(rows_of(listing, runs, "max_step=2")) == ["b.db"]


def test_a_folder_that_is_gone_is_an_error_of_the_store(tmp_path):
    inside = tmp_path / "runs"
    inside.mkdir()
    runs = RunFolder(inside)
    inside.rmdir()
    with pytest.raises(StoreError, match="cannot list"):
        runs.files()


def test_a_fork_with_other_settings_is_listed_with_its_own(tmp_path):
    run_scenario(Scenario.load("sir", overrides=["ticks=3"]), store=f"sqlite:///{tmp_path}/sir.db")
    log = log_to_read(f"{tmp_path}/sir.db")
    key = "populations.people.options.infect"
    fork_run(log, str(tmp_path / "hot.db"), {key: 0.04}, world="hot", at=Position(tick=1))
    rows = listed(tmp_path)
    assert (rows["hot.db"]["world"], rows["sir.db"]["world"]) == ("hot", "sir")
    assert rows["hot.db"]["settings"][key] != rows["sir.db"]["settings"][key]


def test_the_lineage_of_a_fork_names_its_run_tick_and_changes(tmp_path):
    key = "populations.people.options.infect"
    run_scenario(Scenario.load("sir", overrides=["ticks=4"]), store=f"sqlite:///{tmp_path}/sir.db")
    shutil.copy(run_town(tmp_path / "other.db"), tmp_path / "a-town.db")
    log = log_to_read(f"{tmp_path}/sir.db")
    fork_run(log, str(tmp_path / "hot.db"), {key: 0.2}, world="hot", at=Position(tick=1))
    hot = log_to_read(f"{tmp_path}/hot.db")
    fork_run(hot, str(tmp_path / "again.db"), {key: 0.3}, world="again", seed=7)
    options = ForkOptions(put={"sir.people/people:3/state": 1}, dropped=["people:4"])
    fork(hot, str(tmp_path / "edited.db"), options)
    rows = listed(tmp_path)
    assert rows["sir.db"]["lineage"] == rows["a-town.db"]["lineage"] == []
    (first,) = rows["hot.db"]["lineage"]
    assert (first["parent"], first["run"], first["tick"]) == ("sir", "sir.db", 1)
    assert first["changes"] == {key: [0.08, 0.2]}
    before, last = rows["again.db"]["lineage"]
    assert before == first
    assert (last["parent"], last["run"], last["tick"]) == ("hot", "hot.db", 1)
    assert last["changes"] == {key: [0.2, 0.3], "seed": [1, 7]}
    edited = rows["edited.db"]["lineage"][-1]
    assert (edited["changes"], edited["run"]) == ({}, "hot.db")
    assert edited["edits"] == ["sir.people/people:3", "-people:4"]
    assert listed(tmp_path, "parent:hot").keys() == {"again.db", "edited.db"}
    (tmp_path / "sir.db").unlink()
    assert listed(tmp_path)["hot.db"]["lineage"][0]["run"] is None
