"""The path of the arrays of a column batch: what is kept, viewed and recorded."""

from typing import Any

import numpy as np
import pytest

from placet.kernel import ColumnBatch, Kernel, KernelConfig, RecordList
from placet.schemas.log.column_records import Columns
from placet.schemas.log.record import decode_record
from tests.kernel.columns.lab import lab_kernel


def world(n: int = 6, **options: Any) -> tuple[Kernel, RecordList]:
    """Return a lab with a population, and its log."""
    log = RecordList()
    kernel = lab_kernel(n, n, KernelConfig(seed=1), sink=log, **options)
    kernel.register_population("birds", n, table="lab.agents", position=np.full((n, 2), 500.0))
    return kernel, log


def record_of(log: RecordList) -> Columns:
    """Return the latest record of a column batch."""
    records = [decode_record(data) for data in log]
    return next(record for record in reversed(records) if isinstance(record, Columns))


def test_a_column_batch_holds_the_arrays_of_its_caller() -> None:
    to = np.zeros((3, 2))
    assert ColumnBatch("Move", "birds", {"to": to}, "a:0").payload["to"] is to


def test_a_column_batch_explains_an_unknown_keyword() -> None:
    with pytest.raises(TypeError, match="ColumnBatch has no parameter 'request'; there are kind"):
        ColumnBatch("Move", "birds", {}, request="a:0")  # type: ignore[call-arg]  # the mistake


@pytest.mark.parametrize("context", [1, np.int64(1), np.uint8(1)])
def test_one_context_of_all_rows_is_recorded_as_an_int(context: Any) -> None:
    kernel, log = world()
    batch = ColumnBatch("Move", "birds", {"to": np.full((6, 2), 500.5)}, "a:0", None, context)
    kernel.step(1.0, [batch])
    assert record_of(log).contexts == 1
