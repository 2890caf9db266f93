"""Every store passes the contract of the event log."""

import os
from typing import TYPE_CHECKING

import pytest

from placet.stores.memory import MemoryEventLog
from placet.stores.postgres.address import address_of
from placet.stores.sqlite.heartbeat import Heartbeat
from placet.stores.sqlite.log import SqliteEventLog
from placet.stores.url import open_event_log
from tests.contracts.event_log_contract import EventLogContract, Store

if TYPE_CHECKING:
    from tests.postgres.server import Server


class TestMemory(EventLogContract):
    durability = "memory"

    def make_store(self, folder):
        log = MemoryEventLog()
        return Store(lambda: log)


class SqliteStore(Store):
    """Handles on one file; a process that has died leaves a heartbeat that names no live one."""

    def lose(self, handle):
        Heartbeat(handle.file).path.write_bytes(b"")
        os.utime(Heartbeat(handle.file).path, (0, 0))


class TestSqliteFull(EventLogContract):
    durability = "full"

    def make_store(self, folder):
        return SqliteStore(lambda: SqliteEventLog(folder / "a.db", synchronous=self.durability))


class TestSqliteNormal(TestSqliteFull):
    durability = "normal"


class TestSqliteOff(TestSqliteFull):
    durability = "off"


class PostgresStore(Store):
    """Handles on one world of a server; a writer that dies loses its session."""

    def __init__(self, server: "Server", **options: str) -> None:
        self._server = server
        self._url = server.url(**options)
        super().__init__(lambda: open_event_log(self._url))

    def lose(self, handle):
        assert self._server.end_sessions("writer", address_of(self._url).world) == 1


class TestPostgresOn(EventLogContract):
    durability = "full"
    synchronous_commit = "on"
    server: "Server"

    @pytest.fixture(autouse=True)
    def served(self, postgres):
        type(self).server = postgres

    def make_store(self, folder):
        return PostgresStore(self.server, synchronous_commit=self.synchronous_commit)


@pytest.mark.slow
class TestPostgresLocal(TestPostgresOn):
    durability = synchronous_commit = "local"


@pytest.mark.slow
class TestPostgresOff(TestPostgresOn):
    durability = synchronous_commit = "off"
