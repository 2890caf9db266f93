"""Rules of rows that raise: how many calls they cost, and the names that their errors suggest."""

from typing import Any

import numpy as np
import pytest

from placet.kernel import ColumnBatch, Domain, Field, Kernel, KernelConfig, Kind, RecordList, Table
from placet.kernel.columns import decide, row_by_row
from placet.kernel.columns.verdict import ColumnVerdict

N = 64
FAULTS = 5


class Faulty(Domain):
    name, version = "faulty", "1"
    tables = (Table("faulty.rows", {"value": Field("i4")}),)

    def __init__(self, rule: Any) -> None:
        self.calls = 0

        def counted(rows: Any) -> None:
            self.calls += 1
            rule(rows)

        self.kinds = (Kind("Do", {"to": Field("i4")}, rows=counted, table="faulty.rows"),)


def decided(rule: Any, payload: Any, *, uses_arrays: bool) -> tuple[ColumnVerdict, Any, bytes, int]:
    log, domain = RecordList(), Faulty(rule)
    kernel = Kernel(domain, KernelConfig(seed=3), sink=log)
    kernel.uses_arrays = uses_arrays
    rows = kernel.register_population("rows", len(payload), table="faulty.rows")
    (verdict,) = kernel.step(1.0, [ColumnBatch("Do", rows, {"to": payload}, req_id="do:0")])
    return verdict, kernel.world_digest(), log[-2], domain.calls


def raising_at_one(rows: Any) -> None:
    if (rows.payload["to"] == 1).any():
        raise ArithmeticError("one")
    rows.write("value", rows.payload["to"] + 1)


def always(rows: Any) -> None:
    raise ArithmeticError("always")


def misshapen_at_one(rows: Any) -> None:
    """Raise at some rows, and write an array of the shape of no row at others."""
    raising_at_one(rows)
    if (rows.payload["to"] == 2).any():
        rows.write("value", np.zeros((2, 2)))


@pytest.fixture(autouse=True)
def few_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (decide, row_by_row):
        monkeypatch.setattr(module, "ROW_FAULTS_MAX", FAULTS)


def payloads() -> list[Any]:
    rng = np.random.default_rng(1)
    drawn = [(rng.random(N) < share).astype(int) for share in (0.02, 0.1, 0.5, 1.0)]
    edges = [np.arange(N) < FAULTS, np.arange(N) >= N - FAULTS, np.arange(N) > N - FAULTS]
    return [*drawn, *(edge.astype(int) for edge in edges), np.zeros(N, int)]


@pytest.mark.parametrize("rule", [raising_at_one, always])
@pytest.mark.parametrize("payload", payloads(), ids=lambda each: f"{each.sum()}")
def test_both_executions_stop_at_the_same_row(rule, payload):
    first = decided(rule, payload, uses_arrays=True)
    second = decided(rule, payload, uses_arrays=False)
    assert first[0].codes.tolist() == second[0].codes.tolist()
    assert first[1:3] == second[1:3]


def test_rows_are_refused_unseen_after_the_last_fault_that_is_looked_for():
    payload = np.zeros(N, int)
    payload[::4] = 1
    verdict, *_ = decided(raising_at_one, payload, uses_arrays=True)
    last = 4 * (FAULTS - 1)
    expected = [row for row in range(last) if row % 4]
    assert np.flatnonzero(verdict.admitted).tolist() == expected
    assert (verdict.population, verdict.numbers.tolist()) == ("rows", list(range(N)))
    assert set(verdict.counts()) == {"admitted", "rule_error"}
    assert f"raised for {FAULTS} rows" not in str(verdict[0].refusals)
    assert "rows before this one" in str(verdict[N - 1].refusals[0].message)


def test_a_rule_that_always_raises_is_called_a_bounded_number_of_times():
    calls = [decided(always, np.zeros(n, int), uses_arrays=True)[3] for n in (256, 4_096)]
    assert calls[1] <= calls[0] + 4  # one more for each further halving
    assert decided(always, np.zeros(256, int), uses_arrays=False)[3] == FAULTS


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (lambda rows: rows.own["valeu"], "did you mean 'value'"),
        (lambda rows: rows.payload["too"], "did you mean 'to'"),
        (lambda rows: rows.table("faulty.row"), "did you mean 'faulty.rows'"),
        (lambda rows: rows.table("faulty.rows")["valu"], "did you mean 'value'"),
        (lambda rows: rows.write("vlaue", 1), "did you mean 'value'"),
        (lambda rows: rows.claim("faulty.rowz", rows.numbers), "did you mean 'faulty.rows'"),
    ],
)
@pytest.mark.parametrize("uses_arrays", [True, False])
def test_the_error_of_a_misspelled_name_suggests_one(read, text, uses_arrays):
    faults = []

    def rule(rows: Any) -> None:
        try:
            read(rows)
        except KeyError as error:
            faults.append(str(error))
            raise

    verdict, *_ = decided(rule, np.zeros(2, int), uses_arrays=uses_arrays)
    assert verdict.counts() == {"rule_error": 2}
    assert text in faults[0]


def test_the_payload_answers_for_a_field_that_it_lacks_as_a_mapping():
    seen = []
    decided(lambda rows: seen.append(rows.payload.get("none")), np.zeros(1, int), uses_arrays=True)
    assert seen == [None]
