"""The share of a level's cycle that is spent in the queue, and what follows at one level."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from metrics.knee_level import Level
from metrics.knee_result import LevelEvidence
from metrics.statistics import jackknife_mean_interval

QUEUE_SHARE = 0.20
"""q from which a level is taken as queueing and gives an estimate."""
CALM_SHARE = 0.05
"""q below which a level is taken as free of a queue."""
ONSET_SHARE = 0.025
"""q that is enough to say that a queue begins, at the top level and with an interval above 0."""
STEP_FACTOR = 1.5
"""Decode steps an arrival waits without any queue: half of one under way, and its own prefill's."""
MET_STEPS = 0.5
"""Decode steps of the baseline that an arrival meets beside others, and one user alone never."""
T95_3 = 3.182
"""Two-sided 95 % point of Student's t with 3 degrees of freedom: 4 batches."""
BATCHES = 4


def baseline(usable: Sequence[Level]) -> Level:
    """The level with the lowest mean TTFT among the 3 smallest numbers of users.

    A minimum, because a cold first level must not raise it.
    """
    smallest = sorted({level.users for level in usable})[:3]
    low = [level for level in usable if level.users in smallest]
    return min(low, key=lambda level: (level.mean_ttft_s(), level.users))


def waiting_share(level: Level, base: Level) -> float:
    """q = W / (R + Z), from 0 to 1."""
    cycle_s = level.cycle_s()
    waited_s = level.mean_ttft_s() - _unqueued_s(level, base)
    return min(1.0, max(0.0, waited_s / cycle_s)) if cycle_s > 0 else 0.0


def waiting_share_interval(level: Level, base: Level) -> tuple[float, float] | None:
    """95 % interval of q, clipped to 0 and 1; None below 8 successes.

    A jackknife over 4 consecutive batches: waits are correlated over about a cycle, so few long
    batches and a wide t hold where many short ones do not.
    """
    ttft_s = np.asarray(level.ttft_s, dtype=np.float64)
    cycle_s = np.asarray(level.latency_s, dtype=np.float64) + level.think_s
    if ttft_s.size < 2 * BATCHES or level.cycle_s() <= 0:
        return None
    waited_s = ttft_s - _unqueued_s(level, base)
    if ttft_s.size != cycle_s.size:
        # Mixed traffic: only the streamed part has a TTFT.
        cycle_s = np.full_like(ttft_s, level.cycle_s())
    half = _ratio_half_width(waited_s, cycle_s)
    centre = waited_s.sum() / cycle_s.sum()
    low, high = max(0.0, centre - half), max(0.0, centre + half)
    return float(min(1.0, low)), float(min(1.0, high))


def latency_interval_s(level: Level) -> tuple[float, float]:
    """95 % interval of the mean latency; the mean itself where there are too few for one."""
    mean_s = level.mean_latency_s()
    return jackknife_mean_interval(level.latency_s) or (mean_s, mean_s)


def evidence_of(level: Level, base: Level) -> LevelEvidence:
    """What the queue share says at one usable level."""
    q = waiting_share(level, base)
    interval = waiting_share_interval(level, base)
    return LevelEvidence(
        users=level.users,
        queue_share=q,
        queue_share_low=interval[0] if interval else None,
        queue_share_high=interval[1] if interval else None,
        carried_users=level.users * (1 - q) if q >= QUEUE_SHARE else None,
        note=None,
        stage=level.stage,
    )


def _unqueued_s(level: Level, base: Level) -> float:
    growth_s = max(0.0, level.mean_tpot_s() - base.mean_tpot_s())
    # One user alone never meets a step under way; among others each arrival does.
    met_s = MET_STEPS * base.mean_tpot_s() if base.users == 1 < level.users else 0.0
    return base.mean_ttft_s() + met_s + STEP_FACTOR * growth_s


def _ratio_half_width(top: npt.NDArray[np.float64], bottom: npt.NDArray[np.float64]) -> float:
    tops = np.array([part.sum() for part in np.array_split(top, BATCHES)])
    bottoms = np.array([part.sum() for part in np.array_split(bottom, BATCHES)])
    without = (tops.sum() - tops) / (bottoms.sum() - bottoms)
    variance = (BATCHES - 1) / BATCHES * float(((without - without.mean()) ** 2).sum())
    return T95_3 * math.sqrt(variance)
