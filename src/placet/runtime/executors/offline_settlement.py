"""Settle effects from the command line while no process has the world open.

The command becomes the log's writer for one group: it rebuilds the world from the log, settles the
effects by the world's own rules, and appends the settlements.
"""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Self

from placet.actors.ports import EventLog
from placet.history.reader import config_from
from placet.kernel.control.outbox import plain_output
from placet.kernel.kernel import Kernel
from placet.kernel.plugin.rules_version import rules_in
from placet.plugins.domains import remake
from placet.schemas.codec import thaw
from placet.schemas.effect import EffectKey, Settlement
from placet.schemas.errors import StoreError, ValidationError
from placet.schemas.log.record import LogAppend
from placet.stores.snapshots.recovery import recover
from placet.stores.sqlite.file import is_in_use


def resolve(
    log: EventLog, path: Path | None, settlement: Settlement, domains: Sequence[str] = ()
) -> bool:
    """Settle an effect in a log that no process has open; return whether it was settled.

    Args:
        log: Opened and closed here; takes the fence, which ends another writer's epoch.
        path: The log's file; None for a store that excludes other writers by its own lock.
        settlement: The outcome of the effect.
        domains: Domains to use instead of the domains in the log, as for `remake`.

    Returns:
        True if the settlement was written; False if the effect is unknown or already settled.

    Raises:
        DomainNotFound, DomainNotRemade: The domains cannot be created from the log.
        InvalidJsonValue: The output is not plain JSON, or too large; nothing is written.
        ValidationError: The domain's `on_settle` raised; nothing is written.
        StoreError: The log is in use, cannot be written, or is damaged.
    """
    with _Writer(log, path, domains) as writer:
        if writer.kernel is None:
            return False
        plain_output(settlement.output, writer.kernel.config.limits)
        return writer.settle(settlement)


def settle_again(
    log: EventLog,
    path: Path | None,
    keys: Collection[EffectKey] | None = None,
    domains: Sequence[str] = (),
    *,
    on_kept_version: Callable[[str], None],
) -> dict[EffectKey, str]:
    """Settle dead letters of a log again with their recorded outcomes, in one durable write.

    Args:
        log: A log that no process has open; opened and closed here.
        path: The log's file; None for a store that excludes other writers by its own lock.
        keys: Keys of the dead letters; None is all of them.
        domains: Domains to use instead of the domains in the log, as for `remake`.
        on_kept_version: Called with the names and versions of the domains if an outcome is settled
            and all versions are those in the log: mended rules need another version.

    Returns:
        For each dead letter, oldest first, by key: the error text of `on_settle`; empty if the
        letter is settled.

    Raises:
        DomainNotFound, DomainNotRemade: The domains cannot be created from the log.
        StoreError: The log is in use, cannot be written, or is damaged.
    """
    outcomes: dict[EffectKey, str] = {}
    with _Writer(log, path, domains) as writer:
        for settlement in writer.dead_letters():
            if keys is not None and settlement.key not in keys:
                continue
            try:
                writer.settle(settlement)
            except ValidationError as error:
                outcomes[settlement.key] = str(error)
            else:
                outcomes[settlement.key] = ""
        if writer.kept_version and "" in outcomes.values():
            on_kept_version(writer.kept_version)
    return outcomes


class _Writer:
    """The only writer of a log for some settlements; they are one group, written at the end.

    Attributes:
        kernel: The world; None if the log is empty.
        kept_version: Names and versions of the domains if they are those in the log; else empty.
    """

    def __init__(self, log: EventLog, path: Path | None, domains: Sequence[str]) -> None:
        self._log = log
        self._path = path
        self._domains = domains
        self._records: list[bytes] = []
        self._is_settled = False
        self._epoch = 0
        self.kernel: Kernel | None = None
        self.kept_version = ""

    def __enter__(self) -> Self:
        log = self._log
        log.count()  # raises a reader's error if this is not a log, before anything is locked
        if self._path is not None and is_in_use(self._path, log.url):
            raise StoreError(
                f"cannot settle an effect of {log.url}: another process has it open; stop that "
                "one, or let its program call resolve_effect",
                store=log.url,
            )
        self._epoch = log.open()  # fences earlier writers, so no record follows those read
        try:
            past = recover(log).past
            config = config_from(past)
            if past.header is not None and config is not None:
                rules = rules_in(past.header)
                domains = remake(rules, self._domains)
                if [(domain.name, domain.version) for domain in domains] == rules.domains:
                    self.kept_version = ", ".join(f"{name} {of}" for name, of in rules.domains)
                sink = self._records.append
                self.kernel = Kernel(domains, config, sink=sink, history=past)
        except BaseException:
            log.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and self._is_settled:
                assert self.kernel is not None, "a world settled them"
                seq, record = self.kernel.history_end
                append = LogAppend(record, seq, self.kernel.seq, tuple(self._records))
                self._log.append(append, self._epoch)
        finally:
            self._log.close()

    def settle(self, settlement: Settlement) -> bool:
        """Settle an effect, a dead letter too.

        Raises:
            ValidationError: `on_settle` raised; nothing was changed.
        """
        kernel = self.kernel
        assert kernel is not None, "an empty log has no effects"
        key = settlement.key
        is_settled = kernel.settle(settlement, again=True)
        mark = kernel.ledger.marks.get((key.seq, key.effect_index))
        if is_settled and mark is not None:  # an operator knows the outcome: keep the effect open
            raise ValidationError(f"on_settle raised {mark.why}")
        self._is_settled = self._is_settled or is_settled
        return is_settled

    def dead_letters(self) -> list[Settlement]:
        """Return the recorded outcomes of the dead letters that can be settled again."""
        kernel = self.kernel
        if kernel is None:
            return []
        return [
            Settlement(EffectKey(kernel.config.world, *place), mark.succeeded, thaw(mark.output))
            for place, mark in kernel.ledger.marks.items()
            if mark.what == "dead" and mark.succeeded is not None
        ]
