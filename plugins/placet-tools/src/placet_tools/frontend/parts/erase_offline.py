"""Erases personal data beside a log that no process has open, and records that in the log."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from placet.actors.ports import EventLog
from placet.runtime.offline_writer import OfflineWriter
from placet.schemas.errors import StoreError
from placet_tools.domain import ToolsDomain
from placet_tools.frontend.parts.part_store import PartStore
from placet_tools.parts.erasure import ERASE


def erase_offline(
    log: EventLog, path: Path, subject: str, domains: Sequence[str] = ()
) -> str | None:
    """Erase the personal data of a subject; return its random id, or None if there are none.

    The key is destroyed before the record is written: after a crash between, or an error of the
    log, the data are erased, and the next opening of a gate records it.

    Args:
        log: A log that no process has open; opened and closed here.
        path: The log's file.
        subject: The data subject.
        domains: Domains to use instead of those of the log, as for `remake`: those of tools.

    Raises:
        DomainNotFound, DomainNotRemade: The domains cannot be created from the log.
        StoreError: The log or the part store is in use, cannot be written, or is damaged; or the
            log has no tools.
    """
    with closing(PartStore(path)) as parts:
        with OfflineWriter(
            log, path, domains, act="erase personal data", method="Gate.erase"
        ) as writer:
            tools = [domain for domain in writer.domains if isinstance(domain, ToolsDomain)]
            if not tools:
                raise StoreError(f"{log.url} has no domain of tools", store=log.url)
            erased = parts.erase(subject)
            if erased is None:
                return None
            for one in tools:
                verdict = writer.propose(one.recorder, one.kind_of(ERASE), {"subject": erased})
                assert verdict.admitted, "the recorder may always record an erasure"
        parts.recorded(erased)
    return erased
