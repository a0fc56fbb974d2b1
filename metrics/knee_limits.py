"""Ceilings that are no queue: rate limits, caps on requests in flight, errors, the client."""

import math
from collections.abc import Sequence

import numpy as np

from metrics.knee_level import Level
from metrics.knee_result import Ceiling, KneeStatus
from metrics.statistics import FloatArray

CAP_SPREAD = 0.05
"""Standard deviation over mean of the requests in flight at 429s, below which they are a cap."""
CAP_BEYOND = 0.1
"""Share of the time with more in flight than at the refusals, from which it is no cap."""
CAP_REFUSALS = 20
"""429s needed to tell a cap by that."""
CAP_OF_EVEN = 0.75
"""The same deviation over the one that evenly admitted requests would have: below it, a cap. At
small numbers one step is more than ``CAP_SPREAD``, and a slot may be free a moment after its
answer has ended, so that some 429s come at one less."""
CAP_STEP = 1.0
"""Most requests in flight that the deviation may be by that."""
CAP_EVEN_LEAST = 0.6
"""With answers that are all alike a rate limit leaves no step either, so nothing is told then."""
CAP_FEWEST = 10
"""429s needed to tell a cap by that, of two or more: a single slot looks like one user's rate."""
CAP_FREQUENT = 0.25
"""Share of the 429s that the cap itself meets: fewer come at answers on their way back."""
BURST_RATIO = 1.05
"""A level this much faster than the sustained rate only passed on the burst allowance."""


def ceiling_of(levels: Sequence[Level]) -> Ceiling | None:
    """What stopped the climb, if it was no queue: the one met at the fewest users."""
    passed = {level.users for level in levels if level.usable()}
    # A void level that was held once more and passed stopped nothing.
    stopped = [
        level
        for level in levels
        if _kind(level) is not None and (level.void is None or level.users not in passed)
    ]
    if not stopped:
        return None
    lowest = min(stopped, key=lambda level: level.users)
    status = _kind(lowest)
    if status is KneeStatus.RATE_LIMITED:
        limited = [level for level in stopped if level.rate_limited_much()]
        return _limit(limited, [level for level in levels if level.usable()])
    detail = _most_frequent(lowest) if status is KneeStatus.ERRORS else lowest.void or ""
    return Ceiling(status or KneeStatus.ERRORS, lowest.users, None, None, None, detail)


def in_flight_at(
    accepted_s: Sequence[tuple[float, float]] | FloatArray, refused_s: Sequence[float]
) -> list[float]:
    """Accepted requests in flight at each refusal, from their begin and end on one clock.

    Requests still running at the end are not in the list, so only refusals that are older than
    the longest accepted request are counted.
    """
    spans = np.asarray(accepted_s, dtype=np.float64).reshape(-1, 2)
    if not len(spans):
        return []
    begins, ends = np.sort(spans[:, 0]), np.sort(spans[:, 1])
    at_s = np.asarray(refused_s, dtype=np.float64)
    at_s = at_s[at_s <= ends[-1] - (spans[:, 1] - spans[:, 0]).max()]
    begun, ended = (np.searchsorted(times, at_s, side="right") for times in (begins, ends))
    return [float(count) for count in begun - ended]


def in_flight_shares(accepted_s: Sequence[tuple[float, float]] | FloatArray) -> list[float]:
    """Shares of the time (0-1) with 0, 1, 2 ... accepted requests under way, from their spans."""
    spans = np.asarray(accepted_s, dtype=np.float64).reshape(-1, 2)
    if not len(spans):
        return []
    at_s, change = spans.T.ravel(), np.repeat((1, -1), len(spans))
    # An end and a begin at one instant are one request after the other.
    order = np.lexsort((change, at_s))
    # What takes no time ends before it begins, and is under way for none.
    under_way = np.maximum(np.cumsum(change[order])[:-1], 0)
    spent_s = np.bincount(under_way, weights=np.diff(at_s[order]))
    whole_s = float(spent_s.sum())
    return [float(part) / whole_s for part in spent_s] if whole_s > 0 else []


def passed_on_burst(level: Level, ceiling: Ceiling | None) -> bool:
    """Whether a level was faster than a rate limit lets requests through for long."""
    if ceiling is None or ceiling.status is not KneeStatus.RATE_LIMITED:
        return False
    rate_rps, limit_rps = level.measured_rps(), ceiling.completed_rps
    return rate_rps is not None and limit_rps is not None and rate_rps > BURST_RATIO * limit_rps


def _kind(level: Level) -> KneeStatus | None:
    if level.void is not None:
        return KneeStatus.CLIENT_LIMITED if level.client_limited else None
    if level.rate_limited_much():
        return KneeStatus.RATE_LIMITED
    return KneeStatus.ERRORS if level.failed_much() else None


def _limit(limited: Sequence[Level], passed: Sequence[Level]) -> Ceiling:
    users = min(level.users for level in limited)
    cap = _cap(limited)
    # A level of more users, without 429s, that had more in flight knows of no cap.
    beyond = [level for level in passed if cap is not None and level.users > cap]
    if cap is not None and not all(_is_most(level, int(cap)) for level in beyond):
        cap = None
    most = max(len(level.latency_s) for level in limited)
    # A level that was cut early may have answers still to come, and reads too slow.
    slowest = min(
        (level for level in limited if level.measured_rps() and 2 * len(level.latency_s) >= most),
        key=lambda level: level.measured_rps() or 0.0,
        default=None,
    )
    rate_rps = slowest.measured_rps() if slowest is not None else None
    equivalent = rate_rps * slowest.cycle_s() if slowest is not None and rate_rps else None
    if cap is not None:
        detail = f"429s come at {cap:.0f} requests in flight: a cap, not a queue"
        return Ceiling(KneeStatus.INFLIGHT_CAP, users, rate_rps, equivalent, cap, detail)
    detail = "429s: a rate limit, not a queue"
    if rate_rps:
        detail += f"; {rate_rps:.3g} requests/s pass"
    return Ceiling(KneeStatus.RATE_LIMITED, users, rate_rps, equivalent, None, detail)


def _cap(limited: Sequence[Level]) -> float | None:
    most = max(limited, key=lambda level: len(level.in_flight_at_refusals))
    seen = np.asarray(most.in_flight_at_refusals, dtype=np.float64)
    if seen.size < CAP_FEWEST:
        return None
    deviation, middle = float(seen.std()), math.floor(float(seen.mean()) + 0.5)
    if (
        seen.size >= CAP_REFUSALS
        and deviation < CAP_SPREAD * seen.mean()
        and _is_most(most, middle)
    ):
        return float(middle)
    even = _even_deviation(most)
    if even < CAP_EVEN_LEAST or deviation > min(CAP_STEP, CAP_OF_EVEN * even):
        return None
    counts, times = np.unique(seen, return_counts=True)
    frequent = int(counts[times >= CAP_FREQUENT * seen.size].max(initial=0))
    return float(frequent) if frequent > 1 and _is_most(most, frequent) else None


def _is_most(level: Level, cap: int) -> bool:
    """Whether hardly more are in flight at other times.

    One of few users is refused while all the others are served, whatever the reason. A cap lets no
    more through at other times, but for answers that are still on their way back.
    """
    return cap > 0 and sum(level.in_flight_shares[cap + 1 :]) <= CAP_BEYOND


def _even_deviation(level: Level) -> float:
    """Standard deviation of the requests in flight if they were admitted at even distances.

    The least that a rate limit leaves: its variance is the rate times the integral of F (1 - F)
    over the latencies, which is half their mean absolute difference.
    """
    latency_s, rate_rps = np.sort(np.asarray(level.latency_s)), level.measured_rps()
    n = latency_s.size
    if n < 2 or not rate_rps:
        return 0.0
    difference_s = 2 * float(((2 * np.arange(1, n + 1) - n - 1) * latency_s).sum()) / (n * (n - 1))
    return math.sqrt(max(0.0, rate_rps * difference_s / 2))


def _most_frequent(level: Level) -> str:
    bad = {name: n for name, n in level.outcomes.items() if name not in ("ok", "cancelled") and n}
    share = f"{level.failed} of {level.requests} requests failed"
    return f"{share}, mostly {max(bad, key=lambda name: bad[name])}" if bad else share
