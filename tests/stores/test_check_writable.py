"""A check that a log can be written is a real write: it finds what an append would find."""

import pytest

from placet.schemas.errors import StoreError
from placet.schemas.log.record import LogAppend
from placet.stores.sqlite.log import SqliteEventLog


@pytest.fixture
def log(tmp_path):
    log = SqliteEventLog(tmp_path / "a.db")
    log.append(LogAppend(0, 0, 1, [b"a"]), log.open())
    yield log
    log.close()


def test_a_check_writes_a_page_each_time(log, tmp_path):
    sizes = []
    for _ in range(3):
        log.check_writable(1)
        sizes.append((tmp_path / "a.db-wal").stat().st_size)
    assert sizes == sorted(set(sizes)), "a check that writes nothing proves nothing"


def test_a_check_that_fails_lets_no_append_follow(log):
    assert log._connection is not None
    log._connection.execute("PRAGMA query_only = 1")
    with pytest.raises(StoreError, match="cannot write"):
        log.check_writable(1)
    log._connection.execute("PRAGMA query_only = 0")
    with pytest.raises(StoreError, match="an earlier append failed"):
        log.append(LogAppend(1, 1, 2, [b"b"]), 1)
    assert [data for _, data in log.read()] == [b"a"]
