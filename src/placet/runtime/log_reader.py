"""Reads a log that somebody else may be writing: folds it, checks it, and says what it is of.

A reader never takes the writer's fence, and never creates or changes a file. What it costs is the
part of the log that it reads; what it holds is the state.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from placet.actors.ports import EventLog
from placet.kernel.replay import Divergence, Replayer
from placet.schemas.codec import Json
from placet.schemas.config import KernelConfig
from placet.schemas.errors import StoreError
from placet.schemas.limits import SECOND_NS, Limits
from placet.schemas.record import Admitted, Configured, Header, Record, decode_record

_FILE_URL: Final = "sqlite:///"


@dataclass(frozen=True, slots=True)
class Verification:
    """Whether a log holds together, and how far.

    Attributes:
        is_ok: Every record follows the one before it, and every digest is the fold's.
        records: How many records hold.
        seq: Sequence number that they reach.
        digest: State digest there, hexadecimal.
        first_divergence: `{record, seq, why}` of the first that does not hold.
    """

    is_ok: bool
    records: int
    seq: int
    digest: str
    first_divergence: dict[str, Json] | None = None

    def as_dict(self) -> dict[str, Json]:
        """Give it as plain JSON; `first_divergence` is there only if there is one."""
        report: dict[str, Json] = {
            "ok": self.is_ok,
            "records": self.records,
            "seq": self.seq,
            "digest": self.digest,
        }
        if self.first_divergence is not None:
            report["first_divergence"] = self.first_divergence
        return report


def verify(log: EventLog) -> Verification:
    """Check the chain of a log and every digest in it, by folding all of it. O(log).

    Raises:
        StoreError: There is no log to check.
    """
    log.count()  # what is no log at all is an error, and not a log that does not hold
    past = Replayer()
    divergence: dict[str, Json] | None = None
    try:
        for _, data in log.read():
            past.apply(data)
    except StoreError as error:
        record = error.record if isinstance(error, Divergence) else past.journal.count
        divergence = {"record": record, "seq": past.ledger.seq, "why": str(error)}
    digest = past.state.digest().hex()
    return Verification(divergence is None, past.journal.count, past.ledger.seq, digest, divergence)


def fold(log: EventLog, to_seq: int | None = None) -> Replayer:
    """Fold a log up to a seq: all records that end there or before. O(that part of the log).

    Args:
        log: Which.
        to_seq: None is all of it. In the middle of a batch, the batch is left out: the world
            never was there.

    Raises:
        StoreError: The log cannot be read, does not hold together, or ends before `to_seq`.
    """
    past = Replayer()
    for _, data in log.read():
        if to_seq is not None and decode(data, past.journal.count).seq > to_seq:
            return past
        past.apply(data)
    if to_seq is not None and past.ledger.seq < to_seq:
        raise StoreError(
            f"cannot replay {log.url} to seq {to_seq}: it ends at seq {past.ledger.seq}; "
            "give a seq up to that one",
            store=log.url,
        )
    return past


def records_between(
    log: EventLog, from_seq: int = 0, to_seq: int | None = None
) -> Iterator[tuple[int, Record]]:
    """Give `(ordinal, record)` of what happened from a seq to a seq, both included.

    A record without a seq of its own, such as a refusal, belongs to the seq that it was made at.

    Raises:
        StoreError: The log cannot be read.
    """
    for ordinal, data in log.read(log.find_seq(from_seq)):
        record = decode(data, ordinal)
        if to_seq is not None and _first_seq(record) > to_seq:
            return
        if record.seq >= from_seq:
            yield ordinal, record


def decode(data: bytes, ordinal: int) -> Record:
    """Read one record, or say which one cannot be read.

    Raises:
        Divergence: It is no record of a known format.
    """
    try:
        return decode_record(data)
    except ValueError as error:
        raise Divergence(ordinal, 0, f"no record of a known format: {error}") from None


def config_of(log: EventLog) -> KernelConfig | None:
    """Read by what configuration a log goes on; None if it is empty. O(log).

    Raises:
        StoreError: The log cannot be read.
    """
    header: Header | None = None
    configured: Configured | None = None
    for ordinal, data in log.read():
        record = decode(data, ordinal)
        if isinstance(record, Header):
            header = record
        elif isinstance(record, Configured):
            configured = record
    if header is None:
        return None
    if configured is None:
        return KernelConfig(world=header.world, seed=header.seed)
    quota, permissions = configured.world_quota, configured.default_permissions
    return KernelConfig(
        world=header.world,
        seed=header.seed,
        staleness_threshold=configured.staleness_threshold,
        quotas={kind: _quota(*pair) for kind, pair in configured.quotas.items()},
        world_quota=None if quota is None else _quota(*quota),
        default_permissions=None if permissions is None else frozenset(permissions),
        limits=Limits(**configured.limits),
    )


def file_of(log: EventLog) -> Path | None:
    """Say in which file a log is; None if it is in none."""
    if not log.url.startswith(_FILE_URL):
        return None
    return Path(unquote(log.url.removeprefix(_FILE_URL).partition("?")[0]))


def _first_seq(record: Record) -> int:
    """Say at which seq a record begins: a batch has one for each intent."""
    return record.seq - len(record.contexts) + 1 if isinstance(record, Admitted) else record.seq


def _quota(interval_ns: int, burst: int) -> dict[str, float]:
    """Give the quota that is read back as just these integers, though the rate is rounded up."""
    rate = SECOND_NS if interval_ns == 1 else SECOND_NS / (interval_ns - 0.5)
    return {"rate": rate, "burst": burst}
