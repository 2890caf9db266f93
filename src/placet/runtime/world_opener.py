"""Opens a world from its log: as its writer, or to read only."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import anyio

from placet.actors.ports import EventLog
from placet.kernel.commit.commit import RecordList
from placet.kernel.gate.domain_rules import EffectValidator
from placet.kernel.kernel import Kernel
from placet.kernel.log.replay import Replayer
from placet.kernel.plugin.domain import Domain
from placet.runtime.api.effects import register_domain_executors
from placet.runtime.clock import SteppedClock
from placet.runtime.config import OrchestratorConfig
from placet.runtime.log_follower import LogFollower
from placet.runtime.world import WorldRuntime, in_thread_if
from placet.schemas.config import OnRuleError
from placet.schemas.errors import StoreError
from placet.stores.snapshots.recovery import Recovery, recover
from placet.stores.snapshots.standby import Standby, stand_by
from placet.stores.url import is_lasting, open_event_log

_LASTING: Final = frozenset({"full", "local"})
"""Durability levels at which an acknowledged record survives a loss of power."""


@dataclass(frozen=True, slots=True)
class WorldOpener:
    """The means to open one world: at first, and again after its store has failed.

    Attributes:
        domain: A domain, or several.
        config: Configuration of the world.
        validator: The host's effect validator; None for none.
        records_min: Number of records that the log has at least; 0 to begin a new one.
    """

    domain: Domain | Sequence[Domain]
    config: OrchestratorConfig
    validator: EffectValidator | None
    records_min: int = 0

    async def open(self, on_failure: Callable[[StoreError], None]) -> WorldRuntime:
        """Open the world from its log, start its actors, and return the open world.

        Args:
            on_failure: Called with the error if a standby cannot read its store.

        Raises:
            StoreError: The store cannot be opened, another process writes it, or its log is
                damaged or of another world.
        """
        config, domains = self.config, self.domain
        log = open_event_log(config.store, config.kernel_config().limits)
        try:
            if config.read_only:
                read = partial(self._read, log)
                world = self._reading_world(log, *await in_thread_if(log.is_blocking, read))
            else:
                standby = await stand_by(log, on_failure) if config.standby else None
                load = partial(self.load, log, standby)
                loaded = await in_thread_if(log.is_blocking, load)
                world = WorldRuntime(config, log, *loaded[:3], recovery=loaded[3])
        except BaseException:
            log.close()
            raise
        try:
            await world.start()
            if not config.read_only:
                listed = list(domains) if isinstance(domains, Sequence) else [domains]
                await register_domain_executors(world, listed)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await world.stop()
            raise
        return world

    def load(
        self,
        log: EventLog,
        standby: Standby | None = None,
        *,
        on_rule_error: OnRuleError = "refuse",
    ) -> tuple[int, Kernel, list[bytes], Recovery]:
        """Acquire the exclusive right to write a log, and build the kernel of its world; blocking.

        Args:
            log: The log.
            standby: Has replayed the log already; None replays it here.
            on_rule_error: As in `KernelConfig`.

        Returns:
            The epoch, the kernel, the list to which it appends new records, and the recovery.
        """
        self._require_records(log)
        if self.config.anchors is not None:
            from placet.stores.anchors import require_anchored  # noqa: PLC0415  # few need it

            require_anchored(log, Path(self.config.anchors), self.config.world)
        # The fence before the first look, so that no other writer appends after it.
        epoch = log.open(take_over=self.config.take_over)
        recovery = recover(log) if standby is None else standby.fold()
        records = RecordList()
        kernel = Kernel(
            self.domain,
            replace(self.config.kernel_config(), on_rule_error=on_rule_error),
            effect_validator=self.validator,
            sink=records,
            history=recovery.past,
            durability=log.durability,
            origin=self.config.origin,
        )
        return epoch, kernel, records, recovery

    def _reading_world(self, log: EventLog, kernel: Kernel, recovery: Recovery) -> WorldRuntime:
        # Time is that of the records: no clock runs, and no scheduled batch becomes due here.
        config = replace(
            self.config,
            clock="stepped",
            tick_s=None,
            backpressure="reject",
            snapshot_every_seqs=None,
            compact_log=False,
        )
        clock = SteppedClock(kernel.ledger.now_ns)
        follower = LogFollower(log, recovery.past, clock)
        return WorldRuntime(config, log, 0, kernel, [], clock, recovery=recovery, follower=follower)

    def _read(self, log: EventLog) -> tuple[Kernel, Recovery]:
        """Build the kernel of a log that another process may write; it blocks."""
        from placet.history.reader import config_from  # noqa: PLC0415  # few programs need it

        self._require_records(log)
        recovery = recover(log) if is_lasting(log) else Recovery(Replayer())
        config = config_from(recovery.past)
        if config is None:
            raise StoreError(
                f"cannot read {log.url}: there is no world in it; open it for writing, or name the "
                "log of a world",
                store=log.url,
            )
        kernel = Kernel(
            self.domain,
            replace(config, world=self.config.world, seed=self.config.seed),
            effect_validator=self.validator,
            history=recovery.past,
            durability=log.durability,
            read_only=True,
        )
        return kernel, recovery

    def _require_records(self, log: EventLog) -> None:
        """Check that a log is the one that was known before, and not a new or an older one.

        Raises:
            StoreError: It has fewer records, or cannot be read; nothing is made then.
        """
        if not self.records_min:
            return
        count = log.count()
        if count < self.records_min:
            raise StoreError(
                f"cannot open {log.url} again: expected {self.records_min} records at least, which "
                f"were durable, got {count}; bring back the disk, or the log from a copy",
                store=log.url,
            )


def records_to_expect(world: WorldRuntime) -> int:
    """Return the number of records that the log of a stopped world must still have.

    A store whose durability is weaker may have lost its latest groups, but not all of them.
    """
    records = world.committer.durable_records
    return records if world.log.durability in _LASTING else min(records, 1)
