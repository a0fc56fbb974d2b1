"""Contrasts, intervals that hold at once, and what they allow to be said."""

import math

import numpy as np
import pytest

from metrics.bootstrap import Draws, draw_blocks, ratio_draws
from metrics.compare import (
    Better,
    Interval,
    Scale,
    Verdict,
    contrast,
    intervals,
    judge,
    known_contrast,
    may_be_worse,
    over_all,
)

BLOCKS = 12


def draws_of(values, rng, **changes):
    """A mean of blocks with its resamples."""
    times = draw_blocks(len(values), 1_000, rng)
    return ratio_draws(np.asarray(values), np.ones(len(values)), times, **changes)


def noise(rng, mean=1.0, spread=0.05):
    return draws_of(rng.normal(mean, spread, BLOCKS), rng)


def test_the_change_is_b_over_a():
    """1.1 against 1.0 is +10 %, and its interval holds it."""
    rng = np.random.default_rng(3)
    found = contrast(noise(rng, 1.0, 0.01), noise(rng, 1.1, 0.01), Scale.RATIO)
    (interval,) = intervals([found], rng)

    assert abs(interval.change - 0.1) < 0.02
    assert interval.low < 0.1 < interval.high
    assert interval.low > 0.05


def test_equal_constants_differ_by_nothing_and_others_by_what_they_do():
    """All equal has no spread: the least error stands for clocks and restarts."""
    rng = np.random.default_rng(3)
    same = contrast(draws_of([0.1] * 8, rng), draws_of([0.1] * 8, rng), Scale.RATIO)
    more = contrast(draws_of([0.1] * 8, rng), draws_of([0.11] * 8, rng), Scale.RATIO)
    equal, different = intervals([same, more], rng)

    assert 0 == equal.change
    assert Verdict.NOT_SHOWN is judge(equal, Better.LOWER)
    assert Verdict.WORSE is judge(different, Better.LOWER)


def test_a_value_of_0_has_no_ratio_but_has_points():
    """Failures in none and in some of the requests differ by points."""
    rng = np.random.default_rng(3)
    none, some = draws_of([0.0] * 8, rng), draws_of([0.2, 0.3] * 4, rng)

    assert contrast(none, some, Scale.RATIO) is None
    assert math.isclose(0.25, contrast(none, some, Scale.POINTS).difference)


def test_resamples_without_a_value_leave_no_interval():
    """When one in ten resamples has no request at all, the window says too little."""
    values = np.where(np.arange(1_000) % 10 == 0, np.nan, 1.0)
    holey, whole = Draws(1.0, values, 7), Draws(1.0, np.ones(1_000), 7)

    assert contrast(holey, whole, Scale.RATIO) is None


def test_a_share_that_was_never_seen_has_an_interval_of_its_least_variance():
    """No failure in either run: the interval is as wide as one event in all requests."""
    rng = np.random.default_rng(3)
    a, b = (draws_of([0.0] * 8, rng, least_variance=1e-4) for _ in range(2))
    (interval,) = intervals([contrast(a, b, Scale.POINTS)], rng)

    assert 0.025 < interval.high < 0.05
    assert interval.low == -interval.high


def test_more_figures_make_wider_intervals_and_copies_do_not():
    """Twenty independent figures cost width; twenty copies of one cost next to none."""
    rng = np.random.default_rng(5)
    many = [contrast(noise(rng), noise(rng), Scale.RATIO) for _ in range(20)]

    def width(contrasts):
        found = intervals(contrasts, np.random.default_rng(7))[0]
        return found.high - found.low

    alone, among, copies = width(many[:1]), width(many), width([many[0]] * 20)

    assert among > 1.3 * alone
    assert copies < among


def test_intervals_hold_at_once_in_95_of_100():
    """Ten figures of equal runs, 200 times over: all of them at once hold 0 in 93 % at least."""
    rng = np.random.default_rng(11)
    wrong = 0
    for _ in range(200):
        contrasts = [contrast(noise(rng), noise(rng), Scale.RATIO) for _ in range(10)]
        wrong += any(i.low > 0 or i.high < 0 for i in intervals(contrasts, rng))

    assert wrong <= 14


def test_few_blocks_make_wide_intervals():
    """Six blocks know their spread badly: the interval is wider than spread alone asks for."""
    rng = np.random.default_rng(5)
    few = known_contrast(0.0, 0.01, 10, rng, 4_000)
    many = known_contrast(0.0, 0.01, 1_000, rng, 4_000)
    (narrow,), (wide,) = intervals([many], rng), intervals([few], rng)

    assert math.isclose(1.96, math.log1p(narrow.high) / 0.01, rel_tol=0.06)
    assert wide.resolution > 1.1 * narrow.resolution


def test_the_mean_over_loads_is_nearer_the_surer_one():
    """Weights are 1 / error squared, so 1 % and 10 % of error count 100 to 1."""
    rng = np.random.default_rng(5)
    sure = known_contrast(0.10, 0.01, 20, rng, 1_000)
    vague = known_contrast(0.50, 0.10, 20, rng, 1_000)
    both = over_all([sure, vague])

    assert math.isclose((100 * 0.10 + 0.50) / 101, both.difference)
    assert both.error < sure.error


CASES = {
    "all above": (0.02, 0.08, 0.0, Verdict.WORSE, Verdict.BETTER, Verdict.DIFFERENT),
    "all below": (-0.08, -0.02, 0.0, Verdict.BETTER, Verdict.WORSE, Verdict.DIFFERENT),
    "holds 0": (-0.02, 0.08, 0.0, *[Verdict.NOT_SHOWN] * 3),
    "tiny, no margin": (-0.001, 0.001, 0.0, *[Verdict.NOT_SHOWN] * 3),
    "inside the margin": (0.01, 0.04, 0.05, *[Verdict.SAME] * 3),
    "beyond the margin": (0.06, 0.1, 0.05, Verdict.WORSE, Verdict.BETTER, Verdict.DIFFERENT),
    "across the margin": (0.02, 0.1, 0.05, *[Verdict.NOT_SHOWN] * 3),
    "below the margin": (-0.1, -0.06, 0.05, Verdict.BETTER, Verdict.WORSE, Verdict.DIFFERENT),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_an_interval_allows_to_be_said(case):
    """For figures that are to be low, to be high, and neither."""
    low, high, margin, *wanted = case
    interval = Interval((low + high) / 2, low, high, (high - low) / 2)

    assert wanted == [judge(interval, better, margin) for better in Better]


@pytest.mark.parametrize(
    ("low", "high", "better", "at_risk"),
    [
        (-0.01, 0.10, Better.LOWER, True),
        (-0.10, 0.01, Better.LOWER, False),
        (-0.10, 0.01, Better.HIGHER, True),
        (-0.01, 0.10, Better.HIGHER, False),
        (0.06, 0.10, Better.LOWER, False),
        (-0.10, 0.10, Better.NEITHER, False),
    ],
    ids=["may be slower", "is not slower", "may be less", "is not less", "is slower", "neither"],
)
def test_what_is_neither_shown_nor_ruled_out_is_at_risk(low, high, better, at_risk):
    """Beyond a margin of 5 % for the worse."""
    assert at_risk is may_be_worse(Interval(0.0, low, high, 0.0), better, 0.05)
