"""Differences of two runs' figures, with intervals that hold for all figures at once.

Each difference is divided by its own standard error; the largest of all such quotients decides how
wide every interval is, so that in 95 of 100 comparisons of equal endpoints not one figure differs.
The quotients are a multivariate t with the correlation of the resamples (simultaneous intervals:
Hothorn, Bretz and Westfall, Biometrical Journal 50, 2008; Romano and Wolf, Econometrica 73, 2005),
so that ten figures that say the same cost hardly more than one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from metrics.bootstrap import Draws, normal_to_t, t_to_normal
from metrics.statistics import FloatArray

CONFIDENCE = 0.95
LEAST_ERROR = 5e-4
"""Of a ratio: clocks, and servers from one start to the next, differ by a twentieth of a percent
at least, so that no two runs can be told apart more finely."""
_LEAST_POINTS = 1e-9
_MOST_EMPTY = 0.05
_SINGLE_Z = 1.959964


class Better(StrEnum):
    """Which way a figure is to go."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = "neither"


class Scale(StrEnum):
    """How two values of a figure are set against each other."""

    RATIO = "ratio"
    """B / A - 1, as a share."""
    POINTS = "points"
    """B - A, for shares that may be 0."""


class Verdict(StrEnum):
    """What may be said of one figure of two runs."""

    WORSE = "worse"
    BETTER = "better"
    DIFFERENT = "different"
    """Shown to differ, and neither way is better."""
    SAME = "same"
    """The whole interval is within the margin."""
    NOT_SHOWN = "no_difference_shown"
    NOT_JUDGED = "not_judged"
    """Too little was measured for an interval."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """The difference of two runs in one figure, before its interval is known.

    ``difference`` is the logarithm of B / A, or B - A on the scale of points; ``error`` is its
    standard error and ``freedom`` the error's degrees of freedom. ``quotients`` are what chance
    makes of difference / error in each resample, with mean 0 and variance 1.
    """

    difference: float
    error: float
    freedom: float
    quotients: FloatArray
    scale: Scale


@dataclass(frozen=True, slots=True)
class Interval:
    """The change from A to B with its bounds, as B / A - 1 or as B - A.

    ``resolution`` is the smallest change that these runs could have shown.
    """

    change: float
    low: float
    high: float
    resolution: float


def contrast(a: Draws, b: Draws, scale: Scale) -> Contrast | None:
    """Set B against A; None when a value is not positive, or when resamples have no value."""
    if scale is Scale.RATIO and (a.estimate <= 0 or b.estimate <= 0):
        return None
    left, right = _spread(a, scale), _spread(b, scale)
    if left is None or right is None:
        return None
    variance = left.variance + right.variance
    difference = (
        math.log(b.estimate / a.estimate) if scale is Scale.RATIO else b.estimate - a.estimate
    )
    least = LEAST_ERROR if scale is Scale.RATIO else _LEAST_POINTS
    return Contrast(
        difference=difference,
        error=max(math.sqrt(variance), least),
        freedom=_freedom(left, right),
        quotients=_standard(right.centred - left.centred),
        scale=scale,
    )


@dataclass(frozen=True, slots=True)
class _Spread:
    centred: FloatArray
    variance: float
    freedom: float


def _spread(draws: Draws, scale: Scale) -> _Spread | None:
    values = draws.values
    usable = np.isfinite(values) & ((values > 0) if scale is Scale.RATIO else True)
    if not len(values) or usable.mean() < 1 - _MOST_EMPTY:
        return None
    values = np.where(usable, values, draws.estimate)
    values = np.log(values) if scale is Scale.RATIO else values
    # A bootstrap's variance is short by one block of all.
    blocks = draws.freedom + 1
    variance = float(values.var()) * blocks / max(1.0, draws.freedom) * draws.correlation_factor
    return _Spread(values - values.mean(), max(variance, draws.least_variance), draws.freedom)


def _freedom(a: _Spread, b: _Spread) -> float:
    """Welch and Satterthwaite's degrees of freedom of a sum of two variances."""
    if a.variance + b.variance <= 0:
        return a.freedom + b.freedom
    parts = a.variance**2 / a.freedom + b.variance**2 / b.freedom
    return (a.variance + b.variance) ** 2 / parts


def _standard(values: FloatArray) -> FloatArray:
    deviation = float(values.std())
    return values / deviation if deviation > 0 else np.zeros_like(values)


def known_contrast(
    difference: float, error: float, freedom: float, rng: np.random.Generator, replicates: int
) -> Contrast:
    """A contrast of ratios whose error is known without resamples, independent of all others."""
    quotients = rng.standard_normal(replicates)
    return Contrast(difference, max(error, LEAST_ERROR), freedom, quotients, Scale.RATIO)


def over_all(contrasts: Sequence[Contrast]) -> Contrast:
    """The mean of independent contrasts of one figure, each weighted by its precision.

    The weights are 1 / error squared (inverse variance), so that a level that tells little counts
    little.
    """
    weights = np.array([1 / c.error**2 for c in contrasts])
    weights /= weights.sum()
    variances = np.array([(w * c.error) ** 2 for w, c in zip(weights, contrasts, strict=True)])
    variance = float(variances.sum())
    below = sum(v**2 / c.freedom for v, c in zip(variances, contrasts, strict=True))
    quotients = sum(w * c.error * c.quotients for w, c in zip(weights, contrasts, strict=True))
    return Contrast(
        difference=float(sum(w * c.difference for w, c in zip(weights, contrasts, strict=True))),
        error=math.sqrt(variance),
        freedom=float(variance**2 / below),
        quotients=_standard(np.asarray(quotients)),
        scale=contrasts[0].scale,
    )


def intervals(
    contrasts: Sequence[Contrast], rng: np.random.Generator, confidence: float = CONFIDENCE
) -> tuple[Interval, ...]:
    """Intervals that all hold at once with ``confidence``.

    Each quotient has a variance of its own that was estimated from few blocks, so it is divided by
    a draw of chi; as deviates of the normal distribution quotients of different degrees of freedom
    are then on one scale, and the largest of each resample is looked at.
    """
    if not contrasts:
        return ()
    largest = np.zeros(len(contrasts[0].quotients))
    for item in contrasts:
        chi = np.sqrt(rng.chisquare(item.freedom, len(largest)) / item.freedom)
        largest = np.maximum(largest, t_to_normal(np.abs(item.quotients) / chi, item.freedom))
    limit = max(_SINGLE_Z, float(np.quantile(largest, confidence)))
    return tuple(_interval(item, normal_to_t(limit, item.freedom)) for item in contrasts)


def _interval(item: Contrast, times_error: float) -> Interval:
    half = times_error * item.error
    low, high = item.difference - half, item.difference + half
    if item.scale is Scale.POINTS:
        return Interval(item.difference, low, high, half)
    change, low, high, half = (_expm1(x) for x in (item.difference, low, high, half))
    return Interval(change, low, high, half)


def _expm1(value: float) -> float:
    return math.expm1(min(value, 700.0))


def judge(interval: Interval, better: Better, margin: float = 0.0) -> Verdict:
    """What the interval says; a change within ``margin`` either way matters to nobody.

    Without a margin nothing is ever called the same: a difference may always be too small to see.
    """
    if interval.low > margin:
        return {Better.LOWER: Verdict.WORSE, Better.HIGHER: Verdict.BETTER}.get(
            better, Verdict.DIFFERENT
        )
    if interval.high < -margin:
        return {Better.LOWER: Verdict.BETTER, Better.HIGHER: Verdict.WORSE}.get(
            better, Verdict.DIFFERENT
        )
    if margin > 0 and -margin < interval.low and interval.high < margin:
        return Verdict.SAME
    return Verdict.NOT_SHOWN


def may_be_worse(interval: Interval, better: Better, margin: float) -> bool:
    """Whether a change for the worse beyond ``margin`` is neither shown nor ruled out."""
    if better is Better.LOWER:
        return interval.low <= margin < interval.high
    if better is Better.HIGHER:
        return interval.low < -margin <= interval.high
    return False
