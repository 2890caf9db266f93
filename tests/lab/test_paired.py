"""Paired differences: what an option changes, by runs with the same seed."""

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from placet.lab import paired_differences
from placet.sweeps.errors import LabError

ROWS = [
    {"seed": seed, "limit": limit, "loss": base + 10 * (limit == 5), "error": None}
    for limit in (1, 5)
    for seed, base in ((1, 100.0), (2, 300.0), (3, 200.0))
]


@pytest.mark.parametrize("table", [list, pd.DataFrame, pl.DataFrame, pa.Table.from_pylist])
def test_a_constant_difference_is_exact_however_much_the_runs_vary(table):
    (difference,) = paired_differences(table(ROWS), "limit")
    assert (difference.baseline, difference.value) == (1, 5)
    assert (difference.measure, difference.pairs) == ("loss", 3)
    assert (difference.mean_baseline, difference.mean_value) == (200.0, 210.0)
    assert (difference.low, difference.difference, difference.high) == (10.0, 10.0, 10.0)
    assert difference.is_clear


def test_the_interval_is_that_of_student_for_differences_0_10_20():
    rows = [
        *({"seed": seed, "x": 0, "y": 0} for seed in range(3)),
        *({"seed": seed, "x": 1, "y": 10 * seed} for seed in range(3)),
    ]
    (difference,) = paired_differences(rows, "x")
    assert (difference.low, difference.high) == pytest.approx((-14.841377, 34.841377))
    assert not difference.is_clear


def test_each_other_value_is_compared_with_the_baseline():
    rows = [{"seed": s, "x": x, "y": int(x) * 10} for x in ("3", "1", "2") for s in range(2)]
    differences = paired_differences(rows, "x", baseline="1")
    assert [(d.value, d.difference) for d in differences] == [("3", 20.0), ("2", 10.0)]


def test_other_options_of_the_sweep_are_part_of_the_pair():
    rows = [
        {"seed": seed, "a": a, "b": b, "y": 100 * b + a}
        for seed in range(2)
        for a in (0, 1)
        for b in (0, 1)
    ]
    with pytest.raises(
        LabError,
        match=r"a = 0 has several runs with seed = 0. They differ in b, y: add those that "
        r"are options to pair_by, as in pair_by=\['seed', 'b'\] \(`placet compare`: --pair-by b\)",
    ):
        paired_differences(rows, "a")
    (difference,) = paired_differences(rows, "a", pair_by=("seed", "b"))
    assert (difference.pairs, difference.difference) == (4, 1.0)


@pytest.mark.parametrize(
    ("rows", "option", "message"),
    [
        ([], "limit", "there are no results to compare"),
        (ROWS, "limits", "no column 'limits'; did you mean 'limit'"),
        (ROWS[:3], "limit", "limit has the values 1: expected at least two"),
        (ROWS[2:4], "limit", "have 0 pairs of runs .* run the sweep with more seeds"),
        ([{"seed": 1, "x": 0}, {"seed": 1, "x": 1}], "x", "no column of numbers besides seed, x"),
    ],
)
def test_results_without_pairs_are_errors(rows, option, message):
    with pytest.raises(LabError, match=message):
        paired_differences(rows, option)


def test_a_failed_run_leaves_its_pair_out():
    failed = [{**row, "loss": None} if row["seed"] == 2 else row for row in ROWS]
    (difference,) = paired_differences(failed, "limit")
    assert difference.pairs == 2
    not_a_number = [{**row, "loss": float("nan")} if row["seed"] == 2 else row for row in ROWS]
    (difference,) = paired_differences(not_a_number, "limit")
    assert (difference.pairs, difference.not_finite) == (2, 1)
    infinite = [{**row, "loss": float("inf")} for row in ROWS]
    with pytest.raises(LabError, match=r"have 0 pairs .* and 3 more with NaN or an infinity"):
        paired_differences(infinite, "limit", measures=["loss"])


def test_an_outcome_without_two_numbers_leaves_the_others_their_intervals():
    rows = [
        {"x": x, "seed": seed, "all": float(x * seed), "none": float("nan")}
        for x in (1, 2)
        for seed in (1, 2, 3)
    ]
    found = {one.measure: one for one in paired_differences(rows, "x", measures=["all"])}
    assert found["all"].pairs == 3
    with pytest.raises(LabError, match="0 pairs of runs with a number in 'none', and 3 more"):
        paired_differences(rows, "x", measures=["all", "none"])
    rows[0]["none"] = 1.0
    none = {one.measure: one for one in paired_differences(rows, "x")}["none"]
    assert (none.pairs, none.not_finite, none.is_clear) == (0, 3, False)
    assert none.difference != none.difference


@pytest.mark.parametrize(
    ("more", "cause"),
    [
        ({}, r"They are equal: keep one row of each run"),
        ({"error": "no"}, r"They differ in error alone: keep one row of each run"),
    ],
)
def test_rows_of_one_run_are_said_to_stand_twice(more, cause):
    with pytest.raises(LabError, match=rf"limit = 1 has several runs with seed = 1. {cause}"):
        paired_differences([*ROWS, ROWS[0] | more], "limit")
