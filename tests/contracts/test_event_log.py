"""Every store passes the contract of the event log."""

from placet.runtime.stores.event_log_memory import MemoryEventLog
from placet.runtime.stores.event_log_sqlite import SqliteEventLog
from tests.contracts.event_log_contract import EventLogContract, Store


class TestMemory(EventLogContract):
    durability = "memory"

    def make_store(self, folder):
        log = MemoryEventLog()
        return Store(lambda: log)


class TestSqliteFull(EventLogContract):
    durability = "full"

    def make_store(self, folder):
        return Store(lambda: SqliteEventLog(folder / "a.db", synchronous=self.durability))


class TestSqliteNormal(TestSqliteFull):
    durability = "normal"


class TestSqliteOff(TestSqliteFull):
    durability = "off"
