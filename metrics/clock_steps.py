"""Whether a worker's wall clock was set during a run, from the two times that each record bears."""

from collections.abc import Sequence

import numpy as np

from metrics.statistics import FloatArray

STEP_LIMIT_S = 0.1
SLEW_RATIO = 1e-3
"""A clock that is being slewed goes wrong by at most this; twice what NTP does."""
_SIDE = 5


def largest_step_s(
    wall_s: Sequence[float] | FloatArray, monotonic_s: Sequence[float] | FloatArray
) -> float | None:
    """The largest jump of wall time against monotonic time, in seconds, forwards as positive.

    The records are in the order of their monotonic time. Medians of 5 on each side are compared,
    for one reading alone may be late. None when no jump is over 0.1 s, with fewer than 10 records,
    or when most labels are one and the same, which tell nothing of a clock.
    """
    wall, mono = np.asarray(wall_s, dtype=np.float64), np.asarray(monotonic_s, dtype=np.float64)
    if wall.size < 2 * _SIDE or np.unique(wall).size <= wall.size / 2:
        return None
    sides = np.lib.stride_tricks.sliding_window_view(wall - mono, _SIDE)
    middles = np.median(sides, axis=1)
    moments = np.median(np.lib.stride_tricks.sliding_window_view(mono, _SIDE), axis=1)
    jumps = middles[_SIDE:] - middles[:-_SIDE]
    slewed = SLEW_RATIO * (moments[_SIDE:] - moments[:-_SIDE])
    beyond = np.abs(jumps) - slewed
    at = int(np.argmax(beyond))
    return float(jumps[at]) if beyond[at] > STEP_LIMIT_S else None
