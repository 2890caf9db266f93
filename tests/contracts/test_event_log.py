"""Every store passes the contract of the event log."""

import os
from functools import partial
from typing import TYPE_CHECKING

import pytest

from placet.stores.memory import MemoryEventLog
from placet.stores.sqlite.heartbeat import Heartbeat
from placet.stores.sqlite.log import SqliteEventLog
from placet.stores.url import open_event_log
from placet.testing.contracts import CompactionContract

if TYPE_CHECKING:
    from tests.postgres.server import Server


class TestMemory(CompactionContract):
    durability = "memory"

    def new_log(self, folder):
        log = MemoryEventLog()
        return lambda: log


class TestSqliteFull(CompactionContract):
    durability = "full"

    def new_log(self, folder):
        return partial(SqliteEventLog, folder / "a.db", synchronous=self.durability)

    def lose(self, handle):
        """Leave a heartbeat that names no live process."""
        Heartbeat(handle.file).path.write_bytes(b"")
        os.utime(Heartbeat(handle.file).path, (0, 0))


class TestSqliteNormal(TestSqliteFull):
    durability = "normal"


class TestSqliteOff(TestSqliteFull):
    durability = "off"


class TestPostgresOn(CompactionContract):
    durability = "full"
    synchronous_commit = "on"
    server: "Server"

    @pytest.fixture(autouse=True)
    def served(self, postgres):
        type(self).server = postgres

    def new_log(self, folder):
        url = self.server.url(synchronous_commit=self.synchronous_commit)
        return partial(open_event_log, url)

    def lose(self, handle):
        """End the session of the writer."""
        assert self.server.end_sessions("writer", handle.address.world) == 1


@pytest.mark.slow
class TestPostgresLocal(TestPostgresOn):
    durability = synchronous_commit = "local"


@pytest.mark.slow
class TestPostgresOff(TestPostgresOn):
    durability = synchronous_commit = "off"
