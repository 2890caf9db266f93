"""Offline settlement: an operator settles an effect of a world that no process serves."""

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
    log: EventLog, path: Path | None, settlement: Settlement, given: Sequence[str] = ()
) -> bool:
    """Write a settlement through the gate of the log's own world, as its only writer.

    Args:
        log: Opened and closed here; the fence is taken.
        path: The log's file; None for a store that excludes other users by its own lock.
        settlement: The outcome of the effect.
        given: Domains in place of those that the log names, as for `remake`.

    Returns:
        False if the effect is settled already, or unknown; then nothing is written.

    Raises:
        DomainNotFound, DomainNotRemade: The log does not hold what makes its domains again.
        InvalidJsonValue: The output is not plain JSON, or too large; nothing is written.
        StoreError: The log is in use, cannot be written, or does not hold together.
    """
    log.count()  # what is no log at all is said in a reader's words
    if path is not None and is_in_use(path, log.url):
        raise StoreError(
            f"cannot settle an effect of {log.url}: another process has it open; stop that one, or "
            "let its program call resolve_effect",
            store=log.url,
        )
    epoch = log.open()  # before the first look, so that nobody appends after it
    try:
        return _settle(log, epoch, settlement, given)
    finally:
        log.close()


def _settle(log: EventLog, epoch: int, settlement: Settlement, given: Sequence[str]) -> bool:
    past = recover(log).past
    config = config_from(past)
    if past.header is None or config is None:
        return False
    plain_output(settlement.output, config.limits)
    records: list[bytes] = []
    domains = remake(rules_in(past.header), given)
    kernel = Kernel(domains, config, sink=records.append, history=past)
    if not kernel.settle(settlement):
        return False
    seq_before, first_record = kernel.history_end
    log.append(LogGroup(first_record, seq_before, kernel.seq, tuple(records)), epoch)
    return True
