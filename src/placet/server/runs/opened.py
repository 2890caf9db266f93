"""A folder that a server plays: its runs, their list, and the logs whose time lines are open."""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Final

from placet.actors.ports import EventLog
from placet.plugins.domains import remake
from placet.schemas.portrayal import Portrayals
from placet.server.history.timelines import Source
from placet.server.runs.folder import RunFolder
from placet.server.runs.listing import RunList
from placet.server.runs.work import Works

PLAYED_MAX: Final = 16
"""Logs whose time lines are kept: each has key frames in memory."""


class OpenFolder:
    """The folder of `placet play FOLDER`.

    Args:
        runs: The logs of the folder.
        domains: Domains to use instead of those of a log, as `module:attribute`.
        portrayals: Returns how the map of a log is drawn.

    Attributes:
        runs: The logs of the folder.
        listing: The list of the runs.
        domains: Domains to use instead of those of a log, as `module:attribute`.
        works: The long questions that are being answered.
        on_left: Called with the name of a log whose time line is no longer kept.
    """

    def __init__(
        self,
        runs: RunFolder,
        domains: Sequence[str],
        portrayals: Callable[[EventLog], Portrayals],
    ) -> None:
        self.runs = runs
        self.listing = RunList(runs)
        self.domains = domains
        self.works = Works()
        self.on_left: Callable[[str], None] = lambda _name: None
        self._portrayals = portrayals
        self._lock = Lock()
        self._sources: dict[str, tuple[int, Source]] = {}
        """Name -> the inode of its file, and the open log; the last used is at the end."""

    def source(self, name: str) -> Source | None:
        """Return the log of a run for its time line; None if the folder has none. Blocking.

        Raises:
            StoreError: It cannot be read.
        """
        one = self.runs.find(name)
        if one is None:
            return None
        with self._lock:
            inode, source = self._sources.pop(name, (0, None))
            if source is None or inode != one.stamp.inode:
                source = self._opened(name)
            self._sources[name] = one.stamp.inode, source
            left = list(self._sources)[:-PLAYED_MAX]
            for each in left:
                del self._sources[each]
        for each in left:
            self.on_left(each)
        return source

    def _opened(self, name: str) -> Source:
        path = str(self.runs.folder / name)
        log = self.runs.open_log(path)

        return Source(
            log,
            lambda rules: remake(rules, self.domains),
            path,
            self.domains,
            self._portrayals(log),
        )
