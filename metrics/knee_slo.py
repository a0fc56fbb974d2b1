"""Capacity under the objectives: the largest number of users with enough good requests."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from metrics.knee_level import Level
from metrics.knee_result import SloCapacity
from metrics.statistics import jackknife_mean_interval

GOOD_RATIO = 0.90
_Z95 = 1.96


def slo_capacity(levels: Sequence[Level], good_ratio: float = GOOD_RATIO) -> SloCapacity | None:
    """Largest N with at least ``good_ratio`` of requests good; None when no level says so.

    The shares are made to fall with users (pool adjacent violators) and read off between levels;
    the interval reads off the ends of each level's interval in the same way.
    """
    judged = [
        level
        for level in levels
        if level.void is None and not level.down and level.good is not None and len(level.good)
    ]
    if not judged:
        return None
    shares = [_share(level) for level in judged]
    users, top = _read_off(judged, [share[1] for share in shares], good_ratio)
    low, _ = _read_off(judged, [share[0] for share in shares], good_ratio)
    high, open_end = _read_off(judged, [share[2] for share in shares], good_ratio)
    return SloCapacity(good_ratio, users, low, None if open_end else high, top)


def falling(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The closest values that never rise: neighbours that do are pooled by weight."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        pools.append((value, weight, 1))
        while len(pools) > 1 and pools[-1][0] > pools[-2][0]:
            (a, weight_a, n_a), (b, weight_b, n_b) = pools[-2], pools[-1]
            weight_ab = weight_a + weight_b
            pools[-2:] = [((a * weight_a + b * weight_b) / weight_ab, weight_ab, n_a + n_b)]
    return [value for value, _, n in pools for _ in range(n)]


def _share(level: Level) -> tuple[float, float, float]:
    """Share of good requests with the wider of two intervals.

    Wilson's knows that 60 of 60 is not certainty; the batches know that neighbours share a queue.
    """
    good = np.asarray(level.good, dtype=np.float64)
    n, share = good.size, float(good.mean())
    centre = (share + _Z95**2 / (2 * n)) / (1 + _Z95**2 / n)
    half = _Z95 / (1 + _Z95**2 / n) * math.sqrt(share * (1 - share) / n + (_Z95 / (2 * n)) ** 2)
    low, high = centre - half, centre + half
    batches = jackknife_mean_interval(good)
    if batches is not None:
        low, high = min(low, batches[0]), max(high, batches[1])
    return max(0.0, min(low, share)), share, min(1.0, max(high, share))


def _read_off(
    levels: Sequence[Level], shares: Sequence[float], wanted: float
) -> tuple[float | None, bool]:
    """(users, whether every level holds); None when not even the lowest does."""
    users = sorted({level.users for level in levels})
    means, weights = [], []
    for n in users:
        same = [
            (share, 0 if level.good is None else len(level.good))
            for level, share in zip(levels, shares, strict=True)
            if level.users == n
        ]
        weights.append(float(sum(weight for _, weight in same)))
        means.append(sum(share * weight for share, weight in same) / weights[-1])
    smooth = falling(means, weights)
    holding = _last(smooth, lambda share: share >= wanted)
    if holding is None:
        return None, False
    if holding == len(users) - 1:
        return float(users[-1]), True
    above, below = smooth[holding], smooth[holding + 1]
    part = (above - wanted) / (above - below)
    return users[holding] + part * (users[holding + 1] - users[holding]), False


def _last(values: Sequence[float], holds: Callable[[float], bool]) -> int | None:
    return max((i for i, value in enumerate(values) if holds(value)), default=None)
