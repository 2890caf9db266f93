"""Worlds to fork: logs in memory, and a lab whose state does not depend on the world's name."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from placet.history.fork import Fork, ForkOptions, fork
from placet.kernel import Kernel, KernelConfig
from placet.kernel.log.replay import folded
from placet.kernel.state.draft import Draft
from placet.schemas.effect import Effect, Settlement
from placet.schemas.log.record import LogAppend, Record, decode_record
from placet.stores.memory import MemoryEventLog
from placet.stores.url import open_event_log
from tests.kernel.domains import Annex, Lab


class Branchable(Lab):
    """A lab that names a letter by its place: the key of an effect has the world's name in it."""

    def on_settle(self, draft: Draft, effect: Effect, settlement: Settlement) -> None:
        name = f"{effect.key.seq}.{effect.key.effect_index}"
        draft.create("lab.letters", name, {"output": settlement.output})


DOMAINS = [Branchable(things=("a", "b"), ceiling=60), Annex()]


def log_of(records: Sequence[bytes], per_group: int = 5) -> MemoryEventLog:
    """Keep records in memory, so many to a group."""
    log = MemoryEventLog()
    epoch, seq = log.open(), 0
    for first in range(0, len(records), per_group):
        group = tuple(records[first : first + per_group])
        after = decode_record(group[-1]).seq
        log.append(LogAppend(first, seq, after, group), epoch)
        seq = after
    return log


def records_in(store: str) -> list[bytes]:
    return [data for _, data in open_event_log(store).read()]


def last_record(records: Sequence[bytes]) -> Record:
    return decode_record(records[-1])


def make_fork(
    records: Sequence[bytes],
    folder: Path,
    at: int | None = None,
    name: str = "f.db",
    **options: Any,
) -> Fork:
    """Fork a log that is in memory, by the domains of these tests."""
    to = f"sqlite:///{folder / name}?synchronous=off"
    return fork(log_of(records), to, ForkOptions(**options), at=at, domains=DOMAINS)


def kernel_in(made: Fork, sink: list[bytes] | None = None, **config: Any) -> Kernel:
    """Open a fork without an event loop."""
    return Kernel(
        DOMAINS,
        KernelConfig(world=made.world, **config),
        sink=None if sink is None else sink.append,
        history=folded(records_in(made.store)),
    )
