"""Settle an effect from the command line while no process has the world open.

The command becomes the log's writer for one record: it rebuilds the world from the log, settles the
effect by the world's own rules, and appends the settlement.
"""

from collections.abc import Sequence
from pathlib import Path

from placet.actors.ports import EventLog
from placet.kernel.control.outbox import plain_output
from placet.kernel.kernel import Kernel
from placet.kernel.rules_version import rules_in
from placet.runtime.history.reader import config_from
from placet.runtime.plugins import remake
from placet.runtime.snapshots.recovery import recover
from placet.runtime.stores.sqlite.file import is_in_use
from placet.schemas.effect import Settlement
from placet.schemas.errors import StoreError
from placet.schemas.log.record import LogGroup


def resolve(
    log: EventLog, path: Path | None, settlement: Settlement, domains: Sequence[str] = ()
) -> bool:
    """Append a settlement to a log that no other process has open.

    Args:
        log: Opened and closed here; takes the fence, which ends another writer's epoch.
        path: The log's file; None for a store that excludes other writers by its own lock.
        settlement: The outcome of the effect.
        domains: Domains in place of those that the log names, as for `remake`.

    Returns:
        True if the settlement was written; False if the effect is unknown or already settled.

    Raises:
        DomainNotFound, DomainNotRemade: The log does not hold what is needed to make its domains.
        InvalidJsonValue: The output is not plain JSON, or too large; nothing is written.
        StoreError: The log is in use, cannot be written, or is damaged.
    """
    log.count()  # raises a reader's error if this is not a log, before anything is locked
    if path is not None and is_in_use(path, log.url):
        raise StoreError(
            f"cannot settle an effect of {log.url}: another process has it open; stop that one, or "
            "let its program call resolve_effect",
            store=log.url,
        )
    epoch = log.open()  # before reading, so that no other writer appends behind the records read
    try:
        return _settle(log, epoch, settlement, domains)
    finally:
        log.close()


def _settle(log: EventLog, epoch: int, settlement: Settlement, overrides: Sequence[str]) -> bool:
    past = recover(log).past
    config = config_from(past)
    if past.header is None or config is None:
        return False
    plain_output(settlement.output, config.limits)
    records: list[bytes] = []
    domains = remake(rules_in(past.header), overrides)
    kernel = Kernel(domains, config, sink=records.append, history=past)
    if not kernel.settle(settlement):
        return False
    seq_before, first_record = kernel.history_end
    log.append(LogGroup(first_record, seq_before, kernel.seq, tuple(records)), epoch)
    return True
