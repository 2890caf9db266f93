"""The share of an outcome's variance that each option of a sweep explains."""

from itertools import product
from math import fsum, inf, isclose, nan
from random import Random
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.lab import variance_shares
from placet.lab.importance import VarianceShares
from placet.lab.reporting.importance_figures import figure_of
from placet.sweeps.errors import LabError

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False, width=32)


def grid(outcome, a=(0, 1), b=(0, 1), seeds=range(3)) -> list[dict[str, Any]]:
    return [
        {"a": x, "b": y, "seed": seed, "y": outcome(x, y, seed)}
        for x, y, seed in product(a, b, seeds)
    ]


def shares(rows, options=("a", "b")) -> VarianceShares:
    return variance_shares(rows, "y", options=options)


def by_source(found: VarianceShares) -> dict[str, float | None]:
    return {one.source: one.share for one in found.shares}


@given(st.data(), st.integers(1, 3), st.integers(1, 4), st.integers(1, 3))
def test_shares_of_a_balanced_design_sum_to_one(data, a, b, seeds):
    values = data.draw(st.lists(NUMBERS, min_size=a * b * seeds, max_size=a * b * seeds))
    drawn = iter(values)
    rows = grid(lambda *_: next(drawn), range(a), range(b), range(seeds))
    if len(rows) < 2:
        return
    found = shares(rows)
    assert found.is_balanced
    of_all = [one.share for one in found.shares if one.share is not None]
    assert all(0 <= share <= 1 for share in of_all)
    options = [one.share or 0.0 for one in found.shares if one.source in "ab"]
    assert fsum(options) <= 1 + 1e-9
    assert found.is_constant == (len({*values}) == 1)
    assert isclose(fsum(of_all), 0 if found.is_constant else 1, abs_tol=1e-6)


@given(st.lists(NUMBERS, min_size=12, max_size=12), st.floats(0.1, 10), NUMBERS, st.randoms())
def test_units_order_and_names_of_the_values_change_no_share(values, scale, shift, random):
    drawn = iter(values)
    rows = grid(lambda *_: next(drawn), seeds=range(3))
    if max(values) - min(values) < 1:  # beside a shift of 1e6 less is lost in rounding
        return
    other = [
        row | {"y": scale * row["y"] + shift, "a": f"text {row['a']}", "seed": -row["seed"]}
        for row in rows
    ]
    random.shuffle(other)
    expected, found = by_source(shares(rows)), by_source(shares(other))
    assert found == pytest.approx(expected, abs=1e-4)


def test_an_additive_outcome_is_explained_by_its_options():
    found = shares(grid(lambda a, b, _: 3 * a + b))
    assert by_source(found) == pytest.approx({"a": 0.9, "b": 0.1, "interactions": 0, "seeds": 0})
    assert (found.runs, found.combinations, found.seeds, found.left_out) == (12, 4, 3, 0)


def test_an_outcome_of_the_combination_alone_is_an_interaction():
    found = by_source(shares(grid(lambda a, b, _: a ^ b)))
    assert found == pytest.approx({"a": 0, "b": 0, "interactions": 1, "seeds": 0})


def test_an_outcome_of_the_seed_alone_is_explained_by_no_option():
    found = shares(grid(lambda _a, _b, seed: seed))
    assert by_source(found) == pytest.approx({"a": 0, "b": 0, "interactions": 0, "seeds": 1})
    assert {one.by_chance for one in found.shares[:2]} == {0}  # runs are paired by seed


def test_a_constant_outcome_has_no_variance_to_explain():
    found = shares(grid(lambda *_: 0.1))
    assert found.is_constant
    assert {*by_source(found).values()} == {0}


def test_one_option_shares_the_variance_with_the_seeds():
    found = shares(grid(lambda a, _b, seed: 2 * a + seed, b=[0], seeds=(0, 2)), ["a"])
    assert by_source(found) == pytest.approx({"a": 0.5, "seeds": 0.5})


def test_texts_truths_and_lists_are_values_of_options_and_truths_are_outcomes():
    found = shares(grid(lambda a, b, _: a == "left" and b[0], a=("left", "right"), b=([0], [1])))
    assert by_source(found) == pytest.approx(
        {"a": 1 / 3, "b": 1 / 3, "interactions": 1 / 3, "seeds": 0}
    )


@pytest.mark.parametrize("value", [None, nan, inf, 10**400, "none"])
def test_a_seed_that_lacks_a_run_is_left_out_of_all_combinations(value):
    rows = grid(lambda a, b, _: 3 * a + b)
    rows[1]["y"] = value
    found = shares(rows)
    assert (found.runs, found.left_out, found.seeds, found.is_balanced) == (8, 4, 2, True)
    assert by_source(found)["a"] == pytest.approx(0.9)


def test_if_most_seeds_lack_a_run_all_runs_are_used_and_the_shares_overlap():
    rows = grid(lambda a, b, _: 3 * a + b, seeds=range(4))
    kept = [row for row in rows if (row["a"], row["b"], row["seed"] > 0) != (1, 1, True)]
    found = shares(kept)
    assert (found.runs, found.left_out, found.is_balanced) == (13, 0, False)
    assert "interactions" not in by_source(found)
    assert "shares overlap" in figure_of(found).note


def test_one_run_of_each_combination_has_no_share_of_seeds_and_no_chance():
    found = shares(grid(lambda a, b, _: 3 * a + b, seeds=[7]))
    assert [*by_source(found)] == ["a", "b", "interactions"]
    assert {one.by_chance for one in found.shares} == {None}
    assert "chance is in all shares" in figure_of(found).note


def test_the_share_of_an_option_without_effect_is_on_average_that_by_chance():
    random = Random(1)
    of_studies = [
        shares(grid(lambda a, _b, seed: a + seed + random.gauss(), b=range(4), seeds=range(5)))
        for _ in range(300)
    ]
    idle = [one for found in of_studies for one in found.shares if one.source == "b"]
    by_chance = fsum(one.by_chance or 0 for one in idle)
    assert fsum(one.share or 0 for one in idle) == pytest.approx(by_chance, rel=0.1)


def test_sampled_numbers_are_grouped_and_texts_that_name_one_combination_have_no_share():
    random = Random(2)
    points = [(random.random(), random.random()) for _ in range(64)]
    rows = [
        {"a": x, "b": y, "file": f"{x}.csv", "seed": seed, "y": 10 * x + y}
        for x, y in points
        for seed in (1, 2)
    ]
    found = variance_shares(rows, "y", options=["a", "b", "file"])
    assert found.grouped == ("a", "b")
    of = by_source(found)
    assert of["file"] is None
    assert of["a"] is not None
    assert of["b"] is not None
    assert of["a"] > 0.9
    assert of["b"] < 0.3
    figure = figure_of(found)
    assert "In groups of neighboring values: a, b." in figure.note
    assert "no share of its own is known: file." in figure.note


def test_a_grid_that_lacks_a_combination_has_its_values_and_no_groups():
    grid = [{"seed": 0, "a": a, "b": b, "y": b} for a in range(2) for b in range(8)]
    found = variance_shares(grid[:-1], "y", options=["a", "b"])
    assert (found.grouped, found.is_balanced) == ((), False)
    assert (found.shares[0].source, found.shares[0].values) == ("b", 8)
    assert found.shares[0].share == pytest.approx(1.0)


@pytest.mark.parametrize("table", [list, pd.DataFrame, pl.DataFrame, pa.Table.from_pylist])
def test_rows_of_any_table_are_taken(table):
    found = shares(table(grid(lambda a, b, _: 3.0 * a + b)))
    assert by_source(found)["a"] == pytest.approx(0.9)


def test_huge_numbers_have_finite_shares():
    found = by_source(shares(grid(lambda a, b, _: (3 * a + b) * 4e307)))
    assert found["a"] == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([], ["a"], "there are no results"),
        (grid(lambda *_: 1), None, "name the columns of these rows in `options`"),
        (grid(lambda *_: 1), ["aa"], "no column 'aa'; did you mean 'a'"),
        (grid(lambda *_: None), ["a"], "0 of 12 runs have a number in 'y': expected two at least"),
    ],
)
def test_too_few_numbers_and_missing_columns_are_errors(rows, options, message):
    with pytest.raises(LabError, match=message):
        variance_shares(rows, "y", options=options)


def test_the_figure_has_a_bar_for_each_source_and_the_table_all_shares():
    figure = figure_of(shares(grid(lambda a, b, seed: 3 * a + b + seed)))
    assert figure.title == "What explains y"
    assert figure.note == "12 runs: 4 combinations, 3 seeds."
    assert figure.data["source"] == ["a", "b", "interactions", "seeds"]
    assert figure.data["values"] == [2, 2, None, None]
    assert figure.drawing.count('class="share"') == 2
    assert figure.drawing.count('class="share quiet"') == 2
    assert figure.drawing.count('class="mark"') == 2
