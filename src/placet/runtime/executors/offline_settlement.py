"""Settle effects from the command line while no process has the world open."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from placet.actors.ports import EventLog
from placet.kernel.control.outbox import plain_output
from placet.runtime.offline_writer import OfflineWriter
from placet.schemas.codec import thaw
from placet.schemas.effect import EffectKey, Settlement
from placet.schemas.errors import ValidationError


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


class _Writer(OfflineWriter):
    """The only writer of a log for some settlements."""

    def __init__(self, log: EventLog, path: Path | None, domains: Sequence[str]) -> None:
        super().__init__(log, path, domains, act="settle an effect", method="resolve_effect")

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
        self.is_changed = self.is_changed or is_settled
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
