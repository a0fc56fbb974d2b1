"""Other people's knees, beside ours for those who want them; never the verdict.

Each is read from the curve of means over users. On servers with a known knee they miss it by a
quarter and more, or see one where none is: docs/knee.md says how often.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics.knee_level import Level, in_order
from metrics.knee_slo import GOOD_RATIO, slo_capacity

Array = npt.NDArray[np.float64]

RIVALS = ("kneedle", "usl_peak", "broken_stick_ttft", "power", "slo")
_GRID = 200


@dataclass(frozen=True, slots=True)
class _Curve:
    users: Array
    rps: Array
    latency_s: Array
    ttft_s: Array | None


def rivals(levels: Sequence[Level], slo_ratio: float = GOOD_RATIO) -> Mapping[str, float | None]:
    """Users at the knee by each rival; None where it names none.

    ``kneedle`` on throughput, the peak of the ``usl`` fit, ``broken_stick`` on mean TTFT, the
    maximum of ``power`` (throughput over latency), and the largest N with a share of
    ``slo_ratio`` good requests.
    """
    capacity = slo_capacity([level for level in levels if level.usable()], slo_ratio)
    found: dict[str, float | None] = dict.fromkeys(RIVALS)
    found["slo"] = capacity.users if capacity else None
    curve = _curve(levels)
    if curve is not None:
        found["kneedle"] = kneedle(curve.users, curve.rps)
        found["usl_peak"] = usl_peak(curve.users, curve.rps)
        found["power"] = _power(curve)
        if curve.ttft_s is not None:
            found["broken_stick_ttft"] = broken_stick(curve.users, curve.ttft_s)
    return found


def kneedle(x: Array, y: Array, sensitivity: float = 1.0) -> float | None:
    """Knee of a concave rising curve (Satopaa et al. 2011), offline: the first one.

    The difference curve y - x of the normalised points has a local maximum that is a knee once
    the curve falls below it by ``sensitivity`` mean steps in x. Always one of the points.
    """
    if x.size < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    x_norm, y_norm = (x - x.min()) / np.ptp(x), (y - y.min()) / np.ptp(y)
    difference = y_norm - x_norm
    fall = sensitivity * float(np.diff(x_norm).mean())
    for i in range(1, x.size - 1):
        if not difference[i - 1] <= difference[i] > difference[i + 1]:
            continue
        for j in range(i + 1, x.size):
            if difference[j] > difference[i]:
                break
            if difference[j] < difference[i] - fall or j == x.size - 1:
                return float(x[i])
    return None


def usl_peak(users: Array, rps: Array) -> float | None:
    """Peak of the universal scalability law, from its quadratic form; None without one.

    N / X = (1 + a (N - 1) + b N (N - 1)) / l is linear in its coefficients.
    """
    if users.size < 4 or rps.min() <= 0:
        return None
    weight = rps / users
    columns = [np.ones_like(users), users - 1, users * (users - 1)]
    design = np.column_stack(columns) * weight[:, None]
    (one, contention, coherence), *_ = np.linalg.lstsq(design, np.ones_like(users), rcond=None)
    if one <= 0 or coherence <= 0 or contention >= one:
        return None
    return float(math.sqrt((one - contention) / coherence))


def broken_stick(x: Array, y: Array) -> float | None:
    """Breakpoint of the best two lines that meet, relative errors counting; None below 4 points."""
    if x.size < 4 or y.min() <= 0:
        return None
    weight = 1 / y
    best, found = math.inf, None
    for bend in np.geomspace(x[1], x[-2], _GRID):
        design = np.column_stack([np.ones_like(x), x, np.maximum(x - bend, 0)]) * weight[:, None]
        solved, *_ = np.linalg.lstsq(design, y * weight, rcond=None)
        left = float(((design @ solved - y * weight) ** 2).sum())
        if left < best and solved[2] > 0:
            best, found = left, float(bend)
    return found


def _power(curve: _Curve) -> float | None:
    """The level with the most throughput for its latency; None when it is the top one."""
    best = int(np.argmax(curve.rps / curve.latency_s))
    return float(curve.users[best]) if best < curve.users.size - 1 else None


def _curve(levels: Sequence[Level]) -> _Curve | None:
    """Means by users, without levels that measured something else; None below 3."""
    usable = [level for level in in_order(levels) if level.usable() and not level.down]
    users = sorted({level.users for level in usable})
    if len(users) < 3:
        return None
    groups = [[level for level in usable if level.users == n] for n in users]
    timed = all(len(level.ttft_s) for level in usable)
    return _Curve(
        np.array(users, dtype=np.float64),
        np.array([np.mean([level.completed_rps() or 0.0 for level in group]) for group in groups]),
        np.array([np.mean([level.mean_latency_s() for level in group]) for group in groups]),
        np.array([np.mean([level.mean_ttft_s() for level in group]) for group in groups])
        if timed
        else None,
    )
