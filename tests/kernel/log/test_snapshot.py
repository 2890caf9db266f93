"""A world resumed from a snapshot continues identically."""

import msgspec
import pytest
from hypothesis import example, given, settings

from placet.kernel.log import snapshot as snapshots
from placet.kernel.log.replay import Replayer, folded
from placet.schemas.log.record import Checkpoint, decode_record
from placet.schemas.log.snapshot import Snapshot, decode_snapshot, encode_snapshot
from tests.kernel.builders import add, kernel_of, reused
from tests.kernel.traces import SETTINGS, TRACES, random_trace, run_trace, time_of
from tests.levels import examples

EACH_SETTING = pytest.mark.parametrize("setting", SETTINGS)


def through_bytes(past: Replayer) -> Replayer:
    """Take a snapshot, write it, read it, and continue from it."""
    return snapshots.resume(decode_snapshot(encode_snapshot(snapshots.take(past))))


def facts(past: Replayer) -> list[object]:
    """Return all state of a fold."""
    return [snapshots.take(past), past.header, past.journal.count, past.ledger.policy]


@EACH_SETTING
@settings(max_examples=examples(20))
@given(before=TRACES, after=TRACES)
@example(before=random_trace(4), after=random_trace(5))
@example(before=random_trace(6), after=random_trace(7))
def test_a_replay_resumed_from_a_snapshot_is_identical(setting, before, after):
    """fold(log) = fold(tail, snapshot(fold(head)))."""
    kernel, log = reused(**SETTINGS[setting])
    run_trace(kernel, before)
    past = through_bytes(folded(log))
    assert facts(past) == facts(folded(log))
    length = len(log)
    run_trace(kernel, after, time_of(before))
    for data in log[length:]:
        past.apply(data)
    assert facts(past) == facts(folded(log))


@EACH_SETTING
@settings(max_examples=5)
@given(before=TRACES, after=TRACES)
@example(before=random_trace(4), after=random_trace(5))
@example(before=random_trace(8), after=random_trace(9))
def test_a_kernel_opened_from_a_snapshot_writes_identical_records(setting, before, after):
    """Kernel(snapshot) and Kernel(log) write the same bytes from there on."""
    kernel, log = reused(**SETTINGS[setting])
    run_trace(kernel, before)
    by_log, by_snapshot = list[bytes](), list[bytes]()
    one = kernel_of(history=log, sink=by_log, **SETTINGS[setting])
    other = kernel_of(history=through_bytes(folded(log)), sink=by_snapshot, **SETTINGS[setting])
    now = time_of(before)
    assert run_trace(one, after, now) == run_trace(other, after, now)
    assert by_snapshot == by_log


def test_a_snapshot_does_not_move_later_checkpoints():
    limits = {"checkpoint_groups": 3}
    log: list[bytes] = []
    kernel = kernel_of(sink=log, limits=limits)
    for number in range(11):
        kernel.decide(add(f"r{number}"))
    types = [type(decode_record(data)) for data in log]
    assert types.count(Checkpoint) == 3
    begun = 5  # header, policy, executor, two agents
    for cut in range(begun, len(log)):
        if types[cut] is Checkpoint:  # it is of one group with the batch before it
            continue
        head = log[:cut]
        again = kernel_of(history=through_bytes(folded(head)), sink=head, limits=limits)
        for number in range(11):
            again.decide(add(f"r{number}"))  # the first of them are remembered, and leave no record
        assert [type(decode_record(data)) for data in head] == types


def a_snapshot() -> Snapshot:
    log: list[bytes] = []
    kernel = kernel_of(sink=log)
    kernel.decide(add("r"))
    return snapshots.take(folded(log))


@pytest.mark.parametrize(
    "change",
    [
        {"header": b"\x01"},
        {"world": b"\x90"},
        {"world": b"nonsense"},
        {"seq": 99},
        {"now_ns": 99},
        {"state_digest": bytes(16)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_an_inconsistent_snapshot_is_refused(change):
    with pytest.raises(ValueError, match=r"no world of a known form|not the one that it tells of"):
        snapshots.resume(msgspec.structs.replace(a_snapshot(), **change))


def test_a_snapshot_with_a_wrong_header_or_settings_record_is_refused():
    one = a_snapshot()
    assert one.configured is not None
    for change in ({"header": one.configured}, {"configured": one.header}):
        with pytest.raises(ValueError, match="names another record"):
            snapshots.resume(msgspec.structs.replace(one, **change))


def test_a_snapshot_before_the_first_settings_record_is_valid():
    log: list[bytes] = []
    kernel_of(sink=log, agents=())
    past = through_bytes(folded(log[:1]))
    assert (past.configured_data, past.journal.count) == (None, 1)
    past.apply(log[1])
    assert past.configured_data == log[1]
