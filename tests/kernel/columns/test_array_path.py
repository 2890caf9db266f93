"""The path of the arrays of a column batch: what is kept, viewed and recorded."""

import sys
from typing import Any

import numpy as np
import pytest

from placet.kernel import ColumnBatch, Domain, Field, Kernel, KernelConfig, Kind, RecordList, Table
from placet.kernel.arrays.words import put_rows
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


def test_a_tick_makes_no_object_a_row() -> None:
    n, before = 20_000, 0
    blocks: list[int] = []

    def note(_record: bytes) -> None:
        blocks.append(sys.getallocatedblocks())

    kernel = lab_kernel(n, n, KernelConfig(seed=1), sink=note)
    handle = kernel.register_population("birds", n, table="lab.agents")
    rng = np.random.default_rng(1)
    for number in range(3):  # the first ticks fill the caches of names
        to = np.clip(handle["position"] + rng.uniform(-0.8, 0.8, (n, 2)), 0, None)
        batch = ColumnBatch("Move", "birds", {"to": to}, f"a:{number}", agents=rng.permutation(n))
        blocks.clear()
        before = sys.getallocatedblocks()
        kernel.step(1.0, [batch])
    assert max(blocks) - before < 2_000


def test_a_column_is_named_by_the_first_payload_of_equal_bytes() -> None:
    class Twins(Domain):
        name, version = "twins", "1"
        tables = (Table("twins.all", {"a": Field("f8")}),)
        kinds = (Kind("Set", {"x": Field("f8"), "y": Field("f8")}, rows=set_a, table="twins.all"),)

    log = RecordList()
    kernel = Kernel(Twins(), KernelConfig(seed=1), sink=log)
    kernel.register_population("t", 70, table="twins.all")
    values = np.zeros(70)
    late = values.copy()
    late[-1] = -0.0  # equal as a number, not in its bytes
    for number, y in enumerate((values.copy(), late)):
        kernel.step(1.0, [ColumnBatch("Set", "t", {"x": values, "y": y}, f"s:{number}")])
        assert [change.column for change in record_of(log).changes] == ["x" if number == 0 else "y"]


def set_a(rows: Any) -> None:
    rows.write("a", rows.payload["y"])


@pytest.mark.parametrize("shape", [(5,), (5, 2), (5, 3, 2)])
@pytest.mark.parametrize("dtype", ["f8", "i2", "u1"])
def test_rows_are_put_as_items_of_any_shape(shape: tuple[int, ...], dtype: str) -> None:
    count = int(np.prod(shape))
    column, expected = np.zeros(shape, dtype), np.zeros(shape, dtype)
    values = np.arange(count).reshape(shape)[:3].astype(dtype)
    rows = np.array([4, 0, 2])
    put_rows(column, rows, values)
    expected[rows] = values
    assert column.tolist() == expected.tolist()
    sliced = np.zeros((5, 4), dtype)[:, ::2]  # its rows are not contiguous
    put_rows(sliced, rows, np.ones((3, 2)))
    assert sliced.sum() == 6
    put_rows(column, rows[:0], values[:0])
    put_rows(column[:0], rows[:0], values[:0])


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_quota_refuses_the_rows_beyond_its_burst(is_whole: bool) -> None:
    log = RecordList()
    config = KernelConfig(seed=1, quotas={"Roll": {"rate": 1.0, "burst": 2}})
    kernel = lab_kernel(4, 4, config, sink=log)
    kernel.register_population("birds", 4, table="lab.agents")
    who = None if is_whole else np.array([2, 0, 3, 1])
    codes: list[dict[str, int]] = []
    for number in range(4):
        x = np.zeros(4, np.int16)
        batch = ColumnBatch("Fragile", "birds", {"x": x}, f"f:{number}", agents=who)
        roll = ColumnBatch("Roll", "birds", {"x": x}, f"r:{number}", agents=who)
        verdict: Any = kernel.step(0.0, [batch, roll])[1]
        codes.append(verdict.counts())
    refused = [found.get("quota_exceeded", 0) for found in codes]
    assert refused[0] == 0
    assert refused[-1] > 0
    assert refused == sorted(refused)
