"""A record of a column batch read as arrays equals the verdict on the batch."""

import msgspec
import numpy as np
import pytest

from placet.kernel import ColumnBatch, KernelConfig, RecordList
from placet.kernel.arrays.row_codes import BOUNDS, OK, ROW_CODES, refusal_of
from placet.kernel.columns.recorded import RecordedColumns, distinct_rows
from placet.schemas.log.column_records import ColumnWrite
from placet.schemas.log.column_summary import ROW_CODES_BY_NUMBER, refused_rows, rows_of
from placet.schemas.log.record import Columns, TableMade, decode_record, record_as_dict
from placet.schemas.refusal import Stage
from tests.kernel.columns.lab import KINDS, Lab, lab_kernel, payload_of

N, CELLS = 9, 12


def decided(kind, agents=None, seed=1, context=None):
    """Return the record of a batch and its verdict."""
    log, rng = RecordList(), np.random.default_rng(seed)
    kernel = lab_kernel(N, CELLS, KernelConfig(seed=seed), sink=log)
    birds = kernel.register_population(
        "birds", N, table="lab.agents", position=np.full((N, 2), 500.0), cell=np.arange(N)
    )
    who = np.arange(N) if agents is None else np.array(agents)
    payload = payload_of(rng, kind, who, N, CELLS, birds["position"])
    batch = ColumnBatch(kind, "birds", payload, "r:1", agents=agents, context_seq=context)
    (verdict,) = kernel.step(1.0, [batch])
    record = next(
        record for data in reversed(log) if isinstance(record := decode_record(data), Columns)
    )
    return kernel, RecordedColumns(record, N), verdict, payload


@pytest.mark.parametrize("agents", [None, [4, 0, 7]])
@pytest.mark.parametrize("kind", KINDS)
def test_a_recorded_batch_has_the_codes_of_its_verdict(kind, agents):
    for seed in range(4):
        _, columns, verdict, payload = decided(kind, agents, seed)
        numbers = list(range(N)) if agents is None else agents
        assert columns.numbers.tolist() == numbers
        assert len(columns) == len(numbers)
        counts = {name: count for name, count in verdict.counts().items() if name != "admitted"}
        assert {reason.code: count for reason, count in columns.refusals()} == counts
        assert refused_rows(columns.record) == dict(sorted(counts.items()))
        # A batch of all members, all admitted, with an empty payload does not say how many.
        has_count = agents is not None or payload or counts
        assert rows_of(columns.record) == (len(numbers) if has_count else None)
        assert columns.numbers[columns.admitted].tolist() == [
            number for number, code in zip(numbers, verdict.codes, strict=True) if not code
        ]
        assert columns.refused.tolist() == np.flatnonzero(verdict.codes).tolist()
        assert columns.winners.tolist() == verdict.winners.tolist()
        for name, values in payload.items():
            assert np.array_equal(columns.payload[name], values, equal_nan=True)
        for code in set(verdict.codes.tolist()) - {0}:
            assert refusal_of(columns.record.reasons, code).code == verdict.code_of(code)


def test_changed_rows_are_those_that_differ():
    for kind in ("Settle", "Give", "Take", "Trade"):
        kernel, columns, verdict, _ = decided(kind, seed=3)
        assert verdict.admitted.any()
        changed = columns.changed_rows()
        for name, rows in changed.items():
            stamped = np.flatnonzero(kernel.tree.tables[name].seqs == verdict.seq)
            assert rows.tolist() == stamped.tolist()


def test_contexts_are_one_or_one_a_row():
    kernel, columns, _, _ = decided("Roll")
    assert columns.contexts == kernel.seq - 2  # its own seq and that of the tick came after
    contexts = np.arange(N) % 2
    assert decided("Roll", context=contexts)[1].contexts.tolist() == contexts.tolist()


def test_a_code_that_no_gate_writes_is_named():
    reasons = decided("Fragile")[1].record.reasons
    assert refusal_of(reasons, 1).stage is Stage.STRUCTURE
    assert refusal_of(reasons, 255).code == "code 255"


@pytest.mark.parametrize(
    ("targets", "rows", "places"),
    [
        ([[0, 3, 4]], [0, 3, 4], [[0, 1, 2]]),
        ([[]], [], [[]]),
        ([[4, 3]], [3, 4], [[1, 0]]),
        ([[-1, 2]], [2], [[-1, 0]]),
        ([[2, -1], [5, 2]], [2, 5], [[0, -1], [1, 0]]),
        ([[-1, -1]], [], [[-1, -1]]),
    ],
)
def test_distinct_rows_have_their_places(targets, rows, places):
    found, at = distinct_rows([np.array(target, np.int64) for target in targets])
    assert found.tolist() == rows
    assert [each.tolist() for each in at] == places


def test_puts_of_the_payload_and_of_other_values_are_read():
    kernel, columns, _, payload = decided("Settle", seed=3)
    sizes = {name: dict.fromkeys(table.fields, ()) for name, table in kernel.tree.tables.items()}
    put = {(call.table, call.field): call for call in columns.calls(sizes)}
    assert put["lab.agents", "cell"].values.tolist() == payload["cell"][columns.admitted].tolist()
    assert put["lab.agents", "cell"].at is None
    assert columns.targets(None).tolist() == columns.numbers[columns.admitted].tolist()
    assert put["lab.cells", "who"].values.tolist() == [-1] * len(columns.admitted)


def test_a_table_that_is_only_added_to_needs_no_shape_of_another():
    _, columns, _, _ = decided("Give", seed=3)
    sizes = {
        "lab.agents": {name: field.sizes for name, field in Lab(N, 1).tables[0].fields.items()}
    }
    calls = columns.calls(sizes)
    assert {call.op for call in calls} == {"add"}
    assert all(call.at is not None and len(call.at) == len(call.values) for call in calls)


def test_the_codes_of_rows_have_one_name_in_summaries_and_in_verdicts():
    names = {
        code: name for code, name in enumerate(ROW_CODES_BY_NUMBER) if code not in {OK, BOUNDS}
    }
    assert names == {number: reason.code for number, reason in ROW_CODES.items()}


def test_summaries_hold_counts_and_no_rows():
    _, columns, _, _ = decided("Give", seed=3)
    summary = record_as_dict(columns.record)
    assert summary["rows"] == N
    assert summary["refused"] == sum(summary["refusals"].values()) == len(columns.refused) > 0
    assert summary["columns"] == ["lab.agents/money"]
    assert not any(isinstance(value, bytes) for value in summary.values())


def test_a_batch_without_payload_and_refusals_does_not_hold_its_number_of_rows():
    record = msgspec.structs.replace(
        decided("Roll")[1].record, agents=b"", codes=b"", payload=[], changes=[]
    )
    assert rows_of(record) is None
    assert RecordedColumns(record, N).refusals() == []


def test_the_summary_of_a_table_has_its_fields_and_its_population():
    log = RecordList()
    kernel = lab_kernel(N, CELLS, KernelConfig(), sink=log)
    kernel.register_population("birds", N, table="lab.agents", cell=np.arange(N))
    made = [record for data in log if isinstance(record := decode_record(data), TableMade)]
    cells, agents = map(record_as_dict, made)
    assert cells["population"] is None
    assert agents["population"]["owner"] == "operator"
    assert (agents["stem"], agents["count"], agents["given"]) == ("birds", N, ["cell"])
    assert agents["fields"]["position"]["shape"] == [2]
    written = msgspec.structs.replace(
        made[1],
        written=[ColumnWrite("lab.agents", "cell", b"", b""), ColumnWrite("t", "f", b"abcd", b"")],
    )
    assert record_as_dict(written)["columns"] == [
        {"field": "lab.agents/cell", "rows": N},
        {"field": "t/f", "rows": 1},
    ]
