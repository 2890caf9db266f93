"""The pass over a log that makes its key frames and the summaries between them.

It may run in a thread while another thread reads: finished entries are appended to lists, and an
appended entry never changes.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from threading import Lock
from typing import Final

import msgspec

from placet.actors.ports import EventLog
from placet.history.batch_outcomes import outcome_of
from placet.history.column_rows import refusal_counts, refused_count
from placet.history.reader import oldest_snapshot
from placet.history.timeline.fold import PlayedState, changed_in, played_of
from placet.history.timeline.frames import (
    FrameFiles,
    FrameHead,
    Stretch,
    compressed,
    decode_state,
    decompressed,
    encode_state,
)
from placet.history.timeline.tables import PlayedPopulation, PlayedTable
from placet.schemas.errors import StoreError
from placet.schemas.limits import DERIVED_BYTES_MAX, derived_bytes_max
from placet.schemas.log.expand import BatchRecord, expanded
from placet.schemas.log.record import (
    GENESIS,
    Admitted,
    Checkpoint,
    Columns,
    LogStart,
    Refused,
    Scheduled,
    Tick,
    record_hash,
)
from placet.schemas.log.snapshot import Snapshot
from placet.stores.append_rules import OvertakenError
from placet.stores.snapshots.recovery import decode, read_on

FRAME_WORK: Final = 32_768
"""Records, batches, intents and changes between two key frames, at least; with a larger state as
many as it has entities, so that all frames together take no more than a few times the log. A frame
is made at the next checkpoint of the log, or elsewhere after twice the work."""

_BATCHES: Final = (Admitted, Refused, Scheduled)


class _Named(msgspec.Struct, array_like=True, gc=False):
    """An encoded intent of which only the agent is read; conditions may follow its five parts."""

    agent_id: str
    req_id: msgspec.Raw
    kind: msgspec.Raw
    payload: msgspec.Raw
    priority: int


_NAMES: Final = msgspec.msgpack.Decoder(list[_Named])


_BEGINNING: Final = FrameHead(
    previous=0, record=0, seq=0, now_ns=0, chain=GENESIS, first_batch=None, stretch=Stretch()
)
"""Before the first record."""


@dataclass(frozen=True, slots=True)
class KeyFrame:
    """A key frame that can be read: its head, and its packed state if no file has it."""

    head: FrameHead
    packed: bytes | None = None


def agents_in(record: BatchRecord) -> list[str]:
    """Return the agent of each intent of a batch, without decoding their payloads.

    Raises:
        ValueError: The record's bytes are not a batch.
    """
    return [named.agent_id for named in _NAMES.decode(record.encoded)]


def population_mark(population: str) -> str:
    """Return the entry of a population in the agents of a stretch, for all of its members."""
    return f"{population}:"


def population_mark_of(agent: str) -> str:
    """Return the entry of the population of which an agent is a member, if it is one."""
    return population_mark(agent.rpartition(":")[0])


class Index:
    """Key frames of a log up to some record, and summaries of the records between them.

    Args:
        log: The log; it is only read.
        files: The folder of its key frames; None keeps them in memory.
        on_fault: Called once, with one sentence, if a key frame in the folder is forged or damaged.

    Attributes:
        start: Position of the first record of which a state is known. Later than the log's
            beginning if the log was compacted.
        record: Number of records read.
        seq: Sequence number after them.
        now_ns: Simulated time after them, nanoseconds.
        ticks: Ordinal numbers of the `Tick` records read.
        first_batch: Ordinal of the first record of a batch; None before it.
        compactions: How often the log lost its beginning, or was begun again, while it was read.
    """

    def __init__(
        self,
        log: EventLog,
        files: FrameFiles | None,
        on_fault: Callable[[str], None] = lambda _sentence: None,
    ) -> None:
        self._log = log
        self._files = files
        self._on_fault = on_fault
        self._has_fault = False
        self._lock = Lock()
        self.compactions = 0
        self._begin()

    def _begin(self) -> None:
        self.frames: list[KeyFrame] = []
        self.ticks = array("q")
        self.start = LogStart()
        self.record = self.seq = self.now_ns = 0
        self.first_batch: int | None = None
        self._state = PlayedState()
        self._chain = GENESIS
        self._tail = Stretch()
        self._agents: set[str] = set()
        self._work = 0
        self._is_unbound = False
        self._hashes: dict[int, bytes] = {}

    def stretches(self) -> list[tuple[int, int, Stretch]]:
        """Return `(first record, end, summary)` of all stretches, oldest first, without gaps.

        The last one ends at `record`, and grows while a pass is under way.
        """
        frames, tail = list(self.frames), self._tail
        ends = [
            (frame.head.previous, frame.head.record, frame.head.stretch) for frame in frames[1:]
        ]
        return [*ends, (frames[-1].head.record, self.record, tail)] if frames else []

    def tables(self) -> tuple[dict[str, PlayedTable], dict[str, PlayedPopulation]]:
        """Return the tables and the populations that the log has made, whose values may change."""
        state = self._state
        return dict(state.tables), dict(state.populations)

    def tail_has(self, agent: str) -> bool:
        """Return whether an agent may have an intent after the last key frame."""
        return agent in self._agents or population_mark_of(agent) in self._agents

    def frame_before(self, record: int) -> KeyFrame | None:
        """Return the latest key frame with at most so many records before it; None if none has."""
        frames = self.frames
        at = bisect_right(frames, record, key=lambda frame: frame.head.record)
        return frames[at - 1] if at else None

    def state_of(self, frame: KeyFrame) -> PlayedState:
        """Return the state of a key frame, which the caller may change. O(state).

        Raises:
            OSError, ValueError: Its file was removed or damaged, or does not hold the log's state.
        """
        if frame.packed is not None:
            return decode_state(decompressed(frame.packed, DERIVED_BYTES_MAX))
        return self._checked_state(frame.head)

    def _checked_state(self, head: FrameHead) -> PlayedState:
        """Return the state in a frame's file, if it is the state of the log there."""
        assert self._files is not None, "a frame without bytes is in a file"
        record = head.record
        try:
            bytes_max = derived_bytes_max(self._log.size_bytes())
            data = decompressed(self._files.packed(record), bytes_max)
            checkpoint = None if record in self._hashes else self._checkpoint_before(record)
            if checkpoint is None and self._hash_of(record) != _hash(data):
                raise ValueError("its state is not the one that the log makes")
            state = decode_state(data)
            if checkpoint is not None and state.digest() != checkpoint.state_digest:
                raise ValueError("its state is not the one whose digest the log holds")
        except ValueError as error:
            self._report(record, error)
            raise
        self._hashes[record] = _hash(data)
        return state

    def _hash_of(self, record: int) -> bytes:
        """Return the hash of the state before a record, folded from the last frame that is bound.

        Nothing that comes after a frame binds it: later changes may hide a forged value.

        Raises:
            ValueError: No frame before it is bound by the log.
        """
        if record in self._hashes:
            return self._hashes[record]
        before = (frame for frame in reversed(self.frames) if frame.head.record < record)
        base = next((frame for frame in before if self._is_bound(frame)), None)
        if base is None:
            raise ValueError("no state digest of the log comes before it")
        state = self.state_of(base)
        others = {frame.head.record for frame in self.frames if frame.packed is None} | {record}
        for ordinal, data in read_on(self._log, base.head.record):
            if ordinal in others:
                self._hashes[ordinal] = _hash(encode_state(state))
            if ordinal == record:
                break
            for each in expanded(decode(data, ordinal)):
                state.apply(each)
        return self._hashes[record]

    def _is_bound(self, frame: KeyFrame) -> bool:
        record = frame.head.record
        return (
            frame.packed is not None
            or record in self._hashes
            or self._checkpoint_before(record) is not None
        )

    def _checkpoint_before(self, record: int) -> Checkpoint | None:
        ordinal, data = next(self._log.read(record - 1), (-1, b""))
        before = decode(data, ordinal) if ordinal == record - 1 else None
        return before if isinstance(before, Checkpoint) else None

    def _report(self, record: int, error: ValueError) -> None:
        if not self._has_fault:
            self._has_fault = True
            self._on_fault(
                f"the key frame at record {record} of {self._log.url} is not used: {error}; "
                "the key frames are made again from the log"
            )

    def forget(self) -> None:
        """Begin again from the log alone: a key frame that was there is gone or damaged."""
        with self._lock:
            self._begin()
            self._first_frame(has_files=False)

    def catch_up(self, *, records_max: int | None = None) -> bool:
        """Read the records that the log has got since, and return whether its end was reached.

        Does nothing while another thread does the same.

        Args:
            records_max: Read at most so many; None reads all.

        Raises:
            StoreError: The log cannot be read.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            return self._catch_up(records_max)
        finally:
            self._lock.release()

    def _catch_up(self, records_max: int | None) -> bool:
        count, start = self._log.count(), self._log.start()
        if count < self.record:  # a world in memory that was begun again
            self._begin()
            self.compactions += 1
        if not self.frames:
            self._first_frame(has_files=True)
        elif start.record > self.start.record:
            self._drop_before(start)
        try:
            for number, (ordinal, data) in enumerate(read_on(self._log, self.record)):
                if records_max is not None and number >= records_max:
                    return False
                self._read(ordinal, data)
        except OvertakenError:  # compacted beyond this pass: its next look begins there
            self._begin()
            self.compactions += 1
            return False
        return True

    def _first_frame(self, *, has_files: bool) -> None:
        """Begin at the start of the log, or after the last key frame that is of this log."""
        start = self._log.start()
        if has_files and self._files is not None and self._take_kept(self._files, start):
            return
        if start.record:
            self._begin_at_snapshot()
        self._append_frame(is_first=True)

    def _take_kept(self, files: FrameFiles, start: LogStart) -> bool:
        """Go on after the key frames in a folder; remove those of no use, and return if any is."""
        kept: list[FrameHead] = []
        for head in files.heads():
            begins_at = head.previous if start.record else 0
            previous = kept[-1].record if kept else begins_at
            if head.previous == previous and head.record >= start.record and self._is_of_log(head):
                kept.append(head)
            else:
                files.remove(head.record)
        while kept:
            try:
                if self._checkpoint_before(kept[-1].record) is None:  # few records follow it
                    raise FileNotFoundError
                self._state = self._checked_state(kept[-1])
            except (OSError, ValueError):
                files.remove(kept.pop().record)
                continue
            self._adopt(kept, start)
            return True
        return False

    def _is_of_log(self, head: FrameHead) -> bool:
        """Return whether the record before a key frame is that of the log, by its hash."""
        ordinal, data = next(self._log.read(head.record - 1), (-1, b""))
        if ordinal != head.record - 1 or record_hash(data) != head.chain:
            return False
        record = decode(data, ordinal)
        return (record.seq, record.now_ns) == (head.seq, head.now_ns)

    def _adopt(self, kept: list[FrameHead], start: LogStart) -> None:
        first, last = kept[0], kept[-1]
        if start.record:  # its summary of the removed records is void
            kept = [msgspec.structs.replace(first, stretch=Stretch()), *kept[1:]]
            self.start = LogStart(first.record, first.seq)
        else:
            self.frames = [KeyFrame(_BEGINNING, compressed(encode_state(PlayedState())))]
        self.frames += [KeyFrame(head) for head in kept]
        for head in kept:
            self.ticks.extend(head.stretch.ticks)
        self.record, self.seq, self.now_ns = last.record, last.seq, last.now_ns
        self.first_batch, self._chain = last.first_batch, last.chain

    def _begin_at_snapshot(self) -> None:
        snapshot = oldest_snapshot(self._log)
        self._state = state_in(snapshot)
        self.record, self.seq, self.now_ns = snapshot.records, snapshot.seq, snapshot.now_ns
        self.start, self._chain = LogStart(snapshot.records, snapshot.seq), snapshot.chain

    def _drop_before(self, start: LogStart) -> None:
        """Forget the removed beginning of a log; the next key frame is the new beginning."""
        frames = [frame for frame in self.frames if frame.head.record >= start.record]
        if not frames and self.record >= start.record:
            self._append_frame(is_first=False)
            frames = self.frames[-1:]
        self.compactions += 1
        if not frames:
            self._begin()
            self._first_frame(has_files=True)
            return
        first = frames[0].head
        bare = msgspec.structs.replace(first, stretch=Stretch())
        for frame in self.frames:
            if frame.packed is None and frame.head.record < first.record and self._files:
                self._files.remove(frame.head.record)
        self.ticks = array("q", (tick for tick in self.ticks if tick >= first.record))
        self.start = LogStart(first.record, first.seq)
        self.frames = [KeyFrame(bare, frames[0].packed), *frames[1:]]

    def _read(self, ordinal: int, data: bytes) -> None:
        """Take one record in, and make a key frame if it is time."""
        record = decode(data, ordinal)
        try:
            records = expanded(record)
        except ValueError as error:
            raise StoreError(
                f"record {ordinal} of {self._log.url} is damaged: {error}; `placet verify` says "
                "how far the log can be trusted",
                store=self._log.url,
            ) from error
        if isinstance(record, Tick):
            self.ticks.append(ordinal)
            self._tail.ticks.append(ordinal)
        for each in records:
            self._state.apply(each)
            self._work += 1
            if isinstance(each, _BATCHES):
                self._count(each, ordinal)
            elif isinstance(each, Columns):
                self._count_columns(each, ordinal)
        self._work += len(changed_in(record))
        for write in getattr(record, "written", None) or ():
            self._work += len(write.at) // 4 or self._state.tables[write.table].count
        self.record, self.seq = ordinal + 1, record.seq
        self.now_ns = max(record.now_ns, self.now_ns)
        sizes = map(len, self._state.entities().values())
        due = max(FRAME_WORK, sum(sizes))
        is_bound = isinstance(record, Checkpoint)
        if self._work >= (due if is_bound else 2 * due) or (is_bound and self._is_unbound):
            self._chain = record_hash(data)
            self._append_frame(is_first=False)
            self._is_unbound = not is_bound

    def _count_columns(self, record: Columns, ordinal: int) -> None:
        """Count the rows of a column batch, and note its population in the place of its agents."""
        if self.first_batch is None:
            self.first_batch = ordinal
        self._agents.add(population_mark(record.population))
        count = self._state.populations[record.population].count
        if record.agents:
            count = len(record.agents) // 4
        refused = refused_count(record)
        self._work += count
        for (stage, code), rows in refusal_counts(record).items():
            key = f"{stage}/{code}"
            self._tail.codes[key] = self._tail.codes.get(key, 0) + rows
        self._tail.count(record.seq, count - refused, refused)

    def _count(self, record: BatchRecord, ordinal: int) -> None:
        if self.first_batch is None:
            self.first_batch = ordinal
        agents = agents_in(record)
        self._agents.update(agents)
        self._work += len(agents)
        outcome = outcome_of(record)
        self._agents.update(noted.agent for noted in outcome.noted)
        for code, intents in outcome.codes.items():
            self._tail.codes[code] = self._tail.codes.get(code, 0) + intents
        self._tail.held += outcome.held
        self._tail.count(record.seq, outcome.admitted, outcome.refused)

    def _append_frame(self, *, is_first: bool) -> None:
        previous = self.record if is_first else self.frames[-1].head.record
        if not is_first and self.record == previous:
            return
        self._tail.agents = sorted(self._agents)
        head = FrameHead(
            previous=previous,
            record=self.record,
            seq=self.seq,
            now_ns=self.now_ns,
            chain=self._chain,
            first_batch=self.first_batch,
            stretch=self._tail,
        )
        data = encode_state(self._state)
        packed = compressed(data)
        is_written = not is_first and self._try_write(head, data, packed)
        self.frames.append(KeyFrame(head, None if is_written else packed))
        self._tail, self._agents, self._work = Stretch(), set(), 0

    def _try_write(self, head: FrameHead, data: bytes, packed: bytes) -> bool:
        """Write a frame to its file; return whether it is there, and will be read again."""
        if self._files is None or len(data) > derived_bytes_max(self._log.size_bytes()):
            return False
        try:
            self._files.write(head, packed)
        except OSError:  # then it is kept in memory
            return False
        self._hashes[head.record] = _hash(data)
        return True


def _hash(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


def state_in(snapshot: Snapshot) -> PlayedState:
    """Return the domain state and the agents of a snapshot. O(world).

    Raises:
        ValueError: The snapshot contradicts itself.
    """
    from placet.kernel.log import snapshot as snapshots  # noqa: PLC0415  # compacted logs alone

    past = snapshots.resume(snapshot)
    return played_of(past.state, past.ledger)
