"""The log of an episode in a store, so that it can be played, explained and verified afterwards."""

import os
from collections.abc import Callable
from typing import TypeAlias

from placet.kernel import Kernel, RecordList
from placet.schemas.errors import StoreError
from placet.schemas.limits import Limits
from placet.schemas.log.record import LogAppend
from placet.stores.append_rules import InUseError
from placet.stores.url import open_event_log

StoreOf: TypeAlias = Callable[[int], str | os.PathLike[str] | None]
"""Number of episodes before -> URL or path of the store of an episode; None keeps no log."""


def keeps_no_log(_episode: int) -> None:
    """Return no store of an episode."""


class EpisodeLog:
    """Writes the records of one episode, which begins the log.

    Args:
        store: The URL or path of the store; its log is empty.
        episode: The number with which `store` was called.
        limits: Limits of the log.

    Attributes:
        records: The sink of the episode's kernel; `flush` empties it.

    Raises:
        StoreError: The store cannot be opened, another environment or process writes it, or it has
            a log.
    """

    def __init__(self, store: str | os.PathLike[str], episode: int, limits: Limits) -> None:
        self.records = RecordList()
        self._log = open_event_log(store, limits)
        self._seq = self._count = 0
        try:
            self._epoch = self._log.open()
            if self._log.count():
                raise StoreError(
                    f"store({episode}) of the environment returned {self._log.url}, which has a "
                    f"log of {self._log.count()} records, and each episode begins one: return "
                    "another store for each number, or remove the log",
                    store=self._log.url,
                )
        except BaseException as error:
            self._log.close()
            if isinstance(error, InUseError):
                raise _in_use(episode, self._log.url, error) from None
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


def _in_use(episode: int, url: str, error: InUseError) -> InUseError:
    """Return the error of a store that another environment has, in the words of environments."""
    writer = str(error).removeprefix(f"cannot open {url}: ").partition(". ")[0]
    return InUseError(
        f"store({episode}) of the environment returned {url}, which is open elsewhere: {writer}. "
        "Each copy of an environment needs its own stores: put the number of the copy into their "
        "names, as in store=f'sqlite:///copy-{copy}-{{}}.db'.format, or close the other one",
        store=url,
    )
