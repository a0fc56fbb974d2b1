"""Whether an offered rate is more than the endpoint carries: a backlog that grows shows it.

At a rate that is carried, requests in flight wander around a level. At one that is not, they grow
for as long as the rate lasts, and no waiting makes any percentile final.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

BATCHES = 8
_T95 = 2.447
"""Two-sided 95 % point of Student's t for a line through eight batches: 6 degrees of freedom."""
MINIMUM_S = 5.0
"""A shorter look sees the first answers coming, not a trend."""
GROWTH_RATIO = 0.05
"""Of the offered rate: less backlog per second is taken for wandering."""
GROWTH_SDS = 3.0
"""Arrivals of a Poisson process alone spread by the root of their number."""


@dataclass(frozen=True, slots=True)
class BacklogTrend:
    """How requests in flight changed, in requests per second with a 95 % interval.

    ``offered_rps`` and ``completed_rps`` differ by the slope when nothing is lost.
    """

    seconds: float
    slope_rps: float
    low_rps: float
    high_rps: float
    offered_rps: float

    @property
    def completed_rps(self) -> float:
        """What left per second, by the balance of arrivals and backlog."""
        return self.offered_rps - self.slope_rps

    @property
    def unstable(self) -> bool:
        """Whether the backlog surely grows: beyond the interval, beyond 5 % of the offered rate,
        and in all by more than chance arrivals add up to."""
        arrivals = self.offered_rps * self.seconds
        grown = self.slope_rps * self.seconds
        return self.low_rps > GROWTH_RATIO * self.offered_rps and grown > GROWTH_SDS * math.sqrt(
            max(1.0, arrivals)
        )


def backlog_trend(
    at_s: Sequence[float], in_flight: Sequence[float], offered_rps: float
) -> BacklogTrend | None:
    """The trend over the later half of a step; None when that is too short to say.

    The first half is the filling up, which any rate begins with. Samples that follow each other
    share their requests, so the line goes through the means of eight batches.
    """
    times, values = np.asarray(at_s, dtype=float), np.asarray(in_flight, dtype=float)
    if times.size < 2:
        return None
    later = times >= times[0] + (times[-1] - times[0]) / 2
    times, values = times[later], values[later]
    seconds = float(times[-1] - times[0]) if times.size else 0.0
    if seconds < MINIMUM_S or times.size < BATCHES:
        return None
    x = np.array([part.mean() for part in np.array_split(times, BATCHES)])
    y = np.array([part.mean() for part in np.array_split(values, BATCHES)])
    centred = x - x.mean()
    spread = float((centred**2).sum())
    slope = float((centred * y).sum()) / spread
    rest = y - y.mean() - slope * centred
    error = math.sqrt(float((rest**2).sum()) / (BATCHES - 2) / spread)
    half = _T95 * error
    return BacklogTrend(seconds, slope, slope - half, slope + half, offered_rps)
