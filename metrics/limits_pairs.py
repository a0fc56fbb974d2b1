"""Two limiters at once: each must explain, on its own, the 429s that the other leaves."""

from dataclasses import replace

import numpy as np

from metrics.limits_attempts import Attempts, Bools
from metrics.limits_decide import Decision, decided
from metrics.limits_rivals import fill_of, shape_of
from metrics.limits_search import Fit, all_fits
from metrics.limits_trail import Trail, trail_of

ACCEPTED_WEIGHT = 20
"""An accepted attempt speaks against both limiters, a 429 against one."""
OVER_MAX = 0.01
"""Share of the accepted attempts that may have found no room in either."""
LEAST_OWN = 20
"""429s that only one of the two explains, needed of each."""
TRIED = 4
TOLERANCE = 1e-6


def two_limits(attempts: Attempts, trail: Trail) -> tuple[Decision, ...]:
    """Two limiters that explain all 429s together, or none."""
    accepted = int(trail.accepted.sum())
    weighted = all_fits(replace(trail, accepted_weight=ACCEPTED_WEIGHT))
    seen: set[str | None] = set()
    for fit in weighted:
        if len(seen) >= TRIED or fit.threshold.accepted_over > OVER_MAX * accepted:
            continue
        if fit.kind.quantity in seen:
            continue
        seen.add(fit.kind.quantity)
        found = _completed(attempts, fit)
        if found:
            return found
    return ()


def _completed(attempts: Attempts, fit: Fit) -> tuple[Decision, ...]:
    """A second limiter beside this one, and this one again beside the second."""
    second = _beside(attempts, fit)
    if second is None or second.rivals[0].kind.quantity == fit.kind.quantity:
        return ()
    first = _beside(attempts, second.rivals[0])
    if first is None or first.rivals[0].kind.quantity != fit.kind.quantity:
        return ()
    return first, second


def _beside(attempts: Attempts, fit: Fit) -> Decision | None:
    """What explains the 429s that came with room in the first limiter."""
    explained = _explained(attempts, fit)
    left = int((attempts.limited & ~explained).sum())
    if left < LEAST_OWN or int(explained.sum()) < LEAST_OWN:
        return None
    rest = decided(replace(attempts, limited=attempts.limited & ~explained))
    return rest if rest.rivals else None


def _explained(attempts: Attempts, fit: Fit) -> Bools:
    """429s that found the limiter used up, in the attempts' own order."""
    trail = trail_of(attempts, every=True)
    fill = fill_of(trail, shape_of(fit))
    explained = np.zeros(len(attempts), dtype=np.bool_)
    if fill is not None:
        rows = np.flatnonzero(attempts.accepted | attempts.limited)
        rows = rows[np.argsort(attempts.sent_s[rows], kind="stable")]
        limit = fit.threshold.low * (1 + TOLERANCE)
        explained[rows] = ~trail.accepted & (fill[1] > limit)
    return explained
