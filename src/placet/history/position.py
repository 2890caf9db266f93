"""Positions of a log: at a seq, at a tick, at a record.

Records that take no seq (final refusals, checkpoints) share the seq of the record before them. A
seq names the record that took it, with the refusals of the same group of batches; the refusals of a
later group lie after it.
"""

from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from placet.actors.ports import EventLog
from placet.kernel.log.replay import seqs_of
from placet.schemas.errors import PositionError
from placet.schemas.log.cut import count_to_seq, first_batches
from placet.schemas.log.record import (
    Admitted,
    Checkpoint,
    Columns,
    Record,
    Refused,
    Scheduled,
    SingleBlock,
    Tick,
    encode_record,
)
from placet.stores.snapshots.recovery import decode

_BATCHES: Final = (Admitted, SingleBlock, Columns, Refused, Scheduled)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A position in a log, given by a seq, a tick or a record; without any, the end of the log.

    Attributes:
        seq: After the record that took this seq, which is a control record or the end of a batch,
            and after the refusals that were decided together with it.
        tick: After this many ticks of simulated time, counted from the beginning of the log; 0 is
            before the first batch.
        record: After the record of this ordinal number.
        whole_ticks_ns: Length of a tick of a stepped run, nanoseconds: where the position lies
            between the first batch of a tick and its end, go back to before that batch. The batches
            of a tick are decided together, so its agents cannot continue from a part of them. None
            divides ticks.
    """

    seq: int | None = None
    tick: int | None = None
    record: int | None = None
    whole_ticks_ns: int | None = None

    def __post_init__(self) -> None:
        stated = [n for n in (self.seq, self.tick, self.record) if n is not None]
        if len(stated) > 1 or any(number < 0 for number in stated):
            raise ValueError(f"a position is one number, a seq, a tick or a record, got {self}")


def position_of(at: int | Position | None) -> Position:
    """Return a position as it is given: an integer is a seq, None the end of the log.

    Raises:
        TypeError: It is something else.
    """
    if at is None or (type(at) is int and at >= 0):
        return Position(seq=at)
    if not isinstance(at, Position):
        raise TypeError(
            "at must be a seq such as 1200, or a position such as Position(tick=20), got "
            f"{at!r:.80}"
        )
    return at


class Cut(NamedTuple):
    """A log up to a position.

    Attributes:
        records: Number of whole records before the position.
        part: The encoded record of the batches of the next record, a `SingleBlock`, that were
            decided before the position; None if the position is between two records.
    """

    records: int
    part: bytes | None = None


def cut_at(log: EventLog, at: Position) -> Cut:
    """Return the part of a log before a position. O(log) for a tick.

    Raises:
        StoreError: The log cannot be read, has no such position, or the seq is inside a batch.
    """
    if at.tick is not None:
        return Cut(_to_tick(log, at.tick))
    count, part = log.count(), None
    if at.seq is not None:
        count, part = _to_seq(log, at.seq)
    elif at.record is not None:
        if at.record >= count:
            raise PositionError(
                f"{log.url} has no record {at.record}: its last is {count - 1}", store=log.url
            )
        count = at.record + 1
    if at.whole_ticks_ns is not None:
        divided = divided_tick(log, count + (part is not None), at.whole_ticks_ns)
        if divided is not None:
            return Cut(divided)
    return Cut(count, part)


def divided_tick(log: EventLog, count: int, tick_ns: int) -> int | None:
    """Return the ordinal of the first batch record of the tick that a cut divides, or None.

    The cut is after the first `count` records of the log; None if it lies between two ticks. The
    batches of a tick are one tick later than the record before them, and the tick ends with a
    `Tick` record at their time. Batches at another time were decided while the log was served, and
    are in no tick. O(records of the last tick).

    Raises:
        StoreError: The log cannot be read.
    """
    end, begin, page = count, log.start().record, 64
    first: int | None = None
    now_ns: int | None = None
    while end > begin:
        start = max(begin, end - page)
        read = islice(log.read(start), end - start)
        for ordinal, data in reversed([pair for pair in read if pair[0] < end]):
            record = decode(data, ordinal)
            now_ns = record.now_ns if now_ns is None else now_ns
            if record.now_ns != now_ns:
                return first if record.now_ns + tick_ns == now_ns else None
            if isinstance(record, Tick):
                return None
            if isinstance(record, _BATCHES):
                first = ordinal
        end, page = start, page * 2
    return None


def _to_seq(log: EventLog, seq: int) -> Cut:
    start = log.start()
    if seq <= start.seq and start.record:
        return Cut(start.record)  # earlier ones are gone, and the recovery says so
    end = None
    for ordinal, data in log.read(log.find_seq(seq)):
        record = decode(data, ordinal)
        if end is not None and not _belongs_to(record, seq):
            return Cut(end)
        if record.seq == seq:
            end = ordinal + 1
        elif record.seq > seq:
            if isinstance(record, SingleBlock) and (count := count_to_seq(record, seq)):
                return Cut(ordinal, encode_record(first_batches(record, count)))
            if end is not None:
                return Cut(end)
            raise PositionError(
                f"{log.url} has no state at seq {seq}, which is inside a batch; "
                f"give the end of a batch: seq {record.seq - seqs_of(record)} or {record.seq}",
                store=log.url,
            )
    if end is None:
        last = last_seq(log)
        raise PositionError(f"{log.url} has no seq {seq}: it ends at seq {last}", store=log.url)
    return Cut(end)


def last_seq(log: EventLog) -> int:
    """Return the seq at which a log ends; 0 for an empty log."""
    last = next(log.read(max(log.count() - 1, 0)), None)
    return 0 if last is None else decode(last[1], last[0]).seq


def _belongs_to(record: Record, seq: int) -> bool:
    """Return whether the first part of a record was made with the seq before it, not after it.

    Such are a checkpoint, and refusals; a group that was opened at the seq itself was decided
    later.
    """
    return isinstance(record, Checkpoint) or (
        isinstance(record, SingleBlock | Refused) and record.group_seq < seq
    )


def _to_tick(log: EventLog, tick: int) -> int:
    start = log.start()
    if start.record:
        raise PositionError(
            f"{log.url} was compacted up to seq {start.seq}, and ticks are counted from the "
            "beginning of a log; give a seq or a record",
            store=log.url,
        )
    ticks = 0
    for ordinal, data in log.read():
        record = decode(data, ordinal)
        if tick == 0 and isinstance(record, _BATCHES):
            return ordinal
        if isinstance(record, Tick):
            ticks += 1
            if ticks >= tick:
                return ordinal + 1 if tick else ordinal
    if tick == 0:
        return log.count()
    raise PositionError(f"{log.url} has no tick {tick}: it ends after tick {ticks}", store=log.url)
