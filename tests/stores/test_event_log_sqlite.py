"""The log in a file: faults of the file, the disk and permissions, and their errors."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from placet.schemas.errors import StoreError
from placet.schemas.log.record import LogAppend
from placet.stores import rows as log_rows
from placet.stores.pack import pack_at
from placet.stores.snapshots.files import files_beside
from placet.stores.sqlite import layout
from placet.stores.sqlite.errors import primary_code, sqlite_faults
from placet.stores.sqlite.file import is_in_use
from placet.stores.sqlite.log import SqliteEventLog
from placet.stores.url import file_of
from tests.levels import soak_between

NOBODY = 65534


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.db"


@pytest.fixture
def log(path):
    """An open log with two groups of two records."""
    log = SqliteEventLog(path)
    epoch = log.open()
    log.append(LogAppend(0, 0, 1, [b"a" * 40, b"b" * 40]), epoch)
    log.append(LogAppend(2, 1, 2, [b"c" * 40, b"d" * 40]), epoch)
    yield log
    log.close()


@pytest.fixture
def folder_of_root():
    """A folder that everyone may read and only its owner may write."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o755)


class Unprivileged:
    """Makes the block run as a user who is not the owner of the files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        if os.geteuid() == 0:
            os.seteuid(NOBODY)
        else:
            self._folder.chmod(0o555)

    def __exit__(self, *_: object) -> None:
        if os.getuid() == 0:
            os.seteuid(0)


def files_of(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


def execute(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


def error_of(action, *arguments) -> str:
    with pytest.raises(StoreError) as caught:
        action(*arguments)
    assert caught.value.store.startswith("sqlite:///")
    return str(caught.value)


def read_all(path: Path) -> list[tuple[int, bytes]]:
    return list(SqliteEventLog(path).read())


# ---------------------------------------------------------------- the place


def test_reading_creates_no_file(path):
    log = SqliteEventLog(path)
    for action in (lambda: list(log.read()), log.count, log.size_bytes, lambda: log.find_seq(0)):
        message = error_of(action)
        assert "there is no file" in message
        assert str(path) in message
    assert files_of(path.parent) == set()


def test_a_missing_directory_is_named(tmp_path):
    message = error_of(SqliteEventLog(tmp_path / "gone" / "a.db").open)
    assert f"no directory {tmp_path / 'gone'}; make it first" in message


def test_a_directory_is_not_a_log(tmp_path):
    assert "is a directory" in error_of(SqliteEventLog(tmp_path).open)
    assert "is no regular file" in error_of(SqliteEventLog(tmp_path).count)


def test_a_file_that_is_not_sqlite_is_refused_unchanged(path):
    path.write_bytes(b"dear diary " * 1000)
    assert "not a SQLite database" in error_of(SqliteEventLog(path).open)
    assert "not a SQLite database" in error_of(read_all, path)
    assert path.read_bytes() == b"dear diary " * 1000


@pytest.mark.parametrize("statement", ["CREATE TABLE meta (x)", "PRAGMA application_id = 7"])
def test_a_database_of_another_program_is_refused_unchanged(path, statement):
    execute(path, statement)
    before = path.read_bytes()
    assert "expected a placet log" in error_of(SqliteEventLog(path).open)
    assert "expected a placet log" in error_of(read_all, path)
    assert path.read_bytes() == before


def test_an_empty_file_is_not_a_log_until_it_is_opened_for_writing(path):
    path.touch()
    assert "an empty file" in error_of(read_all, path)
    log = SqliteEventLog(path)
    assert log.open() == 1
    log.close()
    assert read_all(path) == []


def test_a_newer_layout_is_refused_by_reader_and_writer(log, path):
    log.close()
    execute(path, "UPDATE meta SET layout_version = 3")
    for action in (SqliteEventLog(path).open, SqliteEventLog(path).count):
        message = error_of(action)
        assert "expected layout version 2, got 3" in message
        assert "another release" in message


def test_a_log_without_its_meta_row_is_refused(log, path):
    log.close()
    execute(path, "DELETE FROM meta")
    assert "got None" in error_of(SqliteEventLog(path).open)


def test_an_unknown_level_is_refused(path):
    message = error_of(lambda: SqliteEventLog(path, synchronous="extra"))
    assert "one of full, normal, off, got 'extra'" in message


def test_a_file_system_without_wal_is_refused(path, monkeypatch):
    # A database in memory is the one that every machine has and that has no WAL.
    monkeypatch.setattr(
        SqliteEventLog, "_connect", lambda *_: sqlite3.connect(":memory:", isolation_level=None)
    )
    message = error_of(SqliteEventLog(path).open)
    assert "expected a file system that supports SQLite's WAL, got journal mode 'memory'" in message


def test_the_url_of_a_file_opens_that_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert SqliteEventLog("a b.db").url == "sqlite:///a%20b.db"
    assert (
        SqliteEventLog("/x/a?.db", synchronous="OFF").url == "sqlite:////x/a%3F.db?synchronous=off"
    )


def test_a_path_with_odd_characters_is_one_file(tmp_path):
    path = tmp_path / "50% of #1? ü.db"
    log = SqliteEventLog(path)
    log.append(LogAppend(0, 0, 1, [b"a"]), log.open())
    log.close()
    assert files_of(tmp_path) == {path.name}
    assert read_all(path) == [(0, b"a")]


# ---------------------------------------------------------------- permissions, locks, full disks


def test_a_read_only_folder_can_be_read_but_not_written(folder_of_root):
    path = folder_of_root / "a.db"
    log = SqliteEventLog(path)
    log.append(LogAppend(0, 0, 1, [b"a"]), log.open())
    log.close()
    path.chmod(0o444)
    with Unprivileged(folder_of_root):
        assert read_all(path) == [(0, b"a")]
        assert "read-only" in error_of(SqliteEventLog(path).open)
        assert "permission was denied" in error_of(SqliteEventLog(folder_of_root / "b.db").open)
    assert files_of(folder_of_root) == {"a.db"}


@pytest.mark.parametrize("suffixes", [("", "-wal", "-shm"), ("", "-wal")])
def test_the_files_of_a_killed_writer_are_readable_in_a_read_only_folder(
    log, folder_of_root, suffixes
):
    for suffix in suffixes:
        copy = shutil.copy(f"{file_of(log)}{suffix}", folder_of_root)
        Path(copy).chmod(0o644)  # as it was, its owner alone may read it
    with Unprivileged(folder_of_root):
        assert [len(data) for _, data in read_all(folder_of_root / "a.db")] == [40] * 4
    assert files_of(folder_of_root) == {f"a.db{suffix}" for suffix in suffixes}


def test_an_unfinished_transaction_of_a_killed_process_is_rolled_back_by_a_reader(
    log, path, tmp_path
):
    """The process had left WAL mode, as when the log is opened, closed or shrunk."""
    log.close()
    left = tmp_path / "left.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as killed:
        killed.execute("PRAGMA cache_size = 1")  # so that it writes before it commits
        killed.execute("BEGIN IMMEDIATE")
        killed.execute("UPDATE groups SET blob = zeroblob(100000)")
        for suffix in ("", "-journal"):
            shutil.copy(f"{path}{suffix}", f"{left}{suffix}")
    assert left.stat().st_size > path.stat().st_size
    assert [len(data) for _, data in read_all(left)] == [40] * 4
    assert files_of(tmp_path) == {"a.db", "left.db"}
    with closing(SqliteEventLog(left)) as healed:
        assert healed.open() == 2


@pytest.mark.timeout(20)
def test_a_pipe_is_refused_without_blocking(path):
    os.mkfifo(path)
    assert "is no regular file; give the path of a log" in error_of(SqliteEventLog(path).open)
    assert "is no regular file; give the path of a log" in error_of(SqliteEventLog(path).count)
    assert pack_at(str(path)) is None


def test_a_log_behind_a_link_uses_the_wal_and_snapshots_of_its_file(log, path, tmp_path):
    link = tmp_path / "elsewhere" / "link.db"
    link.parent.mkdir()
    link.symlink_to(path)
    assert files_beside(link).folder == files_beside(path).folder
    wal = path.with_name("a.db-wal")
    damaged = bytearray(wal.read_bytes())
    damaged[100] ^= 1
    wal.write_bytes(damaged)
    assert "of its -wal file" in error_of(SqliteEventLog(link).count)


def test_is_in_use_changes_no_file(log, path, tmp_path):
    assert is_in_use(path, log.url)
    left = tmp_path / "left.db"
    for suffix in ("", "-wal", "-shm"):
        shutil.copy(f"{path}{suffix}", f"{left}{suffix}")
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    assert not is_in_use(left, log.url)
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before
    log.close()
    assert not is_in_use(path, log.url)


def test_is_in_use_of_a_missing_file_is_a_store_error(path):
    assert "cannot ask who uses" in error_of(is_in_use, path, f"sqlite:///{path}")


def test_a_folder_without_permission_is_a_store_error(folder_of_root):
    inner = folder_of_root / "inner"
    inner.mkdir()
    path = inner / "a.db"
    inner.chmod(0o000)
    with Unprivileged(folder_of_root):
        assert "permission was denied" in error_of(SqliteEventLog(path).open)
        assert "permission was denied" in error_of(SqliteEventLog(path).count)
    inner.chmod(0o755)


def test_a_full_disk_refuses_the_group_and_all_later_ones(log, path):
    assert log._connection is not None
    log._connection.execute("PRAGMA max_page_count = 10")
    message = error_of(log.append, LogAppend(4, 2, 3, [bytes(100_000)]), 1)
    assert message.startswith(f"cannot append record 4 to {log.url}: the disk is full")
    assert "free some space" in message
    assert "earlier append failed" in error_of(log.append, LogAppend(4, 2, 3, [b"small"]), 1)
    log.close()
    assert len(read_all(path)) == 4
    epoch = log.open()
    log.append(LogAppend(4, 2, 3, [b"after"]), epoch)
    assert list(log.read(4)) == [(4, b"after")]


def test_a_permanent_lock_is_reported(log, path, monkeypatch):
    log.close()
    monkeypatch.setattr("placet.stores.sqlite.log.LOCK_SECONDS_MAX", 0)
    epoch = log.open()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        message = error_of(log.append, LogAppend(4, 2, 3, [b"e"]), epoch)
        assert "another process holds it locked" in message
        assert "locked" in error_of(SqliteEventLog(path).open)
    assert len(read_all(path)) == 4


def test_an_interrupted_append_counts_as_failed(log, monkeypatch):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(layout.SqliteTables, "insert_append", interrupt)
        with pytest.raises(KeyboardInterrupt):
            log.append(LogAppend(4, 2, 3, [b"e"]), 1)
    assert "was interrupted" in error_of(log.append, LogAppend(4, 2, 3, [b"e"]), 1)
    assert log.count() == 4


def test_a_failed_append_is_reported_when_closing_fails_too(log, monkeypatch):
    def fail(_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr("placet.stores.sqlite.log.leave_wal", fail)
    assert "cannot close" in error_of(log.close)
    log.close()


def test_a_disk_failure_while_closing_is_reported(log):
    class Broken:
        def execute(self, statement):
            if "journal_mode" in statement:
                error = sqlite3.OperationalError("disk I/O error")
                error.sqlite_errorcode = sqlite3.SQLITE_IOERR
                raise error

        def close(self):
            real.close()

    real = log._connection
    log._connection = Broken()
    assert "the disk failed" in error_of(log.close)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PermissionError("no"), sqlite3.SQLITE_PERM),
        (OSError("name too long"), 0),
        (sqlite3.ProgrammingError("closed"), 0),
    ],
)
def test_errors_outside_sqlite_have_a_message(error, code):
    assert primary_code(error) == code
    with pytest.raises(StoreError, match=r"cannot read x: .*\(.*\); "), sqlite_faults("read", "x"):
        raise error


# ---------------------------------------------------------------- one file, many handles


def test_a_closed_log_is_one_file_and_stays_one_when_read(log, path):
    log.close()
    assert files_of(path.parent) == {"a.db"}
    before = path.read_bytes()
    assert len(read_all(path)) == 4
    assert SqliteEventLog(path).count() == 4
    assert files_of(path.parent) == {"a.db"}
    assert path.read_bytes() == before


def test_a_reader_takes_no_fence(log, path):
    reader = SqliteEventLog(path)
    assert (reader.count(), reader.size_bytes(), reader.find_seq(2)) == (4, 160, 2)
    assert len(list(reader.read())) == 4
    log.append(LogAppend(4, 2, 3, [b"e"]), 1)
    assert reader.count() == 5


def test_a_log_closed_during_a_read_stays_intact(log, path):
    reading = SqliteEventLog(path).read()
    next(reading)
    log.close()
    assert len(list(reading)) == 3
    assert len(read_all(path)) == 4
    assert log.open() == 2


def test_a_reader_holds_no_lock_between_records(log, path, monkeypatch):
    monkeypatch.setattr(layout, "PAGE_BYTES", 1)  # so that there is more to read
    reading = SqliteEventLog(path).read()
    next(reading)
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
        busy, _, _ = other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert busy == 0
    assert len(list(reading)) == 3


def test_reading_does_not_load_the_whole_log(log, monkeypatch):
    pages: list[int] = []

    def counted(*arguments):
        rows = read_page(*arguments)
        pages.append(len(rows))
        return rows

    read_page = log._page
    monkeypatch.setattr(layout, "PAGE_BYTES", 1)
    monkeypatch.setattr(log, "_page", counted)
    assert len(list(log.read())) == 4
    assert pages == [1, 1, 0]


def test_a_group_appended_between_a_page_and_the_end_check_is_read(log, monkeypatch):
    def append_first(*arguments):
        monkeypatch.undo()
        log.append(LogAppend(4, 2, 3, [b"e"]), 1)
        return require_end(*arguments)

    require_end = layout.SqliteTables._require_end
    monkeypatch.setattr(layout.SqliteTables, "_require_end", append_first)
    assert [ordinal for ordinal, _ in log.read()] == [0, 1, 2, 3, 4]


def test_opening_a_log_fences_a_writer_in_another_process(log, path):
    script = (
        "import sys; from placet.stores.sqlite.log import SqliteEventLog as S;"
        "from placet.schemas.log.record import LogAppend;"
        "log = S(sys.argv[1]); epoch = log.open(take_over=True); print(epoch, flush=True);"
        "sys.stdin.readline();"
        "log.append(LogAppend(4, 2, 3, [b'zombie']), epoch)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "2\n"
        assert "fenced" in error_of(log.append, LogAppend(4, 2, 3, [b"late"]), 1)
        log.append(LogAppend(4, 2, 3, [b"mine"]), log.open(take_over=True))
        _, errors = child.communicate("go\n")
    assert "this writer is fenced, it holds epoch 2 and the latest is 3" in errors
    assert list(log.read(4)) == [(4, b"mine")]


def test_acknowledged_groups_survive_a_killed_process(path):
    script = (
        "import os, sys; from placet.stores.sqlite.log import SqliteEventLog as S;"
        "from placet.schemas.log.record import LogAppend;"
        "log = S(sys.argv[1]); epoch = log.open();"
        "log.append(LogAppend(0, 0, 1, [b'a']), epoch);"
        "log._connection.execute('BEGIN IMMEDIATE');"
        "log._connection.execute(\"INSERT INTO groups VALUES (1, 1, 1, 2, 2, 0, x'00')\");"
        "os.kill(os.getpid(), 9)"
    )
    outcome = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert outcome.returncode == -9
    left = {name: (path.parent / name).read_bytes() for name in ("a.db", "a.db-wal")}
    assert read_all(path) == [(0, b"a")]
    # Who looks into what a crash left does not tidy it up.
    assert {name: (path.parent / name).read_bytes() for name in left} == left
    log = SqliteEventLog(path)
    log.append(LogAppend(1, 1, 2, [b"b"]), log.open())
    log.close()
    assert read_all(path) == [(0, b"a"), (1, b"b")]
    assert files_of(path.parent) == {"a.db"}


# ---------------------------------------------------------------- damage


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("UPDATE groups SET blob = x'93' WHERE first_record = 2", "record 2 fails its checksum"),
        ("UPDATE groups SET blob = 'text' WHERE first_record = 2", "record 2 fails its checksum"),
        ("UPDATE groups SET seq = 99 WHERE first_record = 2", "record 2 fails its checksum"),
        ("UPDATE groups SET seq = 'x' WHERE first_record = 2", "record 2 fails its checksum"),
        ("UPDATE groups SET crc32 = crc32 + 1 WHERE first_record = 0", "record 0 fails"),
        (
            "DELETE FROM groups WHERE first_record = 0",
            "should begin at record 0, and its first append begins at 2",
        ),
    ],
)
def test_a_damaged_group_is_named_by_its_first_record(log, path, statement, expected):
    log.close()
    execute(path, statement)
    message = error_of(read_all, path)
    assert expected in message
    assert "restore the file" in message


def test_records_before_the_damage_are_readable(log, path):
    log.close()
    execute(path, "UPDATE groups SET crc32 = 0 WHERE first_record = 2")
    reading = SqliteEventLog(path).read()
    assert [next(reading)[0], next(reading)[0]] == [0, 1]
    with pytest.raises(StoreError, match="record 2"):
        next(reading)


def corrupt_index(path: Path, statement: str) -> None:
    """Change the table without updating its index."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        index = "SELECT rootpage FROM sqlite_master WHERE name = 'groups_by_seq'"
        (root,) = connection.execute(index).fetchone()
        connection.execute("DELETE FROM sqlite_master WHERE name = 'groups_by_seq'")
        connection.execute("PRAGMA writable_schema = RESET")
        connection.execute(statement)
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "INSERT INTO sqlite_master VALUES ('index', 'groups_by_seq', 'groups', ?, ?)",
            (root, "CREATE INDEX groups_by_seq ON groups (seq)"),
        )


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (
            "DELETE FROM groups WHERE first_record = 2",
            "record 0 by its table and at 2 by its index",
        ),
        ("DELETE FROM groups", "record None by its table and at 2 by its index"),
    ],
)
def test_a_group_lost_at_the_end_is_detected(log, path, statement, expected):
    log.close()
    corrupt_index(path, statement)
    assert expected in error_of(read_all, path)
    assert expected in error_of(SqliteEventLog(path).find_seq, 3)
    assert "record 2 is not where the index has it" in error_of(SqliteEventLog(path).find_seq, 2)


def test_a_corrupt_index_is_detected(log, path):
    log.close()
    with closing(sqlite3.connect(path)) as connection:
        _, group = layout.SqliteTables("here")._rows(connection, 0)
    head, blob = (2, 2, 2, 9, 160), group[-1]
    crc32 = log_rows._checksum(head, blob)
    # The row is sound by itself, and belongs to other seqs than those the index has it at.
    statement = f"UPDATE groups SET seq_before = 2, seq = 9, crc32 = {crc32} WHERE first_record = 2"
    corrupt_index(path, statement)
    assert "not where the index has it" in error_of(SqliteEventLog(path).find_seq, 2)


def test_a_table_that_hides_a_group_is_detected(log, path, monkeypatch):
    monkeypatch.setattr(layout.SqliteTables, "_rows", lambda *_: [])
    assert "record 0 cannot be found" in error_of(read_all, path)


def test_tables_with_another_schema_are_detected(log, path):
    log.close()
    execute(path, "CREATE TABLE more (x)")
    for action in (SqliteEventLog(path).open, SqliteEventLog(path).count):
        assert "not declared as they were made" in error_of(action)


@pytest.mark.parametrize("mask", soak_between([0x55, 0x01, 0x80, 0x02, 0xFF], 3))
def test_no_flipped_byte_changes_records_undetected(log, path, mask):
    whole = list(log.read())
    log.close()
    sound = path.read_bytes()
    flipped = path.with_name("flipped.db")
    silent, seen = [], 0
    # Pages are mostly unused space: every byte that is not zero, and some of those that are.
    for place in (place for place, byte in enumerate(sound) if byte or place % 61 == 0):
        damaged = bytearray(sound)
        damaged[place] ^= mask
        flipped.write_bytes(damaged)
        try:
            if read_all(flipped) != whole:
                silent.append(place)
        except StoreError:
            seen += 1
    assert silent == []
    assert seen > 200


@pytest.mark.parametrize("kept", [0.3, 0.6, 0.9])
def test_a_truncated_file_is_a_store_error(log, path, kept):
    log.close()
    sound = path.read_bytes()
    path.write_bytes(sound[: int(len(sound) * kept)])
    error_of(read_all, path)


def test_a_log_that_is_made_while_another_process_looks_is_not_another_programs(path, monkeypatch):
    """Who made the file is read by one statement: two could see it before and after."""
    maker = SqliteEventLog(path)

    class Late(sqlite3.Connection):
        """A connection whose first statement about the owner is followed by another's creation."""

        def execute(self, statement: str, *rest: Any) -> sqlite3.Cursor:
            cursor = super().execute(statement, *rest)
            if "application_id" in statement and maker._connection is None:
                row = cursor.fetchone()
                maker.open()
                cursor = super().execute(f"SELECT {', '.join(map(str, row))}")
            return cursor

    sqlite3.connect(path).close()
    connection = sqlite3.connect(path, factory=Late, isolation_level=None)
    assert layout.SqliteTables("here").is_placet_log(connection) is False
    connection.close()
    maker.close()
