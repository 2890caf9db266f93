"""Stores of event logs: the port, names for authors of a store, and placet's own stores.

A store is a class with the methods of `EventLog`; `BaseEventLog` implements the rules of a writer.
A distribution names its opener, a function of the URL and the limits, in the entry points
`placet.stores` under the scheme of its URLs. Its logs may have more attributes than the port:

    file         absolute path of the log's file or folder; snapshots are kept beside it
    snapshots    a `SnapshotStore`, for a log without a file
    lasting_url  URL by which another process opens the log, if `url` has a relative path
    environment  variables that this process needs besides the URL, such as a password
    fence        a `Fence` that a standby may wait for
    subscribe    method that returns a `ChangeFeed` of appends
"""

from placet.actors.ports import EventLog
from placet.schemas.errors import StoreError
from placet.schemas.limits import Limits
from placet.schemas.log.record import LogAppend, LogStart
from placet.stores.append_rules import (
    FencedError,
    InUseError,
    NoWorldError,
    OvertakenError,
    in_use,
    overtaken,
    require_epoch,
    require_follows,
    require_writer,
)
from placet.stores.base_log import BaseEventLog
from placet.stores.files import write_whole
from placet.stores.rows import Tail

__all__ = [
    "BaseEventLog",
    "EventLog",
    "FencedError",
    "InUseError",
    "Limits",
    "LogAppend",
    "LogStart",
    "NoWorldError",
    "OvertakenError",
    "StoreError",
    "Tail",
    "in_use",
    "overtaken",
    "require_epoch",
    "require_follows",
    "require_writer",
    "write_whole",
]
