"""The contract of event logs: every store passes this suite, placet's and an author's.

    class TestShelf(EventLogContract):
        durability = "full"

        def new_log(self, folder):
            return lambda: open_event_log(f"shelf://{folder}/log")

A handle stands for a process that has the log open. A store that compacts its log derives from
`CompactionContract` instead. The messages that the suite expects are those of `placet.stores`.
"""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from placet.stores import EventLog, FencedError, InUseError, LogAppend, LogStart, StoreError

RECORDS = st.lists(st.lists(st.binary(max_size=40), min_size=1, max_size=6), max_size=8)

# One law, run for each store by inheritance: that is the differing executor.
_INHERITED = [HealthCheck.differing_executors, HealthCheck.too_slow]


def append_after(log: EventLog, *records: bytes, seq_step: int = 1) -> LogAppend:
    """Build the next append of a log in which each record takes `seq_step` seqs."""
    first = log.count()
    before = first * seq_step
    return LogAppend(first, before, before + len(records) * seq_step, records)


def append(log: EventLog, epoch: int, *records: bytes) -> None:
    """Append records together, each of one seq."""
    log.append(append_after(log, *records), epoch)


def records_of(log: EventLog, from_record: int = 0) -> list[bytes]:
    """Return the records of a log, without their ordinals."""
    return [record for _, record in log.read(from_record)]


class LogHandles:
    """One log and the handles on it that a test has opened.

    Args:
        make: Returns a new handle on the log.
        lose: Makes the process of a handle appear dead.
    """

    def __init__(self, make: Callable[[], EventLog], lose: Callable[[EventLog], None]) -> None:
        self._make = make
        self._handles: list[EventLog] = []
        self.lose = lose

    def handle(self) -> EventLog:
        """Return a new handle."""
        handle = self._make()
        self._handles.append(handle)
        return handle

    def close(self) -> None:
        """Close all handles."""
        for handle in self._handles:
            handle.close()


class EventLogContract:
    """The suite for a store of event logs; a subclass implements `new_log`.

    Attributes:
        durability: The `durability` of the logs.
    """

    durability: ClassVar[str]

    def new_log(self, folder: Path) -> Callable[[], EventLog]:
        """Return a function that makes handles on one new log; each call is another process.

        Args:
            folder: An empty folder, for a store that keeps files.
        """
        raise NotImplementedError

    def lose(self, handle: EventLog) -> None:
        """Make the process of a handle appear dead, without a call of `close`.

        Override it if `open` refuses a log whose writer is alive.
        """

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[LogHandles]:
        """Return a new log, and close its handles after the test."""
        store = LogHandles(self.new_log(tmp_path), self.lose)
        yield store
        store.close()

    @pytest.fixture
    def log(self, store: LogHandles) -> EventLog:
        """Return a handle on a new log."""
        return store.handle()

    def test_a_log_reports_its_durability_and_location(self, log: EventLog) -> None:
        assert log.durability == self.durability
        assert log.is_blocking is (self.durability != "memory")
        assert "://" in log.url

    def test_a_new_log_is_empty(self, log: EventLog) -> None:
        log.open()
        assert (log.count(), log.size_bytes(), records_of(log), log.find_seq(1)) == (0, 0, [], 0)

    def test_appended_groups_are_read_in_order(self, log: EventLog) -> None:
        epoch = log.open()
        append(log, epoch, b"a", b"")
        append(log, epoch, b"\x00\xff")
        assert list(log.read()) == [(0, b"a"), (1, b""), (2, b"\x00\xff")]
        assert (log.count(), log.size_bytes()) == (3, 3)

    def test_reading_may_start_in_the_middle_of_a_group(self, log: EventLog) -> None:
        epoch = log.open()
        append(log, epoch, b"a", b"b", b"c")
        append(log, epoch, b"d", b"e")
        assert next(log.read(1)) == (1, b"b")
        assert list(log.read(4)) == [(4, b"e")]
        assert list(log.read(5)) == list(log.read(99)) == list(log.read(10**30)) == []

    def test_a_seq_is_found_in_the_group_that_reached_it(self, log: EventLog) -> None:
        epoch = log.open()
        log.append(LogAppend(0, 0, 0, [b"header"]), epoch)
        log.append(LogAppend(1, 0, 5, [b"five", b"seqs"]), epoch)
        log.append(LogAppend(3, 5, 5, [b"a refusal takes no seq"]), epoch)
        log.append(LogAppend(4, 5, 6, [b"one"]), epoch)
        assert [log.find_seq(seq) for seq in range(8)] == [0, 1, 1, 1, 1, 1, 4, 5]
        assert log.find_seq(10**30) == log.count()  # a typed number has no bound

    def test_the_records_of_a_group_are_copied(self, log: EventLog) -> None:
        epoch = log.open()
        records = [b"a"]
        log.append(LogAppend(0, 0, 1, records), epoch)
        records.append(b"b")
        assert records_of(log) == [b"a"]

    def test_a_reopened_log_continues(self, store: LogHandles) -> None:
        log = store.handle()
        append(log, log.open(), b"a")
        log.close()
        again = store.handle()
        epoch = again.open()
        assert (again.count(), again.size_bytes()) == (1, 1)
        append(again, epoch, b"b")
        assert records_of(again) == [b"a", b"b"]

    def test_the_same_handle_can_be_opened_again(self, log: EventLog) -> None:
        append(log, log.open(), b"a")
        append(log, log.open(), b"b")
        log.close()
        append(log, log.open(), b"c")
        assert records_of(log) == [b"a", b"b", b"c"]

    def test_epochs_go_up_by_one(self, store: LogHandles) -> None:
        for epoch in (1, 2, 3):
            log = store.handle()
            assert log.open() == epoch
            store.lose(log)

    def test_the_first_writer_is_fenced_once_a_second_opens(self, store: LogHandles) -> None:
        zombie, writer = store.handle(), store.handle()
        old = zombie.open()
        append(zombie, old, b"a")
        store.lose(zombie)
        new = writer.open()
        with pytest.raises(StoreError, match=r"fenced.*epoch 1.*latest is 2"):
            append(zombie, old, b"zombie")
        append(writer, new, b"b")
        with pytest.raises(StoreError):
            append(zombie, old, b"zombie")
        assert records_of(writer) == [b"a", b"b"]

    def test_the_first_writer_stays_fenced_after_the_second_closed(self, store: LogHandles) -> None:
        zombie, writer = store.handle(), store.handle()
        old = zombie.open()
        store.lose(zombie)
        new = writer.open()
        append(writer, new, b"a")
        writer.close()
        with pytest.raises(StoreError):
            zombie.append(LogAppend(1, 1, 2, [b"zombie"]), old)
        assert records_of(store.handle()) == [b"a"]

    def test_a_log_that_is_written_is_refused_unless_it_is_taken_over(
        self, store: LogHandles
    ) -> None:
        writer, heir = store.handle(), store.handle()
        old = writer.open()
        append(writer, old, b"a")
        if self.durability != "memory":  # which is of one process
            with pytest.raises(
                InUseError, match=r"writes it, since .*(--take-over|Close the other)"
            ):
                heir.open()
        append(heir, heir.open(take_over=True), b"b")
        with pytest.raises(FencedError, match=r"epoch 1.*latest is 2"):
            writer.append(LogAppend(1, 1, 2, [b"late"]), old)
        assert records_of(heir) == [b"a", b"b"]

    def test_a_check_that_it_can_be_written_changes_no_record(self, store: LogHandles) -> None:
        log = store.handle()
        epoch = log.open()
        append(log, epoch, b"a")
        for _ in range(3):
            log.check_writable(epoch)
        append(log, epoch, b"b")
        log.check_writable(epoch)
        assert (log.count(), records_of(store.handle())) == (2, [b"a", b"b"])
        log.close()
        assert records_of(store.handle()) == [b"a", b"b"]

    def test_a_check_finds_that_the_log_was_taken_over(self, store: LogHandles) -> None:
        writer, heir = store.handle(), store.handle()
        old = writer.open()
        heir.open(take_over=True)
        with pytest.raises(FencedError):
            writer.check_writable(old)

    def test_nothing_is_checked_after_a_failure_or_before_it_is_open(self, log: EventLog) -> None:
        with pytest.raises(StoreError, match="not open"):
            log.check_writable(1)
        epoch = log.open()
        with pytest.raises(StoreError):
            log.append(LogAppend(7, 7, 8, [b"lost"]), epoch)
        with pytest.raises(StoreError, match="earlier append failed"):
            log.check_writable(epoch)

    def test_an_epoch_that_was_never_issued_is_refused(self, log: EventLog) -> None:
        epoch = log.open()
        with pytest.raises(StoreError, match="fenced"):
            append(log, epoch + 1, b"a")
        append(log, epoch, b"a")

    @pytest.mark.parametrize(
        "unfit",
        [
            LogAppend(2, 1, 2, [b"b"]),
            LogAppend(0, 1, 2, [b"b"]),
            LogAppend(1, 0, 2, [b"b"]),
            LogAppend(1, 2, 3, [b"b"]),
            LogAppend(1, 1, 0, [b"b"]),
            LogAppend(1, 1, 1, []),
        ],
        ids=["gap", "overlap", "seq overlap", "seq gap", "seq backwards", "empty"],
    )
    def test_an_append_must_follow(self, log: EventLog, unfit: LogAppend) -> None:
        epoch = log.open()
        append(log, epoch, b"a")
        with pytest.raises(StoreError, match="cannot append"):
            log.append(unfit, epoch)
        assert (log.count(), records_of(log)) == (1, [b"a"])

    def test_nothing_follows_a_failed_append_until_the_log_is_opened_again(
        self, log: EventLog
    ) -> None:
        epoch = log.open()
        with pytest.raises(StoreError):
            log.append(LogAppend(7, 7, 8, [b"lost"]), epoch)
        with pytest.raises(StoreError, match=r"earlier append failed.*record 7"):
            append(log, epoch, b"a")
        assert records_of(log) == []
        append(log, log.open(), b"a")
        assert records_of(log) == [b"a"]

    def test_a_handle_that_is_not_open_cannot_append(self, log: EventLog) -> None:
        with pytest.raises(StoreError, match="not open"):
            log.append(LogAppend(0, 0, 1, [b"a"]), 1)
        epoch = log.open()
        log.close()
        with pytest.raises(StoreError, match="not open"):
            log.append(LogAppend(0, 0, 1, [b"a"]), epoch)

    def test_closing_twice_is_harmless_and_the_log_stays_readable(self, log: EventLog) -> None:
        log.close()
        append(log, log.open(), b"a")
        log.close()
        log.close()
        assert (log.count(), log.size_bytes(), records_of(log)) == (1, 1, [b"a"])

    def test_large_groups_and_records_are_accepted(self, log: EventLog) -> None:
        epoch = log.open()
        many = [index.to_bytes(4, "big") for index in range(70_000)]
        append(log, epoch, *many)
        append(log, epoch, bytes(3_000_000))
        append(log, epoch, b"end")
        assert list(log.read(69_999)) == [
            (69_999, many[-1]),
            (70_000, bytes(3_000_000)),
            (70_001, b"end"),
        ]

    def test_a_reader_sees_groups_appended_during_the_read(self, store: LogHandles) -> None:
        writer, reader = store.handle(), store.handle()
        epoch = writer.open()
        append(writer, epoch, b"a")
        reading = reader.read()
        assert next(reading) == (0, b"a")
        append(writer, epoch, b"b", b"c")
        assert list(reading) == [(1, b"b"), (2, b"c")]

    def test_an_abandoned_reader_blocks_no_writer(self, store: LogHandles) -> None:
        writer, reader = store.handle(), store.handle()
        epoch = writer.open()
        append(writer, epoch, b"a", b"b")
        reading = reader.read()
        next(reading)
        append(writer, epoch, b"c")
        writer.close()
        append(writer, writer.open(), b"d")
        assert [record for _, record in reading] == [b"b", b"c", b"d"]

    def test_readers_in_other_threads_see_a_prefix_that_grows(self, store: LogHandles) -> None:
        writer, reader = store.handle(), store.handle()
        epoch = writer.open()
        append(writer, epoch, b"0")
        failures: list[StoreError] = []

        def write() -> None:
            try:
                for index in range(1, 200, 2):
                    append(writer, epoch, b"%d" % index, b"%d" % (index + 1))
            except StoreError as error:
                failures.append(error)

        thread = threading.Thread(target=write)
        thread.start()
        counts = [0]
        while thread.is_alive():
            read = list(reader.read())
            assert read == [(index, b"%d" % index) for index in range(len(read))]
            counts.append(len(read))
        thread.join()
        assert failures == []
        assert counts == sorted(counts)
        assert len(records_of(reader)) == 201

    @settings(
        max_examples=30,
        deadline=None,
        suppress_health_check=_INHERITED,
    )
    @given(groups=RECORDS, from_record=st.integers(0, 50))
    def test_any_groups_round_trip(
        self, tmp_path_factory: pytest.TempPathFactory, groups: list[list[bytes]], from_record: int
    ) -> None:
        store = LogHandles(self.new_log(tmp_path_factory.mktemp("log")), self.lose)
        log = store.handle()
        epoch = log.open()
        for group in groups:
            append(log, epoch, *group)
        flat = [record for group in groups for record in group]
        assert list(log.read(from_record)) == list(enumerate(flat))[from_record:]
        store.close()
        assert records_of(store.handle()) == flat
        assert log.count() == len(flat)
        assert log.size_bytes() == sum(map(len, flat))


class CompactionContract(EventLogContract):
    """The suite for a store of event logs that removes the beginning of a log."""

    def test_a_log_starts_at_its_first_record_until_it_is_compacted(self, log: EventLog) -> None:
        epoch = log.open()
        assert log.start() == LogStart(0, 0)
        assert log.compact(5, epoch, appends_max=9) is False
        append(log, epoch, b"a", b"b")
        assert log.start() == LogStart(0, 0)

    def test_compaction_removes_whole_groups_before_a_record_and_keeps_the_rest(
        self, store: LogHandles
    ) -> None:
        log = store.handle()
        epoch = log.open()
        for record in range(0, 10, 2):
            append(log, epoch, b"%d" % record, b"%d" % (record + 1))
        assert log.compact(5, epoch, appends_max=9) is False
        for one in (log, store.handle()):
            assert one.start() == LogStart(4, 4)
            assert list(one.read()) == [(n, b"%d" % n) for n in range(4, 10)]
            assert list(one.read(7)) == [(n, b"%d" % n) for n in range(7, 10)]
            assert (one.count(), one.size_bytes()) == (10, 10)
            assert [one.find_seq(seq) for seq in (0, 4, 5, 6, 7, 10, 11)] == [4, 4, 4, 4, 6, 8, 10]

    def test_a_compacted_log_continues(self, store: LogHandles) -> None:
        log = store.handle()
        epoch = log.open()
        append(log, epoch, b"a")
        append(log, epoch, b"b")
        log.compact(1, epoch, appends_max=9)
        append(log, epoch, b"c")
        log.close()
        again = store.handle()
        append(again, again.open(), b"d")
        assert list(again.read()) == [(1, b"b"), (2, b"c"), (3, b"d")]

    def test_compaction_keeps_the_last_group(self, log: EventLog) -> None:
        epoch = log.open()
        append(log, epoch, b"a")
        append(log, epoch, b"b", b"c")
        for before in (3, 99):
            assert log.compact(before, epoch, appends_max=9) is False
            assert list(log.read()) == [(1, b"b"), (2, b"c")]

    def test_a_slice_removes_a_bounded_number_and_reports_whether_more_remain(
        self, log: EventLog
    ) -> None:
        epoch = log.open()
        for number in range(6):
            append(log, epoch, b"%d" % number)
        assert log.compact(5, epoch, appends_max=2) is True
        assert log.start() == LogStart(2, 2)
        assert log.compact(5, epoch, appends_max=2) is True
        assert log.compact(5, epoch, appends_max=2) is False
        assert log.compact(5, epoch, appends_max=2) is False
        assert log.start() == LogStart(5, 5)

    def test_only_the_writer_may_compact(self, store: LogHandles) -> None:
        zombie, writer = store.handle(), store.handle()
        old = zombie.open()
        append(zombie, old, b"a")
        append(zombie, old, b"b")
        store.lose(zombie)
        new = writer.open()
        with pytest.raises(StoreError, match="fenced"):
            zombie.compact(1, old, appends_max=9)
        writer.close()
        with pytest.raises(StoreError, match="not open"):
            writer.compact(1, new, appends_max=9)
        assert records_of(store.handle()) == [b"a", b"b"]

    def test_a_reader_beyond_the_cut_is_not_disturbed(self, store: LogHandles) -> None:
        writer, reader = store.handle(), store.handle()
        epoch = writer.open()
        for number in range(5):
            append(writer, epoch, b"%d" % number)
        reading = reader.read(3)
        assert next(reading) == (3, b"3")
        writer.compact(3, epoch, appends_max=9)
        append(writer, epoch, b"5")
        assert list(reading) == [(4, b"4"), (5, b"5")]

    def test_a_reader_whose_next_record_was_removed_raises(self, store: LogHandles) -> None:
        writer, reader = store.handle(), store.handle()
        epoch = writer.open()
        append(writer, epoch, *[b"%d" % n for n in range(300)])
        for number in range(300, 1_000):  # more than a reader holds at a time
            append(writer, epoch, b"%d" % number)
        reading = reader.read()
        assert next(reading) == (0, b"0")
        writer.compact(999, epoch, appends_max=1_000)
        with pytest.raises(StoreError, match=r"compacted meanwhile and now begins at record 999"):
            list(reading)
        assert records_of(reader) == [b"999"]

    @settings(
        max_examples=20,
        deadline=None,
        suppress_health_check=_INHERITED,
    )
    @given(groups=RECORDS, cuts=st.lists(st.integers(0, 50), max_size=3))
    def test_any_cut_leaves_whole_groups(
        self, tmp_path_factory: pytest.TempPathFactory, groups: list[list[bytes]], cuts: list[int]
    ) -> None:
        """The rest of a log is its tail, from the group that contains the cut."""
        store = LogHandles(self.new_log(tmp_path_factory.mktemp("log")), self.lose)
        log = store.handle()
        epoch = log.open()
        firsts = [0]
        for group in groups:
            append(log, epoch, *group)
            firsts.append(log.count())
        flat = list(enumerate(record for group in groups for record in group))
        for cut in cuts:
            log.compact(cut, epoch, appends_max=99)
        start = max((f for f in firsts[:-1] if f <= max(cuts, default=0)), default=0)
        assert log.start() == LogStart(start, start)
        store.close()
        assert list(store.handle().read()) == flat[start:]
