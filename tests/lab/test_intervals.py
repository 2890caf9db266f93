"""Confidence intervals agree with scipy, and cover as often as they say."""

from statistics import mean

import pytest
from scipy import stats  # type: ignore[import-untyped]  # it has no annotations

from placet.kernel.prng import random_unit
from placet.lab.intervals import mean_interval, t_quantile, wilson


@pytest.mark.parametrize(("hits", "count"), [(0, 1), (0, 30), (30, 30), (13, 40), (1, 7)])
def test_the_interval_of_a_proportion_is_that_of_wilson(hits, count):
    expected = stats.binomtest(hits, count).proportion_ci(method="wilson")
    assert wilson(hits, count) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 9, 10, 29, 30, 400])
def test_the_quantile_of_t_is_exact(freedom):
    assert t_quantile(0.975, freedom) == pytest.approx(stats.t.ppf(0.975, freedom))


def test_an_interval_of_a_mean_covers_it_in_95_of_100_samples():
    samples = [
        [random_unit(7, sample, 0, number, "x", "sample") for number in range(8)]
        for sample in range(400)
    ]
    intervals = [mean_interval(sample) for sample in samples]
    covered = mean(low <= 0.5 <= high for low, high in intervals)
    assert 0.92 < covered < 0.98


def test_one_value_has_no_interval():
    with pytest.raises(ValueError, match="two values at least, got 1"):
        mean_interval([3.0])
