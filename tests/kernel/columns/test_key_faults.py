"""A rule that names a row which is not there, or that it does not claim, is told which."""

from collections.abc import Callable
from typing import Any

import pytest

from placet.kernel import ColumnBatch, Domain, Field, Kernel, KernelConfig, Kind, Table
from placet.kernel.plugin.rows import RowKeyError

RULES: dict[str, tuple[Callable[[Any], None], str]] = {
    "claim": (
        lambda rows: rows.claim("den.holes", rows.payload["hole"]),
        r"it claims row 7 of den\.holes, which has the rows 0\.\.2; -1 stands for no row",
    ),
    "add": (
        lambda rows: rows.add("den.holes", rows.payload["hole"], "coins", 1),
        r"it adds row 7 of den\.holes",
    ),
    "put": (
        lambda rows: rows.put("den.holes", rows.payload["hole"] % 3, "coins", 1),
        r"it puts into row 1 of den\.holes without a claim",
    ),
}


def den(rule: Callable[[Any], None], **options: Any) -> Kernel:
    class Den(Domain):
        name, version = "den", "1"
        tables = (
            Table("den.foxes", {"x": Field("i4")}),
            Table("den.holes", {"coins": Field("i4")}, rows=3),
        )
        kinds = (Kind("Dig", {"hole": Field("i4")}, rows=rule, table="den.foxes"),)

    kernel = Kernel(Den(), KernelConfig(**options))
    kernel.register_population("foxes", 3, table="den.foxes")
    return kernel


@pytest.mark.parametrize("uses_arrays", [True, False])
@pytest.mark.parametrize("rule", RULES)
def test_a_key_at_fault_is_named(rule: str, uses_arrays: bool) -> None:
    called, message = RULES[rule]
    kernel = den(called, on_rule_error="raise")
    kernel.uses_arrays = uses_arrays
    batch = ColumnBatch("Dig", "foxes", {"hole": [7, 7, 7]}, "dig:1")
    count = kernel.record_count
    with pytest.raises(RowKeyError, match=message):
        kernel.step(1.0, [batch])
    assert kernel.record_count == count


@pytest.mark.parametrize("uses_arrays", [True, False])
@pytest.mark.parametrize("rule", RULES)
def test_a_key_at_fault_refuses_its_row_and_is_reported_once(rule: str, uses_arrays: bool) -> None:
    called, message = RULES[rule]
    kernel = den(called)
    kernel.uses_arrays = uses_arrays
    faults: list[str] = []
    kernel.rules.on_fault = lambda where, error: faults.append(f"{where}: {error}")
    batch = ColumnBatch("Dig", "foxes", {"hole": [7, -1, 7]}, "dig:1")
    (verdict,) = kernel.step(1.0, [batch])
    assert verdict.counts()["rule_error"] == (3 if rule == "put" else 2)
    assert len(faults) == 1
    intent = kernel.intent("Dig", {"hole": 7}, agent="foxes:1")
    assert kernel.decide(intent).codes == ("rule_error",)
    assert message.replace("\\", "").split(";")[0] in faults[1]
