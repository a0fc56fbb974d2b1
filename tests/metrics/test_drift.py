"""Drift of long windows: what is found, what is not, and what is said either way."""

import heapq
import math
import random
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.drift import find_drift, window_length_s, windowed_percentile

TEN_MINUTES_S = 600.0
SLOTS, USERS, SERVICE_S = 16, 32, 1.5


def queued_ttft(seed, leak_per_min=0.0):
    """Start and TTFT of each request: 32 users at 16 slots, answers that get slower as they leak.

    First come, first served; the service time varies by a tenth.
    """
    chance = random.Random(seed)
    free = [0.0] * SLOTS
    asks = [(chance.random() * SERVICE_S, user) for user in range(USERS)]
    heapq.heapify(asks)
    starts, waits = [], []
    while asks[0][0] < TEN_MINUTES_S:
        at_s, user = heapq.heappop(asks)
        begin_s = max(at_s, heapq.heappop(free))
        slower = 1 + leak_per_min * begin_s / 60
        end_s = begin_s + SERVICE_S * slower * max(0.5, chance.gauss(1.0, 0.1))
        heapq.heappush(free, end_s)
        heapq.heappush(asks, (end_s, user))
        starts.append(at_s)
        waits.append(begin_s - at_s + 0.05 * slower)
    return starts, waits


def drift_of(seed, leak_per_min=0.0):
    """The drift of p99 TTFT over the 30 windows of ten minutes."""
    starts, waits = queued_ttft(seed, leak_per_min)
    return find_drift(*windowed_percentile(starts, waits, 0.99, 0.0, TEN_MINUTES_S))


def test_a_leak_of_one_percent_a_minute_is_found_in_ten_minutes():
    """In 30 of 30 seeds, and the interval of the change holds 10 % in nearly all of them."""
    drifts = [drift_of(seed, leak_per_min=0.01) for seed in range(30)]

    assert 30 == sum(drift.shown for drift in drifts)
    assert 24 <= sum(drift.low_ratio <= 0.10 / 1.05 <= drift.high_ratio for drift in drifts)
    assert all("a minute" in drift.sentence() for drift in drifts)


def test_no_leak_is_found_where_there_is_none():
    """In none of 30 seeds, and the sentence says what would have been seen."""
    drifts = [drift_of(seed) for seed in range(100, 130)]

    assert 0 == sum(drift.shown for drift in drifts)
    assert all("would not have been seen" in drift.sentence() for drift in drifts)


def test_too_few_windows_claim_nothing_however_steep_the_slope():
    """29 windows that double are no claim, 30 are; the sentence names the number needed."""
    times = np.arange(30) * 20.0
    series = np.linspace(1.0, 2.0, 30)

    few, enough = find_drift(times[:29], series[:29]), find_drift(times, series)

    assert not few.shown
    assert "29 windows, and 30 are needed" in few.sentence()
    assert enough.shown


def test_a_large_change_that_may_be_chance_is_no_drift():
    """100 series of noise: the fitted change is over 5 % in most, and claimed in at most 2."""
    rng = np.random.default_rng(9)
    drifts = [find_drift(np.arange(30) * 20.0, rng.lognormal(0, 0.5, 30)) for _ in range(100)]

    assert 50 < sum(abs(drift.change_ratio) > 0.05 for drift in drifts)
    assert 2 >= sum(drift.shown for drift in drifts)


@pytest.mark.parametrize(("change", "shown"), [(0.04, False), (0.07, True)], ids=["4 %", "7 %"])
def test_a_sure_drift_must_also_be_large_enough_to_matter(change, shown):
    """A straight line is beyond chance in both; only more than 5 % is claimed."""
    drift = find_drift(np.arange(60) * 20.0, np.linspace(1.0, 1.0 + change, 60))

    assert drift.p_value < 1e-6
    assert shown == drift.shown


def test_the_slope_is_that_of_the_line():
    """1.0 + 0.001 a second over 1,200 s: 6 % of 1 a minute, as a share of the median 1.59."""
    times = np.arange(60) * 20.0

    drift = find_drift(times, 1.0 + 0.001 * times)

    assert 0.06 / 1.59 == pytest.approx(drift.slope_per_min_ratio)
    assert 1.2 / 1.59 == pytest.approx(drift.change_ratio)
    assert drift.low_ratio <= drift.change_ratio <= drift.high_ratio


def test_a_few_wild_windows_do_not_move_the_slope():
    """3 of 40 windows a hundred times as long: the slope stays below 1 % of the median."""
    series = np.full(40, 1.0) + np.tile([0.0, 0.001], 20)
    series[[5, 20, 39]] = 100.0

    drift = find_drift(np.arange(40) * 20.0, series)

    assert abs(drift.change_ratio) < 0.01
    assert not drift.shown


def uncorrected(drift):
    """The p that windows taken for independent would have given."""
    z = NormalDist().inv_cdf(1 - drift.p_value / 2) * math.sqrt(drift.variance_factor)
    return math.erfc(z / math.sqrt(2))


def test_autocorrelated_windows_need_more_to_claim():
    """200 wandering series (AR(1), 0.6) without a trend: p < 0.01 in over 10 % if taken for
    independent, in under 5 % as corrected; independent ones are hardly widened.
    """
    rng = np.random.default_rng(11)
    series = rng.normal(size=(200, 110))
    for n in range(1, 110):
        series[:, n] = 0.6 * series[:, n - 1] + 0.8 * series[:, n]
    times, held = np.arange(60) * 20.0, 20 + series[:, 50:]
    drifts = [find_drift(times, row) for row in held]
    shuffled = [find_drift(times, rng.permutation(row)) for row in held]

    assert 20 < sum(uncorrected(drift) < 0.01 for drift in drifts)
    assert 10 > sum(drift.p_value < 0.01 for drift in drifts)
    assert np.mean([drift.variance_factor for drift in shuffled]) < 1.2


@pytest.mark.parametrize(("correlation", "most"), [(0.0, 6), (0.5, 9), (0.8, 12), (0.95, 15)])
def test_thirty_windows_that_wander_are_rarely_a_drift(correlation, most):
    """300 series of 30 windows without a trend: claimed in 2 % to 5 % at most, up to 0.95."""
    rng = np.random.default_rng(23)
    series = rng.normal(size=(300, 130))
    for n in range(1, 130):
        kept = math.sqrt(1 - correlation**2)
        series[:, n] = correlation * series[:, n - 1] + kept * series[:, n]
    drifts = [find_drift(np.arange(30) * 20.0, 1 + 0.2 * row) for row in series[:, 100:]]

    assert most >= sum(drift.shown for drift in drifts)


def test_the_fewest_values_and_none_at_all():
    """None below 4 windows and for a median of 0; four equal ones are no drift, p 1."""
    assert find_drift([], []) is None
    assert find_drift([0, 1, 2], [1, 2, 3]) is None
    assert find_drift([0, 1, 2, 3], [0, 0, 0, 1]) is None
    flat = find_drift([0, 1, 2, 3], [2, 2, 2, 2])
    assert (0.0, 1.0, False) == (flat.change_ratio, flat.p_value, flat.shown)


@given(
    st.lists(st.integers(1, 10_000), min_size=8, max_size=40),
    st.sampled_from([1 / 1024, 0.5, 64.0]),
)
def test_ratios_do_not_depend_on_the_unit(values, scale):
    """A power of two times as large, which rounds nothing: the same change, interval and p."""
    times = np.arange(len(values)) * 20.0

    one, other = find_drift(times, values), find_drift(times, np.array(values) * scale)

    assert one.change_ratio == pytest.approx(other.change_ratio, abs=1e-9)
    assert one.high_ratio == pytest.approx(other.high_ratio, abs=1e-9)
    assert one.p_value == pytest.approx(other.p_value)


@given(st.lists(st.integers(1, 1000), min_size=8, max_size=40))
def test_time_turned_round_turns_the_drift_round(values):
    """The same windows backwards: the slope has the other sign, p is the same."""
    times = np.arange(len(values)) * 20.0

    forth, back = find_drift(times, values), find_drift(times, values[::-1])

    assert forth.change_ratio == pytest.approx(-back.change_ratio)


def test_windows_are_whole_and_hold_enough():
    """Of 50 s, 2 whole windows; the second has 9 values and is left out."""
    times = [*np.linspace(0, 19.9, 20), *np.linspace(20, 39.9, 9), *np.linspace(40, 49.9, 20)]

    middles, p99 = windowed_percentile(times, np.arange(49.0), 0.99, 0.0, 50.0)

    assert [10.0] == list(middles)
    assert [19.0] == list(p99)


def test_long_soaks_get_longer_windows():
    """20 s up to 4 hours; a day has 720 windows of 2 minutes."""
    assert 20.0 == window_length_s(600)
    assert 20.0 == window_length_s(4 * 3600)
    assert 120.0 == window_length_s(24 * 3600)
