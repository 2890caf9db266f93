"""A `ColumnBatch` holds the arrays that it was made with."""

import numpy as np
import pytest

from placet.kernel import ColumnBatch, KernelConfig
from tests.kernel.columns.lab import lab_kernel


def test_arrays_of_a_batch_are_the_given_objects():
    to, who = np.zeros((3, 2)), np.arange(3)
    batch = ColumnBatch("Move", "birds", {"to": to}, "m:1", agents=who, context_seq=who)
    assert batch.payload["to"] is to
    assert batch.agents is who
    assert batch.context_seq is who


@pytest.mark.parametrize("none", [[], np.zeros(0, int)])
def test_batch_of_no_member_is_refused_because_its_record_would_be_of_all(none):
    kernel = lab_kernel(3, 4, KernelConfig())
    kernel.register_population("birds", 3, table="lab.agents")
    batch = ColumnBatch("Move", "birds", {"to": np.zeros((0, 2))}, "m:1", agents=none)
    with pytest.raises(ValueError, match="at least one member of 'birds'"):
        kernel.decide_columns(batch)
