"""A folder of logs as the tests of the list of runs make it: good, damaged, foreign, empty."""

import sqlite3
from pathlib import Path
from typing import Any

from placet.history.pack import pack
from placet.scenarios import Scenario
from placet.scenarios.engine import run_scenario
from placet.schemas.log.record import LogAppend, decode_record
from placet.server.runs.folder import RunFolder
from placet.server.runs.listing import RunList
from placet.stores.reading import log_to_read
from placet.stores.sqlite.log import SqliteEventLog

GROUP = 8
"""Records of an append."""


def run_town(store: Path, *, ticks: int = 3, seed: int = 1, max_step: float = 4.0) -> Path:
    """Run a small town, whose log is the file."""
    town = Scenario.load("town", overrides=[f"ticks={ticks}", f"seed={seed}"]).with_agents(5)
    run_scenario(town.with_values(max_step=max_step), store=f"sqlite:///{store}")
    return store


def write_log(path: Path, records: list[bytes], *, is_closed: bool = True) -> SqliteEventLog:
    """Write a log with these records, and return its writer, which is closed by default."""
    log = SqliteEventLog(path)
    epoch = log.open()
    for first in range(0, len(records), GROUP):
        append(log, epoch, records[first : first + GROUP])
    if is_closed:
        log.close()
    return log


def append(log: SqliteEventLog, epoch: int, records: list[bytes]) -> None:
    """Append records to an open log."""
    first = log.count()
    seq = decode_record(next(log.read(first - 1))[1]).seq if first else 0
    log.append(LogAppend(first, seq, decode_record(records[-1]).seq, tuple(records)), epoch)


def damage(path: Path) -> None:
    """Overwrite the middle of a file."""
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 400] = bytes(400)
    path.write_bytes(data)


def pack_beside(log: Path, path: Path) -> None:
    """Pack a log into a file."""
    pack(log_to_read(str(log)), path)


def foreign_database(path: Path) -> None:
    """Make a SQLite database of another program."""
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE notes (text)")
    connection.close()


def listed(folder: Path, query: str = "") -> dict[str, Any]:
    """Return the rows of a folder by name, all logs read."""
    runs = RunFolder(folder)
    return rows_of(RunList(runs), runs, query)


def rows_of(listing: RunList, runs: RunFolder, query: str = "") -> dict[str, Any]:
    """Return the rows of a list by name, after its logs are read."""
    listing.rows()
    runs.wait()
    answer = listing.rows(query)
    assert answer["unread"] == 0
    return {row["run"]: row for row in answer["runs"]}
