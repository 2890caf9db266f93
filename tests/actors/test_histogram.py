"""Percentiles are within their error, and exported bucket counts are exact."""

from itertools import pairwise
from statistics import quantiles

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.actors.metrics import (
    BATCH_BOUNDS,
    LATENCY_BOUNDS,
    Histogram,
    LatencyHistogram,
)

SECONDS = st.floats(1e-7, 1e3)


def test_the_bounds_of_latencies_are_a_tenth_apart_and_hold_the_round_numbers():
    ratios = [b / a for a, b in pairwise(LATENCY_BOUNDS)]
    assert min(ratios) > 1
    assert max(ratios) <= 1.1 + 1e-9
    assert (LATENCY_BOUNDS[0], LATENCY_BOUNDS[-1]) == (1e-7, 1e3)
    assert {1e-6, 2.5e-6, 5e-6, 0.001, 0.0025, 0.005, 1.0, 2.5, 100.0} <= set(LATENCY_BOUNDS)


@given(st.lists(SECONDS, min_size=1), st.floats(0, 1))
def test_a_percentile_is_within_five_percent_of_a_sample_of_its_rank(samples, fraction):
    histogram = LatencyHistogram()
    for sample in samples:
        histogram.observe(sample)
    estimate = histogram.quantile(fraction)
    assert estimate is not None
    ranked = sorted(samples)
    place = fraction * len(ranked)
    neighbors = ranked[max(0, int(place) - 1) : int(place) + 1]
    assert any(abs(estimate - sample) <= 0.05 * sample for sample in neighbors)


def test_percentiles_of_a_known_distribution():
    histogram = LatencyHistogram()
    samples = [index * 1e-6 for index in range(1, 10_001)]
    histogram.observe_all(samples)
    cuts = quantiles(samples, n=100)
    assert histogram.quantile(0.5) == pytest.approx(cuts[49], rel=0.05)
    assert histogram.quantile(0.99) == pytest.approx(cuts[98], rel=0.05)
    assert histogram.quantile(1) == pytest.approx(0.01, rel=0.05)


@given(st.lists(SECONDS))
def test_observe_all_equals_observing_one_by_one(samples):
    together, one_by_one = LatencyHistogram(), LatencyHistogram()
    together.observe_all(samples)
    for sample in samples:
        one_by_one.observe(sample)
    assert together.cumulative() == one_by_one.cumulative()
    assert together.total == pytest.approx(one_by_one.total)
    assert together.quantile(0.9) == one_by_one.quantile(0.9)


@given(st.lists(st.integers(1, 600)))
def test_a_bucket_counts_samples_up_to_its_bound(sizes):
    histogram = Histogram(BATCH_BOUNDS)
    histogram.observe_all(sizes)
    expected = [sum(size <= bound for size in sizes) for bound in BATCH_BOUNDS]
    assert histogram.cumulative() == [*expected, len(sizes)]
    assert histogram.count == len(sizes)
    assert histogram.total == sum(sizes)


def test_an_empty_histogram_has_no_percentile():
    assert LatencyHistogram().quantile(0.5) is None


def test_percentiles_outside_the_bounds_use_the_nearest_known_value():
    histogram = LatencyHistogram()
    histogram.observe(1e-9)
    assert histogram.quantile(0.5) == 1e-9
    histogram.observe_all([5_000.0, 7_000.0])
    assert histogram.quantile(0.99) == 7_000.0


@pytest.mark.parametrize("fraction", [-0.1, 1.1, 99])
def test_a_percentage_is_not_a_fraction(fraction):
    with pytest.raises(ValueError, match=r"fraction in 0\.\.1"):
        LatencyHistogram().quantile(fraction)
