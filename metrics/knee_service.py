"""How service slows with the batch: the efficiency knee, and queues that TTFT does not show.

A batching server without a queue takes S = A + D * B for a request beside B others in service.
Throughput B / S then has the elasticity A / (A + D * B): one half at B = A / D, where Kleinrock's
power (throughput over latency) is at its maximum.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from metrics.knee_level import Level
from metrics.knee_queue import latency_interval_s, waiting_share

DEPARTURE = 1.25
"""Latency over the batching law, for each doubling of users, that only a queue explains."""
SMALLEST_DEPARTURE = 1.15
"""The same on levels that lie close together."""
FLAT = 1.15
"""Throughput of the top level over the first that departs, above which it scales: no queue."""
HIDDEN_ERROR = 0.20
"""Relative error of a knee that is read from latency alone."""
_FEWEST_LEVELS = 3


@dataclass(frozen=True, slots=True)
class ServiceLaw:
    """S = alone_s + per_user_s * batch, in seconds."""

    alone_s: float
    per_user_s: float

    def elasticity(self, batch: float) -> float:
        """Share of a percent of throughput that a percent more users brings."""
        whole_s = self.alone_s + self.per_user_s * batch
        return self.alone_s / whole_s if whole_s > 0 else 1.0

    def efficiency_users(self) -> float | None:
        """Batch at which the elasticity is one half; None when service does not slow."""
        return self.alone_s / self.per_user_s if self.per_user_s > 0 else None


@dataclass(frozen=True, slots=True)
class HiddenQueue:
    """A knee read from latency alone; without an interval where the levels have means only."""

    users: float
    low: float | None
    high: float | None
    calm_users: int
    queueing_users: int
    seen_at: int
    """Levels that show it."""


def service_law(levels: Sequence[Level], base: Level | None) -> ServiceLaw | None:
    """Fit the law to what is left of latency without the waiting; None below 3 levels.

    Without a ``base`` nothing is taken off for waiting.
    """
    batches, times_s, weights = [], [], []
    for level in levels:
        share = waiting_share(level, base) if base is not None else 0.0
        service_s = level.mean_latency_s() - share * level.cycle_s()
        if service_s > 0:
            batches.append(level.users * service_s / level.cycle_s())
            times_s.append(service_s)
            weights.append(len(level.latency_s))
    return _fit(batches, times_s, weights)


def hidden_queue(levels: Sequence[Level], fewest: int) -> HiddenQueue | None:
    """A queue in latency that TTFT need not show, found on levels in order of users.

    From the first level on whose latency, and that of all above, lies clearly above the line
    through the levels below it, N_q solves N_q = N * (A + D * N_q + Z) / (R + Z) at each of them.
    ``fewest`` such levels are needed: a single one may be an accident.
    """
    for n in range(_FEWEST_LEVELS, len(levels)):
        lower, level = levels[:n], levels[n]
        if level.users == lower[-1].users:
            continue
        law = _fit(
            [item.users for item in lower],
            [item.mean_latency_s() for item in lower],
            [len(item.latency_s) for item in lower],
        )
        above = levels[n:]
        if law is None or len({item.users for item in above}) < fewest:
            continue
        if not _flat(above) or not all(_departs(item, lower[-1], law) for item in above):
            continue
        found = [_carried(item, law) for item in above]
        solved = [users for users in found if users is not None]
        if solved:
            users = float(np.median(solved))
            half = math.hypot(HIDDEN_ERROR * users, float(np.ptp(solved)) / 2)
            known = any(len(item.latency_s) > 1 for item in above)
            low, high = (max(0.0, users - half), users + half) if known else (None, None)
            return HiddenQueue(users, low, high, lower[-1].users, level.users, len(solved))
    return None


def _flat(levels: Sequence[Level]) -> bool:
    """Whether throughput has stopped growing, by Little's law: it needs no window."""
    first, top = (level.users / level.cycle_s() for level in (levels[0], levels[-1]))
    return top <= FLAT * first


def _departs(level: Level, below: Level, law: ServiceLaw) -> bool:
    doublings = min(1.0, math.log2(level.users / below.users))
    excess = max(SMALLEST_DEPARTURE, DEPARTURE**doublings)
    expected_s = law.alone_s + law.per_user_s * level.users
    return bool(latency_interval_s(level)[0] > excess * expected_s)


def _carried(level: Level, law: ServiceLaw) -> float | None:
    room_s = level.cycle_s() - level.users * law.per_user_s
    users = level.users * (law.alone_s + level.think_s) / room_s if room_s > 0 else 0.0
    return users if 0 < users <= level.users else None


def _fit(
    batches: Sequence[float], times_s: Sequence[float], weights: Sequence[float]
) -> ServiceLaw | None:
    if len(set(batches)) < _FEWEST_LEVELS:
        return None
    batch, time_s = np.asarray(batches, dtype=np.float64), np.asarray(times_s, dtype=np.float64)
    # Relative errors count, and a level with more requests is known better.
    weight = np.sqrt(np.asarray(weights, dtype=np.float64)) / time_s
    design = np.column_stack([np.ones_like(batch), batch]) * weight[:, None]
    (alone_s, per_user_s), *_ = np.linalg.lstsq(design, time_s * weight, rcond=None)
    if per_user_s <= 0:
        return ServiceLaw(float(np.average(time_s, weights=weight**2)), 0.0)
    return ServiceLaw(float(alone_s), float(per_user_s)) if alone_s > 0 else None
