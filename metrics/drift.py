"""Drift of a long window: Theil-Sen slope and the Mann-Kendall test of Hamed and Rao (1998)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from metrics.statistics import FloatArray, percentile

WINDOW_S = 20.0
MOST_WINDOWS = 720
"""The slopes of all pairs are looked at: longer runs get longer windows."""
FEWEST_WINDOWS = 30
FEWEST_IN_WINDOW = 10
P_LIMIT = 0.01
CHANGE_LIMIT_RATIO = 0.05
NOISY_RATIO = 1.0
_ROUNDING = 1e-9
"""What is left of a straight line is rounding, whose correlation means nothing."""
_MOST_CORRELATION = 0.98
_Z95, _Z99 = 1.960, 2.576
"""Two-sided points of the normal distribution."""


@dataclass(frozen=True, slots=True)
class Drift:
    """The trend of a series over its whole length; changes are shares of its median.

    ``low_ratio`` and ``high_ratio`` bound the change at 95 %. ``detectable_ratio`` is the smallest
    change that these windows can tell from chance. ``variance_factor`` is by how much
    autocorrelation widens the test, 1 or more.
    """

    windows: int
    slope_per_min_ratio: float
    change_ratio: float
    low_ratio: float
    high_ratio: float
    p_value: float
    variance_factor: float
    detectable_ratio: float

    @property
    def shown(self) -> bool:
        """Whether a drift may be claimed: enough windows, beyond chance, and large enough."""
        return (
            self.windows >= FEWEST_WINDOWS
            and self.p_value < P_LIMIT
            and abs(self.change_ratio) > CHANGE_LIMIT_RATIO
        )

    @property
    def noisy(self) -> bool:
        """Whether the windows scatter so much that not even a doubling would be seen."""
        return not self.shown and self.detectable_ratio >= NOISY_RATIO

    def sentence(self) -> str:
        """What may be said, with the interval, or what would have been seen."""
        interval = f"95 % interval {self.low_ratio:+.1%} to {self.high_ratio:+.1%}"
        if self.shown:
            return (
                f"{self.change_ratio:+.1%} over {self.windows} windows "
                f"({self.slope_per_min_ratio:+.2%} a minute; {interval}; p = {self.p_value:.2g})"
            )
        if self.windows < FEWEST_WINDOWS:
            return f"no drift shown: {self.windows} windows, and {FEWEST_WINDOWS} are needed"
        smallest = max(self.detectable_ratio, CHANGE_LIMIT_RATIO)
        if self.noisy:
            return f"too noisy to tell ({interval})"
        return (
            f"no drift shown: a change below {smallest:.0%} would not have been seen ({interval})"
        )


def window_length_s(length_s: float) -> float:
    """The windows that ``length_s`` is cut into: 20 s, longer from 4 hours on."""
    return max(WINDOW_S, length_s / MOST_WINDOWS)


def windowed_percentile(
    times_s: Sequence[float] | FloatArray,
    values: Sequence[float] | FloatArray,
    q: float,
    begin_s: float,
    end_s: float,
) -> tuple[FloatArray, FloatArray]:
    """Middle (seconds from ``begin_s``) and ``q`` quantile of each whole window.

    Windows with fewer than 10 values are left out.
    """
    times, found = np.asarray(times_s, dtype=np.float64), np.asarray(values, dtype=np.float64)
    step_s = window_length_s(end_s - begin_s)
    middles, quantiles = [], []
    index = np.floor((times - begin_s) / step_s)
    # A whole window may miss the last few milliseconds of a hold that was planned in seconds.
    for window in range(math.floor((end_s - begin_s) / step_s + 0.01)):
        value = percentile(inside, q) if (inside := found[index == window]).size else None
        if value is not None and inside.size >= FEWEST_IN_WINDOW:
            middles.append((window + 0.5) * step_s)
            quantiles.append(value)
    return np.array(middles), np.array(quantiles)


def find_drift(
    times_s: Sequence[float] | FloatArray, values: Sequence[float] | FloatArray
) -> Drift | None:
    """The trend of ``values`` at ascending ``times_s``; None below 4 values or a median of 0."""
    times, series = np.asarray(times_s, dtype=np.float64), np.asarray(values, dtype=np.float64)
    n = series.size
    if n < 4:
        return None
    median = float(np.median(series))
    if median <= 0:
        return None
    slopes = np.sort(_pair_slopes(times, series))
    slope = float(np.median(slopes))
    factor = _variance_factor(series - slope * times, median)
    deviation = math.sqrt(_kendall_variance(series) * factor)
    # So many windows would say as much if they were independent.
    freedom = max(1.0, n / factor - 1)
    s = float(np.sign(slopes).sum())
    low, high = _slope_interval(slopes, _as_t(_Z95, freedom) * deviation)
    low99, high99 = _slope_interval(slopes, _as_t(_Z99, freedom) * deviation)
    whole = float(times[-1] - times[0]) * n / (n - 1)
    return Drift(
        windows=n,
        slope_per_min_ratio=60 * slope / median,
        change_ratio=slope * whole / median,
        low_ratio=low * whole / median,
        high_ratio=high * whole / median,
        p_value=_p_value(s, deviation, freedom),
        variance_factor=factor,
        detectable_ratio=(high99 - low99) / 2 * whole / median,
    )


def _pair_slopes(times: FloatArray, series: FloatArray) -> FloatArray:
    first, second = np.triu_indices(series.size, k=1)
    slopes: FloatArray = (series[second] - series[first]) / (times[second] - times[first])
    return slopes


def _kendall_variance(series: FloatArray) -> float:
    n = series.size
    _, ties = np.unique(series, return_counts=True)
    tied = float((ties * (ties - 1) * (2 * ties + 5)).sum())
    return (n * (n - 1) * (2 * n + 5) - tied) / 18


def _variance_factor(detrended: FloatArray, scale: float) -> float:
    """How much wider autocorrelated windows make the test; never narrower.

    Hamed and Rao's sum, over those lags of at most a quarter of the series whose correlation is
    significant, since the others are noise. In short series that misses much of the sum, so that
    it is at least what a first-order process with the first lag's correlation would have,
    significant or not: of 30 windows correlated by a half every other series shows no lag that is.
    """
    n = detrended.size
    if float(np.ptp(detrended)) <= scale * _ROUNDING:
        return 1.0
    ranks = np.argsort(np.argsort(detrended, kind="stable"), kind="stable").astype(np.float64)
    centred = ranks - ranks.mean()
    power = float((centred**2).sum())
    total, first = 0.0, 0.0
    for lag in range(1, n // 4 + 1):
        correlation = float((centred[lag:] * centred[:-lag]).sum()) / power
        if abs(correlation) > _Z95 / math.sqrt(n):
            total += (n - lag) * (n - lag - 1) * (n - lag - 2) * correlation
        if lag == 1:
            # The slope and the mean take some of the correlation away (Marriott and Pope).
            first = min(_MOST_CORRELATION, max(0.0, (n * correlation + 1.5) / max(1, n - 4)))
    hamed_rao = 1 + 2 * total / (n * (n - 1) * (n - 2))
    return max(1.0, hamed_rao, (1 + first) / (1 - first))


def _slope_interval(slopes: FloatArray, half: float) -> tuple[float, float]:
    """Sen's order statistics; all slopes when too few would lie outside."""
    below = max(0, math.floor((slopes.size - half) / 2) - 1)
    above = min(slopes.size - 1, math.ceil((slopes.size + half) / 2))
    return float(slopes[below]), float(slopes[above])


def _p_value(s: float, deviation: float, freedom: float) -> float:
    """Two-sided, with the continuity correction, by Student's t: the factor is an estimate too."""
    if s == 0 or deviation <= 0:
        return 1.0
    t = (abs(s) - 1) / deviation
    # Wallace's approximation.
    z = _wallace(freedom) * math.sqrt(freedom * math.log1p(t * t / freedom))
    return math.erfc(z / math.sqrt(2))


def _as_t(z: float, freedom: float) -> float:
    """The point of Student's t that is as far out as ``z`` is of the normal distribution."""
    # Far beyond what any number of windows reaches, an overflow would be of no use.
    exponent = min(700.0, (z / _wallace(freedom)) ** 2 / freedom)
    return math.sqrt(freedom * math.expm1(exponent))


def _wallace(freedom: float) -> float:
    return (8 * freedom + 1) / (8 * freedom + 3)
