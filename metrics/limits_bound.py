"""Which limit bound a stage: the one that was used up when the stage's 429s came."""

from collections.abc import Sequence

import numpy as np

from metrics.limits_attempts import Attempts, Bools
from metrics.limits_result import Bound, LimiterKind, LimitEstimate
from metrics.limits_rivals import Shape, fill_of
from metrics.limits_trail import Trail, trail_of

REFUSED_SHARE = 0.01
"""Share of a stage's attempts that must be refused for a limit to have bound it."""
EXPLAINED = 0.5
"""Share of its 429s that a limit must explain."""
TOLERANCE = 0.02
"""A limit counts as used up from this much below it."""


def what_bound(
    attempts: Attempts,
    estimates: Sequence[LimitEstimate],
    begin_s: float = -np.inf,
    end_s: float = np.inf,
) -> Bound:
    """Which of the limits bound the attempts sent from ``begin_s`` to before ``end_s``.

    ``attempts`` are those of the whole run, because a window's earlier requests count too.

    Raises:
        ValueError: ``end_s`` is not after ``begin_s``.
    """
    if not begin_s < end_s:
        raise ValueError(f"a stage from {begin_s} s to {end_s} s is empty: give end after begin")
    stage = attempts.within(begin_s, end_s)
    sent, refused = int(stage.sum()), int((stage & attempts.limited).sum())
    if not refused or refused < REFUSED_SHARE * sent:
        words = f"{refused} of {sent} attempts were refused with 429: no limit bound."
        return Bound(estimate=None, refused=refused, explained=0, evidence=words)
    best, explained = None, 0
    for estimate in estimates:
        count = _explained(attempts, stage, estimate, begin_s, end_s)
        if count > explained:
            best, explained = estimate, count
    if best is None or explained < EXPLAINED * refused:
        words = f"{refused} of {sent} attempts were refused, by no limit that is known."
        return Bound(estimate=None, refused=refused, explained=explained, evidence=words)
    words = (
        f"{explained} of {refused} refused attempts came when the limit "
        f"({best.kind.value.replace('_', ' ')}) was used up."
    )
    return Bound(estimate=best, refused=refused, explained=explained, evidence=words)


def _explained(
    attempts: Attempts, stage: Bools, estimate: LimitEstimate, begin_s: float, end_s: float
) -> int:
    if estimate.kind in (LimiterKind.COOLDOWN, LimiterKind.QUOTA):
        # They are told by what came before the run's 429s, which is true of each.
        return int((stage & attempts.limited).sum())
    limit = estimate.figure if estimate.kind.quantity == "concurrency" else estimate.burst
    if limit is None or not attempts.accepted.any():
        return 0
    trail = trail_of(attempts, every=True)
    fill = fill_of(trail, _shape(estimate))
    if fill is None:
        return 0
    sent_s = trail.judged_s - trail.half_trip_s
    inside = (sent_s >= begin_s - 1e-9) & (sent_s < end_s - 1e-9)
    return int((_full(trail, fill[1], limit) & inside).sum())


def _full(trail: Trail, most: np.ndarray, limit: float) -> Bools:
    return ~trail.accepted & (most > limit * (1 - TOLERANCE))


def _shape(estimate: LimitEstimate) -> Shape:
    bucket = estimate.kind in (LimiterKind.REQUESTS_BUCKET, LimiterKind.TOKENS_BUCKET)
    per_s = estimate.figure / 60 if bucket and estimate.figure is not None else None
    return Shape(
        estimate.kind,
        estimate.charge,
        estimate.window_s,
        estimate.phase_s,
        estimate.opened_by_first,
        per_s,
    )
