"""Percentiles, the samples they need, and their intervals."""

import math

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
    too_short,
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


def bootstrap_covers(rng, values, truth):
    """Whether a plain bootstrap interval of the median, which shuffles time, holds the truth."""
    draws = rng.integers(0, values.size, (200, values.size))
    low, high = np.quantile(np.median(values[draws], axis=1), [0.025, 0.975])
    return low <= truth <= high


def wandering(rng):
    """AR(1) with 0.9: n 1,600, median 10."""
    noise = rng.normal(size=1600) * math.sqrt(1 - 0.9**2)
    values = [rng.normal()]
    for step in noise[1:]:
        values.append(0.9 * values[-1] + step)
    return np.array(values) + 10, 10.0


def queueing(rng):
    """Times in an M/M/1 queue at 0.6 of its capacity: exponential with 1 - 0.6, median ln 2 / 0.4.

    Each wait is the last one's, plus its service, less the time between the two arrivals.
    """
    served, apart = rng.exponential(1.0, 4000), rng.exponential(1 / 0.6, 4000)
    waited, times = rng.exponential(1.0) * (rng.random() < 0.6) / 0.4, []
    for service, gap in zip(served, apart, strict=True):
        times.append(waited + service)
        waited = max(0.0, waited + service - gap)
    return np.array(times), math.log(2) / 0.4


@pytest.mark.parametrize("series", [wandering, queueing])
def test_sectioning_covers_where_a_plain_bootstrap_does_not(series):
    """Nominal 95 %: sectioning holds the true median in 85 % of 120, a bootstrap in under 65 %."""
    rng = np.random.default_rng(17)
    sectioned = plain = 0
    for _ in range(120):
        values, truth = series(rng)
        low, high = sectioned_interval(values, 0.5)
        sectioned += low <= truth <= high
        plain += bootstrap_covers(rng, values, truth)

    assert sectioned >= 102
    assert plain < 78


def correlated(rng, phi, n):
    """AR(1) of n values, at its stationary law from the first one on."""
    values = [rng.normal()]
    for step in rng.normal(size=n - 1) * math.sqrt(1 - phi**2):
        values.append(phi * values[-1] + step)
    return np.exp(0.5 * np.array(values))


@pytest.mark.parametrize(
    ("phi", "n", "least", "most"), [(0.97, 400, 90, 100), (0.95, 400, 80, 100), (0.0, 400, 0, 5)]
)
def test_a_series_that_is_short_beside_its_memory_has_no_intervals(phi, n, least, most):
    """Of 100: nearly all are flagged where p95 intervals would cover 3 of 4, and hardly any else.

    A flagged series keeps its percentiles.
    """
    rng = np.random.default_rng(29)
    found = [summarise(correlated(rng, phi, n)) for _ in range(100)]
    flagged = [one for one in found if "series:short" in one.flags]

    assert least <= len(flagged) <= most
    assert all(not one.intervals and one.p95 is not None for one in flagged)
    assert all("p95" in one.intervals for one in found if one not in flagged)


def test_series_of_equal_values_and_short_ones_are_not_called_too_short():
    """Rounding is no memory, and below 64 values nothing is told."""
    assert not too_short(np.full(400, 0.1))
    assert not too_short(np.linspace(1, 2, 63))
    assert too_short(np.linspace(1, 2, 64))


def test_what_is_not_a_number_is_no_value():
    """Two values and a NaN are two values."""
    summary = summarise([math.nan, 1.0, 2.0])

    assert (2, 1.5, 1.0, 2.0) == (summary.n, summary.mean, summary.p50, summary.max)


@pytest.mark.parametrize(
    ("values", "p50", "p99"),
    [([3.0], 3.0, 3.0), ([1.0, 2.0], 1.0, 2.0), ([float(n) for n in range(1, 21)], 10.0, 20.0)],
    ids=["one", "two", "twenty"],
)
def test_O02_few_samples_have_percentiles_and_no_intervals(values, p50, p99):
    """Nearest rank of one, two and twenty samples; from the p90 on, none is carried by them."""
    summary = summarise(values)

    assert (p50, p99, max(values)) == (summary.p50, summary.p99, summary.max)
    assert {} == summary.intervals
    assert {"p90:few", "p95:few", "p99:few", "p999:few"} <= set(summary.flags)


def test_M09_percentiles_lie_between_minimum_and_maximum():
    """596.4 once and 100 forty-nine times; a single 1234.4 is itself at every quantile."""
    summary = summarise([596.4, *[100.0] * 49])

    assert (100.0, 596.4, 596.4) == (summary.p50, summary.p99, summary.max)
    assert 1234.4 == summarise([1234.4]).p50 == summarise([1234.4]).p999


@given(st.lists(st.floats(0, 1e6), min_size=1), st.randoms(), st.sampled_from([0.25, 2.0, 1024.0]))
def test_percentiles_know_no_order_and_no_unit(values, chance, scale):
    """Shuffled, they are the same; in another unit, that many times as large."""
    shuffled = list(values)
    chance.shuffle(shuffled)
    for q in (0.5, 0.95, 0.99):
        assert percentile(values, q) == percentile(shuffled, q)
        assert scale * percentile(values, q) == percentile([scale * v for v in values], q)


def test_an_interval_needs_enough_values():
    """A p99 needs 100 values in each of 8 sections."""
    assert sectioned_interval(np.ones(799), 0.99) is None
    assert sectioned_interval(np.ones(800), 0.99) is not None


def test_a_mean_of_few_values_has_no_interval():
    """Below 8 values 4 batches say nothing."""
    assert jackknife_mean_interval([1.0] * 7) is None
    low, high = jackknife_mean_interval([1.0, 2.0] * 20)
    assert low <= 1.5 <= high
