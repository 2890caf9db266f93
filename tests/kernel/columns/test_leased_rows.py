"""Leased rows of tables: a column batch is refused row by row, and the holder is not."""

from typing import Any

import numpy as np
import pytest

from placet.kernel import ColumnBatch, Domain, KernelConfig, Kind
from placet.schemas.config import Leases
from tests.kernel.columns.lab import lab_kernel

N, CELLS = 6, 9


class Lamps(Domain):
    """A domain with an entity that is no row."""

    name, version = "lamps", "1"
    kinds = (Kind("Light", dict[str, int], lambda draft, intent: None),)

    def on_open(self, draft: Any) -> None:
        draft.create("lamps.things", "lamp", {})


def opened(*, uses_arrays: bool) -> Any:
    config = KernelConfig(leases=Leases(), seed=3)
    kernel = lab_kernel(N, CELLS, config, more=[Lamps()])
    kernel.uses_arrays = uses_arrays
    kernel.register_population(
        "birds", N, table="lab.agents", position=np.full((N, 2), 500.0), cell=np.arange(N)
    )
    kernel.register_agent("painter")
    return kernel


def still(kernel: Any) -> dict[str, Any]:
    """Return the payload of a Move of all members to where they are."""
    return {"to": kernel.population("birds")["position"]}


def lease(kernel: Any, who: str, *refs: list[str], seconds: float = 5.0) -> None:
    ask = kernel.intent("placet.lease", {"refs": list(refs), "seconds": seconds}, agent=who)
    verdict = kernel.decide([ask], 0.0)
    assert verdict.results[0].output["granted"], verdict


@pytest.mark.parametrize("uses_arrays", [True, False])
def test_rows_that_would_change_a_leased_row_are_refused(uses_arrays):
    kernel = opened(uses_arrays=uses_arrays)
    lease(kernel, "painter", ["lab.agents", "birds:1"])
    lease(kernel, "birds:2", ["lab.agents", "birds:2"])
    lease(kernel, "birds:3", ["lab.agents", "birds:4"])
    verdict = kernel.decide_columns(ColumnBatch("Move", "birds", still(kernel), "a"))
    held = [verdict.code_of(code) for code in verdict.codes.tolist()]
    assert [row for row, code in enumerate(held) if code == "leased"] == [1, 4]
    refusal = verdict[1].refusals[0]
    assert (refusal.code, refusal.stage) == ("leased", "domain")
    assert refusal.message == (
        "it would change a row that another agent has leased; retry in 5.00 s, or lease the row "
        "first"
    )
    assert verdict.retry_after[[1, 4]].tolist() == [5.0, 5.0]
    assert refusal.retry_after == 5.0
    assert np.isnan(verdict.retry_after[[0, 2, 3, 5]]).all()
    alone = kernel.intent("Move", {"to": [500.5, 500.0]}, agent="birds:1")
    assert kernel.decide([alone], 0.0).codes == ("leased",)  # as an ordinary intent


@pytest.mark.parametrize("uses_arrays", [True, False])
def test_leases_of_other_tables_and_of_objects_hold_up_no_row(uses_arrays):
    kernel = opened(uses_arrays=uses_arrays)
    lease(kernel, "painter", ["lab.cells", "cells:1"], ["lamps.things", "lamp"])
    verdict = kernel.decide_columns(ColumnBatch("Move", "birds", still(kernel), "a"))
    assert verdict.admitted.all()
    lease(kernel, "birds:5", ["lab.agents", "birds:0"])
    verdict = kernel.decide_columns(ColumnBatch("Move", "birds", still(kernel), "b"))
    assert verdict.counts() == {"admitted": N - 1, "leased": 1}
    assert verdict.admitted.tolist() == [False, *[True] * (N - 1)]


def test_a_batch_that_claims_a_leased_row_is_refused_before_its_claims():
    kernel = opened(uses_arrays=True)
    lease(kernel, "painter", ["lab.cells", "cells:7"])
    to = {"cell": np.array([7, 7, 8, 8, 6, 6])}
    verdict = kernel.decide_columns(ColumnBatch("Settle", "birds", to, "a"))
    codes = [verdict.code_of(code) for code in verdict.codes.tolist()]
    assert codes[:2] == ["leased", "leased"]
    assert sorted(codes[2:]) == ["admitted", "admitted", "conflict", "conflict"]
