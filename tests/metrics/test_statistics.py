"""Percentiles, the samples they need, and their intervals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.statistics import (
    jackknife_mean_interval,
    percentile,
    samples_needed,
    sectioned_interval,
    summarise,
)


@pytest.mark.parametrize(
    ("values", "q", "expected"),
    [
        ([5.0], 0.99, 5.0),
        ([1.0, 2.0], 0.5, 1.0),
        ([1.0, 2.0], 0.51, 2.0),
        ([float(n) for n in range(1, 101)], 0.95, 95.0),
        ([float(n) for n in range(1, 101)], 0.99, 99.0),
        ([3.0, 1.0, 2.0], 1.0, 3.0),
        ([3.0, 1.0, 2.0], 0.0, 1.0),
    ],
    ids=["one", "median of two", "above half", "p95", "p99", "maximum", "minimum"],
)
def test_percentiles_are_nearest_rank(values, q, expected):
    """The smallest value with at least q * n values at or below it."""
    assert expected == percentile(values, q)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 1))
def test_a_percentile_is_always_a_value_that_was_seen(values, q):
    """No interpolation."""
    assert percentile(values, q) in values


def test_no_values_give_no_percentile():
    """None, never 0."""
    assert percentile([], 0.5) is None


@pytest.mark.parametrize(
    ("q", "n"),
    [(0.9, 36), (0.95, 72), (0.99, 368), (0.999, 3688)],
    ids=["p90", "p95", "p99", "p999"],
)
def test_sample_sizes_are_the_smallest_that_bound_the_quantile(q, n):
    """With n samples all lie below the quantile in at most 2.5 % of cases; with n - 1 in more."""
    assert n == samples_needed(q)
    assert q**n <= 0.025 < q ** (n - 1)


def test_few_samples_are_flagged():
    """50 samples carry a p90 but no p95, p99 or p99.9."""
    summary = summarise(np.linspace(1, 2, 50))

    assert summary.n == 50
    assert summary.flags == ("p95:few", "p99:few", "p999:few")


def test_M05_a_summary_of_nothing_has_no_numbers():
    """All figures None, no flag, no exception."""
    summary = summarise([])

    assert (
        summary.n,
        summary.mean,
        summary.p50,
        summary.max,
        summary.flags,
    ) == (0, None, None, None, ())


def test_sectioned_intervals_hold_for_correlated_samples():
    """On strongly autocorrelated series the interval of the median covers in most runs."""
    covered = 0
    rng = np.random.default_rng(7)
    for _ in range(200):
        noise = rng.normal(size=1200)
        series = np.empty(1200)
        series[0] = noise[0]
        for i in range(1, 1200):
            series[i] = 0.8 * series[i - 1] + 0.6 * noise[i]
        # The stationary law is N(0, 1): its median is 0. Shifted up, for durations are positive.
        low, high = sectioned_interval(series + 10, 0.5)
        covered += low <= 10 <= high

    assert covered >= 170


def test_an_interval_needs_enough_values():
    """A p99 needs 100 values in each of 8 sections."""
    assert sectioned_interval(np.ones(799), 0.99) is None
    assert sectioned_interval(np.ones(800), 0.99) is not None


def test_a_mean_of_few_values_has_no_interval():
    """Below 8 values 4 batches say nothing."""
    assert jackknife_mean_interval([1.0] * 7) is None
    low, high = jackknife_mean_interval([1.0, 2.0] * 20)
    assert low <= 1.5 <= high
