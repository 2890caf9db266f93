"""A `ColumnBatch` holds the arrays that it was made with."""

from typing import Any

import numpy as np
import pytest

from placet.history.column_rows import row_of
from placet.kernel import ColumnBatch, KernelConfig, RecordList
from placet.kernel.columns.recorded import RecordedColumns
from placet.kernel.log.replay import folded
from placet.kernel.log.snapshot import world_digest
from placet.kernel.log.verify import Verifier
from placet.schemas.log.column_records import Columns
from placet.schemas.log.column_summary import rows_of
from placet.schemas.log.record import decode_record
from tests.kernel.columns.lab import lab, lab_kernel


def test_arrays_of_a_batch_are_the_given_objects():
    to, who = np.zeros((3, 2)), np.arange(3)
    batch = ColumnBatch("Move", "birds", {"to": to}, "m:1", agents=who, context_seq=who)
    assert batch.payload["to"] is to
    assert batch.agents is who
    assert batch.context_seq is who


@pytest.mark.parametrize("none", [[], np.zeros(0, int)])
@pytest.mark.parametrize("uses_arrays", [True, False])
@pytest.mark.parametrize(
    ("kind", "payload"), [("Swap", {}), ("Move", {"to": []}), ("Move", {"to": np.zeros((0, 2))})]
)
def test_batch_without_rows_leaves_its_record_and_changes_nothing(
    none: Any, kind: str, payload: dict[str, Any], uses_arrays: bool
) -> None:
    log = RecordList()
    kernel = lab_kernel(3, 4, KernelConfig(), sink=log)
    kernel.uses_arrays = uses_arrays
    kernel.register_population("birds", 3, table="lab.agents")
    before, seq = kernel.digest(), kernel.seq
    batch = ColumnBatch(kind, "birds", payload, "m:1", agents=none)
    verdict = kernel.decide_columns(batch)
    assert (verdict.counts(), len(verdict), list(verdict)) == ({}, 0, [])
    assert (verdict.seq, kernel.seq, kernel.digest()) == (None, seq, before)
    assert kernel.decide_columns(batch).replayed
    record = decode_record(log[-1])
    assert isinstance(record, Columns)
    assert (rows_of(record), row_of(record, "birds:0")) == (0, None)
    columns = RecordedColumns(record, 3)
    assert (len(columns), columns.refusals(), columns.changed_rows()) == (0, [], {})
    again = Verifier([lab(3, 4)])
    for data in log:
        again.apply(data)
    for replay in (again, folded(log)):
        assert world_digest(replay.state, replay.ledger).hex() == kernel.world_digest()


def test_batch_without_rows_is_another_request_than_one_of_all_members() -> None:
    kernel = lab_kernel(3, 4, KernelConfig())
    kernel.register_population("birds", 3, table="lab.agents")
    kernel.decide_columns(ColumnBatch("Swap", "birds", {}, "m:1", agents=[]))
    verdict = kernel.decide_columns(ColumnBatch("Swap", "birds", {}, "m:1"))
    assert verdict.counts() == {"req_id_reused": 3}
