"""The log of an episode in a store, so that it can be played, explained and verified afterwards."""

from placet.kernel import Kernel, RecordList
from placet.schemas.errors import StoreError
from placet.schemas.limits import Limits
from placet.schemas.log.record import LogAppend
from placet.stores.url import open_event_log


class EpisodeLog:
    """Writes the records of one episode, which begins the log.

    Args:
        store: The URL of the store; its log is empty.
        limits: Limits of the log.

    Attributes:
        records: The sink of the episode's kernel; `flush` empties it.

    Raises:
        StoreError: The store cannot be opened, another process writes it, or it has a log.
    """

    def __init__(self, store: str, limits: Limits) -> None:
        self.records = RecordList()
        self._log = open_event_log(store, limits)
        self._seq = self._count = 0
        try:
            self._epoch = self._log.open()
            if self._log.count():
                raise StoreError(
                    f"{self._log.url} has a log of {self._log.count()} records, and each episode "
                    "begins one; return another store from store(episode)",
                    store=self._log.url,
                )
        except BaseException:
            self._log.close()
            raise

    @property
    def durability(self) -> str:
        """How the store keeps a record."""
        return self._log.durability

    def flush(self, kernel: Kernel) -> None:
        """Write the records that the kernel has made since the last flush.

        Raises:
            StoreError: They cannot be written.
        """
        if not self.records:
            return
        append = LogAppend(self._count, self._seq, kernel.seq, tuple(self.records))
        self._log.append(append, self._epoch)
        self._seq, self._count = append.seq, self._count + len(append.records)
        self.records.clear()

    def close(self) -> None:
        """Release the store."""
        self._log.close()
