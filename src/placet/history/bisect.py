"""Finds where two logs of one world part, by their chains, and says what differs there.

Each record contains the hash of the one before it, so two logs agree up to a position if and only
if they have the same hash there: the first differing record is found in O(log n) reads. If the logs
were made by other rules or settings, their headers differ and all later hashes too; then records
are compared one by one, without their hashes. The same holds where batch numbers differ: the log of
a run that was killed and resumed differs in them from that of an uninterrupted run, because batches
that left no trace had numbers too.

That finds the first differing record. Re-executing that one record shows which log is right, and
its random draws.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from placet.actors.ports import EventLog
from placet.kernel.log.divergence import (
    DecisionMismatch,
    DivergentField,
    difference_of_records,
    name_of_rule,
)
from placet.kernel.log.replay import seqs_of
from placet.kernel.log.verify import Maker, Verifier
from placet.kernel.plugin.domain import Domain
from placet.kernel.recorded_batch import recorded_batch
from placet.plugins.domains import remake
from placet.schemas.codec import Json
from placet.schemas.errors import StoreError
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import (
    Admitted,
    AgentChanged,
    Columns,
    Configured,
    Header,
    Record,
    Refused,
    Registered,
    RulesChanged,
    Scheduled,
    Settled,
    SingleBlock,
    TableMade,
    Tick,
    group_of,
    record_as_dict,
    record_body,
    record_hash,
    record_type,
)
from placet.stores.reading import Store, as_log
from placet.stores.snapshots.recovery import decode, read_on, recover

_NAMES: Final = {
    (True, True): "both",
    (True, False): "first",
    (False, True): "second",
    (False, False): "neither",
}
_MAKES_CHANGES = (Header, Registered, AgentChanged, Tick, Settled, TableMade)


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstDifference:
    """The first difference of two logs.

    Attributes:
        record: Ordinal number of the first record that differs. If none differs, the number of
            records that both logs have.
        seq: Sequence number of the world before that record.
        shared: No record differs: the logs are equal, or one is the start of the other.
        reads: Number of records read.
        set_up: Fields in which the headers differ; they do not count as a first difference.
        renumbered: The first record whose batch has another number, which does not count either;
            None if there is none before the first difference.
        first: The record in the first log, as `placet log --json` shows it; None if no record
            differs.
        second: The record in the second log, as `placet log --json` shows it.
        part: The part of the record that differs, in words.
        values: The value of this part in the first log, and in the second.
        rule: The domain rule that decided the part; empty if the domain is not available.
        decided_as: The log whose record re-execution reproduces: `first`, `second`, `both` (each
            by the rules of its log) or `neither`; None if the domain is not available.
        draws: Random draws of the rules in the re-execution.
    """

    record: int
    seq: int
    shared: bool
    reads: int
    set_up: tuple[str, ...] = ()
    renumbered: int | None = None
    first: Json = None
    second: Json = None
    part: str = ""
    values: tuple[Json, Json] = (None, None)
    rule: str = ""
    decided_as: str | None = None
    draws: tuple[Json, ...] = ()

    def as_dict(self) -> dict[str, Json]:
        """Return the difference as plain JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


class _Place(NamedTuple):
    """A record at one ordinal of a log."""

    data: bytes
    record: Record


def bisect(
    first: Store, second: Store, domains: Sequence[Domain] | Maker = remake
) -> FirstDifference:
    """Find the first record in which two logs differ. O(log n) reads, and a replay up to it.

    O(n) reads if the headers or the batch numbers of the logs differ.

    Args:
        first: A log, or its path or URL; it is only read.
        second: Another log, likewise.
        domains: The domains that decided the logs. By default they are recreated from the logs.

    Raises:
        StoreError: A log cannot be read, or they differ before the start of a compacted one.
    """
    first, second = as_log(first), as_log(second)
    low = max(first.start().record, second.start().record)
    end = min(first.count(), second.count())
    reader = _Reader(first, second)
    set_up = _set_up(first, second) if low == 0 and end else ()
    if set_up:
        at = reader.first_difference(1, end, has_other_header=True)
    elif low > end or not reader.agree_before(low):
        raise StoreError(
            f"{first.url} and {second.url} differ before record {low}, and one of them was "
            "compacted up to there; compare a copy that has all of it",
            store=first.url,
        )
    else:
        at = reader.first_difference(reader.bisected(low, end), end, has_other_header=False)
    if at == end:
        seq = _at(first, end - 1).record.seq if end else 0
        parting = FirstDifference(record=end, seq=seq, shared=True, reads=0)
    else:
        parting = _parting((first, second), at, domains)
    return replace(parting, reads=reader.reads, set_up=set_up, renumbered=reader.renumbered)


def _set_up(*logs: EventLog) -> tuple[str, ...]:
    """Name the differences between two logs' headers, besides the initial state."""
    first, second = (_at(log, 0).record for log in logs)
    names = [n for n in first.__struct_fields__ if getattr(first, n) != getattr(second, n, None)]
    return () if {"world", "seed", "changes"} & set(names) else tuple(names)


def shared_records(first: EventLog, second: EventLog) -> int:
    """Return the number of equal records at the start of two logs, by their hash chains.

    0 if the first records differ, or if the part that has the first difference was compacted away.
    O(log n) reads.

    Raises:
        StoreError: A log cannot be read.
    """
    low, end = max(first.start().record, second.start().record), min(first.count(), second.count())
    reader = _Reader(first, second)
    return reader.bisected(low, end) if low <= end and end and reader.agree_before(low) else 0


class _Reader:
    """Compares two logs by their hashes, and counts its reads.

    Attributes:
        reads: Number of records read.
        renumbered: The first record of those compared whose batch has another number.
    """

    __slots__ = ("_logs", "reads", "renumbered")

    def __init__(self, *logs: EventLog) -> None:
        self._logs = logs
        self.reads = 0
        self.renumbered: int | None = None

    def agree_before(self, ordinal: int) -> bool:
        """Return whether all records before an ordinal are the same."""
        first, second = (self._hash_before(log, ordinal) for log in self._logs)
        return first == second

    def bisected(self, low: int, high: int) -> int:
        """Find the first record that differs, given that all before `low` are the same."""
        while low < high:  # they agree before `low`, and perhaps before `high`
            middle = (low + high + 1) // 2
            if self.agree_before(middle):
                low = middle
            else:
                high = middle - 1
        return low

    def first_difference(self, start: int, end: int, *, has_other_header: bool) -> int:
        """Find the first record from `start` that differs in more than its hash or its number."""
        first_log, second_log = (log.read(start) for log in self._logs)
        for (ordinal, first_data), (_, second_data) in zip(first_log, second_log, strict=False):
            self.reads += 2
            if record_body(first_data) == record_body(second_data):
                continue
            first, second = decode(first_data, ordinal), decode(second_data, ordinal)
            if has_other_header and isinstance(first, Configured | RulesChanged):
                continue
            if _without_number(first) != _without_number(second):
                return ordinal
            self.renumbered = ordinal if self.renumbered is None else self.renumbered
        return end

    def _hash_before(self, log: EventLog, ordinal: int) -> bytes:
        self.reads += 1
        if ordinal < log.count():
            return _at(log, ordinal).record.prev
        return record_hash(_at(log, ordinal - 1).data)


def _without_number(record: Record) -> Record:
    """Return a record without its hash, and where it is of a batch without the number of that."""
    if isinstance(record, Admitted | Refused | Scheduled):
        return msgspec.structs.replace(record, prev=b"", batch_id="")
    if isinstance(record, SingleBlock):
        return msgspec.structs.replace(record, prev=b"", numbers=[])
    if isinstance(record, Columns):
        return msgspec.structs.replace(record, prev=b"", number=0)
    return record


def _at(log: EventLog, ordinal: int) -> _Place:
    number, data = next(log.read(ordinal), (-1, b""))
    if number != ordinal:
        raise StoreError(f"{log.url} has no record {ordinal} any more", store=log.url)
    return _Place(data, decode(data, ordinal))


def _parting(
    logs: Sequence[EventLog], ordinal: int, domains: Sequence[Domain] | Maker
) -> FirstDifference:
    first, second = _first_unequal(logs, ordinal)
    part = difference_of_records(_without_number(first), _without_number(second))
    deciders = [_decided(log, ordinal, domains) for log in logs]
    is_decided = all(decider.is_decided for decider in deciders)
    chosen = next((d for d in deciders if d.matches), deciders[0])
    return FirstDifference(
        record=ordinal,
        seq=first.seq - seqs_of(first),
        shared=False,
        reads=0,
        first=_shown(first),
        second=_shown(second),
        part=part.name,
        values=(part.recorded, part.decided),
        rule=_rule(part, first, deciders[0].past),
        decided_as=_NAMES[deciders[0].matches, deciders[1].matches] if is_decided else None,
        draws=tuple(draw._asdict() for draw in chosen.past.drawn),
    )


def _first_unequal(logs: Sequence[EventLog], ordinal: int) -> tuple[Record, Record]:
    """Return the records that differ at an ordinal; of groups of batches, the first that differ.

    Where one group is the beginning of the other, its log's next record is compared.
    """
    first, second = (
        [
            *expanded(_at(log, ordinal).record),
            *(decode(data, at) for at, data in islice(log.read(ordinal + 1), 1)),
        ]
        for log in logs
    )
    for one, other in zip(first, second, strict=False):
        if _without_number(one) != _without_number(other):
            return one, other
    return _at(logs[0], ordinal).record, _at(logs[1], ordinal).record


class _Decided(NamedTuple):
    """The result of re-executing one record."""

    past: Verifier
    is_decided: bool
    matches: bool


def _decided(log: EventLog, ordinal: int, domains: Sequence[Domain] | Maker) -> _Decided:
    """Fold a log up to a record, and re-execute that record together with its group."""
    place = _at(log, ordinal)
    group, group_seq = group_of(place.record), getattr(place.record, "group_seq", place.record.seq)
    past = Verifier(domains, past=recover(log, to_seq=group_seq - 1).past)
    past.is_folding = True
    for at, data in read_on(log, past.journal.count):
        if at == ordinal or (group is not None and group_of(decode(data, at)) == group):
            past.is_folding = False
        try:
            past.apply(data)
        except DecisionMismatch:
            return _Decided(past, is_decided=True, matches=False)
        if at == ordinal:
            break
    is_decided = not past.unverified
    return _Decided(past, is_decided, matches=is_decided)


def _rule(part: DivergentField, record: Record, past: Verifier) -> str:
    registry = past.registry
    if registry is None:
        return ""
    if isinstance(record, Admitted | Refused | Scheduled | Columns):
        if part.index is None:  # what went into the record differs already
            return ""
        batch = None if isinstance(record, Columns) else recorded_batch(record)
        return name_of_rule(part, record, registry, batch)
    return name_of_rule(part, record, registry, None) if isinstance(record, _MAKES_CHANGES) else ""


def _shown(record: Record) -> Json:
    return {"type": record_type(record), "seq": record.seq, **record_as_dict(record)}
