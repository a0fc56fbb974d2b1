"""Resamples of blocks: what they keep, and what they say of an error."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics.bootstrap import (
    block_count,
    correlation_factor,
    draw_blocks,
    normal_to_t,
    quantile_draws,
    ratio_draws,
    share_variance,
    t_to_normal,
)
from metrics.statistics import percentile


def rng(seed=1):
    return np.random.default_rng(seed)


@given(
    values=st.lists(st.floats(0.001, 1e3), min_size=1, max_size=60),
    blocks=st.integers(1, 8),
    q=st.sampled_from([0.05, 0.5, 0.95, 0.99, 1.0]),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_a_resample_is_the_quantile_of_the_drawn_blocks_values(values, blocks, q, seed):
    """Each draw equals the nearest-rank percentile of its blocks, put together by hand."""
    values = np.array(values)
    block_of = rng(seed).integers(0, blocks, len(values))
    times = draw_blocks(blocks, 5, rng(seed))

    (draws,) = quantile_draws(values, block_of, times, [q])

    for row, drawn in zip(times, draws.values, strict=True):
        pool = np.concatenate([np.repeat(values[block_of == b], n) for b, n in enumerate(row)])
        expected = percentile(pool, q)
        assert (expected is None and np.isnan(drawn)) or expected == drawn


def test_many_values_are_binned_by_rank_and_hardly_move():
    """A million values cost no more memory than two thousand, at a two-thousandth of a rank."""
    values = rng().lognormal(0, 0.5, 100_000)
    times = np.ones((1, 10), dtype=np.int64)
    block_of = np.arange(100_000) % 10

    (draws,) = quantile_draws(values, block_of, times, [0.5])

    assert percentile(values, 0.5) == draws.estimate
    assert abs(draws.values[0] / draws.estimate - 1) < 0.001


def test_a_rate_is_all_parts_over_all_wholes():
    """A resample of both blocks alike gives the estimate; blocks of nothing give no number."""
    parts, wholes = np.array([10.0, 30.0, 0.0]), np.array([1.0, 1.0, 0.0])
    times = np.array([[1, 1, 1], [2, 0, 1], [0, 0, 3]])

    draws = ratio_draws(parts, wholes, times)

    assert 20 == draws.estimate
    assert [20.0, 10.0] == draws.values[:2].tolist()
    assert np.isnan(draws.values[2])


def test_without_a_whole_there_is_no_ratio():
    """Nothing over nothing is not 0."""
    assert ratio_draws(np.zeros(3), np.zeros(3), draw_blocks(3, 4, rng())) is None


def test_without_values_there_is_no_quantile():
    """Missing is missing."""
    none = np.array([])

    assert () == quantile_draws(none, none.astype(int), draw_blocks(3, 4, rng()), [0.5])


def test_resamples_have_as_many_blocks_as_the_window():
    """Each row of multiplicities adds up to the number of blocks."""
    assert {7} == set(draw_blocks(7, 50, rng()).sum(axis=1).tolist())


@pytest.mark.parametrize(
    ("window_s", "cycle_s", "blocks"),
    [(60, 2, 24), (12, 2.2, 5), (0, 2, 0), (12, 2, 6), (12, 0, 24), (0, 0, 0)],
    ids=["long", "short", "never held", "just six", "no time at all", "nothing"],
)
def test_no_block_is_shorter_than_a_cycle(window_s, cycle_s, blocks):
    """A queue forgets over a cycle, so blocks hold at least one; there are 24 at most."""
    assert blocks == block_count(window_s, cycle_s)


def test_correlated_blocks_widen_the_variance():
    """A slow wave over the blocks does; alternating blocks and equal ones do not."""
    wave = np.sin(np.linspace(0, 2 * np.pi, 24))

    assert correlation_factor(wave) > 2.5
    assert 1.0 == correlation_factor(np.array([1.0, -1.0] * 12))
    assert 1.0 == correlation_factor(np.full(24, 0.1))


def test_a_share_of_nothing_is_not_known_for_certain():
    """None of 100 still has a variance, of about one event more."""
    assert 0.008 < share_variance(0, 100) ** 0.5 < 0.011


@pytest.mark.parametrize(
    ("t", "freedom", "z"),
    [(2.571, 5, 1.960), (2.145, 14, 1.960), (4.032, 5, 2.576), (2.977, 14, 2.576)],
)
def test_points_of_students_distribution_are_points_of_the_normal(t, freedom, z):
    """Tabled two-sided 95 and 99 % points meet within 0.02, both ways."""
    assert abs(z - t_to_normal(np.array([t]), freedom)[0]) < 0.02
    assert abs(t - normal_to_t(t_to_normal(np.array([t]), freedom)[0], freedom)) < 1e-9
