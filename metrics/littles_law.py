"""Users against the cycles they made: N = X (R + Z), and requests in flight as a mean over time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from metrics.statistics import FloatArray

GAP_LIMIT_RATIO = 0.05
DEVIATIONS = 3


@dataclass(frozen=True, slots=True)
class LittlesLaw:
    """``users`` wanted against ``found_users``, the mean number seen asking or thinking."""

    users: int
    found_users: float
    gap_ratio: float
    """(found - wanted) / wanted."""
    limit_ratio: float
    """max(5 %, 3 standard deviations), which grow as the window holds fewer cycles."""
    cycles: float

    @property
    def holds(self) -> bool:
        """Whether the two agree within the limit."""
        return abs(self.gap_ratio) <= self.limit_ratio


def time_weighted_mean(
    first_s: Sequence[float] | FloatArray,
    last_s: Sequence[float] | FloatArray,
    begin_s: float,
    end_s: float,
) -> float | None:
    """How many of the intervals are open on average between two instants, all in seconds.

    None for a window without length.
    """
    if end_s <= begin_s:
        return None
    first, last = np.asarray(first_s, dtype=np.float64), np.asarray(last_s, dtype=np.float64)
    inside = np.minimum(last, end_s) - np.maximum(first, begin_s)
    return float(np.maximum(inside, 0.0).sum()) / (end_s - begin_s)


def check_littles_law(
    users: int, found_users: float, cycle_s: float, window_s: float, thinks: bool
) -> LittlesLaw | None:
    """N against X (R + Z), where a cycle counts by its share inside the window.

    X times the mean cycle, each credited so, is the time-weighted mean of users inside a cycle
    (``found_users``). Counting starts instead would be off by up to a whole cycle of users who move
    in step. None without users, a cycle or a window.
    """
    if users <= 0 or cycle_s <= 0 or window_s <= 0:
        return None
    cycles = window_s / cycle_s
    deviation = 0.1 / math.sqrt(cycles) if thinks else 0.2 / cycles
    return LittlesLaw(
        users=users,
        found_users=found_users,
        gap_ratio=(found_users - users) / users,
        limit_ratio=max(GAP_LIMIT_RATIO, DEVIATIONS * deviation),
        cycles=cycles,
    )
