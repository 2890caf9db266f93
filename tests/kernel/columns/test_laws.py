"""The laws of column batches, over more than 2 000 and 1 000 random batches; soaks search on."""

from collections import Counter

import pytest

from tests.kernel.columns.laws import REFUSALS, run_law_a, run_law_b

WORLDS_A, WORLDS_B = 112, 64
PARTS = 8


@pytest.mark.timeout(600)  # ten seconds alone, and many times as long while CI traces
def test_arrays_and_rows_write_the_same_records() -> None:
    seen: Counter[str] = Counter()
    assert sum(run_law_a(seed, seen) for seed in range(WORLDS_A)) > 2_000
    missing = {name for name in REFUSALS if not seen[name]}
    assert not missing, seen


@pytest.mark.timeout(600)
def test_a_column_batch_decides_as_ordinary_batches() -> None:
    assert sum(map(run_law_b, range(WORLDS_B))) > 1_000


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1_000, 3_000, 100))
def test_laws_of_larger_worlds(first: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(first, first + 100):
        run_law_a(seed, seen, size=60, ticks=12)
        run_law_b(seed, size=40)
