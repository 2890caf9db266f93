"""Snapshots along a log: a replay to any place begins nearby, and ends at the same world."""

import pytest

from placet.history.explain import explain
from placet.history.timeline import ledgers
from placet.history.timeline.ledgers import LedgerFrames, write_ledgers
from placet.kernel.log import snapshot as snapshots
from placet.stores.snapshots.recovery import recover
from tests.history.timeline.played_logs import log_of, world_records


@pytest.fixture
def along(monkeypatch, tmp_path):
    """A log with a snapshot every few seqs, in a folder."""
    monkeypatch.setattr(ledgers, "LEDGER_SEQS", 7)
    log = log_of(world_records(ticks=12))
    files = LedgerFrames(tmp_path / "frames", None)
    assert write_ledgers(log, files) > 2
    return log, files


def test_a_replay_from_a_snapshot_along_the_log_ends_at_the_same_world(along):
    log, files = along
    folded = []
    for record in range(1, log.count() + 1):
        near = recover(log, to_record=record, files=files)
        whole = recover(log, to_record=record).past
        assert snapshots.world_digest(near.past.state, near.past.ledger) == snapshots.world_digest(
            whole.state, whole.ledger
        )
        folded.append(near.folded)
    assert max(folded) < 20 < len(folded)


def test_an_explanation_is_the_same_from_there(along):
    log, files = along
    assert explain(log, "cyd", "9", files=files) == explain(log, "cyd", "9")


def test_a_second_pass_writes_only_what_is_new(along):
    log, files = along
    before = files.along()
    assert write_ledgers(log, files) == 0
    files.remove(before[:1])
    assert write_ledgers(log, files) == 1
    assert files.along() == before


def test_a_damaged_snapshot_is_left_out(along):
    log, files = along
    place = files.along()[0]
    path = files.folder / f"{place.records:012d}-{place.seq:012d}.ledger"
    data = path.read_bytes()
    path.write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])
    past = recover(log, files=files)
    assert past.snapshot == files.along()[1]
    assert "is not used" in past.skipped[0]
