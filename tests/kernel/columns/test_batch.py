"""A `ColumnBatch` holds the arrays that it was made with."""

import numpy as np

from placet.kernel import ColumnBatch


def test_arrays_of_a_batch_are_the_given_objects():
    to, who = np.zeros((3, 2)), np.arange(3)
    batch = ColumnBatch("Move", "birds", {"to": to}, "m:1", agents=who, context_seq=who)
    assert batch.payload["to"] is to
    assert batch.agents is who
    assert batch.context_seq is who
