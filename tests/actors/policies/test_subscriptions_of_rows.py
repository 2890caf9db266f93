"""A staleness scope that read rows of a table is notified when a column batch changes them."""

import numpy as np
import pytest

from placet.actors.policies.subscriptions import SubscriptionTable
from placet.kernel import ColumnBatch, RecordList
from placet.schemas.identity import Ref
from placet.schemas.log.record import LogAppend
from tests.actors.observation.flock import flock_kernel, near_birds

N = 12


class Reader:
    """A subscription that keeps what it is notified of."""

    threshold = None

    def __init__(self, agent_id, *rows, is_wide=False):
        self.agent_id, self.context_seq = agent_id, 0
        self.footprint = None if is_wide else frozenset(Ref("flock.birds", row) for row in rows)
        self.changes = []

    def saw(self, ref):
        return True

    def note(self, change):
        self.changes.append(change)

    def advance(self, seqs):
        raise AssertionError("it has no threshold")

    def fail(self, error):
        raise error

    def end(self):
        raise AssertionError("no agent is removed")


def published(sight, agents, *readers):
    """Let birds fly, all or some, and publish the record; return the seq of the batch."""
    log = RecordList()
    kernel = flock_kernel(sight, n=N, sink=log)
    table = SubscriptionTable(kernel.registry, lambda: kernel.tree)
    for reader in readers:
        reader.context_seq = kernel.seq
        table.add(reader)
    before, seq = len(log), kernel.seq
    count = N if agents is None else len(agents)
    to = np.full((count, 2), 50.0)
    (verdict,) = kernel.step(1.0, [ColumnBatch("Fly", "birds", {"to": to}, "m:1", agents=agents)])
    table.publish(LogAppend(before, seq, kernel.seq, list(log)[before:]))
    return verdict.seq


@pytest.mark.parametrize("sight", [None, near_birds(500.0)], ids=["open", "near"])
@pytest.mark.parametrize("agents", [None, [3, 5]])
def test_readers_of_changed_rows_are_notified(sight, agents):
    readers = [
        Reader("w0", "birds:5"), Reader("w0", "birds:4"), Reader("birds:3", "birds:3"),
        Reader("w0", is_wide=True), Reader("w0", "birds:99"),
    ]  # fmt: skip
    seq = published(sight, agents, *readers)
    first, second, own, wide, none = (reader.changes for reader in readers)
    assert [(change.entity, change.seq) for change in first] == [("flock.birds/birds:5", seq)]
    assert [change.by for change in first] == ["birds:5" if sight is None else None]
    assert len(second) == (1 if agents is None else 0)
    assert own == []
    assert [change.entity for change in wide] == ["flock.birds"]
    assert none == []
