"""Writes a log from the command line while no process has the world open.

The command becomes the log's writer for one group: it rebuilds the world from the log, changes it
by the world's own rules, and appends the records.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from placet.actors.ports import EventLog
from placet.history.reader import config_from
from placet.kernel.kernel import Kernel
from placet.kernel.plugin.domain import Domain
from placet.kernel.plugin.rules_version import rules_in
from placet.plugins.domains import remake
from placet.schemas.codec import Json
from placet.schemas.errors import StoreError
from placet.schemas.log.record import LogAppend
from placet.schemas.verdict import Verdict
from placet.stores.snapshots.recovery import recover
from placet.stores.sqlite.file import is_in_use


class OfflineWriter:
    """The only writer of a log for some changes; they are one group, written at the end.

    Args:
        log: Opened and closed here; takes the fence, which ends another writer's epoch.
        path: The log's file; None for a store that excludes other writers by its own lock.
        domains: Domains to use instead of the domains in the log, as for `remake`.
        act: Verb and object for the error of a log in use, such as `settle an effect`.
        method: Method that does it in a process that has the log open.

    Attributes:
        kernel: The world; None if the log is empty.
        domains: Its domains.
        is_changed: The kernel was changed, so its records are written at the end.
        kept_version: Names and versions of the domains if they are those in the log; else empty.
    """

    def __init__(
        self, log: EventLog, path: Path | None, domains: Sequence[str], *, act: str, method: str
    ) -> None:
        self._log = log
        self._path = path
        self._given = domains
        self._act = act
        self._method = method
        self._records: list[bytes] = []
        self._epoch = 0
        self.kernel: Kernel | None = None
        self.domains = list[Domain]()
        self.is_changed = False
        self.kept_version = ""

    def __enter__(self) -> Self:
        log = self._log
        log.count()  # raises a reader's error if this is not a log, before anything is locked
        if self._path is not None and is_in_use(self._path, log.url):
            raise StoreError(
                f"cannot {self._act} of {log.url}: another process has it open; stop that one, or "
                f"let its program call {self._method}",
                store=log.url,
            )
        self._epoch = log.open()  # fences earlier writers, so no record follows those read
        try:
            past = recover(log).past
            config = config_from(past)
            if past.header is not None and config is not None:
                rules = rules_in(past.header)
                self.domains = remake(rules, self._given)
                if [(one.name, one.version) for one in self.domains] == rules.domains:
                    self.kept_version = ", ".join(f"{name} {of}" for name, of in rules.domains)
                sink = self._records.append
                self.kernel = Kernel(self.domains, config, sink=sink, history=past)
        except BaseException:
            log.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and self.is_changed:
                assert self.kernel is not None, "a world made them"
                seq, record = self.kernel.history_end
                append = LogAppend(record, seq, self.kernel.seq, tuple(self._records))
                self._log.append(append, self._epoch)
        finally:
            self._log.close()

    def propose(self, agent: str, kind: str, payload: Mapping[str, Json]) -> Verdict:
        """Decide an intent of an agent, which is registered if it is not."""
        assert self.kernel is not None, "an empty log has no domains"
        self.is_changed = True
        self.kernel.register_agent(agent)
        return self.kernel.decide([self.kernel.intent(kind, payload, agent=agent)])
