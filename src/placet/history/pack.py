"""Packs a log into one file, and checks such a file: chain, digests, decisions and description.

The checksum detects changed bytes. A false record with a new checksum is detected by the chain, a
false chain by re-execution, and a false description by comparison.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from placet.actors.ports import EventLog
from placet.history.position import Position, cut_at
from placet.history.reader import oldest_snapshot
from placet.history.verify_log import Verification, verify_log
from placet.kernel.gate.domain_rules import EffectValidator
from placet.kernel.log import snapshot as snapshots
from placet.kernel.log.replay import Replayer, seqs_of
from placet.kernel.log.verify import Maker
from placet.kernel.plugin.domain import Domain
from placet.plugins.domains import remake
from placet.schemas.codec import Json
from placet.schemas.errors import StoreError
from placet.schemas.log.pack import PACK_VERSION, Pack, encode_pack
from placet.schemas.log.record import LogStart
from placet.schemas.log.snapshot import Snapshot, encode_snapshot
from placet.stores.files import write_whole
from placet.stores.pack import PackEventLog
from placet.stores.reading import Store, as_log
from placet.stores.snapshots.recovery import decode, recover


@dataclass(frozen=True, slots=True)
class Packed:
    """The result of packing a log into a file.

    Attributes:
        path: Path of the file.
        size_bytes: Size of the file.
        about: The description in the pack: world, rules, positions, digests.
    """

    path: Path
    size_bytes: int
    about: dict[str, Json]


@dataclass(frozen=True, slots=True)
class Check:
    """The result of checking a packed log.

    Attributes:
        verification: The verification of the packed log.
        about: The description in the pack: world, rules, positions, digests.
        false: Names of the wrong entries of the description; a valid pack has none.
    """

    verification: Verification
    about: dict[str, Json]
    false: tuple[str, ...]

    @property
    def is_ok(self) -> bool:
        """Whether the log was verified and its description is right."""
        return self.verification.integrity.is_ok and not self.false

    def as_dict(self) -> dict[str, Json]:
        """Return the result as plain JSON."""
        verification = {**self.verification.as_dict(), "ok": self.is_ok}
        return {**verification, "false": list(self.false), "about": self.about}


def pack(log: Store, path: str | Path, *, from_seq: int | None = None) -> Packed:
    """Write a whole log into one file, with a description and a checksum. O(log), in memory.

    Args:
        log: The log to pack, or its path or URL; it is only read, and may be written meanwhile: the
            records present now are packed.
        path: Path of the new file; no file may exist there.
        from_seq: Leave out the records up to this seq, the end of a batch; a snapshot replaces
            them.

    Raises:
        StoreError: The log cannot be read from that seq on; or the file exists, or cannot be
            written.
    """
    log, path = as_log(log), Path(path)
    start, begun_at = _beginning(log, from_seq)
    end = recover(log).past
    records = [data for ordinal, data in log.read(start.record) if ordinal < end.journal.count]
    if start.record + len(records) != end.journal.count:
        raise StoreError(f"{log.url} was compacted while it was read; pack it again", store=log.url)
    packed = Pack(
        version=PACK_VERSION,
        about=about(end, start),
        first_record=start.record,
        after_seq=start.seq,
        snapshots=[] if begun_at is None else [encode_snapshot(begun_at)],
        records=records,
    )
    data = encode_pack(packed)
    _write(path, data)
    return Packed(path, len(data), packed.about)


def check(
    log: PackEventLog,
    domains: Sequence[Domain] | Maker = remake,
    *,
    validator: EffectValidator | None = None,
) -> Check:
    """Verify a packed log and compare its description with it, without access to a store. O(log).

    Args:
        log: The pack.
        domains: Domains for the re-execution; by default they are recreated from the log.
        validator: The host's effect validator, if the log was written with one.

    Raises:
        StoreError: The file is damaged, or is no pack.
    """
    stated = log.pack.about
    verification = verify_log(log, domains, validator=validator)
    if not verification.integrity.is_ok:
        return Check(verification, stated, ())
    actual = about(recover(log).past, log.start())
    false = sorted(name for name in {*stated, *actual} if stated.get(name) != actual.get(name))
    return Check(verification, stated, tuple(false))


def about(past: Replayer, start: LogStart) -> dict[str, Json]:
    """Build the description of a log for a pack: world, rules, positions, digests.

    Args:
        past: The replay of the whole log.
        start: Position of the log's first record.
    """
    header = past.header
    if header is None:
        raise StoreError("the log is empty: there is no world in it")
    return {
        "world": header.world,
        "seed": header.seed,
        "domains": [list(domain) for domain in header.domains],
        "fingerprint": header.fingerprint,
        "settings": header.settings,
        "validator": header.validator,
        "first_record": start.record,
        "after_seq": start.seq,
        "records": past.journal.count - start.record,
        "seq": past.ledger.seq,
        "state_digest": past.state.digest().hex(),
        "chain": past.journal.prev.hex(),
    }


def _beginning(log: EventLog, from_seq: int | None) -> tuple[LogStart, Snapshot | None]:
    """Return where a pack begins, and what led there.

    The record on which a snapshot stands is packed too: by its hash they know each other.
    """
    start = log.start()
    if from_seq is None:
        return start, oldest_snapshot(log) if start.record else None
    # A record is packed as a whole: a pack from inside a group of batches begins before the group.
    past = recover(log, to_record=cut_at(log, Position(seq=from_seq)).records).past
    last = past.journal.count - 1
    if last <= start.record:
        return start, oldest_snapshot(log) if start.record else None
    record = decode(next(log.read(last))[1], last)
    return LogStart(last, record.seq - seqs_of(record)), snapshots.take(past)


def _write(path: Path, data: bytes) -> None:
    """Write a file that is there whole or not at all.

    Raises:
        StoreError: Something is there, or the disk refused.
    """
    if path.exists():
        raise StoreError(f"cannot pack into {path}: it is there already; give a new path")
    try:
        write_whole(path, data, is_new=True)
    except OSError as error:
        is_late = isinstance(error, FileExistsError)
        why = "another process made it meanwhile; give a new path" if is_late else str(error)
        raise StoreError(f"cannot pack into {path}: {why}") from error
